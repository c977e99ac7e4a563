/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report's section on the time per batch: from the start of one GetNext to the start of the
 * next one of the same iterator's epoch, and what happened while it was long.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "activity.h"
#include "report_priv.h"
#include "report_events.h"
#include "util.h"

/* Outliers whose time is looked into; more are listed. */
#define DETAILED_MAX 200
/* Things told about one of them, those that lasted longest. */
#define THINGS_MAX 12
/* Outliers about which they are told. */
#define TOLD_MAX 20

static const struct dlp_table_form batch_loaders = {
	"loaders",
	"Time per batch of each loader (start of GetNext to start of the next, in one epoch)",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "count", "count", DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", "p95", DLP_CELL_NS },
		{ "p99_us", "p99", DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", "outliers", DLP_CELL_COUNT },
		{ "epochs_known", "epochs told apart", DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form batch_outliers = {
	"outliers",
	"Outliers (at least twice the median), the longest first",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "epoch", "epoch", DLP_CELL_ID },
		{ "batch", "batch", DLP_CELL_INDEX },
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", NULL, DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ "getnext_us", "GetNext", DLP_CELL_NS },
		{ "main_states", "training thread", DLP_CELL_SPLIT },
		{ "worker_states", "workers", DLP_CELL_SPLIT },
		{ "job_cpus", "job CPUs", DLP_CELL_NUMBER },
		{ "others_cpus", "others", DLP_CELL_NUMBER },
		{ "steals_most", "steals most", DLP_CELL_TEXT },
		{ "reads", NULL, DLP_CELL_NUMBER },
		{ "read_bytes", "read", DLP_CELL_BYTES },
		{ "slowest_read_us", NULL, DLP_CELL_NS },
		{ "written_bytes", NULL, DLP_CELL_BYTES },
		{ 0 },
	},
};

static const struct dlp_table_form batch_events = {
	"events",
	"What lasted longest during the longest ones",
	(const struct dlp_column[]){
		{ "batch_start_ns", "batch at", DLP_CELL_TIME },
		{ "loader", NULL, DLP_CELL_ID },
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", NULL, DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ "dimension", "dimension", DLP_CELL_TEXT },
		{ "event", "event", DLP_CELL_TEXT },
		{ "pid", "pid", DLP_CELL_ID },
		{ "tid", NULL, DLP_CELL_ID },
		{ "detail", "detail", DLP_CELL_TEXT },
		{ 0 },
	},
};

/* The time of one batch. */
struct step {
	const struct dlp_history_call *call; /* the GetNext that it began with */
	uint64_t start_ns, end_ns;
};

struct steps {
	struct step *at;
	size_t cnt, room;
};

static bool step_selected(const struct dlp_report *report, const struct dlp_history_call *call,
			  const struct dlp_history_call *next)
{
	return next->flags & DLP_CALL_WINDOW && dlp_selected(report, next->start_ns) &&
	       dlp_selected_loader(report, call->loader) &&
	       dlp_selected_worker(report, call->worker_pid);
}

/* All selected ones of all loaders, from calls in order of their starts. */
static int find_steps(const struct dlp_report *report, struct steps *ret)
{
	const struct dlp_history *history = report->history;
	_cleanup_free_ size_t *last = NULL; /* of each iterator, behind the call before; 0 = none */
	int err = 0;

	last = calloc(history->iterator_cnt + 1, sizeof(*last));
	if (!last)
		return -ENOMEM;
	for (size_t i = 0; i < history->call_cnt && !err; i++) {
		const struct dlp_history_call *call = &history->calls[i], *before;
		const struct dlp_history_iterator *it =
			dlp_history_iterator(history, call->iterator);
		size_t at;

		if (!it)
			continue;
		at = last[it - history->iterators];
		last[it - history->iterators] = i + 1;
		before = at ? &history->calls[at - 1] : NULL;
		if (!before || before->epoch != call->epoch || !(before->flags & DLP_CALL_DATA) ||
		    !step_selected(report, before, call))
			continue;
		err = dlp_grow(&ret->at, &ret->room, ret->cnt, sizeof(*ret->at));
		if (!err)
			ret->at[ret->cnt++] =
				(struct step){ before, before->start_ns, call->start_ns };
	}
	return err;
}

static int longer_first(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	uint64_t x_ns = x->end_ns - x->start_ns, y_ns = y->end_ns - y->start_ns;

	if (x_ns != y_ns)
		return x_ns < y_ns ? 1 : -1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void put_activity(struct dlp_table *table, const struct dlp_activity *activity,
			 const struct step *step)
{
	const struct dlp_history_other *other;
	struct dlp_activity_io io;
	struct dlp_clock split;
	char text[64], name[20];
	double cpus;

	dlp_activity_split(activity, step->call->tid, step->start_ns, step->end_ns, &split);
	dlp_put_split(table, &split);
	dlp_activity_split(activity, 0, step->start_ns, step->end_ns, &split);
	dlp_put_split(table, &split);
	dlp_put_number(table, dlp_activity_job_cpus(activity, step->start_ns, step->end_ns));
	dlp_put_number(table, dlp_activity_others_cpus(activity, step->start_ns, step->end_ns));
	other = dlp_activity_top_other(activity, step->start_ns, step->end_ns, &cpus);
	*text = '\0';
	if (other)
		(void)snprintf(text, sizeof(text), "%s (%u) %.2f",
			       dlp_sanitise(name, sizeof(name), other->comm, sizeof(other->comm)),
			       other->pid, cpus);
	dlp_put_text(table, text);
	if (activity->history->facts && !activity->history->facts->block_seen)
		return;
	dlp_activity_io(activity, step->start_ns, step->end_ns, &io);
	dlp_put_number(table, io.reads);
	dlp_put_count(table, (uint64_t)io.read_bytes);
	if (io.slowest_ns)
		dlp_put_count(table, io.slowest_ns);
	else
		dlp_put_unknown(table);
	dlp_put_count(table, (uint64_t)io.write_bytes);
}

static void put_outlier(struct dlp_table *table, const struct dlp_activity *activity,
			const struct step *step, bool detailed)
{
	dlp_row(table);
	dlp_put_count(table, step->call->loader);
	dlp_put_count(table, step->call->epoch);
	dlp_put_index(table, step->call->index);
	dlp_put_span(table, step->start_ns, step->end_ns);
	dlp_put_count(table, step->call->end_ns - step->call->start_ns);
	if (detailed)
		put_activity(table, activity, step);
}

static void put_events(const struct dlp_report *report, const struct dlp_activity *activity,
		       struct dlp_table *table, const struct step *step)
{
	struct dlp_happenings list = { .max = DLP_HAPPENINGS_MAX };

	dlp_report_events(report, activity, step->start_ns, step->end_ns, &list);
	dlp_happenings_longest(&list, step->start_ns, step->end_ns);
	for (size_t i = 0; i < list.cnt && i < THINGS_MAX; i++) {
		dlp_row(table);
		dlp_put_count(table, step->start_ns);
		dlp_put_count(table, step->call->loader);
		dlp_happening_put(table, &list.at[i]);
	}
	table->failed |= list.failed;
	dlp_happenings_fini(&list);
}

static void sum_steps(const struct dlp_report *report, const struct steps *steps, uint32_t loader,
		      struct dlp_table *table, uint64_t *ret_least_ns)
{
	const struct dlp_loader *own = &report->history->model->loaders[loader - 1];
	struct dlp_stats stats = { 0 };
	bool told = true;

	for (size_t i = 0; i < steps->cnt; i++) {
		if (steps->at[i].call->loader != loader)
			continue;
		dlp_stats_add(&stats, steps->at[i].end_ns - steps->at[i].start_ns);
		told &= !!steps->at[i].call->epoch;
	}
	dlp_row(table);
	dlp_put_count(table, own->id);
	dlp_put_stats(table, &stats);
	dlp_put_text(table, !stats.cnt ? NULL : told ? "yes" : "no");
	*ret_least_ns = dlp_stats_outlier(&stats);
	dlp_stats_fini(&stats);
}

void dlp_report_batchtime(const struct dlp_report *report, struct dlp_part *part)
{
	struct dlp_table *loaders = dlp_part_table(part, &batch_loaders);
	struct dlp_table *outliers = dlp_part_table(part, &batch_outliers);
	struct dlp_table *events = dlp_part_table(part, &batch_events);
	uint64_t least_ns[DLP_MODEL_LOADERS_MAX] = { 0 };
	struct dlp_activity activity;
	struct steps steps = { 0 };
	size_t cnt = 0;

	if (dlp_activity_init(&activity, report->history)) {
		part->failed = true;
		return;
	}
	part->failed = find_steps(report, &steps) != 0;
	for (uint32_t id = 1; id <= report->history->model->loader_cnt; id++) {
		if (dlp_selected_loader(report, id))
			sum_steps(report, &steps, id, loaders, &least_ns[id - 1]);
	}
	if (steps.cnt)
		qsort(steps.at, steps.cnt, sizeof(*steps.at), longer_first);
	for (size_t i = 0; i < steps.cnt; i++) {
		const struct step *step = &steps.at[i];

		if (step->end_ns - step->start_ns < least_ns[step->call->loader - 1])
			continue;
		put_outlier(outliers, &activity, step, cnt < DETAILED_MAX);
		if (cnt++ < TOLD_MAX)
			put_events(report, &activity, events, step);
	}
	free(steps.at);
	dlp_activity_fini(&activity);
}
