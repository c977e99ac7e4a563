/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The page of a report: the fixture's job with a history made by hand, so that every number in
 * the page's data can be told beforehand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <string.h>

#include "html.h"
#include "job_fixture.h"

#define BATCH_NS (10 * DLP_NS_PER_MS) /* 100 batches a second */
#define EVERY_NTH_SLOW 1000
#define SLOW_NS (80 * DLP_NS_PER_MS)

static struct job job;
static struct dlp_summary_facts facts;
static struct dlp_history history;
static json_t *root;
static char *page;
static size_t page_bytes;

/* GetNext takes 2 ms, each thousandth 80 ms; two workers in turn, 6 s epochs. */
static void make_calls(size_t cnt)
{
	history.calls = calloc(cnt, sizeof(*history.calls));
	assert_non_null(history.calls);
	history.call_cnt = cnt;
	for (size_t i = 0; i < cnt; i++) {
		struct dlp_history_call *call = &history.calls[i];
		uint64_t at = JOB_START_NS + i * BATCH_NS;

		*call = (struct dlp_history_call){
			.start_ns = at,
			.end_ns = at + (i % EVERY_NTH_SLOW == 500 ? SLOW_NS : 2 * DLP_NS_PER_MS),
			.loader = 1,
			.iterator = 1,
			.epoch = (uint32_t)(i / 600 + 1),
			.tid = JOB_PID,
			.flags = DLP_CALL_OUTER | DLP_CALL_DATA | DLP_CALL_WINDOW | DLP_CALL_BATCH,
			.worker_pid = JOB_PID + 1 + i % JOB_WORKERS,
			.index = (int64_t)(i % 600),
			/* jitter, so that no column is shorter than it would be in life */
			.asked_ns = at - 37 * DLP_NS_PER_MS - i * 7919 % 9973 * 100,
			.taken_ns = at - 18 * DLP_NS_PER_MS - i * 104729 % 9973 * 100,
			.produced_ns = at - 3 * DLP_NS_PER_MS - i * 1299709 % 9973 * 100,
			.sent_ns = at - 2 * DLP_NS_PER_MS - i * 15485863 % 9973 * 100,
			.received_ns = at - 1 * DLP_NS_PER_MS,
		};
	}
}

static void make_readings(size_t seconds)
{
	history.samples = calloc(seconds * (JOB_WORKERS + 1), sizeof(*history.samples));
	history.intervals = calloc(seconds, sizeof(*history.intervals));
	history.interval_cnt = seconds;
	assert_true(history.samples && history.intervals);
	for (size_t i = 0; i < seconds * (JOB_WORKERS + 1); i++) {
		uint32_t pid = JOB_PID + (uint32_t)(i % (JOB_WORKERS + 1));
		struct dlp_history_sample *sample = &history.samples[history.sample_cnt++];

		*sample = (struct dlp_history_sample){
			.start_ns = JOB_START_NS + i / (JOB_WORKERS + 1) * SECOND,
			.pid = pid,
			.tid = pid,
			.lane = pid == JOB_PID ? DLP_LANE_TRAINER : DLP_LANE_WORKER,
		};
		sample->end_ns = sample->start_ns + SECOND;
		sample->split.ns[DLP_ST_RUN] = SECOND / 4;
		sample->split.ns[DLP_ST_DISK] = SECOND / 2;
		sample->split.ns[DLP_ST_IDLE] = SECOND / 4;
	}
}

static int setup_page(void **state)
{
	(void)state;
	job_init(&job);
	facts = (struct dlp_summary_facts){ .version = "0.1", .target = &job.target };
	memset(&history, 0, sizeof(history));
	memset(&job.loader[0].getnext, 0, sizeof(job.loader[0].getnext));
	for (int i = 0; i < 100; i++)
		dlp_hist_add(&job.loader[0].getnext, 2 * DLP_NS_PER_MS);
	return 0;
}

static int teardown_page(void **state)
{
	(void)state;
	free(history.calls);
	free(history.samples);
	free(history.intervals);
	free(history.workers);
	free(page);
	page = NULL;
	json_decref(root);
	root = NULL;
	return 0;
}

static void make_history(size_t seconds)
{
	job.model.end_ns = JOB_START_NS + seconds * SECOND;
	history.model = &job.model;
	history.facts = &facts;
	history.start_ns = job.model.start_ns;
	history.end_ns = job.model.end_ns;
	history.workers = calloc(JOB_WORKERS, sizeof(*history.workers));
	assert_non_null(history.workers);
	history.worker_cnt = JOB_WORKERS;
	for (size_t i = 0; i < JOB_WORKERS; i++)
		history.workers[i] = (struct dlp_history_worker){ .pid = job.worker[i].pid,
								   .loader = 1 };
	make_calls(seconds * 100);
	make_readings(seconds);
	dlp_diagnose(&job.model, NULL, &history.verdict);
}

