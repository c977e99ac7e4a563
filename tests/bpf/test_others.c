/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who else uses the CPUs: the sampler's estimate for busy processes outside the job against the
 * scheduler's own account of them. The job's processes, its kin and the observer are not among them:
 * of the job's the sampler tells how much they collect garbage.
 */
#include "harness.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* Whole seconds of CPU, by 47 samples a second: their number is known to 1 or 2 %. */
#define OBSERVED_NS (4 * DLP_NS_PER_S)
#define ATTEMPTS    3

static struct bt_job job;

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void spin_for_ever(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "neighbour");
	for (volatile unsigned int i = 0;; i++)
		;
}

/* CPU time of all its threads, by the scheduler. */
static uint64_t process_cpu_ns(pid_t pid)
{
	char path[64];
	uint64_t ns = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%" SCNu64, &ns) != 1)
		fail_msg("process %d is gone", (int)pid);
	fclose(file);
	return ns;
}

/* Busy time of all CPUs together: user, nice and system of /proc/stat, in ticks of 10 ms. */
static uint64_t machine_busy_ns(void)
{
	uint64_t user = 0, nice_ticks = 0, system_ticks = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file || fscanf(file, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64, &user, &nice_ticks,
			    &system_ticks) != 3)
		fail_msg("/proc/stat can't be read");
	fclose(file);
	return (user + nice_ticks + system_ticks) * (DLP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

/*
 * /proc/stat counts ticks, and an emulated CPU misses some of its own: what single processes are known
 * to have used is the least that all together did.
 */
static uint64_t at_least(uint64_t busy_ns, uint64_t known_ns)
{
	return (int64_t)(busy_ns - known_ns) < 0 ? known_ns : busy_ns;
}

static struct dlp_ev_other other_of(pid_t tgid)
{
	for (size_t i = job.event_cnt; i--;) {
		if (job.event[i].hdr.kind == DLP_EV_OTHER && job.event[i].hdr.tgid == (uint32_t)tgid)
			return job.event[i].other;
	}
	return (struct dlp_ev_other){ 0 };
}

static void open_job(void)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE };

	bt_job_open(&job, &setup);
}

/* One attempt: does the estimate agree for each of two neighbours, and for all together? */
static bool estimate_is_right(const pid_t neighbour[2])
{
	uint64_t truth[2], busy_ns, own_ns, before_ns = dlp_now_ns();
	bool right = true;

	open_job();
	busy_ns = machine_busy_ns();
	own_ns = bt_cpu_ns();
	for (int i = 0; i < 2; i++)
		truth[i] = process_cpu_ns(neighbour[i]);
	bt_sleep_ns(OBSERVED_NS);
	bt_others(&job);
	for (int i = 0; i < 2; i++) {
		const struct dlp_ev_other other = other_of(neighbour[i]);

		truth[i] = process_cpu_ns(neighbour[i]) - truth[i];
		print_message("# neighbour %d: %.0f ms, estimate %.0f ms by %d samples\n", i,
			      (double)truth[i] / BT_MS, (double)other.cpu_ns / BT_MS,
			      (int)other.samples);
		right = right && bt_near(other.cpu_ns, truth[i], 0.15, 100 * BT_MS);
		assert_string_equal(other.comm, "neighbour");
		assert_in_range(other.hdr.ts_ns, before_ns + OBSERVED_NS, dlp_now_ns());
		assert_int_equal(other.hdr.tid, other.hdr.tgid);
	}
	busy_ns = at_least(machine_busy_ns() - busy_ns - (bt_cpu_ns() - own_ns), truth[0] + truth[1]);
	print_message("# all: %.0f ms, estimate %.0f ms\n", (double)busy_ns / BT_MS,
		      (double)other_of(0).cpu_ns / BT_MS);
	return right && bt_near(other_of(0).cpu_ns, busy_ns, 0.15, 100 * BT_MS);
}

static void busy_neighbours(void **state)
{
	pid_t neighbour[2];
	bool right = false;

	(void)state;
	fflush(NULL);
	for (int i = 0; i < 2; i++)
		neighbour[i] = bt_fork(spin_for_ever, NULL);
	for (int attempt = 0; attempt < ATTEMPTS && !right; attempt++) {
		bt_job_close(&job);
		right = estimate_is_right(neighbour);
	}
	for (int i = 0; i < 2; i++) {
		kill(neighbour[i], SIGKILL);
		bt_reap(neighbour[i]);
	}
	assert_true(right);
}

