/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clocks of living threads through the task iterator: of those that never leave the CPU, of those
 * that wait, of those that waited before anybody looked.
 */
#include "arch.h"
#include "harness.h"
#include "scene.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTEMPTS 4

static struct bt_job job;

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void open_job(uint32_t without)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE, .without = without,
					.gil_lo = (uintptr_t)bt_gil,
					.gil_hi = (uintptr_t)bt_gil + sizeof(bt_gil) };

	bt_job_open(&job, &setup);
}

static void begin_scene(const struct bt_scene *scene)
{
	memset(bt_truth, 0, sizeof(*bt_truth));
	bt_begin(&job, bt_scene_run, (void *)scene);
	while (!__atomic_load_n(&bt_truth->begun, __ATOMIC_ACQUIRE))
		bt_sleep_ns(BT_MS);
}

static void release_scene(void)
{
	__atomic_store_n(&bt_truth->released, 1, __ATOMIC_RELEASE);
	bt_end(&job);
}

static uint64_t live_cpu_ns(void)
{
	return __atomic_load_n(&bt_truth->live_cpu_ns, __ATOMIC_ACQUIRE);
}

static void wait_for_cpu(uint64_t ns)
{
	while (live_cpu_ns() < ns)
		bt_sleep_ns(BT_MS);
}

static const struct dlp_ev_clock *look(void)
{
	uint64_t before = dlp_now_ns();
	const struct dlp_ev_clock *clock;

	bt_sweep(&job);
	clock = bt_last_clock(&job, bt_truth->pid);
	assert_in_range(clock->hdr.ts_ns, before, dlp_now_ns());
	assert_int_equal(clock->hdr.tgid, bt_truth->pid);
	assert_true(clock->hdr.flags & DLP_THREAD_MAIN);
	assert_in_range(clock->traced_ns, bt_truth->fork_ns, bt_truth->born_ns);
	if (!bt_near(bt_sum(&clock->clock), clock->hdr.ts_ns - clock->traced_ns, 0.01, 0))
		fail_msg("the sum is %llu, the thread is %llu ns old",
			 (unsigned long long)bt_sum(&clock->clock),
			 (unsigned long long)(clock->hdr.ts_ns - clock->traced_ns));
	return clock;
}

/* The thread's own CPU clock, read before and after, encloses what the sweep says. */
static bool run_is_right(void)
{
	uint64_t low = live_cpu_ns(), run = look()->clock.ns[DLP_ST_RUN];

	return bt_between(run, low, live_cpu_ns(), 0.02, 5 * BT_MS);
}

static void check_spinning(uint32_t without)
{
	open_job(without);
	begin_scene(&bt_scene_spin_live);
	for (int i = 1; i <= 3; i++) {
		bool right = false;

		wait_for_cpu((uint64_t)i * 20 * BT_MS);
		for (int attempt = 0; attempt < ATTEMPTS && !right; attempt++)
			right = run_is_right();
		assert_true(right);
	}
	release_scene();
}

static void spinning(void **state)
{
	(void)state;
	check_spinning(0);
}

static void spinning_hash(void **state)
{
	(void)state;
	check_spinning(DLP_FEATURE_BIT(TASK_STORAGE));
}

/* Nothing but the sweep ever looks at such a thread. */
static void never_switches(void **state)
{
	bool seen = false;

	(void)state;
	open_job(0);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		bt_skip("needs two CPUs");
	begin_scene(&bt_scene_spin_fifo);
	for (int attempt = 0; attempt < 20 && !seen; attempt++) {
		struct dlp_ev_clock first, second;

		first = *look();
		wait_for_cpu(live_cpu_ns() + 20 * BT_MS);
		second = *look();
		if (second.counts.switch_cnt != first.counts.switch_cnt)
			continue;
		seen = true;
		assert_int_equal(second.state, DLP_ST_RUN);
		assert_int_equal(second.since_ns, first.since_ns);
		assert_int_equal(second.clock.ns[DLP_ST_RUN] - first.clock.ns[DLP_ST_RUN],
				 second.hdr.ts_ns - first.hdr.ts_ns);
	}
	release_scene();
	if (!seen)
		bt_skip("the spinning thread was switched out every time");
}

/* Until the worker is off the CPU the state may still be run; then all is as the scene says. */
static void check_waiting(const char *name)
{
	const struct bt_scene *scene = bt_scene_find(name);
	const struct dlp_ev_clock *clock;
	struct dlp_ev_clock first;

	begin_scene(scene);
	bt_wait_blocked(bt_truth->pid);
	first = *look();
	assert_int_equal(first.state, scene->state);
	assert_int_equal(first.syscall, scene->syscall);
	if (bt_truth->object)
		assert_int_equal(first.object, bt_truth->object);
	assert_in_range(first.since_ns, bt_truth->begin_ns, first.hdr.ts_ns);
	clock = look();
	if (clock->since_ns == first.since_ns)
		assert_int_equal(clock->clock.ns[scene->state] - first.clock.ns[scene->state],
				 clock->hdr.ts_ns - first.hdr.ts_ns);
	bt_end(&job);
	/* dead: no longer in the sweep, its last word was the EXIT */
	bt_clear(&job);
	bt_sweep(&job);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, bt_truth->pid), 0);
}

