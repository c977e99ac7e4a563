/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The diagnosis on hand-built models: every plain cause, both sides of thresholds, thin data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "diagnose.h"
#include "job_fixture.h"

static struct job job;
static struct dlp_verdict verdict;

static int setup(void **state)
{
	(void)state;
	job_init(&job);
	return 0;
}

/* What holds for every verdict, whatever it says. */
static void judge(void)
{
	double sum = 0;

	memset(&verdict, 0xa5, sizeof(verdict));
	dlp_diagnose(&job.model, &verdict);
	assert_true(strlen(verdict.text) > 20);
	assert_true(strlen(verdict.text) < sizeof(verdict.text) - 1);
	assert_int_equal(verdict.text[strlen(verdict.text) - 1], '.');
	assert_true(verdict.evidence_cnt <= DLP_EVIDENCE_MAX);
	assert_true(verdict.advice_cnt <= DLP_ADVICE_MAX);
	for (size_t i = 0; i < verdict.evidence_cnt; i++) {
		assert_non_null(verdict.evidence[i].metric);
		assert_non_null(verdict.evidence[i].unit);
		assert_true(isfinite(verdict.evidence[i].value));
		assert_true(strlen(verdict.evidence[i].text) <
			    sizeof(verdict.evidence[i].text) - 1);
	}
	for (size_t i = 0; i < verdict.advice_cnt; i++) {
		assert_non_null(verdict.advice[i].text);
		assert_non_null(verdict.advice[i].counter_check);
	}
	for (size_t i = 0; i < verdict.candidate_cnt; i++) {
		sum += verdict.candidate[i].share;
		assert_true(!i || verdict.candidate[i].share <= verdict.candidate[i - 1].share);
	}
	assert_true(sum <= 1.0000001);
	assert_true(isnan(verdict.startup_ratio));
	assert_true(verdict.confidence == DLP_CONF_LOW ||
		    verdict.bottleneck != DLP_BN_INSUFFICIENT);
}

static void no_work(void)
{
	for (size_t i = 0; i < JOB_WORKERS; i++)
		memset(&job.worker[i].clock, 0, sizeof(job.worker[i].clock));
}

static void assert_says(const char *part)
{
	if (!strstr(verdict.text, part))
		fail_msg("no '%s' in: %s", part, verdict.text);
}

static const struct dlp_evidence *evidence(const char *metric)
{
	for (size_t i = 0; i < verdict.evidence_cnt; i++) {
		if (!strcmp(verdict.evidence[i].metric, metric))
			return &verdict.evidence[i];
	}
	fail_msg("no evidence '%s'", metric);
	return NULL;
}

static void test_worker_cpu(void **state)
{
	(void)state;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_true(fabs(verdict.exposed_wait_ratio - 0.63) < 1e-9);
	assert_string_equal(verdict.text,
			    "Training waits 63 % of the time for data; the workers spend "
			    "89 % of their production time on a CPU.");
	assert_int_equal(verdict.candidate[0].cause, DLP_CAUSE_WORKER_CPU);
	/* 10.2 of 12 s: the rest of the exposed wait would stay */
	assert_true(fabs(verdict.candidate[0].share - 0.85) < 1e-6);
	assert_true(fabs(evidence("production_share.run")->value - 10.2 / 11.4) < 1e-6);
	assert_true(fabs(evidence("workers_idle_share")->value - 0.05) < 1e-6);
	assert_int_equal(verdict.advice_cnt, 2);
}

static void test_each_state(void **state)
{
	static const struct {
		unsigned int state;
		enum dlp_cause cause;
		bool plain;
		const char *part;
	} cases[] = {
		{ DLP_ST_RUN, DLP_CAUSE_WORKER_CPU, true, "on a CPU" },
		{ DLP_ST_RUNQ, DLP_CAUSE_CPU_CONTENTION, false, "waiting for a CPU" },
		{ DLP_ST_DISK, DLP_CAUSE_DISK_READ, true, "reads from a disk" },
		{ DLP_ST_FAULT, DLP_CAUSE_PAGE_FAULT_READ, true, "page faults" },
		{ DLP_ST_FS, DLP_CAUSE_FILESYSTEM_WAIT, false, "file system" },
		{ DLP_ST_NET, DLP_CAUSE_NETWORK_WAIT, false, "network" },
		{ DLP_ST_LOCK, DLP_CAUSE_LOCK_WAIT, false, "locks" },
		{ DLP_ST_GIL, DLP_CAUSE_GIL_CONTENTION, false, "interpreter lock" },
		{ DLP_ST_PIPE, DLP_CAUSE_BATCH_TRANSFER, false, "pipes" },
		{ DLP_ST_SLEEP, DLP_CAUSE_SLEEP, true, "sleeps" },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		job_init(&job);
		no_work();
		job_workers_spend(&job, DLP_ST_OTHER, 2);
		job_workers_spend(&job, cases[i].state, 9);
		job_workers_spend(&job, DLP_ST_IDLE, 1);
		judge();
		assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
		assert_int_equal(verdict.cause, cases[i].cause);
		assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
		assert_int_equal(verdict.confidence, cases[i].plain ? DLP_CONF_HIGH : DLP_CONF_LOW);
		assert_says("63 %");
		assert_says("82 %");
		assert_says(cases[i].part);
		assert_true(verdict.advice_cnt > 0);
	}
}

