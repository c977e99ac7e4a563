/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The trace, read back as JSON, against the simulator's truth: slices, nesting, arrows, rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "history_run.h"
#include "model_check.h"
#include "trace.h"
#include "trace_read.h"
#include "track.h"

/* No two slices of a row overlap without one being inside the other. */
static void check_nesting(const struct trace_read *picture)
{
	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *a = &picture->event[i];

		for (size_t j = 0; a->ph == 'X' && j < picture->event_cnt; j++) {
			const struct trace_event *b = &picture->event[j];

			if (b->ph != 'X' || b->pid != a->pid || b->tid != a->tid ||
			    b->start_ns <= a->start_ns || b->start_ns >= a->end_ns)
				continue;
			if (b->end_ns > a->end_ns)
				fail_msg("%s and %s overlap", a->name, b->name);
		}
	}
}

/* Each row with slices has a name, and so has its process. */
static void check_names(const struct trace_read *picture)
{
	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *event = &picture->event[i];
		unsigned int row = 0, process = 0;

		for (size_t j = 0; event->ph == 'X' && j < picture->event_cnt; j++) {
			const struct trace_event *meta = &picture->event[j];

			if (meta->ph != 'M' || meta->pid != event->pid)
				continue;
			process += !strcmp(meta->name, "process_name");
			row += !strcmp(meta->name, "thread_name") && meta->tid == event->tid;
		}
		if (event->ph == 'X') {
			assert_int_equal(process, 1);
			assert_int_equal(row, 1);
		}
	}
}

static void check_calls(const struct trace_read *picture, const struct scn *scn)
{
	const struct scn_call *call;
	size_t call_cnt = scn_calls(scn, &call), drawn = 0;

	for (size_t i = 0; i < call_cnt; i++) {
		const struct trace_event *event =
			trace_read_find(picture, 'X', "GetNext", SCN_TRAINER, call[i].start_ns);

		assert_non_null(event);
		assert_int_equal(event->tid, call[i].tid);
		assert_int_equal(event->end_ns, call[i].end_ns);
		assert_int_equal(trace_read_arg(event, "batch"), call[i].data ? call[i].index : -1);
		if (call[i].data)
			assert_int_equal(trace_read_arg(event, "worker"), call[i].worker_pid);
	}
	for (size_t i = 0; i < picture->event_cnt; i++)
		drawn += picture->event[i].ph == 'X' && !strcmp(picture->event[i].name, "GetNext");
	assert_int_equal(drawn, call_cnt);
}

static void check_productions(const struct trace_read *picture, const struct scn *scn)
{
	const struct scn_made *made;
	size_t made_cnt = scn_made(scn, &made);

	assert_true(made_cnt > 0);
	for (size_t i = 0; i < made_cnt; i++) {
		const struct trace_event *event =
			trace_read_find(picture, 'X', "make batch", made[i].pid, made[i].taken_ns);

		assert_non_null(event);
		assert_int_equal(event->tid, made[i].pid);
		assert_int_equal(trace_read_arg(event, "batch"), made[i].index);
		/* the model sees the worker go for the next index, some microseconds later */
		assert_true(event->end_ns >= made[i].done_ns);
		assert_true(event->end_ns < made[i].done_ns + 2 * MS);
	}
}

/* The other end of an arrow. */
static const struct trace_event *partner(const struct trace_read *picture,
					 const struct trace_event *event)
{
	const struct trace_event *found = NULL;

	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *other = &picture->event[i];

		if (other->ph == (event->ph == 's' ? 'f' : 's') && other->id == event->id) {
			assert_null(found);
			found = other;
		}
	}
	return found;
}

/* Arrows begin and end on slices, those of one batch; returns how many there are of this name. */
static size_t check_arrows(const struct trace_read *picture, const char *name)
{
	size_t cnt = 0;

	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *from = &picture->event[i], *to;
		const struct trace_event *left, *right;

		if (from->ph == 'f')
			assert_non_null(partner(picture, from));
		if (from->ph != 's' || strcmp(from->name, name) != 0)
			continue;
		to = partner(picture, from);
		assert_non_null(to);
		assert_string_equal(to->name, name);
		assert_true(from->start_ns <= to->start_ns);
		left = trace_read_slice(picture, from->pid, from->tid, from->start_ns);
		right = trace_read_slice(picture, to->pid, to->tid, to->start_ns);
		assert_non_null(left);
		assert_non_null(right);
		if (!strcmp(name, "ask")) {
			assert_int_equal(from->pid, SCN_TRAINER);
			assert_string_equal(right->name, "make batch");
		} else if (!strcmp(name, "send")) {
			assert_string_equal(left->name, "make batch");
			assert_string_equal(right->name, "GetNext");
		} else {
			assert_string_equal(left->name, "GetNext");
			assert_string_equal(right->name, "GetNext");
			assert_true(left != right);
		}
		cnt++;
	}
	return cnt;
}

