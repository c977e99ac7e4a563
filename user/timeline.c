/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>

/* An iter(loader) that was seen whole; the history has them in another order. */
struct init {
	uint64_t start_ns;
	size_t at;
};

struct dlp_timeline {
	const struct dlp_history *history;
	struct init *inits; /* by start; owned */
	size_t init_cnt;
	size_t next[DLP_SLICE_KINDS];
	struct dlp_tracks tracks;
};

uint32_t dlp_timeline_thread(const struct dlp_history *history,
			     const struct dlp_history_iterator *iterator)
{
	const struct dlp_model *model = history->model;

	if (iterator->loader && iterator->loader <= model->loader_cnt)
		return model->loaders[iterator->loader - 1].tid;
	return model->main_tid;
}

static int by_start(const void *a, const void *b)
{
	const struct init *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

int dlp_timeline_new(struct dlp_timeline **ret, const struct dlp_history *history)
{
	struct dlp_timeline *timeline = calloc(1, sizeof(*timeline));

	if (!timeline)
		return -ENOMEM;
	timeline->history = history;
	timeline->inits = calloc(history->iterator_cnt + 1, sizeof(*timeline->inits));
	if (!timeline->inits) {
		free(timeline);
		return -ENOMEM;
	}
	for (size_t i = 0; i < history->iterator_cnt; i++) {
		if (history->iterators[i].init_end_ns)
			timeline->inits[timeline->init_cnt++] =
				(struct init){ history->iterators[i].init_start_ns, i };
	}
	qsort(timeline->inits, timeline->init_cnt, sizeof(*timeline->inits), by_start);
	*ret = timeline;
	return 0;
}

void dlp_timeline_free(struct dlp_timeline *timeline)
{
	if (!timeline)
		return;
	dlp_tracks_fini(&timeline->tracks);
	free(timeline->inits);
	free(timeline);
}

/* The next slice of one kind, and its thread; false = there is none. */
static bool peek(const struct dlp_timeline *timeline, enum dlp_slice_kind kind,
		 struct dlp_slice *ret, uint32_t *ret_pid, uint32_t *ret_tid)
{
	const struct dlp_history *history = timeline->history;
	size_t at = timeline->next[kind];

	*ret = (struct dlp_slice){ .kind = kind };
	*ret_pid = history->model->trainer_pid;
	switch (kind) {
	case DLP_SLICE_INIT:
		if (at >= timeline->init_cnt)
			return false;
		ret->init = &history->iterators[timeline->inits[at].at];
		ret->start_ns = ret->init->init_start_ns;
		ret->end_ns = ret->init->init_end_ns;
		*ret_tid = dlp_timeline_thread(history, ret->init);
		return true;
	case DLP_SLICE_CALL:
		if (at >= history->call_cnt)
			return false;
		ret->call = &history->calls[at];
		ret->start_ns = ret->call->start_ns;
		ret->end_ns = ret->call->end_ns;
		*ret_tid = ret->call->tid;
		return true;
	case DLP_SLICE_PRODUCTION:
		if (at >= history->production_cnt)
			return false;
		ret->production = &history->productions[at];
		ret->start_ns = ret->production->taken_ns;
		ret->end_ns = ret->production->done_ns;
		*ret_pid = *ret_tid = ret->production->pid;
		return true;
	case DLP_SLICE_SCOPE:
		if (at >= history->scope_cnt)
			return false;
		ret->scope = &history->scopes[at];
		ret->start_ns = ret->scope->start_ns;
		ret->end_ns = ret->scope->end_ns;
		*ret_pid = ret->scope->pid;
		*ret_tid = ret->scope->tid;
		return true;
	default:
		return false;
	}
}

/* Of two that begin together the longer one is around the other. */
static bool is_before(const struct dlp_slice *a, const struct dlp_slice *b)
{
	return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->end_ns > b->end_ns;
}

int dlp_timeline_next(struct dlp_timeline *timeline, struct dlp_slice *ret)
{
	for (;;) {
		uint32_t pid = 0, tid = 0;
		bool found = false;
		uint64_t end_ns;

		for (unsigned int kind = 0; kind < DLP_SLICE_KINDS; kind++) {
			struct dlp_slice slice;
			uint32_t its_pid, its_tid;

			if (peek(timeline, kind, &slice, &its_pid, &its_tid) &&
			    (!found || is_before(&slice, ret))) {
				*ret = slice;
				pid = its_pid;
				tid = its_tid;
				found = true;
			}
		}
		if (!found)
			return 0;
		timeline->next[ret->kind]++;
		ret->track = dlp_tracks_get(&timeline->tracks, pid, tid);
		if (!ret->track)
			return -ENOMEM;
		end_ns = ret->end_ns;
		if (!dlp_track_push(ret->track, ret->start_ns, &ret->end_ns))
			continue;
		ret->cut = ret->end_ns != end_ns;
		return 1;
	}
}
