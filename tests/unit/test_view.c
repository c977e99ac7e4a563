/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whole screens against tests/golden, at every size; keys; what untrusted text can do to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "keys.h"
#include "util.h"
#include "view.h"

#define MS DLP_NS_PER_MS
#define S DLP_NS_PER_S

static struct dlp_snapshot snap;
static struct dlp_view view;
static struct dlp_grid grid;

static void put_worker(uint32_t pid, double rate, const char *object)
{
	snap.worker[snap.worker_cnt++] = (struct dlp_snap_worker){
		.pid = pid,
		.loader = 1,
		.batch_cnt = 115,
		.rate = rate,
		.median_ns = 103 * MS,
		.p99_ns = 110 * MS,
		.max_ns = 112 * MS,
		.recent = { .ns = { [DLP_ST_RUN] = 80 * MS,
				    [DLP_ST_RUNQ] = 20 * MS,
				    [DLP_ST_DISK] = 2850 * MS,
				    [DLP_ST_IDLE] = 50 * MS } },
		.total = { .ns = { [DLP_ST_RUN] = 300 * MS,
				   [DLP_ST_RUNQ] = 100 * MS,
				   [DLP_ST_DISK] = 11000 * MS,
				   [DLP_ST_FAULT] = 400 * MS,
				   [DLP_ST_IDLE] = 200 * MS } },
		.age_ns = 95 * S,
		.known = true,
		.state = DLP_ST_DISK,
		.state_ns = 4200 * DLP_NS_PER_US,
		.call = "pread64",
		.fs = "ext4",
		.is_path = true,
		.threads = 3,
		.cpus = 2,
		.proc_known = true,
		.read_bytes = 38 << 20,
		.majflt = 12,
	};
	(void)snprintf(snap.worker[snap.worker_cnt - 1].object, 160, "%s", object);
	snap.workers_alive++;
}

static void put_all_loaders(void)
{
	snap.loader[0] = (struct dlp_snap_loader){
		.num_workers = 2,
		.prefetch = 4,
		.batch_cnt = 231,
		.rate = 19.02,
		.ready = 0.31,
		.getnext = { 41 * MS, 59500 * DLP_NS_PER_US, 69700 * DLP_NS_PER_US, 80 * MS },
		.step = { 52600 * DLP_NS_PER_US, 61 * MS, 75 * MS, 92 * MS },
		.exposed = 0.613,
		.bottleneck = DLP_BN_DATA_LOADING,
		.severity = DLP_SEV_HIGH,
		.cause = DLP_CAUSE_DISK_READ,
		.confidence = DLP_CONF_HIGH,
		.text = "Training waits 61 % of the time for data; the workers spend 97 % of their "
			"production time waiting for reads from a disk.",
		.candidate = { { DLP_CAUSE_DISK_READ, 0.94 }, { DLP_CAUSE_WORKER_CPU, 0.04 } },
		.candidate_cnt = 2,
		.advice =
			"Read less often and larger pieces: pack the samples into shards and read "
			"them in order, or move the data to a faster disk or into RAM.",
	};
	snap.loader_cnt = 1;
}

/* Two workers that read from a slow disk, watched for 95 s; the wait came in the second half. */
static int setup(void **state)
{
	(void)state;
	memset(&snap, 0, sizeof(snap));
	view = (struct dlp_view){ .unicode = true, .color = true };
	snap.pid = 4711;
	(void)snprintf(snap.cmdline, sizeof(snap.cmdline), "python train.py --epochs 3 --lr 0.1");
	snap.window_ns = 95 * S;
	snap.cost = 0.0042;
	snap.rss_bytes = 14 << 20;
	snap.complete = true;
	put_all_loaders();
	snap.worker[snap.worker_cnt++] = (struct dlp_snap_worker){
		.pid = 4711,
		.trainer = true,
		.rate = 19.02,
		.batch_cnt = 231,
		.recent = { .ns = { [DLP_ST_RUN] = 1100 * MS, [DLP_ST_PIPE] = 1900 * MS } },
		.total = { .ns = { [DLP_ST_RUN] = 4100 * MS, [DLP_ST_PIPE] = 7900 * MS } },
		.known = true,
		.state = DLP_ST_PIPE,
		.state_ns = 31 * MS,
		.call = "poll",
		.threads = 5,
	};
	put_worker(16365, 9.5, "/data/imagenet/train/shard-000317.tar");
	put_worker(16366, 9.49, "/data/imagenet/train/shard-000042.tar");
	snap.device[snap.device_cnt++] = (struct dlp_snap_device){
		.name = "nvme0n1",
		.reads = 307,
		.bytes = 9.6 * (1 << 20),
		.median_ns = 6320 * DLP_NS_PER_US,
		.p99_ns = 19 * MS,
	};
	snap.stage[snap.stage_cnt++] = (struct dlp_snap_stage){ .label = "decode",
								.worker = true,
								.sampled = true,
								.cnt = 12000,
								.median_ns = 310 * DLP_NS_PER_US,
								.max_ns = 4 * MS,
								.share = 0.031 };
	snap.stage[snap.stage_cnt++] = (struct dlp_snap_stage){
		.label = "Optimizer.step#SGD.step", .cnt = 231, .max_ns = 9 * MS, .share = NAN
	};
	snap.system = (struct dlp_snap_system){
		.cpus = 4,
		.busy = 0.35,
		.steal = 0.001,
		.others_cpus = 0.2,
		.other = "postgres 912",
		.quota_cpus = NAN,
		.throttled = NAN,
		.mem_known = true,
		.mem_available = 5ull << 30,
		.mem_total = 8ull << 30,
	};
	snap.interval_ns = S;
	for (; snap.history_cnt < 95; snap.history_cnt++)
		snap.history[snap.history_cnt] =
			snap.history_cnt < 40 ? 0.02f : (float)(snap.history_cnt % 10) / 10;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dlp_grid_fini(&grid);
	return 0;
}

