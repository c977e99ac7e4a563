/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verdicts: whether data loading is the bottleneck, of what time, of which loader, how sure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verdict_check.h"

static void test_plain(void **state)
{
	(void)state;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_near(verdict.exposed_wait_ratio, 0.63);
	assert_near(verdict.startup_ratio, 0);
	assert_string_equal(verdict.text, "Training waits 63 % of the time for data; the workers "
					  "spend 89 % of their production time on a CPU.");
	/* 10.2 s on a CPU and 0.4 s without one, of the 11.4 s that are not idle */
	assert_near(verdict.candidate[0].share, 10.6 / 11.4);
	assert_int_equal(verdict.candidate[1].cause, DLP_CAUSE_PAGE_FAULT_READ);
	assert_near(verdict.candidate[1].share, 0.6 / 11.4);
	assert_int_equal(verdict.candidate_cnt, 2);
	assert_near(evidence("exposed_wait_ratio")->value, 0.63);
	assert_near(evidence("production_share.run")->value, 10.2 / 11.4);
	assert_near(evidence("workers_idle_share")->value, 0.05);
	assert_near(evidence("produce_mean_us")->value, 142000);
	assert_near(evidence("empty_fraction")->value, 0.8);
	assert_null(find_evidence("runnable_threads"));
	assert_int_equal(verdict.advice_cnt, 2);
}

static void test_severity(void **state)
{
	static const struct {
		double ratio;
		enum dlp_bottleneck bottleneck;
		enum dlp_severity severity;
		enum dlp_confidence confidence;
	} cases[] = {
		{ 0.005, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_HIGH },
		{ 0.0399, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_HIGH },
		{ 0.0401, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_MEDIUM },
		{ 0.0499, DLP_BN_NOT_DATA_LOADING, DLP_SEV_NONE, DLP_CONF_MEDIUM },
		{ 0.0501, DLP_BN_DATA_LOADING, DLP_SEV_LOW, DLP_CONF_MEDIUM },
		{ 0.0601, DLP_BN_DATA_LOADING, DLP_SEV_LOW, DLP_CONF_HIGH },
		{ 0.0999, DLP_BN_DATA_LOADING, DLP_SEV_LOW, DLP_CONF_HIGH },
		{ 0.1001, DLP_BN_DATA_LOADING, DLP_SEV_MODERATE, DLP_CONF_HIGH },
		{ 0.1999, DLP_BN_DATA_LOADING, DLP_SEV_MODERATE, DLP_CONF_HIGH },
		{ 0.2001, DLP_BN_DATA_LOADING, DLP_SEV_HIGH, DLP_CONF_HIGH },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		setup(NULL);
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
	assert_says("100 %");
}

/* Starting and ending workers between epochs costs as much as waiting inside GetNext. */
static void test_startup_counts(void **state)
{
	(void)state;
	job_waits(&job, 0.3, DLP_ST_PIPE);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	sums->init_cnt = 3;
	sums->init_ns = job_ns(0.2);
	sums->teardown_ns = job_ns(0.13);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.severity, DLP_SEV_LOW);
	assert_near(verdict.exposed_wait_ratio, 0.025);
	assert_near(verdict.startup_ratio, 0.0275);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 0.33 / 0.63);
	/* half of the time, where GetNext alone would be next to nothing */
	sums->init_ns = job_ns(6);
	judge();
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_cause(DLP_CAUSE_WORKER_STARTUP);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	/* both together cannot be more than there is */
	job_waits(&job, 8, DLP_ST_PIPE);
	judge();
	assert_says("100 %");
}

/* A start that takes longer than the window needs no GetNext to be judged. */
static void test_startup_only(void **state)
{
	(void)state;
	job_waits(&job, 0, DLP_ST_PIPE);
	job.model.getnext_cnt = 0;
	sums->init_cnt = 1;
	sums->init_ns = job_ns(0.99);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	sums->init_ns = job_ns(1.01);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_cause(DLP_CAUSE_WORKER_STARTUP);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_says("8.4 %");
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
	assert_int_equal(verdict.severity, DLP_SEV_NONE);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_says("1.2 %");
	assert_says("idle 83 %");
	assert_int_equal(verdict.candidate_cnt, 0);
	assert_int_equal(verdict.advice_cnt, 1);
	/* nothing known of the workers: that much less is said */
	no_work();
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_null(strstr(verdict.text, "workers"));
	job_without_workers(&job);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_says("1.2 %");
}

