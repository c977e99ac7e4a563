/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The history against the simulator's truth: every call, production, iterator and worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "history_run.h"
#include "model_check.h"
#include "split.h"

static const struct scn_conf multi = { .workers = 3, .batches = 40, .label = LABEL_MULTI };

static void epoch(struct scn *scn, const struct scn_conf *conf)
{
	struct scn_iter *it = scn_iter(scn, conf);

	scn_step(scn, 100 * US);
	while (scn_next(scn, it, false))
		scn_step(scn, 3 * MS);
}

static struct scn *epochs(const struct scn_conf *conf, int cnt)
{
	struct scn *scn = scn_new(7);

	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (int i = 0; i < cnt; i++) {
		epoch(scn, conf);
		scn_step(scn, 50 * MS);
	}
	return scn;
}

static void assert_near(uint64_t a, uint64_t b, uint64_t by)
{
	if ((a > b ? a - b : b - a) > by)
		fail_msg("%llu is not within %llu of %llu", (unsigned long long)a,
			 (unsigned long long)by, (unsigned long long)b);
}

/* Every call of the truth is there, in order, with what it returned. */
static void check_calls(const struct history_run *run)
{
	const struct dlp_history *history = run->history;
	const struct scn_call *truth;
	size_t cnt = scn_calls(run->scn, &truth);

	assert_int_equal(history->call_cnt, cnt);
	for (size_t i = 0; i < cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];

		assert_int_equal(call->start_ns, truth[i].start_ns);
		assert_int_equal(call->end_ns, truth[i].end_ns);
		assert_int_equal(call->tid, truth[i].tid);
		assert_int_equal(call->index, truth[i].index);
		assert_int_equal(call->worker_pid, truth[i].worker_pid);
		assert_int_equal(!!(call->flags & DLP_CALL_DATA), truth[i].data);
		assert_true(call->flags & DLP_CALL_WINDOW && call->flags & DLP_CALL_OUTER);
		assert_int_equal(dlp_split_sum(&call->split), call->end_ns - call->start_ns);
	}
}

/* The batch's way is told, and in the order of its stations. */
static void check_stations(const struct dlp_history *history)
{
	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];

		if (!(call->flags & DLP_CALL_DATA))
			continue;
		assert_true(call->flags & DLP_CALL_BATCH);
		assert_true(call->asked_ns && call->asked_ns <= call->taken_ns);
		assert_true(call->taken_ns <= call->sent_ns && call->sent_ns <= call->received_ns);
		assert_true(call->received_ns <= call->end_ns);
		assert_in_range(call->in_flight, 1, 6);
		assert_in_range(call->ready, 0, call->in_flight);
	}
}

static void test_calls(void **unused)
{
	const struct scn_view view = { .jitter_ns = 4000 };
	struct history_run run;
	size_t first = 0;

	(void)unused;
	history_run(&run, epochs(&multi, 3), &view);
	check_calls(&run);
	check_stations(run.history);
	assert_int_equal(run.history->iterator_cnt, 3);
	for (size_t i = 0; i < run.history->call_cnt; i++) {
		const struct dlp_history_call *call = &run.history->calls[i];

		assert_int_equal(call->loader, 1);
		/* 40 batches and the end */
		assert_int_equal(call->epoch, i / 41 + 1);
		assert_int_equal(!!(call->flags & DLP_CALL_FIRST), i % 41 == 0);
		first += !!(call->flags & DLP_CALL_FIRST);
	}
	assert_int_equal(first, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(run.history->iterators[i].call_cnt, 41);
		assert_int_equal(run.history->iterators[i].epoch_cnt, 1);
		assert_ptr_equal(dlp_history_iterator(run.history, run.history->iterators[i].id),
				 &run.history->iterators[i]);
	}
	history_run_free(&run);
}

static int by_made(const void *a, const void *b)
{
	const struct scn_made *x = a, *y = b;

	return (x->taken_ns > y->taken_ns) - (x->taken_ns < y->taken_ns);
}

/*
 * torch keeps prefetch x workers in flight until the epoch runs out of batches; the thread that sends
 * the indices is later than a trainer who calls again at once.
 */
static void test_in_flight(void **unused)
{
	const struct scn_conf conf = {
		.workers = 1, .prefetch = 4, .batches = 40, .label = LABEL_MULTI
	};
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(7);
	struct history_run run;

	(void)unused;
	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (int i = 0; i < 2; i++) {
		struct scn_iter *it = scn_iter(scn, &conf);

		while (scn_next(scn, it, false))
			scn_step(scn, 1 * US);
		scn_step(scn, 50 * MS);
	}
	history_run(&run, scn, &view);
	check_calls(&run);
	assert_int_equal(run.history->call_cnt, 2 * 41);
	for (size_t i = 0; i < run.history->call_cnt; i++) {
		const struct dlp_history_call *call = &run.history->calls[i];
		int64_t left = 40 - call->index;

		if (call->flags & DLP_CALL_DATA)
			assert_int_equal(call->in_flight, left < 4 ? left : 4);
	}
	history_run_free(&run);
}

