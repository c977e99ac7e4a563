/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What convicts each cause and what acquits it; those of CPUs and stalls have their own files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verdict_check.h"

/* Where a worker's main thread spends its time is what training waits for. */
static void test_each_state(void **state)
{
	static const struct {
		unsigned int state;
		enum dlp_cause cause;
		enum dlp_where where;
		const char *part;
	} cases[] = {
		{ DLP_ST_DISK, DLP_CAUSE_DISK_READ, DLP_WHERE_WORKERS, "reads from a disk" },
		{ DLP_ST_FAULT, DLP_CAUSE_PAGE_FAULT_READ, DLP_WHERE_WORKERS, "page faults" },
		{ DLP_ST_FS, DLP_CAUSE_FILESYSTEM_WAIT, DLP_WHERE_WORKERS, "file system" },
		{ DLP_ST_NET, DLP_CAUSE_NETWORK_WAIT, DLP_WHERE_WORKERS, "network" },
		{ DLP_ST_LOCK, DLP_CAUSE_LOCK_WAIT, DLP_WHERE_WORKERS, "locks" },
		{ DLP_ST_GIL, DLP_CAUSE_GIL_CONTENTION, DLP_WHERE_WORKERS, "interpreter lock" },
		{ DLP_ST_SLEEP, DLP_CAUSE_SLEEP, DLP_WHERE_WORKERS, "sleeps" },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		setup(NULL);
		/* two thirds idle: that is no part of making a batch */
		no_work();
		job_workers_spend(&job, cases[i].state, 3.2);
		job_workers_spend(&job, DLP_ST_RUN, 0.8);
		job_workers_spend(&job, DLP_ST_IDLE, 8);
		judge();
		assert_cause(cases[i].cause);
		assert_int_equal(verdict.where, cases[i].where);
		assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
		assert_near(share(cases[i].cause), 0.8);
		assert_near(share(DLP_CAUSE_WORKER_CPU), 0.2);
		assert_says("Training waits 63 % of the time");
		assert_says("80 %");
		assert_says(cases[i].part);
		/* less than computing: it is not the cause */
		work_in(cases[i].state, 5.9);
		judge();
		assert_cause(DLP_CAUSE_WORKER_CPU);
	}
}

/* Workers that cannot get rid of their batches: the pipe is full. */
static void test_pipe(void **state)
{
	(void)state;
	work_in(DLP_ST_PIPE, 9);
	judge();
	assert_cause(DLP_CAUSE_BATCH_TRANSFER);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 0.75);
	assert_says("75 % of that");
}

static void test_devices(void **state)
{
	(void)state;
	job.device[0].dev = 259u << 20 | 3;
	job.device[0].reads = 100;
	job.device[0].read_bytes = 100 * 8192;
	dlp_hist_add(&job.device[0].latency, 3 * DLP_NS_PER_MS);
	job.model.device_cnt = 1;
	judge();
	assert_null(find_evidence("block_read_latency_median_us"));
	work_in(DLP_ST_DISK, 9);
	judge();
	assert_near(evidence("block_read_latency_median_us")->value, 3000);
	assert_non_null(strstr(evidence("block_read_latency_median_us")->text, "259:3"));
	assert_non_null(strstr(evidence("block_read_latency_median_us")->text, "8.0 KiB"));
}

/* num_workers=0: GetNext is the production, and none of it is the workers'. */
static void test_main_makes(void **state)
{
	(void)state;
	job_without_workers(&job);
	job_waits(&job, 6, DLP_ST_RUN);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 1);
	assert_says("50 % of the time");
	assert_says("num_workers=0");
	assert_says("spends 100 % of that");
	job_waits(&job, 6, DLP_ST_DISK);
	sums->inside.ns[DLP_ST_DISK] = job_ns(4.5);
	sums->inside.ns[DLP_ST_RUN] = job_ns(1.5);
	judge();
	assert_cause(DLP_CAUSE_DISK_READ);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_DISK_READ), 0.75);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0.25);
	assert_says("75 %");
	/* without a CPU: what there is of them is what the job itself has to do */
	job_waits(&job, 6, DLP_ST_RUNQ);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	/* the number of workers may be unknown where the queue is not seen: the class tells */
	job.loader[0].num_workers = -1;
	job_waits(&job, 6, DLP_ST_SLEEP);
	judge();
	assert_cause(DLP_CAUSE_SLEEP);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
}

