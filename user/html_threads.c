/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the trainer's and the workers' main threads did over time. */
#include "html_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

/* What a table's rows are made of. */
struct lanes {
	struct dlp_html *html;
	struct dlp_history_sample *readings; /* merged ones; who in `pid` */
	struct dlp_history_wait *waits;	     /* chosen ones; who in `pid` */
};

/* 0 = the training thread, 1 and on = workers in order of the history, -1 = none of them. */
static int64_t who(const struct dlp_html *html, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
	int64_t worker;

	if (tid && tid == html->history->model->main_tid)
		return 0;
	worker = tid == pid ? dlp_html_worker(html, pid, ts_ns) : -1;
	return worker < 0 ? -1 : worker + 1;
}

static const struct dlp_history_worker *worker_of(const void *ctx, size_t row)
{
	return &((const struct lanes *)ctx)->html->history->workers[row];
}

static int64_t worker_pid(const void *ctx, size_t row)
{
	return worker_of(ctx, row)->pid;
}

static int64_t worker_loader(const void *ctx, size_t row)
{
	return worker_of(ctx, row)->loader;
}

static int64_t worker_born(const void *ctx, size_t row)
{
	return dlp_html_at(((const struct lanes *)ctx)->html, worker_of(ctx, row)->born_ns);
}

static int64_t worker_died(const void *ctx, size_t row)
{
	return dlp_html_at(((const struct lanes *)ctx)->html, worker_of(ctx, row)->died_ns);
}

static const struct dlp_html_column worker_columns[] = {
	{ "pid", worker_pid, false },
	{ "loader", worker_loader, false },
	{ "born", worker_born, false },
	{ "died", worker_died, false },
};

static int64_t reading_who(const void *ctx, size_t row)
{
	return ((const struct lanes *)ctx)->readings[row].pid;
}

static int64_t reading_start(const void *ctx, size_t row)
{
	const struct lanes *lanes = ctx;

	return dlp_html_at(lanes->html, lanes->readings[row].start_ns);
}

static int64_t reading_dur(const void *ctx, size_t row)
{
	const struct dlp_history_sample *reading = &((const struct lanes *)ctx)->readings[row];

	return (int64_t)((reading->end_ns - reading->start_ns) / 1000);
}

/* Thousandths of what was accounted for. */
static int64_t reading_share(const void *ctx, size_t row, enum dlp_state state)
{
	const struct dlp_clock *split = &((const struct lanes *)ctx)->readings[row].split;
	uint64_t sum = 0;

	for (int i = 0; i < DLP_ST_MAX; i++)
		sum += split->ns[i];
	return sum ? (int64_t)((double)split->ns[state] / (double)sum * 1000 + 0.5) : 0;
}

#define SHARE(name, STATE)                                                                         \
	static int64_t share_##name(const void *ctx, size_t row)                                   \
	{                                                                                          \
		return reading_share(ctx, row, STATE);                                             \
	}
#define STATES(X)                                                                                  \
	X(run, DLP_ST_RUN)                                                                         \
	X(runq, DLP_ST_RUNQ)                                                                       \
	X(disk, DLP_ST_DISK)                                                                       \
	X(fault, DLP_ST_FAULT)                                                                     \
	X(fs, DLP_ST_FS)                                                                           \
	X(net, DLP_ST_NET)                                                                         \
	X(lock, DLP_ST_LOCK)                                                                       \
	X(gil, DLP_ST_GIL)                                                                         \
	X(pipe, DLP_ST_PIPE)                                                                       \
	X(sleep, DLP_ST_SLEEP)                                                                     \
	X(idle, DLP_ST_IDLE)                                                                       \
	X(other, DLP_ST_OTHER)
STATES(SHARE)

static const struct dlp_html_column reading_columns[] = {
	{ "who", reading_who, false },
	{ "start", reading_start, true },
	{ "dur", reading_dur, false },
#define X(name, STATE) { #name, share_##name, false },
	STATES(X)
#undef X
};