static void test_insufficient(void **state)
{
	(void)state;
	job.model.getnext_cnt = 4;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_says("Only 4 batches");
	job.model.getnext_cnt = 1;
	judge();
	assert_says("Only 1 batch ");
	job.model.getnext_cnt = 0;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_says("No batch");
	job.model.getnext_cnt = 5;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	setup(NULL);
	job.model.end_ns = job.model.start_ns + job_ns(BELOW(WINDOW_MIN_S));
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	job.model.end_ns = job.model.start_ns + job_ns(ABOVE(WINDOW_MIN_S));
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
}

static void test_unmeasured(void **state)
{
	(void)state;
	job.model.main_valid = false;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_true(isnan(verdict.exposed_wait_ratio));
	assert_int_equal(verdict.severity, DLP_SEV_NONE);
	assert_says("could not be measured");
	/* training waits, but nothing is known of the workers */
	setup(NULL);
	no_work();
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_says("63 %");
	assert_says("no cause");
	/* it is known, but is in no state that has a name */
	no_work();
	job_workers_spend(&job, DLP_ST_OTHER, 12);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	assert_says("63 %");
	assert_says("no cause");
}

static void test_empty_model(void **state)
{
	static struct dlp_model empty;

	(void)state;
	dlp_diagnose(&empty, NULL, &verdict);
	assert_sound();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_true(isnan(verdict.exposed_wait_ratio));
	assert_true(isnan(verdict.startup_ratio));
	assert_says("No batch");
}

static void test_thin_data(void **state)
{
	(void)state;
	job.model.getnext_cnt = 19;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	job.model.getnext_cnt = 20;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	job.model.end_ns = job.model.start_ns + 3 * SECOND - 1;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	job.model.end_ns++;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
}

static void test_loss_lowers(void **state)
{
	(void)state;
	job.model.counters.value[DLP_CNT_RING_FULL] = 3;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	assert_true(evidence("events_lost")->value == 3);
	assert_non_null(strstr(evidence("events_lost")->text, "ring_full: 3"));
	/* of several reasons the largest is named */
	job.model.counters.value[DLP_CNT_LABELS_FULL] = 2;
	judge();
	assert_non_null(strstr(evidence("events_lost")->text, "ring_full: 3"));
	job.model.counters.value[DLP_CNT_LABELS_FULL] = 4;
	judge();
	assert_non_null(strstr(evidence("events_lost")->text, "labels_full: 4"));
	job.model.counters.value[DLP_CNT_LABELS_FULL] = 0;
	setup(NULL);
	job.model.counters.value[DLP_CNT_SYSCALL_SEEN] = 100000;
	job.model.counters.value[DLP_CNT_SCOPE_UNPAIRED] = 1;
	judge();
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
}

