/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stages: what is summed under which label, at the window's edges, sampled, and without bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "feed.h"
#include "stage.h"

#define MS 1000000ull
#define WORKER 21u

static struct dlp_model *model;

static int setup(void **state)
{
	(void)state;
	model = feed_open();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dlp_model_free(model);
	return 0;
}

/* Ends so long after the window's start; half of it runs, half sleeps. */
static struct dlp_ev_scope scope(uint32_t pid, uint32_t label, uint64_t end_ns, uint64_t took_ns)
{
	struct dlp_ev_scope ev = {
		.hdr = FEED_HDR(SCOPE, dlp_ev_scope, FEED_START_NS + end_ns, pid),
		.start_ns = FEED_START_NS + end_ns - took_ns,
		.label = label,
		.weight = 1,
	};

	ev.split.ns[DLP_ST_RUN] = took_ns / 2;
	ev.split.ns[DLP_ST_SLEEP] = took_ns / 2;
	return ev;
}

static void put(uint32_t pid, uint32_t label, uint64_t end_ns, uint64_t took_ns)
{
	struct dlp_ev_scope ev = scope(pid, label, end_ns, took_ns);

	feed(model, &ev);
}

static const struct dlp_stage *find(const char *label, bool worker)
{
	for (size_t i = 0; i < model->stage_cnt; i++) {
		if (model->stages[i].worker == worker && !strcmp(model->stages[i].label, label))
			return &model->stages[i];
	}
	fail_msg("no stage '%s'", label);
	return NULL;
}

static void test_sums(void **state)
{
	struct dlp_ev_scope outer = scope(WORKER, 1, 50 * MS, 40 * MS);
	const struct dlp_stage *stage;

	(void)state;
	feed_label(model, 1, "decode");
	feed_label(model, 2, "step");
	put(WORKER, 1, 10 * MS, 4 * MS);
	put(WORKER + 1, 1, 20 * MS, 6 * MS);
	put(FEED_TRAINER, 2, 20 * MS, 2 * MS);
	put(FEED_TRAINER, 1, 30 * MS, 8 * MS);
	outer.child_ns = 15 * MS;
	feed(model, &outer);
	assert_int_equal(model->stage_cnt, 3);
	stage = find("decode", true);
	assert_int_equal(stage->sum.cnt, 3);
	assert_int_equal(stage->sum.total_ns, 50 * MS);
	assert_int_equal(stage->sum.exclusive_ns, 35 * MS);
	assert_int_equal(stage->sum.max_ns, 40 * MS);
	assert_int_equal(stage->sum.split.ns[DLP_ST_RUN], 25 * MS);
	assert_int_equal(stage->sum.split.ns[DLP_ST_SLEEP], 25 * MS);
	assert_int_equal(stage->sum.split.ns[DLP_ST_DISK], 0);
	assert_false(stage->sum.sampled);
	assert_true(llabs((long long)dlp_hist_quantile(&stage->duration, 0.5) -
			  (long long)(6 * MS)) < (long long)(MS / 10));
	assert_int_equal(find("decode", false)->sum.total_ns, 8 * MS);
	assert_int_equal(find("step", false)->sum.cnt, 1);
}

static void test_window(void **state)
{
	struct dlp_ev_scope half = scope(WORKER, 1, 10 * MS, 40 * MS);

	(void)state;
	dlp_model_free(model);
	model = feed_new();
	feed_label(model, 1, "decode");
	/* before the window, and told before it opens */
	put(WORKER, 1, 0, MS);
	feed_window(model, FEED_START_NS, 0);
	/* and told late */
	half.hdr.ts_ns = FEED_START_NS - 1;
	feed(model, &half);
	assert_int_equal(model->stage_cnt, 0);
	/* a quarter of it lies in the window */
	half = scope(WORKER, 1, 10 * MS, 40 * MS);
	half.child_ns = 20 * MS;
	feed(model, &half);
	assert_int_equal(find("decode", true)->sum.cnt, 1);
	assert_int_equal(find("decode", true)->sum.total_ns, 10 * MS);
	assert_int_equal(find("decode", true)->sum.max_ns, 10 * MS);
	assert_int_equal(find("decode", true)->sum.exclusive_ns, 5 * MS);
	assert_int_equal(find("decode", true)->sum.split.ns[DLP_ST_RUN], 5 * MS);
	/* both ends count */
	put(WORKER, 1, 0, 0);
	feed_window(model, FEED_START_NS + 20 * MS, 2);
	put(WORKER, 1, 20 * MS, 2 * MS);
	put(WORKER, 1, 20 * MS + 1, MS);
	assert_int_equal(find("decode", true)->sum.cnt, 3);
	assert_int_equal(find("decode", true)->sum.total_ns, 12 * MS);
}

