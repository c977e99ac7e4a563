/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which batch every GetNext returned and which worker made it, against the simulator's truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model_check.h"

/* Uneven on purpose: results overtake each other. */
static uint64_t uneven(int64_t index, int worker)
{
	uint64_t x = (uint64_t)(index * 7919 + worker * 104729 + 13) % 23;

	return (3 + x) * MS + (index % 11 == 5 ? 60 * MS : 0);
}

static uint64_t quick(int64_t index, int worker)
{
	(void)worker;
	return 200 * US + (uint64_t)(index % 3) * 50 * US;
}

static void epoch(struct scn *scn, struct scn_iter *it, bool persistent, uint64_t step_ns)
{
	while (scn_next(scn, it, persistent))
		scn_step(scn, step_ns);
}

static struct scn *job(unsigned int seed)
{
	struct scn *scn = scn_new(seed);

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	return scn;
}

static const struct scn_view views[] = {
	{ 0 },
	{ .uprobe = true },
	{ .jitter_ns = 4000 },
	{ .uprobe = true, .jitter_ns = 4000, .interval_ns = 100 * MS },
	{ .uprobe = true, .no_forks = true },
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

static void test_in_order(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (int workers = 1; workers <= 5; workers++) {
			struct scn_conf conf = { .workers = workers, .batches = 83,
						 .produce = uneven, .label = LABEL_MULTI };
			struct scn *scn = job(7);
			struct run run;

			epoch(scn, scn_iter(scn, &conf), false, 9 * MS);
			run_model(&run, scn, &views[v]);
			check_exact(&run);
			check_main(&run);
			check_workers(&run);
			assert_int_equal(run.model->loader_cnt, 1);
			assert_int_equal(run.model->loaders[0].num_workers, workers);
			assert_int_equal(run.model->loaders[0].prefetch, 2 * workers);
			assert_int_equal(run.model->loaders[0].batch_cnt, 83);
			assert_int_equal(run.model->loaders[0].getnext.cnt, 84);
			assert_int_equal(run.model->loaders[0].pin_memory, 0);
			assert_string_equal(run.model->loaders[0].type,
					    "_MultiProcessingDataLoaderIter");
			assert_int_equal(run.model->iterator_cnt, 1);
			assert_true(run.model->iterators[0].ended);
			assert_int_equal(run.model->iterators[0].worker_cnt, workers);
			run_free(&run);
		}
	}
}

static void test_trainer_bound(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 3, .prefetch = 4, .batches = 300,
					 .produce = quick, .label = LABEL_MULTI };
		struct scn *scn = job(3);
		struct run run;

		epoch(scn, scn_iter(scn, &conf), false, 4 * MS);
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		assert_int_equal(run.model->loaders[0].prefetch, 12);
		/* all of them made long before they are wanted */
		assert_true(run.model->loaders[0].ready_sum >
			    8 * run.model->loaders[0].ready_cnt);
		assert_true(run.model->loaders[0].empty_cnt < 3);
		run_free(&run);
	}
}

static void test_epochs(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 4, .batches = 30, .produce = uneven,
					 .label = LABEL_MULTI };
		struct scn *scn = job(11);
		struct run run;

		for (conf.group = 0; conf.group < 5; conf.group++) {
			epoch(scn, scn_iter(scn, &conf), false, 6 * MS);
			scn_step(scn, 20 * MS);
		}
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		check_main(&run);
		check_workers(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		assert_int_equal(run.model->loaders[0].iterator_cnt, 5);
		assert_int_equal(run.model->loaders[0].batch_cnt, 150);
		assert_int_equal(run.model->worker_cnt, 20);
		/* the steps between epochs are none */
		assert_int_equal(run.model->loaders[0].batch_time.cnt, 5 * 30);
		run_free(&run);
	}
}

static void test_persistent(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 4, .batches = 30, .produce = uneven,
					 .label = LABEL_MULTI };
		struct scn *scn = job(5);
		struct scn_iter *it = scn_iter(scn, &conf);
		struct run run;

		for (int i = 0; i < 5; i++) {
			if (i)
				scn_again(scn, it);
			epoch(scn, it, true, 6 * MS);
		}
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		check_main(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		assert_int_equal(run.model->iterator_cnt, 1);
		assert_int_equal(run.model->iterators[0].epochs, 4);
		assert_int_equal(run.model->loaders[0].batch_cnt, 150);
		assert_false(run.model->iterators[0].ended);
		run_free(&run);
	}
}

/* The loop is left early; results of the old epoch are drained before the new one starts. */
static void test_persistent_break(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 3, .batches = 40, .produce = uneven,
					 .label = LABEL_MULTI };
		struct scn *scn = job(5);
		struct scn_iter *it = scn_iter(scn, &conf);
		struct run run;

		for (int i = 0; i < 6; i++) {
			if (i)
				scn_again(scn, it);
			for (int k = 0; k < 3 + 2 * i && scn_next(scn, it, true); k++)
				scn_step(scn, 5 * MS);
		}
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		assert_int_equal(run.model->iterators[0].epochs, 5);
		run_free(&run);
	}
}

