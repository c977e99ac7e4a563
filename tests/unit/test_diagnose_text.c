/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every sentence with the longest numbers and names that are plausible: none is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "verdict_check.h"

/* Pids and counts that do not get longer, and a window of eleven days. */
static int large(void **state)
{
	struct dlp_model *model = &job.model;
	uint64_t days_ns = 11 * 86400 * SECOND;

	setup(state);
	model->end_ns = model->start_ns + days_ns;
	model->system.last.cpus = model->system.last.cpus_allowed = 8192;
	model->system.others_ns = model->end_ns;
	model->getnext_cnt = 123456789012;
	model->main_tid = model->trainer_pid = 4194303;
	job.loader[0].tid = job.thread[0].tid = job.thread[0].tgid = 4194303;
	for (uint32_t i = 0; i < JOB_WORKERS; i++) {
		job.worker[i].pid = job.thread[i + 1].tid = job.thread[i + 1].tgid = 4194301 + i;
		job.worker[i].proc_last.cpus = 8192;
	}
	sums->batches = sums->calls = 1234567;
	job_waits(&job, 0.999 * (double)days_ns / 1e9, DLP_ST_PIPE);
	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		sums->made.ns[i] = 0;
	sums->made_cnt = 123456789012;
	sums->made_ns = 5 * days_ns;
	return 0;
}

static void work(unsigned int state, double part)
{
	sums->made.ns[DLP_ST_OTHER] = (uint64_t)((1 - part) * 2 * 11 * 86400e9);
	sums->made.ns[state] = (uint64_t)(part * 2 * 11 * 86400e9);
}

/* Each is judged with iterators that start all the time too, which adds to the sentence. */
static void judge_both(enum dlp_cause cause)
{
	judge();
	assert_cause(cause);
	sums->init_cnt = 1234567;
	sums->init_ns = job_ns(0.06 * 11 * 86400);
	judge();
	assert_cause(cause);
	if (cause != DLP_CAUSE_WORKER_STARTUP)
		assert_says("while iterators start and end");
}

static void test_states(void **state)
{
	static const unsigned int states[] = { DLP_ST_RUN,  DLP_ST_DISK, DLP_ST_FAULT, DLP_ST_FS,
					       DLP_ST_NET,  DLP_ST_LOCK, DLP_ST_GIL,   DLP_ST_PIPE,
					       DLP_ST_SLEEP };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(states); i++) {
		large(NULL);
		work(states[i], 0.666);
		judge();
		assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
		judge_both(verdict.cause);
		/* and where other threads do it for the main threads */
		large(NULL);
		work(DLP_ST_LOCK, 0.666);
		job.thread[JOB_WORKERS].main = false;
		job.thread[JOB_WORKERS].base_set = true;
		job.thread[JOB_WORKERS].clock.ns[states[i]] = sums->made.ns[DLP_ST_LOCK];
		judge();
		judge_both(verdict.cause);
	}
}

static void test_cpus(void **state)
{
	struct dlp_ev_system *last = &job.model.system.last;

	(void)state;
	work(DLP_ST_RUNQ, 0.666);
	last->quota_us = 12345678;
	last->periods = 1000;
	last->throttled_periods = 999;
	judge_both(DLP_CAUSE_CPU_QUOTA);
	last->throttled_periods = 0;
	job.worker[0].proc_last.cpus = 4095;
	judge_both(DLP_CAUSE_CPU_AFFINITY);
	last->cpus_allowed = 4095;
	judge_both(DLP_CAUSE_CPU_AFFINITY);
	last->cpus_allowed = job.worker[0].proc_last.cpus = 8192;
	/* a name of 16 bytes, each of which may become a longer one */
	job.model.system.others[0] = (struct dlp_other){ .pid = 4194303, .used_ns = 1 };
	memset(job.model.system.others[0].comm, '\xc3', 16);
	job.model.system.other_cnt = 1;
	job.model.system.others_all.used_ns = (uint64_t)(8191.9 * 11 * 86400e9);
	judge_both(DLP_CAUSE_CPU_CONTENTION);
	job.model.system.others_all.used_ns = 0;
	job.thread[JOB_WORKERS].main = false;
	job.thread[JOB_WORKERS].base_set = true;
	job.thread[JOB_WORKERS].clock.ns[DLP_ST_RUNQ] = (uint64_t)(12345.6 * 11 * 86400e9);
	judge_both(DLP_CAUSE_CPU_OVERSUBSCRIPTION);
}

