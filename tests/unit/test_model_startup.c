/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time spent on making and ending iterators outside GetNext, against the simulator's truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_check.h"

static uint64_t quick(int64_t index, int worker)
{
	(void)worker;
	return 3 * MS + (uint64_t)(index % 3) * 500 * US;
}

static const struct scn_conf usual = {
	.workers = 3, .batches = 20, .produce = quick, .label = LABEL_MULTI,
	.boot = 30 * MS, .sem = 150 * US, .fork = 4 * MS, .exit = 8 * MS,
};

static const struct scn_view views[] = {
	{ 0 },
	{ .uprobe = true },
	{ .jitter_ns = 4000 },
	{ .late_ns = 9 * MS },
	{ .no_clocks = true, .interval_ns = 100 * MS },
	{ .no_clocks = true, .no_states = true },
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

static struct scn *new_job(unsigned int seed)
{
	struct scn *scn = scn_new(seed);

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	return scn;
}

struct outside {
	uint64_t init_cnt, init_ns, teardown_ns;
};

static struct outside truth_of(const struct run *run)
{
	const struct dlp_model *model = run->model;
	const struct scn_outside *outside;
	size_t cnt = scn_outside(run->scn, &outside);
	struct outside ret = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		uint64_t from = outside[i].start_ns, to = outside[i].end_ns;

		from = from > model->start_ns ? from : model->start_ns;
		to = to < model->end_ns ? to : model->end_ns;
		if (to <= from)
			continue;
		if (outside[i].teardown)
			ret.teardown_ns += to - from;
		else
			ret.init_ns += to - from;
		ret.init_cnt += !outside[i].teardown;
	}
	return ret;
}

static struct outside told(const struct run *run)
{
	struct outside ret = { 0 };

	for (size_t i = 0; i < run->model->loader_cnt; i++) {
		ret.init_cnt += run->model->loaders[i].sums.init_cnt;
		ret.init_ns += run->model->loaders[i].sums.init_ns;
		ret.teardown_ns += run->model->loaders[i].sums.teardown_ns;
	}
	return ret;
}

static void assert_near(const char *what, uint64_t a, uint64_t b, uint64_t by)
{
	if ((a > b ? a - b : b - a) > by)
		fail_msg("%s: %llu us is not within %llu of %llu", what,
			 (unsigned long long)(a / US), (unsigned long long)(by / US),
			 (unsigned long long)(b / US));
}

/* Index messages leave some 70 us after iter() asked for them, the last worker may go earlier. */
static void check_outside(const struct run *run)
{
	struct outside truth = truth_of(run), got = told(run);

	check_room(run);
	assert_int_equal(got.init_cnt, truth.init_cnt);
	assert_near("init", got.init_ns, truth.init_ns, 200 * US * truth.init_cnt);
	assert_near("teardown", got.teardown_ns, truth.teardown_ns, 200 * US * truth.init_cnt);
}

/* The queues' semaphores are seen, or not: then the first fork has to do. */
static void test_epochs(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		for (int workers = 1; workers <= 4; workers++) {
			struct scn_conf conf = usual;
			struct scn *scn = new_job(3);
			struct run run;

			conf.workers = workers;
			for (int i = 0; i < 5; i++) {
				struct scn_iter *it = scn_iter(scn, &conf);

				conf.group++;
				while (scn_next(scn, it, false))
					scn_step(scn, 2 * MS);
			}
			run_model(&run, scn, &views[v]);
			check_outside(&run);
			assert_int_equal(run.model->loaders[0].sums.init_cnt, 5);
			assert_int_equal(run.model->loaders[0].sums.teardown_ns, 0);
			assert_true(run.model->loaders[0].init.max_ns >= 4 * MS);
			run_free(&run);
		}
	}
}

static void test_no_semaphores(void **unused)
{
	struct scn_conf conf = usual;
	struct scn *scn = new_job(3);
	struct scn_view view = { 0 };
	struct run run;

	(void)unused;
	conf.sem = 0;
	for (int i = 0; i < 5; i++) {
		struct scn_iter *it = scn_iter(scn, &conf);

		conf.group++;
		while (scn_next(scn, it, false))
			scn_step(scn, 2 * MS);
	}
	run_model(&run, scn, &view);
	check_outside(&run);
	run_free(&run);
}