static void draw(int rows, int cols)
{
	assert_int_equal(dlp_grid_resize(&grid, rows, cols), 0);
	dlp_view_draw(&view, &snap, &grid);
}

static void golden(const char *name, int rows, int cols)
{
	draw(rows, cols);
	golden_check(name, &grid);
}

static void test_sizes(void **state)
{
	(void)state;
	golden("disk-60x15", 15, 60);
	golden("disk-80x24", 24, 80);
	golden("disk-120x40", 40, 120);
	golden("disk-200x50", 50, 200);
}

static void test_too_small(void **state)
{
	(void)state;
	golden("small-59x14", 14, 59);
	/* whatever the size, nothing is written outside the grid (the sanitizers watch) */
	for (int rows = 1; rows < 45; rows++) {
		for (int cols = 1; cols < 130; cols += 3)
			draw(rows, cols);
	}
	for (unsigned int page = 0; page <= DLP_PAGE_HELP; page++) {
		view.page = page;
		view.selected = 16365;
		for (int rows = 15; rows < 45; rows++) {
			for (int cols = 60; cols < 130; cols += 3)
				draw(rows, cols);
		}
	}
}

/* Without colours and block characters letters tell the states apart. */
static void test_ascii(void **state)
{
	(void)state;
	view.unicode = view.color = false;
	golden("disk-ascii-80x24", 24, 80);
}

static void test_pages(void **state)
{
	(void)state;
	view.selected = 16365;
	view.page = DLP_PAGE_DETAIL;
	golden("detail-60x15", 15, 60);
	golden("detail-80x24", 24, 80);
	view.selected = 99;
	golden("detail-gone-60x15", 15, 60);
	view.page = DLP_PAGE_STAGES;
	golden("stages-80x24", 24, 80);
	view.page = DLP_PAGE_HELP;
	golden("help-60x15", 15, 60);
	golden("help-80x24", 24, 80);
	golden("help-130x30", 30, 130);
}

static void test_healthy(void **state)
{
	(void)state;
	snap.loader[0].exposed = 0.012;
	snap.loader[0].bottleneck = DLP_BN_NOT_DATA_LOADING;
	snap.loader[0].severity = DLP_SEV_NONE;
	snap.loader[0].cause = DLP_CAUSE_NONE;
	(void)snprintf(snap.loader[0].text, sizeof(snap.loader[0].text),
		       "Training waits only 1.2 %% of the time for data, and the workers are idle "
		       "91 %% of theirs: data loading is not the bottleneck.");
	for (size_t i = 1; i < 3; i++) {
		snap.worker[i].recent = (struct dlp_clock){
			.ns = { [DLP_ST_RUN] = 270 * MS, [DLP_ST_IDLE] = 2730 * MS }
		};
		snap.worker[i].state = DLP_ST_IDLE;
	}
	golden("healthy-80x24", 24, 80);
}

/* Nothing measured: "-" and words, never 0. */
static void test_unknown(void **state)
{
	(void)state;
	snap.loader[0] = (struct dlp_snap_loader){
		.num_workers = -1,
		.rate = NAN,
		.ready = NAN,
		.exposed = NAN,
		.text = "No batch came out of a DataLoader in 1.0 s: nothing to judge yet."
	};
	snap.cost = NAN;
	snap.rss_bytes = 0;
	snap.history_cnt = 1;
	snap.history[0] = NAN;
	snap.window_ns = S;
	snap.device_cnt = 0;
	snap.system = (struct dlp_snap_system){
		.busy = NAN, .steal = NAN, .others_cpus = NAN, .quota_cpus = NAN, .throttled = NAN
	};
	snap.worker_cnt = 2;
	snap.worker[1] = (struct dlp_snap_worker){ .pid = 16365, .rate = NAN };
	golden("unknown-80x24", 24, 80);
}

