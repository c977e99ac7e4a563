/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's sections over time: one row per interval, and how full the loaders' queues were. */
#include <math.h>

#include "activity.h"
#include "report_priv.h"
#include "system.h"
#include "util.h"

static const struct dlp_table_form timeline_intervals = {
	"intervals",
	"Intervals",
	(const struct dlp_column[]){
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", NULL, DLP_CELL_TIME },
		{ "calls", NULL, DLP_CELL_COUNT },
		{ "batches", "batches", DLP_CELL_COUNT },
		{ "batches_per_s", "per s", DLP_CELL_NUMBER },
		{ "exposed_ratio", "exposed", DLP_CELL_RATIO },
		{ "job_cpus", "job CPUs", DLP_CELL_NUMBER },
		{ "others_cpus", "others", DLP_CELL_NUMBER },
		{ "idle_ratio", "CPUs idle", DLP_CELL_RATIO },
		{ "throttled_ratio", NULL, DLP_CELL_RATIO },
		{ "reads", NULL, DLP_CELL_NUMBER },
		{ "read_bytes", "read", DLP_CELL_BYTES },
		{ "written_bytes", NULL, DLP_CELL_BYTES },
		{ "mem_available_bytes", "memory free", DLP_CELL_BYTES },
		{ "worker_states", "workers", DLP_CELL_SPLIT },
		{ 0 },
	},
};

/* The newest reading at that time, and the one before it; either may be NULL. */
static const struct dlp_ev_system *system_at(const struct dlp_history *history, uint64_t ts_ns,
					     const struct dlp_ev_system **ret_before)
{
	size_t low = 0, high = history->system_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (history->system[mid].hdr.ts_ns <= ts_ns)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_before = low > 1 ? &history->system[low - 2] : NULL;
	return low ? &history->system[low - 1] : NULL;
}

static void put_system(struct dlp_table *table, const struct dlp_activity *activity,
		       const struct dlp_history_interval *interval)
{
	const struct dlp_history *history = activity->history;
	const struct dlp_ev_system *before, *now;
	uint64_t start_ns = interval->start_ns, end_ns = interval->end_ns;
	struct dlp_activity_io io;

	dlp_put_number(table, dlp_activity_job_cpus(activity, start_ns, end_ns));
	dlp_put_number(table, dlp_activity_others_cpus(activity, start_ns, end_ns));
	now = system_at(history, end_ns, &before);
	dlp_put_number(table, now && before ? dlp_system_idle(before, now) : NAN);
	dlp_put_number(table, now && before ? dlp_system_throttled(before, now) : NAN);
	if (history->facts && !history->facts->block_seen) {
		for (int i = 0; i < 3; i++)
			dlp_put_unknown(table);
	} else {
		dlp_activity_io(activity, start_ns, end_ns, &io);
		dlp_put_number(table, io.reads);
		dlp_put_count(table, (uint64_t)io.read_bytes);
		dlp_put_count(table, (uint64_t)io.write_bytes);
	}
	if (now && now->known & DLP_SYS_MEM)
		dlp_put_count(table, now->mem_available);
	else
		dlp_put_unknown(table);
}

void dlp_report_timeline(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_history *history = report->history;
	struct dlp_table *table = dlp_part_table(part, &timeline_intervals);
	struct dlp_activity activity;

	if (dlp_activity_init(&activity, history)) {
		part->failed = true;
		return;
	}
	for (size_t i = 0; i < history->interval_cnt; i++) {
		const struct dlp_history_interval *interval = &history->intervals[i];
		double wall_ns = (double)(interval->end_ns - interval->start_ns);
		struct dlp_clock split;

		if (!dlp_selected_part(report, interval->start_ns, interval->end_ns))
			continue;
		dlp_row(table);
		dlp_put_count(table, interval->start_ns);
		dlp_put_count(table, interval->end_ns);
		dlp_put_count(table, interval->calls);
		dlp_put_count(table, interval->batches);
		dlp_put_number(table, (double)interval->batches * 1e9 / wall_ns);
		dlp_put_number(table, fmin(1, (double)interval->exposed_ns / wall_ns));
		put_system(table, &activity, interval);
		dlp_activity_split(&activity, 0, interval->start_ns, interval->end_ns, &split);
		dlp_put_split(table, &split);
	}
	dlp_activity_fini(&activity);
}

#define QUEUE_COLUMNS                                                                              \
	{ "calls", "calls", DLP_CELL_COUNT }, { "in_flight_mean", "in flight", DLP_CELL_NUMBER },  \
	{ "in_flight_max", "most", DLP_CELL_COUNT },                                               \
	{ "ready_mean", "ready", DLP_CELL_NUMBER }, { "empty_ratio", "none ready", DLP_CELL_RATIO },\
	{ "full_ratio", "all ready", DLP_CELL_RATIO }

