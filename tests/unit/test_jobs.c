/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The job's processes on a made-up /proc: who is found, and what is reported of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "jobs.h"
#include "tree.h"
#include "util.h"

#define TRAINER 100
#define CHILD 101
/* within the tick that tree.h gives it */
#define CHILD_BORN_NS 51012345678ull

static struct tree tree;
static struct dlp_jobs *jobs;
static struct dlp_ev_proc seen[8];
static size_t seen_cnt;
static pid_t added[8];
static size_t added_cnt;

static void add_process(int pid, int ppid)
{
	tree_add_process(&tree, &(struct tree_process){ .pid = pid,
							.ppid = ppid,
							.comm = "python",
							.exe = "/usr/bin/python3",
							.cmdline = "python|train.py" });
}

static int start(void **state)
{
	(void)state;
	tree_init(&tree);
	add_process(TRAINER, 1);
	seen_cnt = 0;
	added_cnt = 0;
	return dlp_jobs_new(tree.path, TRAINER, &jobs);
}

static int end(void **state)
{
	(void)state;
	dlp_jobs_free(jobs);
	tree_fini(&tree);
	return 0;
}

static int on_add(void *ctx, pid_t pid, const struct dlp_interpreter *python)
{
	(void)ctx;
	/* no interpreter is mapped in the tree */
	assert_int_equal(python->gil_lo | python->gil_hi | python->file.inode, 0);
	assert_true(added_cnt < DLP_ARRAY_SIZE(added));
	added[added_cnt++] = pid;
	return 0;
}

static int on_event(void *ctx, const void *event, size_t bytes)
{
	(void)ctx;
	assert_true(seen_cnt < DLP_ARRAY_SIZE(seen));
	assert_int_equal(bytes, sizeof(seen[0]));
	memcpy(&seen[seen_cnt++], event, bytes);
	return 0;
}

static void report(uint64_t now_ns)
{
	seen_cnt = 0;
	assert_int_equal(dlp_jobs_report(jobs, now_ns, on_event, on_add, NULL), 0);
}

static void figures_are_those_of_proc(void **state)
{
	const uint64_t tick_ns = DLP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	add_process(CHILD, TRAINER);
	assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
	assert_int_equal(added_cnt, 2);
	assert_int_equal(added[0], TRAINER);
	assert_int_equal(added[1], CHILD);
	report(5);
	assert_int_equal(seen_cnt, 2);
	assert_int_equal(seen[0].hdr.kind, DLP_EV_PROC);
	assert_int_equal(seen[0].hdr.ts_ns, 5);
	assert_int_equal(seen[0].hdr.tgid, TRAINER);
	assert_int_equal(seen[0].role, DLP_ROLE_TRAINER);
	assert_int_equal(seen[1].ppid, TRAINER);
	assert_int_equal(seen[0].minflt, 2000);
	assert_int_equal(seen[0].majflt, 7);
	assert_int_equal(seen[0].utime_ns, 123 * tick_ns);
	assert_int_equal(seen[0].stime_ns, 45 * tick_ns);
	assert_int_equal(seen[0].threads, 3);
	assert_int_equal(seen[0].cpus, 8);
	assert_int_equal(seen[0].ended, 0);
	/* known ones are not told of again */
	assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
	assert_int_equal(added_cnt, 2);
}

static void lives_come_from_events(void **state)
{
	const struct dlp_ev_fork fork = {
		.hdr = { .size = sizeof(fork),
			 .kind = DLP_EV_FORK,
			 .ts_ns = CHILD_BORN_NS,
			 .tgid = TRAINER,
			 .tid = TRAINER },
		.child_tgid = CHILD,
		.child_tid = CHILD,
	};
	const struct dlp_ev_exit exit = {
		.hdr = { .size = sizeof(exit), .kind = DLP_EV_EXIT, .tgid = CHILD, .tid = CHILD },
	};

	(void)state;
	assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
	add_process(CHILD, TRAINER);
	dlp_jobs_apply(jobs, &fork.hdr);
	report(1);
	assert_int_equal(seen_cnt, 2);
	assert_int_equal(seen[1].born_ns, CHILD_BORN_NS);
	/* reported once more with the last figures, then never again */
	dlp_jobs_apply(jobs, &exit.hdr);
	report(2);
	assert_int_equal(seen_cnt, 2);
	assert_int_equal(seen[1].ended, 1);
	assert_int_equal(seen[1].minflt, 2000);
	report(3);
	assert_int_equal(seen_cnt, 1);
	/* gone without an event */
	assert_int_equal(unlink(tree_path(&tree, "proc/100/stat")), 0);
	report(4);
	assert_int_equal(seen[0].ended, 1);
	report(5);
	assert_int_equal(seen_cnt, 0);
}

static pid_t gone[4];
static size_t gone_cnt;

static void on_gone(void *ctx, pid_t pid)
{
	(void)ctx;
	assert_true(gone_cnt < DLP_ARRAY_SIZE(gone));
	gone[gone_cnt++] = pid;
}

static void add_later_process(int pid, int ppid)
{
	tree_add_process(&tree, &(struct tree_process){ .pid = pid,
							.ppid = ppid,
							.comm = "other",
							.exe = "/usr/bin/other",
							.cmdline = "other",
							.start_ticks = 900000 });
}

static void numbers_are_used_again(void **state)
{
	(void)state;
	add_process(CHILD, TRAINER);
	assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
	/* before its end could be seen: a stranger's now, or a new child's */
	for (int ppid = 1; ppid <= TRAINER; ppid += TRAINER - 1) {
		gone_cnt = 0;
		added_cnt = 0;
		add_later_process(CHILD, ppid);
		dlp_jobs_leave_out_gone(jobs, on_gone, NULL);
		assert_int_equal(gone_cnt, ppid == 1);
		assert_true(ppid != 1 || gone[0] == CHILD);
		assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
		assert_int_equal(added_cnt, ppid == TRAINER);
	}
}

static void an_end_that_got_lost(void **state)
{
	struct dlp_ev_fork fork = {
		.hdr = { .size = sizeof(fork),
			 .kind = DLP_EV_FORK,
			 .ts_ns = CHILD_BORN_NS,
			 .tgid = TRAINER,
			 .tid = TRAINER },
		.child_tgid = CHILD,
		.child_tid = CHILD,
	};

	(void)state;
	add_process(CHILD, TRAINER);
	assert_int_equal(dlp_jobs_scan(jobs, on_add, NULL), 0);
	/* its own birth, told late, is nothing new */
	dlp_jobs_apply(jobs, &fork.hdr);
	report(1);
	assert_int_equal(seen_cnt, 2);
	/* a stranger: reported as ended, with what was known */
	add_later_process(CHILD, 1);
	report(2);
	assert_int_equal(seen_cnt, 2);
	assert_int_equal(seen[1].ended, 1);
	assert_int_equal(seen[1].ppid, TRAINER);
	/* a new child after another */
	fork.hdr.ts_ns = 9000012345678ull;
	dlp_jobs_apply(jobs, &fork.hdr);
	report(3);
	fork.hdr.ts_ns = 9500012345678ull;
	dlp_jobs_apply(jobs, &fork.hdr);
	add_process(CHILD, TRAINER);
	report(4);
	assert_int_equal(seen_cnt, 3);
	assert_int_equal(seen[1].ended, 1);
	assert_int_equal(seen[2].ended, 0);
	assert_int_equal(seen[2].born_ns, 9500012345678ull);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(figures_are_those_of_proc),
		TEST(lives_come_from_events),
		TEST(numbers_are_used_again),
		TEST(an_end_that_got_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
