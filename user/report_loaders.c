/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's sections on iterators and on GetNext calls: one row per loader, never mixed. */
#include <math.h>

#include "report_priv.h"
#include "split.h"
#include "util.h"

static const char *yes_no(int value)
{
	return value < 0 ? NULL : value ? "yes" : "no";
}

static const struct dlp_loader *loader_of(const struct dlp_report *report, uint32_t id)
{
	const struct dlp_model *model = report->history->model;

	return id && id <= model->loader_cnt ? &model->loaders[id - 1] : NULL;
}

static void put_workers(struct dlp_table *table, const struct dlp_loader *loader)
{
	if (loader && loader->num_workers >= 0)
		dlp_put_count(table, (uint64_t)loader->num_workers);
	else
		dlp_put_unknown(table);
}

static bool init_selected(const struct dlp_report *report, const struct dlp_history_iterator *it)
{
	return it->init_end_ns && dlp_selected(report, it->init_end_ns) &&
	       dlp_selected_loader(report, it->loader);
}

static const struct dlp_table_form iterator_loaders = {
	"loaders",
	"Iterators of each loader (times: making one, iter(loader))",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "iterator_type", "iterator type", DLP_CELL_TEXT },
		{ "num_workers", "workers", DLP_CELL_COUNT },
		{ "pin_memory", "pin_memory", DLP_CELL_TEXT },
		{ "iterators", "iterators", DLP_CELL_COUNT },
		{ "initialisations", "inits", DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", NULL, DLP_CELL_NS },
		{ "p99_us", NULL, DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", "outliers", DLP_CELL_COUNT },
		{ 0 },
	},
};

