/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report_events.h"

#include <stdlib.h>
#include <string.h>

#include "fsname.h"
#include "split.h"
#include "util.h"

/* Where things are collected, and which are wanted. */
struct collect {
	const struct dlp_report *report;
	const struct dlp_activity *activity;
	uint64_t from_ns, to_ns;
	struct dlp_happenings *list;
};

/* A new one; NULL when it is not wanted or does not fit. */
static struct dlp_happening *add(const struct collect *to, const char *dimension,
				 const char *event, uint64_t start_ns, uint64_t end_ns)
{
	struct dlp_happenings *list = to->list;
	struct dlp_happening *ret;

	if (!dlp_matches(to->report->selection.events, event))
		return NULL;
	if (list->cnt == list->max) {
		list->left_out++;
		return NULL;
	}
	if (dlp_grow(&list->at, &list->room, list->cnt, sizeof(*list->at))) {
		list->failed = true;
		return NULL;
	}
	ret = &list->at[list->cnt++];
	memset(ret, 0, sizeof(*ret));
	ret->dimension = dimension;
	(void)snprintf(ret->event, sizeof(ret->event), "%s", event);
	ret->start_ns = start_ns;
	ret->end_ns = end_ns;
	return ret;
}

#define EACH(i, spans, to)                                                                         \
	(size_t i = dlp_spans_next(spans, 0, (to)->from_ns, (to)->to_ns); i < (spans)->cnt;        \
	 i = dlp_spans_next(spans, i + 1, (to)->from_ns, (to)->to_ns))

static void trainer(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for EACH (i, &to->activity->calls, to) {
		const struct dlp_history_call *call = &history->calls[i];
		struct dlp_happening *thing;

		if (!dlp_selected_loader(to->report, call->loader) ||
		    !dlp_selected_worker(to->report, call->worker_pid))
			continue;
		thing = add(to, "trainer", "GetNext", call->start_ns, call->end_ns);
		if (!thing)
			continue;
		thing->pid = history->model->trainer_pid;
		thing->tid = call->tid;
		if (call->index >= 0)
			(void)snprintf(thing->detail, sizeof(thing->detail),
				       "loader %u, batch %lld of worker %u", call->loader,
				       (long long)call->index, call->worker_pid);
		else
			(void)snprintf(thing->detail, sizeof(thing->detail), "loader %u%s",
				       call->loader,
				       call->flags & DLP_CALL_DATA ? "" : ", end of the epoch");
	}
	for (size_t i = 0; i < history->iterator_cnt; i++) {
		const struct dlp_history_iterator *it = &history->iterators[i];
		struct dlp_happening *thing;

		if (!it->init_end_ns || it->init_start_ns >= to->to_ns ||
		    it->init_end_ns < to->from_ns || !dlp_selected_loader(to->report, it->loader))
			continue;
		thing = add(to, "trainer", "iter", it->init_start_ns, it->init_end_ns);
		if (!thing)
			continue;
		thing->pid = history->model->trainer_pid;
		(void)snprintf(thing->detail, sizeof(thing->detail), "loader %u, iterator %u",
			       it->loader, it->id);
	}
}

static void productions(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for EACH (i, &to->activity->productions, to) {
		const struct dlp_history_production *made = &history->productions[i];
		struct dlp_happening *thing;

		if (!dlp_selected_loader(to->report, made->loader) ||
		    !dlp_selected_worker(to->report, made->pid))
			continue;
		thing = add(to, "worker", "batch", made->taken_ns, made->done_ns);
		if (!thing)
			continue;
		thing->pid = thing->tid = made->pid;
		(void)snprintf(thing->detail, sizeof(thing->detail), "loader %u, batch %lld",
			       made->loader, (long long)made->index);
	}
}

static void life(const struct collect *to, const struct dlp_history_worker *worker,
		 const char *event, uint64_t ts_ns)
{
	struct dlp_happening *thing;
	char buf[40];

	if (ts_ns < to->from_ns || ts_ns >= to->to_ns)
		return;
	thing = add(to, "worker", event, ts_ns, ts_ns);
	if (!thing)
		return;
	thing->pid = thing->tid = worker->pid;
	if (worker->died_ns == ts_ns && worker->exit_code != DLP_EXIT_UNKNOWN)
		(void)snprintf(thing->detail, sizeof(thing->detail), "%s",
			       dlp_summary_exit(worker->exit_code, buf, sizeof(buf)));
}

static void lives(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (!dlp_selected_loader(to->report, worker->loader) ||
		    !dlp_selected_worker(to->report, worker->pid))
			continue;
		if (worker->born_ns)
			life(to, worker, "born", worker->born_ns);
		if (worker->died_ns)
			life(to, worker, "died", worker->died_ns);
	}
}

