/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What GetNext calls were spent on and why workers were idle, for jobs of many shapes, against the
 * simulator's truth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_check.h"

#define ALL UINT64_MAX

static uint64_t uneven(int64_t index, int worker)
{
	uint64_t x = (uint64_t)(index * 7919 + worker * 104729 + 13) % 23;

	return (3 + x) * MS + (index % 11 == 5 ? 60 * MS : 0);
}

static uint64_t quick(int64_t index, int worker)
{
	(void)worker;
	return 400 * US + (uint64_t)(index % 3) * 50 * US;
}

static bool some(int64_t index, int worker)
{
	(void)worker;
	return index % 13 == 7;
}

/* All that can take time does. */
static const struct scn_conf costly = {
	.batches = 60, .produce = uneven, .label = LABEL_MULTI,
	.shard = { 30, 3, 17, 10 },
	.boot = 40 * MS, .pickle = 2 * MS, .hand = 800 * US, .unpickle = 600 * US,
	.sampler = 300 * US, .lack = 400 * US, .gil = 200 * US, .sem = 100 * US,
	.fork = 3 * MS, .exit = 5 * MS,
};

static struct scn *new_job(unsigned int seed)
{
	struct scn *scn = scn_new(seed);

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	return scn;
}

/* Iterators that are ended in mid-epoch, or replaced while they are. */
static void some_calls(struct scn *scn, struct scn_conf conf, int cnt, bool replace)
{
	struct scn_iter *it = NULL, *old;

	for (int i = 0; i < cnt; i++) {
		old = it;
		it = scn_iter(scn, &conf);
		conf.group++;
		if (old && replace)
			scn_close(scn, old);
		for (uint64_t j = 1 + scn_random(scn, 6); j-- && scn_next(scn, it, false);)
			scn_step(scn, 10 * MS);
		if (!replace)
			scn_close(scn, it);
		scn_step(scn, MS);
	}
}

static void epochs(struct scn *scn, struct scn_conf conf, int cnt, bool persistent,
		   uint64_t step_ns)
{
	struct scn_iter *it = NULL;

	for (int i = 0; i < cnt; i++) {
		if (it && persistent)
			scn_again(scn, it);
		else
			it = scn_iter(scn, &conf);
		conf.group++;
		while (scn_next(scn, it, persistent))
			scn_step(scn, step_ns);
	}
}

/* In order with one worker there is nothing to guess: what remains are some steps of torch's. */
static void test_plain(void **unused)
{
	static const struct scn_view views[] = { { 0 }, { .uprobe = true }, { .no_clocks = true } };

	(void)unused;
	for (size_t v = 0; v < sizeof(views) / sizeof(views[0]); v++) {
		struct scn_conf conf = costly;
		struct scn *scn = new_job(3);
		struct run run;

		conf.workers = 1;
		epochs(scn, conf, 3, false, 4 * MS);
		run_model(&run, scn, &views[v]);
		check_spent(&run, 1, ALL, 10 * US, 0);
		run_free(&run);
	}
}

/* Each kind of cost, and nothing but it: the others must be told to be none. */
static void test_one_by_one(void **unused)
{
	const struct scn_conf none = { .workers = 2, .batches = 80, .produce = quick,
				       .label = LABEL_MULTI };
	struct scn_conf confs[6];

	(void)unused;
	for (size_t i = 0; i < 6; i++)
		confs[i] = none;
	confs[0].pickle = 3 * MS;
	confs[1].hand = 3 * MS;
	confs[2].unpickle = 3 * MS;
	confs[3].sampler = 3 * MS;
	confs[4].lack = 3 * MS;
	confs[5].gil = 3 * MS;
	for (size_t i = 0; i < 6; i++) {
		struct scn *scn = new_job(5);
		struct scn_view view = { 0 };
		struct run run;

		epochs(scn, confs[i], 1, false, 200 * US);
		run_model(&run, scn, &view);
		check_spent(&run, 1, ALL, 30 * US, 0);
		run_free(&run);
	}
}

