/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Everything a history knows to have had a begin and an end on a thread (GetNext calls, batches
 * made, scopes, iter(loader)), merged in order of time and nested per thread. Pure.
 */
#ifndef DLP_TIMELINE_H
#define DLP_TIMELINE_H

#include "history.h"
#include "track.h"

enum dlp_slice_kind {
	DLP_SLICE_INIT,
	DLP_SLICE_CALL,
	DLP_SLICE_PRODUCTION,
	DLP_SLICE_SCOPE,
	DLP_SLICE_KINDS,
};

struct dlp_slice {
	enum dlp_slice_kind kind;
	uint64_t start_ns, end_ns;
	bool cut; /* it went on after end_ns, beyond the slice it lies in */
	union {
		const struct dlp_history_iterator *init;
		const struct dlp_history_call *call;
		const struct dlp_history_production *production;
		const struct dlp_history_scope *scope;
	};
	/* Its thread's, with the slice just opened on it; valid until the next one. */
	struct dlp_track *track;
};

struct dlp_timeline;

/* The thread that runs this iterator's GetNext; 0 = not known. */
uint32_t dlp_timeline_thread(const struct dlp_history *history,
			     const struct dlp_history_iterator *iterator);
/* Over a finished history, which is borrowed. 0 or -ENOMEM. */
int dlp_timeline_new(struct dlp_timeline **ret, const struct dlp_history *history);
void dlp_timeline_free(struct dlp_timeline *timeline);
/* The next one: 1, 0 at the end, -ENOMEM. What a track does not take is left out. */
int dlp_timeline_next(struct dlp_timeline *timeline, struct dlp_slice *ret);

#endif /* DLP_TIMELINE_H */
