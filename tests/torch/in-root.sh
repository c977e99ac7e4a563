#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs COMMAND with the files of another system, which lie in the folder ROOT: to be started by
# unshare --mount, with whose namespace all that is mounted here vanishes. It has a /tmp of its own;
# each FOLDER is the same as outside.
#   in-root.sh ROOT FOLDER... -- COMMAND...
set -eu
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
while [ "$1" != -- ]; do
	mkdir -p "$root$1"
	mount --bind "$1" "$root$1"
	shift
done
shift
exec chroot "$root" "$@"