static const struct scn_view views[] = {
	{ 0 },
	{ .uprobe = true },
	{ .jitter_ns = 4000 },
	{ .uprobe = true, .jitter_ns = 4000, .interval_ns = 100 * MS },
	{ .no_clocks = true },
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

/*
 * With several workers a call may read results before it is their turn; what it was blocked for
 * meanwhile is spread evenly. Without order, and with another thread to read them (pin_memory),
 * nothing tells which of two the first calls returned.
 */
static void check_shape(const struct run *run, const struct scn_conf *conf)
{
	struct match match = run_match(run);

	if (conf->pin && conf->unordered)
		assert_true(match.right + 4 >= match.calls);
	else
		check_exact(run);
	assert_int_equal(run->model->loader_cnt, 1);
	check_spent(run, 1, ALL, conf->pin ? 80 * US : 20 * US, conf->pin ? 0.01 : 0.02);
	if (!run->view.no_clocks)
		check_idle(run, 1, ALL, 3 * MS);
}

static void test_shapes(void **unused)
{
	(void)unused;
	for (int shape = 0; shape < 64; shape++) {
		struct scn_conf conf = costly;
		struct scn *scn = new_job((unsigned int)shape + 1);
		struct run run;

		conf.workers = shape & 1 ? 4 : shape & 32 ? 1 : 2;
		conf.unordered = shape & 2;
		conf.iterable = shape & 4;
		conf.pin = shape & 8;
		epochs(scn, conf, 2, shape & 16, shape & 32 ? 20 * MS : 2 * MS);
		for (size_t v = 0; v < VIEWS; v++) {
			run_model(&run, scn, &views[v]);
			check_shape(&run, &conf);
			run_done(&run);
		}
		scn_free(scn);
	}
}

/* Idle times far below the threshold of waits that are told one by one. */
static void test_short_idle(void **unused)
{
	struct scn_conf conf = { .workers = 2, .batches = 400, .produce = quick,
				 .label = LABEL_MULTI };
	struct scn *scn = new_job(7);
	struct scn_view view = { 0 };
	struct run run;

	(void)unused;
	epochs(scn, conf, 2, false, 500 * US);
	run_model(&run, scn, &view);
	check_idle(&run, 1, ALL, MS);
	assert_true(run.model->loaders[0].sums.idle_full_ns > 300 * MS);
	run_free(&run);
}

/* A worker without a shard is idle for a whole epoch, in which the others are waited for. */
static void test_long_idle(void **unused)
{
	struct scn_conf conf = { .workers = 3, .iterable = true, .shard = { 300, 1, 0 },
				 .produce = uneven, .label = LABEL_MULTI };
	struct scn *scn = new_job(9);
	struct scn_view view = { .interval_ns = 100 * SEC };
	const struct dlp_loader_sums *sums;
	struct run run;

	(void)unused;
	epochs(scn, conf, 2, true, 5 * MS);
	run_model(&run, scn, &view);
	sums = &run.model->loaders[0].sums;
	check_idle(&run, 1, ALL, 200 * MS);
	assert_true(sums->idle_wait_ns > 6 * SEC);
	assert_int_equal(sums->barren_cnt, 0); /* they live */
	run_free(&run);
}

/* Two loaders in one step: neither's account has anything of the other. */
static void test_zip(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf one = costly, other = costly;
		struct scn *scn = new_job(11);
		struct scn_iter *a, *b;
		struct run run;

		one.workers = 2;
		other.workers = 3;
		other.group = 1;
		other.produce = quick;
		a = scn_iter(scn, &one);
		b = scn_iter(scn, &other);
		while (scn_next(scn, a, false) && scn_next(scn, b, false))
			scn_step(scn, 3 * MS);
		scn_close(scn, b);
		run_model(&run, scn, &views[v]);
		assert_int_equal(run.model->loader_cnt, 2);
		check_spent(&run, 1, 1, 20 * US, 0.02);
		check_spent(&run, 2, 2, 20 * US, 0.02);
		if (!run.view.no_clocks) {
			check_idle(&run, 1, 1, 15 * MS);
			check_idle(&run, 2, 2, 15 * MS);
		}
		run_free(&run);
	}
}