/* The more of the wait a cause leaves unexplained, the less sure it is. */
static void test_rivals(void **state)
{
	static const struct {
		double disk_s; /* of 12; the rest is computing */
		enum dlp_cause cause;
		enum dlp_confidence confidence;
	} cases[] = {
		{ 4.4, DLP_CAUSE_WORKER_CPU, DLP_CONF_HIGH },
		{ 4.6, DLP_CAUSE_WORKER_CPU, DLP_CONF_MEDIUM },
		{ 5.4, DLP_CAUSE_WORKER_CPU, DLP_CONF_MEDIUM },
		{ 5.6, DLP_CAUSE_WORKER_CPU, DLP_CONF_LOW },
		{ 6.1, DLP_CAUSE_DISK_READ, DLP_CONF_LOW },
		{ 6.6, DLP_CAUSE_DISK_READ, DLP_CONF_MEDIUM },
		{ 7.6, DLP_CAUSE_DISK_READ, DLP_CONF_HIGH },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		work_in(DLP_ST_DISK, cases[i].disk_s);
		judge();
		assert_cause(cases[i].cause);
		assert_int_equal(verdict.confidence, cases[i].confidence);
		assert_near(share(DLP_CAUSE_DISK_READ), cases[i].disk_s / 12);
		assert_near(share(DLP_CAUSE_WORKER_CPU), 1 - cases[i].disk_s / 12);
	}
	/* what cannot be named cannot be blamed, but it takes the certainty away */
	no_work();
	job_workers_spend(&job, DLP_ST_OTHER, 7);
	job_workers_spend(&job, DLP_ST_SLEEP, 5);
	judge();
	assert_cause(DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	/* three of a size: none explains most of it */
	no_work();
	job_workers_spend(&job, DLP_ST_SLEEP, 5);
	job_workers_spend(&job, DLP_ST_DISK, 3.5);
	job_workers_spend(&job, DLP_ST_NET, 3.5);
	judge();
	assert_cause(DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	/* and four of them, the first of which explains a third: most of it would stay */
	no_work();
	job_workers_spend(&job, DLP_ST_SLEEP, 4.1);
	job_workers_spend(&job, DLP_ST_DISK, 2.3);
	job_workers_spend(&job, DLP_ST_NET, 2.8);
	job_workers_spend(&job, DLP_ST_LOCK, 2.8);
	judge();
	assert_cause(DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	/* too small to stand in the list */
	work_in(DLP_ST_DISK, 12 * BELOW(CANDIDATE));
	judge();
	assert_int_equal(verdict.candidate_cnt, 1);
	work_in(DLP_ST_DISK, 12 * ABOVE(CANDIDATE));
	judge();
	assert_int_equal(verdict.candidate_cnt, 2);
}

/* The job reads from a disk for most of the window, and computes in the last seconds of it. */
static void test_since(void **state)
{
	struct dlp_model *model = &job.model;
	struct dlp_sums then;

	(void)state;
	job_waits(&job, 6, DLP_ST_PIPE);
	work_in(DLP_ST_DISK, 9);
	dlp_sums_take(model, &then);
	model->end_ns += 5 * SECOND;
	model->getnext_cnt += 60;
	sums->calls += 60;
	sums->batches += 60;
	model->exposed_ns += job_ns(1.5);
	sums->getnext_ns += job_ns(1.5);
	sums->produce_ns += job_ns(1.5);
	sums->made.ns[DLP_ST_RUN] += 10 * SECOND;
	judge_since(&then);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_near(verdict.exposed_wait_ratio, 0.3);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 1);
	assert_says("30 %");
	assert_near(evidence("exposed_wait_ratio")->value, 0.3);
	/* the whole of it is a mixture: 18 s of 34 read, 16 compute */
	judge();
	assert_cause(DLP_CAUSE_DISK_READ);
	assert_near(verdict.exposed_wait_ratio, 7.5 / 17);
	assert_near(share(DLP_CAUSE_DISK_READ), 18.0 / 34);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	/* a live line says something of fewer calls, but is not sure */
	model->getnext_cnt = then.calls + (uint64_t)LIMIT(CALLS_LIVE);
	judge_since(&then);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
	model->getnext_cnt--;
	judge_since(&then);
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	/* nothing happened since */
	dlp_sums_take(model, &then);
	model->end_ns += 5 * SECOND;
	judge_since(&then);
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	/* and no time has passed at all */
	dlp_sums_take(model, &then);
	judge_since(&then);
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
}

/* The call under way is no loader's yet; what it waits for is made by whoever makes batches. */
static void test_unfinished_call(void **state)
{
	(void)state;
	job_waits(&job, 4, DLP_ST_PIPE);
	job_instead(&job, &sums->boot_ns, 4);
	judge();
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 1);
	job.model.exposed_ns += job_ns(6);
	judge();
	assert_near(verdict.exposed_wait_ratio, 10.0 / 12);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 0.4);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 0.6 * 10.6 / 11.4);
	judge_loader(0);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 1);
}

/* A loader of another thread (an evaluator, say) is not what training waits for. */
static void test_other_threads_loader(void **state)
{
	(void)state;
	second_loader(10);
	job.model.exposed_ns = sums->getnext_ns;
	job.loader[1].tid = JOB_PID + 100;
	job.loader[1].sums.made = (struct dlp_clock){ .ns[DLP_ST_DISK] = 100 * SECOND };
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_DISK_READ), 0);
	job.loader[1].tid = JOB_PID;
	judge();
	assert_cause(DLP_CAUSE_DISK_READ);
}

