/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Runnable without a CPU: the quota, the mask, the neighbours, the thread pools, or just the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verdict_check.h"

static struct dlp_ev_system *const first = &job.model.system.first;
static struct dlp_ev_system *const last = &job.model.system.last;

/* The workers wait for a CPU most of the time. */
static int starved(void **state)
{
	setup(state);
	work_in(DLP_ST_RUNQ, 9);
	return 0;
}

static void throttle(double part)
{
	last->quota_us = 150000;
	last->periods = first->periods + 1000;
	last->throttled_periods = first->throttled_periods + (uint64_t)(1000 * part);
}

/* CPUs that processes outside the job use, on average over the window. */
static void neighbours(double cpus)
{
	job.model.system.others_all.used_ns = job_ns(12 * cpus);
}

/* Seconds in which other threads of the workers ran or wanted to. */
static void pool(double seconds)
{
	job.thread[JOB_WORKERS] = (struct dlp_thread){
		.tid = JOB_PID + 50, .tgid = JOB_PID + 1, .base_set = true,
	};
	job.thread[JOB_WORKERS].clock.ns[DLP_ST_RUN] = job_ns(seconds / 4);
	job.thread[JOB_WORKERS].clock.ns[DLP_ST_RUNQ] = job_ns(seconds * 3 / 4);
}

static void stolen(double part)
{
	last->steal_ns = first->steal_ns + job_ns(48 * part);
	last->idle_ns = first->idle_ns + job_ns(24 - 48 * part);
}

/* Nothing takes the CPUs: the work itself is too much for them. */
static void test_own_work(void **state)
{
	(void)state;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 1);
	assert_says("25 % of their production time on a CPU and 75 % waiting for one");
	/* nor is anything known of the machine: that convicts nobody */
	memset(&job.model.system, 0, sizeof(job.model.system));
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].proc_last.cpus = 0;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 1);
	/* others' time alone, without the number of CPUs it is to be compared with */
	job.model.system.others_ns = JOB_START_NS + 12 * SECOND;
	neighbours(3);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_null(find_evidence("others_cpus"));
}

static void test_quota(void **state)
{
	(void)state;
	throttle(BELOW(THROTTLED));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_non_null(find_evidence("throttled_periods_share"));
	throttle(0.88);
	judge();
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	/* 9 of 12 s without a CPU; what runs on one stays */
	assert_near(share(DLP_CAUSE_CPU_QUOTA), 0.75);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 0.25);
	assert_says("75 % of that for want of a CPU");
	assert_says("1.5 CPUs");
	assert_says("88 %");
	assert_near(evidence("throttled_periods_share")->value, 0.88);
	assert_near(evidence("quota_cpus")->value, 1.5);
	throttle(ABOVE(THROTTLED));
	judge();
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	/* whatever else there is to see: throttled threads are the quota's */
	neighbours(3);
	last->cpus_allowed = 2;
	pool(90);
	judge();
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	/* a large quota is a number as well, and a limit that was lifted is none */
	last->quota_us = 12800000;
	judge();
	assert_says("128 CPUs");
	last->quota_us = 0;
	judge();
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	assert_says("10 % of its periods");
}

static void test_affinity(void **state)
{
	(void)state;
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].proc_last.cpus = 1;
	judge();
	assert_cause(DLP_CAUSE_CPU_AFFINITY);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_near(share(DLP_CAUSE_CPU_AFFINITY), 0.75);
	assert_says("the workers may run on 1 of 4 CPUs only, the trainer on 4");
	assert_near(evidence("worker_cpus")->value, 1);
	last->cpus_allowed = 1;
	judge();
	assert_says("the whole job may run on 1 of 4 CPUs only");
	/* the workers' masks were not read: theirs is the trainer's unless somebody changed it */
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].proc_last.cpus = 0;
	judge();
	assert_cause(DLP_CAUSE_CPU_AFFINITY);
	assert_says("1 of 4 CPUs");
	/* a worker that is none, or had ended before anything was seen of it */
	last->cpus_allowed = 4;
	job.worker[0].proc_last.cpus = 4;
	job.worker[1].proc_last.cpus = 1;
	job.worker[1].proven = false;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	job.worker[1].proven = true;
	judge();
	assert_cause(DLP_CAUSE_CPU_AFFINITY);
	/* nor one of which nothing was seen but that it is gone */
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].proven = false;
	job.worker[1].died_ns = JOB_START_NS;
	judge();
	assert_cause(DLP_CAUSE_CPU_AFFINITY);
	job.worker[1].clock_valid = false;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	job.worker[1].clock_valid = true;
	/* with CPUs enough the mask is no cause, however narrow */
	work_in(DLP_ST_RUN, 12);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_CPU_AFFINITY), 0);
}