static int by_start(const void *a, const void *b)
{
	const struct dlp_history_sample *left = a, *right = b;

	return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

/*
 * Joins readings of one thread that follow each other, until one is `least_ns` long. `open` has the
 * position + 1 of the newest one of each thread in lanes->readings.
 */
static size_t join_readings(struct lanes *lanes, size_t *open, uint64_t least_ns)
{
	const struct dlp_history *history = lanes->html->history;
	size_t cnt = 0;

	for (size_t i = 0; i < history->sample_cnt; i++) {
		const struct dlp_history_sample *sample = &history->samples[i];
		int64_t thread = who(lanes->html, sample->pid, sample->tid, sample->end_ns);
		struct dlp_history_sample *last;

		if (sample->lane == DLP_LANE_POOL || thread < 0)
			continue;
		last = open[thread] ? &lanes->readings[open[thread] - 1] : NULL;
		if (last && last->end_ns - last->start_ns < least_ns &&
		    last->end_ns == sample->start_ns) {
			last->end_ns = sample->end_ns;
			for (int state = 0; state < DLP_ST_MAX; state++)
				last->split.ns[state] += sample->split.ns[state];
			continue;
		}
		lanes->readings[cnt] = *sample;
		lanes->readings[cnt].pid = (uint32_t)thread;
		open[thread] = ++cnt;
	}
	return cnt;
}

static int put_readings(struct lanes *lanes)
{
	const struct dlp_history *history = lanes->html->history;
	_cleanup_free_ struct dlp_history_sample *readings = NULL;
	_cleanup_free_ size_t *open = NULL;
	uint64_t all_ns = 0;
	size_t cnt;

	for (size_t i = 0; i < history->sample_cnt; i++)
		if (history->samples[i].lane != DLP_LANE_POOL)
			all_ns += history->samples[i].end_ns - history->samples[i].start_ns;
	readings = calloc(history->sample_cnt + 1, sizeof(*readings));
	open = calloc(history->worker_cnt + 1, sizeof(*open));
	if (!readings || !open)
		return -ENOMEM;
	lanes->readings = readings;
	/* with fewer there is room for each as it was */
	cnt = join_readings(lanes, open,
			    history->sample_cnt > DLP_HTML_READINGS_MAX ?
				    all_ns / DLP_HTML_READINGS_MAX * 5 / 4 :
				    0);
	qsort(readings, cnt, sizeof(*readings), by_start);
	dlp_html_table(lanes->html, "samples", reading_columns,
		       DLP_ARRAY_SIZE(reading_columns), lanes, cnt, DLP_HTML_NULL);
	return 0;
}

static int64_t wait_who(const void *ctx, size_t row)
{
	return ((const struct lanes *)ctx)->waits[row].pid;
}

static int64_t wait_start(const void *ctx, size_t row)
{
	const struct lanes *lanes = ctx;

	return dlp_html_at(lanes->html, lanes->waits[row].start_ns);
}

static int64_t wait_dur(const void *ctx, size_t row)
{
	const struct dlp_history_wait *wait = &((const struct lanes *)ctx)->waits[row];

	return (int64_t)((wait->end_ns - wait->start_ns) / 1000);
}

static int64_t wait_state(const void *ctx, size_t row)
{
	uint32_t state = ((const struct lanes *)ctx)->waits[row].state;

	return state < DLP_ST_MAX ? state : DLP_ST_OTHER;
}

static const struct dlp_html_column wait_columns[] = {
	{ "who", wait_who, false },
	{ "start", wait_start, true },
	{ "dur", wait_dur, false },
	{ "state", wait_state, false },
};

static int longest_first(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left < right) - (left > right);
}

/* Least duration with which no more than the page has room for are left. */
static int least_wait(const struct lanes *lanes, size_t cnt, uint64_t *ret_ns)
{
	_cleanup_free_ uint64_t *ns = NULL;

	*ret_ns = 0;
	if (cnt <= DLP_HTML_WAITS_MAX)
		return 0;
	ns = calloc(cnt, sizeof(*ns));
	if (!ns)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		ns[i] = lanes->waits[i].end_ns - lanes->waits[i].start_ns;
	qsort(ns, cnt, sizeof(*ns), longest_first);
	*ret_ns = ns[DLP_HTML_WAITS_MAX] + 1;
	return 0;
}

static int put_waits(struct lanes *lanes)
{
	const struct dlp_history *history = lanes->html->history;
	_cleanup_free_ struct dlp_history_wait *waits = NULL;
	size_t cnt = 0, kept = 0;
	uint64_t least_ns;

	waits = calloc(history->wait_cnt + 1, sizeof(*waits));
	if (!waits)
		return -ENOMEM;
	lanes->waits = waits;
	for (size_t i = 0; i < history->wait_cnt; i++) {
		const struct dlp_history_wait *wait = &history->waits[i];
		int64_t thread = who(lanes->html, wait->pid, wait->tid, wait->end_ns);

		if (thread < 0)
			continue;
		waits[cnt] = *wait;
		waits[cnt++].pid = (uint32_t)thread;
	}
	if (least_wait(lanes, cnt, &least_ns))
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		if (waits[i].end_ns - waits[i].start_ns >= least_ns)
			waits[kept++] = waits[i];
	dlp_html_table(lanes->html, "waits", wait_columns, DLP_ARRAY_SIZE(wait_columns), lanes,
		       kept, (int64_t)cnt);
	return 0;
}

int dlp_html_threads(struct dlp_html *html)
{
	struct lanes lanes = { .html = html };
	int err;

	dlp_html_table(html, "workers", worker_columns, DLP_ARRAY_SIZE(worker_columns), &lanes,
		       html->history->worker_cnt, DLP_HTML_NULL);
	err = put_readings(&lanes);
	if (err)
		return err;
	return put_waits(&lanes);
}
