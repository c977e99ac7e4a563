/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The picture of simulated runs: where things are drawn, against the truth of when they were. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "history_run.h"
#include "model_check.h"
#include "spans.h"
#include "svg.h"
#include "svg_priv.h"
#include "target.h"

#define LANE_HEIGHT 22.0
#define CALLS_HEIGHT 96.0

static struct history_run run;
static struct dlp_report report;
static char *picture;

static uint64_t uneven(int64_t index, int worker)
{
	(void)worker;
	return index % 17 == 11 ? 80 * MS : 8 * MS;
}

static void make_run(int epochs)
{
	const struct scn_conf conf = {
		.workers = 2, .batches = 60, .produce = uneven, .label = LABEL_MULTI
	};
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(7);

	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (int i = 0; i < epochs; i++) {
		struct scn_iter *it = scn_iter(scn, &conf);

		while (scn_next(scn, it, false))
			scn_step(scn, 3 * MS);
	}
	history_run(&run, scn, &view);
	report = (struct dlp_report){ .history = run.history, .selection.to_ns = UINT64_MAX };
}

static void draw(void)
{
	size_t bytes = 0;
	FILE *out;

	free(picture);
	picture = NULL;
	out = open_memstream(&picture, &bytes);
	assert_non_null(out);
	assert_int_equal(dlp_svg_write(&report, out), 0);
	fclose(out);
	assert_int_equal(strlen(picture), bytes);
}

static int teardown(void **state)
{
	(void)state;
	free(picture);
	picture = NULL;
	history_run_free(&run);
	return 0;
}

/* ---- XML ----------------------------------------------------------------------------------- */
static const char *skip_attributes(const char *at)
{
	while (*at && *at != '>' && strncmp(at, "/>", 2)) {
		if (*at == '"') {
			at = strchr(at + 1, '"');
			assert_non_null(at);
		}
		assert_true(*at != '<');
		at++;
	}
	assert_true(*at);
	return at;
}

/* Elements are nested, all other '<' and '&' are escaped. The one declaration that is not made is
 * not needed for UTF-8. */
static void assert_well_formed(void)
{
	const char *open[8];
	size_t depth = 0, elements = 0;

	for (const char *at = picture; *at; at++) {
		size_t length;

		assert_true((unsigned char)*at >= 0x20 || *at == '\n');
		if (*at == '&')
			assert_true(!strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) ||
				    !strncmp(at, "&amp;", 5));
		if (*at != '<')
			continue;
		if (at[1] == '/') {
			assert_true(depth > 0);
			depth--;
			length = strcspn(open[depth], " >");
			assert_memory_equal(at + 2, open[depth], length);
			assert_int_equal(at[2 + length], '>');
			continue;
		}
		assert_true(depth < 8);
		open[depth++] = at + 1;
		elements++;
		at = skip_attributes(at + 1);
		depth -= *at == '/';
	}
	assert_int_equal(depth, 0);
	assert_true(elements > 10);
	assert_memory_equal(picture, "<svg xmlns=", 11);
	assert_null(strstr(picture, "<script"));
	assert_null(strstr(picture, "href"));
	assert_null(strstr(picture, "url("));
}

/* ---- what is drawn ------------------------------------------------------------------------- */
/* What stands below the heading that begins so, up to the next text. */
static const char *below(const char *heading, const char **ret_end)
{
	const char *at = strstr(picture, heading);

	if (!at)
		fail_msg("no '%s'", heading);
	at = strchr(at, '\n');
	*ret_end = strstr(at, "<text");
	assert_non_null(*ret_end);
	return at;
}

/* The path of a class in that part; NULL = none. */
static const char *path_of(const char *heading, const char *class)
{
	const char *end, *at = below(heading, &end);
	char start[60];

	(void)snprintf(start, sizeof(start), "<path class=\"%s\" d=\"", class);
	at = strstr(at, start);
	return at && at < end ? at + strlen(start) : NULL;
}

/* Time that the rectangles of a class in a lane stand for. */
static double lane_ns(const char *heading, const char *class, double span_ns)
{
	const char *at = path_of(heading, class);
	double x, y, width, height, sum = 0;
	int used;

	for (; at && *at == 'M'; at += used) {
		/* NOLINTNEXTLINE(cert-err34-c): their number is checked */
		assert_int_equal(
			sscanf(at, "M%lf %lfh%lfv%lfh-%*fz%n", &x, &y, &width, &height, &used), 4);
		assert_true(x >= DLP_SVG_LEFT && x + width <= DLP_SVG_LEFT + DLP_SVG_PLOT);
		sum += width * height / LANE_HEIGHT;
	}
	return sum / DLP_SVG_PLOT * span_ns;
}

