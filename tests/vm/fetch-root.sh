#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/fetch-root.sh SUITE ARCH: a folder with Debian's files of another machine or suite, and
# prints its name: what the tests there are linked with and run with, and a Python with torch.
# Packages are unpacked, not installed. Kept in the cache; some 240 MB come over the network, 1.1 GB
# stay.
set -euo pipefail
# shellcheck source=tests/vm/apt.sh
. "$(dirname "$0")/apt.sh"

PACKAGES='base-files bash busybox-static coreutils gawk grep sed util-linux
	libc6-dev libbpf-dev libelf-dev zlib1g-dev libzstd-dev libjansson-dev libcap-dev libcmocka-dev
	python3 python3-numpy python3-torch'

[ $# -eq 2 ] || die 'usage: tests/vm/fetch-root.sh SUITE ARCH'
suite=$1 arch=$2
out=$VM_CACHE/root-$suite-$arch

# What the packages' own scripts would have done, as far as it is needed.
finish_root() {
	local root=$1 name lib

	ln -sf gawk "$root/usr/bin/awk"
	[ -e "$root/bin/sh" ] || ln -s bash "$root/bin/sh"
	for name in blas lapack; do
		lib=$(find "$root/usr/lib" -path "*/$name/lib$name.so.3" -print -quit)
		[ -z "$lib" ] || ln -sf "$name/lib$name.so.3" "$(dirname "$(dirname "$lib")")/lib$name.so.3"
	done
	mkdir -p "$root"/{proc,sys,dev,run,tmp,root,var/tmp}
	printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\n' >"$root/etc/group"
}

if [ -e "$out/complete" ]; then
	printf '%s\n' "$out"
	exit 0
fi
set_up_apt "$suite" "$arch"
archives=$VM_CACHE/apt/$suite-$arch/archives
# shellcheck disable=SC2086 # one word per package
apt-get install -qq -y --download-only $PACKAGES >&2 || die "cannot download: $(printf '%s ' $PACKAGES)"
rm -rf "$out"
mkdir -p "$out"
for deb in "$archives"/*.deb; do
	dpkg-deb -x "$deb" "$out"
done
rm -f "$archives"/*.deb
finish_root "$out"
: >"$out/complete"
printf '%s\n' "$out"