static void test_stalled(void **state)
{
	(void)state;
	view.paused = true;
	snap.complete = false;
	(void)snprintf(snap.lost, sizeof(snap.lost), "12 events that found the ring buffer full");
	snap.loader[0].bottleneck = DLP_BN_STALLED;
	snap.loader[0].cause = DLP_CAUSE_WORKER_DIED;
	(void)snprintf(snap.loader[0].text, sizeof(snap.loader[0].text),
		       "Worker 16366 died (killed by signal 9) 3.1 s before the end of the "
		       "observation: no batch came after that.");
	snap.worker[2].dead = true;
	snap.worker[2].exit_code = 9;
	snap.system.quota_cpus = 1.5;
	snap.system.throttled = 0.34;
	snap.system.swap_used = 300 << 20;
	golden("stalled-80x24", 24, 80);
}

/* The governor has taken steps: said on top, and which one where there is room. */
static void test_fewer_probes(void **state)
{
	(void)state;
	snap.governed = true;
	snap.complete = false;
	(void)snprintf(snap.fewer, sizeof(snap.fewer),
		       "without record_function labels (limit 1.00 %%)");
	(void)snprintf(snap.lost, sizeof(snap.lost),
		       "6 seconds without record_function labels, to spare the job");
	golden("governed-60x15", 15, 60);
	golden("governed-80x24", 24, 80);
}

static void test_many_workers(void **state)
{
	(void)state;
	snap.worker_cnt = 1;
	snap.workers_alive = 0;
	for (uint32_t i = 0; i < 32; i++)
		put_worker(20000 + i, 1.25, i % 2 ? "10.0.0.7:443" : "");
	snap.workers_unseen = 3;
	for (int i = 0; i < 14; i++)
		(void)dlp_view_key(&view, &snap, DLP_KEY_DOWN);
	assert_int_equal(view.selected, 20013);
	golden("many-60x15", 15, 60);
	(void)dlp_view_key(&view, &snap, DLP_KEY_HOME);
	assert_int_equal(view.selected, 4711);
	(void)dlp_view_key(&view, &snap, DLP_KEY_END);
	assert_int_equal(view.selected, 20031);
	(void)dlp_view_key(&view, &snap, DLP_KEY_PAGE_UP);
	assert_int_equal(view.selected, 20021);
}

static uint32_t row_pid(int row)
{
	char digits[8] = "";

	for (int i = 0; i < 7; i++)
		digits[i] = (char)grid.cell[row * grid.cols + 1 + i].ch;
	return (uint32_t)strtoul(digits, NULL, 10);
}

static void test_sort(void **state)
{
	const int first = 12; /* of the workers, below the trainer, at 80x24 */

	(void)state;
	put_worker(16367, 1, "");
	snap.worker[2].median_ns = 500 * MS;
	snap.worker[1].recent.ns[DLP_ST_IDLE] = 9 * S;
	snap.worker[2].recent.ns[DLP_ST_IDLE] = 3 * S;
	draw(24, 80);
	assert_int_equal(row_pid(first), 16365);
	assert_int_equal(row_pid(first + 2), 16367);
	assert_int_equal(dlp_view_key(&view, &snap, 's'), DLP_VIEW_REDRAW);
	draw(24, 80);
	assert_int_equal(row_pid(first), 16366);
	assert_int_equal(row_pid(first + 1), 16365);
	(void)dlp_view_key(&view, &snap, 's');
	draw(24, 80);
	assert_int_equal(row_pid(first), 16367);
	assert_int_equal(row_pid(first + 1), 16366);
	assert_int_equal(row_pid(first + 2), 16365);
	(void)dlp_view_key(&view, &snap, 's');
	assert_int_equal(view.sort, DLP_SORT_PID);
}

