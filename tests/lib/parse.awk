# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Reads the TAP output of one test program (cmocka's or ours, several plans in a row allowed) and
# prints one record per test, tab-separated: "pass NAME", "fail NAME", "skip NAME REASON". A program
# that ended before its plan was fulfilled, or with an error that no test explains, is one more
# "fail". Wants -v rc=EXIT_STATUS -v limit=SECONDS.

function trim(text)
{
	gsub(/^[ \t-]+|[ \t]+$/, "", text)
	return text
}

function record(kind, name, reason)
{
	gsub(/\t/, " ", name)
	gsub(/\t/, " ", reason)
	printf "%s\t%s\t%s\n", kind, name == "" ? "(nameless)" : name, reason
}

/^1\.\.[0-9]+/ {
	plan = $1
	sub(/^1\.\./, "", plan)
	planned += plan
	plans++
	if (plan == 0) {
		reason = $0
		sub(/^1\.\.0[ \t]*(#[ \t]*)?([Ss][Kk][Ii][Pp][A-Za-z]*:?)?/, "", reason)
		record("skip", "all", trim(reason))
		skips++
	}
	next
}

/^(not )?ok([ \t]|$)/ {
	seen++
	line = $0
	failed = sub(/^not ok[ \t]*/, "", line)
	if (!failed)
		sub(/^ok[ \t]*/, "", line)
	sub(/^[0-9]+[ \t]*/, "", line)
	if (match(line, /#[ \t]*[Ss][Kk][Ii][Pp][A-Za-z]*:?/)) {
		name = trim(substr(line, 1, RSTART - 1))
		reason = trim(substr(line, RSTART + RLENGTH))
		# cmocka writes the name where TAP has the reason; what the test printed last is the reason
		if (name == "") {
			name = reason
			reason = ""
		}
		record("skip", name, reason == "" ? trim(said) : reason)
		skips++
	} else if (failed) {
		record("fail", trim(line))
		fails++
	} else {
		record("pass", trim(line))
	}
	said = ""
	next
}

!/^#/ && NF {
	said = $0
	sub(/^[ \t]*[Ss][Kk][Ii][Pp][A-Za-z]*:[ \t]*/, "", said)
}

END {
	if (rc == 77 && !seen && !fails)
		record("skip", "all", trim(said))
	else if (rc == 124 || rc == 137)
		record("fail", "no end within " limit " s (" seen + 0 " of " planned + 0 " tests ran)")
	else if (seen < planned)
		record("fail", "ended with status " rc " after " seen + 0 " of " planned " tests")
	else if (rc && !fails)
		record("fail", "ended with status " rc " although no test failed")
	else if (!seen && !skips)
		record("fail", "ran no test")
}
