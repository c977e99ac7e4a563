/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The folders for SageMaker's Debugger: which files, named how, and what their events say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "history_run.h"
#include "model_check.h"
#include "smdebug.h"
#include "tree.h"
#include "util.h"

/* As the simulator has it. */
#define REALTIME_AHEAD_NS (1000000 * SEC)

static struct tree tree;

static int setup(void **state)
{
	(void)state;
	tree_init(&tree);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tree_fini(&tree);
	return 0;
}

static size_t list(const char *pattern, glob_t *ret)
{
	assert_int_equal(glob(tree_path(&tree, "%s", pattern), 0, NULL, ret), 0);
	return ret->gl_pathc;
}

static int write_to(const char *name, const struct dlp_history *history)
{
	char error[200] = "";
	int err = dlp_smdebug_write(tree_path(&tree, "%s", name), history, error, sizeof(error));

	assert_int_equal(!!err, !!*error);
	return err;
}

/* Realtime as the reader computes it: the file's base plus the event's time. */
static uint64_t start_of(const json_t *event, uint64_t base_us)
{
	return base_us * 1000 +
	       (uint64_t)llround(json_number_value(json_object_get(event, "ts")) * 1000);
}

static uint64_t dur_of(const json_t *event)
{
	return (uint64_t)llround(json_number_value(json_object_get(event, "dur")) * 1000);
}

static const json_t *arg(const json_t *event, const char *key)
{
	return json_object_get(json_object_get(event, "args"), key);
}

static uint64_t slow(int64_t index, int worker)
{
	(void)worker;
	return index == 9 ? 90 * MS : 8 * MS;
}

static struct scn *job(void)
{
	struct scn_conf conf = { .workers = 2, .batches = 30, .produce = slow,
				 .label = LABEL_MULTI };
	struct scn *scn = scn_new(5);
	struct scn_iter *it;

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	it = scn_iter(scn, &conf);
	while (scn_next(scn, it, false))
		scn_step(scn, 3 * MS);
	scn_close(scn, it);
	scn_step(scn, 5 * MS);
	return scn;
}

static void check_call(const json_t *event, uint64_t base_us, const struct scn_call *call)
{
	assert_int_equal(start_of(event, base_us), call->start_ns + REALTIME_AHEAD_NS);
	assert_int_equal(dur_of(event), call->end_ns - call->start_ns);
	assert_string_equal(json_string_value(json_object_get(event, "name")),
			    "DataLoaderIter::GetNext");
	/* pids of the simulator's workers count up from 2000 */
	assert_int_equal(json_integer_value(arg(event, "worker_id")),
			 call->data ? (int)call->worker_pid - 2000 : -1);
	assert_int_equal(json_integer_value(arg(event, "pid")), SCN_TRAINER);
}

static void test_events(void **state)
{
	struct history_run run;
	const struct scn_call *call;
	size_t calls = 0, workers = 0, call_cnt, at;
	uint64_t base_us, end_us, last_ns = 0;
	json_t *root, *event;
	json_error_t error;
	struct stat st;
	glob_t files;

	(void)state;
	history_run(&run, job(), &(struct scn_view){ 0 });
	call_cnt = scn_calls(run.scn, &call);
	assert_int_equal(write_to("out", run.history), 0);
	assert_int_equal(list("out/framework/pevents/*/*", &files), 1);
	root = json_load_file(files.gl_pathv[0], JSON_REJECT_DUPLICATES, &error);
	assert_non_null(root);
	base_us = (uint64_t)json_integer_value(
		arg(json_array_get(root, 0), "start_time_since_epoch_in_micros"));
	json_array_foreach(root, at, event) {
		const char *name = json_string_value(json_object_get(event, "name"));

		if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0)
			continue;
		if (start_of(event, base_us) + dur_of(event) > last_ns)
			last_ns = start_of(event, base_us) + dur_of(event);
		if (!strcmp(name, "DataLoaderWorker"))
			workers++;
		else if (!strcmp(name, "DataLoaderIter::GetNext"))
			check_call(event, base_us, &call[calls++]);
	}
	assert_int_equal(calls, call_cnt);
	assert_int_equal(workers, 2);
	/* the reader finds events by the time in the name: none may end later */
	end_us = strtoull(strrchr(files.gl_pathv[0], '/') + 1, NULL, 10);
	assert_in_range(end_us * 1000 - last_ns, 1, 1000);
	assert_non_null(strstr(files.gl_pathv[0], "_1000-algo-1_pythontimeline.json"));
	/* 1000000 s and some: 12 January 1970, 13:48 */
	assert_non_null(strstr(files.gl_pathv[0], "/1970011213/"));
	globfree(&files);
	json_decref(root);
	/* and where time begins by this one's */
	assert_int_equal(list("out/system/incremental/*/*", &files), 1);
	assert_int_equal(strtoull(strrchr(files.gl_pathv[0], '/') + 1, NULL, 10),
			 (run.history->start_ns + REALTIME_AHEAD_NS) / SEC);
	assert_int_equal(stat(files.gl_pathv[0], &st), 0);
	globfree(&files);
	history_run_free(&run);
}

/* An hour goes into many files, each with what ends within a minute; and over the hour's end. */
static void test_rotation(void **state)
{
	static struct dlp_history_call calls[400];
	struct dlp_model model = { .trainer_pid = 7, .main_tid = 7 };
	struct dlp_history history = { .model = &model, .calls = calls, .call_cnt = 400,
				       .start_ns = 1000 * SEC, .end_ns = 6000 * SEC,
				       .realtime_start_ns = 3600 * 1000 * SEC + 123456789 };
	size_t events = 0;
	glob_t files;

	(void)state;
	for (size_t i = 0; i < 400; i++) {
		calls[i].start_ns = 1000 * SEC + i * 10 * SEC;
		calls[i].end_ns = calls[i].start_ns + SEC + 1;
		calls[i].tid = 7;
		calls[i].flags = i % 4 ? DLP_CALL_WINDOW : 0;
	}
	assert_int_equal(write_to("hour", &history), 0);
	assert_in_range(list("hour/framework/pevents/*/*", &files), 4000 / 60, 4000 / 50 + 1);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		json_t *root = json_load_file(files.gl_pathv[i], 0, NULL);

		assert_non_null(root);
		events += json_array_size(root) - 4; /* names */
		json_decref(root);
	}
	globfree(&files);
	assert_int_equal(events, 300);
	assert_int_equal(list("hour/framework/pevents/1970021116/*", &files) > 0, 1);
	globfree(&files);
	assert_int_equal(list("hour/framework/pevents/1970021117/*", &files) > 0, 1);
	globfree(&files);
}

static void test_refused(void **state)
{
	struct dlp_model model = { .trainer_pid = 7 };
	struct dlp_history history = { .model = &model, .start_ns = 1, .end_ns = 2 };

	(void)state;
	assert_int_equal(write_to("late", &history), -ENODATA);
	history.realtime_start_ns = SEC;
	assert_int_equal(write_to("twice", &history), 0);
	assert_int_equal(write_to("twice", &history), -EEXIST);
	assert_int_equal(write_to("no/such", &history), -ENOENT);
	tree_text(&tree, "file", "x");
	assert_int_equal(write_to("file", &history), -ENOTDIR);
	/* somebody's other things are no obstacle */
	tree_text(&tree, "full/notes.txt", "x");
	assert_int_equal(write_to("full", &history), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
