/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The live verdict: steady over a sliding window, and of the present after a change of the job. The job
 * goes on in intervals whose figures are added to the model's sums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job_fixture.h"
#include "live.h"

static struct job job;
static struct dlp_live *live;
static struct dlp_verdict verdict;

/* A fresh job: nothing has happened yet, the window has just opened. */
static int setup(void **state)
{
	struct dlp_model *model = &job.model;

	(void)state;
	job_init(&job);
	memset(&job.loader[0].sums, 0, sizeof(job.loader[0].sums));
	memset(&model->main_inside, 0, sizeof(model->main_inside));
	memset(&model->main_outside, 0, sizeof(model->main_outside));
	model->end_ns = model->start_ns;
	model->exposed_ns = model->getnext_cnt = 0;
	model->system.first.hdr.size = model->system.last.hdr.size = 0;
	assert_int_equal(dlp_live_new(30 * SECOND, SECOND, &live), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dlp_live_free(live);
	return 0;
}

/* A second in which the trainer waits so long, and the workers are in one state all the time. */
static void second(double waits, unsigned int state, uint64_t calls)
{
	struct dlp_loader_sums *sums = &job.loader[0].sums;
	struct dlp_model *model = &job.model;

	model->end_ns += SECOND;
	model->exposed_ns += job_ns(waits);
	model->getnext_cnt += calls;
	model->last_progress_ns = model->end_ns;
	model->last_delivery_ns = model->end_ns;
	model->main_inside.ns[DLP_ST_PIPE] += job_ns(waits);
	model->main_outside.ns[DLP_ST_RUN] += job_ns(1 - waits);
	sums->calls += calls;
	sums->batches += calls;
	sums->getnext_ns += job_ns(waits);
	sums->inside.ns[DLP_ST_PIPE] += job_ns(waits);
	sums->produce_ns += job_ns(waits);
	sums->made.ns[state] += JOB_WORKERS * SECOND;
	sums->made_cnt += calls;
	sums->made_ns += JOB_WORKERS * SECOND;
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock.ns[state] += SECOND;
	dlp_live_verdict(live, model, &verdict);
}

/* At least five batches a second: five seconds are more than enough. */
static void test_first_verdict(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		second(0.6, DLP_ST_DISK, 5);
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
}

/* Half a minute of one thing, then another: the first interval of that already says so. */
static void test_change(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++)
		second(0.6, DLP_ST_DISK, 20);
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
	for (int i = 0; i < 40; i++) {
		second(0.6, DLP_ST_RUN, 20);
		assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
		/* of the time since the change alone */
		assert_true(verdict.candidate_cnt == 1);
	}
	second(0, DLP_ST_IDLE, 20);
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	second(0.6, DLP_ST_NET, 20);
	assert_int_equal(verdict.cause, DLP_CAUSE_NETWORK_WAIT);
}

/* Too few calls for a verdict of their own, but the window has enough. */
static void test_few_calls(void **state)
{
	int known = 0;

	(void)state;
	for (int i = 0; i < 60; i++) {
		second(i % 5 ? 1 : 0.8, DLP_ST_SLEEP, i % 5 == 0);
		known += verdict.bottleneck == DLP_BN_DATA_LOADING;
		/* once it is known it stays known */
		assert_true(known == 0 || verdict.bottleneck == DLP_BN_DATA_LOADING);
	}
	assert_true(known > 30);
	assert_int_equal(verdict.cause, DLP_CAUSE_SLEEP);
}

/* The shares are those of the last 30 s, as many intervals: what was before is forgotten. */
static void test_slides(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		second(0.2, DLP_ST_DISK, 20);
	for (int i = 0; i < 15; i++)
		second(0.4, DLP_ST_DISK, 20);
	assert_true(verdict.exposed_wait_ratio > 0.299 && verdict.exposed_wait_ratio < 0.301);
	for (int i = 0; i < 15; i++)
		second(0.4, DLP_ST_DISK, 20);
	assert_true(verdict.exposed_wait_ratio > 0.399 && verdict.exposed_wait_ratio < 0.401);
}

/* One odd interval that is not sure of itself changes nothing; two alike do. */
static void test_doubt(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		second(0.6, DLP_ST_DISK, 20);
	second(0.6, DLP_ST_NET, 3);
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
	second(0.6, DLP_ST_NET, 3);
	assert_int_equal(verdict.cause, DLP_CAUSE_NETWORK_WAIT);
}

/* A window as short as an interval, and one far longer than readings are kept. */
static void test_bounds(void **state)
{
	(void)state;
	dlp_live_free(live);
	assert_int_equal(dlp_live_new(SECOND / 10, SECOND, &live), 0);
	for (int i = 0; i < 10; i++) {
		second(i % 2 ? 0.6 : 0, i % 2 ? DLP_ST_DISK : DLP_ST_IDLE, 20);
		assert_int_equal(verdict.bottleneck,
				 i % 2 ? DLP_BN_DATA_LOADING : DLP_BN_NOT_DATA_LOADING);
	}
	dlp_live_free(live);
	assert_int_equal(dlp_live_new(UINT64_MAX, SECOND / 10, &live), 0);
	for (int i = 0; i < 300; i++)
		second(0.6, DLP_ST_DISK, 20);
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
	assert_true(verdict.exposed_wait_ratio > 0.599 && verdict.exposed_wait_ratio < 0.601);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_verdict, setup, teardown),
		cmocka_unit_test_setup_teardown(test_change, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
	};

	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