static void test_severity_edges(void **state)
{
	static const struct {
		double ratio;
		enum dlp_bottleneck bottleneck;
		enum dlp_severity severity;
		enum dlp_confidence confidence;
	} cases[] = {
		{ 0.005, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_HIGH },
		{ 0.045, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_MEDIUM },
		{ 0.0499, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_MEDIUM },
		{ 0.0501, DLP_BN_DATA_LOADING, DLP_SEV_LOW, DLP_CONF_MEDIUM },
		{ 0.0999, DLP_BN_DATA_LOADING, DLP_SEV_LOW, DLP_CONF_HIGH },
		{ 0.1001, DLP_BN_DATA_LOADING, DLP_SEV_MODERATE, DLP_CONF_HIGH },
		{ 0.1999, DLP_BN_DATA_LOADING, DLP_SEV_MODERATE, DLP_CONF_HIGH },
		{ 0.2001, DLP_BN_DATA_LOADING, DLP_SEV_HIGH, DLP_CONF_HIGH },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		job_init(&job);
		job_waits(&job, cases[i].ratio * 12, DLP_ST_PIPE);
		judge();
		assert_int_equal(verdict.bottleneck, cases[i].bottleneck);
		assert_int_equal(verdict.severity, cases[i].severity);
		assert_int_equal(verdict.confidence, cases[i].confidence);
	}
	/* clock reads at the window's edges may differ by microseconds */
	job_waits(&job, 12.001, DLP_ST_PIPE);
	judge();
	assert_true(verdict.exposed_wait_ratio == 1);
}

static void test_none(void **state)
{
	(void)state;
	job_waits(&job, 0.144, DLP_ST_PIPE);
	no_work();
	job_workers_spend(&job, DLP_ST_RUN, 2);
	job_workers_spend(&job, DLP_ST_IDLE, 10);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	assert_int_equal(verdict.severity, DLP_SEV_NONE);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_says("1.2 %");
	assert_says("idle 83 %");
	assert_int_equal(verdict.candidate_cnt, 0);
	job_without_workers(&job);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_says("1.2 %");
}

static void test_main_makes(void **state)
{
	(void)state;
	job_without_workers(&job);
	job_waits(&job, 6, DLP_ST_RUN);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_says("num_workers=0");
	assert_says("50 %");
	job_waits(&job, 6, DLP_ST_DISK);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	/* the number of workers may be unknown where the queue is not seen: the class tells */
	job.loader[0].num_workers = -1;
	job_waits(&job, 6, DLP_ST_SLEEP);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
}

static void test_loader_of_training_thread(void **state)
{
	(void)state;
	/* a loader of another thread (an evaluator, say) is not what training waits for */
	job.loader[1] = job.loader[0];
	job.loader[1].id = 2;
	job.loader[1].tid = JOB_PID + 100;
	job.loader[1].num_workers = 0;
	job.loader[1].getnext.sum_ns *= 10;
	job.model.loader_cnt = 2;
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	job.loader[1].tid = JOB_PID;
	judge();
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
}

static void test_insufficient(void **state)
{
	(void)state;
	job.model.getnext_cnt = 4;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	assert_says("Only 4 batches");
	assert_int_equal(verdict.advice_cnt, 0);
	job.model.getnext_cnt = 0;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_says("No batch");
	job.model.getnext_cnt = 5;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	job_init(&job);
	job.model.end_ns = job.model.start_ns + SECOND - 1;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	job_init(&job);
	job.model.main_valid = false;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_true(isnan(verdict.exposed_wait_ratio));
	assert_int_equal(verdict.severity, DLP_SEV_NONE);
	/* training waits, but nothing is known of the workers */
	job_init(&job);
	job.worker[0].clock_valid = job.worker[1].clock_valid = false;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_says("63 %");
	assert_says("no cause");
}