static void test_main(void **state)
{
	double wait_s = (double)sums->produce_ns / 1e9;

	(void)state;
	work(DLP_ST_IDLE, 0.333);
	job_instead(&job, &sums->own_ns, wait_s);
	judge_both(DLP_CAUSE_MAIN_PROCESS);
	large(NULL);
	work(DLP_ST_IDLE, 0.333);
	job_instead(&job, &sums->gil_ns, wait_s);
	judge_both(DLP_CAUSE_GIL_CONTENTION);
	large(NULL);
	job_instead(&job, &sums->transfer_ns, wait_s / 3);
	job_instead(&job, &sums->handover_ns, wait_s / 3);
	job_instead(&job, &sums->behind_ns, wait_s / 3);
	sums->message_bytes = sums->batches * (1ull << 40);
	judge_both(DLP_CAUSE_BATCH_TRANSFER);
	large(NULL);
	job_instead(&job, &sums->boot_ns, wait_s);
	judge_both(DLP_CAUSE_WORKER_STARTUP);
	large(NULL);
	job_without_workers(&job);
	memset(&sums->inside, 0, sizeof(sums->inside));
	sums->inside.ns[DLP_ST_FS] = sums->getnext_ns;
	judge_both(DLP_CAUSE_FILESYSTEM_WAIT);
}

static void test_workers(void **state)
{
	(void)state;
	work(DLP_ST_IDLE, 0.333);
	sums->held_ns = sums->produce_ns;
	judge_both(DLP_CAUSE_SLOW_BATCH);
	large(NULL);
	work(DLP_ST_RUN, 0.333);
	sums->barren_cnt = 12345678;
	sums->fruitful_cnt = 1234567;
	judge_both(DLP_CAUSE_IDLE_WORKERS);
	large(NULL);
	work(DLP_ST_RUN, 0.999);
	sums->usage.stime_ns = sums->usage.utime_ns * 999;
	sums->usage.minflt = sums->usage.utime_ns / 810 * 1000;
	judge_both(DLP_CAUSE_MEMORY_PRESSURE);
	assert_says("1235 page faults");
}

static void test_stalls(void **state)
{
	uint64_t since_ns = job.model.end_ns - 900000 * SECOND;

	(void)state;
	job.model.shm_total = 1ull << 46;
	job.model.shm_least = 1ull << 43;
	job.thread[0].getnext_since_ns = since_ns;
	for (size_t i = 0; i <= JOB_WORKERS; i++) {
		job.thread[i].state = DLP_ST_FAULT;
		job.thread[i].since_ns = since_ns;
		job.thread[i].syscall = 451;
		job.thread[i].object = UINT64_MAX;
	}
	judge();
	assert_cause(DLP_CAUSE_SHM_EXHAUSTED);
	assert_says("900000.0 s");
	job.worker[0].died_ns = job.worker[1].died_ns = since_ns;
	job.worker[0].exit_code = SIGBUS;
	job.worker[0].unexpected = true;
	judge();
	assert_cause(DLP_CAUSE_SHM_EXHAUSTED);
	assert_says("killed by signal 7");
	job.worker[0].unexpected = false;
	job.model.error_ns = since_ns;
	job.model.error_pid = 4194303;
	job.thread[0].dead = true;
	job.thread[0].exit_code = 1 << 8;
	judge();
	assert_cause(DLP_CAUSE_SHM_EXHAUSTED);
	assert_says("exception");
	/* num_workers=0 */
	large(NULL);
	job_without_workers(&job);
	job.model.shm_total = 1ull << 46;
	job.thread[0].getnext_since_ns = job.thread[0].since_ns = since_ns;
	job.thread[0].state = DLP_ST_FAULT;
	job.thread[0].syscall = -1;
	judge();
	assert_says("page faults");
}

static void test_fed_elsewhere(void **state)
{
	struct dlp_stage stage = { .label = "Optimizer.step#SGD.step", .sum.cnt = UINT64_MAX };

	(void)state;
	job.model.getnext_cnt = job.model.loader_cnt = 0;
	job.model.stages = &stage;
	job.model.stage_cnt = 1;
	judge();
	assert_says("18446744073709551615 steps");
}

static void test_no_cause(void **state)
{
	(void)state;
	work(DLP_ST_OTHER, 0.5);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	job.model.main_valid = false;
	judge();
	assert_says("123456789012");
	job.model.counters.value[DLP_CNT_RING_FULL] = UINT64_MAX;
	judge();
	assert_non_null(find_evidence("events_lost"));
	job.device[0].dev = UINT32_MAX;
	job.device[0].reads = 123456789012;
	job.device[0].read_bytes = UINT64_MAX;
	dlp_hist_add(&job.device[0].latency, 900 * SECOND);
	job.model.device_cnt = 1;
	job.model.main_valid = true;
	work(DLP_ST_DISK, 0.9);
	judge();
	assert_non_null(find_evidence("block_read_latency_median_us"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_states, large),
		cmocka_unit_test_setup(test_cpus, large),
		cmocka_unit_test_setup(test_main, large),
		cmocka_unit_test_setup(test_workers, large),
		cmocka_unit_test_setup(test_stalls, large),
		cmocka_unit_test_setup(test_fed_elsewhere, large),
		cmocka_unit_test_setup(test_no_cause, large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