/* The batches are made in the training thread: masks of another loader's workers are no matter. */
static void test_affinity_without_workers(void **state)
{
	(void)state;
	job.loader[0].num_workers = 0;
	job_waits(&job, 6, DLP_ST_RUNQ);
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].proc_last.cpus = 1;
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_says("0.0 % of that on a CPU and 100 % waiting for one");
	last->cpus_allowed = 1;
	judge();
	assert_cause(DLP_CAUSE_CPU_AFFINITY);
	assert_says("1 of 4 CPUs");
}

/* With num_workers=0 the time inside GetNext is the production: it counts once. */
static void test_runnable_without_workers(void **state)
{
	(void)state;
	job_without_workers(&job);
	job_waits(&job, 6, DLP_ST_RUN);
	judge();
	assert_null(find_evidence("runnable_threads"));
	last->cpus = last->cpus_allowed = 1;
	judge();
	assert_null(find_evidence("runnable_threads"));
	job.model.main_outside.ns[DLP_ST_RUN] += job_ns(0.6);
	judge();
	assert_near(evidence("runnable_threads")->value, 1.05);
	/* beside workers it wants a CPU of its own */
	setup(NULL);
	job_waits(&job, 6, DLP_ST_RUN);
	last->cpus = last->cpus_allowed = 1;
	judge();
	assert_near(evidence("runnable_threads")->value, (2 * 10.6 + 12) / 12);
}

static void test_contention(void **state)
{
	(void)state;
	job.model.system.others[0] =
		(struct dlp_other){ .pid = 31337, .comm = "stress\n", .used_ns = 20 * SECOND };
	job.model.system.others[1] =
		(struct dlp_other){ .pid = 1, .comm = "init", .used_ns = SECOND };
	job.model.system.other_cnt = 2;
	/* of 4 CPUs, and beside the 18 s that the workers lacked one */
	neighbours(4 * BELOW(OTHERS_CPUS));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	neighbours(4 * ABOVE(OTHERS_CPUS));
	judge();
	assert_cause(DLP_CAUSE_CPU_CONTENTION);
	neighbours(1.75);
	judge();
	assert_cause(DLP_CAUSE_CPU_CONTENTION);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_near(share(DLP_CAUSE_CPU_CONTENTION), 0.75);
	assert_says("1.8 of 4 CPUs");
	assert_says("stress?, pid 31337");
	assert_near(evidence("others_cpus")->value, 1.75);
	/* who they are may not be known */
	job.model.system.other_cnt = 0;
	judge();
	assert_says("1.8 of 4 CPUs");
	/* nor what they use */
	job.model.system.others_ns = 0;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
}

/* What others use is little beside what the job lacks: its own threads are in its way. */
static void test_contention_explains(void **state)
{
	const double lack = 18 + 60 * 0.75;

	(void)state;
	pool(60);
	neighbours(lack * BELOW(OTHERS_LACK) / 12);
	judge();
	assert_cause(DLP_CAUSE_CPU_OVERSUBSCRIPTION);
	neighbours(lack * ABOVE(OTHERS_LACK) / 12);
	judge();
	assert_cause(DLP_CAUSE_CPU_CONTENTION);
}

static void test_hypervisor(void **state)
{
	(void)state;
	stolen(BELOW(STEAL));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(evidence("hypervisor_steal_share")->value, BELOW(STEAL));
	stolen(0.3);
	judge();
	assert_cause(DLP_CAUSE_CPU_CONTENTION);
	assert_says("the hypervisor takes 30 %");
	neighbours(2);
	judge();
	assert_says("2.0 of 4 CPUs");
	/* ticks that were not read are none that were stolen */
	neighbours(0);
	last->known &= ~DLP_SYS_CPU;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
}

static void test_oversubscription(void **state)
{
	/* two main threads want a CPU all the time, the training thread for 4.44 s */
	const double own = 24 + 4.44;

	(void)state;
	pool(48 * BELOW(RUNNABLE) - own);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	pool(48 * ABOVE(RUNNABLE) - own);
	judge();
	assert_cause(DLP_CAUSE_CPU_OVERSUBSCRIPTION);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_near(share(DLP_CAUSE_CPU_OVERSUBSCRIPTION), 0.75);
	assert_says("6.1 threads");
	assert_says("4 CPUs");
	assert_says("3.7 of them");
	assert_near(evidence("runnable_threads")->value, 4 * ABOVE(RUNNABLE));
	assert_null(strstr(verdict.advice[0].text, "Raise num_workers"));
	/* as many, but workers: fewer threads in each would change little */
	pool(0);
	work_in(DLP_ST_RUNQ, 9);
	sums->made.ns[DLP_ST_RUNQ] *= 10;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	/* the number of CPUs is not known */
	starved(NULL);
	pool(60);
	last->cpus = last->cpus_allowed = 0;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
}