static void test_unordered(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 4, .batches = 120, .produce = uneven,
					 .unordered = true, .label = LABEL_MULTI };
		struct scn *scn = job(9);
		struct run run;

		epoch(scn, scn_iter(scn, &conf), false, 2 * MS);
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		assert_true(run.model->iterators[0].unordered);
		run_free(&run);
	}
}

static void test_pin_memory(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (int unordered = 0; unordered < 2; unordered++) {
			struct scn_conf conf = { .workers = 4, .batches = 120, .produce = uneven,
						 .pin = true, .unordered = unordered,
						 .label = LABEL_MULTI };
			struct scn *scn = job(9);
			struct run run;

			epoch(scn, scn_iter(scn, &conf), false, 3 * MS);
			run_model(&run, scn, &views[v]);
			check_exact(&run);
			assert_int_equal(run.model->loaders[0].pin_memory, 1);
			assert_int_equal(run.model->iterators[0].unordered, unordered);
			run_free(&run);
		}
	}
}

static void test_iterable(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (int persistent = 0; persistent < 2; persistent++) {
			struct scn_conf conf = { .workers = 4, .iterable = true,
						 .shard = { 9, 0, 30, 17 }, .produce = uneven,
						 .label = LABEL_MULTI };
			struct scn *scn = job(13);
			struct scn_iter *it = scn_iter(scn, &conf);
			const struct dlp_worker *worker;
			struct run run;

			epoch(scn, it, persistent, 5 * MS);
			if (persistent) {
				scn_again(scn, it);
				epoch(scn, it, true, 5 * MS);
			}
			run_model(&run, scn, &views[v]);
			check_exact(&run);
			assert_int_equal(run.model->loaders[0].batch_cnt, 56 * (1 + persistent));
			assert_int_equal(run.model->loaders[0].num_workers, 4);
			worker = dlp_model_worker(run.model, scn_iter_pid(it, 1));
			assert_int_equal(worker->batch_cnt, 0);
			assert_int_equal(worker->produce.cnt, 0);
			run_free(&run);
		}
	}
}

/* Two loaders of one class and size, used in turn while both live. */
static void test_zip(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = { .workers = 2, .batches = 60, .produce = uneven,
					 .label = LABEL_MULTI };
		struct scn *scn = job(17);
		struct scn_iter *a, *b;
		struct run run;

		a = scn_iter(scn, &conf);
		conf.group = 1;
		/* as large, or the size of a result alone would tell them apart */
		conf.produce = quick;
		b = scn_iter(scn, &conf);
		while (scn_next(scn, a, false) && scn_next(scn, b, false))
			scn_step(scn, 6 * MS);
		run_model(&run, scn, &views[v]);
		check_exact(&run);
		assert_int_equal(run.model->loader_cnt, 2);
		assert_int_equal(run.model->loaders[0].batch_cnt, 60);
		assert_int_equal(run.model->loaders[1].batch_cnt, 60);
		run_free(&run);
	}
}

/* Validation every few steps of training, which stays alive meanwhile. */
static void validation(const struct scn_view *view, bool pin, bool persistent)
{
	struct scn_conf train = { .workers = 3, .batches = 60, .produce = uneven, .pin = pin,
				  .label = LABEL_MULTI };
	struct scn_conf val = { .workers = 3, .batches = 12, .produce = uneven, .pin = pin,
				.label = LABEL_MULTI };
	struct scn *scn = job(19);
	struct scn_iter *it = scn_iter(scn, &train), *again = NULL;
	struct run run;
	int step = 0;

	while (scn_next(scn, it, false)) {
		scn_step(scn, 7 * MS);
		if (++step % 20)
			continue;
		val.group++;
		if (again && persistent)
			scn_again(scn, again);
		else
			again = scn_iter(scn, &val);
		epoch(scn, again, persistent, 3 * MS);
	}
	run_model(&run, scn, view);
	check_exact(&run);
	assert_int_equal(run.model->loader_cnt, 2);
	assert_int_equal(run.model->loaders[0].batch_cnt, 60);
	assert_int_equal(run.model->loaders[1].batch_cnt, 36);
	assert_int_equal(run.model->loaders[1].iterator_cnt, persistent ? 1 : 3);
	run_free(&run);
}

static void test_validation(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (int mode = 0; mode < 4; mode++)
			validation(&views[v], mode & 1, mode & 2);
	}
}

/* Epoch by epoch in turn, not alive together: the number of workers tells them apart. */
static void test_by_workers(void **unused)
{
	struct scn_conf train = { .workers = 4, .batches = 40, .produce = uneven,
				  .label = LABEL_MULTI };
	struct scn_conf val = { .workers = 2, .batches = 16, .produce = uneven,
				.label = LABEL_MULTI };
	struct scn *scn = job(23);
	struct run run;

	(void)unused;
	for (int i = 0; i < 3; i++) {
		train.group = 2 * (uint32_t)i;
		val.group = train.group + 1;
		epoch(scn, scn_iter(scn, &train), false, 7 * MS);
		epoch(scn, scn_iter(scn, &val), false, 3 * MS);
	}
	run_model(&run, scn, &views[1]);
	check_exact(&run);
	assert_int_equal(run.model->loader_cnt, 2);
	assert_int_equal(run.model->loaders[0].num_workers, 4);
	assert_int_equal(run.model->loaders[0].batch_cnt, 120);
	assert_int_equal(run.model->loaders[1].num_workers, 2);
	assert_int_equal(run.model->loaders[1].batch_cnt, 48);
	run_free(&run);
}

