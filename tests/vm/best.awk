# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The TAP of several runs of one program to that of one: a test has passed if it did in any of them.
# Wants -v name=PROGRAM -v status=STATUS of the last run.

# cmocka writes "ok 1 - name", "not ok 2 - name", and "not ok 3 # SKIP name" after a line of reason
/^(not )?ok([ \t]|$)/ {
	test = $0
	failed = sub(/^not /, "", test)
	sub(/^ok[ \t]*[0-9]*[ \t]*/, "", test)
	skipped = sub(/^# SKIP[ \t]*/, "", test)
	sub(/^- /, "", test)
	if (!(test in result))
		order[++cnt] = test
	if (skipped)
		result[test] = "skip"
	else if (!failed)
		result[test] = "ok"
	else if (result[test] == "")
		result[test] = "not ok"
	reason[test] = said
	said = ""
	next
}

/^skipped: / {
	said = substr($0, length("skipped: ") + 1)
	next
}

# what a check says about itself
/^#   / || /^# capture: / || /^# as Python/ {
	print
}

END {
	for (i = 1; i <= cnt; i++) {
		test = order[i]
		if (result[test] == "skip")
			printf "ok - %s: %s # SKIP %s\n", name, test, reason[test]
		else
			printf "%s - %s: %s\n", result[test], name, test
	}
	if (status >= 124)
		printf "not ok - %s: ended with status %d\n", name, status
	else if (!cnt)
		printf "not ok - %s: ran no test\n", name
}
