/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "decode.h"
#include "timeline.h"
#include "trace_priv.h"
#include "util.h"

/* No thread has this number, so it stands for the process. */
#define ROW_PROCESS UINT32_MAX
/* Calls of other threads that are looked over in search of one; a job has few that iterate. */
#define CALLS_BACK_MAX 64
/* A message that is written later than that after a call is not taken for one of this call. */
#define WRITER_LATE_NS (100 * DLP_NS_PER_MS)

static void name_thing(struct dlp_trace *trace, const char *what, uint32_t pid, uint32_t row,
		       const char *name)
{
	dlp_trace_begin(&trace->out, 'M', what, pid, row);
	dlp_trace_arg_text(&trace->out, "name", name);
	dlp_trace_end(&trace->out);
}

static void sort_thing(struct dlp_trace *trace, const char *what, uint32_t pid, uint32_t row,
		       uint64_t index)
{
	dlp_trace_begin(&trace->out, 'M', what, pid, row);
	dlp_trace_arg_count(&trace->out, "sort_index", index);
	dlp_trace_end(&trace->out);
}

static const char *comm_of(const struct dlp_trace *trace, uint32_t tid, char *buf, size_t size)
{
	const struct dlp_thread *thread = dlp_model_thread(trace->history->model, tid);

	if (thread && thread->comm[0])
		return dlp_sanitise(buf, size, thread->comm, sizeof(thread->comm));
	(void)snprintf(buf, size, "%" PRIu32, tid);
	return buf;
}

static void name_process(struct dlp_trace *trace, uint32_t pid)
{
	const struct dlp_history_worker *worker = dlp_history_worker(trace->history, pid, 0);
	char comm[40], text[100];

	if (pid == trace->history->model->trainer_pid)
		(void)snprintf(text, sizeof(text), "trainer");
	else if (pid == DLP_TRACE_PID_DEVICES)
		(void)snprintf(text, sizeof(text), "block devices");
	else if (worker && worker->loader)
		(void)snprintf(text, sizeof(text), "worker of loader %" PRIu32, worker->loader);
	else
		(void)snprintf(text, sizeof(text), "process %s",
			       comm_of(trace, pid, comm, sizeof(comm)));
	name_thing(trace, "process_name", pid, 0, text);
	sort_thing(trace, "process_sort_index", pid, 0,
		   pid == trace->history->model->trainer_pid ? 0 : pid);
}

static void name_row(struct dlp_trace *trace, uint32_t pid, uint32_t row)
{
	uint32_t tid = row % DLP_TRACE_ID_MAX;
	char comm[40], thread[64], text[100];

	if (!tid)
		(void)snprintf(thread, sizeof(thread), "other threads");
	else if (tid == trace->history->model->main_tid)
		(void)snprintf(thread, sizeof(thread), "training thread");
	else if (tid == pid)
		(void)snprintf(thread, sizeof(thread), "main thread");
	else
		(void)snprintf(thread, sizeof(thread), "thread %s",
			       comm_of(trace, tid, comm, sizeof(comm)));
	if (row < DLP_TRACE_ROW_STATES)
		(void)snprintf(text, sizeof(text), "%s", thread);
	else
		(void)snprintf(text, sizeof(text), "%s of %s",
			       row < DLP_TRACE_ROW_WAITS ? "states" : "long waits", thread);
	name_thing(trace, "thread_name", pid, row, text);
	/* a thread's three rows together, the process's main thread first */
	sort_thing(trace, "thread_sort_index", pid, row,
		   (tid == pid ? 0 : 4 * (uint64_t)tid) + row / DLP_TRACE_ID_MAX);
}

int dlp_trace_process(struct dlp_trace *trace, uint32_t pid)
{
	struct dlp_track *track = dlp_tracks_get(&trace->tracks, pid, ROW_PROCESS);

	if (!track)
		return -ENOMEM;
	if (!track->named) {
		track->named = true;
		name_process(trace, pid);
	}
	return 0;
}