static void test_pool_share(void **state)
{
	/* all want 24 + 4.44 + own + pool = 90 s of CPU time in 12 s */
	const double all = 90;

	(void)state;
	for (int above = 0; above < 2; above++) {
		double of_pool = all * (above ? ABOVE(POOL_SHARE) : BELOW(POOL_SHARE));

		starved(NULL);
		pool(of_pool);
		sums->made.ns[DLP_ST_RUNQ] += job_ns(all - of_pool - 24 - 4.44);
		judge();
		assert_cause(above ? DLP_CAUSE_CPU_OVERSUBSCRIPTION : DLP_CAUSE_WORKER_CPU);
	}
}

/* The training thread wants a CPU inside GetNext and does not get one. */
static void test_trainer_lacks(void **state)
{
	(void)state;
	setup(NULL);
	job_instead(&job, &sums->lack_ns, 5);
	throttle(0.5);
	judge();
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	assert_near(share(DLP_CAUSE_CPU_QUOTA), (5 + 2.56 * 0.4 / 11.4) / 7.56);
}

/* Data loading is fine, but something takes the CPUs from the training step as well. */
static void test_beside_acquittal(void **state)
{
	struct dlp_clock *outside = &job.model.main_outside;

	(void)state;
	job_waits(&job, 0.1, DLP_ST_PIPE);
	throttle(0.5);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_int_equal(verdict.candidate_cnt, 0);
	outside->ns[DLP_ST_RUNQ] = job_ns(12 * BELOW(TRAINING_LACK));
	outside->ns[DLP_ST_RUN] -= outside->ns[DLP_ST_RUNQ];
	judge();
	assert_int_equal(verdict.candidate_cnt, 0);
	outside->ns[DLP_ST_RUNQ] = job_ns(12 * ABOVE(TRAINING_LACK));
	judge();
	assert_int_equal(verdict.candidate_cnt, 1);
	assert_near(share(DLP_CAUSE_CPU_QUOTA), ABOVE(TRAINING_LACK));
	/* its own work is nobody's fault */
	throttle(0);
	judge();
	assert_int_equal(verdict.candidate_cnt, 0);
}

/* The neighbour came in mid-window: the last seconds show it, the whole does as well. */
static void test_since(void **state)
{
	struct dlp_sums then;

	(void)state;
	setup(NULL);
	work_in(DLP_ST_RUNQ, 1);
	throttle(0.05);
	dlp_sums_take(&job.model, &then);
	job.model.end_ns += 5 * SECOND;
	job.model.getnext_cnt += 60;
	job.model.exposed_ns += 4 * SECOND;
	sums->getnext_ns += 4 * SECOND;
	sums->produce_ns += 4 * SECOND;
	sums->made.ns[DLP_ST_RUNQ] += 8 * SECOND;
	sums->made.ns[DLP_ST_RUN] += 2 * SECOND;
	last->periods += 50;
	last->throttled_periods += 2;
	job.model.system.others_ns = job.model.end_ns;
	neighbours(1.5);
	judge_since(&then);
	/* 18 s in 5 s: the figures of the window are told apart from those of the interval */
	assert_cause(DLP_CAUSE_CPU_CONTENTION);
	assert_near(share(DLP_CAUSE_CPU_CONTENTION), 0.8);
	assert_says("3.6 of 4 CPUs");
	last->throttled_periods += 20;
	judge_since(&then);
	assert_cause(DLP_CAUSE_CPU_QUOTA);
	assert_says("44 %");
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_CPU_CONTENTION), 10.0 / 34);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_own_work, starved),
		cmocka_unit_test_setup(test_quota, starved),
		cmocka_unit_test_setup(test_affinity, starved),
		cmocka_unit_test_setup(test_affinity_without_workers, starved),
		cmocka_unit_test_setup(test_runnable_without_workers, setup),
		cmocka_unit_test_setup(test_contention, starved),
		cmocka_unit_test_setup(test_contention_explains, starved),
		cmocka_unit_test_setup(test_hypervisor, starved),
		cmocka_unit_test_setup(test_oversubscription, starved),
		cmocka_unit_test_setup(test_pool_share, starved),
		cmocka_unit_test_setup(test_trainer_lacks, setup),
		cmocka_unit_test_setup(test_beside_acquittal, setup),
		cmocka_unit_test_setup(test_since, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
