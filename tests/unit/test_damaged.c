/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A real recording, cut, damaged, or not one at all: what the tool's `replay` and `report` then say,
 * and how they end. Where its blocks lie is found here by their headers alone. Every place is given
 * to the report, in this process; to the program itself as many as a sanitized one takes in seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "dlprof/record.h"
#include "report_command.h"
#include "util.h"

#define RECORDING "tests/data/no_workers.dlp"
#define PLACES 1000
#define BLOCKS_MAX 64
#ifdef __SANITIZE_ADDRESS__
#define PROGRAM_EVERY 20
#else
#define PROGRAM_EVERY 2
#endif
#define HEADER sizeof(struct dlp_rec_header)

enum way { REPORT_HERE, REPLAY, REPORT, WAYS };

static uint8_t *whole;
static size_t whole_bytes;
static size_t ends[BLOCKS_MAX];	   /* of its blocks; the first is that of the file's header */
static size_t end_cnt, events_end; /* of the first block with events */
static int given;		   /* memory file: what the commands read, */
static int said, shown;		   /* their standard error, and output */
static char given_path[64], program[4096], words[4096];
static int kept_stdout, kept_stderr;
static enum way ways; /* of enum way: those that a place is given to */

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

static void find_blocks(void)
{
	size_t at = HEADER;

	ends[end_cnt++] = at;
	while (at < whole_bytes) {
		struct dlp_rec_block block;

		assert_true(whole_bytes - at >= sizeof(block) && end_cnt < BLOCKS_MAX);
		memcpy(&block, whole + at, sizeof(block));
		assert_int_equal(block.magic, DLP_REC_BLOCK_MAGIC);
		at += sizeof(block) + padded(block.stored_bytes);
		ends[end_cnt++] = at;
		if (block.kind == DLP_REC_EVENTS && !events_end)
			events_end = at - padded(block.stored_bytes) + block.stored_bytes;
	}
	assert_int_equal(at, whole_bytes);
	assert_true(events_end && end_cnt > 5);
}

/* FOLDER/tests/unit/test_damaged was built together with FOLDER/dlprof-bpf. */
static void find_program(void)
{
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 32);

	assert_true(length > 0);
	program[length] = '\0';
	for (int i = 0; i < 3; i++)
		*strrchr(program, '/') = '\0';
	(void)strcat(program, "/dlprof-bpf");
	assert_int_equal(access(program, X_OK), 0);
}

static int setup(void **state)
{
	FILE *file = fopen(RECORDING, "re");

	(void)state;
	assert_non_null(file);
	whole = malloc(1 << 20);
	assert_non_null(whole);
	whole_bytes = fread(whole, 1, 1 << 20, file);
	(void)fclose(file);
	find_blocks();
	given = memfd_create("recording", 0);
	said = memfd_create("stderr", 0);
	shown = memfd_create("stdout", 0);
	kept_stdout = dup(STDOUT_FILENO);
	kept_stderr = dup(STDERR_FILENO);
	assert_true(given >= 0 && said >= 0 && shown >= 0 && kept_stdout >= 0 && kept_stderr >= 0);
	(void)snprintf(given_path, sizeof(given_path), "/proc/self/fd/%d", given);
	find_program();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(whole);
	return close(given) | close(said) | close(shown) | close(kept_stdout) | close(kept_stderr);
}

static void give(const void *data, size_t bytes)
{
	assert_int_equal(ftruncate(given, 0), 0);
	assert_int_equal(pwrite(given, data, bytes, 0), bytes);
}