/* Is there a bar at x, so wide and so high? */
static bool has_bar(const char *class, double x, double width, double height)
{
	const char *at = path_of("GetNext of loader 1", class);
	double bx, by, bw, bh;
	int used;

	for (; at && *at == 'M'; at += used) {
		/* NOLINTNEXTLINE(cert-err34-c): their number is checked */
		assert_int_equal(sscanf(at, "M%lf %lfv-%lfh%lfv%*fz%n", &bx, &by, &bh, &bw, &used),
				 4);
		if (fabs(bx - x) < 0.11 && fabs(bw - fmax(width, 1)) < 0.11 &&
		    fabs(bh - height) < 0.11)
			return true;
	}
	return false;
}

static double span(uint64_t *ret_from, uint64_t *ret_to)
{
	*ret_from = report.selection.from_ns > run.history->start_ns ? report.selection.from_ns :
								       run.history->start_ns;
	*ret_to = report.selection.to_ns < run.history->end_ns ? report.selection.to_ns :
								 run.history->end_ns;
	return (double)(*ret_to - *ret_from);
}

/* Half a second of it: each call is far enough from the next one to be seen. */
static void test_calls(void **unused)
{
	const struct scn_call *truth;
	double span_ns, scale, longest = 0;
	size_t cnt, checked = 0, slow = 0;
	uint64_t from, to;

	(void)unused;
	make_run(1);
	cnt = scn_calls(run.scn, &truth);
	/* the begin of one call, the end of a later one: no bar is cut */
	report.selection.from_ns = truth[10].start_ns;
	report.selection.to_ns = truth[40].end_ns;
	draw();
	assert_well_formed();
	span_ns = span(&from, &to);
	scale = DLP_SVG_PLOT / span_ns;
	for (size_t i = 10; i <= 40; i++)
		longest = fmax(longest, (double)(truth[i].end_ns - truth[i].start_ns));
	assert_true(cnt > 50 && longest > 40e6);
	for (size_t i = 10; i <= 40; i++) {
		double took = (double)(truth[i].end_ns - truth[i].start_ns);
		double x = DLP_SVG_LEFT + (double)(truth[i].start_ns - from) * scale;

		if (has_bar("outlier", x, took * scale, CALLS_HEIGHT * took / longest))
			slow++;
		else if (!has_bar("wait", x, took * scale, CALLS_HEIGHT * took / longest))
			fail_msg("call %zu is not at %.1f", i, x);
		checked++;
	}
	assert_int_equal(checked, 31);
	assert_true(slow >= 1 && slow < 16);
	assert_non_null(strstr(picture, ": 31 calls, median "));
}

static void test_lanes(void **unused)
{
	const struct scn_call *calls;
	const struct scn_made *made;
	double span_ns, waited = 0, produced = 0;
	size_t call_cnt, made_cnt;
	uint64_t from, to;
	char worker[40];

	(void)unused;
	make_run(1);
	call_cnt = scn_calls(run.scn, &calls);
	made_cnt = scn_made(run.scn, &made);
	report.selection.from_ns = calls[5].start_ns + MS;
	report.selection.to_ns = calls[50].start_ns + MS;
	draw();
	span_ns = span(&from, &to);
	for (size_t i = 0; i < call_cnt; i++)
		waited += (double)dlp_overlap(calls[i].start_ns, calls[i].end_ns, from, to);
	for (size_t i = 0; i < made_cnt; i++)
		if (made[i].pid == made[0].pid)
			produced +=
				(double)dlp_overlap(made[i].taken_ns, made[i].done_ns, from, to);
	assert_true(waited > 0.1 * span_ns && waited < 0.9 * span_ns);
	assert_float_equal(lane_ns("Training thread", "wait", span_ns), waited, 0.01 * span_ns);
	assert_float_equal(lane_ns("Training thread", "step", span_ns), span_ns - waited,
			   0.01 * span_ns);
	(void)snprintf(worker, sizeof(worker), "Worker %u", made[0].pid);
	assert_true(produced > 0.2 * span_ns);
	assert_float_equal(lane_ns(worker, "run", span_ns), produced, 0.01 * span_ns);
	(void)snprintf(worker, sizeof(worker), "time: %.1f %%", 100 * waited / span_ns);
	assert_non_null(strstr(picture, worker));
}