static bool is_that(void *ctx, uint32_t tgid)
{
	return tgid == *(uint32_t *)ctx;
}

/* One attempt: is the sum that of the machine's other work, without one neighbour who is kin? */
static bool sum_is_without(pid_t kin, pid_t stranger)
{
	uint32_t tgid = (uint32_t)kin;
	uint64_t busy_ns, known_ns, first_ns;

	open_job();
	dlp_session_set_kin(job.session, is_that, &tgid);
	busy_ns = machine_busy_ns() - process_cpu_ns(kin) - bt_cpu_ns();
	known_ns = process_cpu_ns(stranger);
	bt_sleep_ns(OBSERVED_NS / 2);
	bt_others(&job);
	first_ns = other_of(0).cpu_ns;
	bt_sleep_ns(OBSERVED_NS / 2);
	bt_others(&job);
	busy_ns = at_least(machine_busy_ns() - process_cpu_ns(kin) - bt_cpu_ns() - busy_ns,
			   process_cpu_ns(stranger) - known_ns);
	assert_int_equal(other_of(kin).samples, 0);
	assert_true(other_of(stranger).samples > 0);
	assert_true(other_of(0).cpu_ns >= first_ns);
	print_message("# all but one: %.0f ms, estimate %.0f ms\n", (double)busy_ns / BT_MS,
		      (double)other_of(0).cpu_ns / BT_MS);
	return bt_near(other_of(0).cpu_ns, busy_ns, 0.15, 100 * BT_MS);
}

static void kin_are_no_strangers(void **state)
{
	pid_t kin, stranger;
	bool right = false;

	(void)state;
	fflush(NULL);
	kin = bt_fork(spin_for_ever, NULL);
	stranger = bt_fork(spin_for_ever, NULL);
	for (int attempt = 0; attempt < ATTEMPTS && !right; attempt++) {
		bt_job_close(&job);
		right = sum_is_without(kin, stranger);
	}
	kill(kin, SIGKILL);
	bt_reap(kin);
	kill(stranger, SIGKILL);
	bt_reap(stranger);
	assert_true(right);
}

static void burn(void *arg)
{
	uint64_t end = bt_cpu_ns() + DLP_NS_PER_S;

	(void)arg;
	while (bt_cpu_ns() < end)
		;
}

static void burn_in_both(void *arg)
{
	pid_t worker = bt_fork(burn, arg);

	burn(arg);
	bt_reap(worker);
}

static void the_job_and_the_observer_are_left_out(void **state)
{
	(void)state;
	open_job();
	bt_begin(&job, burn_in_both, NULL);
	burn(NULL);
	bt_end(&job);
	bt_others(&job);
	/* some part of a second of the machine's other work, but no trace of these three */
	for (size_t i = 0; i < job.event_cnt; i++) {
		if (job.event[i].hdr.kind != DLP_EV_OTHER)
			continue;
		assert_int_not_equal(job.event[i].hdr.tgid, job.trainer);
		assert_int_not_equal(job.event[i].hdr.tgid, getpid());
		assert_true(strcmp(job.event[i].other.comm, "test_others"));
	}
}

/* The sum first, then no more than 16, largest first. */
static void largest_first(void **state)
{
	pid_t pid[24];
	uint64_t named = 0, last = UINT64_MAX;

	(void)state;
	fflush(NULL);
	open_job();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(pid); i++)
		pid[i] = bt_fork(spin_for_ever, NULL);
	bt_sleep_ns(2 * DLP_NS_PER_S);
	bt_others(&job);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(pid); i++) {
		kill(pid[i], SIGKILL);
		bt_reap(pid[i]);
	}
	assert_int_equal(bt_count(&job, DLP_EV_OTHER, 0), 17);
	assert_int_equal(job.event[0].hdr.tgid, 0);
	for (size_t i = 1; i < 17; i++) {
		const struct dlp_ev_other *other = &job.event[i].other;

		assert_int_equal(other->hdr.kind, DLP_EV_OTHER);
		assert_true(other->samples > 0 && other->samples <= last);
		last = other->samples;
		named += other->samples;
	}
	assert_true(job.event[0].other.samples >= named);
}

