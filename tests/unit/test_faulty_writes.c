/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The n-th write, or opening, fails, and all after it, for every n; or writes are interrupted and
 * do a part. Nothing that was not written passes for whole: recordings, summaries, and all that a
 * report is written to. Linked with --wrap, see faulty_io.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "faulty_io.h"
#include "record.h"
#include "record_make.h"
#include "report_command.h"
#include "tree.h"
#include "util.h"
#include "wholefile.h"

static struct tree tree;
static struct event_list events;
static char error[512];

/* ---- what is there afterwards ------------------------------------------------------------------ */

static void read_file(const char *path, struct memory *ret)
{
	struct stat st;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	ret->bytes = ret->room = (size_t)st.st_size;
	ret->data = malloc(ret->bytes + 1);
	assert_non_null(ret->data);
	assert_int_equal(fread(ret->data, 1, ret->bytes, file), ret->bytes);
	fclose(file);
}

static uint64_t sum;

static int add_file(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	struct memory memory = { 0 };

	(void)st;
	(void)place;
	if (kind != FTW_F)
		return 0;
	read_file(path, &memory);
	/* names and texts of all, in whatever order they are found */
	sum += crc32_z(crc32_z(0, (const Bytef *)path, strlen(path)), memory.data, memory.bytes);
	memory_free(&memory);
	return 0;
}

/* Of everything below, names included; 0 = nothing. */
static uint64_t sum_of(const char *path)
{
	sum = 0;
	(void)nftw(path, add_file, 8, FTW_PHYS);
	return sum;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	(void)st;
	(void)kind;
	(void)place;
	return remove(path);
}

