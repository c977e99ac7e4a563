#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Starts a real training (tests/demo_train.py) and watches it with the tool just built: the live
# lines, the verdict at the end, and the summary as a file. Called by `make demo`, as root.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/lib/common.sh
. tests/lib/common.sh

DURATION=${DURATION:-12}
SUMMARY=build/demo-summary.json
LOG=build/demo-train.log
# importing torch and starting workers, on a slow disk
START_LIMIT_S=120

if ! is_root; then
	say 'demo: loading BPF programs needs root: sudo make demo'
	exit 3
fi
python=$(tests/deps.sh python)

train_pid=
cleanup() {
	if [ -n "$train_pid" ] && kill -TERM "$train_pid" 2>/dev/null; then
		# a stopping DataLoader waits some seconds for its workers; a hanging one must not stay
		timeout 15 tail --pid="$train_pid" -f /dev/null || kill -KILL "$train_pid" 2>/dev/null || true
	fi
	fix_owner
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say "demo: starting a training with 2 DataLoader workers ($python tests/demo_train.py)"
"$python" tests/demo_train.py >"$LOG" 2>&1 &
train_pid=$!
start=$SECONDS
until grep -q 'step' "$LOG" 2>/dev/null; do
	if ! kill -0 "$train_pid" 2>/dev/null || [ $((SECONDS - start)) -ge "$START_LIMIT_S" ]; then
		say "demo: the training did not start; its output ($LOG):"
		tail -n 20 "$LOG" >&2
		exit 1
	fi
	sleep 0.1
done

say "demo: it trains; watching it for $DURATION s:"
say "demo:   build/dlprof-bpf --pid $train_pid --duration $DURATION --summary $SUMMARY"
say ''
rc=0
build/dlprof-bpf --pid "$train_pid" --duration "$DURATION" --summary "$SUMMARY" || rc=$?
say ''
if [ "$rc" -ne 0 ]; then
	say "demo: dlprof-bpf ended with status $rc"
	exit "$rc"
fi
say "demo: the training ran on untouched: $(tail -n 1 "$LOG")"
say "demo: the same summary for scripts: $SUMMARY"
