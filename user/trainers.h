/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The training processes of the machine, or of one process's family, as /proc shows them. */
#ifndef DLP_TRAINERS_H
#define DLP_TRAINERS_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "target.h"

struct dlp_trainer {
	pid_t pid;
	pid_t inside; /* its number in its own pid namespace; 0 = the same */
	uid_t uid;
	size_t workers;	    /* DataLoader workers that it has now */
	char torch[48];	    /* untrusted, like all texts here; "" = unknown */
	char container[80]; /* "" = none */
	char cmdline[1024];
	/* Why it cannot be observed, one line; "" = it can. */
	char refused[400];
};

/*
 * Everything that trains among the descendants of `ancestor` (itself included; 0 = the whole
 * machine), parents before children. Processes that may not be looked at are not found. Free
 * *ret with free(). 0 or -errno; `root` as in procfs.h.
 */
int dlp_trainers_find(const char *root, pid_t ancestor, struct dlp_trainer **ret, size_t *ret_cnt);

/* One line each, under a headline; command lines are cut to `width` columns (0 = not cut). */
void dlp_trainers_print(FILE *out, const struct dlp_trainer *trainers, size_t cnt, size_t width);

/*
 * Which process was meant by `pid`, when that is a launcher or a shell: the only trainer below it
 * that can be observed. 0: none, or several, which are then named in `several` ("" otherwise).
 */
pid_t dlp_trainers_meant(const char *root, pid_t pid, char *several, size_t several_size);

/* All that can be observed below `pid`, itself included: up to `max` into ret, the first ones first. */
size_t dlp_trainers_below(const char *root, pid_t pid, pid_t *ret, size_t max);

/* Those of them that have DataLoader workers now, itself left out: ranks it has forked or spawned. */
size_t dlp_trainers_ranks(const char *root, pid_t pid, pid_t *ret, size_t max);

#endif /* DLP_TRAINERS_H */
