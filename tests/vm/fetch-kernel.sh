#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/fetch-kernel.sh SUITE ARCH: downloads the kernel of a Debian suite and prints the folder
# it is in: vmlinuz, version, modules/ (the few that a test boot needs). What is in the cache is not
# looked up again; remove the folder to get the suite's newest.
set -euo pipefail
# shellcheck source=tests/vm/apt.sh
. "$(dirname "$0")/apt.sh"

[ $# -eq 2 ] || die 'usage: tests/vm/fetch-kernel.sh SUITE ARCH'
suite=$1 arch=$2
out=$VM_CACHE/$suite-$arch

# In the order in which the guest loads them; what is missing is built in, or unknown to that kernel.
MODULES='failover net_failover virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev
	virtio_pci virtio_mmio virtio_blk crc16 crc32c_generic crc32c-cryptoapi libcrc32c mbcache jbd2
	ext4 netfs fscache 9pnet 9pnet_virtio 9p overlay'

# The meta package depends on the newest kernel, which newer suites split into several packages.
kernel_packages() {
	local todo=("linux-image-$arch") name next found=' '

	while [ ${#todo[@]} -gt 0 ]; do
		name=${todo[0]}
		todo=("${todo[@]:1}")
		[[ $found != *" $name "* ]] || continue
		found+="$name "
		while read -r next; do
			todo+=("$next")
		done < <(apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks \
			--no-replaces --no-enhances "$name" |
			awk '$1 == "Depends:" && $2 ~ /^linux-(image|binary|modules|base)-[0-9]/ { print $2 }')
	done
	printf '%s\n' "$found"
}

keep_modules() {
	local root=$1 name file at=10

	for name in $MODULES; do
		file=$(find "$root" -path '*/modules/*' -name "$name.ko*" -print -quit)
		case $file in
		'') continue ;;
		*.xz) xz -dc "$file" >"$out/modules/$at-$name.ko" ;;
		*.zst) zstd -dcq "$file" >"$out/modules/$at-$name.ko" ;;
		*) cp "$file" "$out/modules/$at-$name.ko" ;;
		esac
		at=$((at + 1))
	done
}

if [ -s "$out/version" ]; then
	printf '%s\n' "$out"
	exit 0
fi
set_up_apt "$suite" "$arch"
packages=$(kernel_packages)
tmp=$(mktemp -d "$VM_CACHE/unpack.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2086 # one word per package
(cd "$tmp" && apt-get download -qq $packages >&2) || die "cannot download:$packages"
for deb in "$tmp"/*.deb; do
	dpkg-deb -x "$deb" "$tmp/root"
done
image=$(find "$tmp/root" -type f -name 'vmlinuz*' -print -quit)
modules=$(find "$tmp/root" -type d -path '*/modules/*/kernel' -print -quit)
if [ -z "$image" ] || [ -z "$modules" ]; then
	die "no kernel in:$packages"
fi
rm -rf "$out"
mkdir -p "$out/modules"
keep_modules "$tmp/root"
cp "$image" "$out/vmlinuz"
# last: it says that the folder is complete
basename "${modules%/kernel}" >"$out/version"
printf '%s\n' "$out"