/* With workers: the sampler, and what is on a CPU behind a message but is not unpickling. */
static void test_main_computes(void **state)
{
	(void)state;
	job_instead(&job, &sums->own_ns, 3);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 3 / 7.56);
	job_instead(&job, &sums->own_ns, 1);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_says("53 % of that");
	/* 4 s over 150 batches */
	assert_says("26.7 ms a batch");
	assert_says("idle 5.0 %");
	/* how idle they are is not known */
	no_work();
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_null(strstr(verdict.text, "idle"));
}

/* Nothing is known of who makes the batches: a small part that is known is no answer. */
static void test_nameable(void **state)
{
	double whole_s = 7.56;

	(void)state;
	no_work();
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	job_instead(&job, &sums->own_ns, whole_s * BELOW(NAMEABLE));
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_DATA_LOADING);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	assert_int_equal(verdict.cause, DLP_CAUSE_NONE);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), BELOW(NAMEABLE));
	assert_says("no cause can be named");
	job_instead(&job, &sums->own_ns, whole_s * (ABOVE(NAMEABLE) - BELOW(NAMEABLE)));
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), ABOVE(NAMEABLE));
}

/* Messages that take so long to unpickle: by the batch, and by the byte. */
static void messages(double seconds)
{
	double batches_ns = (double)sums->batches * LIMIT(UNPICKLE_BATCH_NS);

	sums->message_bytes = (uint64_t)((seconds * 1e9 - batches_ns) / LIMIT(UNPICKLE_NS));
}

static void test_unpickling(void **state)
{
	(void)state;
	job_instead(&job, &sums->behind_ns, 6);
	/* 2 kB a batch take no 40 ms: the rest is the sampler's */
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	messages(2.9);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 2.9 / 7.56);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 3.1 / 7.56);
	messages(3.1);
	judge();
	assert_cause(DLP_CAUSE_BATCH_TRANSFER);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	/* more bytes than were unpickled in that time cost no more than it */
	messages(30);
	judge();
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 6 / 7.56);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0);
	assert_says("79 % of that");
	assert_says("40.0 ms a batch");
	assert_non_null(find_evidence("transfer_ms_per_batch"));
}

/* Blocked behind the message, time and again: descriptors are handed over one by one. */
static void test_handover(void **state)
{
	(void)state;
	job_instead(&job, &sums->behind_ns, 6 * (1 - BELOW(HANDED_OVER)));
	job_instead(&job, &sums->handover_ns, 6 * BELOW(HANDED_OVER));
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	setup(NULL);
	job_instead(&job, &sums->behind_ns, 6 * (1 - ABOVE(HANDED_OVER)));
	job_instead(&job, &sums->handover_ns, 6 * ABOVE(HANDED_OVER));
	judge();
	assert_cause(DLP_CAUSE_BATCH_TRANSFER);
	/* blocked it was by workers that are busy 95 % of their time */
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 6 * (1 - 0.95 * ABOVE(HANDED_OVER)) / 7.56);
	/* which idle ones do not explain */
	no_work();
	job_workers_spend(&job, DLP_ST_IDLE, 12);
	judge();
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 6 / 7.56);
	/* nor is it known of others */
	no_work();
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	judge();
	assert_near(share(DLP_CAUSE_BATCH_TRANSFER), 6 / 7.56);
	/* made, but not read yet */
	setup(NULL);
	job_instead(&job, &sums->transfer_ns, 6);
	judge();
	assert_cause(DLP_CAUSE_BATCH_TRANSFER);
	assert_near(evidence("transfer_ms_per_batch")->value, 40);
}

