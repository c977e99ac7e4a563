#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs COMMAND in what a container engine would make: to be started by unshare --mount, with the other
# namespaces that are wanted. Its root is an overlay over ours, on which nothing that it writes is
# seen outside; the virtual environment VENV lies at /opt/in-container, which is nowhere else, and
# each FOLDER is the same as outside.
#   container.sh BASE VENV FOLDER... -- COMMAND...      BASE: an empty folder
set -eu
base=$1 venv=$2
shift 2

# overlay LOWER MOUNTPOINT NAME
overlay() {
	mkdir -p "$2" "$base/$3.upper" "$base/$3.work"
	mount -t overlay "$3" -o "lowerdir=$1,upperdir=$base/$3.upper,workdir=$base/$3.work" "$2"
}

mount -t tmpfs tmpfs "$base"
root=$base/root
overlay / "$root" root
overlay "$venv" "$root/opt/in-container" venv
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
	mkdir -p "$root$1"
	mount --bind "$1" "$root$1"
	shift
done
shift
cd "$root"
pivot_root . .
umount -l .
cd /
exec "$@"
