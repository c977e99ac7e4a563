/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arithmetic on state clocks for the readers of the model: sums, and states ranked by share.
 * Pure.
 */
#ifndef DLP_SPLIT_H
#define DLP_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

struct dlp_share {
	unsigned int state; /* enum dlp_state */
	double share;	    /* of the clock's sum, idle left out where asked */
};

/* "run", "runq", ...: the names the summary uses. */
const char *dlp_split_state_id(unsigned int state);
uint64_t dlp_split_sum(const struct dlp_clock *clock);
void dlp_split_add(struct dlp_clock *dst, const struct dlp_clock *src);
/* States with any time, the largest first; returns how many. */
size_t dlp_split_rank(const struct dlp_clock *clock, bool without_idle,
		      struct dlp_share ret_share[DLP_ST_MAX]);
/*
 * Was it there in the window? What had ended before, but was not yet known to, left no clock and
 * no message.
 */
bool dlp_split_seen(const struct dlp_worker *worker);
/*
 * Does this process make batches? Once any worker's messages were seen, one without them is
 * something else that was forked; where none are seen, whoever looks like a worker counts.
 */
bool dlp_split_counts(const struct dlp_model *model, const struct dlp_worker *worker);
/* Sum over the main threads of the workers that have a clock; returns how many these are. */
size_t dlp_split_workers(const struct dlp_model *model, struct dlp_clock *ret);
/*
 * Finds a thread by looking at all of them, which needs nothing of a model but its public arrays;
 * for the rare questions only. NULL = not known.
 */
const struct dlp_thread *dlp_split_thread(const struct dlp_model *model, uint32_t tid);

#endif /* DLP_SPLIT_H */
