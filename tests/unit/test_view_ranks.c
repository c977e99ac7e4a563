/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several ranks on one screen: the overview against tests/golden, and what keys lead to. */
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
/* The pid of the rank that came first; the others follow. */
#define PID 4711

static struct dlp_snapshot snap[DLP_RANKS_MAX];
static struct dlp_view_job job;
static struct dlp_view view;
static struct dlp_grid grid;

/* Rank 0 has no lack of data; its time goes where it waits for rank 1. */
static void put_snapshot(size_t i)
{
	bool slow = i == 1;

	snap[i] = (struct dlp_snapshot){
		.pid = PID + (uint32_t)i,
		.cmdline = "python train.py --epochs 3",
		.window_ns = 95 * S,
		.cost = 0.0042,
		.probe_cost = 0.001,
		.rss_bytes = 22 << 20,
		.complete = true,
		.workers_alive = 2,
		.loader_cnt = 1,
		.interval_ns = S,
	};
	snap[i].loader[0] = (struct dlp_snap_loader){
		.num_workers = 2,
		.rate = 51.8,
		.ready = NAN,
		.getnext = { slow ? 13 * MS : 1560 * DLP_NS_PER_US,
			     slow ? 12700 * DLP_NS_PER_US : 1490 * DLP_NS_PER_US, 17 * MS,
			     20 * MS },
		.step = { 19300 * DLP_NS_PER_US, 19200 * DLP_NS_PER_US, 22 * MS, 30 * MS },
		.exposed = slow ? 0.65 : 0.038,
		.bottleneck = slow ? DLP_BN_DATA_LOADING : DLP_BN_NOT_DATA_LOADING,
		.severity = slow ? DLP_SEV_HIGH : DLP_SEV_NONE,
		.cause = slow ? DLP_CAUSE_SLEEP : DLP_CAUSE_NONE,
		.text = "Training waits for data.",
	};
	(void)snprintf(snap[i].rank, sizeof(snap[i].rank), "rank %zu", i);
}

static void put_rank(void)
{
	size_t i = job.cnt++;

	put_snapshot(i);
	job.rank[i] = (struct dlp_view_rank){
		.pid = PID + (uint32_t)i, .number = (int)i, .taken = true, .snapshot = &snap[i]
	};
}

/* Two ranks in step, the second of which is late. */
static int setup(void **state)
{
	(void)state;
	memset(&job, 0, sizeof(job));
	view = (struct dlp_view){
		.unicode = true, .color = true, .several = true, .overview = true
	};
	put_rank();
	put_rank();
	job.compared = (struct dlp_ranks_verdict){ .known = 2,
						   .in_step = true,
						   .slowest = 1,
						   .by_loader = true,
						   .confidence = DLP_CONF_MEDIUM,
						   .wait = 0.61,
						   .held = { 0.61 } };
	(void)snprintf(job.text, sizeof(job.text),
		       "Rank 1 (pid 4712) is the slowest: it waits 65 %% of the time for data, and "
		       "the other rank waits 61 %% of the time for it.");
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
	dlp_view_job_draw(&view, &job, &grid);
}

static void golden(const char *name, int rows, int cols)
{
	draw(rows, cols);
	golden_check(name, &grid);
}

static enum dlp_view_act press(int key)
{
	return dlp_view_job_key(&view, &job, key);
}

static void test_sizes(void **state)
{
	(void)state;
	golden("ranks-60x15", 15, 60);
	golden("ranks-80x24", 24, 80);
	golden("ranks-170x40", 40, 170);
	golden("small-59x14", 14, 59);
}

static void test_ascii(void **state)
{
	(void)state;
	view.unicode = view.color = false;
	golden("ranks-ascii-80x24", 24, 80);
}

/* One page of one of them says whose it is, and how to get back. */
static void test_one(void **state)
{
	(void)state;
	(void)press(DLP_KEY_ENTER);
	golden("ranks-one-80x24", 24, 80);
}

/* What can be the matter with a rank, and no numbers. */
static void test_troubles(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		put_rank();
	snap[0].complete = false;
	snap[1].governed = true;
	job.rank[2].ended = true;
	snap[3].loader[0].bottleneck = DLP_BN_STALLED;
	snap[3].loader[0].cause = DLP_CAUSE_WORKER_DIED;
	snap[3].loader[0].severity = DLP_SEV_HIGH;
	snap[4].loader[0] = (struct dlp_snap_loader){ .exposed = NAN, .rate = NAN, .ready = NAN };
	snap[4].cost = NAN;
	job.rank[5].taken = false;
	job.rank[5].number = job.rank[1].number = -1;
	job.compared.by_loader = false;
	job.compared.held[0] = 0;
	view.paused = true;
	golden("ranks-troubles-80x24", 24, 80);
}