static const struct dlp_table_form iterator_list = {
	"iterators",
	"Iterators",
	(const struct dlp_column[]){
		{ "iterator", "id", DLP_CELL_ID },
		{ "loader", "loader", DLP_CELL_ID },
		{ "init_start_ns", "init at", DLP_CELL_TIME },
		{ "init_end_ns", NULL, DLP_CELL_TIME },
		{ "init_us", "took", DLP_CELL_NS },
		{ "first_call_ns", "first call", DLP_CELL_TIME },
		{ "last_call_ns", "last call", DLP_CELL_TIME },
		{ "calls", "calls", DLP_CELL_COUNT },
		{ "epochs", "epochs", DLP_CELL_COUNT },
		{ "workers", "workers", DLP_CELL_COUNT },
		{ "worker_pids", "pids", DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form iterator_outliers = {
	"outliers",
	"Outliers (at least twice the median)",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "iterator", "iterator", DLP_CELL_ID },
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", "end", DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ 0 },
	},
};

/* Enough for the workers of one iterator; the workers section has them all. */
#define PIDS_MAX 512

static void put_pids(struct dlp_table *table, const struct dlp_history *history, uint32_t iterator)
{
	char pids[PIDS_MAX] = "";
	uint64_t cnt = 0;
	size_t len = 0;

	for (size_t i = 0; i < history->worker_cnt; i++) {
		if (history->workers[i].iterator != iterator)
			continue;
		cnt++;
		if (len + 12 < sizeof(pids))
			len += (size_t)snprintf(pids + len, sizeof(pids) - len, "%s%u",
						len ? " " : "", history->workers[i].pid);
	}
	dlp_put_count(table, cnt);
	dlp_put_text(table, pids);
}

static void list_iterators(const struct dlp_report *report, struct dlp_table *table)
{
	const struct dlp_history *history = report->history;

	for (size_t i = 0; i < history->iterator_cnt; i++) {
		const struct dlp_history_iterator *it = &history->iterators[i];

		if (!it->call_cnt && !it->init_end_ns)
			continue;
		if (!dlp_selected_loader(report, it->loader) ||
		    !dlp_selected_part(report, it->init_end_ns ? it->init_start_ns :
								 it->first_call_ns,
				       it->call_cnt ? it->last_call_ns : it->init_end_ns))
			continue;
		dlp_row(table);
		dlp_put_count(table, it->id);
		dlp_put_count(table, it->loader);
		dlp_put_count(table, it->init_start_ns);
		dlp_put_count(table, it->init_end_ns);
		if (it->init_end_ns)
			dlp_put_count(table, it->init_end_ns - it->init_start_ns);
		else
			dlp_put_unknown(table);
		dlp_put_count(table, it->first_call_ns);
		dlp_put_count(table, it->last_call_ns);
		dlp_put_count(table, it->call_cnt);
		if (it->plain)
			dlp_put_unknown(table);
		else
			dlp_put_count(table, it->epoch_cnt);
		put_pids(table, history, it->id);
	}
}

static void init_outliers(const struct dlp_report *report, struct dlp_table *table,
			  uint32_t loader, uint64_t least_ns)
{
	const struct dlp_history *history = report->history;

	for (size_t i = 0; i < history->iterator_cnt; i++) {
		const struct dlp_history_iterator *it = &history->iterators[i];

		if (it->loader != loader || !init_selected(report, it) ||
		    it->init_end_ns - it->init_start_ns < least_ns)
			continue;
		dlp_row(table);
		dlp_put_count(table, loader);
		dlp_put_count(table, it->id);
		dlp_put_span(table, it->init_start_ns, it->init_end_ns);
	}
}

void dlp_report_iterators(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_history *history = report->history;
	struct dlp_table *loaders = dlp_part_table(part, &iterator_loaders);
	struct dlp_table *list = dlp_part_table(part, &iterator_list);
	struct dlp_table *outliers = dlp_part_table(part, &iterator_outliers);
	struct dlp_stats stats = { 0 };

	for (uint32_t id = 1; id <= history->model->loader_cnt; id++) {
		const struct dlp_loader *loader = loader_of(report, id);
		uint64_t iterators = 0;

		if (!dlp_selected_loader(report, id))
			continue;
		dlp_stats_clear(&stats);
		for (size_t i = 0; i < history->iterator_cnt; i++) {
			const struct dlp_history_iterator *it = &history->iterators[i];

			iterators += it->loader == id && it->call_cnt && !it->plain;
			if (it->loader == id && init_selected(report, it))
				dlp_stats_add(&stats, it->init_end_ns - it->init_start_ns);
		}
		dlp_row(loaders);
		dlp_put_count(loaders, id);
		dlp_put_text(loaders, loader->type);
		put_workers(loaders, loader);
		dlp_put_text(loaders, yes_no(loader->pin_memory));
		/* without workers nothing tells where one ends and the next begins */
		if (loader->num_workers) {
			dlp_put_count(loaders, iterators);
			dlp_put_stats(loaders, &stats);
		}
		init_outliers(report, outliers, id, dlp_stats_outlier(&stats));
	}
	dlp_stats_fini(&stats);
	list_iterators(report, list);
	dlp_table_sort(outliers, 4);
}

static const struct dlp_table_form getnext_loaders = {
	"loaders",
	"GetNext of each loader",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "iterator_type", "iterator type", DLP_CELL_TEXT },
		{ "num_workers", "workers", DLP_CELL_COUNT },
		{ "count", "count", DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", "p95", DLP_CELL_NS },
		{ "p99_us", "p99", DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", "outliers", DLP_CELL_COUNT },
		{ "total_us", "total", DLP_CELL_NS },
		{ "mean_us", NULL, DLP_CELL_NS },
		{ "batches", NULL, DLP_CELL_COUNT },
		{ "wait_making_us", "making", DLP_CELL_NS },
		{ "wait_moving_us", "moving", DLP_CELL_NS },
		{ "rest_us", "rest", DLP_CELL_NS },
		{ "states", "of it", DLP_CELL_SPLIT },
		{ 0 },
	},
};

static const struct dlp_table_form getnext_outliers = {
	"outliers",
	"Outliers (at least twice the median), the longest first",
	(const struct dlp_column[]){
		{ "loader", "loader", DLP_CELL_ID },
		{ "epoch", "epoch", DLP_CELL_ID },
		{ "batch", "batch", DLP_CELL_INDEX },
		{ "worker_pid", "worker", DLP_CELL_ID },
		{ "start_ns", "start", DLP_CELL_TIME },
		{ "end_ns", "end", DLP_CELL_TIME },
		{ "duration_us", "took", DLP_CELL_NS },
		{ "wait_making_us", "making", DLP_CELL_NS },
		{ "wait_moving_us", "moving", DLP_CELL_NS },
		{ "rest_us", "rest", DLP_CELL_NS },
		{ "iterator", NULL, DLP_CELL_ID },
		{ "asked_ns", NULL, DLP_CELL_TIME },
		{ "taken_ns", NULL, DLP_CELL_TIME },
		{ "produced_ns", NULL, DLP_CELL_TIME },
		{ "sent_ns", NULL, DLP_CELL_TIME },
		{ "received_ns", NULL, DLP_CELL_TIME },
		{ "message_bytes", NULL, DLP_CELL_BYTES },
		{ "states", "of it", DLP_CELL_SPLIT },
		{ 0 },
	},
};

/* A call's time by what it waited for. */
struct parts {
	uint64_t making_ns; /* for a batch that was still being made */
	uint64_t moving_ns; /* for a batch that was made, but not read yet */
	uint64_t rest_ns;   /* behind its message, or with nothing to wait for */
	bool known;
};

static uint64_t clamp(uint64_t ns, uint64_t low, uint64_t high)
{
	return ns < low ? low : ns > high ? high : ns;
}

static struct parts parts_of(const struct dlp_history_call *call)
{
	uint64_t made_ns = call->produced_ns ? call->produced_ns : call->sent_ns;
	struct parts ret = { .known = call->flags & DLP_CALL_BATCH && made_ns &&
				      call->received_ns };
	uint64_t received_ns;

	if (!ret.known)
		return ret;
	made_ns = clamp(made_ns, call->start_ns, call->end_ns);
	received_ns = clamp(call->received_ns, made_ns, call->end_ns);
	ret.making_ns = made_ns - call->start_ns;
	ret.moving_ns = received_ns - made_ns;
	ret.rest_ns = call->end_ns - received_ns;
	return ret;
}

static void put_parts(struct dlp_table *table, const struct parts *parts)
{
	if (!parts->known) {
		for (int i = 0; i < 3; i++)
			dlp_put_unknown(table);
		return;
	}
	dlp_put_count(table, parts->making_ns);
	dlp_put_count(table, parts->moving_ns);
	dlp_put_count(table, parts->rest_ns);
}

static void call_outliers(const struct dlp_report *report, struct dlp_table *table,
			  uint32_t loader, uint64_t least_ns)
{
	const struct dlp_history *history = report->history;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		struct parts parts;

		if (call->loader != loader || !dlp_selected_call(report, call) ||
		    call->end_ns - call->start_ns < least_ns)
			continue;
		parts = parts_of(call);
		dlp_row(table);
		dlp_put_count(table, loader);
		dlp_put_count(table, call->epoch);
		dlp_put_index(table, call->index);
		dlp_put_count(table, call->worker_pid);
		dlp_put_span(table, call->start_ns, call->end_ns);
		put_parts(table, &parts);
		dlp_put_count(table, call->iterator);
		dlp_put_count(table, call->asked_ns);
		dlp_put_count(table, call->taken_ns);
		dlp_put_count(table, call->produced_ns);
		dlp_put_count(table, call->sent_ns);
		dlp_put_count(table, call->received_ns);
		if (call->message_bytes)
			dlp_put_count(table, call->message_bytes);
		else
			dlp_put_unknown(table);
		dlp_put_split(table, &call->split);
	}
}