static void test_startup(void **state)
{
	(void)state;
	sums->init_cnt = 4;
	job_instead(&job, &sums->boot_ns, 3);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 3 / 7.56);
	job_instead(&job, &sums->closing_ns, 0.6);
	sums->init_ns = job_ns(0.5);
	sums->teardown_ns = job_ns(0.1);
	judge();
	assert_cause(DLP_CAUSE_WORKER_STARTUP);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 4.2 / 8.16);
	/* in and out of GetNext: 4.2 s for 4 iterators */
	assert_says("Training waits 68 % of the time");
	assert_says("51 % of that");
	assert_says("1050 ms");
	assert_near(evidence("startup_ratio")->value, 0.05);
	/* said once is enough, with another cause it is said beside that */
	sums->init_ns = job_ns(1);
	judge();
	assert_cause(DLP_CAUSE_WORKER_STARTUP);
	assert_null(strstr(verdict.text, "while iterators"));
	sums->boot_ns = 0;
	sums->produce_ns += job_ns(3);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	/* 1.1 of 8.66 s */
	assert_says("(13 % of it while iterators start and end)");
	sums->init_ns = job_ns(0.5);
	job_instead(&job, &sums->boot_ns, 3);
	/* how many there were was not seen */
	sums->init_cnt = 0;
	judge();
	assert_says("51 % of that");
}

/* Order holds batches back, and workers have time: it is the order. */
static void test_slow_batch(void **state)
{
	double idle = 12 * (1 - BELOW(HELD_BUSY));

	(void)state;
	work_in(DLP_ST_IDLE, idle);
	sums->held_ns = job_ns(7.56 * BELOW(HELD));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_SLOW_BATCH), 0);
	assert_near(evidence("held_share")->value, BELOW(HELD));
	sums->held_ns = job_ns(7.56 * ABOVE(HELD));
	judge();
	assert_cause(DLP_CAUSE_SLOW_BATCH);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_near(share(DLP_CAUSE_SLOW_BATCH), ABOVE(HELD));
	assert_near(share(DLP_CAUSE_WORKER_CPU), 1 - ABOVE(HELD));
	assert_says("50 % of that");
	assert_says("idle 26 %");
	/* rounding may make it more than all of the wait, not more than that goes with it */
	sums->held_ns = job_ns(8);
	judge();
	assert_near(share(DLP_CAUSE_SLOW_BATCH), 1);
	/* busy as they are they would not make more in any order */
	work_in(DLP_ST_IDLE, 12 * (1 - ABOVE(HELD_BUSY)));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	/* how busy they are is not known: busy ones finish out of order as well */
	no_work();
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	judge();
	assert_near(share(DLP_CAUSE_SLOW_BATCH), 0);
}

/* Reclaim or swap: whoever makes batches waits for memory, whatever state that shows as. */
static void test_memory_stall(void **state)
{
	struct dlp_ev_system *first = &job.model.system.first, *last = &job.model.system.last;

	(void)state;
	first->known |= DLP_SYS_PSI;
	last->known |= DLP_SYS_PSI;
	last->psi_memory_us = first->psi_memory_us + (uint64_t)(12e6 * BELOW(RECLAIM));
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0);
	assert_near(evidence("memory_stall_share")->value, BELOW(RECLAIM));
	last->psi_memory_us = first->psi_memory_us + 9000000;
	judge();
	assert_cause(DLP_CAUSE_MEMORY_PRESSURE);
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0.75);
	assert_says("during 75 % of the time");
	/* unknown convicts nobody */
	last->known &= ~DLP_SYS_PSI;
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0);
}

