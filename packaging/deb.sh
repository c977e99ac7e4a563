#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds a Debian package of what `make install` installs, without root:
#   packaging/deb.sh BINARY VERSION FOLDER     writes FOLDER/dlprof-bpf_VERSION_ARCH.deb
# Whose package it is: DEBFULLNAME= and DEBEMAIL=, as Debian's own tools take them.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGE=dlprof-bpf

[ $# -eq 3 ] || {
	printf 'usage: packaging/deb.sh BINARY VERSION FOLDER\n' >&2
	exit 2
}
binary=$1 version=$2 folder=$3
for tool in dpkg dpkg-deb; do
	command -v "$tool" >/dev/null || {
		printf 'deb: %s is not installed (apt-get install dpkg-dev)\n' "$tool" >&2
		exit 1
	}
done
maintainer="${DEBFULLNAME:-the dlprof-bpf authors} <${DEBEMAIL:-root@$(hostname)}>"
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
umask 022

# What libraries it needs, in Debian's words: from the symbols it uses, else from their files.
depends() {
	local library package

	if command -v dpkg-shlibdeps >/dev/null; then
		mkdir -p "$work/debian"
		: >"$work/debian/control"
		(cd "$work" && dpkg-shlibdeps -O "$1" 2>/dev/null) | sed 's/^shlibs:Depends=//'
		return
	fi
	ldd "$1" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
		# merged /usr: the package may know the library by its other path
		package=$(dpkg -S "$library" 2>/dev/null || dpkg -S "${library#/usr}" 2>/dev/null)
		printf '%s\n' "${package%%:*}"
	done | sort -u | paste -sd, | sed 's/,/, /g'
}

# Debian has the text of the GPL for all packages in one place.
copyright() {
	local license=LICENSE

	cat <<-HEAD
		Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
		Upstream-Name: $PACKAGE

		Files: *
		Copyright: $(sed -n 's/^Copyright (c) //p' "$license" | head -n 1)
		License: GPL-2.0-only or BSD-2-Clause

		License: GPL-2.0-only
		 On Debian systems the text of the GNU General Public License, version 2, is
		 in /usr/share/common-licenses/GPL-2.

		License: BSD-2-Clause
	HEAD
	awk '/^=+$/ { next }
		$0 == "GPL-2.0-only" { exit }
		on && NF { text = text (gap ? " .\n" : "") " " $0 "\n"; gap = 0; next }
		on && text { gap = 1 }
		$0 == "BSD-2-Clause" { on = 1 }
		END { printf "%s", text }' "$license"
}

make -s install DESTDIR="$tree" PREFIX=/usr >/dev/null
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/$PACKAGE"
gzip -9n "$tree/usr/share/man/man8/$PACKAGE.8"

doc=$tree/usr/share/doc/$PACKAGE
rm "$doc/LICENSE"
copyright >"$doc/copyright"
date=$(LC_ALL=C date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$binary")}" '+%a, %d %b %Y %H:%M:%S %z')
printf '%s (%s) unstable; urgency=medium\n\n  * See README.md.\n\n -- %s  %s\n' "$PACKAGE" "$version" \
	"$maintainer" "$date" | gzip -9n >"$doc/changelog.gz"

mkdir -p "$tree/DEBIAN"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: $PACKAGE
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$tree/usr" | cut -f 1)
Depends: $(depends "$tree/usr/bin/$PACKAGE")
Section: devel
Priority: optional
Description: tells whether, and why, PyTorch training waits for data
 It watches a running PyTorch training job from outside, through eBPF, and says
 whether the training thread waits for data, what those who make the data spend
 their time on, and what should be changed. The job is not changed, stopped or
 restarted.
CONTROL
mkdir -p "$folder"
dpkg-deb --root-owner-group --build "$tree" "$folder/${PACKAGE}_${version}_$arch.deb" >/dev/null
