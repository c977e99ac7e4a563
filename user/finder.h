/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks for the trainer in the family of a command that we started: torch is loaded seconds after
 * exec, and often by a descendant (a shell's, uv's, torchrun's). To be asked again and again.
 */
#ifndef DLP_FINDER_H
#define DLP_FINDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target.h"

/* Processes with torch that are alive at the same time, and no workers, are few; more are not seen. */
#define DLP_FINDER_KNOWN 64

struct dlp_finder {
	const char *root; /* as in procfs.h, borrowed */
	pid_t command;
	struct dlp_finder_entry {
		pid_t pid;
		uint64_t since_ns; /* first seen with torch */
		bool dropped;
	} known[DLP_FINDER_KNOWN];
	size_t known_cnt;
	/* Why the process that came closest is refused so far; err DLP_TARGET_OK = there is none. */
	struct dlp_target_failure pending;
};

enum dlp_found {
	DLP_FOUND_NOTHING = 0, /* yet */
	DLP_FOUND_TRAINER,     /* *target is filled */
	DLP_FOUND_REFUSED,     /* a process with torch that cannot be observed; *failure says why */
};

/*
 * One look at everything the command has started, parents first. A refusal is told once, when it
 * has lasted so long that it is not for libraries still being loaded; then that process is dropped.
 */
enum dlp_found dlp_finder_look(struct dlp_finder *finder, uint64_t now_ns,
			       struct dlp_target *target, struct dlp_target_failure *failure);
/* Never to be given again. */
void dlp_finder_drop(struct dlp_finder *finder, pid_t pid);

#endif /* DLP_FINDER_H */
