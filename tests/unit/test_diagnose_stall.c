/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* No progress: stuck, died, out of shared memory; and what only looks like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "verdict_check.h"

static struct dlp_thread *const trainer = &job.thread[0];

static uint64_t ago(double seconds)
{
	return job.model.end_ns - job_ns(seconds);
}

/* The training thread sits in a call, the workers in a wait, both for so long. */
static void freeze(double seconds, unsigned int state)
{
	trainer->getnext_since_ns = ago(seconds);
	trainer->state = DLP_ST_PIPE;
	for (size_t i = 1; i <= JOB_WORKERS; i++) {
		job.thread[i].state = state;
		job.thread[i].since_ns = ago(seconds);
		job.thread[i].syscall = 202;
		job.thread[i].object = 0x7f0012345678;
	}
	job.model.last_delivery_ns = ago(seconds);
}

/* A worker ends nobody having told it to, and nothing is delivered after that. */
static void kill_worker(size_t i, double seconds, uint32_t status)
{
	job.worker[i].died_ns = ago(seconds);
	job.worker[i].exit_code = status;
	job.worker[i].unexpected = true;
	job.model.last_delivery_ns = ago(seconds);
}

static void fill_shm(double free)
{
	job.model.shm_total = 64 << 20;
	job.model.shm_least = (uint64_t)(free * (64 << 20));
}

static void assert_stalled(enum dlp_cause cause, enum dlp_confidence confidence)
{
	if (verdict.bottleneck != DLP_BN_STALLED)
		fail_msg("not stalled: %s", verdict.text);
	assert_cause(cause);
	assert_int_equal(verdict.confidence, confidence);
	assert_int_equal(verdict.candidate_cnt, 1);
	assert_near(verdict.candidate[0].share, 1);
}

static void assert_goes_on(void)
{
	if (verdict.bottleneck != DLP_BN_DATA_LOADING)
		fail_msg("wanted data loading: %s", verdict.text);
}

static void test_stuck(void **state)
{
	(void)state;
	freeze(11, DLP_ST_LOCK);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_says("one GetNext for 11.0 s");
	assert_says("2 workers are waiting for locks");
	assert_near(evidence("stuck_s")->value, 11);
	assert_near(evidence("worker_wait_s")->value, 11);
	assert_non_null(strstr(evidence("worker_wait_s")->text, "4712"));
	assert_non_null(strstr(evidence("worker_wait_s")->text, "0x7f0012345678"));
	freeze(BELOW(STALL_S), DLP_ST_LOCK);
	judge();
	assert_goes_on();
	/* a lost index message: all of them have nothing to do */
	freeze(11, DLP_ST_IDLE);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	/* one of the two has died long ago, and was told to */
	freeze(11, DLP_ST_FS);
	job.worker[0].died_ns = ago(11);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	assert_says("1 worker is waiting for a network");
}

/* Half of the observation and more: the whole window is one call. */
static void test_whole_window(void **state)
{
	(void)state;
	job.model.getnext_cnt = 0;
	job.model.start_ns = ago(BELOW(STALL_WINDOW_S));
	freeze(BELOW(STALL_WINDOW_S), DLP_ST_LOCK);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	job.model.start_ns = ago(ABOVE(STALL_WINDOW_S));
	freeze(ABOVE(STALL_WINDOW_S), DLP_ST_LOCK);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	/* the call began in the window, there is time yet */
	freeze(5, DLP_ST_LOCK);
	job.model.start_ns = ago(6);
	judge();
	assert_int_not_equal(verdict.bottleneck, DLP_BN_STALLED);
}

static void test_not_stuck(void **state)
{
	(void)state;
	/* one slow sample: a worker still runs, or moves from wait to wait */
	freeze(11, DLP_ST_LOCK);
	job.thread[2].state = DLP_ST_RUN;
	judge();
	assert_goes_on();
	job.thread[2].state = DLP_ST_RUNQ;
	judge();
	assert_goes_on();
	job.thread[2].state = DLP_ST_DISK;
	job.thread[2].since_ns = ago(BELOW(ASLEEP_S));
	judge();
	assert_goes_on();
	job.thread[2].since_ns = ago(ABOVE(ASLEEP_S));
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	/* one has just nothing more to do */
	job.thread[2].state = DLP_ST_IDLE;
	job.thread[2].since_ns = ago(0.1);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	/* what else was forked may do what it likes */
	job.thread[2].state = DLP_ST_RUN;
	job.worker[1].proven = false;
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	assert_says("1 worker is");
	job.worker[1].proven = true;
	job.thread[2].state = DLP_ST_LOCK;
	job.thread[2].since_ns = ago(11);
	/* a long step outside GetNext */
	trainer->getnext_since_ns = 0;
	judge();
	assert_goes_on();
	/* nothing known of a worker: silence is better than a false alarm */
	freeze(11, DLP_ST_LOCK);
	job.model.thread_cnt = 1;
	judge();
	assert_goes_on();
	/* the trainer is gone */
	job.model.thread_cnt = JOB_WORKERS + 1;
	trainer->dead = true;
	judge();
	assert_goes_on();
}