static int run_program(const char *command)
{
	char *argv[] = { program, (char *)command, given_path, NULL };
	int status;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* a signal is no exit status */
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Exit status of a command on what was given; what it complained about is in `words`. */
static int run(enum way way)
{
	char *argv[] = { "report", given_path, NULL };
	ssize_t got;
	int status;

	assert_int_equal(ftruncate(said, 0) | ftruncate(shown, 0), 0);
	(void)lseek(said, 0, SEEK_SET);
	(void)lseek(shown, 0, SEEK_SET);
	(void)fflush(NULL);
	(void)dup2(said, STDERR_FILENO);
	(void)dup2(shown, STDOUT_FILENO);
	if (way == REPORT_HERE)
		status = dlp_report_command(2, argv);
	else
		status = run_program(way == REPLAY ? "replay" : "report");
	(void)fflush(NULL);
	(void)dup2(kept_stdout, STDOUT_FILENO);
	(void)dup2(kept_stderr, STDERR_FILENO);
	got = pread(said, words, sizeof(words) - 1, 0);
	words[got > 0 ? got : 0] = '\0';
	return status;
}

static void assert_one_line(const char *part)
{
	static const char begin[] = "dlprof-bpf: '/proc/self/fd/";

	if (strncmp(words, begin, strlen(begin)) ||
	    strchr(words, '\n') != words + strlen(words) - 1)
		fail_msg("not one line: '%s'", words);
	if (!strstr(words, part))
		fail_msg("no '%s' in: %s", part, words);
}

/* Neither has anything to show. */
static void assert_refused(const char *part)
{
	for (enum way way = 0; way < ways; way++) {
		assert_int_equal(run(way), DLP_EXIT_FAILURE);
		assert_one_line(part);
		assert_int_equal(lseek(shown, 0, SEEK_END), 0);
	}
}

/* Both show what came before, say that it is not all, and fail. */
static void assert_part(const char *part)
{
	for (enum way way = 0; way < ways; way++) {
		assert_int_equal(run(way), DLP_EXIT_FAILURE);
		assert_one_line(part);
		assert_non_null(strstr(words, ": replayed up to "));
		assert_true(lseek(shown, 0, SEEK_END) > 100);
	}
}

static uint32_t somewhere(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

/* The begin of the block that holds this byte. */
static size_t block_of(size_t at)
{
	size_t i = 0;

	while (i < end_cnt && ends[i] <= at)
		i++;
	return i ? ends[i - 1] : 0;
}

/* Bytes behind a payload that fill up its block: they mean nothing. */
static bool is_padding(size_t at)
{
	struct dlp_rec_block block;
	size_t begin = block_of(at);

	if (at < HEADER)
		return false;
	memcpy(&block, whole + begin, sizeof(block));
	return at >= begin + sizeof(block) + block.stored_bytes;
}

static void check_cut(size_t bytes)
{
	char part[64];

	give(whole, bytes);
	if (!bytes) {
		assert_refused("is empty");
	} else if (bytes < sizeof(((struct dlp_rec_header *)NULL)->magic)) {
		assert_refused("not a recording of dlprof-bpf");
	} else if (bytes < HEADER) {
		(void)snprintf(part, sizeof(part), "cut inside its header, at byte %zu\n", bytes);
		assert_refused(part);
	} else {
		/* where the last whole block ends, or would if its padding were there */
		(void)snprintf(part, sizeof(part),
			       "is cut at byte %zu: ", is_padding(bytes) ? bytes : block_of(bytes));
		if (bytes < events_end)
			assert_refused("nothing could be replayed");
		else
			assert_part(part);
	}
}

static void test_cut(void **unused)
{
	uint64_t state = 1;

	(void)unused;
	ways = WAYS;
	check_cut(0);
	for (size_t i = 0; i + 1 < end_cnt; i++) {
		check_cut(ends[i] - 8);
		check_cut(ends[i]);
		check_cut(ends[i] + 1);
	}
	/* the padding of the last block is not missed */
	for (int i = 0; i < PLACES; i++) {
		ways = i % PROGRAM_EVERY ? 1 : WAYS;
		check_cut(somewhere(&state) % (whole_bytes - 8));
	}
}

/* A bit of a header, of a block, of its payload: what is behind it is not believed. */
static void check_flip(size_t at, unsigned int bit)
{
	char part[64];

	whole[at] ^= (uint8_t)(1u << bit);
	give(whole, whole_bytes);
	(void)snprintf(part, sizeof(part), "is damaged at byte %zu: ", block_of(at));
	if (at < offsetof(struct dlp_rec_header, closing))
		assert_refused("");
	else if (at < HEADER)
		/* all is there, but nothing says so any more */
		assert_part("was never completed");
	else if (block_of(at) < block_of(events_end - 1) + 1)
		assert_refused(part);
	else
		assert_part(part);
	whole[at] ^= (uint8_t)(1u << bit);
}

static void test_flip(void **unused)
{
	uint64_t state = 2;
	int checked = 0;

	(void)unused;
	while (checked < PLACES) {
		size_t at = somewhere(&state) % whole_bytes;

		if (is_padding(at))
			continue;
		ways = checked % PROGRAM_EVERY ? 1 : WAYS;
		check_flip(at, somewhere(&state) % 8);
		checked++;
	}
	give(whole, whole_bytes);
	for (enum way way = 0; way < WAYS; way++) {
		assert_int_equal(run(way), DLP_EXIT_OK);
		assert_string_equal(words, "");
	}
}

static void test_foreign(void **unused)
{
	static const char text[] = "{\"schema\": \"dlprof.summary/1\", \"tool\": {}}\n";
	struct dlp_rec_header header;
	uint8_t *other = calloc(1, whole_bytes);

	(void)unused;
	assert_non_null(other);
	ways = WAYS;
	give(text, strlen(text));
	assert_refused("not a recording of dlprof-bpf");
	give(other, whole_bytes);
	assert_refused("not a recording of dlprof-bpf");
	/* as mail programs and the like change the ends of lines */
	memcpy(other, whole, whole_bytes);
	memmove(other + 6, other + 7, whole_bytes - 7);
	give(other, whole_bytes - 1);
	assert_refused("not a recording of dlprof-bpf");
	memcpy(&header, whole, sizeof(header));
	header.major++;
	memcpy(other, whole, whole_bytes);
	memcpy(other, &header, sizeof(header));
	give(other, whole_bytes);
	assert_refused("made by a newer version of dlprof-bpf (format 2.0, events 1)\n");
	header.major--;
	header.wire_version++;
	memcpy(other, &header, sizeof(header));
	give(other, whole_bytes);
	assert_refused("made by a newer version of dlprof-bpf (format 1.0, events 2)\n");
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_flip),
		cmocka_unit_test(test_foreign),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
