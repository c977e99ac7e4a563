#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/guest.sh BUILD_FOLDER PYTHON TIER...: runs in the guest, where everything is slow. Tiers:
# bpf, clock (the programs of tests/bpf; clock is the one of the state clock), training. Prints TAP,
# each test's name preceded by tier and program.
set -uo pipefail

PROGRAM_LIMIT_S=${VM_PROGRAM_LIMIT_S:-240}
TRAINING_LIMIT_S=900
export CMOCKA_MESSAGE_OUTPUT=TAP PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DLPROF_TEST_PATIENCE=10

# prefixed NAME COMMAND...: cmocka writes "ok 1 - name" and "not ok 1 # SKIP name"
prefixed() {
	local name=$1 start=$SECONDS status

	shift
	"$@" 2>&1 | sed -uE "s|^((not )?ok( [0-9]+)? (- \|# SKIP ))|\\1$name: |"
	status=${PIPESTATUS[0]}
	printf '# %s: status %d, %d s\n' "$name" "$status" "$((SECONDS - start))"
	# a program that died in the middle of its plan must not look well
	[ "$status" -le 1 ] || printf 'not ok - %s: ended with status %d\n' "$name" "$status"
}

build=$1 python=$2
shift 2
for tier in "$@"; do
	case $tier in
	bpf)
		for program in "$build"/tests/bpf/test_*; do
			case $program in
			*.[od] | */test_clock) ;;
			*) prefixed "bpf/$(basename "$program")" timeout "$PROGRAM_LIMIT_S" "$program" ;;
			esac
		done
		;;
	clock) prefixed clock timeout "$PROGRAM_LIMIT_S" "$build/tests/bpf/test_clock" ;;
	training)
		prefixed training timeout "$TRAINING_LIMIT_S" "$python" tests/vm/training.py \
			--tool "$build/dlprof-bpf"
		;;
	esac
done