/* Attached while it hung already: the call's beginning was never seen. */
static void test_stuck_since_before(void **state)
{
	(void)state;
	freeze(12, DLP_ST_LOCK);
	job.model.main_tid = 0;
	job.model.main_valid = false;
	job.model.getnext_cnt = 0;
	job.model.exposed_ns = 0;
	job.model.loader_cnt = 0;
	trainer->getnext_since_ns = 0;
	trainer->clock.ns[DLP_ST_PIPE] = 12 * SECOND;
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	assert_near(verdict.exposed_wait_ratio, 1);
	assert_int_equal(verdict.severity, DLP_SEV_HIGH);
	/* waking up now and then to look */
	trainer->clock.ns[DLP_ST_RUN] = job_ns(12 * BELOW(ASLEEP_RUN));
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	/* not only that: it does something else as well */
	trainer->clock.ns[DLP_ST_RUN] = job_ns(12 * 0.021);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	/* what it did before the window is no matter */
	trainer->base.ns[DLP_ST_RUN] = trainer->clock.ns[DLP_ST_RUN];
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
}

static void test_stuck_without_workers(void **state)
{
	(void)state;
	job_without_workers(&job);
	freeze(11, DLP_ST_RUN);
	trainer->state = DLP_ST_FS;
	trainer->since_ns = ago(11);
	trainer->syscall = 17;
	judge();
	assert_stalled(DLP_CAUSE_WORKER_STUCK, DLP_CONF_MEDIUM);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_says("11.0 s");
	assert_says("waiting for a network or user-space file system");
	assert_near(evidence("main_wait_s")->value, 11);
	trainer->state = DLP_ST_RUN;
	judge();
	assert_goes_on();
}

/* With many workers the evidence still has room for the rest. */
static void test_many_stuck(void **state)
{
	static struct dlp_worker workers[64];
	static struct dlp_thread threads[65];
	size_t said = 0;

	(void)state;
	freeze(11, DLP_ST_LOCK);
	threads[0] = job.thread[0];
	for (uint32_t i = 0; i < 64; i++) {
		workers[i] = job.worker[0];
		workers[i].pid = 5000 + i;
		threads[i + 1] = job.thread[1];
		threads[i + 1].tid = threads[i + 1].tgid = 5000 + i;
	}
	job.model.workers = workers;
	job.model.worker_cnt = 64;
	job.model.threads = threads;
	job.model.thread_cnt = 65;
	judge();
	assert_says("64 workers are");
	for (size_t i = 0; i < verdict.evidence_cnt; i++)
		said += !strcmp(verdict.evidence[i].metric, "worker_wait_s");
	assert_true(said >= 2 && said <= 8);
	assert_non_null(find_evidence("exposed_wait_ratio"));
	/* nor do the others that die with the first one take it all */
	for (size_t i = 0; i < 64; i++) {
		workers[i].died_ns = ago(3);
		workers[i].exit_code = SIGKILL;
		workers[i].unexpected = true;
	}
	workers[7].died_ns = ago(4);
	job.model.last_delivery_ns = ago(4);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	assert_says("Worker 5007 died");
	assert_non_null(find_evidence("exposed_wait_ratio"));
}

static void test_died(void **state)
{
	(void)state;
	kill_worker(1, 3, SIGKILL);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_says("Worker 4713 died (killed by signal 9) 3.0 s before the end");
	assert_near(evidence("worker_exit")->value, SIGKILL);
	assert_null(find_evidence("oom_kills"));
	job.model.system.last.oom_kills = 1;
	judge();
	assert_near(evidence("oom_kills")->value, 1);
	kill_worker(1, 3, 7 << 8);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	assert_says("(exit 7)");
	/* the first one is the cause, others follow it */
	kill_worker(0, 4, SIGSEGV);
	judge();
	assert_says("Worker 4712 died (killed by signal 11) 4.0 s");
	/* the news of it came after the window had closed */
	job.worker[1].unexpected = false;
	job.worker[0].died_ns = job.model.end_ns + DLP_NS_PER_MS;
	judge();
	assert_says("0.0 s before the end");
}