struct dlp_track *dlp_trace_row(struct dlp_trace *trace, uint32_t pid, uint32_t row)
{
	struct dlp_track *track = NULL;

	if (!dlp_trace_process(trace, pid))
		track = dlp_tracks_get(&trace->tracks, pid, row);
	if (track && !track->named) {
		track->named = true;
		name_row(trace, pid, row);
	}
	return track;
}

void dlp_trace_split(struct dlp_trace *trace, const struct dlp_clock *split)
{
	for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
		char key[32];

		if (!split->ns[i])
			continue;
		(void)snprintf(key, sizeof(key), "%s_us", dlp_state_name(i));
		dlp_trace_arg_us(&trace->out, key, (int64_t)split->ns[i]);
	}
}

/* ---- arrows ---------------------------------------------------------------------------------- */

/* A point on a slice of a thread's own row. */
struct point {
	uint32_t pid, tid;
	uint64_t ts_ns;
};

static void arrow(struct dlp_trace *trace, const char *name, const struct point *from,
		  const struct point *to)
{
	struct dlp_trace_out *out = &trace->out;

	trace->arrow_cnt++;
	for (unsigned int end = 0; end < 2; end++) {
		const struct point *point = end ? to : from;

		dlp_trace_begin(out, end ? 'f' : 's', name, point->pid, point->tid);
		dlp_trace_at(out, point->ts_ns);
		dlp_trace_category(out, "batch");
		dlp_trace_id(out, trace->arrow_cnt);
		if (end)
			fputs(",\"bp\":\"e\"", out->file);
		dlp_trace_end(out);
	}
}

/* The newest call of this thread that had begun by then; NULL. */
static const struct dlp_history_call *call_before(const struct dlp_history *history, uint32_t tid,
						  uint64_t ts_ns)
{
	size_t low = 0, high = history->call_cnt;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (history->calls[middle].start_ns <= ts_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t back = 0; back < CALLS_BACK_MAX && back < low; back++) {
		if (history->calls[low - 1 - back].tid == tid)
			return &history->calls[low - 1 - back];
	}
	return NULL;
}

/* The last nanosecond of an interval, so that the point lies on its slice. */
static uint64_t last_of(uint64_t start_ns, uint64_t end_ns)
{
	return end_ns > start_ns ? end_ns - 1 : start_ns;
}

static const struct dlp_history_production *production_of(const struct dlp_history *history,
							  const struct dlp_history_call *call)
{
	size_t low = 0, high = history->production_cnt;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (history->productions[middle].taken_ns < call->taken_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < history->production_cnt; low++) {
		const struct dlp_history_production *production = &history->productions[low];

		if (production->taken_ns != call->taken_ns)
			break;
		if (production->pid == call->worker_pid)
			return production;
	}
	return NULL;
}

/*
 * Where the batch was asked for: in a call, or as its iterator was made. A thread of its own writes
 * the message, which may be when that has ended.
 */
static bool asked_at(const struct dlp_history *history, const struct dlp_history_call *call,
		     struct point *ret)
{
	const struct dlp_history_iterator *it = dlp_history_iterator(history, call->iterator);
	const struct dlp_history_call *asker = call_before(history, call->tid, call->asked_ns);
	uint64_t start_ns = asker ? asker->start_ns : 0, end_ns = asker ? asker->end_ns : 0;

	if (it && it->init_end_ns && it->init_start_ns <= call->asked_ns &&
	    it->init_start_ns > start_ns && dlp_timeline_thread(history, it) == call->tid) {
		start_ns = it->init_start_ns;
		end_ns = it->init_end_ns;
	}
	*ret = (struct point){ history->model->trainer_pid, call->tid, call->asked_ns };
	if (ret->ts_ns >= end_ns)
		ret->ts_ns = last_of(start_ns, end_ns);
	return start_ns && call->asked_ns < end_ns + WRITER_LATE_NS;
}

