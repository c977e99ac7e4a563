#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/run.sh SUITE[:ARCH] PYTHON TIER...: one boot of a suite's kernel, all tiers in it
# (guest.sh). Prints TAP. A kernel that cannot be had or booted here is a skip, with the reason; what
# the kernel warns of is a failure. Of another machine's kernel (arm64) programs and Python are that
# machine's: built here, and Debian's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

LIMIT_S=${VM_LIMIT_S:-2400}
BOOTS=3
# the one whose libraries are no newer than those that are built with here
ROOT_SUITE=bookworm

skip() {
	printf '1..0 # SKIP %s\n' "$1"
	exit 0
}

suite=${1%:*} python=$2
own=$(dpkg --print-architecture 2>/dev/null)
case $1 in
*:*) arch=${1#*:} ;;
*) arch=$own ;;
esac
shift 2
[ "$own" = amd64 ] || skip 'kernels are booted on amd64 only'
commands='busybox cpio mke2fs'
case $arch in
arm64) commands+=' qemu-system-aarch64 aarch64-linux-gnu-gcc' ;;
*) commands+=' qemu-system-x86_64' ;;
esac
for command in $commands; do
	PATH=$PATH:/sbin:/usr/sbin command -v "$command" >/dev/null ||
		skip "$command is not installed (make deps-vm)"
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
kernel=$(tests/vm/fetch-kernel.sh "$suite" "$arch" 2>"$log") ||
	skip "kernel of $suite for $arch: $(tail -n 1 "$log")"
build=build
if [ "$arch" != "$own" ]; then
	VM_ROOT=$(tests/vm/fetch-root.sh "$ROOT_SUITE" "$arch" 2>"$log") ||
		skip "files of $ROOT_SUITE for $arch: $(tail -n 1 "$log")"
	export VM_ROOT
	build=build/$arch python=/usr/bin/python3
	if ! make "-j$(nproc)" ARCH="$arch" CROSS_COMPILE=aarch64-linux-gnu- SYSROOT="$VM_ROOT" \
		all build-bpf "$build/dlprof-bpf-static" >"$log" 2>&1; then
		sed 's/^/# /' "$log"
		printf 'not ok - build for %s\n1..1\n' "$arch"
		exit 1
	fi
fi

boot() {
	# shellcheck disable=SC2016 # for the guest's shell
	tests/vm/boot.sh "$kernel" "$LIMIT_S" /bin/bash -c \
		'cd "$1" && shift && exec tests/vm/guest.sh "$@"' guest "$PWD" "$finished" "$build" "$python" "$@" \
		2>"$log"
}

# Emulated CPUs can execute an instruction that the kernel has just replaced (a jump label's int3),
# which no real one does: the guest dies of it. What it had not come to is run in another.
finished='|'
for ((boots = 1; ; boots++)); do
	emulator_fault=0
	while IFS= read -r line; do
		case $line in
		'# kernel: '*) printf 'not ok - the kernel warns: %s\n' "${line#\# kernel: }" ;;
		'# status '*) status=${line##* } ;;
		'# '*' s, '*' runs')
			finished+=$(expr "$line" : '# \(.*\): ')'|'
			printf '%s\n' "$line"
			;;
		*)
			[[ $line != *'int3: 0000'* ]] || emulator_fault=1
			printf '%s\n' "$line"
			;;
		esac
	done < <(boot "$@"; printf '# status %d\n' "$?")
	if [ "$status" -ne 125 ] || [ "$boots" -eq "$BOOTS" ] || [ "$emulator_fault" -eq 0 ]; then
		break
	fi
	printf '# again: int3 without a cause in the kernel, a fault of the emulator\n'
done
if [ "$status" -ne 0 ]; then
	sed 's/^/# /' "$log"
	printf 'not ok - the guest ended with status %d\n' "$status"
fi
