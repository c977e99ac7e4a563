/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's section on worker processes: lifetimes, and what they did with them. */
#include <stdlib.h>

#include "activity.h"
#include "report_priv.h"
#include "summary.h"
#include "util.h"

static const struct dlp_table_form worker_loaders = {
	"loaders",
	"Workers of each loader (times: lives that began and ended before the end)",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "started", "started", DLP_CELL_COUNT },
		{ "ended", "ended", DLP_CELL_COUNT },
		{ "alive", "alive", DLP_CELL_COUNT },
		{ "lifetimes", "lives", DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", NULL, DLP_CELL_NS },
		{ "p99_us", NULL, DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", "outliers", DLP_CELL_COUNT },
		{ 0 },
	},
};

static const struct dlp_table_form worker_list = {
	"workers",
	"Workers (median, p95, max: making one batch)",
	(const struct dlp_column[]){
		{ "pid", "pid", DLP_CELL_ID },
		{ "loader", "loader", DLP_CELL_ID },
		{ "iterator", "iterator", DLP_CELL_ID },
		{ "born_ns", "born", DLP_CELL_TIME },
		{ "died_ns", "died", DLP_CELL_TIME },
		{ "lifetime_us", "lived", DLP_CELL_NS },
		{ "exit", "exit", DLP_CELL_TEXT },
		{ "batches", "batches", DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", "p95", DLP_CELL_NS },
		{ "p99_us", NULL, DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", NULL, DLP_CELL_COUNT },
		{ "states", "its main thread", DLP_CELL_SPLIT },
		{ 0 },
	},
};

static const struct dlp_table_form worker_outliers = {
	"outliers",
	"Outliers of the lifetimes (at least twice the median), the longest first",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "pid", "pid", DLP_CELL_ID },
		{ "start_ns", "born", DLP_CELL_TIME },
		{ "end_ns", "died", DLP_CELL_TIME },
		{ "duration_us", "lived", DLP_CELL_NS },
		{ 0 },
	},
};

static const struct dlp_table_form production_outliers = {
	"production_outliers",
	"Batches that took a worker at least twice its median, the longest first",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "pid", "pid", DLP_CELL_ID },
		{ "batch", "batch", DLP_CELL_INDEX },
		{ "start_ns", "taken", DLP_CELL_TIME },
		{ "end_ns", "made", DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ 0 },
	},
};

static bool listed(const struct dlp_report *report, const struct dlp_history_worker *worker)
{
	return dlp_selected_loader(report, worker->loader) &&
	       dlp_selected_worker(report, worker->pid) &&
	       dlp_selected_part(report, worker->born_ns,
				 worker->died_ns ? worker->died_ns : UINT64_MAX);
}

/* Birth and death are known, and the death lies in the selected time. */
static bool whole_life(const struct dlp_report *report, const struct dlp_history_worker *worker)
{
	return worker->born_ns && worker->died_ns && dlp_selected(report, worker->died_ns) &&
	       listed(report, worker);
}

static void life_outliers(const struct dlp_report *report, struct dlp_table *table,
			  uint32_t loader, uint64_t least_ns)
{
	const struct dlp_history *history = report->history;

	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (worker->loader != loader || !whole_life(report, worker) ||
		    worker->died_ns - worker->born_ns < least_ns)
			continue;
		dlp_row(table);
		dlp_put_count(table, loader);
		dlp_put_count(table, worker->pid);
		dlp_put_span(table, worker->born_ns, worker->died_ns);
	}
}

/* loader 0: workers of which no batch was seen returned. */
static void sum_loader(const struct dlp_report *report, struct dlp_table *table,
		       struct dlp_table *outliers, uint32_t loader)
{
	const struct dlp_history *history = report->history;
	uint64_t started = 0, ended = 0, alive = 0;
	struct dlp_stats stats = { 0 };

	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];

		if (worker->loader != loader || !listed(report, worker))
			continue;
		started += worker->born_ns && dlp_selected(report, worker->born_ns);
		ended += worker->died_ns && dlp_selected(report, worker->died_ns);
		alive += !worker->died_ns || !dlp_selected(report, worker->died_ns);
		if (whole_life(report, worker))
			dlp_stats_add(&stats, worker->died_ns - worker->born_ns);
	}
	if (loader || started || ended || alive) {
		dlp_row(table);
		dlp_put_count(table, loader);
		dlp_put_count(table, started);
		dlp_put_count(table, ended);
		dlp_put_count(table, alive);
		dlp_put_stats(table, &stats);
		life_outliers(report, outliers, loader, dlp_stats_outlier(&stats));
	}
	dlp_stats_fini(&stats);
}

static int by_pid(const void *a, const void *b)
{
	const struct dlp_history_production *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->taken_ns > y->taken_ns) - (x->taken_ns < y->taken_ns);
}

/* Those selected, by pid and time. */
struct productions {
	struct dlp_history_production *at;
	size_t cnt;
};