static void test_no_workers(void **unused)
{
	struct scn_conf conf = { .batches = 50, .produce = uneven, .label = LABEL_SINGLE };
	struct scn *scn = job(1);
	struct scn_iter *it = scn_iter(scn, &conf);
	struct run run;

	(void)unused;
	epoch(scn, it, false, 4 * MS);
	epoch(scn, it, false, 4 * MS);
	run_model(&run, scn, &views[0]);
	check_main(&run);
	assert_int_equal(run.model->loader_cnt, 1);
	assert_int_equal(run.model->loaders[0].num_workers, 0);
	assert_int_equal(run.model->loaders[0].getnext.cnt, 102);
	assert_int_equal(run.model->worker_cnt, 0);
	assert_string_equal(run.model->loaders[0].type, "_SingleProcessDataLoaderIter");
	run_free(&run);
}

static uint64_t salt;

static uint64_t random_ns(int64_t index, int worker)
{
	uint64_t x = ((uint64_t)index * 2654435761u + (uint64_t)worker * 40503u + salt) *
		     6364136223846793005ull;

	x ^= x >> 29;
	return 100 * US + x % (20 * MS) + (x >> 60 ? 0 : 100 * MS);
}

/* Any mix of settings that torch's default order allows. */
static void test_any(void **unused)
{
	(void)unused;
	for (unsigned int seed = 0; seed < 80; seed++) {
		struct scn_conf conf = { .produce = random_ns, .label = LABEL_MULTI };
		struct scn_view view = { .uprobe = seed % 2, .jitter_ns = seed % 3 ? 4000 : 0 };
		struct scn *scn = job(seed);
		struct scn_iter *it = NULL;
		unsigned int state = seed;
		bool persistent = seed % 5 < 2, more = true;
		struct run run;

		salt = seed;
		conf.workers = 1 + rand_r(&state) % 8;
		conf.prefetch = 1 + rand_r(&state) % 4;
		conf.batches = 5 + rand_r(&state) % 60;
		conf.pin = seed % 4 == 3;
		conf.iterable = seed % 7 < 3;
		for (int w = 0; w < conf.workers; w++)
			conf.shard[w] = w ? rand_r(&state) % 20 : 7;
		for (uint32_t epoch = 0; epoch < 3; epoch++) {
			int limit = seed % 6 == 5 ? 1 + rand_r(&state) % 20 : 100000;

			conf.group = epoch;
			if (!it || !persistent)
				it = scn_iter(scn, &conf);
			else
				scn_again(scn, it);
			while (limit-- && (more = scn_next(scn, it, persistent)))
				scn_step(scn, (uint64_t)(rand_r(&state) % 30) * MS);
			if (more && !persistent)
				scn_close(scn, it);
			scn_step(scn, 3 * MS);
		}
		run_model(&run, scn, &view);
		check_exact(&run);
		check_main(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		run_free(&run);
	}
}

/* Attached in the middle: never wrong, and soon exact. */
static void test_attach_late(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (uint64_t at = 0; at < 40; at++) {
			struct scn_conf conf = { .workers = 4, .batches = 150, .produce = uneven,
						 .label = LABEL_MULTI };
			struct scn *scn = job(29);
			struct scn_view view = views[v];
			struct match match;
			struct run run;

			epoch(scn, scn_iter(scn, &conf), false, (1 + at % 4 * 4) * MS);
			view.start_ns = 100 * SEC + 300 * MS + at * 1777 * US;
			run_model(&run, scn, &view);
			match = run_match(&run);
			assert_int_equal(match.wrong, 0);
			assert_int_equal(match.extra, 0);
			assert_int_equal(match.missing, 0);
			assert_true(match.unknown <= 16);
			assert_true(match.right > 60);
			check_main(&run);
			check_workers(&run);
			assert_int_equal(run.model->loader_cnt, 1);
			assert_int_equal(run.model->loaders[0].num_workers, 4);
			assert_int_equal(run.model->loaders[0].batch_cnt, match.calls);
			run_free(&run);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),       cmocka_unit_test(test_trainer_bound),
		cmocka_unit_test(test_epochs),	       cmocka_unit_test(test_persistent),
		cmocka_unit_test(test_persistent_break), cmocka_unit_test(test_unordered),
		cmocka_unit_test(test_pin_memory),     cmocka_unit_test(test_iterable),
		cmocka_unit_test(test_zip),	       cmocka_unit_test(test_validation),
		cmocka_unit_test(test_by_workers),     cmocka_unit_test(test_no_workers),
		cmocka_unit_test(test_attach_late),    cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