static void test_empty_model(void **state)
{
	static struct dlp_model empty;

	(void)state;
	dlp_diagnose(&empty, &verdict);
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_true(isnan(verdict.exposed_wait_ratio));
	assert_non_null(strstr(verdict.text, "No batch"));
}

static void test_loss_lowers(void **state)
{
	(void)state;
	job.model.counters.value[DLP_CNT_RING_FULL] = 3;
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	assert_true(evidence("events_lost")->value == 3);
	job_init(&job);
	job.model.counters.value[DLP_CNT_SYSCALL_SEEN] = 100000;
	job.model.counters.value[DLP_CNT_SCOPE_UNPAIRED] = 1;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
}

static void test_mixtures(void **state)
{
	(void)state;
	no_work();
	job_workers_spend(&job, DLP_ST_RUN, 6.6);
	job_workers_spend(&job, DLP_ST_DISK, 4.8);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	assert_int_equal(verdict.candidate[1].cause, DLP_CAUSE_DISK_READ);
	job_workers_spend(&job, DLP_ST_RUN, 6);
	job_workers_spend(&job, DLP_ST_DISK, 5.9);
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	/* work on the CPU that waits for CPUs: perhaps only short of them */
	no_work();
	job_workers_spend(&job, DLP_ST_RUN, 8.5);
	job_workers_spend(&job, DLP_ST_RUNQ, 3.5);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	/* what cannot be named cannot be blamed, but it takes the certainty away */
	no_work();
	job_workers_spend(&job, DLP_ST_OTHER, 8);
	job_workers_spend(&job, DLP_ST_SLEEP, 4);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
}

static void test_idle_workers(void **state)
{
	(void)state;
	no_work();
	job_workers_spend(&job, DLP_ST_RUN, 8.4);
	job_workers_spend(&job, DLP_ST_IDLE, 3.6);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	job_workers_spend(&job, DLP_ST_RUN, 3.6);
	job_workers_spend(&job, DLP_ST_IDLE, 8.4);
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	assert_says("although the workers are idle 70 %");
	assert_true(fabs(verdict.candidate[0].share - 0.3) < 1e-6);
	/* and the training thread computes inside GetNext */
	job_waits(&job, 7.56, DLP_ST_RUN);
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
}

static void test_generations(void **state)
{
	(void)state;
	/* as many workers as two generations of one: start-up may be the cost, which is not seen */
	job.loader[0].num_workers = 1;
	job.loader[0].iterator_cnt = 2;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
}

static void test_who_counts(void **state)
{
	(void)state;
	/* a forked helper without messages must not drown the workers' split */
	job.worker[1].proven = false;
	memset(&job.worker[1].clock, 0, sizeof(job.worker[1].clock));
	job.worker[1].clock.ns[DLP_ST_SLEEP] = 1000 * SECOND;
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_CPU);
	/* without any message everything that looks like a worker counts */
	job.worker[0].proven = false;
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_SLEEP);
}

/* The training thread sits in a call, the workers in a wait, both for so long. */
static void freeze(double seconds, unsigned int state)
{
	uint64_t since = job.model.end_ns - (uint64_t)(seconds * 1e9);

	job.thread[0].getnext_since_ns = since;
	job.thread[0].state = DLP_ST_PIPE;
	for (size_t i = 1; i <= JOB_WORKERS; i++) {
		job.thread[i].state = state;
		job.thread[i].since_ns = since;
		job.thread[i].syscall = 202;
	}
}

static void test_stalled(void **state)
{
	(void)state;
	freeze(11, DLP_ST_LOCK);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_STALLED);
	assert_int_equal(verdict.cause, DLP_CAUSE_LOCK_WAIT);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	assert_says("11.0 s");
	assert_says("locks");
	assert_true(fabs(evidence("worker_wait_s")->value - 11) < 1e-6);
	assert_non_null(strstr(evidence("worker_wait_s")->text, "4712"));
	freeze(9, DLP_ST_LOCK);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	/* the whole window is in one call */
	job.model.start_ns = job.model.end_ns - 6 * SECOND;
	job.model.getnext_cnt = 0;
	freeze(6, DLP_ST_IDLE);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_STALLED);
	assert_int_equal(verdict.cause, DLP_CAUSE_WORKER_STUCK);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
}