static void test_idle_workers(void **state)
{
	struct dlp_worker *worker = &job.worker[1];

	(void)state;
	worker->batch_cnt = 0;
	worker->window_ns = job_ns(BELOW(BARREN_S));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0);
	worker->window_ns = job_ns(ABOVE(BARREN_S));
	judge();
	assert_cause(DLP_CAUSE_IDLE_WORKERS);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0.5);
	assert_says("only 1 of 2 workers");
	/* too early to tell */
	sums->batches = (uint64_t)LIMIT(BARREN_BATCHES) - 1;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0);
	sums->batches = (uint64_t)LIMIT(BARREN_BATCHES);
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0.5);
	/* those that have ended are in the sums */
	sums->fruitful_cnt = 3;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0.2);
	assert_cause(DLP_CAUSE_WORKER_CPU);
	sums->fruitful_cnt = 4;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0);
	sums->barren_cnt = 6;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 7.0 / 12);
	assert_says("only 5 of 12 workers");
	worker->died_ns = job.model.end_ns;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 6.0 / 11);
}

/* The workers of a loader that is not in use (validation's, persistent) are not missed. */
static void test_idle_elsewhere(void **state)
{
	(void)state;
	second_loader(0);
	job.loader[1].sums.calls = 40;
	job.loader[1].tid = JOB_PID + 100;
	job.worker[1].loader = 2;
	job.worker[1].batch_cnt = 0;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0);
	job.worker[1].loader = 1;
	judge();
	assert_near(share(DLP_CAUSE_IDLE_WORKERS), 0.5);
	judge_loader(1);
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
}

/* Faults a CPU millisecond, and the part of the workers' CPU time in the kernel. */
static void faults(double per_ms, double system_time)
{
	sums->usage.minflt = (uint64_t)(per_ms * 20e9 / 1e6);
	sums->usage.utime_ns = job_ns(20 * (1 - system_time));
	sums->usage.stime_ns = job_ns(20 * system_time);
}

static void test_memory_pressure(void **state)
{
	(void)state;
	faults(80, 0.7);
	judge();
	assert_cause(DLP_CAUSE_MEMORY_PRESSURE);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0.7 * 10.2 / 11.4);
	/* the user half of it, and the waits for a CPU */
	assert_near(share(DLP_CAUSE_WORKER_CPU), (0.3 * 10.2 + 0.4) / 11.4);
	assert_says("70 % of their CPU time in the kernel");
	assert_says("80 page faults per ms");
	assert_true(fabs(evidence("faults_per_cpu_ms")->value - 80) < 0.01);
	/* copying pages takes workers as long before the first batch */
	job_instead(&job, &sums->boot_ns, 3);
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), (3 + 4.56 * 0.7 * 10.2 / 11.4) / 7.56);
	assert_near(share(DLP_CAUSE_WORKER_STARTUP), 0);
	job_waits(&job, 7.56, DLP_ST_PIPE);
	sums->boot_ns = 0;
	/* time in the kernel for something else, or faults that cost little */
	faults(BELOW(FAULTS_PER_MS), 0.7);
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0);
	faults(ABOVE(FAULTS_PER_MS), 0.7);
	judge();
	assert_cause(DLP_CAUSE_MEMORY_PRESSURE);
	faults(80, BELOW(SYSTEM_TIME));
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0);
	faults(80, ABOVE(SYSTEM_TIME));
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), ABOVE(SYSTEM_TIME) * 10.2 / 11.4);
	/* a kernel that does not tell user time from system time */
	sums->usage.utime_ns = sums->usage.stime_ns = 0;
	judge();
	assert_near(share(DLP_CAUSE_MEMORY_PRESSURE), 0);
}

