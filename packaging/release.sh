#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Packs a copy of TREE, into which `make install` has put the statically linked program:
#   packaging/release.sh TREE VERSION FOLDER    writes FOLDER/dlprof-bpf-VERSION-linux-MACHINE.tar.gz
# and .sha256 beside it. The same sources and libraries give the same bytes: all times in it are
# SOURCE_DATE_EPOCH=, else that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGE=dlprof-bpf
# what is linked in, and whose licences ask for their texts to go along
LIBRARIES='bpf c cap elf jansson m z zstd'

say() {
	printf 'release: %s\n' "$*" >&2
}

[ $# -eq 3 ] || {
	printf 'usage: packaging/release.sh TREE VERSION FOLDER\n' >&2
	exit 2
}
binary=$1/bin/$PACKAGE version=$2 folder=$3
for tool in readelf strip tar gzip dpkg-query; do
	command -v "$tool" >/dev/null || {
		say "$tool is not installed (a release is made on Debian: apt-get install binutils dpkg)"
		exit 1
	}
done
if readelf -lW "$binary" | grep -q INTERP; then
	say "$binary needs libraries where it runs: use make release"
	exit 1
fi
machine=$(readelf -hW "$binary" | sed -n 's/^ *Machine: *//p')
case $machine in
*X86-64*) machine=x86_64 ;;
AArch64) machine=aarch64 ;;
*)
	say "$binary is for an unknown machine: $machine"
	exit 1
	;;
esac
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile)}
name=$PACKAGE-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/$name
umask 022

# The package that a static library is from; its file's name is the resolved one.
package_of() {
	local archive

	archive=$(realpath "$("${CC:-gcc}" -print-file-name="lib$1.a")")
	dpkg-query -S "$archive" 2>/dev/null | sed 's/:.*//' | head -n 1
}

# One text for each package whose code is in the binary.
licences() {
	local to=$1 library package

	mkdir -p "$to"
	for library in $LIBRARIES; do
		package=$(package_of "$library")
		if [ -z "$package" ] || [ ! -r "/usr/share/doc/$package/copyright" ]; then
			say "the licence of lib$library.a was not found: it must be from a Debian package"
			exit 1
		fi
		cp "/usr/share/doc/$package/copyright" "$to/$package"
	done
	chmod 644 "$to"/*
}

cp -r "$1" "$tree"
strip --strip-unneeded --remove-section=.comment "$tree/bin/$PACKAGE"
licences "$tree/share/doc/$PACKAGE/licences"
sed -e '1d' -e "s/@NAME@/$name/g" -e "s/@VERSION@/$version/g" packaging/INSTALL.in >"$tree/INSTALL"

mkdir -p "$folder"
tar --create --directory "$work" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
	--format=ustar "$name" | gzip -9n >"$work/$name.tar.gz"
(cd "$work" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
mv "$work/$name.tar.gz" "$work/$name.tar.gz.sha256" "$folder"