/* With pinned memory another thread receives, of which nothing is drawn. */
static const struct dlp_history_call *received_in(const struct dlp_history *history,
						  const struct dlp_history_call *call)
{
	const struct dlp_model *model = history->model;
	const struct dlp_history_call *receiver;

	if (!call->received_ns || !call->loader || call->loader > model->loader_cnt ||
	    model->loaders[call->loader - 1].pin_memory == 1)
		return NULL;
	receiver = call_before(history, call->tid, call->received_ns);
	return receiver && receiver->end_ns > call->received_ns ? receiver : NULL;
}

static void draw_arrows(struct dlp_trace *trace, const struct dlp_history_call *call)
{
	const struct dlp_history *history = trace->history;
	const struct dlp_history_production *production = production_of(history, call);
	const struct dlp_history_call *receiver = received_in(history, call);
	struct point from, to = { call->worker_pid, call->worker_pid, call->taken_ns };
	struct point end = { history->model->trainer_pid, call->tid,
			     last_of(call->start_ns, call->end_ns) };

	if (!production)
		return;
	if (asked_at(history, call, &from))
		arrow(trace, "ask", &from, &to);
	/* another thread of the worker may send it later, where nothing is drawn */
	from = to;
	from.ts_ns = last_of(production->taken_ns, production->done_ns);
	if (call->sent_ns >= production->taken_ns && call->sent_ns < from.ts_ns)
		from.ts_ns = call->sent_ns;
	to = end;
	if (receiver)
		to.ts_ns = call->received_ns;
	arrow(trace, "send", &from, &to);
	if (receiver && receiver != call)
		arrow(trace, "return", &to, &end);
}

/* ---- slices of threads ----------------------------------------------------------------------- */

static void arg_known(struct dlp_trace *trace, const char *key, uint64_t value)
{
	if (value)
		dlp_trace_arg_count(&trace->out, key, value);
}

/* Stations on the time scale of the picture. */
static void arg_station(struct dlp_trace *trace, const char *key, uint64_t ts_ns)
{
	if (ts_ns)
		dlp_trace_arg_us(&trace->out, key, (int64_t)ts_ns);
}

static void tell_call(struct dlp_trace *trace, const struct dlp_history_call *call)
{
	struct dlp_trace_out *out = &trace->out;

	dlp_trace_arg_count(out, "loader", call->loader);
	arg_known(trace, "epoch", call->epoch);
	if (call->index >= 0)
		dlp_trace_arg_int(out, "batch", call->index);
	arg_known(trace, "worker", call->worker_pid);
	if (call->ready >= 0)
		dlp_trace_arg_int(out, "ready", call->ready);
	if (call->in_flight >= 0)
		dlp_trace_arg_int(out, "in_flight", call->in_flight);
	arg_known(trace, "message_bytes", call->message_bytes);
	arg_station(trace, "asked", call->asked_ns);
	arg_station(trace, "taken", call->taken_ns);
	arg_station(trace, "produced", call->produced_ns);
	arg_station(trace, "sent", call->sent_ns);
	arg_station(trace, "received", call->received_ns);
	dlp_trace_split(trace, &call->split);
}

static void tell_production(struct dlp_trace *trace, const struct dlp_history_production *made)
{
	arg_known(trace, "loader", made->loader);
	if (made->index >= 0)
		dlp_trace_arg_int(&trace->out, "batch", made->index);
}

static void tell_scope(struct dlp_trace *trace, const struct dlp_history_scope *scope)
{
	dlp_trace_arg_us(&trace->out, "nested_us", (int64_t)scope->child_ns);
	if (scope->weight > 1)
		dlp_trace_arg_count(&trace->out, "stands_for", scope->weight);
}

static const char *slice_name(const struct dlp_history *history, const struct dlp_slice *slice)
{
	switch (slice->kind) {
	case DLP_SLICE_INIT:
		return "iter(DataLoader)";
	case DLP_SLICE_CALL:
		return "GetNext";
	case DLP_SLICE_PRODUCTION:
		return "make batch";
	default:
		return slice->scope->label < history->label_cnt &&
		       *history->labels[slice->scope->label] ?
			       history->labels[slice->scope->label] : "scope";
	}
}