/* What a worker waited for is not the making of its batch as well; nor is the wait for a CPU. */
static void test_wait(void **unused)
{
	struct dlp_history_wait *waits, wait = { .state = DLP_ST_DISK };
	const struct scn_made *made;
	double span_ns, making;
	uint64_t from, to;
	char worker[40];
	size_t cnt;

	(void)unused;
	make_run(1);
	assert_true(scn_made(run.scn, &made) > 20);
	draw();
	span_ns = span(&from, &to);
	(void)snprintf(worker, sizeof(worker), "Worker %u", made[11].pid);
	making = lane_ns(worker, "run", span_ns);
	assert_true(made[11].done_ns - made[11].taken_ns >= 80 * MS);
	wait.pid = wait.tid = made[11].pid;
	wait.start_ns = made[11].taken_ns + MS;
	wait.wake_ns = wait.start_ns + 50 * MS;
	wait.end_ns = wait.wake_ns + 20 * MS;
	waits = run.history->waits;
	cnt = run.history->wait_cnt;
	run.history->waits = &wait;
	run.history->wait_cnt = 1;
	draw();
	run.history->waits = waits;
	run.history->wait_cnt = cnt;
	assert_float_equal(lane_ns(worker, "disk", span_ns), 50e6, 0.003 * span_ns);
	assert_float_equal(lane_ns(worker, "runq", span_ns), 20e6, 0.003 * span_ns);
	assert_float_equal(lane_ns(worker, "run", span_ns), making - 70e6, 0.003 * span_ns);
	/* the legend has what is drawn, and nothing else */
	assert_non_null(strstr(picture, ">waiting for a disk<"));
	assert_null(strstr(picture, ">on a socket<"));
}

/* A job that hung before it was looked at is not drawn as one that trains. */
static void test_stalled(void **unused)
{
	size_t cnt;

	(void)unused;
	make_run(1);
	cnt = run.history->call_cnt;
	run.history->call_cnt = 0;
	run.history->verdict.bottleneck = DLP_BN_STALLED;
	run.history->verdict.exposed_wait_ratio = 1;
	draw();
	run.history->call_cnt = cnt;
	assert_non_null(strstr(picture, "time: 100.0 %"));
	assert_null(path_of("Training thread", "step"));
}

/* Texts of the job cannot leave their place. */
static void test_text(void **unused)
{
	struct dlp_target target = { .pid = SCN_TRAINER };
	struct dlp_summary_facts facts = { .target = &target };

	(void)unused;
	make_run(1);
	(void)snprintf(target.cmdline, sizeof(target.cmdline),
		       "a</text><script>&amp;\x1b[2J\xff\xef\xbf\xbf\xe2\x80\xae%s", "é");
	run.history->facts = &facts;
	draw();
	run.history->facts = NULL;
	assert_well_formed();
	assert_non_null(strstr(picture, ">a&lt;/text&gt;&lt;script&gt;&amp;amp;?[2J???é<"));
}

/* Many workers make a bounded picture; and so does no time. */
static void test_bounds(void **unused)
{
	(void)unused;
	make_run(30);
	draw();
	assert_well_formed();
	assert_true(run.history->worker_cnt == 60);
	assert_non_null(strstr(picture, ">28 more workers are left out<"));
	report.selection.worker = run.history->workers[3].pid;
	draw();
	assert_null(strstr(picture, "left out"));
	/* no time at all */
	report.selection.from_ns = report.selection.to_ns = run.history->start_ns + SEC / 3;
	draw();
	assert_well_formed();
	report.selection.from_ns = report.selection.to_ns = run.history->end_ns;
	draw();
	assert_well_formed();
}

static void test_full_disk(void **unused)
{
	FILE *out = fopen("/dev/full", "we");

	(void)unused;
	make_run(1);
	if (!out)
		skip();
	setbuf(out, NULL);
	assert_int_equal(dlp_svg_write(&report, out), -EIO);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_calls, teardown),
		cmocka_unit_test_teardown(test_lanes, teardown),
		cmocka_unit_test_teardown(test_wait, teardown),
		cmocka_unit_test_teardown(test_stalled, teardown),
		cmocka_unit_test_teardown(test_text, teardown),
		cmocka_unit_test_teardown(test_bounds, teardown),
		cmocka_unit_test_teardown(test_full_disk, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
