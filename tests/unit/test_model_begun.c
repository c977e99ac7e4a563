/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tool attaches at any moment of a job: in a GetNext, of which it then sees the end only, in another
 * scope, or between them. Calls and exposed wait have to be those of the window all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loss.h"
#include "model_check.h"

#define LABEL_ZERO 10u
#define LABEL_STEP 11u
#define MOMENTS 60

/* A training loop's scopes: optimizer.zero_grad() before, optimizer.step() behind the computation. */
static struct scn *train(const struct scn_conf *conf, int epochs, bool scopes)
{
	struct scn *scn = scn_new(77);

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	for (int i = 0; i < epochs; i++) {
		struct scn_iter *it = scn_iter(scn, conf);

		while (scn_next(scn, it, false)) {
			if (scopes)
				scn_scope(scn, LABEL_ZERO, 2 * MS);
			scn_step(scn, 4 * MS);
			if (scopes)
				scn_scope(scn, LABEL_STEP, 3 * MS);
		}
	}
	return scn;
}

static bool is_inside(const struct scn *scn, uint64_t at_ns)
{
	const struct scn_call *call;
	size_t cnt = scn_calls(scn, &call);

	/* the tool attaches 0.9 ms before the window */
	for (size_t i = 0; i < cnt; i++) {
		if (call[i].start_ns < at_ns - 900 * US && call[i].end_ns > at_ns)
			return true;
	}
	return false;
}

static uint64_t half(int64_t index, int worker)
{
	return (uint64_t)(20 + index * 7 % 13 + worker) * MS;
}

static const struct scn_conf confs[] = {
	{ .workers = 2, .batches = 40, .produce = half, .label = LABEL_MULTI },
	{ .workers = 2, .batches = 40, .produce = half, .label = LABEL_MULTI, .pin = true },
	{ .workers = 2, .batches = 40, .produce = half, .label = LABEL_MULTI, .unordered = true },
	{ .workers = 0, .batches = 40, .label = LABEL_SINGLE },
};

/* Where there are scopes besides GetNext, every kind of loader is told; without, those with workers. */
static void test_any_moment(void **unused)
{
	(void)unused;
	for (size_t c = 0; c < sizeof(confs) / sizeof(confs[0]); c++) {
		int inside = 0;

		for (int i = 0; i < MOMENTS; i++) {
			struct scn *scn = train(&confs[c], 3, i % 2 || !confs[c].workers);
			uint64_t first = 100 * SEC + 50 * MS, last = scn_now(scn) - 300 * MS;
			struct scn_view view = { .start_ns = first + (last - first) / MOMENTS *
									     (uint64_t)i };
			struct run run;

			inside += is_inside(scn, view.start_ns);
			run_model(&run, scn, &view);
			check_main(&run);
			assert_int_equal(run.model->begun_open_cnt, 0);
			assert_true(run.model->loaders[0].straddle_cnt <= 1);
			if (confs[c].workers)
				check_sums(&run.model->loaders[0].sums);
			run_free(&run);
		}
		/* else nothing was tested */
		assert_true(inside > MOMENTS / 10);
		assert_true(inside < MOMENTS);
	}
}

static int sink_named(void *ctx, const void *event, size_t bytes)
{
	const struct dlp_ev_hdr *hdr = event;
	struct dlp_ev_scope named;

	if (hdr->kind != DLP_EV_SCOPE || !(hdr->flags & DLP_SCOPE_GETNEXT))
		return run_sink(ctx, event, bytes);
	memcpy(&named, event, sizeof(named));
	named.hdr.flags |= DLP_SCOPE_NAMED;
	return run_sink(ctx, &named, bytes);
}

/* A scope of the job's own around a loader with workers: the call that is cut is no loader's, either. */
static void test_named(void **unused)
{
	struct scn_conf conf = confs[0];
	int straddled = 0;

	(void)unused;
	conf.label = LABEL_OWN;
	for (int i = 0; i < MOMENTS; i++) {
		struct scn *scn = train(&conf, 3, true);
		struct scn_view view = { .start_ns = 150 * MS + 100 * SEC + 20 * MS * (uint64_t)i };
		struct run run = { .scn = scn, .view = view };

		assert_int_equal(dlp_model_new(&run.model), 0);
		assert_int_equal(scn_feed(scn, &view, sink_named, &run), 0);
		check_main(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		assert_true(run.model->loaders[0].named);
		assert_string_equal(run.model->loaders[0].type, "own: next");
		assert_int_equal(run.model->loaders[0].num_workers, -1);
		straddled += (int)run.model->loaders[0].straddle_cnt;
		run_free(&run);
	}
	assert_true(straddled > MOMENTS / 10);
}

/* A call that lasts over several intervals counts in the window, and only its rest in the interval. */
static uint64_t most_ns;

static int sink_intervals(void *ctx, const void *event, size_t bytes)
{
	const struct dlp_ev_window *ev = event;
	struct run *run = ctx;
	int err = run_sink(ctx, event, bytes);

	if (ev->hdr.kind == DLP_EV_WINDOW && ev->phase > 0 &&
	    run->model->interval.exposed_ns > most_ns)
		most_ns = run->model->interval.exposed_ns;
	return err;
}

static uint64_t slow(int64_t index, int worker)
{
	(void)index;
	(void)worker;
	return 3 * SEC;
}

static void test_long_call(void **unused)
{
	struct scn_conf conf = { .workers = 1, .batches = 5, .produce = slow, .label = LABEL_MULTI };
	struct scn *scn = train(&conf, 1, true);
	struct scn_view view = { .interval_ns = SEC };
	const struct scn_call *call;
	struct run run = { .scn = scn };

	(void)unused;
	scn_calls(scn, &call);
	view.start_ns = call[1].start_ns + 400 * MS;
	run.view = view;
	assert_int_equal(dlp_model_new(&run.model), 0);
	assert_int_equal(scn_feed(scn, &view, sink_intervals, &run), 0);
	check_main(&run);
	assert_int_equal(run.model->loaders[0].straddle_ns, call[1].end_ns - view.start_ns);
	assert_true(most_ns > 900 * MS && most_ns < SEC + 10 * MS);
	run_free(&run);
}

static bool lose_first_calls(const struct dlp_ev_hdr *hdr, void *ctx)
{
	int *left = ctx;

	return hdr->kind == DLP_EV_SCOPE && !(hdr->flags & DLP_SCOPE_BEGUN) && (*left)-- > 0;
}

/* Without workers, and with the scopes behind it lost, nobody can say: then it is told as short. */
static void test_unknown(void **unused)
{
	struct scn *scn = train(&confs[3], 1, true);
	int left = 2;
	struct scn_view view = { .lose = lose_first_calls, .ctx = &left };
	const struct scn_call *call;
	struct dlp_loss loss;
	bool told = false;
	struct run run;

	(void)unused;
	scn_calls(scn, &call);
	view.start_ns = call[9].start_ns + 2 * MS;
	run_model(&run, scn, &view);
	assert_int_equal(run.model->begun_open_cnt, 1);
	dlp_loss_get(run.model, &loss);
	assert_false(loss.complete);
	for (size_t i = 0; i < loss.reason_cnt; i++)
		told |= !strcmp(loss.reason[i].id, "getnext_begun") && loss.reason[i].count == 1;
	assert_true(told);
	run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_moment),
		cmocka_unit_test(test_named),
		cmocka_unit_test(test_long_call),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests_name("model_begun", tests, NULL, NULL);
}