static void draw_slice(struct dlp_trace *trace, const struct dlp_slice *slice)
{
	static const char *const category[DLP_SLICE_KINDS] = { "iterator", "getnext", "production",
							       "scope" };
	struct dlp_trace_out *out = &trace->out;

	dlp_trace_begin(out, 'X', slice_name(trace->history, slice), slice->track->pid,
			slice->track->row);
	dlp_trace_at(out, slice->start_ns);
	dlp_trace_lasts(out, slice->end_ns - slice->start_ns);
	dlp_trace_category(out, category[slice->kind]);
	switch (slice->kind) {
	case DLP_SLICE_INIT:
		dlp_trace_arg_count(out, "loader", slice->init->loader);
		break;
	case DLP_SLICE_CALL:
		tell_call(trace, slice->call);
		break;
	case DLP_SLICE_PRODUCTION:
		tell_production(trace, slice->production);
		break;
	default:
		tell_scope(trace, slice->scope);
		break;
	}
	if (slice->cut)
		dlp_trace_arg_bool(out, "cut", true);
	dlp_trace_end(out);
}

int dlp_trace_threads(struct dlp_trace *trace)
{
	struct dlp_timeline *timeline;
	struct dlp_slice slice;
	int err;

	err = dlp_timeline_new(&timeline, trace->history);
	if (err)
		return err;
	while ((err = dlp_timeline_next(timeline, &slice)) > 0) {
		if (slice.track->row >= DLP_TRACE_ID_MAX)
			continue;
		if (!dlp_trace_row(trace, slice.track->pid, slice.track->row)) {
			err = -ENOMEM;
			break;
		}
		draw_slice(trace, &slice);
		if (slice.kind == DLP_SLICE_CALL && slice.call->flags & DLP_CALL_BATCH)
			draw_arrows(trace, slice.call);
	}
	dlp_timeline_free(timeline);
	return err;
}

/* About the whole: which clock, which window, and what the history had no room for. */
static void write_head(FILE *file, const struct dlp_history *history)
{
	const struct dlp_history_lost *lost = &history->lost;
	const struct {
		const char *name;
		uint64_t count;
	} left_out[] = {
		{ "calls", lost->calls },	  { "productions", lost->productions },
		{ "scopes", lost->scopes },	  { "samples", lost->samples },
		{ "waits", lost->waits },	  { "blocks", lost->blocks },
		{ "requests", lost->requests },	  { "intervals", lost->intervals },
		{ "iterators", lost->iterators }, { "others", lost->others },
	};

	fprintf(file,
		"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"tool\":\"dlprof-bpf %s\","
		"\"clock\":\"CLOCK_MONOTONIC\",\"window_start_ns\":%" PRIu64
		",\"window_end_ns\":%" PRIu64 ",\"clock_realtime_at_start_ns\":",
		DLP_VERSION, history->start_ns, history->end_ns);
	if (history->realtime_start_ns)
		fprintf(file, "%" PRIu64, history->realtime_start_ns);
	else
		fputs("null", file);
	fputs(",\"left_out\":{", file);
	for (size_t i = 0, any = 0; i < DLP_ARRAY_SIZE(left_out); i++) {
		if (left_out[i].count)
			fprintf(file, "%s\"%s\":%" PRIu64, any++ ? "," : "", left_out[i].name,
				left_out[i].count);
	}
	fputs("}},\"traceEvents\":[\n", file);
}

int dlp_trace_write(FILE *file, const struct dlp_history *history)
{
	struct dlp_trace trace = { .out = { .file = file }, .history = history };
	int err;

	write_head(file, history);
	err = dlp_trace_threads(&trace);
	if (!err)
		err = dlp_trace_states(&trace);
	if (!err)
		err = dlp_trace_counters(&trace);
	if (!err)
		err = dlp_trace_devices(&trace);
	fputs("\n]}\n", file);
	dlp_tracks_fini(&trace.tracks);
	if (!err && fflush(file))
		err = -errno;
	return err || !ferror(file) ? err : -EIO;
}
