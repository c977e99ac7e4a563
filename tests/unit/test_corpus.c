/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the fuzzers start from, and what they have found, through their targets. Run from the root folder. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record_make.h"

/* The targets themselves: they are not part of what is tested. Here each needs a name of its own. */
/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput fuzz_cli
#include "../fuzz/fuzz_cli.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_elf
#include "../fuzz/fuzz_elf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_events
#include "../fuzz/fuzz_events.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_msg
#include "../fuzz/fuzz_msg.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_replay
#include "../fuzz/fuzz_replay.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_text
#include "../fuzz/fuzz_text.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

typedef int (*target_fn)(const uint8_t *data, size_t bytes);

static void run_file(const char *folder, const char *name, target_fn target)
{
	char path[512];
	uint8_t *data = malloc(1 << 20), *exact;
	size_t bytes;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(data);
	bytes = fread(data, 1, 1 << 20, file);
	fclose(file);
	/* exactly as long as the file, so that ASan sees a read beyond */
	exact = realloc(data, bytes ? bytes : 1);
	assert_non_null(exact);
	assert_int_equal(target(exact, bytes), 0);
	/* every input may be cut anywhere */
	for (size_t len = 0; len < bytes; len += 1 + bytes / 16) {
		uint8_t *cut = malloc(len ? len : 1);

		assert_non_null(cut);
		memcpy(cut, exact, len);
		assert_int_equal(target(cut, len), 0);
		free(cut);
	}
	free(exact);
}

static void run_corpus(const char *name, target_fn target, size_t least)
{
	const struct dirent *entry;
	char folder[128];
	size_t cnt = 0;
	DIR *dir;

	(void)snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", name);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		run_file(folder, entry->d_name, target);
		cnt++;
	}
	closedir(dir);
	assert_true(cnt >= least);
}

/* name of the target, seeds that make_corpus writes */
#define TARGETS(X)                                                                                 \
	X(cli, 6)                                                                                  \
	X(elf, 4)                                                                                  \
	X(events, 3)                                                                               \
	X(msg, 2)                                                                                  \
	X(replay, 6)                                                                               \
	X(text, 4)

#define X(name, least)                                                                             \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		run_corpus(#name, fuzz_##name, least);                                             \
	}
TARGETS(X)
#undef X

/* A format that has changed since turns them into damaged files, and nothing behind that is fed. */
static void test_seeds_are_of_this_format(void **state)
{
	static uint8_t data[1 << 16];
	struct memory recording = { .data = data, .room = sizeof(data) };
	struct dlp_rec_ending ending;
	struct event_list list = { 0 };
	FILE *in = fopen("tests/fuzz/corpus/replay/one-block", "r");

	(void)state;
	assert_non_null(in);
	recording.bytes = fread(data, 1, sizeof(data), in);
	fclose(in);
	assert_int_equal(recording_read(&recording, &list, &ending), 0);
	if (ending.how != DLP_REC_END_WHOLE || !list.cnt)
		fail_msg("%u events, end %d at %llu: make fuzz-corpus", list.cnt, (int)ending.how,
			 (unsigned long long)ending.offset);
	events_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds_are_of_this_format),
#define X(name, least) cmocka_unit_test(test_##name),
		TARGETS(X)
#undef X
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