static void test_weights(void **state)
{
	struct dlp_ev_scope ev = scope(WORKER, 1, 10 * MS, 4 * MS);
	const struct dlp_stage *stage;

	(void)state;
	feed_label(model, 1, "decode");
	/* 0: from before there were weights */
	ev.weight = 0;
	feed(model, &ev);
	stage = find("decode", true);
	assert_int_equal(stage->sum.cnt, 1);
	assert_false(stage->sum.sampled);
	ev.weight = 10;
	ev.child_ns = MS;
	feed(model, &ev);
	assert_int_equal(stage->sum.cnt, 11);
	assert_int_equal(stage->sum.total_ns, 44 * MS);
	assert_int_equal(stage->sum.exclusive_ns, 34 * MS);
	assert_int_equal(stage->sum.split.ns[DLP_ST_SLEEP], 22 * MS);
	assert_int_equal(stage->sum.max_ns, 4 * MS);
	assert_int_equal(stage->duration.cnt, 11);
	assert_int_equal(stage->duration.sum_ns, 44 * MS);
	assert_true(stage->sum.sampled);
	/* the median is one of scopes, not of events */
	ev = scope(WORKER, 1, 20 * MS, 8 * MS);
	ev.weight = 100;
	feed(model, &ev);
	assert_true(dlp_hist_quantile(&stage->duration, 0.5) > 7 * MS);
}

