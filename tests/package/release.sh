#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The tarball of `make release`: what it holds, that it needs nothing of the machine, and that its
# program does what the dynamically linked one does. Prints TAP.
#   tests/package/release.sh           needs a build; some things only root can try
#   tests/package/release.sh --long    also in a Debian 11 (made once, build/debian11), on a training
#                                      watched from there, and built anew elsewhere
# shellcheck disable=SC2317 # functions are called by name, through check
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib/common.sh
. tests/lib/common.sh
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh

TOOL=build/dlprof-bpf
# the oldest C library that Debian still has, and one that no function of ours has been linked with
OLD_SUITE=bullseye
OLD_ROOT=$PWD/build/debian11
# groups of the integration tests in which every figure is compared with the job's own
TRAINING='^(accuracy wheel workers=2|launch, for another user)$'
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
version=$("$TOOL" --version | sed 's/^dlprof-bpf //')
release=dlprof-bpf-$version-linux-$(uname -m)
tarball=build/$release.tar.gz
there=$work/empty/$release/bin/dlprof-bpf

# ---- the tarball ---------------------------------------------------------------------------------
FILES='INSTALL
bin/dlprof-bpf
share/bash-completion/completions/dlprof-bpf
share/doc/dlprof-bpf/LICENSE
share/doc/dlprof-bpf/README.md
share/man/man8/dlprof-bpf.8'
LICENCES='libbpf-dev
libc6-dev
libcap-dev
libelf-dev
libjansson-dev
libzstd-dev
zlib1g-dev'

# What the tool is linked with, and the C library: "bpf c cap ..."
libraries() {
	{
		sed -n 's/^LDLIBS := //p' Makefile | tr ' ' '\n' | sed 's/^-l//'
		printf 'c\n'
	} | sort | paste -sd ' '
}

sum_is_right() {
	(cd build && sha256sum --quiet -c "$release.tar.gz.sha256")
}

# Nobody's clock, language, mask or order of files is in it.
same_bytes_again() {
	cp "$tarball" "$work/first"
	(umask 077 && TZ=Asia/Tokyo LC_ALL=C make -s release) && cmp "$work/first" "$tarball"
}

install_text_is_filled() {
	! grep -n '@' "$work/empty/$release/INSTALL" && grep -qF "$release.tar.gz" "$work/empty/$release/INSTALL"
}

check_tarball() {
	rm -f "$tarball" "$tarball.sha256"
	check 'make release' make -s release
	check 'it has the name of the version' test -f "$tarball" || return 1
	check 'its sum' sum_is_right
	check 'made again it has the same bytes' same_bytes_again
	same 'all in it is in one folder and belongs to root' \
		"$(tar --numeric-owner -tvzf "$tarball" | awk '{ sub("/.*", "", $6); print $2, $6 }' | sort -u)" \
		"0/0 $release"
	mkdir "$work/empty"
	check 'it can be unpacked' tar -xzf "$tarball" -C "$work/empty" || return 1
	same 'it holds' "$(files_under "$work/empty/$release" | grep -v /licences/)" "$FILES"
	same 'and the licences of what is linked in' "$(ls "$work/empty/$release/share/doc/dlprof-bpf/licences")" \
		"$LICENCES"
	same 'which are those of all libraries of the tool' "$(sed -n "s/^LIBRARIES='\(.*\)'/\1/p" packaging/release.sh)" \
		"$(libraries)"
	check 'how to install it names the files' install_text_is_filled
}

# ---- the program ---------------------------------------------------------------------------------
# Neither a loader nor a library is asked for, and it can be put anywhere in memory.
is_static() {
	local headers

	headers=$(readelf -hlW "$1") && grep -q 'Type: *DYN' <<<"$headers" &&
		! grep -q INTERP <<<"$headers" && ! readelf -dW "$1" | grep NEEDED &&
		ldd "$1" | grep -q 'statically linked'
}

file_says_static() {
	file -b "$1" | grep -qE 'static-pie linked|statically linked'
}

