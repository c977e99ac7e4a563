/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report on simulated runs: its figures against those of the truth, and its forms. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "history_run.h"
#include "model_check.h"
#include "report.h"
#include "spans.h"
#include "stats.h"

static uint64_t uneven(int64_t index, int worker)
{
	(void)worker;
	return (4 + (uint64_t)(index * 7919) % 9) * MS + (index % 17 == 11 ? 80 * MS : 0);
}

static const struct scn_conf conf = { .workers = 2, .batches = 60, .produce = uneven,
				      .label = LABEL_MULTI };

/* Epochs far apart: whoever mixes them has an outlier of a second. */
static struct scn *epochs(int cnt)
{
	struct scn *scn = scn_new(7);

	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (int i = 0; i < cnt; i++) {
		struct scn_iter *it = scn_iter(scn, &conf);

		scn_step(scn, 100 * US);
		while (scn_next(scn, it, false))
			scn_step(scn, 3 * MS);
		scn_step(scn, SEC);
	}
	return scn;
}

static json_t *report_json(const struct dlp_report *report)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	json_t *root;

	assert_non_null(out);
	assert_int_equal(dlp_report_json(report, out), 0);
	fclose(out);
	root = json_loadb(text, bytes, 0, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

static struct dlp_report report_on(const struct history_run *run)
{
	return (struct dlp_report){
		.history = run->history,
		.selection = { .to_ns = UINT64_MAX },
		.sections = (1u << DLP_SECTION_MAX) - 1,
		.rows = 20,
	};
}

static json_t *table_of(json_t *root, const char *section, const char *table)
{
	json_t *ret = json_object_get(
		json_object_get(json_object_get(root, "sections"), section), table);

	assert_true(json_is_array(ret));
	return ret;
}

static json_t *cell(json_t *table, size_t row, const char *key)
{
	json_t *ret = json_object_get(json_array_get(table, row), key);

	assert_non_null(ret);
	return ret;
}

static double number(json_t *table, size_t row, const char *key)
{
	assert_true(json_is_number(cell(table, row, key)));
	return json_number_value(cell(table, row, key));
}

static int order(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Statistics by the book, of values in microseconds. */
static void check_stats(json_t *table, size_t row, double *us, size_t cnt)
{
	size_t outliers = 0;
	double median;

	assert_true(cnt > 2);
	qsort(us, cnt, sizeof(*us), order);
	median = cnt % 2 ? us[cnt / 2] : (us[cnt / 2 - 1] + us[cnt / 2]) / 2;
	for (size_t i = 0; i < cnt; i++)
		outliers += us[i] >= 2 * median;
	assert_int_equal(number(table, row, "outliers"), outliers);
	assert_true(outliers > 0);
	assert_float_equal(number(table, row, "median_us"), median, 0.002);
	assert_float_equal(number(table, row, "max_us"), us[cnt - 1], 0.002);
	assert_in_range((uint64_t)number(table, row, "p95_us"),
			(uint64_t)us[(size_t)(0.95 * (double)(cnt - 1))],
			(uint64_t)us[(size_t)(0.95 * (double)(cnt - 1)) + 1]);
}

static void test_getnext(void **unused)
{
	const struct scn_view view = { 0 };
	const struct scn_call *truth;
	struct dlp_report report;
	struct history_run run;
	double us[400];
	size_t cnt, outliers;
	json_t *root, *table;

	(void)unused;
	history_run(&run, epochs(3), &view);
	report = report_on(&run);
	root = report_json(&report);
	cnt = scn_calls(run.scn, &truth);
	for (size_t i = 0; i < cnt; i++)
		us[i] = (double)(truth[i].end_ns - truth[i].start_ns) / 1e3;
	table = table_of(root, "getnext", "loaders");
	assert_int_equal(json_array_size(table), 1);
	assert_int_equal(number(table, 0, "count"), 183);
	assert_int_equal(number(table, 0, "batches"), 180);
	check_stats(table, 0, us, cnt);
	/* each outlier is a call of the truth, the longest first */
	outliers = (size_t)number(table, 0, "outliers");
	table = table_of(root, "getnext", "outliers");
	assert_int_equal(json_array_size(table), outliers);
	for (size_t i = 0; i < outliers; i++) {
		bool found = false;

		for (size_t j = 0; j < cnt; j++) {
			if (truth[j].start_ns != (uint64_t)number(table, i, "start_ns"))
				continue;
			found = true;
			assert_int_equal(number(table, i, "end_ns"), truth[j].end_ns);
			/* the call that ended an epoch returned none */
			if (!truth[j].data) {
				assert_true(json_is_null(cell(table, i, "batch")));
				continue;
			}
			assert_int_equal(number(table, i, "worker_pid"), truth[j].worker_pid);
			assert_int_equal(number(table, i, "batch"), truth[j].index);
		}
		assert_true(found);
		assert_true(!i || number(table, i, "duration_us") <=
					  number(table, i - 1, "duration_us"));
	}
	json_decref(root);
	history_run_free(&run);
}

static void test_batchtime(void **unused)
{
	const struct scn_view view = { 0 };
	const struct scn_call *truth;
	struct dlp_report report;
	struct history_run run;
	json_t *root, *table;
	size_t cnt, steps = 0;
	double us[400];

	(void)unused;
	history_run(&run, epochs(3), &view);
	report = report_on(&run);
	root = report_json(&report);
	cnt = scn_calls(run.scn, &truth);
	for (size_t i = 1; i < cnt; i++) {
		/* up to the call that ends the epoch, never across it */
		if (truth[i - 1].data)
			us[steps++] = (double)(truth[i].start_ns - truth[i - 1].start_ns) / 1e3;
	}
	table = table_of(root, "batchtime", "loaders");
	assert_int_equal(number(table, 0, "count"), 180);
	check_stats(table, 0, us, steps);
	assert_true(number(table, 0, "max_us") < 900e3);
	table = table_of(root, "batchtime", "outliers");
	/* its time on the training thread is all accounted for */
	for (size_t i = 0; i < json_array_size(table); i++) {
		json_t *states = cell(table, i, "main_states"), *value;
		double sum = 0;
		const char *key;

		json_object_foreach(states, key, value)
			sum += json_number_value(value);
		assert_float_equal(sum, number(table, i, "duration_us"), 1000);
	}
	assert_true(json_array_size(table_of(root, "batchtime", "events")) > 0);
	json_decref(root);
	history_run_free(&run);
}

static void test_workers(void **unused)
{
	const struct scn_view view = { 0 };
	const struct scn_made *truth;
	struct dlp_report report;
	struct history_run run;
	json_t *root, *table;
	size_t cnt;

	(void)unused;
	history_run(&run, epochs(3), &view);
	report = report_on(&run);
	root = report_json(&report);
	table = table_of(root, "workers", "loaders");
	assert_int_equal(json_array_size(table), 1);
	assert_int_equal(number(table, 0, "started"), 6);
	assert_int_equal(number(table, 0, "ended"), 6);
	assert_int_equal(number(table, 0, "lifetimes"), 6);
	table = table_of(root, "workers", "workers");
	assert_int_equal(json_array_size(table), 6);
	cnt = scn_made(run.scn, &truth);
	for (size_t i = 0; i < 6; i++) {
		double longest = 0;

		assert_int_equal(number(table, i, "batches"), 30);
		for (size_t j = 0; j < cnt; j++) {
			double us = (double)(truth[j].done_ns - truth[j].taken_ns) / 1e3;

			if (truth[j].pid == (uint32_t)number(table, i, "pid") && us > longest)
				longest = us;
		}
		assert_float_equal(number(table, i, "max_us"), longest, 120);
		assert_float_equal(number(table, i, "lifetime_us"),
				   (number(table, i, "died_ns") - number(table, i, "born_ns")) / 1e3,
				   0.01);
	}
	json_decref(root);
	history_run_free(&run);
}

/* From the end of one call to the end of a later one: both are in, their neighbours are not. */
static void test_edges(void **unused)
{
	const struct scn_view view = { 0 };
	const struct scn_call *truth;
	struct dlp_report report;
	struct history_run run;
	json_t *root;

	(void)unused;
	history_run(&run, epochs(1), &view);
	scn_calls(run.scn, &truth);
	for (int inner = 0; inner < 2; inner++) {
		report = report_on(&run);
		report.selection.from_ns = truth[10].end_ns + (uint64_t)inner;
		report.selection.to_ns = truth[19].end_ns - (uint64_t)inner;
		root = report_json(&report);
		assert_int_equal(number(table_of(root, "getnext", "loaders"), 0, "count"),
				 inner ? 8 : 10);
		json_decref(root);
	}
	/* one worker's batches, and nobody's */
	report = report_on(&run);
	report.selection.worker = truth[0].worker_pid;
	root = report_json(&report);
	assert_int_equal(number(table_of(root, "getnext", "loaders"), 0, "count"), 30);
	assert_int_equal(json_array_size(table_of(root, "workers", "workers")), 1);
	json_decref(root);
	report.selection.worker = 4242;
	root = report_json(&report);
	assert_int_equal(number(table_of(root, "getnext", "loaders"), 0, "count"), 0);
	/* of nothing there is no median */
	assert_true(json_is_null(cell(table_of(root, "getnext", "loaders"), 0, "median_us")));
	json_decref(root);
	history_run_free(&run);
}

static void test_two_loaders(void **unused)
{
	static const struct scn_conf one = { .workers = 1, .batches = 30, .label = LABEL_MULTI };
	static const struct scn_conf other = { .workers = 1, .batches = 30, .label = LABEL_MULTI,
					       .group = 1, .produce = uneven };
	const struct scn_view view = { 0 };
	const struct scn_call *truth;
	struct scn *scn = scn_new(3);
	struct dlp_report report;
	struct scn_iter *a, *b;
	struct history_run run;
	json_t *root;
	size_t cnt;

	(void)unused;
	scn_labels(scn);
	a = scn_iter(scn, &one);
	scn_step(scn, MS);
	b = scn_iter(scn, &other);
	scn_step(scn, MS);
	while (scn_next(scn, a, false)) {
		scn_step(scn, 20 * US);
		(void)scn_next(scn, b, false);
		scn_step(scn, 2 * MS);
	}
	history_run(&run, scn, &view);
	report = report_on(&run);
	cnt = scn_calls(scn, &truth);
	root = report_json(&report);
	assert_int_equal(json_array_size(table_of(root, "getnext", "loaders")), 2);
	for (size_t loader = 0; loader < 2; loader++) {
		double longest = 0, longest_step = 0;
		uint64_t last = 0;

		for (size_t i = 0; i < cnt; i++) {
			if (truth[i].iter != loader + 1)
				continue;
			longest = fmax(longest,
				       (double)(truth[i].end_ns - truth[i].start_ns) / 1e3);
			if (last)
				longest_step = fmax(longest_step,
						    (double)(truth[i].start_ns - last) / 1e3);
			last = truth[i].start_ns;
		}
		assert_float_equal(number(table_of(root, "getnext", "loaders"), loader, "max_us"),
				   longest, 0.002);
		assert_float_equal(number(table_of(root, "batchtime", "loaders"), loader, "max_us"),
				   longest_step, 0.002);
	}
	json_decref(root);
	report.selection.loader = 2;
	root = report_json(&report);
	assert_int_equal(json_array_size(table_of(root, "getnext", "loaders")), 1);
	assert_int_equal(number(table_of(root, "getnext", "loaders"), 0, "loader"), 2);
	json_decref(root);
	history_run_free(&run);
}

struct csv {
	char *text;
	size_t bytes;
	bool wanted;
};

static int csv_open(void *ctx, const char *name, FILE **ret)
{
	struct csv *csv = ctx;

	csv->wanted = !strcmp(name, "stages_stages");
	if (csv->wanted)
		*ret = open_memstream(&csv->text, &csv->bytes);
	else
		*ret = fopen("/dev/null", "w");
	return 0;
}

static int csv_done(void *ctx, FILE *file)
{
	(void)ctx;
	return fclose(file);
}

/* What a label says is data in every form. */
static void test_hostile(void **unused)
{
	static const char label[] = "=cmd|'x'!A1,\"q\"\r\n\033[31m\xff";
	const struct scn_view view = { 0 };
	struct scn *scn = epochs(1);
	struct dlp_report report;
	struct history_run run;
	struct csv csv = { 0 };
	const struct dlp_csv_files files = { csv_open, csv_done, &csv };
	char *text = NULL;
	size_t bytes;
	json_t *root;
	FILE *out;

	(void)unused;
	for (uint64_t i = 0; i < 3; i++)
		history_run_scope(scn, SCN_TRAINER, 100 * SEC + (500 + i) * MS,
				  100 * SEC + (500 + 3 * i + 1) * MS, 77, i ? NULL : label);
	history_run(&run, scn, &view);
	report = report_on(&run);
	root = report_json(&report);
	assert_string_equal(json_string_value(cell(table_of(root, "stages", "stages"), 0, "label")),
			    "=cmd|'x'!A1,\"q\"???[31m?");
	assert_int_equal(number(table_of(root, "stages", "stages"), 0, "count"), 3);
	assert_float_equal(number(table_of(root, "stages", "stages"), 0, "median_us"), 3000, 0.001);
	json_decref(root);
	assert_int_equal(dlp_report_csv(&report, &files), 0);
	assert_non_null(csv.text);
	assert_non_null(strstr(csv.text, "\r\n\"'=cmd|'x'!A1,\"\"q\"\"???[31m?\",\"main\",3,"));
	out = open_memstream(&text, &bytes);
	assert_int_equal(dlp_report_print(&report, out), 0);
	fclose(out);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
	assert_non_null(strstr(text, "== window =="));
	free(text);
	free(csv.text);
	history_run_free(&run);
}

static size_t allocations_left;

static void *failing_malloc(size_t bytes)
{
	if (!allocations_left)
		return NULL;
	allocations_left--;
	return malloc(bytes);
}

/* Whole or refused: a document that lacks a key would pass for a figure that was not measured. */
static void test_out_of_memory(void **unused)
{
	const struct scn_view view = { 0 };
	size_t bytes, whole_bytes, allowed = 0;
	struct dlp_report report;
	struct history_run run;
	char *text, *whole;
	FILE *out;
	int err;

	(void)unused;
	history_run(&run, epochs(1), &view);
	report = report_on(&run);
	report.sections = 1u << DLP_SECTION_WORKERS | 1u << DLP_SECTION_BATCHTIME;
	run.history->lost.waits = 3;
	out = open_memstream(&whole, &whole_bytes);
	assert_int_equal(dlp_report_json(&report, out), 0);
	fclose(out);
	json_set_alloc_funcs(failing_malloc, free);
	do {
		out = open_memstream(&text, &bytes);
		allocations_left = allowed;
		err = dlp_report_json(&report, out);
		fclose(out);
		if (err)
			assert_int_equal(err, -ENOMEM);
		else
			assert_string_equal(text, whole);
		free(text);
		/* each of the first ones, then a sample: there are thousands */
		allowed += allowed < 60 ? 1 : 23;
	} while (err);
	json_set_alloc_funcs(malloc, free);
	assert_true(allowed > 500);
	free(whole);
	history_run_free(&run);
}

static void test_regex(void **unused)
{
	const struct scn_view view = { 0 };
	struct dlp_report report;
	struct history_run run;
	regex_t events, dimensions;
	json_t *root, *table;

	(void)unused;
	history_run(&run, epochs(1), &view);
	report = report_on(&run);
	assert_int_equal(regcomp(&events, "^(GetNext|born)$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(regcomp(&dimensions, "worker", REG_EXTENDED | REG_NOSUB), 0);
	report.selection.events = &events;
	root = report_json(&report);
	table = table_of(root, "window", "events");
	assert_int_equal(json_array_size(table), 61 + 2);
	json_decref(root);
	report.selection.dimensions = &dimensions;
	root = report_json(&report);
	table = table_of(root, "window", "events");
	assert_int_equal(json_array_size(table), 2);
	assert_string_equal(json_string_value(cell(table, 0, "event")), "born");
	json_decref(root);
	regfree(&events);
	regfree(&dimensions);
	history_run_free(&run);
}

/* Against numpy.percentile: [10, 20, 40, 80], and an odd count. */
static void test_stats(void **unused)
{
	static const uint64_t values[] = { 80, 10, 40, 20 };
	struct dlp_stats stats = { 0 };

	(void)unused;
	assert_int_equal(dlp_stats_quantile(&stats, 0.5), 0);
	assert_int_equal(dlp_stats_count_from(&stats, dlp_stats_outlier(&stats)), 0);
	for (size_t i = 0; i < 4; i++)
		dlp_stats_add(&stats, values[i]);
	assert_int_equal(dlp_stats_quantile(&stats, 0), 10);
	assert_int_equal(dlp_stats_quantile(&stats, 0.5), 30);
	assert_int_equal(dlp_stats_quantile(&stats, 0.75), 50);
	assert_int_equal(dlp_stats_quantile(&stats, 1), 80);
	assert_int_equal(dlp_stats_count_from(&stats, dlp_stats_outlier(&stats)), 1);
	assert_int_equal(stats.sum_ns, 150);
	dlp_stats_add(&stats, 60);
	assert_int_equal(dlp_stats_quantile(&stats, 0.5), 40);
	dlp_stats_fini(&stats);
}

static void test_spans(void **unused)
{
	static const uint64_t items[][2] = { { 10, 100 }, { 20, 25 }, { 30, 30 }, { 40, 60 },
					     { 90, 95 } };
	struct dlp_spans spans;

	(void)unused;
	assert_int_equal(dlp_spans_init(&spans, items, 5, sizeof(items[0])), 0);
	for (uint64_t from = 0; from < 110; from += 5) {
		for (uint64_t to = from + 5; to < 120; to += 5) {
			size_t at = dlp_spans_next(&spans, 0, from, to);

			for (size_t i = 0; i < 5; i++) {
				bool inside = items[i][0] < to &&
					      (items[i][1] > from || items[i][0] >= from);

				if (!inside)
					continue;
				assert_int_equal(at, i);
				at = dlp_spans_next(&spans, at + 1, from, to);
			}
			assert_int_equal(at, 5);
		}
	}
	dlp_spans_fini(&spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_getnext), cmocka_unit_test(test_batchtime),
		cmocka_unit_test(test_workers), cmocka_unit_test(test_edges),
		cmocka_unit_test(test_two_loaders), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_regex),	cmocka_unit_test(test_stats),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