static void clear(const char *path)
{
	(void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static size_t files_in(const char *path)
{
	DIR *dir = opendir(path);
	size_t cnt = 0;

	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt - 2;
}

/* Whether it ends with a line's end or not. */
static void one_line(const char *text)
{
	size_t first = strcspn(text, "\n");

	if (!first || (text[first] && text[first + 1]))
		fail_msg("not one line: '%s'", text);
}

/* ---- recordings -------------------------------------------------------------------------------- */

static void add_window(uint64_t at_ns)
{
	struct dlp_ev_window window = { .hdr = { .size = sizeof(window),
						 .kind = DLP_EV_WINDOW,
						 .ts_ns = at_ns,
						 .tgid = 100,
						 .tid = 100 } };

	events_add(&events, &window, sizeof(window));
}

static int record(void)
{
	struct dlp_target target = { .pid = 100 };
	const struct dlp_summary_facts facts = { .version = "0", .target = &target };
	struct dlp_record *to;
	int err;

	*error = '\0';
	err = dlp_record_open(tree_path(&tree, "r.dlp"), 100, "0", 0, &to, error, sizeof(error));
	if (err)
		return err;
	dlp_record_facts(to, &facts);
	for (size_t at = 0; at < events.bytes;) {
		uint32_t length;

		memcpy(&length, events.data + at, sizeof(length));
		dlp_record_event(to, events.data + at + sizeof(length), length);
		at += sizeof(length) + length;
	}
	return dlp_record_close(to, 20 * DLP_NS_PER_S, error, sizeof(error));
}

static void check_recording(int result, bool failed)
{
	struct event_list got = { 0 };
	struct memory file = { 0 };
	struct dlp_rec_ending ending = { .how = DLP_REC_END_DAMAGED };
	bool is_whole;
	int err = -ENOENT;

	if (result)
		one_line(error);
	if (failed != !!result)
		fail_msg("a write has%s failed, closing says %d (%s)", failed ? "" : " not", result,
			 error);
	if (!access(tree_path(&tree, "r.dlp"), F_OK)) {
		read_file(tree_path(&tree, "r.dlp"), &file);
		err = recording_read(&file, &got, &ending);
	}
	is_whole = !err && got.cnt == events.cnt && ending.how == DLP_REC_END_WHOLE;
	if (!result)
		assert_true(is_whole && !ending.lost_events);
	/* who reads only the file is told as well */
	if (!err && ending.how == DLP_REC_END_WHOLE &&
	    got.cnt + ending.lost_events != events.cnt)
		fail_msg("%u events of %u, and %llu lost", got.cnt, events.cnt,
			 (unsigned long long)ending.lost_events);
	if (is_whole)
		assert_memory_equal(got.data, events.data, events.bytes);
	events_free(&got);
	memory_free(&file);
	(void)unlink(tree_path(&tree, "r.dlp"));
}

static void test_recording(void **state)
{
	(void)state;
	faulty_each(FAULTY_WRITES, ENOSPC, 8, record, check_recording);
	faulty_each(FAULTY_WRITES | FAULTY_OPENS, EIO, 9, record, check_recording);
	faulty_pieces(FAULTY_WRITES, record, check_recording);
}

/* ---- summaries --------------------------------------------------------------------------------- */

#define OLD "what was there before, longer than what will be"
static const char summary[] = "{\n  \"schema\": 1\n}\n";

static void write_old(void)
{
	tree_text(&tree, "s/summary", OLD);
}

static int replace_summary(void)
{
	write_old();
	return dlp_wholefile_write(tree_path(&tree, "s/summary"), -1, summary);
}

static void check_replaced(int result, bool failed)
{
	struct memory file = { 0 };

	read_file(tree_path(&tree, "s/summary"), &file);
	file.data[file.bytes] = '\0';
	assert_int_equal(result < 0, failed);
	/* one or the other, and nothing beside it */
	if (!result || strcmp((char *)file.data, OLD))
		assert_string_equal((char *)file.data, summary);
	assert_int_equal(files_in(tree_path(&tree, "s")), 1);
	memory_free(&file);
}

/* Into the file as it is, which was opened when we still might. */
static int fill_summary(void)
{
	int fd, err;

	write_old();
	fd = dlp_wholefile_hold(tree_path(&tree, "s/summary"));
	if (fd < 0)
		return fd;
	err = dlp_wholefile_write(tree_path(&tree, "s/summary"), fd, summary);
	close(fd);
	return err;
}

static void check_filled(int result, bool failed)
{
	struct memory file = { 0 };

	read_file(tree_path(&tree, "s/summary"), &file);
	file.data[file.bytes] = '\0';
	assert_int_equal(result < 0, failed);
	if (!result)
		assert_string_equal((char *)file.data, summary);
	memory_free(&file);
}

static void test_summary(void **state)
{
	const unsigned int which = FAULTY_WRITES | FAULTY_OPENS;

	(void)state;
	faulty_each(which, ENOSPC, 4, replace_summary, check_replaced);
	faulty_each(which, EIO, 4, replace_summary, check_replaced);
	faulty_pieces(which, replace_summary, check_replaced);
	faulty_each(which, ENOSPC, 4, fill_summary, check_filled);
	faulty_pieces(which, fill_summary, check_filled);
}

/* ---- reports ----------------------------------------------------------------------------------- */

#define RECORDING "tests/data/no_workers.dlp"

static const char *option; /* of the report */
static uint64_t wanted;	   /* sum of what it writes */

static int report(void)
{
	char *argv[] = { "report",
			 RECORDING,
			 (char *)option,
			 (char *)tree_path(&tree, "report"),
			 NULL };
	int status;

	faulty_hear();
	status = dlp_report_command(4, argv);
	(void)snprintf(error, sizeof(error), "%s", faulty_heard());
	return status;
}

static void check_report(int result, bool failed)
{
	if (result)
		one_line(error);
	else if (sum_of(tree_path(&tree, "report")) != wanted)
		fail_msg("%s: status 0, and not what it should be", option);
	clear(tree_path(&tree, "report"));
	if (!failed)
		assert_int_equal(result, 0);
}

static void check_written(int result, bool failed)
{
	if (failed && !result)
		fail_msg("%s: a write has failed, and the status is 0", option);
	check_report(result, failed);
}

static void test_reports(void **state)
{
	static const char *const options[] = { "--json",  "--csv",    "--html",   "--svg",
					       "--trace", "--folded", "--smdebug" };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(options); i++) {
		option = options[i];
		assert_int_equal(report(), 0);
		wanted = sum_of(tree_path(&tree, "report"));
		assert_true(wanted);
		clear(tree_path(&tree, "report"));
		faulty_each(FAULTY_WRITES, ENOSPC, 1, report, check_written);
		/* whose a new folder is may stay as it is: not every failure is one of the whole */
		faulty_each(FAULTY_OPENS, EMFILE, 1, report, check_report);
		faulty_pieces(FAULTY_WRITES, report, check_written);
	}
}

static int start(void **state)
{
	(void)state;
	tree_init(&tree);
	for (int i = 0; i < 6; i++) {
		events_make(&events, 60, (uint32_t)i + 1);
		/* far from any other: a block ends with each */
		add_window((uint64_t)(i + 1) * 10000000000000ull);
	}
	write_old();
	return 0;
}

static int end(void **state)
{
	(void)state;
	events_free(&events);
	tree_fini(&tree);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recording),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_reports),
	};

	return cmocka_run_group_tests(tests, start, end);
}