static void test_not_stalled(void **state)
{
	(void)state;
	/* one slow sample: a worker still runs, or moves from wait to wait */
	freeze(11, DLP_ST_LOCK);
	job.thread[2].state = DLP_ST_RUN;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	job.thread[2].state = DLP_ST_DISK;
	job.thread[2].since_ns = job.model.end_ns - DLP_NS_PER_MS;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	/* a long step outside GetNext */
	freeze(11, DLP_ST_IDLE);
	job.thread[0].getnext_since_ns = 0;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	/* nothing known of a worker */
	freeze(11, DLP_ST_LOCK);
	job.model.thread_cnt = 1;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
}

static void test_stuck_since_before(void **state)
{
	(void)state;
	/* attached while it hung already: the call's beginning was never seen */
	freeze(12, DLP_ST_LOCK);
	job.model.main_tid = 0;
	job.model.main_valid = false;
	job.model.getnext_cnt = 0;
	job.model.loader_cnt = 0;
	job.thread[0].getnext_since_ns = 0;
	job.thread[0].clock.ns[DLP_ST_PIPE] = 12 * SECOND;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_STALLED);
	assert_int_equal(verdict.cause, DLP_CAUSE_LOCK_WAIT);
	assert_true(isnan(verdict.exposed_wait_ratio));
	job.thread[0].clock.ns[DLP_ST_RUN] = 6 * SECOND;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
}

static void test_stalled_without_workers(void **state)
{
	(void)state;
	job_without_workers(&job);
	job.thread[0].getnext_since_ns = job.model.end_ns - 11 * SECOND;
	job.thread[0].state = DLP_ST_FS;
	job.thread[0].since_ns = job.thread[0].getnext_since_ns;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_STALLED);
	assert_int_equal(verdict.cause, DLP_CAUSE_FILESYSTEM_WAIT);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	job.thread[0].state = DLP_ST_RUN;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
}

static void test_deaths_and_devices(void **state)
{
	(void)state;
	job.worker[1].died_ns = job.model.end_ns - SECOND;
	job.worker[1].exit_code = 9;
	no_work();
	job_workers_spend(&job, DLP_ST_DISK, 11);
	job.device[0].dev = 259u << 20 | 3;
	job.device[0].reads = 100;
	job.device[0].read_bytes = 100 * 8192;
	dlp_hist_add(&job.device[0].latency, 3 * DLP_NS_PER_MS);
	job.model.device_cnt = 1;
	judge();
	assert_int_equal(verdict.cause, DLP_CAUSE_DISK_READ);
	assert_true(evidence("worker_killed_signal")->value == 9);
	assert_non_null(strstr(evidence("block_read_latency_median_us")->text, "259:3"));
}

static void test_ids(void **state)
{
	(void)state;
	assert_string_equal(dlp_cause_id(DLP_CAUSE_PAGE_FAULT_READ), "page_fault_read");
	assert_string_equal(dlp_cause_id(DLP_CAUSE_STRAGGLER_RANK), "straggler_rank");
	assert_string_equal(dlp_cause_id(DLP_CAUSE_MAX), "unknown");
	assert_string_equal(dlp_bottleneck_id(DLP_BN_STALLED), "stalled");
	assert_string_equal(dlp_severity_id(DLP_SEV_MODERATE), "moderate");
	assert_string_equal(dlp_confidence_id(DLP_CONF_MEDIUM), "medium");
	assert_string_equal(dlp_where_id(DLP_WHERE_SYSTEM), "system");
	assert_string_equal(dlp_where_id(77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_worker_cpu, setup),
		cmocka_unit_test_setup(test_each_state, setup),
		cmocka_unit_test_setup(test_severity_edges, setup),
		cmocka_unit_test_setup(test_none, setup),
		cmocka_unit_test_setup(test_main_makes, setup),
		cmocka_unit_test_setup(test_loader_of_training_thread, setup),
		cmocka_unit_test_setup(test_insufficient, setup),
		cmocka_unit_test(test_empty_model),
		cmocka_unit_test_setup(test_loss_lowers, setup),
		cmocka_unit_test_setup(test_mixtures, setup),
		cmocka_unit_test_setup(test_idle_workers, setup),
		cmocka_unit_test_setup(test_generations, setup),
		cmocka_unit_test_setup(test_who_counts, setup),
		cmocka_unit_test_setup(test_stalled, setup),
		cmocka_unit_test_setup(test_not_stalled, setup),
		cmocka_unit_test_setup(test_stuck_since_before, setup),
		cmocka_unit_test_setup(test_stalled_without_workers, setup),
		cmocka_unit_test_setup(test_deaths_and_devices, setup),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
