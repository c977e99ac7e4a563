/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums at a moment, and what came to them since another: every member counts, none goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job_fixture.h"
#include "sums.h"

#define WORDS (sizeof(struct dlp_loader_sums) / sizeof(uint64_t))

static struct job job;

static int setup(void **state)
{
	(void)state;
	job_init(&job);
	job_machine(&job);
	return 0;
}

static void test_take(void **state)
{
	struct dlp_sums taken;

	(void)state;
	job.loader[1] = job.loader[0];
	job.loader[1].sums.boot_ns = 77;
	job.model.loader_cnt = 2;
	job.model.system.others_all.used_ns = 88;
	memset(&taken, 0xa5, sizeof(taken));
	dlp_sums_take(&job.model, &taken);
	assert_true(taken.from_ns == JOB_START_NS && taken.to_ns == JOB_START_NS + 12 * SECOND);
	assert_true(taken.main_valid);
	assert_true(taken.exposed_ns == job_ns(7.56));
	assert_int_equal(taken.calls, 150);
	assert_true(taken.inside.ns[DLP_ST_PIPE] == job_ns(7.56));
	assert_true(taken.outside.ns[DLP_ST_RUN] == job_ns(4.44));
	assert_int_equal(taken.system_from.cpus, 4);
	assert_true(taken.system_to.idle_ns == 24 * SECOND);
	assert_true(taken.others_valid);
	assert_int_equal(taken.others_ns, 88);
	assert_int_equal(taken.loader_cnt, 2);
	assert_memory_equal(&taken.loader[0], &job.loader[0].sums, sizeof(taken.loader[0]));
	assert_int_equal(taken.loader[1].boot_ns, 77);
	/* nothing was told of other processes: not that they used no CPU time */
	job.model.system.others_ns = 0;
	dlp_sums_take(&job.model, &taken);
	assert_false(taken.others_valid);
}

/* Threads of workers beside their main threads, living and ended ones, in the window. */
static void test_pool(void **state)
{
	struct dlp_thread *thread = &job.thread[JOB_WORKERS];
	struct dlp_sums taken;

	(void)state;
	dlp_sums_take(&job.model, &taken);
	assert_int_equal(taken.pool.ns[DLP_ST_RUN], 0);
	job.model.folded.pool.ns[DLP_ST_RUN] = 5;
	*thread = (struct dlp_thread){ .tid = 9, .tgid = JOB_PID + 1, .base_set = true };
	thread->base.ns[DLP_ST_RUN] = 100;
	thread->clock.ns[DLP_ST_RUN] = 130;
	thread->clock.ns[DLP_ST_LOCK] = 7;
	dlp_sums_take(&job.model, &taken);
	assert_int_equal(taken.pool.ns[DLP_ST_RUN], 35);
	assert_int_equal(taken.pool.ns[DLP_ST_LOCK], 7);
	/* when the window began its clock was not known */
	thread->base_set = false;
	dlp_sums_take(&job.model, &taken);
	assert_int_equal(taken.pool.ns[DLP_ST_RUN], 5);
	/* a main thread, or one of the trainer's */
	thread->base_set = thread->main = true;
	dlp_sums_take(&job.model, &taken);
	assert_int_equal(taken.pool.ns[DLP_ST_RUN], 5);
	thread->main = false;
	thread->tgid = JOB_PID;
	dlp_sums_take(&job.model, &taken);
	assert_int_equal(taken.pool.ns[DLP_ST_RUN], 5);
}

/* Each member of a loader's sums has another value, and grows by another amount. */
static void number_words(struct dlp_loader_sums *sums, uint64_t first, uint64_t step)
{
	uint64_t *word = (uint64_t *)sums;

	for (size_t i = 0; i < WORDS; i++)
		word[i] = first + i * step;
}

static void test_since(void **state)
{
	static struct dlp_sums then, now;
	const uint64_t *word = (const uint64_t *)&now.loader[0];

	(void)state;
	number_words(&job.loader[0].sums, 1000, 1);
	dlp_sums_take(&job.model, &then);
	job.model.end_ns += 5 * SECOND;
	job.model.exposed_ns += 10;
	job.model.getnext_cnt += 11;
	job.model.main_inside.ns[DLP_ST_DISK] += 12;
	job.model.main_outside.ns[DLP_ST_RUN] += 13;
	job.model.folded.pool.ns[DLP_ST_NET] += 14;
	job.model.system.others_all.used_ns += 15;
	job.model.system.last.busy_ns += 16;
	number_words(&job.loader[0].sums, 1000 + 20, 3);
	/* one that was made since then */
	job.loader[1] = job.loader[0];
	job.loader[1].id = 2;
	number_words(&job.loader[1].sums, 500, 1);
	job.model.loader_cnt = 2;
	dlp_sums_take(&job.model, &now);
	dlp_sums_since(&now, &then);
	assert_true(now.from_ns == then.to_ns && now.to_ns == then.to_ns + 5 * SECOND);
	assert_int_equal(now.exposed_ns, 10);
	assert_int_equal(now.calls, 11);
	assert_int_equal(now.inside.ns[DLP_ST_DISK], 12);
	assert_int_equal(now.inside.ns[DLP_ST_PIPE], 0);
	assert_int_equal(now.outside.ns[DLP_ST_RUN], 13);
	assert_int_equal(now.pool.ns[DLP_ST_NET], 14);
	assert_int_equal(now.others_ns, 15);
	assert_int_equal(now.system_to.busy_ns - now.system_from.busy_ns, 16);
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(word[i], 20 + 2 * i);
	assert_memory_equal(&now.loader[1], &job.loader[1].sums, sizeof(now.loader[1]));
}

/* Clocks of different reads may differ: what went back is nothing, not 2^64. */
static void test_never_back(void **state)
{
	static struct dlp_sums then, now;
	const uint64_t *word = (const uint64_t *)&now.loader[0];

	(void)state;
	number_words(&job.loader[0].sums, 1000, 1);
	dlp_sums_take(&job.model, &then);
	job.model.exposed_ns--;
	job.model.getnext_cnt--;
	job.model.main_inside.ns[DLP_ST_PIPE]--;
	number_words(&job.loader[0].sums, 999, 1);
	dlp_sums_take(&job.model, &now);
	dlp_sums_since(&now, &then);
	assert_int_equal(now.exposed_ns, 0);
	assert_int_equal(now.calls, 0);
	assert_int_equal(now.inside.ns[DLP_ST_PIPE], 0);
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(word[i], 0);
}

static void test_add(void **state)
{
	struct dlp_loader_sums a, b;
	const uint64_t *word = (const uint64_t *)&a;

	(void)state;
	number_words(&a, 5, 2);
	number_words(&b, 10, 3);
	dlp_loader_sums_add(&a, &b);
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(word[i], 15 + 5 * i);
	assert_int_equal(a.calls, 15);
	assert_int_equal(a.barren_cnt, 15 + 5 * (WORDS - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_take, setup),
		cmocka_unit_test_setup(test_pool, setup),
		cmocka_unit_test_setup(test_since, setup),
		cmocka_unit_test_setup(test_never_back, setup),
		cmocka_unit_test(test_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