static void waiting(void **state)
{
	static const char *const names[] = { "nanosleep", "unknown-pipe", "unknown-pipe-poll",
					     "loader-poll", "tcp-recv", "flock", "gil-futex" };

	(void)state;
	open_job(0);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(names); i++)
		check_waiting(names[i]);
}

/* ---- threads that were blocked before there was a session ---- */

static int quiet[2];
static struct sockaddr_in quiet_address;

static void sleep_long(void *arg)
{
	(void)arg;
	bt_sleep_ns(1000 * DLP_NS_PER_S);
}

static void read_quiet_pipe(void *arg)
{
	char byte;

	(void)arg;
	(void)!read(quiet[0], &byte, 1);
}

static void poll_quiet_pipe(void *arg)
{
	struct pollfd pollfd = { .fd = quiet[0], .events = POLLIN };

	(void)arg;
	poll(&pollfd, 1, -1);
}

static void wait_for_futex(void *arg)
{
	(void)arg;
	syscall(SYS_futex, quiet, 0 /* FUTEX_WAIT */, quiet[0], NULL, NULL, 0);
}

static void receive_datagram(void *arg)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char byte;

	(void)arg;
	(void)bind(fd, (struct sockaddr *)&quiet_address, sizeof(quiet_address));
	recv(fd, &byte, 1, 0);
}

static void pause_long(void *arg)
{
	(void)arg;
	pause();
}

static const struct {
	bt_fn fn;
	enum dlp_state state;
	int syscall;
} before[] = {
	{ sleep_long, DLP_ST_SLEEP, SYS_clock_nanosleep },
	{ read_quiet_pipe, DLP_ST_PIPE, SYS_read },
	/* its pollfd is out of reach: a worker's main thread that polls most likely has nothing to do */
	{ poll_quiet_pipe, DLP_ST_IDLE, DLP_ARCH_SYS_POLL },
	{ wait_for_futex, DLP_ST_LOCK, SYS_futex },
	{ receive_datagram, DLP_ST_NET, SYS_recvfrom },
	{ pause_long, DLP_ST_SLEEP, DLP_ARCH_SYS_PAUSE },
};

static void fork_waiters(void *arg)
{
	pid_t *pid = arg;

	if (pipe(quiet))
		return;
	quiet_address.sin_family = AF_INET;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(before); i++)
		pid[i] = bt_fork(before[i].fn, NULL);
}

static void check_adopted(uint32_t without)
{
	struct bt_setup setup = { .probes = BT_PROBE_SCOPE, .without = without,
				  .more_cnt = DLP_ARRAY_SIZE(before) };
	pid_t *pid = bt_shared(sizeof(*pid) * DLP_ARRAY_SIZE(before));
	uint64_t opened = dlp_now_ns();

	bt_job_start(&job);
	bt_call(&job, fork_waiters, pid);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(before); i++)
		bt_wait_blocked(pid[i]);
	setup.more = pid;
	bt_job_observe(&job, &setup);
	bt_job_need(&job);
	bt_sweep(&job);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(before); i++) {
		const struct dlp_ev_clock *clock = bt_last_clock(&job, pid[i]);

		assert_int_equal(clock->state, before[i].state);
		assert_int_equal(clock->syscall, before[i].syscall);
		assert_in_range(clock->traced_ns, opened, clock->hdr.ts_ns);
		/* it has been in this one state since it is known */
		assert_int_equal(clock->clock.ns[before[i].state],
				 clock->hdr.ts_ns - clock->traced_ns);
		assert_int_equal(bt_sum(&clock->clock), clock->clock.ns[before[i].state]);
		kill(pid[i], SIGKILL);
	}
}

static void adopted(void **state)
{
	(void)state;
	check_adopted(0);
}

static void adopted_hash(void **state)
{
	(void)state;
	check_adopted(DLP_FEATURE_BIT(TASK_STORAGE));
}

/* Only the job is in the sweep. */
static void strangers_are_not_swept(void **state)
{
	(void)state;
	open_job(0);
	bt_sweep(&job);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, 0), 1);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, job.trainer), 1);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void leave_zombie(void *arg)
{
	siginfo_t info;
	pid_t pid = bt_fork(nothing, NULL);

	/* dead for certain, and still listed until somebody takes its status */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT))
		;
	*(pid_t *)arg = pid;
}

static void zombies_are_not_swept(void **state)
{
	pid_t *pid = bt_shared(sizeof(*pid));

	(void)state;
	open_job(0);
	bt_call(&job, leave_zombie, pid);
	bt_drain(&job);
	bt_sweep(&job);
	assert_int_equal(kill(*pid, 0), 0);
	assert_int_equal(bt_count(&job, DLP_EV_EXIT, *pid), 1);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, *pid), 0);
}

