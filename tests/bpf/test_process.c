/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Births, execs and deaths at any depth of the job, and what must be forgotten with the dead.
 */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct bt_job job;

static struct shared {
	pid_t pid[4];
	pid_t tid[4];
	uint64_t before_ns, after_ns;
	int ready;
} *shared;

static int open_job(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE };

	(void)state;
	memset(shared, 0, sizeof(*shared));
	bt_job_prepare(&job, &setup);
	return 0;
}

static int open_job_hash(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE,
					.without = DLP_FEATURE_BIT(TASK_STORAGE) };

	(void)state;
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

/* The FORK whose child has that thread id. */
static const struct dlp_ev_fork *birth_of(pid_t tid)
{
	struct bt_event *event;

	for (size_t i = 0; (event = bt_find(&job, DLP_EV_FORK, 0, i)); i++) {
		if (event->fork.child_tid == (uint32_t)tid)
			return &event->fork;
	}
	fail_msg("the birth of %d was not reported", (int)tid);
	return NULL;
}

static const struct dlp_ev_exit *death_of(pid_t tid)
{
	struct bt_event *event = bt_find(&job, DLP_EV_EXIT, tid, 0);

	if (!event)
		fail_msg("the death of %d was not reported", (int)tid);
	return &event->exit;
}

/* ---- processes ---- */

static void third_generation(void *arg)
{
	(void)arg;
	shared->pid[2] = getpid();
	_exit(42);
}

static void second_generation(void *arg)
{
	shared->pid[1] = getpid();
	bt_reap(bt_fork(third_generation, arg));
	raise(SIGKILL);
}

static void first_generation(void *arg)
{
	shared->pid[0] = getpid();
	bt_reap(bt_fork(second_generation, arg));
}

static void three_generations(void *arg)
{
	shared->before_ns = dlp_now_ns();
	bt_reap(bt_fork(first_generation, arg));
	shared->after_ns = dlp_now_ns();
}

static void generations(void **state)
{
	static const uint32_t status[] = { 0, SIGKILL, 42 << 8 };

	(void)state;
	bt_run(&job, three_generations);
	assert_int_equal(bt_count(&job, DLP_EV_FORK, 0), 3);
	assert_int_equal(bt_count(&job, DLP_EV_EXIT, 0), 3);
	for (int i = 0; i < 3; i++) {
		pid_t parent = i ? shared->pid[i - 1] : job.trainer;
		const struct dlp_ev_fork *birth = birth_of(shared->pid[i]);
		const struct dlp_ev_exit *death = death_of(shared->pid[i]);

		assert_int_equal(birth->hdr.tgid, parent);
		assert_int_equal(birth->hdr.tid, parent);
		assert_int_equal(birth->child_tgid, shared->pid[i]);
		assert_int_equal(birth->hdr.flags, 0);
		assert_int_equal(death->hdr.tgid, shared->pid[i]);
		assert_int_equal(death->exit_code, status[i]);
		assert_int_equal(death->hdr.flags & DLP_THREAD_MAIN, DLP_THREAD_MAIN);
		assert_in_range(birth->hdr.ts_ns, shared->before_ns, death->hdr.ts_ns);
		assert_in_range(death->hdr.ts_ns, birth->hdr.ts_ns, shared->after_ns);
		/* its clock begins with its birth */
		assert_in_range(death->traced_ns, shared->before_ns, birth->hdr.ts_ns);
	}
}

/* For events that come when nobody waits for them any more. */
static void drain_until(uint32_t kind, pid_t tid, size_t cnt)
{
	for (int tries = 0; tries < 1000 && bt_count(&job, kind, tid) < cnt; tries++) {
		bt_sleep_ns(BT_MS);
		bt_drain(&job);
	}
	assert_int_equal(bt_count(&job, kind, tid), cnt);
}

/* A process whose parent has died is adopted by init and still of the job. */
static void orphan(void *arg)
{
	(void)arg;
	shared->pid[1] = getpid();
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
		bt_sleep_ns(BT_MS);
	bt_enter("orphan");
	bt_exit();
	__atomic_store_n(&shared->ready, 2, __ATOMIC_RELEASE);
}

static void leave_orphan(void *arg)
{
	/* not by bt_fork(): it must outlive its parent */
	if (!fork()) {
		orphan(arg);
		_exit(0);
	}
}

static void make_orphan(void *arg)
{
	bt_reap(bt_fork(leave_orphan, arg));
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) != 2)
		bt_sleep_ns(BT_MS);
}

static void orphans(void **state)
{
	(void)state;
	bt_run(&job, make_orphan);
	/* a scope's event may be kept back until its thread leaves the CPU */
	drain_until(DLP_EV_SCOPE, shared->pid[1], 1);
}

