#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/run.sh SUITE PYTHON TIER...: one boot of a suite's kernel, all tiers in it (guest.sh).
# Prints TAP. A kernel that cannot be had or booted here is a skip, with the reason; what the kernel
# warns of is a failure.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

LIMIT_S=${VM_LIMIT_S:-2400}

skip() {
	printf '1..0 # SKIP %s\n' "$1"
	exit 0
}

suite=$1 python=$2
shift 2
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || skip 'only amd64 kernels are booted'
for command in qemu-system-x86_64 busybox cpio mke2fs; do
	PATH=$PATH:/sbin:/usr/sbin command -v "$command" >/dev/null ||
		skip "$command is not installed (make deps-vm)"
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
kernel=$(tests/vm/fetch-kernel.sh "$suite" 2>"$log") ||
	skip "kernel of $suite: $(tail -n 1 "$log")"
# shellcheck disable=SC2016 # for the guest's shell
tests/vm/boot.sh "$kernel" "$LIMIT_S" /bin/bash -c \
	'cd "$1" && shift && exec tests/vm/guest.sh build "$@"' guest "$PWD" "$python" "$@" 2>"$log" |
	while IFS= read -r line; do
		printf '%s\n' "$line"
		case $line in
		'# kernel: '*) printf 'not ok - the kernel warns: %s\n' "${line#\# kernel: }" ;;
		esac
	done
status=${PIPESTATUS[0]}
if [ "$status" -ne 0 ]; then
	sed 's/^/# /' "$log"
	printf 'not ok - the guest ended with status %d\n' "$status"
fi
