# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The table kernel x tier, from the logs of tests/vm/run.sh (one file for each kernel): tests passed
# and failed;
# "-" where the tier did not run.

function cell(log_, tier)
{
	if (!((log_, tier) in passed) && !((log_, tier) in failed))
		return "-"
	if (failed[log_, tier])
		return failed[log_, tier] " FAILED"
	return passed[log_, tier] " ok" (skipped[log_, tier] ? ", " skipped[log_, tier] " skipped" : "")
}

FNR == 1 {
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\.log$/, "", name)
	sub(/^vm-(short-)?/, "", name)
	order[++logs] = name
	release[name] = "-"
}

/^# kernel [0-9]/ {
	release[name] = $3
	sub(/,$/, "", release[name])
	next
}

/^1\.\.0 # SKIP / && release[name] == "-" {
	why[name] = substr($0, length("1..0 # SKIP ") + 1)
	next
}

/^(not )?ok / {
	tier = $0 ~ / - clock\// ? "clock" : $0 ~ / - training: / ? "training" : $0 ~ / - bpf\// ? "bpf" : "kernel"
	if ($0 ~ /# SKIP/)
		skipped[name, tier]++
	else if (/^not /)
		failed[name, tier]++
	else
		passed[name, tier]++
}

END {
	printf "\n  %-17s %-20s %-22s %-22s %-14s %s\n", "suite", "kernel", "bpf", "state clock", "training", "warnings"
	for (i = 1; i <= logs; i++) {
		name = order[i]
		if (name in why)
			printf "  %-17s skipped: %s\n", name, why[name]
		else
			printf "  %-17s %-20s %-22s %-22s %-14s %s\n", name, release[name], cell(name, "bpf"), \
				cell(name, "clock"), cell(name, "training"), failed[name, "kernel"] + 0
	}
}