static void test_each_loader(void **state)
{
	(void)state;
	second_loader(0.5);
	job.loader[1].sums.made = (struct dlp_clock){ .ns[DLP_ST_DISK] = 12 * SECOND };
	judge_loader(0);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(verdict.exposed_wait_ratio, 0.63);
	assert_near(verdict.candidate[0].share, 10.6 / 11.4);
	judge_loader(1);
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_cause(DLP_CAUSE_DISK_READ);
	assert_near(verdict.exposed_wait_ratio, 0.315);
	assert_near(verdict.candidate[0].share, 1);
	assert_says("32 %");
	/* the job's verdict is of both */
	judge();
	assert_near(verdict.exposed_wait_ratio, 0.945);
	assert_near(share(DLP_CAUSE_DISK_READ), 12 / 34.8);
	/* a third of its time goes into starting: the other's waits are not its own */
	job.loader[1].sums.boot_ns = job_ns(1.26);
	job.loader[1].sums.produce_ns = job_ns(2.52);
	judge_loader(1);
	assert_near(share(DLP_CAUSE_DISK_READ), 2.0 / 3);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 1.0 / 3);
	/* one that costs nothing, and one that was used too little */
	memset(&job.loader[1].sums, 0, sizeof(job.loader[1].sums));
	job.loader[1].sums.calls = 40;
	judge_loader(1);
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	job.loader[1].sums.calls = 2;
	judge_loader(1);
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	/* a worker's death is the job's matter, not one loader's */
	job.worker[1].died_ns = job.model.end_ns - SECOND;
	job.worker[1].exit_code = 9;
	job.worker[1].unexpected = true;
	judge_loader(0);
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_STALLED);
}

/* num_workers=0 for validation beside a training loader with workers, on one thread. */
static void test_both_kinds(void **state)
{
	struct dlp_loader_sums *second = &job.loader[1].sums;

	(void)state;
	second_loader(0);
	job.loader[1].num_workers = 0;
	second->calls = 40;
	second->getnext_ns = job_ns(2.52);
	second->inside = (struct dlp_clock){ .ns[DLP_ST_RUN] = second->getnext_ns };
	job.model.exposed_ns += second->getnext_ns;
	job.model.main_inside.ns[DLP_ST_RUN] += second->getnext_ns;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_near(verdict.exposed_wait_ratio, 0.84);
	/* 7.56 of the 10.08 s are waits for workers, whose split is known */
	assert_near(share(DLP_CAUSE_WORKER_CPU), 0.75 * 10.6 / 11.4);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0.25);
	judge_loader(1);
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 1);
	assert_says("num_workers=0");
	/* the other way round */
	second->getnext_ns = second->inside.ns[DLP_ST_RUN] = job_ns(8);
	job_waits(&job, 2, DLP_ST_PIPE);
	job.model.exposed_ns += second->getnext_ns;
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0.8);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 0.2 * 10.6 / 11.4);
	judge_loader(0);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 10.6 / 11.4);
	/* what starts workers is the other kind: these are its times */
	assert_null(find_evidence("startup_ratio"));
	sums->init_cnt = 3;
	sums->init_ns = job_ns(1.5);
	job_instead(&job, &sums->transfer_ns, 1);
	judge();
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(evidence("startup_ratio")->value, 1.5 / 12);
	assert_non_null(strstr(evidence("startup_ratio")->text, "3 times workers were started (1.50 s"));
	assert_true(share(DLP_CAUSE_BATCH_TRANSFER) > LIMIT(CANDIDATE));
	assert_null(find_evidence("transfer_ms_per_batch"));
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
		cmocka_unit_test_setup(test_plain, setup),
		cmocka_unit_test_setup(test_severity, setup),
		cmocka_unit_test_setup(test_startup_counts, setup),
		cmocka_unit_test_setup(test_startup_only, setup),
		cmocka_unit_test_setup(test_none, setup),
		cmocka_unit_test_setup(test_insufficient, setup),
		cmocka_unit_test_setup(test_unmeasured, setup),
		cmocka_unit_test_setup(test_empty_model, setup),
		cmocka_unit_test_setup(test_thin_data, setup),
		cmocka_unit_test_setup(test_loss_lowers, setup),
		cmocka_unit_test_setup(test_rivals, setup),
		cmocka_unit_test_setup(test_since, setup),
		cmocka_unit_test_setup(test_unfinished_call, setup),
		cmocka_unit_test_setup(test_other_threads_loader, setup),
		cmocka_unit_test_setup(test_each_loader, setup),
		cmocka_unit_test_setup(test_both_kinds, setup),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
