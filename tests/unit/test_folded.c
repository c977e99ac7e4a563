/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Folded stacks: which lines, and whether each microsecond is in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folded.h"
#include "util.h"

#define TRAINER 7u
#define WORKER 8u
#define MS DLP_NS_PER_MS

static char labels[][DLP_LABEL_MAX + 1] = { "step", "forward", "de;code\n", "" };

static struct dlp_loader loader = { .id = 1, .label = 1, .tid = TRAINER };
static struct dlp_model model = { .trainer_pid = TRAINER, .main_tid = TRAINER, .loaders = &loader };

static struct dlp_history_scope scope(uint32_t pid, uint64_t start_ms, uint64_t end_ms,
				      uint32_t label, uint64_t child_ms, uint32_t weight)
{
	return (struct dlp_history_scope){ .start_ns = start_ms * MS,
					   .end_ns = end_ms * MS,
					   .child_ns = child_ms * MS,
					   .pid = pid,
					   .tid = pid,
					   .label = label,
					   .weight = weight };
}

static void check(struct dlp_history *history, const char *expected)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	assert_non_null(file);
	history->model = &model;
	history->labels = labels;
	history->label_cnt = DLP_ARRAY_SIZE(labels);
	assert_int_equal(dlp_folded_write(file, history), 0);
	fclose(file);
	assert_string_equal(text, expected);
	free(text);
}

static void test_nested(void **state)
{
	struct dlp_history_scope scopes[] = {
		scope(TRAINER, 10, 30, 0, 12, 1), scope(TRAINER, 12, 24, 1, 0, 1),
		scope(WORKER, 13, 15, 2, 0, 1),	  scope(WORKER + 1, 13, 18, 2, 0, 1),
		scope(TRAINER, 40, 50, 0, 0, 1),
	};
	struct dlp_history history = { .end_ns = 1000 * MS, .scopes = scopes,
				       .scope_cnt = DLP_ARRAY_SIZE(scopes) };

	(void)state;
	check(&history, "trainer;step 18000\n"
			"trainer;step;forward 12000\n"
			"worker;de:code? 7000\n");
}

/* GetNext is a frame as well, without what is nested in it. */
static void test_call(void **state)
{
	struct dlp_history_scope scopes[] = { scope(TRAINER, 12, 15, 2, 0, 1),
					      scope(TRAINER, 20, 22, 3, 0, 2) };
	struct dlp_history_call call = { .start_ns = 10 * MS, .end_ns = 30 * MS, .tid = TRAINER };
	struct dlp_history history = { .end_ns = 1000 * MS, .scopes = scopes, .scope_cnt = 2,
				       .calls = &call, .call_cnt = 1 };

	(void)state;
	check(&history, "trainer;GetNext 13000\n"
			"trainer;GetNext;de:code? 3000\n"
			"trainer;GetNext;scope 4000\n");
}

/* A batch in the making is no scope; one that stands for others counts for them. */
static void test_sampled(void **state)
{
	struct dlp_history_scope scopes[] = { scope(WORKER, 12, 14, 2, 1, 10),
					      scope(WORKER, 15, 16, 0, 0, 3) };
	struct dlp_history_production made = { .taken_ns = 11 * MS, .done_ns = 40 * MS,
					       .pid = WORKER };
	struct dlp_history history = { .end_ns = 1000 * MS, .scopes = scopes, .scope_cnt = 2,
				       .productions = &made, .production_cnt = 1 };

	(void)state;
	check(&history, "worker;de:code? 10000\n"
			"worker;step 3000\n");
}

/* Of scopes at the window's edges only the part inside. */
static void test_edges(void **state)
{
	struct dlp_history_scope scopes[] = { scope(TRAINER, 90, 110, 0, 0, 1),
					      scope(TRAINER, 190, 230, 1, 20, 1),
					      scope(TRAINER, 300, 310, 1, 0, 1) };
	struct dlp_history history = { .start_ns = 100 * MS, .end_ns = 200 * MS, .scopes = scopes,
				       .scope_cnt = 3 };

	(void)state;
	check(&history, "trainer;forward 5000\n"
			"trainer;step 10000\n");
}

static void test_nothing(void **state)
{
	struct dlp_history history = { .end_ns = 1000 * MS };

	(void)state;
	check(&history, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested),	cmocka_unit_test(test_call),
		cmocka_unit_test(test_sampled), cmocka_unit_test(test_edges),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
