#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs the tests and counts each one: tests/run.sh [lint|unit|valgrind-short|fuzz-short|package|bpf|
# vm-short|integration|scenarios-short|scenarios|robust|release|valgrind|vm|torch]... (default: all but
# the last six, which take long).
# Prints the output of what failed and the reason of what was skipped; the last line is
# "N passed, N failed, N skipped". Ends with 1 when anything failed or nothing ran. Full output of
# every program: build/test-logs/.
# shellcheck disable=SC2317 # functions are called by name, as tier_NAME and from traps
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/lib/common.sh
. tests/lib/common.sh

LOGS=build/test-logs
JOBS=$(nproc)
# in what every process of a test inherits, so that whatever it leaves behind can be found
MARK="$$.$(date +%s)"
passed=0
failed=0
skipped=0
failures=()
skips=()
current=

pass() {
	passed=$((passed + 1))
}

fail() {
	failed=$((failed + 1))
	failures+=("$1")
}

skip() {
	skipped=$((skipped + 1))
	skips+=("$1: ${2:-no reason given}")
}

marked_pids() {
	grep -lsz "^DLP_TEST_RUN=$MARK\$" /proc/[0-9]*/environ | sed 's|/proc/||; s|/environ||'
}

# Whatever a test left running must not disturb the next one.
kill_leftovers() {
	local pids

	pids=$(marked_pids)
	[ -n "$pids" ] || return 0
	# shellcheck disable=SC2086 # one word per pid
	[ -z "${1:-}" ] || ps -o pid=,args= -p ${pids//$'\n'/,} 2>/dev/null | cut -c -120 |
		sed "s|^|  note: $1 left running: |"
	# shellcheck disable=SC2086
	kill -KILL $pids 2>/dev/null
	return 0
}

# Lets what was interrupted undo what it had set up.
end_leftovers() {
	local pids

	pids=$(marked_pids)
	# shellcheck disable=SC2086 # one word per pid
	[ -z "$pids" ] || kill -TERM $pids 2>/dev/null
	for _ in {1..100}; do
		[ -n "$(marked_pids)" ] || break
		sleep 0.1
	done
}

finish() {
	trap - EXIT INT TERM
	kill_leftovers
	if [ ${#skips[@]} -gt 0 ]; then
		printf '\nskipped:\n'
		printf '  %s\n' "${skips[@]}"
	fi
	if [ ${#failures[@]} -gt 0 ]; then
		printf '\nfailed:\n'
		printf '  %s\n' "${failures[@]}"
	fi
	fix_owner
	printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
	if [ "$failed" -gt 0 ] || [ "$passed" -eq 0 ]; then
		exit 1
	fi
	exit 0
}

interrupted() {
	trap '' INT TERM
	fail "interrupted${current:+ in $current}"
	end_leftovers
	finish
}

# run_program NAME LIMIT_S COMMAND...: in a session of its own, output to the log; sets rc, log, took
run_program() {
	local name=$1 limit=$2 start=$SECONDS pid tail_pid=

	shift 2
	current=$name
	log=$LOGS/${name//\//-}.log
	: >"$log"
	DLP_TEST_RUN=$MARK setsid timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	if [ -n "${SHOW:-}" ]; then
		tail -n +1 -f --pid="$pid" "$log" &
		tail_pid=$!
	fi
	wait "$pid" 2>/dev/null
	rc=$?
	[ -z "$tail_pid" ] || wait "$tail_pid"
	kill_leftovers "$name"
	took=$((SECONDS - start))
	current=
}

show_log() {
	printf -- '---- %s\n' "$log"
	tail -n 200 "$log"
	printf -- '----\n'
}

# test_program NAME LIMIT_S COMMAND...: a program that prints TAP
test_program() {
	local name=$1 limit=$2 kind test reason p=0 f=0 s=0

	run_program "$@"
	while IFS=$'\t' read -r kind test reason; do
		case $kind in
		pass)
			pass
			p=$((p + 1))
			;;
		fail)
			fail "$name: $test"
			f=$((f + 1))
			;;
		skip)
			skip "$name: $test" "$reason"
			s=$((s + 1))
			;;
		esac
	done < <(awk -v rc="$rc" -v limit="$limit" -f tests/lib/parse.awk "$log")
	printf '  %-34s %3d passed, %d failed, %d skipped  (%d s)\n' "$name" "$p" "$f" "$s" "$took"
	if [ "$f" -gt 0 ] && [ -z "${SHOW:-}" ]; then
		show_log
	fi
}

# test_command NAME LIMIT_S COMMAND...: one test, its exit status is the result
test_command() {
	local name=$1

	run_program "$@"
	if [ "$rc" -eq 0 ]; then
		pass
		printf '  %-34s passed  (%d s)\n' "$name" "$took"
	else
		fail "$name (status $rc)"
		printf '  %-34s FAILED  (%d s)\n' "$name" "$took"
		show_log
	fi
}

# build NAME MAKE_ARGS...: silent when it works, one failure when not
build() {
	local name=$1

	shift
	run_program "build-$name" 900 make -k "-j$JOBS" "$@"
	[ "$rc" -eq 0 ] && return 0
	fail "build $name"
	printf '  %-34s FAILED\n' "build $name"
	show_log
	return 1
}

# programs KIND MAKE_ARGS...: those that are built; after a failed build an old one must not count
programs() {
	local kind=$1 ok=$2 bin

	shift 2
	make -s "list-$kind" "$@" | while read -r bin; do
		if [ -n "$bin" ] && { [ "$ok" -eq 0 ] || make -q "$@" "$bin" >/dev/null 2>&1; }; then
			printf '%s\n' "$bin"
		fi
	done
}

# ---- tiers -------------------------------------------------------------------------------------
lint_with() {
	local tool=$1 target=$2

	if command -v "$tool" >/dev/null; then
		test_command "lint/$tool" 600 make "$target"
	else
		skip "lint/$tool" "$tool is not installed"
	fi
}

tier_lint() {
	printf 'lint\n'
	lint_with shellcheck lint-shell
	lint_with mandoc lint-man
	lint_with cppcheck lint-cppcheck
	lint_with clang-tidy lint-tidy
	test_command lint/build-with-clang 600 make lint-clang
	test_command lint/bpf-for-arm64 600 make lint-arm64
	if [ -r /sys/kernel/btf/vmlinux ]; then
		test_command lint/check-vmlinux 600 make "-j$JOBS" check-vmlinux
	else
		skip lint/check-vmlinux 'this kernel shows no BTF'
	fi
}

unit_programs() {
	local name=$1 ok=0 bin

	shift
	build "$name" build-unit "$@" || ok=1
	for bin in $(programs unit "$ok" "$@"); do
		test_program "$name/$(basename "$bin")" 120 "$bin"
	done
}

tier_unit() {
	printf 'unit\n'
	export CMOCKA_MESSAGE_OUTPUT=TAP
	unit_programs unit
	printf 'unit, under AddressSanitizer and UndefinedBehaviorSanitizer\n'
	export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
	export UBSAN_OPTIONS=print_stacktrace=1
	unit_programs unit-san SAN=address,undefined WERROR=1
}

# valgrind_programs TIER [NAME...]: all unit tests, or those of these modules
#
# Errors of memory are what is asked for here. Where valgrind does not know a system call (openat2,
# pidfd_open), what was tested fails for that reason; the other tiers have tested it.
valgrind_programs() {
	local tier=$1 ok=0 ran=0 bin name

	shift
	printf '%s\n' "$tier"
	if ! command -v valgrind >/dev/null; then
		skip "$tier" 'valgrind is not installed'
		return
	fi
	build unit build-unit || ok=1
	for bin in $(programs unit "$ok"); do
		name=$(basename "$bin")
		[ $# -eq 0 ] || [[ " $* " = *" ${name#test_} "* ]] || continue
		ran=$((ran + 1))
		name=$tier/$name
		run_program "$name" 900 valgrind -q --error-exitcode=99 --leak-check=full \
			--errors-for-leak-kinds=definite,indirect "$bin"
		if [ "$rc" -eq 0 ]; then
			pass
			printf '  %-34s passed  (%d s)\n' "$name" "$took"
		elif [ "$rc" -lt 99 ] && grep -q 'WARNING: unhandled .* syscall' "$log"; then
			skip "$name" 'valgrind does not know a system call it uses; no error of memory found'
		else
			fail "$name (status $rc)"
			printf '  %-34s FAILED  (%d s)\n' "$name" "$took"
			show_log
		fi
	done
	[ "$ran" -ge $# ] || fail "$tier: $ran of $# programs are there"
}

tier_valgrind() {
	valgrind_programs valgrind
}

# What decodes, counts and formats, in two seconds each at most.
tier_valgrind_short() {
	valgrind_programs valgrind-short cli decode diagnose_cause hist insn model_stage model_sums \
		model_wait msg objects report_options snapshot sums summary summary_loaders text trace \
		trace_count track util
}

tier_fuzz_short() {
	printf 'fuzz-short\n'
	if ! has_libfuzzer; then
		skip fuzz-short 'clang is not there, or without libFuzzer (Debian: libclang-rt-dev)'
		return
	fi
	build fuzz-short fuzz-all || return
	test_program fuzz-short 300 make -k "-j$JOBS" --output-sync=target FUZZ_SECONDS=4 fuzz-short
}

tier_package() {
	printf 'package\n'
	build package all || return
	test_program package/check 300 tests/package/check.sh
	test_program package/release 300 tests/package/release.sh
}

tier_release() {
	printf 'release\n'
	build release build-integration || return
	SHOW=1 test_program release 1800 tests/package/release.sh --long
}

# Why what loads BPF programs cannot run here; empty when it can.
no_bpf() {
	if ! is_root; then
		printf 'needs root'
	elif [ ! -r /sys/kernel/btf/vmlinux ]; then
		printf 'this kernel shows no BTF'
	fi
}

tier_bpf() {
	local reason ok=0 bin

	printf 'bpf\n'
	reason=$(no_bpf)
	if [ -n "$reason" ]; then
		skip bpf "$reason"
		return
	fi
	export CMOCKA_MESSAGE_OUTPUT=TAP
	build bpf build-bpf || ok=1
	for bin in $(programs bpf "$ok"); do
		test_program "bpf/$(basename "$bin")" 300 "$bin"
	done
	# once more where processes have other numbers than the kernel's; a shell is the first of them
	for bin in $(programs bpf "$ok" | grep -E '/test_(process|queue)$'); do
		# shellcheck disable=SC2016 # for that shell
		test_program "bpf/$(basename "$bin") in a pid namespace" 300 \
			unshare --pid --fork --kill-child --mount-proc sh -c '"$@"; exit $?' sh "$bin"
	done
}

# python_tests NAME LIMIT_S SCRIPT ARGS...: a program of tests on real PyTorch training
python_tests() {
	local name=$1 limit=$2 reason python

	shift 2
	printf '%s\n' "$name"
	reason=$(no_bpf)
	if [ -z "$reason" ] && ! python=$(find_python); then
		reason='no Python with torch (make deps installs one)'
	fi
	if [ -n "$reason" ]; then
		skip "$name" "$reason"
		return
	fi
	build "$name" build-integration || return
	SHOW=1 PYTHON=$python PYTHONUNBUFFERED=1 test_program "$name" "$limit" "$python" "$@"
}

tier_integration() {
	python_tests integration 1500 tests/integration/run.py
}

tier_robust() {
	python_tests robust 1200 tests/integration/run.py --long -k '^endurance'
}

tier_scenarios_short() {
	python_tests scenarios-short 900 tests/scenarios/run.py --short
}

tier_scenarios() {
	python_tests scenarios 7200 tests/scenarios/run.py
}

# Big downloads: not a part of anything else.
tier_torch() {
	python_tests torch 10800 tests/torch/run.py
}

# ---- other kernels, emulated -------------------------------------------------------------------
vm_suites() {
	awk '$1 ~ /^[a-z]/ { print $1 }' tests/vm/kernels
}

# vm_kernels NAME SUITES TIERS...: one boot for each suite's kernel, then the table
vm_kernels() {
	local name=$1 suites=$2 suite python logs=()

	shift 2
	printf '%s\n' "$name"
	build "$name" build-bpf all build/dlprof-bpf-static || return
	python=$(find_python) || python=
	for suite in $suites; do
		SHOW=1 test_program "$name/$suite" 3600 tests/vm/run.sh "$suite" "${python:-none}" "$@"
		logs+=("$log")
	done
	awk -f tests/vm/table.awk "${logs[@]}"
}

tier_vm() {
	vm_kernels vm "${VM_SUITES:-$(vm_suites)}" bpf clock training
}

tier_vm_short() {
	vm_kernels vm-short "$(vm_suites | grep -v : | sed -n '1p;$p')" bpf-short
}

tiers=("$@")
[ $# -gt 0 ] || tiers=(lint unit valgrind-short fuzz-short package bpf vm-short integration scenarios-short)
for tier in "${tiers[@]}"; do
	case $tier in
	lint | unit | valgrind-short | fuzz-short | package | bpf | vm-short | integration) ;;
	scenarios-short | scenarios | robust | release | valgrind | vm | torch) ;;
	*)
		say 'usage: tests/run.sh [lint|unit|valgrind-short|fuzz-short|package|bpf|vm-short|integration|scenarios-short|scenarios|robust|release|valgrind|vm|torch]...'
		exit 2
		;;
	esac
done

if ! mkdir -p "$LOGS"; then
	say 'run: cannot write to build/; does it belong to root? (sudo make clean)'
	exit 1
fi
trap finish EXIT
trap interrupted INT TERM
# Everything at once is what a fresh machine asks for; single tiers take it as it is.
if [ $# -eq 0 ] && ! tests/deps.sh test; then
	if is_root; then
		fail 'set-up: tests/deps.sh test'
	else
		skip 'set-up' 'something is missing (see above) and only root can install it'
	fi
fi
for tier in "${tiers[@]}"; do
	"tier_${tier//-/_}"
done
finish
