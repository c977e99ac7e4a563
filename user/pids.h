/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes named on the command line: "--pid 4711", "--pid 4711,4712", or several of these. */
#ifndef DLP_PIDS_H
#define DLP_PIDS_H

#include <stddef.h>
#include <sys/types.h>

#include "diagnose_ranks.h"

struct dlp_pids {
	pid_t pid[DLP_RANKS_MAX]; /* cnt of them, each once, in the order given */
	size_t cnt;
};

/*
 * Adds what `arg` names. 0, or a negative errno with a word on why; -E2BIG: there is no room for
 * all of it.
 */
int dlp_pids_add(struct dlp_pids *pids, const char *arg, const char **ret_why);

#endif /* DLP_PIDS_H */
