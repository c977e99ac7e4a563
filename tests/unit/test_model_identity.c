/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DataLoaders with the same settings that take turns, and single ones that only look like several:
 * which iterators are put down to which, with all that was counted for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_check.h"

static uint64_t uneven(int64_t index, int worker)
{
	return (2 + (uint64_t)(index * 7919 + worker * 104729 + 13) % 7) * MS;
}

/* Index messages: 32 indices, 128, and from a few to many as a sampler by length gives them. */
static uint64_t small(int64_t index)
{
	return 115 + (uint64_t)index % 9;
}

static uint64_t large(int64_t index)
{
	return 400 + (uint64_t)index % 23;
}

static uint64_t varied(int64_t index)
{
	return 60 + (uint64_t)(index * 7919 + 5) % 500;
}

static const struct scn_conf usual = {
	.workers = 2, .produce = uneven, .label = LABEL_MULTI, .boot = 3 * MS, .sem = 50 * US,
};

static const struct scn_view views[] = {
	{ 0 },
	{ .uprobe = true, .jitter_ns = 4000 },
	{ .interval_ns = 100 * MS, .jitter_ns = 4000 },
	{ .no_clocks = true },
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

struct job {
	struct scn *scn;
	struct scn_conf conf;
	uint32_t group;
	uint64_t mine[2]; /* iterators of either loader */
};

static struct job job_new(unsigned int seed)
{
	struct job job = { .scn = scn_new(seed), .conf = usual };

	scn_labels(job.scn);
	scn_step(job.scn, 5 * MS);
	return job;
}

/* An epoch of one of two loaders, cut short after `stop` batches if it is that long. */
static void epoch(struct job *job, int which, int batches, int stop, uint64_t (*ask)(int64_t))
{
	struct scn_iter *it;
	int cnt = 0;

	job->conf.batches = batches;
	job->conf.ask = ask;
	job->conf.group = job->group++;
	it = scn_iter(job->scn, &job->conf);
	job->mine[which] |= 1ull << (job->group - 1);
	while (scn_next(job->scn, it, false)) {
		scn_step(job->scn, 2 * MS);
		if (++cnt == stop) {
			scn_close(job->scn, it);
			break;
		}
	}
}

static uint64_t calls_of(const struct scn *scn, uint64_t iters, bool data)
{
	const struct scn_call *call;
	size_t cnt = scn_calls(scn, &call);
	uint64_t ret = 0;

	for (size_t i = 0; i < cnt; i++)
		ret += iters >> (call[i].iter - 1) & 1 && (call[i].data || !data);
	return ret;
}

/* Each epoch has a first batch, with its number, after that of the epoch before. */
static void check_phases(const struct run *run, uint32_t id, uint64_t epochs)
{
	uint64_t seen = 0, before_ns = 0;

	assert_true(run->model->phase_cnt <= DLP_MODEL_PHASES_MAX);
	for (size_t i = 0; i < run->model->phase_cnt; i++) {
		const struct dlp_phase *phase = &run->model->phases[i];

		if (phase->loader != id)
			continue;
		assert_true(phase->epoch >= 1 && phase->epoch <= epochs);
		if (phase->kind != DLP_PHASE_FIRST_BATCH)
			continue;
		assert_int_equal(phase->epoch, ++seen);
		assert_true(phase->start_ns > before_ns);
		before_ns = phase->end_ns;
	}
	assert_int_equal(seen, epochs);
}

static void check_loader(const struct run *run, uint32_t id, uint64_t iters)
{
	const struct dlp_loader *loader = &run->model->loaders[id - 1];
	uint64_t sum = 0, calls = calls_of(run->scn, iters, false);
	size_t iterators = 0;

	for (size_t i = 0; i < run->model->iterator_cnt; i++)
		iterators += run->model->iterators[i].loader == id;
	assert_int_equal(iterators, __builtin_popcountll(iters));
	assert_int_equal(loader->iterator_cnt, iterators);
	assert_int_equal(loader->batch_cnt, calls_of(run->scn, iters, true));
	assert_int_equal(loader->getnext.cnt, calls);
	assert_int_equal(loader->sums.init_cnt, iterators);
	assert_int_equal(loader->init.cnt, iterators);
	for (size_t i = 0; i < DLP_HIST_BUCKETS; i++)
		sum += loader->getnext.bucket[i];
	assert_int_equal(sum, calls);
	assert_true(loader->getnext.min_ns <= loader->getnext.max_ns);
	for (uint32_t i = 0; i < loader->getnext_longest.cnt; i++)
		assert_true(loader->getnext_longest.item[i].end_ns -
				    loader->getnext_longest.item[i].start_ns <=
			    loader->getnext.max_ns);
	assert_int_equal(loader->num_workers, 2);
	assert_int_equal(loader->epoch_cnt, iterators);
	check_phases(run, id, iterators);
	check_spent(run, id, iters, 40 * US, 0.05);
}

/* Both loaders, with what the simulator knows of either. */
static void check_two(struct job *job)
{
	for (size_t v = 0; v < VIEWS; v++) {
		struct run run;

		run_model(&run, job->scn, &views[v]);
		check_exact(&run);
		assert_int_equal(run.model->loader_cnt, 2);
		check_loader(&run, 1, job->mine[0]);
		check_loader(&run, 2, job->mine[1]);
		run_done(&run);
	}
	scn_free(job->scn);
}

static void check_one(struct job *job)
{
	for (size_t v = 0; v < VIEWS; v++) {
		struct run run;

		run_model(&run, job->scn, &views[v]);
		check_exact(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		check_loader(&run, 1, job->mine[0] | job->mine[1]);
		run_done(&run);
	}
	scn_free(job->scn);
}

/* Training and validation in turns; the shorter first, too; and validation every other epoch. */
static void test_lengths(void **unused)
{
	(void)unused;
	for (int order = 0; order < 3; order++) {
		struct job job = job_new(3);

		for (int i = 0; i < 4; i++) {
			epoch(&job, 0, order == 1 ? 12 : 40, 0, small);
			if (order == 2)
				epoch(&job, 0, 40, 0, small);
			epoch(&job, 1, order == 1 ? 40 : 12, 0, small);
		}
		check_two(&job);
	}
}

/* As many batches, but larger ones; cut short or not. */
static void test_sizes(void **unused)
{
	(void)unused;
	for (int stop = 0; stop <= 10; stop += 10) {
		struct job job = job_new(5);

		for (int i = 0; i < 4; i++) {
			epoch(&job, 0, 30, stop, small);
			epoch(&job, 1, 30, 0, large);
		}
		check_two(&job);
	}
}

static void test_cut_short(void **unused)
{
	static const int stops[] = { 5, 30, 2, 17, 39, 3, 25, 0, 8, 40 };
	struct job job = job_new(7);

	(void)unused;
	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
		epoch(&job, 0, 40, stops[i], small);
	check_one(&job);
}

/* A sampler by length: sizes and numbers of batches vary, within an epoch and between them. */
static void test_varied(void **unused)
{
	static const int batches[] = { 40, 46, 37, 52, 44, 38, 50, 41 };
	struct job job = job_new(9);

	(void)unused;
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
		epoch(&job, 0, batches[i], 0, varied);
	check_one(&job);
}

/* No lengths repeat: after some it is clear that they are no sign of anything. */
static void test_all_lengths(void **unused)
{
	struct job job = job_new(11);
	struct scn_view view = { 0 };
	struct run run;
	uint64_t batches = 0;

	(void)unused;
	for (int i = 1; i <= 10; i++)
		epoch(&job, 0, 6 + i * i * 2, 0, small);
	run_model(&run, job.scn, &view);
	check_exact(&run);
	assert_true(run.model->loader_cnt <= 3);
	for (size_t i = 0; i < run.model->loader_cnt; i++) {
		check_sums(&run.model->loaders[i].sums);
		batches += run.model->loaders[i].batch_cnt;
	}
	assert_int_equal(batches, calls_of(job.scn, job.mine[0], true));
	run_free(&run);
}

/* The same workers for all epochs, of whatever length: one iterator is one loader. */
static void test_persistent(void **unused)
{
	struct scn_conf conf = usual;
	struct scn_view view = { 0 };
	struct job job = job_new(13);
	struct scn_iter *it;
	struct run run;

	(void)unused;
	conf.iterable = true;
	conf.shard[0] = conf.shard[1] = 40;
	it = scn_iter(job.scn, &conf);
	for (int i = 0; i < 4; i++) {
		if (i)
			scn_again(job.scn, it);
		for (int j = 0; scn_next(job.scn, it, true); j++)
			scn_step(job.scn, MS);
	}
	run_model(&run, job.scn, &view);
	check_exact(&run);
	assert_int_equal(run.model->loader_cnt, 1);
	assert_int_equal(run.model->loaders[0].batch_cnt, 320);
	run_free(&run);
}

/* We come in the middle of an epoch, at whatever place: its first messages are unseen. */
static void test_attached(void **unused)
{
	(void)unused;
	for (unsigned int i = 0; i < 30; i++) {
		struct job job = job_new(17);
		struct scn_view view = { .uprobe = i & 1 };
		struct run run;
		uint64_t sum = 0;

		for (int j = 0; j < 4; j++) {
			epoch(&job, 0, 40, 0, small);
			epoch(&job, 1, 12, 0, small);
		}
		view.start_ns = 100 * SEC + 10 * MS + i * 13 * MS;
		run_model(&run, job.scn, &view);
		assert_int_equal(run.model->loader_cnt, 2);
		for (size_t l = 0; l < 2; l++) {
			check_sums(&run.model->loaders[l].sums);
			sum += run.model->loaders[l].sums.getnext_ns;
		}
		assert_true(sum <= run.model->exposed_ns + MS);
		/* the last ones of either are not the same one's */
		assert_int_not_equal(
			run.model->iterators[run.model->iterator_cnt - 1].loader,
			run.model->iterators[run.model->iterator_cnt - 2].loader);
		assert_int_equal(run.model->iterators[run.model->iterator_cnt - 1].loader,
				 run.model->iterators[run.model->iterator_cnt - 3].loader);
		run_free(&run);
	}
}

/* Shards end within the epoch into which we came: the part that was seen is no shorter loader's. */
static void test_attached_stream(void **unused)
{
	(void)unused;
	for (unsigned int i = 0; i < 60; i++) {
		struct job job = job_new(17);
		struct scn_view view = { .uprobe = i & 1, .start_ns = 100 * SEC + i * 7 * MS };
		struct run run;

		job.conf.iterable = true;
		job.conf.shard[0] = job.conf.shard[1] = 25;
		for (int j = 0; j < 4; j++)
			epoch(&job, 0, 50, 0, small);
		run_model(&run, job.scn, &view);
		assert_int_equal(run.model->loader_cnt, 1);
		check_sums(&run.model->loaders[0].sums);
		run_free(&run);
	}
}

static bool lose_some(const struct dlp_ev_hdr *hdr, void *ctx)
{
	uint64_t x = hdr->ts_ns / 1000 * 2654435761u + *(const unsigned int *)ctx;

	return hdr->kind != DLP_EV_LABEL && (x >> 7) % 20 == 0;
}

/* Some events are gone: hardly a loader is made up, and all sums are sums. */
static void test_lost(void **unused)
{
	unsigned int made_up = 0;

	(void)unused;
	for (unsigned int seed = 1; seed <= 60; seed++) {
		struct job job = job_new(seed);
		struct scn_view view = { .lose = lose_some, .ctx = &seed };
		struct run run;

		for (int j = 0; j < 3; j++) {
			epoch(&job, 0, 40, 0, small);
			if (seed % 3)
				epoch(&job, 1, 12, seed & 1 ? 5 : 0, small);
		}
		run_model(&run, job.scn, &view);
		made_up += run.model->loader_cnt > (seed % 3 ? 2 : 1);
		for (size_t l = 0; l < run.model->loader_cnt; l++)
			check_sums(&run.model->loaders[l].sums);
		check_made(&run);
		run_free(&run);
	}
	/* an end that is not seen, a number of workers that is not what it seems */
	assert_true(made_up <= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),	    cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_cut_short),   cmocka_unit_test(test_varied),
		cmocka_unit_test(test_all_lengths), cmocka_unit_test(test_persistent),
		cmocka_unit_test(test_attached),    cmocka_unit_test(test_attached_stream),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