static void workers(const struct collect *to)
{
	productions(to);
	lives(to);
}

static void waits(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for EACH (i, &to->activity->waits, to) {
		const struct dlp_history_wait *wait = &history->waits[i];
		bool trains = wait->pid == history->model->trainer_pid;
		struct dlp_happening *thing;
		char event[32], device[64], buf[16];
		const char *fs;

		if (!dlp_selected_worker(to->report, wait->pid) && !trains)
			continue;
		(void)snprintf(event, sizeof(event), "wait:%s", dlp_split_state_id(wait->state));
		thing = add(to, "wait", event, wait->start_ns, wait->end_ns);
		if (!thing)
			continue;
		thing->pid = wait->pid;
		thing->tid = wait->tid;
		fs = dlp_fsname(wait->fs_magic, buf, sizeof(buf));
		if (wait->dev)
			(void)snprintf(thing->detail, sizeof(thing->detail), "%s%s%s",
				       fs ? fs : "", fs ? " on " : "",
				       dlp_report_device(to->report, wait->dev, device,
							 sizeof(device)));
	}
}

static void labels(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for EACH (i, &to->activity->scopes, to) {
		const struct dlp_history_scope *scope = &history->scopes[i];
		struct dlp_happening *thing;

		if (!dlp_selected_worker(to->report, scope->pid) &&
		    scope->pid != history->model->trainer_pid)
			continue;
		thing = add(to, "label", history->labels[scope->label], scope->start_ns,
			    scope->end_ns);
		if (!thing)
			continue;
		thing->pid = scope->pid;
		thing->tid = scope->tid;
		if (scope->weight > 1)
			(void)snprintf(thing->detail, sizeof(thing->detail), "stands for %u",
				       scope->weight);
	}
}

static void requests(const struct collect *to)
{
	const struct dlp_history *history = to->report->history;

	for EACH (i, &to->activity->requests, to) {
		const struct dlp_history_request *request = &history->requests[i];
		struct dlp_happening *thing;
		char device[64];

		thing = add(to, "block", request->op ? "write" : "read", request->queued_ns,
			    request->done_ns);
		if (!thing)
			continue;
		thing->pid = request->pid;
		thing->tid = request->tid;
		(void)snprintf(thing->detail, sizeof(thing->detail), "%u bytes, %s",
			       request->bytes,
			       dlp_report_device(to->report, request->dev, device,
						 sizeof(device)));
	}
}

void dlp_report_events(const struct dlp_report *report, const struct dlp_activity *activity,
		       uint64_t from_ns, uint64_t to_ns, struct dlp_happenings *list)
{
	static const struct {
		const char *dimension;
		void (*collect)(const struct collect *to);
	} kinds[] = {
		{ "trainer", trainer }, { "worker", workers }, { "label", labels },
		{ "wait", waits },	{ "block", requests },
	};
	const struct collect to = { report, activity, from_ns, to_ns, list };

	for (size_t i = 0; i < DLP_ARRAY_SIZE(kinds); i++) {
		if (dlp_matches(report->selection.dimensions, kinds[i].dimension))
			kinds[i].collect(&to);
	}
}

static int by_start(const void *a, const void *b)
{
	const struct dlp_happening *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int longer_first(const void *a, const void *b, void *ctx)
{
	const struct dlp_happening *x = a, *y = b;
	const uint64_t *time = ctx;
	uint64_t x_ns = dlp_overlap(x->start_ns, x->end_ns, time[0], time[1]);
	uint64_t y_ns = dlp_overlap(y->start_ns, y->end_ns, time[0], time[1]);

	return x_ns != y_ns ? (x_ns < y_ns ? 1 : -1) : by_start(a, b);
}

void dlp_happenings_longest(struct dlp_happenings *list, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t time[] = { from_ns, to_ns };

	if (list->cnt)
		qsort_r(list->at, list->cnt, sizeof(*list->at), longer_first, time);
}

void dlp_happenings_by_start(struct dlp_happenings *list)
{
	if (list->cnt)
		qsort(list->at, list->cnt, sizeof(*list->at), by_start);
}

void dlp_happenings_fini(struct dlp_happenings *list)
{
	free(list->at);
	memset(list, 0, sizeof(*list));
}

void dlp_happening_put(struct dlp_table *table, const struct dlp_happening *happening)
{
	dlp_put_span(table, happening->start_ns, happening->end_ns);
	dlp_put_text(table, happening->dimension);
	dlp_put_text(table, happening->event);
	dlp_put_count(table, happening->pid);
	dlp_put_count(table, happening->tid);
	dlp_put_text(table, happening->detail);
}