/* The trainer's own waits for the interpreter lock, which a thread beside it holds. */
static void test_gil_of_trainer(void **state)
{
	(void)state;
	job_instead(&job, &sums->gil_ns, 3);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_GIL_CONTENTION), 3 / 7.56);
	job_instead(&job, &sums->gil_ns, 1);
	judge();
	assert_cause(DLP_CAUSE_GIL_CONTENTION);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_says("53 % of that");
	assert_says("interpreter lock");
	assert_null(strstr(verdict.text, "the workers spend"));
}

/* A thread of worker 1 beside its main thread. */
static void pool_does(unsigned int doing, double seconds)
{
	job.thread[JOB_WORKERS] = (struct dlp_thread){
		.tid = JOB_PID + 50, .tgid = JOB_PID + 1, .base_set = true,
	};
	job.thread[JOB_WORKERS].clock.ns[doing] = job_ns(seconds);
}

/* Waits for threads of the same process are those threads' work, where they do any. */
static void test_waits_for_threads(void **state)
{
	(void)state;
	work_in(DLP_ST_LOCK, 9);
	pool_does(DLP_ST_DISK, 18 * BELOW(POOL_WORK));
	judge();
	assert_cause(DLP_CAUSE_LOCK_WAIT);
	assert_near(share(DLP_CAUSE_LOCK_WAIT), 0.75);
	pool_does(DLP_ST_DISK, 18 * ABOVE(POOL_WORK));
	judge();
	assert_cause(DLP_CAUSE_DISK_READ);
	assert_near(share(DLP_CAUSE_DISK_READ), 0.75);
	assert_near(share(DLP_CAUSE_LOCK_WAIT), 0);
	/* the main threads did not read at all: that must not be said of them */
	assert_null(strstr(verdict.text, "spend 0"));
	assert_says("75 %");
	assert_says("threads");
	assert_says("disk");
	pool_does(DLP_ST_RUN, 18);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_CPU), 1);
	assert_says("75 %");
	assert_says("threads");
	/* but not those of a training thread that makes the batches itself */
	job.loader[0].num_workers = 0;
	job_waits(&job, 6, DLP_ST_LOCK);
	judge();
	assert_cause(DLP_CAUSE_LOCK_WAIT);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	job.loader[0].num_workers = JOB_WORKERS;
	/* threads that wait for each other explain nothing */
	pool_does(DLP_ST_LOCK, 100);
	judge();
	assert_cause(DLP_CAUSE_LOCK_WAIT);
}

/* Who makes batches: once messages are seen, nobody without them. */
static void test_who_counts(void **state)
{
	(void)state;
	/* no loader is known of any worker, so all of them are looked at */
	memset(&sums->made, 0, sizeof(sums->made));
	memset(&job.worker[1].clock, 0, sizeof(job.worker[1].clock));
	job.worker[1].clock.ns[DLP_ST_SLEEP] = 1000 * SECOND;
	job.worker[1].proven = false;
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_SLEEP), 0);
	job.worker[0].proven = false;
	judge();
	assert_cause(DLP_CAUSE_SLEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_state, setup),
		cmocka_unit_test_setup(test_pipe, setup),
		cmocka_unit_test_setup(test_devices, setup),
		cmocka_unit_test_setup(test_main_makes, setup),
		cmocka_unit_test_setup(test_main_computes, setup),
		cmocka_unit_test_setup(test_nameable, setup),
		cmocka_unit_test_setup(test_unpickling, setup),
		cmocka_unit_test_setup(test_handover, setup),
		cmocka_unit_test_setup(test_startup, setup),
		cmocka_unit_test_setup(test_slow_batch, setup),
		cmocka_unit_test_setup(test_memory_stall, setup),
		cmocka_unit_test_setup(test_idle_workers, setup),
		cmocka_unit_test_setup(test_idle_elsewhere, setup),
		cmocka_unit_test_setup(test_memory_pressure, setup),
		cmocka_unit_test_setup(test_gil_of_trainer, setup),
		cmocka_unit_test_setup(test_waits_for_threads, setup),
		cmocka_unit_test_setup(test_who_counts, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