/* next(iter(loader)): the iterator is ended before the step, or when the next one replaces it. */
static void test_per_step(void **unused)
{
	(void)unused;
	for (int replace = 0; replace < 2; replace++) {
		for (size_t v = 0; v < VIEWS; v++) {
			struct scn_conf conf = usual;
			struct scn *scn = new_job(5);
			struct scn_iter *it = NULL, *old;
			struct run run;

			for (int i = 0; i < 30; i++) {
				old = it;
				it = scn_iter(scn, &conf);
				conf.group++;
				if (old && replace)
					scn_close(scn, old);
				scn_next(scn, it, false);
				if (!replace)
					scn_close(scn, it);
				scn_step(scn, 20 * MS);
			}
			/* the newest is ended only by another call */
			if (!replace)
				scn_next(scn, scn_iter(scn, &conf), false);
			run_model(&run, scn, &views[v]);
			check_outside(&run);
			run_free(&run);
		}
	}
}

/* break: an epoch cut short. */
static void test_break(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf conf = usual;
		struct scn *scn = new_job(7);
		struct run run;

		for (int i = 0; i < 6; i++) {
			struct scn_iter *it = scn_iter(scn, &conf);

			conf.group++;
			for (int step = 0; step < 9; step++) {
				scn_next(scn, it, false);
				scn_step(scn, 5 * MS);
			}
			scn_close(scn, it);
		}
		scn_next(scn, scn_iter(scn, &conf), false);
		run_model(&run, scn, &views[v]);
		check_outside(&run);
		assert_int_equal(run.model->loader_cnt, 1);
		run_free(&run);
	}
}

/* Both iterators are made before the first is called. */
static void test_zip(void **unused)
{
	(void)unused;
	for (size_t v = 0; v < VIEWS; v++) {
		struct scn_conf one = usual, other = usual;
		struct scn *scn = new_job(9);
		struct scn_iter *a, *b;
		struct run run;

		other.workers = 2;
		other.group = 1;
		a = scn_iter(scn, &one);
		b = scn_iter(scn, &other);
		while (scn_next(scn, a, false) && scn_next(scn, b, false))
			scn_step(scn, 3 * MS);
		run_model(&run, scn, &views[v]);
		check_outside(&run);
		assert_int_equal(run.model->loader_cnt, 2);
		assert_int_equal(run.model->loaders[0].sums.init_cnt, 1);
		assert_int_equal(run.model->loaders[1].sums.init_cnt, 1);
		run_free(&run);
	}
}

/* Workers live on, and starting an epoch is no start of theirs. */
static void test_persistent(void **unused)
{
	struct scn_conf conf = usual;
	struct scn *scn = new_job(11);
	struct scn_view view = { 0 };
	struct scn_iter *it = scn_iter(scn, &conf);
	struct run run;

	(void)unused;
	for (int i = 0; i < 4; i++) {
		if (i)
			scn_again(scn, it);
		while (scn_next(scn, it, true))
			scn_step(scn, 2 * MS);
	}
	run_model(&run, scn, &view);
	check_outside(&run);
	assert_int_equal(run.model->loaders[0].sums.init_cnt, 1);
	run_free(&run);
}

/* The window opens while an iterator is being made. */
static void test_cut(void **unused)
{
	(void)unused;
	for (unsigned int i = 1; i < 24; i++) {
		struct scn_conf conf = usual;
		struct scn_view view = { .start_ns = 100 * SEC + 4 * MS + i * 700 * US };
		struct scn *scn = new_job(13);
		struct scn_iter *it = scn_iter(scn, &conf);
		struct outside truth;
		struct run run;

		while (scn_next(scn, it, false))
			scn_step(scn, 2 * MS);
		run_model(&run, scn, &view);
		check_room(&run);
		truth = truth_of(&run);
		assert_true(told(&run).init_ns <= truth.init_ns + 100 * US);
		/* what was made before is not seen: 8 semaphores or a fork are the least */
		if (view.start_ns < 100 * SEC + 5 * MS)
			assert_near("init", told(&run).init_ns, truth.init_ns, 100 * US);
		run_free(&run);
	}
}

/* Queues of the job's own, made long before or between two calls, are not its loader's start. */
static void test_other_queues(void **unused)
{
	struct scn_conf conf = usual;
	struct scn *scn = new_job(15);
	struct scn_view view = { 0 };
	struct scn_iter *it;
	struct run run;

	(void)unused;
	for (int i = 0; i < 40; i++) {
		struct dlp_ev_sem ev = { .hdr = { .size = sizeof(ev), .kind = DLP_EV_SEM,
						  .ts_ns = scn_now(scn), .tgid = SCN_TRAINER,
						  .tid = SCN_TRAINER } };

		scn_event(scn, &ev, sizeof(ev));
		scn_step(scn, i == 20 ? 2 * SEC : 200 * US);
	}
	scn_step(scn, 3 * SEC);
	it = scn_iter(scn, &conf);
	while (scn_next(scn, it, false))
		scn_step(scn, 2 * MS);
	run_model(&run, scn, &view);
	check_outside(&run);
	run_free(&run);
}