/*
 * The tool comes and goes in the middle of an epoch, even of a call. Batches that were sent before
 * it came are not known to hold others back.
 */
static void test_attached(void **unused)
{
	(void)unused;
	for (unsigned int i = 0; i < 40; i++) {
		struct scn_conf conf = costly;
		struct scn_view view = { .uprobe = i & 1, .jitter_ns = i & 2 ? 4000 : 0 };
		struct scn *scn = new_job(100 + i);
		struct run run;

		conf.workers = 1 + (int)i % 4;
		conf.batches = 150;
		epochs(scn, conf, 1, false, 6 * MS);
		view.start_ns = 100 * SEC + 300 * MS + i * 7 * MS + i * 137 * US;
		view.end_ns = view.start_ns + 700 * MS;
		run_model(&run, scn, &view);
		assert_true(run.model->loaders[0].sums.calls > 15);
		check_spent(&run, 1, ALL, 40 * US, 0.1);
		check_idle(&run, 1, ALL, 40 * MS);
		run_free(&run);
	}
}

/* Without state clocks a call is blocked from start to end, as far as anybody knows. */
static void test_no_states(void **unused)
{
	struct scn_conf conf = costly;
	struct scn *scn = new_job(13);
	struct scn_view view = { .no_clocks = true, .no_states = true };
	const struct dlp_loader_sums *sums;
	struct run run;

	(void)unused;
	conf.workers = 2;
	epochs(scn, conf, 2, false, 2 * MS);
	run_model(&run, scn, &view);
	sums = &run.model->loaders[0].sums;
	check_sums(sums);
	assert_int_equal(sums->own_ns + sums->behind_ns + sums->lack_ns + sums->gil_ns, 0);
	assert_true(sums->produce_ns > sums->getnext_ns / 2);
	run_free(&run);
}

static bool lose_some(const struct dlp_ev_hdr *hdr, void *ctx)
{
	uint64_t x = hdr->ts_ns / 1000 * 2654435761u + *(const unsigned int *)ctx;

	return hdr->kind != DLP_EV_LABEL && (x >> 7) % 10 == 0;
}

/* Any job, any part of it, any tenth of the events gone: the sums stay sums. */
static void test_any(void **unused)
{
	(void)unused;
	for (unsigned int seed = 1; seed <= 300; seed++) {
		struct scn_conf conf = costly;
		struct scn *scn = new_job(seed);
		struct scn_view view = { .ctx = &seed };
		struct run run;

		conf.workers = 1 + (int)scn_random(scn, 5);
		conf.prefetch = 1 + (int)scn_random(scn, 4);
		conf.unordered = scn_random(scn, 2);
		conf.iterable = scn_random(scn, 3) == 0;
		conf.pin = scn_random(scn, 3) == 0;
		conf.produce = scn_random(scn, 2) ? uneven : quick;
		conf.error = scn_random(scn, 4) ? NULL : some;
		conf.shard[4] = 7;
		if (scn_random(scn, 3))
			epochs(scn, conf, 3, scn_random(scn, 2), scn_random(scn, 20 * MS));
		else
			some_calls(scn, conf, 12, scn_random(scn, 2));
		view.lose = scn_random(scn, 3) ? lose_some : NULL;
		view.uprobe = scn_random(scn, 2);
		view.no_forks = scn_random(scn, 4) == 0;
		view.jitter_ns = scn_random(scn, 2) * 4000;
		view.no_clocks = scn_random(scn, 5) == 0;
		view.no_states = scn_random(scn, 8) == 0;
		view.interval_ns = 50 * MS + scn_random(scn, SEC);
		if (scn_random(scn, 2))
			view.start_ns = 100 * SEC + scn_random(scn, scn_now(scn) - 100 * SEC);
		run_model(&run, scn, &view);
		check_room(&run);
		check_made(&run);
		run_free(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),	   cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_shapes),	   cmocka_unit_test(test_short_idle),
		cmocka_unit_test(test_long_idle),  cmocka_unit_test(test_zip),
		cmocka_unit_test(test_attached),   cmocka_unit_test(test_no_states),
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
