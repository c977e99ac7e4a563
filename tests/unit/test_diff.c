/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Comparing summaries: which figures, their difference, and when it is more than noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>

#include "diff.h"

struct job {
	double exposed, calls, median_us, p95_us, p99_us, run_us, disk_us, batches;
	const char *cause;
};

static const struct job usual = { .exposed = 0.4,
				  .calls = 1000,
				  .median_us = 1000,
				  .p95_us = 4000,
				  .p99_us = 9000,
				  .run_us = 6e6,
				  .disk_us = 2e6,
				  .batches = 1000,
				  .cause = "worker_cpu" };

static json_t *worker(const struct job *job, double more)
{
	return json_pack("{s:f, s:{s:f}, s:{s:f, s:f, s:f}}", "batches", job->batches / 2, "produce",
			 "median_us", 8000 * more, "states", "run_us", job->run_us * more, "disk_us",
			 job->disk_us, "idle_us", 1e6);
}

static json_t *summary(const struct job *job)
{
	json_t *root = json_pack(
		"{s:s, s:{s:f}, s:{s:s}, s:{s:s, s:s, s:s, s:f, s:f},"
		" s:[{s:f, s:{s:f, s:f, s:f, s:f}, s:{s:i, s:n}}], s:[o, o]}",
		"schema", "dlprof.summary/1", "window", "wall_s", 10.0, "target", "cmdline",
		"python train.py", "verdict", "bottleneck", "data_loading", "severity", "high",
		"cause", job->cause, "exposed_wait_ratio", job->exposed, "startup_ratio", 0.0,
		"loaders", "batches", job->batches, "getnext", "count", job->calls, "median_us",
		job->median_us, "p95_us", job->p95_us, "p99_us", job->p99_us, "iterator_init",
		"count", 0, "median_us", "workers", worker(job, 1), worker(job, 1.02));

	assert_non_null(root);
	return root;
}

static const struct dlp_diff_figure *find(const struct dlp_diff *diff, const char *id)
{
	for (size_t i = 0; i < diff->figure_cnt; i++) {
		if (!strcmp(diff->figure[i].id, id))
			return &diff->figure[i];
	}
	return NULL;
}

static const struct dlp_diff_figure *need(const struct dlp_diff *diff, const char *id)
{
	const struct dlp_diff_figure *figure = find(diff, id);

	if (!figure)
		fail_msg("no figure '%s'", id);
	return figure;
}

static void make(struct dlp_diff *diff, json_t *a, json_t *b)
{
	int bad;

	assert_int_equal(dlp_diff_make(a, b, diff, &bad), 0);
}

static void done(struct dlp_diff *diff)
{
	json_decref((json_t *)diff->a);
	json_decref((json_t *)diff->b);
}

static void test_same(void **state)
{
	struct dlp_diff diff;

	(void)state;
	make(&diff, summary(&usual), summary(&usual));
	assert_false(diff.verdict_changed);
	assert_true(diff.figure_cnt >= 7);
	for (size_t i = 0; i < diff.figure_cnt; i++) {
		assert_true(diff.figure[i].a == diff.figure[i].b);
		assert_int_equal(dlp_diff_beyond(&diff.figure[i]), 0);
	}
	/* not measured in either */
	assert_null(find(&diff, "iterator_init_median_us"));
	done(&diff);
}

static void test_changed(void **state)
{
	struct job better = usual;
	struct dlp_diff diff;

	(void)state;
	better.exposed = 0.1;
	better.batches = 1600;
	better.disk_us = 0;
	better.median_us = 400;
	better.cause = "disk_read";
	make(&diff, summary(&usual), summary(&better));
	assert_true(diff.verdict_changed);
	assert_int_equal(dlp_diff_beyond(need(&diff, "exposed_wait_ratio")), 1);
	assert_int_equal(dlp_diff_beyond(need(&diff, "batches_per_s")), 1);
	assert_int_equal(dlp_diff_beyond(need(&diff, "getnext_median_us")), 1);
	assert_true(fabs(need(&diff, "batches_per_s")->a - 100) < 1e-9);
	assert_true(fabs(need(&diff, "batches_per_s")->b - 160) < 1e-9);
	/* 2 of 8 seconds (and 8.12 of the other worker), idle left out */
	assert_true(fabs(need(&diff, "production_disk_share")->a - 4 / 16.12) < 1e-6);
	assert_true(need(&diff, "production_disk_share")->b == 0);
	assert_int_equal(dlp_diff_beyond(need(&diff, "production_disk_share")), 1);
	assert_null(find(&diff, "production_net_share"));
	done(&diff);
}

