/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Long blocked intervals one by one: which are sent, and what they say. That each scene's wait is
 * there with its call and state is in test_clock.c; files are in test_block.c.
 */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THRESHOLD_NS (20 * BT_MS)
#define SHORT_NS     (2 * BT_MS)
#define LONG_NS	     (40 * BT_MS)
/*
 * A switch that the kernel does not show (some hypervisors' agents hide theirs) takes the wait
 * before it along; never the same one twice in a row.
 */
#define ATTEMPTS 3

static struct bt_job job;

static struct shared {
	uint64_t before_ns, after_ns;
	size_t held_up; /* short naps that became long ones */
	uint64_t inode;
	pid_t pid, tid;
} *shared;

static int open_job(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE, .long_wait_ns = THRESHOLD_NS };

	(void)state;
	bt_job_start(&job);
	bt_job_observe(&job, &setup);
	return 0;
}

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

/* Until that thread has at least one wait, as it must. */
static const struct dlp_ev_wait *run_until_seen(bt_fn fn, const pid_t *tid)
{
	bt_job_need(&job);
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		struct bt_event *event;

		bt_clear(&job);
		bt_call(&job, fn, NULL);
		bt_drain(&job);
		event = bt_find(&job, DLP_EV_WAIT, *tid, 0);
		if (event)
			return &event->wait;
	}
	fail_msg("no DLP_EV_WAIT of thread %d", (int)*tid);
	return NULL;
}

static void nap(uint64_t ns)
{
	shared->before_ns = dlp_now_ns();
	bt_sleep_ns(ns);
	shared->after_ns = dlp_now_ns();
}

static void short_naps(void *arg)
{
	(void)arg;
	shared->pid = getpid();
	for (int i = 0; i < 20; i++) {
		nap(SHORT_NS);
		/* held up by neighbours: not short at all, so it may be sent */
		if (shared->after_ns - shared->before_ns >= THRESHOLD_NS)
			shared->held_up++;
	}
}

static void fork_short(void *arg)
{
	shared->held_up = 0;
	bt_reap(bt_fork(short_naps, arg));
}

static void short_ones_are_not_sent(void **state)
{
	(void)state;
	bt_job_need(&job);
	bt_call(&job, fork_short, NULL);
	bt_drain(&job);
	assert_true(bt_count(&job, DLP_EV_WAIT, shared->pid) <= shared->held_up);
}

static void long_nap(void *arg)
{
	(void)arg;
	shared->pid = getpid();
	nap(LONG_NS);
}

static void fork_long(void *arg)
{
	bt_reap(bt_fork(long_nap, arg));
}

static void long_ones_are_sent(void **state)
{
	const struct dlp_ev_wait *wait;

	(void)state;
	wait = run_until_seen(fork_long, &shared->pid);
	assert_int_equal(bt_count(&job, DLP_EV_WAIT, shared->pid), 1);
	assert_int_equal(wait->hdr.tgid, shared->pid);
	assert_int_equal(wait->syscall, SYS_clock_nanosleep);
	assert_int_equal(wait->state, DLP_ST_SLEEP);
	assert_int_equal(wait->object, 0);
	assert_int_equal(wait->dev, 0);
	assert_int_equal(wait->fs_magic, 0);
	assert_in_range(wait->start_ns, shared->before_ns, wait->wake_ns);
	/* the kernel's timer does not fire early; it fires late by its slack */
	assert_true(wait->wake_ns - shared->before_ns >= LONG_NS);
	assert_in_range(wait->wake_ns, wait->start_ns, wait->hdr.ts_ns);
	assert_in_range(wait->hdr.ts_ns, wait->wake_ns, shared->after_ns);
}

/* ---- who is worth it ---- */

static void *helper_nap(void *arg)
{
	shared->tid = gettid();
	if (arg) {
		bt_enter("enumerate(DataLoader)#X.__next__");
		bt_exit();
	}
	bt_sleep_ns(LONG_NS);
	return NULL;
}

static void start_helper(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, helper_nap, arg);
	pthread_join(thread, NULL);
}

static void plain_helper(void *arg)
{
	(void)arg;
	start_helper(NULL);
}

static void training_helper(void *arg)
{
	(void)arg;
	start_helper(shared);
}

/* Threads of pools wait all the time, and nobody asks why. */
static void helper_threads(void **state)
{
	(void)state;
	bt_job_need(&job);
	bt_call(&job, plain_helper, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_WAIT, shared->tid), 0);
	/* but one that runs GetNext is a training thread, main or not */
	assert_int_equal(run_until_seen(training_helper, &shared->tid)->hdr.tgid, job.trainer);
}

/* ---- what it waits on, and for whom ---- */

static int fds[2];

static void read_pinned(void *arg)
{
	char byte;

	(void)arg;
	shared->pid = getpid();
	if (read(fds[0], &byte, 1) != 1)
		abort();
}

static void write_pinned(void *arg)
{
	struct stat st;
	pid_t pid;

	(void)arg;
	/* on one CPU the waker is certain: a remote wake-up runs wherever the CPU happens to be */
	bt_pin(0);
	if (pipe(fds) || fstat(fds[0], &st))
		abort();
	shared->inode = st.st_ino;
	shared->pid = 0;
	pid = bt_fork(read_pinned, NULL);
	while (!__atomic_load_n(&shared->pid, __ATOMIC_ACQUIRE))
		bt_sleep_ns(BT_MS);
	bt_sleep_ns(LONG_NS);
	if (write(fds[1], "x", 1) != 1)
		abort();
	bt_reap(pid);
	close(fds[0]);
	close(fds[1]);
}

static void pipe_and_waker(void **state)
{
	const struct dlp_ev_wait *wait;

	(void)state;
	wait = run_until_seen(write_pinned, &shared->pid);
	assert_int_equal(wait->state, DLP_ST_PIPE);
	assert_int_equal(wait->syscall, SYS_read);
	assert_int_equal(wait->object, shared->inode);
	/* a pipe is on no file system worth a name */
	assert_int_equal(wait->fs_magic, 0);
	assert_int_equal(wait->dev, 0);
	assert_int_equal(wait->waker_tid, job.trainer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(short_ones_are_not_sent, open_job, close_job),
		cmocka_unit_test_setup_teardown(long_ones_are_sent, open_job, close_job),
		cmocka_unit_test_setup_teardown(helper_threads, open_job, close_job),
		cmocka_unit_test_setup_teardown(pipe_and_waker, open_job, close_job),
	};

	shared = bt_shared(sizeof(*shared));
	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
