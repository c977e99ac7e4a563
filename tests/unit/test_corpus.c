/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the fuzzer starts from, and what it has found, through its target. Run from the root folder. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* the target itself: it is not part of what is tested, and linked nowhere else */
#include "../fuzz/fuzz_replay.c"

#define CORPUS "tests/fuzz/corpus/replay"

static void run_file(const char *name)
{
	char path[512];
	uint8_t *data = malloc(1 << 20), *exact;
	size_t bytes;
	FILE *file;

	(void)snprintf(path, sizeof(path), CORPUS "/%s", name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(data);
	bytes = fread(data, 1, 1 << 20, file);
	fclose(file);
	/* exactly as long as the file, so that ASan sees a read beyond */
	exact = realloc(data, bytes ? bytes : 1);
	assert_non_null(exact);
	assert_int_equal(LLVMFuzzerTestOneInput(exact, bytes), 0);
	free(exact);
}

static void test_corpus(void **unused)
{
	DIR *folder = opendir(CORPUS);
	const struct dirent *entry;
	size_t cnt = 0;

	(void)unused;
	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		run_file(entry->d_name);
		cnt++;
	}
	closedir(folder);
	assert_true(cnt >= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_corpus) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