static bool productions_init(const struct dlp_report *report, struct productions *ret)
{
	const struct dlp_history *history = report->history;

	ret->cnt = 0;
	ret->at = malloc((history->production_cnt + 1) * sizeof(*ret->at));
	if (!ret->at)
		return false;
	for (size_t i = 0; i < history->production_cnt; i++) {
		const struct dlp_history_production *made = &history->productions[i];

		if (dlp_selected(report, made->done_ns) &&
		    dlp_selected_worker(report, made->pid) &&
		    dlp_selected_loader(report, made->loader))
			ret->at[ret->cnt++] = *made;
	}
	qsort(ret->at, ret->cnt, sizeof(*ret->at), by_pid);
	return true;
}

static size_t seek(const struct productions *all, uint32_t pid)
{
	size_t low = 0, high = all->cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (all->at[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A number may have been used by several workers. */
static bool made_by(const struct dlp_history_production *made,
		    const struct dlp_history_worker *worker)
{
	return made->pid == worker->pid && made->done_ns >= worker->born_ns &&
	       (!worker->died_ns || made->taken_ns <= worker->died_ns);
}

static void put_production(struct dlp_table *table, const struct dlp_history_production *made)
{
	dlp_row(table);
	dlp_put_count(table, made->loader);
	dlp_put_count(table, made->pid);
	dlp_put_index(table, made->index);
	dlp_put_span(table, made->taken_ns, made->done_ns);
}

/* Its main thread's: of the whole window the clock's own difference, of a part what is known. */
static void put_states(const struct dlp_report *report, const struct dlp_activity *activity,
		       struct dlp_table *table, const struct dlp_history_worker *worker)
{
	uint64_t from_ns, to_ns;
	struct dlp_clock split;

	dlp_selected_time(report, &from_ns, &to_ns);
	if (from_ns == report->history->start_ns && to_ns == report->history->end_ns) {
		dlp_put_split(table, worker->clock_valid ? &worker->clock : NULL);
		return;
	}
	dlp_activity_split(activity, worker->pid, from_ns, to_ns, &split);
	dlp_put_split(table, &split);
}

static void put_worker(struct dlp_table *table, const struct dlp_history_worker *worker,
		       struct dlp_stats *stats)
{
	char buf[40] = "";

	dlp_row(table);
	dlp_put_count(table, worker->pid);
	dlp_put_count(table, worker->loader);
	dlp_put_count(table, worker->iterator);
	dlp_put_count(table, worker->born_ns);
	dlp_put_count(table, worker->died_ns);
	if (worker->born_ns && worker->died_ns)
		dlp_put_count(table, worker->died_ns - worker->born_ns);
	else
		dlp_put_unknown(table);
	if (worker->died_ns && worker->exit_code != DLP_EXIT_UNKNOWN)
		dlp_summary_exit(worker->exit_code, buf, sizeof(buf));
	dlp_put_text(table, buf);
	dlp_put_stats(table, stats);
}

void dlp_report_workers(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_history *history = report->history;
	struct dlp_table *loaders = dlp_part_table(part, &worker_loaders);
	struct dlp_table *list = dlp_part_table(part, &worker_list);
	struct dlp_table *outliers = dlp_part_table(part, &worker_outliers);
	struct dlp_table *slow = dlp_part_table(part, &production_outliers);
	struct dlp_stats stats = { 0 };
	struct dlp_activity activity;
	struct productions all;

	for (uint32_t id = 0; id <= history->model->loader_cnt; id++) {
		if (dlp_selected_loader(report, id))
			sum_loader(report, loaders, outliers, id);
	}
	part->failed = dlp_activity_init(&activity, history) != 0;
	if (part->failed)
		return;
	part->failed = !productions_init(report, &all);
	if (part->failed)
		all.cnt = 0;
	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];
		uint64_t least_ns;
		size_t from;

		if (!listed(report, worker))
			continue;
		dlp_stats_clear(&stats);
		from = seek(&all, worker->pid);
		for (size_t j = from; j < all.cnt && all.at[j].pid == worker->pid; j++) {
			if (made_by(&all.at[j], worker))
				dlp_stats_add(&stats, all.at[j].done_ns - all.at[j].taken_ns);
		}
		put_worker(list, worker, &stats);
		put_states(report, &activity, list, worker);
		least_ns = dlp_stats_outlier(&stats);
		for (size_t j = from; j < all.cnt && all.at[j].pid == worker->pid; j++) {
			if (made_by(&all.at[j], worker) &&
			    all.at[j].done_ns - all.at[j].taken_ns >= least_ns)
				put_production(slow, &all.at[j]);
		}
	}
	dlp_stats_fini(&stats);
	free(all.at);
	dlp_activity_fini(&activity);
	dlp_table_sort(outliers, 4);
	dlp_table_sort(slow, 5);
}