static void test_productions(void **unused)
{
	const struct scn_view view = { 0 };
	const struct scn_made *truth;
	struct scn_made *sorted;
	struct history_run run;
	size_t cnt;

	(void)unused;
	history_run(&run, epochs(&multi, 2), &view);
	cnt = scn_made(run.scn, &truth);
	assert_int_equal(cnt, 80);
	assert_int_equal(run.history->production_cnt, cnt);
	sorted = malloc(cnt * sizeof(*sorted));
	assert_non_null(sorted);
	memcpy(sorted, truth, cnt * sizeof(*sorted));
	qsort(sorted, cnt, sizeof(*sorted), by_made);
	for (size_t i = 0; i < cnt; i++) {
		const struct dlp_history_production *made = &run.history->productions[i];

		assert_int_equal(made->pid, sorted[i].pid);
		assert_int_equal(made->index, sorted[i].index);
		assert_int_equal(made->loader, 1);
		assert_true(made->in_window);
		assert_near(made->taken_ns, sorted[i].taken_ns, 60 * US);
		assert_near(made->done_ns, sorted[i].done_ns, 120 * US);
	}
	free(sorted);
	history_run_free(&run);
}

/* More workers than the model keeps: the history has them all. */
static void test_workers(void **unused)
{
	const struct scn_conf conf = { .workers = 4, .batches = 8, .label = LABEL_MULTI };
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(7);
	struct history_run run;

	(void)unused;
	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (uint32_t i = 0; i < 100; i++) {
		struct scn_conf own = conf;

		own.group = i;
		epoch(scn, &own);
	}
	history_run(&run, scn, &view);
	assert_true(run.model->folded.worker_cnt > 0);
	assert_int_equal(run.history->worker_cnt, 400);
	for (size_t i = 0; i < 400; i++) {
		const struct dlp_history_worker *worker = &run.history->workers[i];

		assert_true(worker->proven && worker->clock_valid && worker->born_ns);
		assert_true(worker->died_ns > worker->born_ns);
		assert_int_equal(worker->loader, 1);
		assert_int_equal(worker->batch_cnt, 2);
		assert_true(!i || run.history->workers[i - 1].born_ns <= worker->born_ns);
		assert_ptr_equal(dlp_history_worker(run.history, worker->pid, worker->died_ns),
				 worker);
	}
	assert_null(dlp_history_worker(run.history, run.history->workers[0].pid,
				       run.history->workers[0].died_ns + 1));
	history_run_free(&run);
}

/* The samples of a thread's clock add up to it. */
static void test_samples(void **unused)
{
	const struct scn_view view = { .interval_ns = 50 * MS };
	struct history_run run;

	(void)unused;
	history_run(&run, epochs(&multi, 1), &view);
	for (size_t w = 0; w < run.history->worker_cnt; w++) {
		const struct dlp_history_worker *worker = &run.history->workers[w];
		struct dlp_clock sum = { 0 };
		uint64_t end = 0;

		for (size_t i = 0; i < run.history->sample_cnt; i++) {
			const struct dlp_history_sample *sample = &run.history->samples[i];

			if (sample->tid != worker->pid)
				continue;
			assert_int_equal(sample->lane, DLP_LANE_WORKER);
			/* without gaps, from birth to death */
			assert_int_equal(sample->start_ns, end ? end : worker->born_ns);
			end = sample->end_ns;
			dlp_split_add(&sum, &sample->split);
		}
		assert_int_equal(end, worker->died_ns);
		assert_memory_equal(&sum, &worker->clock, sizeof(sum));
	}
	assert_true(run.history->interval_cnt > 3);
	for (size_t i = 1; i < run.history->interval_cnt; i++)
		assert_int_equal(run.history->intervals[i].start_ns,
				 run.history->intervals[i - 1].end_ns);
	history_run_free(&run);
}

/* Two loaders whose calls take turns on one thread. */
static void test_two_loaders(void **unused)
{
	const struct scn_conf one = { .workers = 1, .batches = 40, .label = LABEL_MULTI };
	const struct scn_conf other = { .workers = 1, .batches = 40, .label = LABEL_MULTI,
					.group = 1 };
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(3);
	struct scn_iter *a, *b;
	const struct scn_call *truth;
	struct history_run run;

	(void)unused;
	scn_labels(scn);
	a = scn_iter(scn, &one);
	scn_step(scn, MS);
	b = scn_iter(scn, &other);
	scn_step(scn, MS);
	while (scn_next(scn, a, false)) {
		scn_step(scn, 20 * US);
		(void)scn_next(scn, b, false);
		scn_step(scn, 2 * MS);
	}
	scn_step(scn, 20 * US);
	(void)scn_next(scn, b, false);
	history_run(&run, scn, &view);
	check_calls(&run);
	scn_calls(scn, &truth);
	assert_int_equal(run.model->loader_cnt, 2);
	for (size_t i = 0; i < run.history->call_cnt; i++) {
		assert_int_equal(run.history->calls[i].loader, truth[i].iter);
		assert_int_equal(run.history->calls[i].epoch, 1);
	}
	history_run_free(&run);
}