static const struct dlp_table_form prefetch_loaders = {
	"loaders",
	"Prefetching of each loader (when GetNext begins: batches in flight, and ready in order)",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "num_workers", "workers", DLP_CELL_COUNT },
		QUEUE_COLUMNS,
		{ "ahead_median_us", "asked before", DLP_CELL_NS },
		{ "waiting_median_us", "waited ready", DLP_CELL_NS },
		{ 0 },
	},
};

static const struct dlp_table_form prefetch_intervals = {
	"intervals",
	"Prefetching over time",
	(const struct dlp_column[]){
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", NULL, DLP_CELL_TIME },
		{ "loader", "loader", DLP_CELL_ID },
		QUEUE_COLUMNS,
		{ 0 },
	},
};

/* What GetNext calls found when they began. */
struct queue {
	uint64_t cnt, in_flight, in_flight_max, ready, empty, full;
	uint64_t calls; /* those of which nothing is known included */
};

static void queue_add(struct queue *queue, const struct dlp_history_call *call)
{
	queue->calls++;
	if (call->ready < 0 || call->in_flight < 0)
		return;
	queue->cnt++;
	queue->in_flight += (uint64_t)call->in_flight;
	queue->ready += (uint64_t)call->ready;
	if ((uint64_t)call->in_flight > queue->in_flight_max)
		queue->in_flight_max = (uint64_t)call->in_flight;
	queue->empty += !call->ready;
	queue->full += call->ready && call->ready >= call->in_flight;
}

static void put_queue(struct dlp_table *table, const struct queue *queue)
{
	double cnt = queue->cnt ? (double)queue->cnt : NAN;

	dlp_put_count(table, queue->calls);
	dlp_put_number(table, (double)queue->in_flight / cnt);
	if (queue->cnt)
		dlp_put_count(table, queue->in_flight_max);
	else
		dlp_put_unknown(table);
	dlp_put_number(table, (double)queue->ready / cnt);
	dlp_put_number(table, (double)queue->empty / cnt);
	dlp_put_number(table, (double)queue->full / cnt);
}

static void put_median(struct dlp_table *table, struct dlp_stats *stats)
{
	if (stats->cnt)
		dlp_put_count(table, dlp_stats_quantile(stats, 0.5));
	else
		dlp_put_unknown(table);
	table->failed |= stats->failed;
	dlp_stats_fini(stats);
}

static void sum_loader(const struct dlp_report *report, const struct dlp_loader *loader,
		       struct dlp_table *table)
{
	const struct dlp_history *history = report->history;
	struct dlp_stats ahead = { 0 }, waiting = { 0 };
	struct queue queue = { 0 };

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];

		if (call->loader != loader->id || !dlp_selected_call(report, call) ||
		    !(call->flags & DLP_CALL_DATA))
			continue;
		queue_add(&queue, call);
		if (!(call->flags & DLP_CALL_BATCH))
			continue;
		if (call->asked_ns && call->asked_ns < call->end_ns)
			dlp_stats_add(&ahead, call->end_ns - call->asked_ns);
		if (call->sent_ns)
			dlp_stats_add(&waiting, call->start_ns > call->sent_ns ?
							call->start_ns - call->sent_ns :
							0);
	}
	dlp_row(table);
	dlp_put_count(table, loader->id);
	if (loader->num_workers >= 0)
		dlp_put_count(table, (uint64_t)loader->num_workers);
	else
		dlp_put_unknown(table);
	put_queue(table, &queue);
	put_median(table, &ahead);
	put_median(table, &waiting);
}

/* Calls and intervals are in order of time: one pass over both for each loader. */
static void over_time(const struct dlp_report *report, uint32_t loader, struct dlp_table *table)
{
	const struct dlp_history *history = report->history;
	size_t at = 0;

	for (size_t i = 0; i < history->interval_cnt; i++) {
		const struct dlp_history_interval *interval = &history->intervals[i];
		struct queue queue = { 0 };

		for (; at < history->call_cnt && history->calls[at].start_ns < interval->end_ns;
		     at++) {
			const struct dlp_history_call *call = &history->calls[at];

			if (call->loader == loader && call->start_ns >= interval->start_ns &&
			    call->flags & DLP_CALL_DATA && dlp_selected_call(report, call))
				queue_add(&queue, call);
		}
		if (!queue.calls)
			continue;
		dlp_row(table);
		dlp_put_count(table, interval->start_ns);
		dlp_put_count(table, interval->end_ns);
		dlp_put_count(table, loader);
		put_queue(table, &queue);
	}
}

void dlp_report_prefetch(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_model *model = report->history->model;
	struct dlp_table *loaders = dlp_part_table(part, &prefetch_loaders);
	struct dlp_table *intervals = dlp_part_table(part, &prefetch_intervals);

	for (size_t i = 0; i < model->loader_cnt; i++) {
		if (!dlp_selected_loader(report, model->loaders[i].id))
			continue;
		sum_loader(report, &model->loaders[i], loaders);
		over_time(report, model->loaders[i].id, intervals);
	}
}
