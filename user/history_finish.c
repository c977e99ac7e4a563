/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The history's end: everything in order, and what only the whole run tells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history_priv.h"
#include "util.h"

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* All arrays but the workers' begin with the time, or number, that they are ordered by. */
static int by_first(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return order(x, y);
}

/* What is nested in another call ends first and begins later. */
static int by_call(const void *a, const void *b)
{
	const struct dlp_history_call *x = a, *y = b;
	int ret = order(x->start_ns, y->start_ns);

	return ret ? ret : order(y->end_ns, x->end_ns);
}

static int by_id(const void *a, const void *b)
{
	const struct dlp_history_iterator *x = a, *y = b;

	return order(x->id, y->id);
}

static int by_birth(const void *a, const void *b)
{
	const struct dlp_history_worker *x = a, *y = b;
	int ret = order(x->born_ns, y->born_ns);

	return ret ? ret : order(x->pid, y->pid);
}

static int by_ts(const void *a, const void *b)
{
	const struct dlp_ev_system *x = a, *y = b;

	return order(x->hdr.ts_ns, y->hdr.ts_ns);
}

static void sort(void *array, size_t cnt, size_t bytes, int (*compare)(const void *, const void *))
{
	char *at = array;

	/* events come nearly in order: most arrays are sorted already */
	for (size_t i = 1; i < cnt; i++, at += bytes) {
		if (compare(at, at + bytes) > 0) {
			qsort(array, cnt, bytes, compare);
			return;
		}
	}
}

#define SORT(array, cnt, compare) sort(array, cnt, sizeof(*(array)), compare)

static void sort_all(struct dlp_history *history)
{
	SORT(history->calls, history->call_cnt, by_call);
	SORT(history->productions, history->production_cnt, by_first);
	SORT(history->iterators, history->iterator_cnt, by_id);
	SORT(history->workers, history->worker_cnt, by_birth);
	SORT(history->samples, history->sample_cnt, by_first);
	SORT(history->waits, history->wait_cnt, by_first);
	SORT(history->scopes, history->scope_cnt, by_first);
	SORT(history->blocks, history->block_cnt, by_first);
	SORT(history->requests, history->request_cnt, by_first);
	SORT(history->system, history->system_cnt, by_ts);
	SORT(history->others, history->other_cnt, by_first);
	SORT(history->intervals, history->interval_cnt, by_first);
}

/* Once any worker's messages were seen, a process without them is something else. */
static void take_workers(struct dlp_history *history)
{
	const struct dlp_model *model = history->model;
	bool proven = false;
	size_t kept = 0;

	for (size_t i = 0; i < model->worker_cnt; i++)
		dlp_history_take_worker(history, &model->workers[i]);
	for (size_t i = 0; i < history->worker_cnt; i++)
		proven |= history->workers[i].proven;
	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (proven ? !worker->proven : worker->died_ns && !worker->clock_valid)
			continue;
		history->workers[kept++] = *worker;
	}
	history->worker_cnt = kept;
}

/* Absorbed calls come before the one that looked like the first of its iterator's epoch. */
static int mark_first(struct dlp_history *history)
{
	_cleanup_free_ uint32_t *epoch = NULL;

	epoch = calloc(history->iterator_cnt + 1, sizeof(*epoch));
	if (!epoch)
		return -ENOMEM;
	for (size_t i = 0; i < history->call_cnt; i++) {
		struct dlp_history_call *call = &history->calls[i];
		const struct dlp_history_iterator *it =
			dlp_history_iterator(history, call->iterator);
		uint32_t *newest;

		call->flags &= ~DLP_CALL_FIRST;
		if (!it || !call->epoch)
			continue;
		newest = &epoch[it - history->iterators];
		call->flags |= call->epoch > *newest ? DLP_CALL_FIRST : 0;
		if (call->epoch > *newest)
			*newest = call->epoch;
	}
	return 0;
}

