#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/guest.sh FINISHED BUILD_FOLDER PYTHON TIER...: runs in the guest, where everything is slow.
# Tiers: bpf, bpf-short, clock (the programs of tests/bpf; clock is the one of the state clock),
# training. FINISHED: programs to leave out, each between bars. Prints TAP, each test's name preceded by
# tier and program.
set -uo pipefail

PROGRAM_LIMIT_S=300
TRAINING_LIMIT_S=900
# An emulated CPU stands still for milliseconds when the machine's own do something else: a program
# with failures is run again, and a test that passes in one of the runs was disturbed in the others.
RUNS=3
# those on which all others stand
SHORT=(load scopes)
export CMOCKA_MESSAGE_OUTPUT=TAP PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export DLPROF_TEST_PATIENCE=10

# run_program NAME COMMAND...
run_program() {
	local name=$1 start=$SECONDS run status

	[[ $finished != *"|$name|"* ]] || return
	shift
	: >"$all"
	for ((run = 1; ; run++)); do
		timeout "$PROGRAM_LIMIT_S" "$@" >"$one" 2>&1
		status=$?
		cat "$one" >>"$all"
		if [ "$status" -eq 0 ] || [ "$run" -eq "$RUNS" ]; then
			break
		fi
		grep -v '^ok ' "$one" | sed 's/^/# again: /'
	done
	awk -v name="$name" -v status="$status" -f tests/vm/best.awk "$all"
	printf '# %s: %d s, %d runs\n' "$name" "$((SECONDS - start))" "$run"
}

# where processes have other numbers than the kernel's; a shell is the first of them
in_namespace() {
	# shellcheck disable=SC2016 # for that shell
	run_program "bpf/test_process in a pid namespace" unshare --pid --fork --kill-child --mount-proc \
		sh -c '"$@"; exit $?' sh "$build/tests/bpf/test_process"
}

run_bpf() {
	local program test

	for program in "$build"/tests/bpf/test_*; do
		test=$(basename "$program")
		case $test in
		*.[od] | test_clock) continue ;;
		esac
		if [ $# -eq 0 ] || [[ " $* " == *" ${test#test_} "* ]]; then
			run_program "bpf/$test" "$program"
		fi
	done
	if [ $# -eq 0 ]; then
		in_namespace
	fi
}

# An emulated CPU may run into the int3 by which another is just changing a jump in the scheduler (see
# run.sh): two of three boots of 6.12 died of it. What changes there are perf's switch, turned on by the
# first event of a task, and the scheduler's tracepoints, up to their second user. All are there from
# the beginning, so that nothing is left to change.
hold_jumps() {
	local folder event

	perl -e '$attr = pack("LLQx48", 1, 64, 9); # a software event, PERF_COUNT_SW_DUMMY
		syscall(298, $attr, 0, -1, -1, 0) >= 0 or die "perf_event_open: $!\n"; sleep' &
	mkdir -p /sys/kernel/tracing/instances/hold
	for folder in /sys/kernel/tracing /sys/kernel/tracing/instances/hold; do
		echo 0 >"$folder/tracing_on"
		for event in sched_switch sched_wakeup sched_wakeup_new; do
			echo 1 >"$folder/events/sched/$event/enable"
		done
	done
}

finished=$1 build=$2 python=$3
shift 3
[ "$(uname -m)" != x86_64 ] || hold_jumps
one=$(mktemp)
all=$(mktemp)
for tier in "$@"; do
	case $tier in
	bpf) run_bpf ;;
	bpf-short) run_bpf "${SHORT[@]}" ;;
	clock) run_program clock/test_clock "$build/tests/bpf/test_clock" ;;
	training)
		# it runs what fails again itself
		RUNS=1 PROGRAM_LIMIT_S=$TRAINING_LIMIT_S
		run_program training "$python" tests/vm/training.py --tool "$build/dlprof-bpf"
		;;
	esac
done
