/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the tool could not see: the kernel side's counters and the model's own, by reason, and
 * whether a figure may be short because of them. Pure.
 */
#ifndef DLP_LOSS_H
#define DLP_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* One per counter and step of the governor; recursion misses, malformed and unknown events, drops. */
#define DLP_LOSS_REASONS_MAX (DLP_CNT_MAX + DLP_GOV_MAX + 4)

struct dlp_loss_reason {
	const char *id;	  /* static */
	const char *text; /* static, for people: "events that found the ring buffer full" */
	uint64_t count;
};

struct dlp_loss {
	bool counted;	 /* the kernel side's counters were read; else only the model's are known */
	bool complete;	 /* no figure can be short */
	uint64_t events; /* that found the ring full */
	uint64_t bytes;
	struct dlp_loss_reason reason[DLP_LOSS_REASONS_MAX]; /* those that are not zero */
	size_t reason_cnt;
	size_t most; /* which reason has most, so that one line can say what matters */
};

void dlp_loss_get(const struct dlp_model *model, struct dlp_loss *ret);

#endif /* DLP_LOSS_H */