/* Every batch returned has a way from its making to the call that returned it. */
static void check_ways(const struct trace_read *picture, const struct scn *scn)
{
	const struct scn_call *call;
	size_t call_cnt = scn_calls(scn, &call), ways = 0;

	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *from = &picture->event[i], *made, *end, *returned;

		if (from->ph != 's' || strcmp(from->name, "send") != 0)
			continue;
		made = trace_read_slice(picture, from->pid, from->tid, from->start_ns);
		end = partner(picture, from);
		returned = trace_read_slice(picture, end->pid, end->tid, end->start_ns);
		/* received early: another arrow goes on from there */
		for (size_t j = 0; j < picture->event_cnt; j++) {
			const struct trace_event *on = &picture->event[j];

			if (on->ph == 's' && !strcmp(on->name, "return") &&
			    on->start_ns == end->start_ns) {
				end = partner(picture, on);
				returned = trace_read_slice(picture, end->pid, end->tid,
							    end->start_ns);
			}
		}
		assert_int_equal(trace_read_arg(returned, "batch"), trace_read_arg(made, "batch"));
		assert_int_equal(trace_read_arg(returned, "worker"), made->pid);
		ways++;
	}
	for (size_t i = 0; i < call_cnt; i++)
		ways -= call[i].data;
	assert_int_equal(ways, 0);
}

static void check_ready(const struct trace_read *picture, const struct dlp_history *history)
{
	size_t cnt = 0;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		const struct trace_event *event = trace_read_find(
			picture, 'C', "ready batches, loader 1", SCN_TRAINER, call->start_ns);

		if (call->ready < 0)
			continue;
		assert_non_null(event);
		assert_int_equal(trace_read_arg(event, "batches"), call->ready);
		cnt++;
	}
	assert_true(cnt > 0);
}

/* One worker in five is slow, so that results overtake each other. */
static uint64_t uneven(int64_t index, int worker)
{
	return (worker == 1 ? 25 : 4) * MS + (uint64_t)(index % 3) * MS;
}

static struct scn *job(const struct scn_conf *conf)
{
	struct scn *scn = scn_new(3);
	struct scn_iter *it;

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	it = scn_iter(scn, conf);
	while (scn_next(scn, it, false))
		scn_step(scn, 3 * MS);
	scn_close(scn, it);
	return scn;
}

static void test_job(void **state)
{
	static const struct scn_view views[] = { { 0 }, { .uprobe = true, .jitter_ns = 4000 } };

	(void)state;
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		struct scn_conf conf = {
			.workers = 3, .batches = 41, .produce = uneven, .label = LABEL_MULTI
		};
		struct history_run run;
		struct trace_read picture;

		history_run(&run, job(&conf), &views[i]);
		picture = trace_read(run.history);
		check_nesting(&picture);
		check_names(&picture);
		check_calls(&picture, run.scn);
		check_productions(&picture, run.scn);
		/* each batch was asked for in a call or as the iterator was made */
		assert_int_equal(check_arrows(&picture, "ask"), 41);
		assert_int_equal(check_arrows(&picture, "send"), 41);
		/* results did overtake each other */
		assert_true(check_arrows(&picture, "return") > 5);
		check_ways(&picture, run.scn);
		check_ready(&picture, run.history);
		trace_read_free(&picture);
		history_run_free(&run);
	}
}

/* Stations before the window opened have no slice to draw an arrow from. */
static void test_middle(void **state)
{
	struct scn_conf conf = {
		.workers = 2, .batches = 60, .produce = uneven, .label = LABEL_MULTI
	};
	struct scn *scn = job(&conf);
	const struct scn_call *call;
	size_t call_cnt = scn_calls(scn, &call), calls = 0;
	struct scn_view view = { .start_ns = call[20].start_ns - MS,
				 .end_ns = call[call_cnt - 10].end_ns + MS };
	struct history_run run;
	struct trace_read picture;

	(void)state;
	history_run(&run, scn, &view);
	picture = trace_read(run.history);
	check_nesting(&picture);
	check_names(&picture);
	check_arrows(&picture, "ask");
	check_arrows(&picture, "return");
	for (size_t i = 0; i < picture.event_cnt; i++)
		calls += picture.event[i].ph == 'X' && !strcmp(picture.event[i].name, "GetNext");
	assert_int_equal(calls, call_cnt - 20 - 9);
	/* all but the four in flight and the one waited for when the window opened */
	assert_true(check_arrows(&picture, "send") < calls);
	assert_in_range(check_arrows(&picture, "send"), calls - 5, calls - 1);
	trace_read_free(&picture);
	history_run_free(&run);
}