/* Training goes on without it, or it was not the worker's fault. */
static void test_died_without_stall(void **state)
{
	(void)state;
	kill_worker(1, 5, SIGKILL);
	job.model.last_delivery_ns = ago(5 - BELOW(AFTER_DEATH_S));
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	job.model.last_delivery_ns = ago(5 - ABOVE(AFTER_DEATH_S));
	judge();
	assert_goes_on();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_non_null(find_evidence("worker_exit"));
	/* ended as it was told to */
	kill_worker(1, 5, 0);
	job.worker[1].unexpected = false;
	judge();
	assert_goes_on();
	assert_null(find_evidence("worker_exit"));
}

static void test_whole_job_killed(void **state)
{
	(void)state;
	kill_worker(0, 5, SIGKILL);
	kill_worker(1, 5, SIGKILL);
	trainer->dead = true;
	trainer->exit_code = SIGKILL;
	trainer->read_ns = ago(5 - BELOW(GROUP_DEATH_S));
	judge();
	assert_goes_on();
	/* the trainer went first */
	trainer->read_ns = ago(5.2);
	judge();
	assert_goes_on();
	/* somebody gave it up later */
	trainer->read_ns = ago(5 - ABOVE(GROUP_DEATH_S));
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	/* it ended by itself, with an error: because of its workers */
	trainer->read_ns = ago(5);
	trainer->exit_code = 1 << 8;
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
}

static void test_shm(void **state)
{
	(void)state;
	kill_worker(1, 3, SIGBUS);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	fill_shm(ABOVE(SHM_LOW));
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	fill_shm(BELOW(SHM_LOW));
	judge();
	assert_stalled(DLP_CAUSE_SHM_EXHAUSTED, DLP_CONF_HIGH);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_says("signal 7");
	assert_says("25 % of 64 MB");
	assert_near(evidence("shm_least_free_bytes")->value, floor(BELOW(SHM_LOW) * (64 << 20)));
	/* another signal has another reason */
	kill_worker(1, 3, SIGKILL);
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	/* no room left at all, and everybody waits */
	setup(NULL);
	freeze(11, DLP_ST_LOCK);
	fill_shm(0);
	judge();
	assert_stalled(DLP_CAUSE_SHM_EXHAUSTED, DLP_CONF_MEDIUM);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_says("/dev/shm");
	/* full, but it goes on */
	setup(NULL);
	fill_shm(0);
	judge();
	assert_goes_on();
}

static void test_exception(void **state)
{
	(void)state;
	job.model.error_ns = ago(2);
	job.model.error_pid = JOB_PID + 2;
	job.model.last_delivery_ns = ago(2.1);
	/* it was caught, so far */
	judge();
	assert_goes_on();
	trainer->dead = true;
	trainer->exit_code = 1 << 8;
	judge();
	assert_stalled(DLP_CAUSE_WORKER_DIED, DLP_CONF_HIGH);
	assert_says("Worker 4713 sent an exception instead of a batch");
	assert_says("2.0 s later");
	assert_near(evidence("worker_error_pid")->value, 4713);
	fill_shm(0.01);
	judge();
	assert_stalled(DLP_CAUSE_SHM_EXHAUSTED, DLP_CONF_HIGH);
	assert_says("1.0 % of 64 MB");
	/* training went on after it, and ended for another reason */
	job.model.last_delivery_ns = ago(2 - ABOVE(AFTER_DEATH_S));
	judge();
	assert_goes_on();
	job.model.last_delivery_ns = ago(2.1);
	trainer->exit_code = 0;
	judge();
	assert_goes_on();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_stuck, setup),
		cmocka_unit_test_setup(test_whole_window, setup),
		cmocka_unit_test_setup(test_not_stuck, setup),
		cmocka_unit_test_setup(test_stuck_since_before, setup),
		cmocka_unit_test_setup(test_stuck_without_workers, setup),
		cmocka_unit_test_setup(test_many_stuck, setup),
		cmocka_unit_test_setup(test_died, setup),
		cmocka_unit_test_setup(test_died_without_stall, setup),
		cmocka_unit_test_setup(test_whole_job_killed, setup),
		cmocka_unit_test_setup(test_shm, setup),
		cmocka_unit_test_setup(test_exception, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