/* ---- threads ---- */

static void *thread_main(void *arg)
{
	shared->tid[(intptr_t)arg] = gettid();
	bt_sleep_ns(20 * BT_MS);
	return NULL;
}

static void start_threads(void *arg)
{
	pthread_t thread[3];

	(void)arg;
	shared->pid[0] = getpid();
	for (intptr_t i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, thread_main, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

static void fork_threads(void *arg)
{
	bt_reap(bt_fork(start_threads, arg));
}

static void threads(void **state)
{
	(void)state;
	bt_run(&job, fork_threads);
	assert_int_equal(bt_count(&job, DLP_EV_FORK, 0), 4);
	assert_int_equal(bt_count(&job, DLP_EV_EXIT, 0), 4);
	assert_true(death_of(shared->pid[0])->hdr.flags & DLP_THREAD_MAIN);
	for (int i = 0; i < 3; i++) {
		const struct dlp_ev_fork *birth = birth_of(shared->tid[i]);
		const struct dlp_ev_exit *death = death_of(shared->tid[i]);

		assert_int_equal(birth->hdr.flags, DLP_FORK_THREAD);
		assert_int_equal(birth->hdr.tgid, shared->pid[0]);
		assert_int_equal(birth->child_tgid, shared->pid[0]);
		assert_int_equal(death->hdr.tgid, shared->pid[0]);
		assert_false(death->hdr.flags & DLP_THREAD_MAIN);
		/* its timer runs before it has left the CPU */
		assert_true(death->clock.ns[DLP_ST_SLEEP] >= 20 * BT_MS * 9 / 10);
		assert_true(bt_near(bt_sum(&death->clock), death->hdr.ts_ns - death->traced_ns, 0.01,
				    0));
	}
}

/* The main thread may go first; the process lives on and is still of the job. */
static pthread_t main_thread;

static void *outlive_main(void *arg)
{
	(void)arg;
	pthread_join(main_thread, NULL);
	bt_reap(bt_fork(third_generation, NULL));
	shared->tid[0] = gettid();
	_exit(7);
}

static void end_main_thread(void *arg)
{
	pthread_t thread;

	(void)arg;
	shared->pid[0] = getpid();
	main_thread = pthread_self();
	pthread_create(&thread, NULL, outlive_main, NULL);
	pthread_exit(NULL);
}

static void fork_headless(void *arg)
{
	bt_reap(bt_fork(end_main_thread, arg));
}

static void main_thread_goes_first(void **state)
{
	(void)state;
	bt_run(&job, fork_headless);
	/* it could still have a child, so the job still knew it */
	assert_int_equal(birth_of(shared->pid[2])->hdr.tgid, shared->pid[0]);
	assert_int_equal(death_of(shared->pid[2])->exit_code, 42 << 8);
	assert_true(death_of(shared->pid[0])->hdr.ts_ns < death_of(shared->tid[0])->hdr.ts_ns);
	assert_int_equal(bt_count(&job, DLP_EV_EXIT, shared->pid[0]), 1);
}

/* ---- exec ---- */

static void become_sleep(void *arg)
{
	(void)arg;
	shared->pid[0] = getpid();
	/* open scopes of a program that is gone must not swallow those of the next */
	bt_enter("enumerate(DataLoader)#Before.__next__");
	bt_enter("inner");
	execlp("sleep", "sleep", "0.05", NULL);
	_exit(127);
}

static void fork_exec(void *arg)
{
	shared->before_ns = dlp_now_ns();
	bt_reap(bt_fork(become_sleep, arg));
	shared->after_ns = dlp_now_ns();
}

static void exec(void **state)
{
	const struct dlp_ev_exit *death;
	struct bt_event *event;

	(void)state;
	bt_run(&job, fork_exec);
	death = death_of(shared->pid[0]);
	if (death->exit_code == 127 << 8)
		bt_skip("there is no sleep to execute");
	event = bt_find(&job, DLP_EV_EXEC, shared->pid[0], 0);
	assert_non_null(event);
	assert_string_equal(event->exec.comm, "sleep");
	assert_in_range(event->hdr.ts_ns, shared->before_ns, shared->after_ns);
	assert_int_equal(bt_count(&job, DLP_EV_EXEC, 0), 1);
	/* the thread goes on, and so does its clock */
	assert_true(death->clock.ns[DLP_ST_SLEEP] >= 45 * BT_MS);
	assert_true(bt_near(bt_sum(&death->clock), death->hdr.ts_ns - death->traced_ns, 0.01, 0));
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, shared->pid[0]), 0);
}