static void test_persistent(void **unused)
{
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(3);
	struct history_run run;
	struct scn_iter *it;

	(void)unused;
	scn_labels(scn);
	it = scn_iter(scn, &multi);
	for (int i = 0; i < 3; i++) {
		scn_step(scn, 100 * US);
		while (scn_next(scn, it, true))
			scn_step(scn, 2 * MS);
		if (i < 2)
			scn_again(scn, it);
	}
	scn_close(scn, it);
	history_run(&run, scn, &view);
	check_calls(&run);
	check_stations(run.history);
	assert_int_equal(run.history->iterator_cnt, 1);
	assert_int_equal(run.history->iterators[0].epoch_cnt, 3);
	assert_int_equal(run.history->iterators[0].call_cnt, 123);
	assert_int_equal(run.history->worker_cnt, 3);
	for (size_t i = 0; i < run.history->call_cnt; i++)
		assert_int_equal(run.history->calls[i].epoch, i / 41 + 1);
	history_run_free(&run);
}

/* Without workers nothing tells one epoch from the next, and nothing is made up. */
static void test_no_workers(void **unused)
{
	const struct scn_conf conf = { .workers = 0, .batches = 10, .label = LABEL_SINGLE };
	const struct scn_view view = { 0 };
	struct history_run run;

	(void)unused;
	history_run(&run, epochs(&conf, 2), &view);
	assert_int_equal(run.history->call_cnt, 22);
	for (size_t i = 0; i < 22; i++) {
		const struct dlp_history_call *call = &run.history->calls[i];

		assert_int_equal(call->epoch, 0);
		assert_int_equal(call->index, -1);
		assert_int_equal(call->ready, -1);
		assert_false(call->flags & (DLP_CALL_BATCH | DLP_CALL_FIRST));
	}
	assert_true(run.history->iterators[0].plain);
	assert_int_equal(run.history->worker_cnt, 0);
	assert_int_equal(run.history->production_cnt, 0);
	history_run_free(&run);
}

/* Attached in the middle: calls before it are not in the window, all later ones are told. */
static void test_middle(void **unused)
{
	struct scn_view view = { 0 };
	const struct scn_call *truth;
	struct history_run run;
	struct scn *scn = epochs(&multi, 2);
	size_t cnt = scn_calls(scn, &truth), inside = 0, counted = 0;

	(void)unused;
	view.start_ns = truth[20].start_ns - MS;
	history_run(&run, scn, &view);
	for (size_t i = 0; i < cnt; i++)
		inside += truth[i].end_ns >= run.history->start_ns;
	for (size_t i = 0; i < run.history->call_cnt; i++) {
		const struct dlp_history_call *call = &run.history->calls[i];

		counted += !!(call->flags & DLP_CALL_WINDOW);
		assert_int_equal(call->loader, 1);
		/* calls from before the first message are its iterator's */
		assert_false(dlp_history_iterator(run.history, call->iterator)->plain);
		assert_true(call->epoch == 1 || call->epoch == 2);
		assert_true(!i || run.history->calls[i - 1].epoch <= call->epoch);
	}
	assert_int_equal(counted, inside);
	history_run_free(&run);
}

/* More labels than fit: counted, and what came first is kept. */
static void test_bounds(void **unused)
{
	const struct scn_view view = { 0 };
	struct scn *scn = scn_new(3);
	struct history_run run;
	char text[32];

	(void)unused;
	scn_labels(scn);
	scn_step(scn, 20 * MS);
	for (uint32_t i = 0; i < DLP_HISTORY_LABELS_MAX + 50; i++) {
		(void)snprintf(text, sizeof(text), "label %u", i);
		history_run_scope(scn, SCN_TRAINER, scn_now(scn), scn_now(scn) + 10, 1000 + i,
				  text);
		scn_step(scn, 20);
	}
	history_run(&run, scn, &view);
	assert_int_equal(run.history->label_cnt, DLP_HISTORY_LABELS_MAX);
	assert_int_equal(run.history->scope_cnt, DLP_HISTORY_LABELS_MAX);
	assert_int_equal(run.history->lost.labels, 50);
	assert_string_equal(run.history->labels[run.history->scopes[7].label], "label 7");
	history_run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),	   cmocka_unit_test(test_productions),
		cmocka_unit_test(test_workers),	   cmocka_unit_test(test_samples),
		cmocka_unit_test(test_two_loaders), cmocka_unit_test(test_persistent),
		cmocka_unit_test(test_no_workers), cmocka_unit_test(test_middle),
		cmocka_unit_test(test_bounds),	   cmocka_unit_test(test_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