/* The selection stays in sight; all sizes and numbers stay within the grid (the sanitizers watch). */
static void test_many(void **state)
{
	(void)state;
	while (job.cnt < DLP_RANKS_MAX)
		put_rank();
	(void)press(DLP_KEY_END);
	golden("ranks-many-60x15", 15, 60);
	for (job.cnt = 1; job.cnt <= DLP_RANKS_MAX; job.cnt++) {
		for (int rows = 1; rows < 45; rows += 2) {
			for (int cols = 1; cols < 150; cols += 7)
				draw(rows, cols);
		}
	}
}

static void test_words(void **state)
{
	static const struct {
		struct dlp_ranks_verdict verdict;
		const char *text;
	} cases[] = {
		{ { .slowest = -1 }, "The ranks are not compared yet" },
		{ { .slowest = -1, .known = 2 }, "These processes do not train in step" },
		{ { .slowest = -1, .known = 2, .in_step = true }, "No rank holds the others back" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		job.compared = cases[i].verdict;
		draw(24, 80);
		for (size_t at = 0; cases[i].text[at]; at++)
			assert_int_equal(grid.cell[80 + 1 + at].ch, cases[i].text[at]);
	}
}

static void test_keys(void **state)
{
	(void)state;
	put_rank();
	/* the slowest is chosen until another is */
	assert_int_equal(press('r'), DLP_VIEW_REDRAW);
	assert_false(view.overview);
	assert_int_equal(view.rank, PID + 1);
	(void)press('r');
	assert_true(view.overview);
	(void)press(DLP_KEY_UP);
	assert_int_equal(view.rank, PID);
	(void)press(DLP_KEY_UP);
	assert_int_equal(view.rank, PID);
	(void)press(DLP_KEY_END);
	assert_int_equal(view.rank, PID + 2);
	(void)press(DLP_KEY_ENTER);
	assert_false(view.overview);
	(void)press(DLP_KEY_LEFT);
	assert_int_equal(view.rank, PID + 1);
	(void)press(DLP_KEY_RIGHT);
	(void)press(DLP_KEY_RIGHT);
	assert_int_equal(view.rank, PID + 2);
	(void)press(DLP_KEY_ESC);
	assert_true(view.overview);
	/* by number, from both; one that nobody has is no key */
	(void)press('0');
	assert_false(view.overview);
	assert_int_equal(view.rank, PID);
	(void)press('2');
	assert_int_equal(view.rank, PID + 2);
	assert_int_equal(press('7'), DLP_VIEW_NOTHING);
	assert_int_equal(view.rank, PID + 2);
	assert_int_equal(press('q'), DLP_VIEW_QUIT);
}

/* What one rank's screen has does not leak into another's, nor into the overview. */
static void test_pages(void **state)
{
	(void)state;
	assert_int_equal(press('t'), DLP_VIEW_NOTHING);
	assert_int_equal(press('s'), DLP_VIEW_NOTHING);
	assert_int_equal(view.page, DLP_PAGE_WORKERS);
	(void)press('h');
	assert_int_equal(view.page, DLP_PAGE_HELP);
	(void)press(DLP_KEY_ESC);
	assert_true(view.overview && view.page == DLP_PAGE_WORKERS);
	(void)press('1');
	(void)press('t');
	assert_int_equal(view.page, DLP_PAGE_STAGES);
	view.selected = 99;
	view.loader = 2;
	(void)press(DLP_KEY_LEFT);
	assert_int_equal(view.page, DLP_PAGE_STAGES);
	assert_int_equal(view.selected, 0);
	assert_int_equal(view.loader, 0);
	(void)press(DLP_KEY_ESC);
	assert_false(view.overview);
	(void)press('t');
	(void)press('r');
	assert_true(view.overview && view.page == DLP_PAGE_WORKERS);
	(void)press('p');
	assert_true(view.paused);
}

/* Ranks come and go: what was chosen may be gone, and the numbers need not be in order. */
static void test_changes(void **state)
{
	(void)state;
	put_rank();
	job.rank[0].number = 2;
	job.rank[2].number = 0;
	(void)press(DLP_KEY_HOME);
	(void)press(DLP_KEY_HOME);
	assert_int_equal(view.rank, PID + 2);
	job.cnt = 2;
	job.compared.slowest = -1;
	(void)press(DLP_KEY_ENTER);
	assert_int_equal(view.rank, PID + 1);
}

/* A process that is alone has no overview. */
static void test_alone(void **state)
{
	(void)state;
	view.several = view.overview = false;
	job.cnt = 1;
	job.compared.slowest = -1;
	assert_int_equal(press('r'), DLP_VIEW_NOTHING);
	assert_int_equal(press('0'), DLP_VIEW_NOTHING);
	(void)press('t');
	assert_int_equal(view.page, DLP_PAGE_STAGES);
	job.rank[0].taken = false;
	draw(24, 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ascii, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one, setup, teardown),
		cmocka_unit_test_setup_teardown(test_troubles, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_words, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
