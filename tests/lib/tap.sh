# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Checks that print TAP, for test programs in shell. Sourced.
# shellcheck disable=SC2317 # functions are called by name, through check

count=0
failed=0

# check NAME COMMAND...: its output is shown when it fails
check() {
	local name=$1 output

	shift
	count=$((count + 1))
	if output=$("$@" 2>&1); then
		printf 'ok %d - %s\n' "$count" "$name"
		return 0
	fi
	failed=1
	printf 'not ok %d - %s\n' "$count" "$name"
	printf '%s\n' "$output" | head -n 30 | sed 's/^/#   /'
	return 1
}

# same NAME GOT WANTED: two lists, one word a line
same() {
	check "$1" diff <(printf '%s\n' "$3") <(printf '%s\n' "$2")
}

skip() {
	count=$((count + 1))
	printf 'ok %d - %s # SKIP %s\n' "$count" "$1" "$2"
}

# files_under FOLDER: names relative to it
files_under() {
	(cd "$1" && find . -type f | sed 's|^\./||' | sort)
}

# The last thing a program of checks does.
tap_end() {
	printf '1..%d\n' "$count"
	exit "$failed"
}