static void test_loaders(void **state)
{
	(void)state;
	/* with one loader there is nothing to switch to */
	snap.loader[1] = snap.loader[0];
	snap.loader[1].id = 1;
	snap.loader_cnt = 2;
	(void)dlp_view_key(&view, &snap, 'l');
	assert_int_equal(view.loader, 0);
	snap.loader[2] =
		(struct dlp_snap_loader){ .id = 2,
					  .num_workers = 1,
					  .rate = 0.5,
					  .ready = 2,
					  .exposed = 0.08,
					  .getnext = { 0, 11 * MS, 12 * MS, 13 * MS },
					  .bottleneck = DLP_BN_DATA_LOADING,
					  .severity = DLP_SEV_LOW,
					  .cause = DLP_CAUSE_WORKER_CPU,
					  .text = "Training waits 8.0 % of the time for data." };
	snap.loader_cnt = 3;
	snap.worker[2].loader = 2;
	(void)dlp_view_key(&view, &snap, 'l');
	assert_int_equal(view.loader, 1);
	(void)dlp_view_key(&view, &snap, 'l');
	assert_int_equal(view.loader, 2);
	golden("loader-80x24", 24, 80);
	(void)dlp_view_key(&view, &snap, 'l');
	assert_int_equal(view.loader, 0);
	/* a loader that is not there any more: all of them */
	view.loader = 7;
	draw(24, 80);
	(void)dlp_view_key(&view, &snap, 'l');
	assert_int_equal(view.loader, 1);
}

static void test_keys(void **state)
{
	(void)state;
	assert_int_equal(dlp_view_key(&view, &snap, 'q'), DLP_VIEW_QUIT);
	assert_int_equal(dlp_view_key(&view, &snap, 'x'), DLP_VIEW_NOTHING);
	assert_int_equal(dlp_view_key(&view, &snap, DLP_KEY_NONE), DLP_VIEW_NOTHING);
	(void)dlp_view_key(&view, &snap, ' ');
	assert_true(view.paused);
	(void)dlp_view_key(&view, &snap, 'p');
	assert_false(view.paused);
	/* Enter opens the first worker, and closes it again; Esc always leads back */
	(void)dlp_view_key(&view, &snap, DLP_KEY_ENTER);
	assert_int_equal(view.page, DLP_PAGE_DETAIL);
	assert_int_equal(view.selected, 16365);
	(void)dlp_view_key(&view, &snap, DLP_KEY_DOWN);
	assert_int_equal(view.selected, 16366);
	(void)dlp_view_key(&view, &snap, DLP_KEY_ENTER);
	assert_int_equal(view.page, DLP_PAGE_WORKERS);
	(void)dlp_view_key(&view, &snap, 't');
	assert_int_equal(view.page, DLP_PAGE_STAGES);
	(void)dlp_view_key(&view, &snap, '?');
	assert_int_equal(view.page, DLP_PAGE_HELP);
	(void)dlp_view_key(&view, &snap, DLP_KEY_ESC);
	assert_int_equal(view.page, DLP_PAGE_WORKERS);
	/* nothing to select */
	snap.worker_cnt = 0;
	assert_int_equal(dlp_view_key(&view, &snap, DLP_KEY_UP), DLP_VIEW_NOTHING);
	(void)dlp_view_key(&view, &snap, DLP_KEY_ENTER);
	draw(24, 80);
}

/* Wide characters, long words and names end where the screen does. */
static void test_untrusted(void **state)
{
	(void)state;
	(void)snprintf(snap.cmdline, sizeof(snap.cmdline),
		       "python \xe8\xae\xad\xe7\xbb\x83/\xe6\xa8\xa1\xe5\x9e\x8b.py --x=%090d", 7);
	(void)snprintf(snap.worker[1].object, sizeof(snap.worker[1].object),
		       "/\xe6\x95\xb0\xe6\x8d\xae/%0120d/\xe6\x9c\x80\xe5\x90\x8e", 1);
	memset(snap.loader[0].text, 'W', sizeof(snap.loader[0].text) - 1);
	memset(snap.stage[0].label, 'l', sizeof(snap.stage[0].label) - 1);
	(void)snprintf(snap.device[0].name, sizeof(snap.device[0].name), "%s",
		       "a-device-with-a-very-long-name");
	golden("untrusted-80x24", 24, 80);
	view.page = DLP_PAGE_STAGES;
	golden("untrusted-stages-60x15", 15, 60);
}

/* A line that is full shows two intervals in each column; the ring's oldest ones may be gone. */
static void test_spark(void **state)
{
	(void)state;
	for (uint64_t cnt = 1; cnt < 3000; cnt++) {
		snap.history_cnt = cnt;
		snap.history[(cnt - 1) % DLP_SNAP_HISTORY_MAX] = 1;
		draw(24, 80);
		/* the newest interval is always on the screen, as high as can be */
		if (cnt == 46 || cnt == 999 || cnt == 2999) {
			int col = 10;

			while (grid.cell[6 * 80 + col + 1].ch != ' ')
				col++;
			assert_int_equal(grid.cell[6 * 80 + col].ch, 0x2587);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_small, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ascii, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_healthy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stalled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fewer_probes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sort, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loaders, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_untrusted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spark, setup, teardown),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