/* The same change is noise in ten calls, and is not in a hundred thousand. */
static void test_count(void **state)
{
	struct job few = usual, few_more, many = usual, many_more;
	struct dlp_diff diff;

	(void)state;
	few.calls = 10;
	many.calls = 100000;
	few_more = few;
	many_more = many;
	few_more.median_us = many_more.median_us = 1150;
	few_more.p99_us = many_more.p99_us = 9800;
	make(&diff, summary(&few), summary(&few_more));
	assert_int_equal(dlp_diff_beyond(need(&diff, "getnext_median_us")), 0);
	assert_int_equal(dlp_diff_beyond(need(&diff, "getnext_p99_us")), -1);
	done(&diff);
	make(&diff, summary(&many), summary(&many_more));
	assert_int_equal(dlp_diff_beyond(need(&diff, "getnext_median_us")), 1);
	assert_int_equal(dlp_diff_beyond(need(&diff, "getnext_p99_us")), 1);
	done(&diff);
}

/* Not measured in one of them: no difference, which is not the same as none. */
static void test_unmeasured(void **state)
{
	json_t *b = summary(&usual);
	struct dlp_diff diff;
	json_t *json, *figure;
	size_t i;

	(void)state;
	json_object_set_new(json_object_get(b, "verdict"), "exposed_wait_ratio", json_null());
	json_object_set_new(b, "workers", json_string("none"));
	make(&diff, summary(&usual), b);
	assert_int_equal(dlp_diff_beyond(need(&diff, "exposed_wait_ratio")), -1);
	assert_int_equal(dlp_diff_beyond(need(&diff, "production_median_us")), -1);
	json = dlp_diff_json(&diff, "a", "b\"\x1b");
	assert_non_null(json);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(json, "b"), "file")), "b\"?");
	assert_int_equal(json_array_size(json_object_get(json, "figures")), diff.figure_cnt);
	json_array_foreach(json_object_get(json, "figures"), i, figure) {
		bool known = !strcmp(json_string_value(json_object_get(figure, "metric")),
				     "exposed_wait_ratio");

		if (known)
			assert_true(json_is_null(json_object_get(figure, "b")));
		if (known)
			assert_true(json_is_null(json_object_get(figure, "beyond_noise")));
	}
	json_decref(json);
	done(&diff);
}

static void test_text(void **state)
{
	struct job better = usual;
	struct dlp_diff diff;
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	better.exposed = 0.1;
	better.cause = "evil\x1b[2J";
	make(&diff, summary(&usual), summary(&better));
	dlp_diff_text(file, &diff, "first.json", "second\n.json");
	fclose(file);
	assert_non_null(strstr(text, "A: first.json, 10.0 s of python train.py\n"));
	assert_non_null(strstr(text, "B: second?.json"));
	assert_non_null(strstr(text, "worker_cpu -> data_loading, high: evil?[2J\n"));
	assert_non_null(strstr(text, "training waits for data                  40.0 %       10.0 %"
				     "    -30.0 points  better"));
	free(text);
	done(&diff);
}

static void test_no_summary(void **state)
{
	json_t *good = summary(&usual), *other = json_pack("{s:s}", "schema", "dlprof.diff/1");
	json_t *list = json_array();
	struct dlp_diff diff;
	int bad = -1;

	(void)state;
	assert_int_equal(dlp_diff_make(good, other, &diff, &bad), -EINVAL);
	assert_int_equal(bad, 1);
	assert_int_equal(dlp_diff_make(list, good, &diff, &bad), -EINVAL);
	assert_int_equal(bad, 0);
	json_decref(good);
	json_decref(other);
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),	   cmocka_unit_test(test_changed),
		cmocka_unit_test(test_count),	   cmocka_unit_test(test_unmeasured),
		cmocka_unit_test(test_text),	   cmocka_unit_test(test_no_summary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