/* A worker is told apart from the job's other processes when its first batch was sent. */
static int name_lanes(struct dlp_history *history)
{
	const struct dlp_model *model = history->model;
	struct dlp_map workers = { 0 };
	int err = 0;

	for (size_t i = 0; !err && i < history->worker_cnt; i++)
		err = dlp_map_put(&workers, history->workers[i].pid, 1);
	for (size_t i = 0; !err && i < history->sample_cnt; i++) {
		struct dlp_history_sample *sample = &history->samples[i];

		if (!sample->tid)
			sample->lane = DLP_LANE_POOL;
		else if (sample->pid != model->trainer_pid)
			sample->lane = dlp_map_get(&workers, sample->pid) != DLP_MAP_NONE ?
					       DLP_LANE_WORKER :
					       DLP_LANE_POOL;
		else
			sample->lane = sample->tid == model->main_tid ||
						       sample->tid != sample->pid ?
					       DLP_LANE_TRAINER :
					       DLP_LANE_POOL;
	}
	dlp_map_fini(&workers);
	return err;
}

/* Their iterator may have been tied to a loader after they were made. */
static void name_loaders(struct dlp_history *history)
{
	for (size_t i = 0; i < history->production_cnt; i++) {
		struct dlp_history_production *made = &history->productions[i];
		const struct dlp_history_iterator *it;

		made->in_window =
			made->done_ns >= history->start_ns && made->done_ns <= history->end_ns;
		it = made->iterator ? dlp_history_iterator(history, made->iterator) : NULL;
		if (!made->loader && it)
			made->loader = it->loader;
	}
}

int dlp_history_finish(struct dlp_history *history, const struct dlp_summary_facts *facts)
{
	const struct dlp_model *model = history->model;
	int err;

	history->facts = facts;
	history->start_ns = model->start_ns;
	history->end_ns = model->end_ns;
	history->realtime_start_ns = model->realtime_start_ns;
	dlp_history_pools(history);
	take_workers(history);
	sort_all(history);
	for (size_t i = 0; i < history->label_cnt; i++)
		(void)snprintf(history->labels[i], sizeof(history->labels[i]), "%s",
			       dlp_model_label(model, history->priv->label_id[i]));
	err = history->priv->err;
	if (!err)
		err = mark_first(history);
	if (!err)
		err = name_lanes(history);
	if (err)
		return err;
	name_loaders(history);
	dlp_diagnose(model, NULL, &history->verdict);
	history->finished = true;
	return 0;
}

uint64_t dlp_history_unfinished(const struct dlp_history *history)
{
	const struct dlp_verdict *verdict = &history->verdict;
	const struct dlp_model *model = history->model;

	/* its begin was not seen: the diagnosis tells it from how the threads are asleep */
	if (!history->call_cnt && verdict->bottleneck == DLP_BN_STALLED &&
	    verdict->exposed_wait_ratio >= 1)
		return history->start_ns;
	for (size_t i = 0; i < model->thread_cnt; i++) {
		const struct dlp_thread *thread = &model->threads[i];

		if (model->main_tid && thread->tid == model->main_tid && thread->getnext_since_ns)
			return thread->getnext_since_ns;
	}
	return history->end_ns;
}

const struct dlp_history_iterator *dlp_history_iterator(const struct dlp_history *history,
							uint32_t id)
{
	size_t low = 0, high = history->iterator_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (history->iterators[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < history->iterator_cnt && history->iterators[low].id == id ?
		       &history->iterators[low] :
		       NULL;
}

const struct dlp_history_worker *dlp_history_worker(const struct dlp_history *history,
						    uint32_t pid, uint64_t ts_ns)
{
	const struct dlp_history_worker *found = NULL;

	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (worker->pid == pid &&
		    (!ts_ns || (worker->born_ns <= ts_ns &&
				(!worker->died_ns || worker->died_ns >= ts_ns))))
			found = worker;
	}
	return found;
}

uint64_t dlp_history_realtime(const struct dlp_history *history, uint64_t ts_ns)
{
	return history->realtime_start_ns ?
		       history->realtime_start_ns + (ts_ns - history->start_ns) :
		       0;
}