/* Born, ended, killed: who made batches, who had none, who died of what. */
static void test_ends(void **unused)
{
	struct scn_conf conf = { .workers = 3, .iterable = true, .shard = { 9, 4, 0 },
				 .produce = quick, .label = LABEL_MULTI };
	struct scn_view view = { 0 };
	struct scn *scn = new_job(17);
	const struct dlp_loader_sums *sums;
	struct scn_iter *it;
	struct run run;

	(void)unused;
	for (int i = 0; i < 3; i++) {
		it = scn_iter(scn, &conf);
		conf.group++;
		while (scn_next(scn, it, false))
			scn_step(scn, MS);
	}
	it = scn_iter(scn, &conf);
	scn_next(scn, it, false);
	scn_step(scn, 500 * US);
	scn_kill(scn, it, 0, 9);
	scn_step(scn, 100 * MS);
	run_model(&run, scn, &view);
	sums = &run.model->loaders[0].sums;
	assert_int_equal(sums->fruitful_cnt, 3 * 2 + 1);
	assert_int_equal(sums->barren_cnt, 3);
	for (size_t i = 0; i < run.model->worker_cnt; i++) {
		const struct dlp_worker *worker = &run.model->workers[i];

		assert_int_equal(worker->unexpected, worker->pid == scn_iter_pid(it, 0));
	}
	run_free(&run);
}

static bool third(int64_t index, int worker)
{
	(void)worker;
	return index == 3;
}

/* An exception comes in place of a batch, and says when and from whom. */
static void test_error(void **unused)
{
	struct scn_conf conf = usual;
	struct scn_view view = { 0 };
	struct scn *scn = new_job(19);
	const struct scn_made *made;
	struct scn_iter *it;
	struct run run;

	(void)unused;
	conf.error = third;
	it = scn_iter(scn, &conf);
	for (int i = 0; i < 4; i++)
		scn_next(scn, it, false);
	scn_step(scn, 100 * MS);
	run_model(&run, scn, &view);
	scn_made(scn, &made);
	check_exact(&run);
	assert_int_equal(made[3].index, 3);
	assert_int_equal(run.model->error_pid, made[3].pid);
	assert_true(run.model->error_ns >= made[3].done_ns);
	assert_true(run.model->error_ns < made[3].done_ns + 100 * US);
	run_free(&run);
}

/* A worker's boot is what it does before its first batch; made is all since then. */
static void test_boot(void **unused)
{
	struct scn_conf conf = usual;
	struct scn_view view = { .jitter_ns = 4000 };
	struct scn *scn = new_job(21);
	const struct dlp_loader_sums *sums;
	const struct scn_made *made;
	uint64_t boot_ns = 0, made_ns = 0;
	struct scn_iter *it;
	struct run run;
	size_t cnt;

	(void)unused;
	for (int i = 0; i < 4; i++) {
		it = scn_iter(scn, &conf);
		conf.group++;
		while (scn_next(scn, it, false))
			scn_step(scn, MS);
	}
	run_model(&run, scn, &view);
	cnt = scn_made(scn, &made);
	for (size_t i = 0; i < cnt; i++)
		made_ns += made[i].done_ns - made[i].taken_ns;
	for (size_t i = 0; i < run.model->worker_cnt; i++)
		boot_ns += scn_state_ns(scn, run.model->workers[i].pid, DLP_ST_RUN, 0,
					run.model->end_ns);
	sums = &run.model->loaders[0].sums;
	assert_int_equal(run.model->worker_cnt, 12);
	assert_int_equal(sums->boot.ns[DLP_ST_RUN] + sums->made.ns[DLP_ST_RUN], boot_ns);
	assert_near("made", sums->made_ns, made_ns, 60 * US * cnt);
	assert_int_equal(sums->made_cnt, cnt);
	/* ending is not booting: 8 ms for each of the 12 */
	assert_near("made", sums->made.ns[DLP_ST_RUN], made_ns, 12 * 13 * MS);
	assert_true(sums->boot.ns[DLP_ST_RUN] > 12 * 15 * MS);
	run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_epochs),	   cmocka_unit_test(test_no_semaphores),
		cmocka_unit_test(test_per_step),   cmocka_unit_test(test_break),
		cmocka_unit_test(test_zip),	   cmocka_unit_test(test_persistent),
		cmocka_unit_test(test_cut),	   cmocka_unit_test(test_other_queues),
		cmocka_unit_test(test_ends),	   cmocka_unit_test(test_error),
		cmocka_unit_test(test_boot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
