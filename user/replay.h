/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A recording to a model: the same events, in the same order, as the live run gave it, and the
 * facts that no event tells. Pure but for the source that the reader was given.
 */
#ifndef DLP_REPLAY_H
#define DLP_REPLAY_H

#include <stdint.h>
#include <stdio.h>

#include "history.h"
#include "model.h"
#include "record_info.h"
#include "record_read.h"

struct dlp_replay {
	struct dlp_model *model;   /* the caller's, filled */
	FILE *events_out;	   /* every event as a line, or NULL */
	struct dlp_history *history; /* of that model, the caller's, filled; or NULL */
	struct dlp_replay_facts facts; /* points into itself: do not move it */
	struct dlp_rec_device device[DLP_REC_DEVICES_MAX];
	uint32_t device_cnt;
	struct dlp_rec_ending ending;
	uint64_t event_cnt;
	uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC, of the events */
	/* internal */
	bool opening; /* the window's begin was not kept: it opens at the first interval's end */
	bool closed;
	struct dlp_ev_counters counters, counters_base;
};

/*
 * Reads it all. `replay` is zeroed but for model, events_out and history. A recording that ends too early is
 * no error: see replay->ending. 0, -ENOMEM, or the error of the source.
 */
int dlp_replay_run(struct dlp_replay *replay, struct dlp_reader *reader);

/* Name of a device that the recording knows, into buf; NULL. */
const char *dlp_replay_device(const struct dlp_replay *replay, uint32_t dev, char *buf,
			      size_t size);
/*
 * One line about what is missing ("is cut at byte 1234: replayed up to ..."); "" when nothing is.
 * Returns buf.
 */
const char *dlp_replay_say(const struct dlp_replay *replay, const struct dlp_rec_header *header,
			   char *buf, size_t size);

#endif /* DLP_REPLAY_H */