static void become_test(void *arg)
{
	(void)arg;
	shared->pid[0] = getpid();
	bt_enter("enumerate(DataLoader)#Before.__next__");
	bt_enter("inner");
	execl(bt_self_path(), "test_process", "--after-exec", NULL);
	_exit(127);
}

static void fork_exec_self(void *arg)
{
	bt_reap(bt_fork(become_test, arg));
}

/* Scopes of the new program begin at depth 0, its GetNext is an outermost one. */
static void scopes_after_exec(void **state)
{
	const struct dlp_ev_scope *scope;

	(void)state;
	bt_run(&job, fork_exec_self);
	assert_int_equal(death_of(shared->pid[0])->exit_code, 0);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, shared->pid[0]), 1);
	scope = &bt_find(&job, DLP_EV_SCOPE, shared->pid[0], 0)->scope;
	assert_int_equal(scope->depth, 0);
	assert_int_equal(scope->hdr.flags, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
	assert_int_equal(death_of(shared->pid[0])->counts.getnext_cnt, 1);
}

static int after_exec(void)
{
	bt_enter("enumerate(DataLoader)#After.__next__");
	bt_exit();
	return 0;
}

/* ---- what must be forgotten ---- */

static void nothing(void *arg)
{
	(void)arg;
}

#define BATCH 64

static void fork_batch(void *arg)
{
	pid_t pid[BATCH];

	(void)arg;
	for (int i = 0; i < BATCH; i++)
		pid[i] = bt_fork(nothing, NULL);
	for (int i = 0; i < BATCH; i++)
		bt_reap(pid[i]);
}

/*
 * Calls of programs that the kernel left out: on 7.x a program whose thread loses the CPU is taken for
 * a recursion of itself by other threads there, which emulated code meets.
 */
static uint64_t skipped(void)
{
	struct dlp_ev_counters counters = { 0 };

	dlp_session_counters(job.session, &counters);
	return counters.recursion_misses;
}

/* More processes than either table holds, one after the other: the dead must make room. */
static void tables_do_not_fill_up(void **state)
{
	uint64_t missing = 0;

	(void)state;
	bt_job_need(&job);
	for (int i = 0; i < DLP_JOB_MAX / BATCH + 4; i++) {
		bt_clear(&job);
		bt_call(&job, fork_batch, NULL);
		bt_drain(&job);
		missing += 2 * BATCH - bt_count(&job, DLP_EV_FORK, 0) -
			   bt_count(&job, DLP_EV_EXIT, 0);
		assert_in_range(missing, 0, skipped());
	}
	assert_int_equal(bt_counter(&job, DLP_CNT_JOB_FULL), 0);
	assert_int_equal(bt_counter(&job, DLP_CNT_STORAGE), 0);
	bt_sweep(&job);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, 0), 1);
}

static void *no_thread(void *arg)
{
	return arg;
}

#define THREAD_BATCH 512

static void start_batch(void *arg)
{
	pthread_t thread[THREAD_BATCH];

	(void)arg;
	for (int i = 0; i < THREAD_BATCH; i++) {
		pthread_create(&thread[i], NULL, no_thread, NULL);
		pthread_join(thread[i], NULL);
	}
}

static void threads_do_not_fill_up(void **state)
{
	(void)state;
	bt_job_need(&job);
	for (int i = 0; i < DLP_THREADS_MAX / THREAD_BATCH + 2; i++) {
		bt_clear(&job);
		bt_call(&job, start_batch, NULL);
		/* who joins a thread may go on before its last steps */
		drain_until(DLP_EV_EXIT, 0, THREAD_BATCH);
	}
	assert_int_equal(bt_counter(&job, DLP_CNT_STORAGE), 0);
}

static void strangers(void **state)
{
	(void)state;
	bt_job_need(&job);
	fork_batch(NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_FORK, 0), 0);
	assert_int_equal(bt_count(&job, DLP_EV_EXIT, 0), 0);
}

#define STORAGE(name) { "task storage: " #name, name, open_job, close_job, NULL }
#define HASH(name)    { "hash: " #name, name, open_job_hash, close_job, NULL }

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STORAGE(generations),
		STORAGE(orphans),
		STORAGE(threads),
		STORAGE(main_thread_goes_first),
		STORAGE(exec),
		STORAGE(scopes_after_exec),
		STORAGE(strangers),
		HASH(generations),
		HASH(threads),
		HASH(scopes_after_exec),
		HASH(tables_do_not_fill_up),
		HASH(threads_do_not_fill_up),
	};

	if (argc > 1 && !strcmp(argv[1], "--after-exec"))
		return after_exec();
	shared = bt_shared(sizeof(*shared));
	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