/* The text between two others; fails without. */
static char *between(const char *text, const char *open, const char *close)
{
	const char *from = strstr(text, open), *to;

	if (!from)
		fail_msg("no %s", open);
	from += strlen(open);
	to = strstr(from, close);
	if (!to)
		fail_msg("no %s after %s", close, open);
	return strndup(from, (size_t)(to - from));
}

/* Writes the page and reads its data back into root, as a browser would find it. */
static void write_page(void)
{
	_cleanup_free_ char *element = NULL;
	json_error_t why;
	const char *data;
	FILE *out;

	free(page);
	page = NULL;
	out = open_memstream(&page, &page_bytes);
	assert_non_null(out);
	assert_int_equal(dlp_html_write(&history, out), 0);
	assert_int_equal(fclose(out), 0);
	element = between(page, "<script type=\"application/json\" id=\"data\" nonce=\"", "</script>");
	data = strchr(element, '>');
	assert_non_null(data);
	json_decref(root);
	root = json_loads(data + 1, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		fail_msg("%s at %d", why.text, why.position);
}

static json_t *table(const char *name)
{
	json_t *found = json_object_get(root, name);

	assert_non_null(found);
	return found;
}

/* A cell; columns of equal values are one number. */
static int64_t cell(const char *name, const char *column, size_t row)
{
	json_t *found = json_object_get(table(name), column);

	assert_non_null(found);
	return json_integer_value(json_is_array(found) ? json_array_get(found, row) : found);
}

static int64_t rows(const char *name)
{
	return cell(name, "rows", 0);
}

/* Starts are told as distances. */
static int64_t start_of(const char *name, int64_t row)
{
	int64_t at = 0;

	for (int64_t i = 0; i <= row; i++)
		at += cell(name, "start", (size_t)i);
	return at;
}

static void test_calls_are_told_as_they_were(void **state)
{
	(void)state;
	make_history(12);
	write_page();
	assert_int_equal(json_integer_value(table("span_us")), 12000000);
	assert_int_equal(rows("calls"), 1200);
	assert_int_equal(cell("calls", "total", 0), 1200);
	assert_int_equal(start_of("calls", 700), 7000000);
	assert_int_equal(cell("calls", "dur", 500), 80000);
	assert_int_equal(cell("calls", "dur", 501), 2000);
	assert_int_equal(cell("calls", "step", 501), 10000);
	/* the first of an epoch has none */
	assert_true(json_is_null(json_array_get(json_object_get(table("calls"), "step"), 600)));
	assert_int_equal(cell("calls", "worker", 3), 1);
	assert_int_equal(cell("calls", "received", 9), -1000);
	assert_int_equal(rows("outliers"), 0);
	assert_int_equal(cell("calls", "flags", 500) & 32, 32);
	assert_int_equal(cell("calls", "flags", 499) & 32, 0);
}

static void test_sums_are_of_all_calls(void **state)
{
	int64_t calls = 0, exposed = 0, counted = 0;
	json_t *counts;

	(void)state;
	make_history(12);
	write_page();
	for (int64_t i = 0; i < rows("bins"); i++) {
		calls += cell("bins", "calls", (size_t)i);
		exposed += cell("bins", "exposed", (size_t)i);
	}
	assert_int_equal(calls, 1200);
	/* one of them is slow */
	assert_int_equal(exposed, 1199 * 2000 + 80000);
	assert_int_equal(rows("epochs"), 2);
	assert_int_equal(cell("epochs", "batches", 1), 600);
	assert_int_equal(cell("epochs", "median", 0), 2000);
	assert_int_equal(cell("epochs", "longest", 0), 80000);
	assert_int_equal(cell("epochs", "outliers", 0), 1);
	assert_int_equal(cell("epochs", "outliers", 1), 0);
	assert_int_equal(cell("epochs", "wait", 0), 599 * 2000 + 80000);
	counts = json_object_get(json_object_get(table("histograms"), "getnext"), "count");
	for (size_t i = 0; i < json_array_size(counts); i++)
		counted += json_integer_value(json_array_get(counts, i));
	assert_int_equal(counted, 1200);
}

static void test_lanes_and_grids_say_what_threads_did(void **state)
{
	int64_t run = 0;

	(void)state;
	make_history(12);
	write_page();
	assert_int_equal(rows("samples"), 36);
	assert_int_equal(cell("samples", "disk", 5), 500);
	assert_int_equal(cell("samples", "run", 5), 250);
	assert_int_equal(cell("samples", "who", 0) + cell("samples", "who", 1) +
				 cell("samples", "who", 2),
			 0 + 1 + 2);
	for (int64_t i = 0; i < rows("cpu"); i++)
		run += cell("cpu", "workers", (size_t)i);
	assert_int_equal(run, JOB_WORKERS * 12 * 250000);
	/* nobody told: unknown, not 0 */
	assert_true(json_is_null(json_object_get(table("cpu"), "others")));
	assert_int_equal(rows("io"), 0);
}

/* What the job wrote must stay text. */
static void test_hostile_texts_cannot_break_out(void **state)
{
	static const char evil[] = "</script><script>alert(1)</script><!--<b>&amp;\xe2\x80\xa8\"\\";
	_cleanup_free_ char *policy = NULL, *data = NULL;
	const char *at, *text;
	int scripts = 0;

	(void)state;
	make_history(1);
	strcpy(job.target.cmdline, evil);
	strcpy(job.loader[0].type, "</script><img src=x>");
	write_page();
	assert_null(strstr(page, "alert(1)</"));
	assert_null(strstr(page, "<img"));
	for (at = page; (at = strstr(at, "<script")); at++)
		scripts++;
	assert_int_equal(scripts, 2);
	data = between(page, "id=\"data\"", "</script>");
	assert_null(strstr(data, "\xe2\x80\xa8"));
	assert_null(strchr(data, '&'));
	/* and still says what it said */
	text = json_string_value(json_object_get(
		json_object_get(table("summary"), "target"), "cmdline"));
	assert_non_null(text);
	assert_non_null(strstr(text, "</script><script>alert(1)</script><!--<b>&amp;"));
	policy = between(page, "Content-Security-Policy\" content=\"", "\"");
	assert_non_null(strstr(policy, "default-src 'none'"));
	assert_null(strstr(policy, "unsafe"));
	assert_null(strstr(page, "{{"));
}

static void test_pages_differ_in_their_nonce(void **state)
{
	_cleanup_free_ char *first = NULL, *second = NULL;

	(void)state;
	make_history(1);
	write_page();
	first = between(page, "script-src 'nonce-", "'");
	write_page();
	second = between(page, "script-src 'nonce-", "'");
	assert_int_equal(strlen(first), 32);
	assert_string_not_equal(first, second);
}

/* An hour: below 20 MB, every outlier still there, the sums still of everything. */
static void test_an_hour_is_thinned_out(void **state)
{
	int64_t outliers = 0, calls = 0, kept = 0;

	(void)state;
	make_history(3600);
	write_page();
	assert_true(page_bytes < 20000000);
	assert_int_equal(cell("calls", "total", 0), 360000);
	kept = rows("calls");
	assert_in_range(kept, 100000, 200000);
	for (int64_t i = 0; i < kept; i++)
		outliers += (cell("calls", "flags", (size_t)i) & 32) != 0;
	outliers += rows("outliers");
	assert_int_equal(outliers, 360000 / EVERY_NTH_SLOW);
	for (int64_t i = 0; i < rows("bins"); i++)
		calls += cell("bins", "calls", (size_t)i);
	assert_int_equal(calls, 360000);
	assert_int_equal(rows("epochs"), 600);
}

static void test_nothing_seen(void **state)
{
	(void)state;
	make_history(1);
	history.call_cnt = history.sample_cnt = history.interval_cnt = history.worker_cnt = 0;
	write_page();
	assert_int_equal(rows("calls"), 0);
	assert_int_equal(rows("cpu"), 0);
	assert_int_equal(rows("epochs"), 0);
}

static int64_t exposed_us(void)
{
	int64_t sum = 0;

	for (size_t i = 0; i < (size_t)rows("bins"); i++)
		sum += cell("bins", "exposed", i);
	return sum;
}

/* Training waits in a call that never ended, whether its begin was seen or not. */
static void test_unfinished_call(void **state)
{
	(void)state;
	make_history(10);
	history.call_cnt = 0;
	write_page();
	assert_int_equal(exposed_us(), 0);
	job.thread[0].getnext_since_ns = history.end_ns - 4 * SECOND;
	write_page();
	assert_in_range(exposed_us(), 4000000 - rows("bins"), 4000000);
	/* it began before the window did */
	job.thread[0].getnext_since_ns = history.start_ns - SECOND;
	write_page();
	assert_in_range(exposed_us(), 10000000 - rows("bins"), 10000000);
	/* and before the tool was there */
	job.thread[0].getnext_since_ns = 0;
	history.verdict.bottleneck = DLP_BN_STALLED;
	history.verdict.exposed_wait_ratio = 1;
	write_page();
	assert_in_range(exposed_us(), 10000000 - rows("bins"), 10000000);
}

int main(void)
{
#define page_test(test) cmocka_unit_test_setup_teardown(test, setup_page, teardown_page)
	const struct CMUnitTest tests[] = {
		page_test(test_calls_are_told_as_they_were),
		page_test(test_sums_are_of_all_calls),
		page_test(test_lanes_and_grids_say_what_threads_did),
		page_test(test_hostile_texts_cannot_break_out),
		page_test(test_pages_differ_in_their_nonce),
		page_test(test_an_hour_is_thinned_out),
		page_test(test_nothing_seen),
		page_test(test_unfinished_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