# One line a recording: its name and the sum of the summary.
summaries() {
	local recording

	rm -f "$work/summary.json"
	for recording in tests/data/*.dlp; do
		"$1" replay "$recording" --summary "$work/summary.json" >"$work/text" || return 1
		printf '%s %s %s\n' "$recording" "$(sha256sum <"$work/summary.json")" "$(sha256sum <"$work/text")"
		rm "$work/summary.json"
	done
}

# What could be seen, without the words for it.
doctor_rows() {
	"$1" doctor | awk '$1 ~ /^(ok|fallback|missing|not)/ { print $1, $2 }'
	printf 'status %d\n' "${PIPESTATUS[0]}"
}

# Nothing is there but the program itself.
runs_alone() {
	local root=$work/alone

	mkdir -p "$root"
	cp "$there" "$root/dlprof-bpf"
	same_text "$(chroot "$root" /dlprof-bpf --version)" "dlprof-bpf $version"
}

same_text() {
	[ "$1" = "$2" ] && return 0
	printf 'got    %s\nwanted %s\n' "$1" "$2"
	return 1
}

check_program() {
	check 'the program needs no library' is_static "$there"
	if command -v file >/dev/null; then
		check 'file(1) says so, too' file_says_static "$there"
	else
		skip 'file(1) says so, too' 'file is not installed'
	fi
	same 'it says its version' "$("$there" --version)" "dlprof-bpf $version"
	same 'it prints its help' "$("$there" --help)" "$("$TOOL" --help)"
	same 'doctor finds the same' "$(doctor_rows "$there")" "$(doctor_rows "$TOOL")"
	same 'the same summaries and texts of all recordings' "$(summaries "$there")" "$(summaries "$TOOL")"
	same 'of which there are' "$(summaries "$there" | grep -c dlp)" "$(find tests/data -name '*.dlp' | wc -l)"
	if is_root; then
		check 'it runs where there is no other file' runs_alone
	else
		skip 'it runs where there is no other file' 'needs root'
	fi
}

# ---- Debian 11 -----------------------------------------------------------------------------------
# The mirror that apt uses here.
mirror() {
	# shellcheck disable=SC2016 # apt's own
	apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1
}

# Why there is none; empty when there is.
no_old_root() {
	local log=build/debian11.log

	[ ! -x "$OLD_ROOT/usr/bin/ldd" ] || return 0
	if ! is_root; then
		printf 'needs root'
		return
	fi
	rm -rf "$OLD_ROOT.new"
	if tests/deps.sh release >"$log" 2>&1 &&
		debootstrap --variant=minbase "$OLD_SUITE" "$OLD_ROOT.new" "$(mirror)" >"$log" 2>&1; then
		mv "$OLD_ROOT.new" "$OLD_ROOT"
	else
		printf 'debootstrap cannot make it: %s (log: %s)' "$(tail -n 1 "$log" 2>/dev/null)" "$log"
	fi
}

# in_old_root COMMAND...: with /proc, /sys and the folder of temporary files, undone with the namespace
in_old_root() {
	# shellcheck disable=SC2016 # for that shell
	unshare --mount --propagation private bash -euc '
		root=$1 tmp=$2
		shift 2
		for folder in proc sys dev; do
			mount --rbind "/$folder" "$root/$folder"
		done
		mount -t tmpfs tmpfs "$root/tmp"
		mkdir -p "$root$tmp"
		mount --bind "$tmp" "$root$tmp"
		exec chroot "$root" "$@"' bash "$OLD_ROOT" "$work" "$@"
}

# A stand-in for the tool, which runs the released one in the old root.
make_stand_in() {
	cp "$there" "$OLD_ROOT/usr/local/bin/dlprof-bpf"
	{
		printf '#!/usr/bin/env bash\nset -- /usr/local/bin/dlprof-bpf "$@"\n'
		declare -f in_old_root
		printf 'OLD_ROOT=%q work=%q\nin_old_root "$@"\n' "$OLD_ROOT" "$work"
	} >"$work/tool"
	chmod 755 "$work/tool"
}

# The tests of real training, with the jobs here and the tool there.
watches_training() {
	local python

	python=$(find_python) || {
		printf 'no Python with torch (make deps installs one)\n'
		return 1
	}
	TMPDIR=$work "$python" tests/integration/run.py --python "$python" --tool "$1" -k "$2" >"$work/log" 2>&1 &&
		! grep -q SKIP "$work/log" && return 0
	cat "$work/log"
	return 1
}

check_old() {
	local reason

	reason=$(no_old_root)
	if [ -n "$reason" ]; then
		skip 'in Debian 11' "$reason"
		return
	fi
	make_stand_in
	check 'Debian 11 has another C library' test "$(in_old_root ldd --version | head -n 1)" != \
		"$(ldd --version | head -n 1)"
	check 'the dynamically linked program does not run there' dynamic_fails
	same 'in Debian 11: version' "$("$work/tool" --version)" "dlprof-bpf $version"
	same 'in Debian 11: help' "$("$work/tool" --help)" "$("$TOOL" --help)"
	same 'in Debian 11: doctor' "$(doctor_rows "$work/tool")" "$(doctor_rows "$TOOL")"
	same 'in Debian 11: a command runs as the user behind sudo' "$(as_old_user)" \
		'old-user 54321 54322 /home/old-user'
	check 'in Debian 11: a training is seen exactly' watches_training "$work/tool" '^accuracy wheel workers=2$'
}

# Name, groups and home are only in the old root's own files.
as_old_user() {
	grep -q old-user "$OLD_ROOT/etc/passwd" || {
		printf 'old-user:x:54321:54321::/home/old-user:/bin/sh\n' >>"$OLD_ROOT/etc/passwd"
		printf 'old-group:x:54322:old-user\n' >>"$OLD_ROOT/etc/group"
	}
	# shellcheck disable=SC2016 # for that shell
	SUDO_UID=54321 SUDO_GID=54321 "$work/tool" --quiet -- sh -c 'echo "$(id -un) $(id -G) $HOME"' 2>/dev/null
}

dynamic_fails() {
	cp "$TOOL" "$OLD_ROOT/usr/local/bin/dynamic"
	! in_old_root /usr/local/bin/dynamic --version
}

# ---- once more, elsewhere ------------------------------------------------------------------------
# The sources in another folder, which is no repository, built from nothing, give the same tarball.
same_bytes_elsewhere() {
	local elsewhere=$work/elsewhere/deep epoch

	mkdir -p "$elsewhere"
	tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C "$elsewhere" || return 1
	epoch=$(stat -c %Y "$work/empty/$release/INSTALL")
	SOURCE_DATE_EPOCH=$epoch make -s -C "$elsewhere" release >"$work/log" 2>&1 || {
		tail -n 20 "$work/log"
		return 1
	}
	cmp "$tarball" "$elsewhere/$tarball"
}

if check_tarball; then
	check_program
	if [ "${1:-}" = --long ]; then
		check 'built anew in another folder it has the same bytes' same_bytes_elsewhere
		if is_root; then
			check 'a training is seen exactly' watches_training "$there" "$TRAINING"
		else
			skip 'a training is seen exactly' 'needs root'
		fi
		check_old
	fi
fi
tap_end
