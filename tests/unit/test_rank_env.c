/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The number of a rank, from the environment a launcher gave it; all of it untrusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "rank_env.h"
#include "tree_fixture.h"

#define PID 4711
/* As much of an environment as is read, and more. */
#define MUCH (300 * 1024)

/* `environ` has its texts parted by '|'. */
static void assert_told(const char *environ, int rank, int local_size)
{
	struct dlp_rank_env env = { .rank = -7, .local_size = -7 };
	size_t bytes = strlen(environ);
	char *texts = strdup(environ);

	for (size_t i = 0; i < bytes; i++)
		texts[i] = texts[i] == '|' ? '\0' : texts[i];
	/* the last one ends as the others do */
	tree_write(&tree, "proc/4711/environ", texts, bytes + 1);
	free(texts);
	dlp_rank_env_get(tree.path, PID, &env);
	if (env.rank != rank || env.local_size != local_size)
		fail_msg("rank %d of %d for %s", env.rank, env.local_size, environ);
}

static void numbers_are_found(void **state)
{
	(void)state;
	assert_told("HOME=/root|LOCAL_RANK=1|RANK=9|LOCAL_WORLD_SIZE=2|WORLD_SIZE=16", 9, 2);
	assert_told("RANK=0", 0, 1);
	assert_told("LOCAL_RANK=3|WORLD_SIZE=4", 3, 4);
	assert_told("A=B", -1, 1);
	assert_told("", -1, 1);
}

static void what_is_no_number_was_not_told(void **state)
{
	(void)state;
	assert_told("RANK=|WORLD_SIZE=", -1, 1);
	assert_told("RANK=-1|LOCAL_WORLD_SIZE=0", -1, 1);
	assert_told("RANK=1x|WORLD_SIZE=4294967297", -1, 1);
	assert_told("RANK=99999999999999999999", -1, 1);
	assert_told("RANK=\033[31m1|XRANK=3|RANKS=4|rank=5", -1, 1);
	assert_told("RANK", -1, 1);
	/* the first one counts, as for getenv() */
	assert_told("RANK=1|RANK=2", 1, 1);
}

static void torchrun_tells_of_restarts(void **state)
{
	static const struct {
		const char *environ;
		bool restarts;
	} cases[] = {
		{ "TORCHELASTIC_MAX_RESTARTS=3", true },
		{ "TORCHELASTIC_MAX_RESTARTS=0", false },
		{ "TORCHELASTIC_MAX_RESTARTS=x", false },
		{ "RANK=0", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct dlp_rank_env env = { .restarts = !cases[i].restarts };

		/* its terminating byte ends the last text */
		tree_write(&tree, "proc/4711/environ", cases[i].environ,
			   strlen(cases[i].environ) + 1);
		dlp_rank_env_get(tree.path, PID, &env);
		assert_int_equal(env.restarts, cases[i].restarts);
	}
}

static void a_long_environment_is_read_in_part(void **state)
{
	struct dlp_rank_env env;
	char *texts = calloc(1, MUCH);

	(void)state;
	strcpy(texts, "RANK=5");
	memset(texts + 7, 'x', MUCH - 8);
	tree_write(&tree, "proc/4711/environ", texts, MUCH);
	dlp_rank_env_get(tree.path, PID, &env);
	assert_int_equal(env.rank, 5);
	/* the end of what is read lies in a number */
	memset(texts, 'x', MUCH);
	memcpy(texts + 256 * 1024 - 8, "\0RANK=123", 9);
	tree_write(&tree, "proc/4711/environ", texts, MUCH);
	dlp_rank_env_get(tree.path, PID, &env);
	assert_int_equal(env.rank, -1);
	free(texts);
}

static void a_process_that_is_gone(void **state)
{
	struct dlp_rank_env env = { .rank = -7, .local_size = -7 };

	(void)state;
	dlp_rank_env_get(tree.path, PID, &env);
	assert_int_equal(env.rank, -1);
	assert_int_equal(env.local_size, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(numbers_are_found, start, end),
		cmocka_unit_test_setup_teardown(what_is_no_number_was_not_told, start, end),
		cmocka_unit_test_setup_teardown(torchrun_tells_of_restarts, start, end),
		cmocka_unit_test_setup_teardown(a_long_environment_is_read_in_part, start, end),
		cmocka_unit_test_setup_teardown(a_process_that_is_gone, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