/* A section of its own has a beginning and an end. */
#define COLLECTOR __attribute__((noinline, section("bt_collector")))
extern const char __start_bt_collector[], __stop_bt_collector[];

COLLECTOR static void collect(void)
{
	for (volatile unsigned int i = 0; i < 2000000; i++)
		;
}

static __attribute__((noinline)) void compute(void)
{
	for (volatile unsigned int i = 0; i < 2000000; i++)
		;
}

/* Shared with the job's processes: what each of the two spent where, ns. */
struct spent {
	uint64_t collected_ns, all_ns;
};

/* 3 s of CPU time, a good part of it in the collector. */
static void collect_and_compute(struct spent *spent)
{
	uint64_t first_ns = bt_cpu_ns();

	while (spent->all_ns < 3 * DLP_NS_PER_S) {
		uint64_t from_ns = bt_cpu_ns();

		collect();
		collect();
		spent->collected_ns += bt_cpu_ns() - from_ns;
		compute();
		spent->all_ns = bt_cpu_ns() - first_ns;
	}
}

static void in_the_child(void *arg)
{
	collect_and_compute((struct spent *)arg + 1);
}

static void collect_in_both(void *arg)
{
	pid_t worker = bt_fork(in_the_child, arg);

	collect_and_compute(arg);
	bt_reap(worker);
}

static struct dlp_ev_gc gc_of(pid_t tgid, bool other)
{
	struct dlp_ev_gc sum = { 0 };

	for (size_t i = 0; i < job.event_cnt; i++) {
		const struct dlp_ev_gc *ev = &job.event[i].gc;

		if (ev->hdr.kind != DLP_EV_GC || other == (ev->hdr.tgid == (uint32_t)tgid))
			continue;
		assert_int_equal(ev->hdr.tid, ev->hdr.tgid);
		sum.samples += ev->samples;
		sum.gc_samples += ev->gc_samples;
		sum.inside += ev->inside;
	}
	return sum;
}

static void expect_share(const struct dlp_ev_gc *gc, const struct spent *spent)
{
	double wanted = (double)spent->collected_ns / (double)spent->all_ns;
	double share = (double)gc->gc_samples / (double)gc->samples;

	print_message("# %u of %u samples: %.3f, by CPU time %.3f\n", gc->gc_samples, gc->samples,
		      share, wanted);
	/* 141 samples are to come; 0.2 is some five standard errors of a share of so many */
	assert_in_range(gc->samples, 90, 190);
	assert_true(share > wanted - 0.2 && share < wanted + 0.2);
	assert_int_equal(gc->inside, 0);
}

/* The trainer's samples, and those of a child that was forked after attaching. */
static void collecting_is_told_apart(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE,
					.gc_lo = __start_bt_collector,
					.gc_hi = __stop_bt_collector };
	struct spent *spent = mmap(NULL, 2 * sizeof(*spent), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct dlp_ev_gc gc;

	(void)state;
	assert_ptr_not_equal(spent, MAP_FAILED);
	bt_job_open(&job, &setup);
	bt_begin(&job, collect_in_both, spent);
	bt_end(&job);
	bt_others(&job);
	gc = gc_of(job.trainer, false);
	expect_share(&gc, &spent[0]);
	gc = gc_of(job.trainer, true);
	expect_share(&gc, &spent[1]);
	/* taken out: the next call tells of what came since */
	bt_clear(&job);
	bt_others(&job);
	assert_true(gc_of(job.trainer, false).samples < 10);
	munmap(spent, 2 * sizeof(*spent));
}

/* Another interpreter than the target's: not known, so not counted. */
static void unknown_is_not_counted(void **state)
{
	(void)state;
	open_job();
	bt_begin(&job, burn, NULL);
	bt_end(&job);
	bt_others(&job);
	assert_int_equal(bt_count(&job, DLP_EV_GC, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(busy_neighbours, close_job),
		cmocka_unit_test_teardown(kin_are_no_strangers, close_job),
		cmocka_unit_test_teardown(the_job_and_the_observer_are_left_out, close_job),
		cmocka_unit_test_teardown(largest_first, close_job),
		cmocka_unit_test_teardown(collecting_is_told_apart, close_job),
		cmocka_unit_test_teardown(unknown_is_not_counted, close_job),
	};

	return cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