/* A job's labels are text of anybody. */
static void test_labels(void **state)
{
	static const char evil[] = "a\"b\\c\n\x1b[31m\xff;</script>";
	struct scn_conf conf = { .workers = 0, .batches = 3, .label = LABEL_SINGLE };
	struct scn *scn = job(&conf);
	uint64_t end_ns = scn_now(scn);
	struct history_run run;
	struct trace_read picture;
	const struct trace_event *outer, *inner;

	(void)state;
	scn_step(scn, 50 * MS);
	history_run_scope(scn, SCN_TRAINER, end_ns + 10 * MS, end_ns + 20 * MS, 9, evil);
	history_run_scope(scn, SCN_TRAINER, end_ns + 5 * MS, end_ns + 30 * MS, 10, "step");
	history_run(&run, scn, &(struct scn_view){ 0 });
	picture = trace_read(run.history);
	outer = trace_read_find(&picture, 'X', "step", SCN_TRAINER, end_ns + 5 * MS);
	inner = trace_read_slice(&picture, SCN_TRAINER, SCN_TRAINER, end_ns + 15 * MS);
	assert_non_null(outer);
	assert_non_null(inner);
	assert_ptr_equal(trace_read_slice(&picture, SCN_TRAINER, SCN_TRAINER, end_ns + 25 * MS),
			 outer);
	assert_string_equal(inner->name, "a\"b\\c??[31m?;</script>");
	assert_int_equal(inner->end_ns, end_ns + 20 * MS);
	check_nesting(&picture);
	trace_read_free(&picture);
	history_run_free(&run);
}

/* What the history of a damaged recording might say: slices that do not nest, numbers of nobody. */
static void test_overlap(void **state)
{
	struct dlp_model model = { .trainer_pid = 7, .main_tid = 7 };
	struct dlp_history_scope scope[40] = {
		{ .start_ns = 100, .end_ns = 200, .pid = 7, .tid = 7 },
		{ .start_ns = 150, .end_ns = 300, .pid = 7, .tid = 7 }
	};
	struct dlp_history_sample sample[2] = { { 100, 200, 7, 7, DLP_LANE_TRAINER, { { 0 } } },
						{ 150, 250, 7, 7, DLP_LANE_TRAINER, { { 0 } } } };
	struct dlp_history history = {
		.model = &model, .scopes = scope, .scope_cnt = 2, .samples = sample, .sample_cnt = 2
	};
	struct trace_read picture;
	const json_t *left_out;
	size_t slices = 0;

	(void)state;
	picture = trace_read(&history);
	check_nesting(&picture);
	assert_int_equal(trace_read_slice(&picture, 7, 7, 160)->end_ns, 200);
	assert_true(
		json_is_true(json_object_get(trace_read_slice(&picture, 7, 7, 160)->args, "cut")));
	trace_read_free(&picture);
	/* nested without end, and a thread that cannot be */
	for (size_t i = 0; i < 40; i++)
		scope[i] = (struct dlp_history_scope){
			.start_ns = 100 + i, .end_ns = 1000 - i, .pid = 7, .tid = 7
		};
	scope[39].tid = UINT32_MAX;
	history.scope_cnt = 40;
	history.sample_cnt = 0;
	history.lost.waits = 3;
	picture = trace_read(&history);
	for (size_t i = 0; i < picture.event_cnt; i++)
		slices += picture.event[i].ph == 'X';
	assert_int_equal(slices, DLP_TRACK_DEPTH_MAX);
	left_out = json_object_get(json_object_get(picture.root, "otherData"), "left_out");
	assert_int_equal(json_object_size(left_out), 1);
	assert_int_equal(json_integer_value(json_object_get(left_out, "waits")), 3);
	check_nesting(&picture);
	trace_read_free(&picture);
}

static void test_full_disk(void **state)
{
	struct dlp_model model = { .trainer_pid = 7 };
	struct dlp_history history = { .model = &model };
	FILE *file = fopen("/dev/full", "w");

	(void)state;
	if (!file) {
		print_message("no /dev/full here\n");
		skip();
	}
	assert_int_equal(dlp_trace_write(file, &history), -ENOSPC);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_job),	  cmocka_unit_test(test_middle),
		cmocka_unit_test(test_labels),	  cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
