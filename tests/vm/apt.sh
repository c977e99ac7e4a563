# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Sourced by the scripts that fetch what a guest is made of. Nothing is installed: there is an apt of
# their own below the cache (VM_CACHE=, else ~/.cache/dlprof-vm), with the mirror of this machine's.

VM_CACHE=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dlprof-vm}

die() {
	printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
	exit 1
}

# set_up_apt SUITE ARCH: exports APT_CONFIG; apt-get then knows the suite and believes that nothing
# is installed
set_up_apt() {
	local suite=$1 arch=$2 apt=$VM_CACHE/apt/$1-$2 mirror

	command -v apt-get >/dev/null || die 'there is no apt-get here'
	# shellcheck disable=SC2016 # apt's own variables
	mirror=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "main" && $2 !~ /security/ && !found { found = $2 } END { print found }')
	[ -n "$mirror" ] || die "apt's configuration names no Debian mirror"
	mkdir -p "$apt"/{lists/partial,archives/partial,etc}
	: >"$apt/status"
	printf 'deb [arch=%s] %s %s main\n' "$arch" "$mirror" "$suite" >"$apt/etc/sources.list"
	cat >"$apt/etc/apt.conf" <<-CONF
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		APT::Install-Recommends "false";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Dir::State "$apt";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt";
		Dir::Etc::sourcelist "$apt/etc/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
	CONF
	export APT_CONFIG=$apt/etc/apt.conf
	apt-get update -qq --error-on=any >&2 || die "the mirror has no $suite for $arch, or cannot be reached"
}