struct getnext_sums {
	struct dlp_stats stats;
	struct parts parts;
	struct dlp_clock split;
	uint64_t batches;
};

static void sum_calls(const struct dlp_report *report, uint32_t loader, struct getnext_sums *sums)
{
	const struct dlp_history *history = report->history;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		struct parts parts;

		if (call->loader != loader || !dlp_selected_call(report, call))
			continue;
		parts = parts_of(call);
		dlp_stats_add(&sums->stats, call->end_ns - call->start_ns);
		dlp_split_add(&sums->split, &call->split);
		sums->batches += !!(call->flags & DLP_CALL_DATA);
		sums->parts.known |= parts.known;
		sums->parts.making_ns += parts.making_ns;
		sums->parts.moving_ns += parts.moving_ns;
		sums->parts.rest_ns += parts.known ? parts.rest_ns : call->end_ns - call->start_ns;
	}
}

void dlp_report_getnext(const struct dlp_report *report, struct dlp_part *part)
{
	struct dlp_table *loaders = dlp_part_table(part, &getnext_loaders);
	struct dlp_table *outliers = dlp_part_table(part, &getnext_outliers);

	for (uint32_t id = 1; id <= report->history->model->loader_cnt; id++) {
		const struct dlp_loader *loader = loader_of(report, id);
		struct getnext_sums sums = { 0 };

		if (!dlp_selected_loader(report, id))
			continue;
		sum_calls(report, id, &sums);
		dlp_row(loaders);
		dlp_put_count(loaders, id);
		dlp_put_text(loaders, loader->type);
		put_workers(loaders, loader);
		dlp_put_stats(loaders, &sums.stats);
		dlp_put_count(loaders, sums.stats.sum_ns);
		if (sums.stats.cnt)
			dlp_put_count(loaders, sums.stats.sum_ns / sums.stats.cnt);
		else
			dlp_put_unknown(loaders);
		dlp_put_count(loaders, sums.batches);
		put_parts(loaders, &sums.parts);
		dlp_put_split(loaders, &sums.split);
		call_outliers(report, outliers, id, dlp_stats_outlier(&sums.stats));
		dlp_stats_fini(&sums.stats);
	}
	dlp_table_sort(outliers, 6);
}
