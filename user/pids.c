/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pids.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "util.h"

static int add(struct dlp_pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->cnt; i++) {
		if (pids->pid[i] == pid)
			return 0;
	}
	if (pids->cnt == DLP_RANKS_MAX)
		return -E2BIG;
	pids->pid[pids->cnt++] = pid;
	return 0;
}

int dlp_pids_add(struct dlp_pids *pids, const char *arg, const char **ret_why)
{
	for (;;) {
		size_t len = strcspn(arg, ",");
		char digits[16];
		uint64_t value;

		*ret_why = "not a process id";
		if (len >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, arg, len);
		digits[len] = '\0';
		if (dlp_parse_u64(digits, &value) || !value || value > INT_MAX)
			return -EINVAL;
		*ret_why = "more than 16 processes";
		if (add(pids, (pid_t)value))
			return -E2BIG;
		if (!arg[len])
			return 0;
		arg += len + 1;
	}
}

_Static_assert(DLP_RANKS_MAX == 16, "the message says so");