static void test_getnext(void **state)
{
	struct dlp_ev_scope ev = scope(FEED_TRAINER, 1, 10 * MS, 4 * MS);

	(void)state;
	feed_label(model, 1, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
	ev.hdr.flags = DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER;
	feed(model, &ev);
	assert_int_equal(model->stage_cnt, 0);
	assert_int_equal(model->loader_cnt, 1);
	/* a worker's own loader is no loader of ours */
	ev.hdr.tgid = ev.hdr.tid = WORKER;
	feed(model, &ev);
	assert_int_equal(model->stage_cnt, 1);
	assert_true(model->stages[0].worker);
	assert_int_equal(model->loader_cnt, 1);
}

static void test_labels(void **state)
{
	char longest[DLP_LABEL_MAX + 8];

	(void)state;
	/* label 0 and one that was never told are the same: not recorded; one told later is not */
	put(FEED_TRAINER, 0, MS, MS / 2);
	put(FEED_TRAINER, 7, 2 * MS, MS / 2);
	assert_int_equal(model->stage_cnt, 1);
	assert_int_equal(find("", false)->sum.cnt, 2);
	feed_label(model, 7, "late");
	put(FEED_TRAINER, 7, 3 * MS, MS / 2);
	assert_int_equal(find("late", false)->sum.cnt, 1);
	/* two ids of the same text are one stage */
	feed_label(model, 8, "late");
	put(FEED_TRAINER, 8, 4 * MS, MS / 2);
	assert_int_equal(find("late", false)->sum.cnt, 2);
	/* not terminated */
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	feed_label(model, 9, longest);
	put(FEED_TRAINER, 9, 5 * MS, MS / 2);
	assert_int_equal(strlen(model->stages[model->stage_cnt - 1].label), DLP_LABEL_MAX);
	/* times that make no sense */
	put(FEED_TRAINER, 9, 6 * MS, (uint64_t)-1);
	assert_int_equal(model->stages[model->stage_cnt - 1].sum.total_ns, MS / 2);
}

static void test_bounds(void **state)
{
	struct dlp_stage_row row[DLP_STAGE_ROWS_MAX];
	uint64_t cnt = 0, total = 0;

	(void)state;
	for (uint32_t i = 1; i <= 300; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "batch %u", i);
		feed_label(model, i, text);
		for (uint64_t j = 1; j <= 2; j++) {
			put(FEED_TRAINER, i, j * 100 * MS, MS);
			put(WORKER, i, j * 100 * MS, 2 * MS);
		}
	}
	/* ids that are never told do not pile up either */
	for (uint32_t i = 1000; i < 3000; i++)
		put(WORKER, i, MS, MS);
	assert_int_equal(model->stage_cnt, DLP_MODEL_STAGES_MAX);
	assert_int_equal(model->dropped_cnt, 0);
	assert_int_equal(model->other_stages[0].cnt, (300 - 32) * 2);
	assert_int_equal(model->other_stages[1].cnt, (300 - 32) * 2 + 2000);
	assert_int_equal(model->other_stages[0].total_ns, (300 - 32) * 2 * MS);
	assert_int_equal(model->other_stages[1].max_ns, 2 * MS);
	assert_int_equal(dlp_stage_rank(model, row), DLP_STAGE_ROWS_MAX);
	for (size_t i = 0; i < DLP_STAGE_ROWS_MAX; i++) {
		cnt += row[i].sum->cnt;
		total += row[i].sum->total_ns;
	}
	assert_int_equal(cnt, 300 * 4 + 2000);
	assert_int_equal(total, (300 * 2 * 1 + 300 * 2 * 2 + 2000) * MS);
	assert_string_equal(row[0].label, "(other labels)");
	assert_true(row[0].worker);
	assert_null(row[0].duration);
}

static void test_rank(void **state)
{
	struct dlp_stage_row row[DLP_STAGE_ROWS_MAX];
	struct dlp_ev_scope outer = scope(FEED_TRAINER, 1, 500 * MS, 400 * MS);
	struct dlp_worker worker = { .pid = WORKER, .proven = true, .clock_valid = true };

	(void)state;
	feed_label(model, 1, "outer");
	feed_label(model, 2, "inner");
	feed_label(model, 3, "item");
	outer.child_ns = 350 * MS;
	feed(model, &outer);
	put(FEED_TRAINER, 2, 400 * MS, 350 * MS);
	put(WORKER, 3, 300 * MS, 100 * MS);
	put(FEED_TRAINER, 0, 300 * MS, MS);
	feed_window(model, FEED_START_NS + 1000 * MS, 2);
	assert_int_equal(dlp_stage_rank(model, row), 4);
	assert_string_equal(row[0].label, "inner");
	assert_true(fabs(row[0].share - 0.35) < 1e-9);
	assert_string_equal(row[1].label, "item");
	assert_true(isnan(row[1].share));
	assert_string_equal(row[2].label, "outer");
	assert_true(fabs(row[2].share - 0.05) < 1e-9);
	assert_null(row[3].label);
	/* the workers' clocks known: of what they did not idle, those gone by included */
	worker.clock.ns[DLP_ST_RUN] = 150 * MS;
	worker.clock.ns[DLP_ST_IDLE] = 700 * MS;
	model->folded.worker_clock.ns[DLP_ST_DISK] = 50 * MS;
	model->workers = &worker;
	model->worker_cnt = 1;
	assert_int_equal(dlp_stage_rank(model, row), 4);
	assert_true(fabs(row[1].share - 0.5) < 1e-9);
	model->workers = NULL;
	model->worker_cnt = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(test_window, setup, teardown),
		cmocka_unit_test_setup_teardown(test_weights, setup, teardown),
		cmocka_unit_test_setup_teardown(test_getnext, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rank, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