/* More records than one read() of the iterator holds: none lost, none cut. */
#define MANY 200

static void fork_many(void *arg)
{
	pid_t *pid = arg;

	for (int i = 0; i < MANY; i++)
		pid[i] = bt_fork(sleep_long, NULL);
}

static void many_threads(void **state)
{
	pid_t *pid = bt_shared(sizeof(*pid) * MANY);

	(void)state;
	open_job(0);
	bt_call(&job, fork_many, pid);
	bt_clear(&job);
	bt_sweep(&job);
	assert_int_equal(bt_count(&job, DLP_EV_CLOCK, 0), MANY + 1);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(bt_count(&job, DLP_EV_CLOCK, pid[i]), 1);
		assert_int_equal(bt_last_clock(&job, pid[i])->hdr.size, sizeof(struct dlp_ev_clock));
	}
	for (int i = 0; i < MANY; i++)
		kill(pid[i], SIGKILL);
}

/* ---- page faults, user and kernel time ---- */

#define PAGES	 1000
#define BURN_NS	 (400 * BT_MS)

static struct usage {
	struct rusage before, after;
	char why[120];
	int fd; /* of the trainer */
} *usage;

static void make_file(void *arg)
{
	(void)arg;
	usage->fd = bt_block_file(usage->why, PAGES * (size_t)sysconf(_SC_PAGESIZE));
}

static void touch_pages(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *fresh, *cold;

	(void)arg;
	fresh = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cold = mmap(NULL, PAGES * page, PROT_READ, MAP_SHARED, usage->fd, 0);
	if (fresh == MAP_FAILED || cold == MAP_FAILED)
		return;
	madvise((void *)fresh, PAGES * page, MADV_NOHUGEPAGE);
	madvise((void *)cold, PAGES * page, MADV_RANDOM);
	posix_fadvise(usage->fd, 0, 0, POSIX_FADV_DONTNEED);
	getrusage(RUSAGE_THREAD, &usage->before);
	for (size_t i = 0; i < PAGES; i++)
		fresh[i * page] = 1;
	for (size_t i = 0; i < PAGES; i += 10)
		(void)cold[i * page];
	getrusage(RUSAGE_THREAD, &usage->after);
}

static void burn(void *arg)
{
	uint64_t end = bt_cpu_ns() + BURN_NS;

	(void)arg;
	while (bt_cpu_ns() < end) {
		for (volatile int i = 0; i < 100000; i++)
			;
	}
}

static struct dlp_ev_clock sweep_after(bt_fn fn)
{
	bt_call(&job, fn, NULL);
	bt_sweep(&job);
	return *bt_last_clock(&job, job.trainer);
}

static void page_faults(void **state)
{
	struct dlp_ev_clock first, second;
	uint64_t minflt, majflt;

	(void)state;
	usage = usage ? usage : bt_shared(sizeof(*usage));
	open_job(0);
	first = sweep_after(make_file);
	if (usage->fd < 0)
		bt_skip("%s", usage->why);
	second = sweep_after(touch_pages);
	minflt = (uint64_t)(usage->after.ru_minflt - usage->before.ru_minflt);
	majflt = (uint64_t)(usage->after.ru_majflt - usage->before.ru_majflt);
	assert_true(minflt >= PAGES);
	assert_true(majflt > 0);
	/* a few more around it: stack, libraries */
	assert_in_range(second.minflt - first.minflt, minflt, minflt + 100);
	assert_in_range(second.majflt - first.majflt, majflt, majflt + 10);
}

/* By timer ticks, so only roughly; most of it in user space. */
static void user_time(void **state)
{
	struct dlp_ev_clock first, second;
	uint64_t utime_ns, stime_ns;

	(void)state;
	open_job(0);
	first = sweep_after(nothing);
	second = sweep_after(burn);
	utime_ns = second.utime_ns - first.utime_ns;
	stime_ns = second.stime_ns - first.stime_ns;
	assert_in_range(utime_ns, BURN_NS / 2, BURN_NS * 3 / 2);
	assert_true(stime_ns < utime_ns / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(spinning, close_job),
		cmocka_unit_test_teardown(spinning_hash, close_job),
		cmocka_unit_test_teardown(never_switches, close_job),
		cmocka_unit_test_teardown(waiting, close_job),
		cmocka_unit_test_teardown(adopted, close_job),
		cmocka_unit_test_teardown(adopted_hash, close_job),
		cmocka_unit_test_teardown(strangers_are_not_swept, close_job),
		cmocka_unit_test_teardown(zombies_are_not_swept, close_job),
		cmocka_unit_test_teardown(many_threads, close_job),
		cmocka_unit_test_teardown(page_faults, close_job),
		cmocka_unit_test_teardown(user_time, close_job),
	};

	bt_scene_setup();
	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
