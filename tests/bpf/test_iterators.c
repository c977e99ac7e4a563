/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Named semaphores that the trainer makes: where an iterator begins to start its workers. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#define CALLS 12
#define NAP_NS (5 * BT_MS)

static struct bt_job job;

static struct shared {
	uint64_t before_ns[CALLS], after_ns[CALLS];
	pid_t tid;
} *shared;

static int open_job(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE | BT_PROBE_SEM };

	(void)state;
	shared = shared ? shared : bt_shared(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	bt_job_prepare(&job, &setup);
	return 0;
}

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void make_some(void *arg)
{
	(void)arg;
	shared->tid = gettid();
	for (int i = 0; i < CALLS; i++) {
		bt_sleep_ns(NAP_NS);
		shared->before_ns[i] = dlp_now_ns();
		bt_point_sem("/mp-x", O_CREAT | O_EXCL, 0600, 1);
		shared->after_ns[i] = dlp_now_ns();
	}
}

static void check_times(pid_t tid)
{
	const struct dlp_ev_sem *last = NULL;

	assert_int_equal(bt_count(&job, DLP_EV_SEM, 0), CALLS);
	for (size_t i = 0; i < CALLS; i++) {
		struct bt_event *event = bt_find(&job, DLP_EV_SEM, tid, i);

		assert_non_null(event);
		assert_int_equal(event->hdr.tgid, job.trainer);
		assert_in_range(event->hdr.ts_ns + DLP_NS_PER_US, shared->before_ns[i],
				shared->after_ns[i] + 2 * DLP_NS_PER_US);
		if (last) {
			assert_true(bt_near(bt_sum(&event->sem.clock) - bt_sum(&last->clock),
					    event->hdr.ts_ns - last->hdr.ts_ns, 0.01, 0));
			assert_true(event->sem.clock.ns[DLP_ST_SLEEP] -
				    last->clock.ns[DLP_ST_SLEEP] >= NAP_NS * 8 / 10);
		}
		last = &event->sem;
	}
}

static void by_the_main_thread(void **state)
{
	(void)state;
	bt_run(&job, make_some);
	check_times(job.trainer);
}

static void *make_some_in_thread(void *arg)
{
	make_some(arg);
	return NULL;
}

static void start_thread(void *arg)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, make_some_in_thread, arg))
		pthread_join(thread, NULL);
}

/* The probe is bound to the trainer by its pid, which must not mean its main thread. */
static void by_another_thread(void **state)
{
	(void)state;
	bt_run(&job, start_thread);
	assert_int_not_equal(shared->tid, job.trainer);
	check_times(shared->tid);
}

static void fork_one(void *arg)
{
	bt_reap(bt_fork(make_some, arg));
}

/* Workers have queues of their own to make; nobody's iterator begins there. Strangers neither. */
static void by_others(void **state)
{
	(void)state;
	bt_job_need(&job);
	bt_call(&job, fork_one, NULL);
	make_some(NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SEM, 0), 0);
	bt_run(&job, make_some);
	check_times(job.trainer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_job, close_job)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(by_the_main_thread),
		TEST(by_another_thread),
		TEST(by_others),
	};

	return cmocka_run_group_tests_name("iterators", tests, NULL, NULL);
}
