/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's sections on the verdict, which is about the whole window, and on labelled scopes. */
#include <stdlib.h>

#include "report_priv.h"
#include "util.h"

static const struct dlp_table_form verdict_form = {
	"verdict",
	"Verdict (of the whole run)",
	(const struct dlp_column[]){
		{ "bottleneck", "bottleneck", DLP_CELL_TEXT },
		{ "cause", "cause", DLP_CELL_TEXT },
		{ "where", NULL, DLP_CELL_TEXT },
		{ "severity", "severity", DLP_CELL_TEXT },
		{ "confidence", "confidence", DLP_CELL_TEXT },
		{ "exposed_wait_ratio", "exposed", DLP_CELL_RATIO },
		{ "startup_ratio", "start-up", DLP_CELL_RATIO },
		{ "text", NULL, DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form evidence_form = {
	"evidence",
	"Evidence",
	(const struct dlp_column[]){
		{ "metric", "metric", DLP_CELL_TEXT },
		{ "value", "value", DLP_CELL_NUMBER },
		{ "unit", "unit", DLP_CELL_TEXT },
		{ "text", "text", DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form advice_form = {
	"advice",
	"Advice",
	(const struct dlp_column[]){
		{ "text", "text", DLP_CELL_TEXT },
		{ "counter_check", NULL, DLP_CELL_TEXT },
		{ 0 },
	},
};

static const struct dlp_table_form candidates_form = {
	"candidates",
	"Candidates",
	(const struct dlp_column[]){
		{ "cause", "cause", DLP_CELL_TEXT },
		{ "share", "share", DLP_CELL_RATIO },
		{ 0 },
	},
};

void dlp_report_verdict(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_verdict *verdict = &report->history->verdict;
	struct dlp_table *table = dlp_part_table(part, &verdict_form);

	dlp_row(table);
	dlp_put_text(table, dlp_bottleneck_id(verdict->bottleneck));
	dlp_put_text(table, dlp_cause_id(verdict->cause));
	dlp_put_text(table, dlp_where_id(verdict->where));
	dlp_put_text(table, dlp_severity_id(verdict->severity));
	dlp_put_text(table, dlp_confidence_id(verdict->confidence));
	dlp_put_number(table, verdict->exposed_wait_ratio);
	dlp_put_number(table, verdict->startup_ratio);
	dlp_put_text(table, verdict->text);
	table = dlp_part_table(part, &evidence_form);
	for (size_t i = 0; i < verdict->evidence_cnt; i++) {
		dlp_row(table);
		dlp_put_text(table, verdict->evidence[i].metric);
		dlp_put_number(table, verdict->evidence[i].value);
		dlp_put_text(table, verdict->evidence[i].unit);
		dlp_put_text(table, verdict->evidence[i].text);
	}
	table = dlp_part_table(part, &advice_form);
	for (size_t i = 0; i < verdict->advice_cnt; i++) {
		dlp_row(table);
		dlp_put_text(table, verdict->advice[i].text);
		dlp_put_text(table, verdict->advice[i].counter_check);
	}
	table = dlp_part_table(part, &candidates_form);
	for (size_t i = 0; i < verdict->candidate_cnt; i++) {
		dlp_row(table);
		dlp_put_text(table, dlp_cause_id(verdict->candidate[i].cause));
		dlp_put_number(table, verdict->candidate[i].share);
	}
}

static const struct dlp_table_form stages_form = {
	"stages",
	"Labelled scopes, by the time spent in them and in nothing nested in them",
	(const struct dlp_column[]){
		{ "label", "record_function", DLP_CELL_TEXT },
		{ "where", "where", DLP_CELL_TEXT },
		{ "seen", NULL, DLP_CELL_COUNT },
		{ "median_us", "median", DLP_CELL_NS },
		{ "p95_us", "p95", DLP_CELL_NS },
		{ "p99_us", NULL, DLP_CELL_NS },
		{ "max_us", "max", DLP_CELL_NS },
		{ "outliers", "outliers", DLP_CELL_COUNT },
		{ "count", "count", DLP_CELL_COUNT },
		{ "total_us", "total", DLP_CELL_NS },
		{ "exclusive_us", "own", DLP_CELL_NS },
		{ 0 },
	},
};

/* Scopes in order of label and process kind. */
static int by_label(const void *a, const void *b, void *ctx)
{
	const struct dlp_history_scope *x = a, *y = b;
	uint32_t trainer = *(const uint32_t *)ctx;

	if (x->label != y->label)
		return x->label < y->label ? -1 : 1;
	return (x->pid != trainer) - (y->pid != trainer);
}

/* One row of scopes that have label and process kind in common. */
static void put_stage(const struct dlp_report *report, struct dlp_table *table,
		      const struct dlp_history_scope *scopes, size_t cnt)
{
	const struct dlp_history *history = report->history;
	uint64_t total_ns = 0, own_ns = 0, weight = 0;
	struct dlp_stats stats = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		const struct dlp_history_scope *scope = &scopes[i];
		uint64_t ns = scope->end_ns - scope->start_ns;

		dlp_stats_add(&stats, ns);
		weight += scope->weight;
		total_ns += ns * scope->weight;
		if (ns > scope->child_ns)
			own_ns += (ns - scope->child_ns) * scope->weight;
	}
	dlp_row(table);
	dlp_put_text(table, history->labels[scopes[0].label]);
	dlp_put_text(table, scopes[0].pid == history->model->trainer_pid ? "main" : "workers");
	dlp_put_stats(table, &stats);
	dlp_put_count(table, weight);
	dlp_put_count(table, total_ns);
	dlp_put_count(table, own_ns);
	dlp_stats_fini(&stats);
}

void dlp_report_stages(const struct dlp_report *report, struct dlp_part *part)
{
	const struct dlp_history *history = report->history;
	struct dlp_table *table = dlp_part_table(part, &stages_form);
	_cleanup_free_ struct dlp_history_scope *list = NULL;
	uint32_t trainer = history->model->trainer_pid;
	size_t cnt = 0;

	list = malloc((history->scope_cnt + 1) * sizeof(*list));
	if (!list) {
		part->failed = true;
		return;
	}
	for (size_t i = 0; i < history->scope_cnt; i++) {
		const struct dlp_history_scope *scope = &history->scopes[i];

		if (!dlp_selected(report, scope->end_ns) ||
		    (report->selection.worker && report->selection.worker != scope->pid) ||
		    !dlp_matches(report->selection.events, history->labels[scope->label]))
			continue;
		list[cnt++] = *scope;
	}
	qsort_r(list, cnt, sizeof(*list), by_label, &trainer);
	for (size_t from = 0, to; from < cnt; from = to) {
		for (to = from + 1; to < cnt && !by_label(&list[from], &list[to], &trainer); to++)
			;
		put_stage(report, table, list + from, to - from);
	}
	dlp_table_sort(table, 10);
}
