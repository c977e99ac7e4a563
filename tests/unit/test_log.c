/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Complaints that wait while a screen is up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

static FILE *file;
static int kept = -1;

/* stderr is a file of ours meanwhile. */
static int setup(void **state)
{
	(void)state;
	file = tmpfile();
	kept = dup(STDERR_FILENO);
	return !file || kept < 0 || fflush(stderr) || dup2(fileno(file), STDERR_FILENO) < 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)fflush(stderr);
	(void)dup2(kept, STDERR_FILENO);
	(void)close(kept);
	return fclose(file);
}

static const char *said(void)
{
	static char text[16384];
	ssize_t bytes;

	(void)fflush(stderr);
	bytes = pread(fileno(file), text, sizeof(text) - 1, 0);
	text[bytes > 0 ? bytes : 0] = '\0';
	return text;
}

static void test_held(void **state)
{
	(void)state;
	dlp_complain("%s", "at once");
	assert_string_equal(said(), "dlprof-bpf: at once\n");
	dlp_complaints_hold();
	dlp_complain("rank %d is gone", 1);
	dlp_complain("%s", "");
	dlp_complain("rank %d is gone", 2);
	assert_string_equal(said(), "dlprof-bpf: at once\n");
	dlp_complaints_release();
	assert_string_equal(said(), "dlprof-bpf: at once\n"
				    "dlprof-bpf: rank 1 is gone\n"
				    "dlprof-bpf: \n"
				    "dlprof-bpf: rank 2 is gone\n");
	/* none comes twice */
	dlp_complaints_hold();
	dlp_complaints_release();
	dlp_complain("%s", "again");
	assert_string_equal(said() + strlen(said()) - strlen("2 is gone\ndlprof-bpf: again\n"),
			    "2 is gone\ndlprof-bpf: again\n");
}

/* More than there is room for: whole lines, and how many are left out. */
static void test_many(void **state)
{
	char line[201];
	size_t lines = 0;
	const char *text;

	(void)state;
	memset(line, 'x', 200);
	line[200] = '\0';
	dlp_complaints_hold();
	for (int i = 0; i < 50; i++)
		dlp_complain("%s", line);
	dlp_complaints_release();
	text = said();
	for (; !strncmp(text, "dlprof-bpf: x", 13); text = strchr(text, '\n') + 1) {
		assert_int_equal(strcspn(text, "\n"), 212);
		lines++;
	}
	assert_in_range(lines, 10, 49);
	(void)snprintf(line, sizeof(line), "dlprof-bpf: %zu more lines like these\n", 50 - lines);
	assert_string_equal(text, line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_held, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
