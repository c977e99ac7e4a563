/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verdicts on jobs with a loader of their own: one whose scope is named with --getnext, or none is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verdict_check.h"

/* It trains, but no batch is seen: there is another loader than PyTorch's. */
static void test_fed_elsewhere(void **state)
{
	struct dlp_stage stages[] = {
		{ .label = "Optimizer.zero_grad#SGD.zero_grad", .sum.cnt = 100 },
		{ .label = "Optimizer.step#SGD.step", .sum.cnt = 6 },
		{ .label = "Optimizer.step#Adam.step", .sum.cnt = 3 },
		{ .label = "Optimizer.step#SGD.step", .worker = true, .sum.cnt = 100 },
	};

	(void)state;
	job_waits(&job, 0, DLP_ST_PIPE);
	job.model.getnext_cnt = 0;
	job.model.loader_cnt = 0;
	job.model.stages = stages;
	job.model.stage_cnt = DLP_ARRAY_SIZE(stages);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_says("No batch");
	stages[1].sum.cnt++;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_says("10 steps");
	assert_says("--getnext");
	/* all of it on a screen of 80 columns, which has two lines for it */
	assert_true(strlen(verdict.text) < 150);
	/* the wait for a first batch is none of that */
	job.model.loader_cnt = 1;
	sums->calls = 0;
	judge();
	assert_says("No batch");
}

static void named_loader(unsigned int state, double seconds, double pipe_seconds)
{
	struct dlp_clock inside = { .ns[DLP_ST_PIPE] = job_ns(pipe_seconds) };

	inside.ns[state] += job_ns(seconds);
	job.loader[0].named = true;
	job.loader[0].num_workers = -1;
	job_waits(&job, seconds + pipe_seconds, DLP_ST_PIPE);
	job.loader[0].getnext_split = sums->inside = job.model.main_inside = inside;
	if (state == DLP_ST_RUN)
		job_instead(&job, &sums->own_ns, seconds);
	if (state == DLP_ST_GIL)
		job_instead(&job, &sums->gil_ns, seconds);
}

/* Of the job's own, as its scope was named: the training thread may read or sleep in it itself. */
static void test_named(void **state)
{
	static const struct {
		unsigned int state;
		enum dlp_cause cause;
	} own[] = {
		{ DLP_ST_DISK, DLP_CAUSE_DISK_READ },	    { DLP_ST_FAULT, DLP_CAUSE_PAGE_FAULT_READ },
		{ DLP_ST_FS, DLP_CAUSE_FILESYSTEM_WAIT }, { DLP_ST_NET, DLP_CAUSE_NETWORK_WAIT },
		{ DLP_ST_SLEEP, DLP_CAUSE_SLEEP },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(own); i++) {
		work_in(DLP_ST_RUN, 12);
		named_loader(own[i].state, 4, 2);
		judge();
		assert_cause(own[i].cause);
		assert_int_equal(verdict.where, DLP_WHERE_MAIN);
		assert_says("67 % of that the training thread itself is");
		/* what it waits for is made by the workers that are known */
		assert_near(share(DLP_CAUSE_WORKER_CPU), 2.0 / 6);
		named_loader(own[i].state, 2, 4);
		judge();
		assert_cause(DLP_CAUSE_WORKER_CPU);
		assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
		/* blocked in a DataLoader it waits for workers, however that shows */
		named_loader(own[i].state, 4, 2);
		job.loader[0].named = false;
		judge();
		assert_cause(DLP_CAUSE_WORKER_CPU);
	}
	/* both do the same: where is where most of it is */
	work_in(DLP_ST_DISK, 12);
	named_loader(DLP_ST_DISK, 2, 4);
	judge();
	assert_cause(DLP_CAUSE_DISK_READ);
	assert_near(share(DLP_CAUSE_DISK_READ), 1);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_says("the workers spend");
	named_loader(DLP_ST_DISK, 4, 2);
	judge();
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_DISK_READ), 1);
}

/* A loader of torch's without workers costs more: the other one's waits are told apart all the same. */
static void test_named_other_kind(void **state)
{
	struct dlp_loader_sums *second = &job.loader[1].sums;

	(void)state;
	named_loader(DLP_ST_SLEEP, 3, 1);
	second_loader(0);
	job.loader[1].named = false;
	job.loader[1].num_workers = 0;
	second->calls = 40;
	second->getnext_ns = second->inside.ns[DLP_ST_RUN] = job_ns(6);
	job.model.exposed_ns += second->getnext_ns;
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0.6);
	assert_near(share(DLP_CAUSE_SLEEP), 0.3);
}

/* It waits for threads of the job's own: nothing is known of what these do. */
static void test_named_waits(void **state)
{
	static const unsigned int waits[] = { DLP_ST_LOCK, DLP_ST_PIPE, DLP_ST_IDLE, DLP_ST_OTHER };

	(void)state;
	job_without_workers(&job);
	no_work();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(waits); i++) {
		named_loader(waits[i], 6, 0);
		judge();
		assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
		assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	}
	named_loader(DLP_ST_GIL, 6, 0);
	judge();
	assert_cause(DLP_CAUSE_GIL_CONTENTION);
	named_loader(DLP_ST_RUN, 6, 0);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_null(strstr(verdict.text, "num_workers"));
	assert_null(strstr(verdict.advice[0].text, "num_workers"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_fed_elsewhere, setup),
		cmocka_unit_test_setup(test_named, setup),
		cmocka_unit_test_setup(test_named_other_kind, setup),
		cmocka_unit_test_setup(test_named_waits, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
