/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Real jobs of known trouble, as they were recorded (tests/scenarios/record.py): what a replay says
 * about each, against what the job itself noted. tests/data/recorded.txt holds both.
 */
#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose.h"
#include "record_code.h"
#include "replay_file.h"
#include "summary.h"
#include "util.h"

#define FOLDER "tests/data/"
#define SIZE_MAX_BYTES 100000u
#define ROWS_MAX 100
#define ROWS_LEAST 40
#define EXPOSED_SLACK 0.01

struct row {
	char name[40];
	char bottlenecks[64], causes[64], ruled_out[320]; /* '|' between several */
	double getnext, getnext_begun;			  /* shares of the window; see record.py */
	unsigned long calls_least, calls_most;
};

static struct row rows[ROWS_MAX];
static size_t row_cnt;
/* Of the recording being looked at. */
static struct dlp_replay replay;
static struct dlp_verdict verdict;

static void read_table(void)
{
	FILE *file = fopen(FOLDER "recorded.txt", "re");
	char line[1024];

	if (!file) {
		perror(FOLDER "recorded.txt");
		exit(1);
	}
	while (fgets(line, sizeof(line), file)) {
		struct row *row = &rows[row_cnt];

		if (*line == '#')
			continue;
		/* NOLINTNEXTLINE(cert-err34-c): the number of fields is what is checked */
		if (row_cnt == ROWS_MAX ||
		    sscanf(line, "%39s %63s %63s %319s %lf %lf %lu %lu", row->name,
			   row->bottlenecks, row->causes, row->ruled_out, &row->getnext,
			   &row->getnext_begun, &row->calls_least, &row->calls_most) != 8) {
			(void)fprintf(stderr, "recorded.txt: %s", line);
			exit(1);
		}
		row_cnt++;
	}
	(void)fclose(file);
}

static bool listed(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, '|')) {
		at += *at == '|';
		if (strcspn(at, "|") == length && !strncmp(at, word, length))
			return true;
	}
	return false;
}

/* Nothing that tells where it was recorded. */
static void assert_no_place(const void *data, size_t bytes)
{
	static const char *const places[] = { "/tmp", "/home", "/root", "/work", "/usr" };

	for (size_t i = 0; i < DLP_ARRAY_SIZE(places); i++) {
		if (memmem(data, bytes, places[i], strlen(places[i])))
			fail_msg("'%s' is in it", places[i]);
	}
}

static void check_texts(const struct row *row)
{
	struct dlp_replay_file file;
	struct dlp_rec_view view;
	const struct dlp_rec_header *header;
	char path[300], error[200];
	static const uint8_t nothing[sizeof(header->boot_id)];

	(void)snprintf(path, sizeof(path), FOLDER "%s.dlp", row->name);
	assert_int_equal(dlp_replay_file_open(&file, path, error, sizeof(error)), 0);
	header = dlp_reader_header(file.reader);
	assert_memory_equal(header->boot_id, nothing, sizeof(nothing));
	assert_int_equal(strspn(header->kernel, "0123456789."), strlen(header->kernel));
	while (dlp_reader_next(file.reader, &view) == 1)
		assert_no_place(view.data, view.bytes);
	dlp_replay_file_close(&file);
}

static void replay_it(const struct row *row)
{
	struct dlp_replay_file file;
	char path[300], error[200];

	(void)snprintf(path, sizeof(path), FOLDER "%s.dlp", row->name);
	if (dlp_replay_file_open(&file, path, error, sizeof(error)))
		fail_msg("%s: %s", path, error);
	assert_true(file.source.size < SIZE_MAX_BYTES);
	memset(&replay, 0, sizeof(replay));
	assert_int_equal(dlp_model_new(&replay.model), 0);
	assert_int_equal(dlp_replay_file_load(&file, &replay, row->name), 0);
	assert_int_equal(replay.ending.how, DLP_REC_END_WHOLE);
	assert_int_equal(replay.ending.lost_events, 0);
	dlp_diagnose(replay.model, NULL, &verdict);
	dlp_replay_file_close(&file);
}

static void check_verdict(const struct row *row)
{
	const char *bottleneck = dlp_bottleneck_id(verdict.bottleneck);
	const char *cause = dlp_cause_id(verdict.cause);

	if (listed(row->ruled_out, cause))
		fail_msg("%s, which is ruled out: %s", cause, verdict.text);
	if (!listed(row->bottlenecks, bottleneck) || !listed(row->causes, cause))
		fail_msg("%s: %s, wanted %s: %s: %s", bottleneck, cause, row->bottlenecks,
			 row->causes, verdict.text);
	assert_true(verdict.confidence > DLP_CONF_LOW);
	if (!strpbrk(verdict.text, "0123456789"))
		fail_msg("no number in: %s", verdict.text);
	assert_true(verdict.evidence_cnt > 0);
}

static void check_figures(const struct row *row)
{
	double ratio = verdict.exposed_wait_ratio;
	uint64_t calls = 0;

	if (!(ratio >= row->getnext_begun - EXPOSED_SLACK && ratio <= row->getnext + EXPOSED_SLACK))
		fail_msg("exposed wait %.4f, truth %.4f to %.4f", ratio, row->getnext_begun,
			 row->getnext);
	for (uint32_t i = 0; i < replay.model->loader_cnt; i++)
		calls += replay.model->loaders[i].getnext.cnt;
	if (calls < row->calls_least || calls > row->calls_most)
		fail_msg("%llu calls, truth %lu to %lu", (unsigned long long)calls,
			 row->calls_least, row->calls_most);
}

/* The whole document can be made of it, and names the job, not the machine. */
static void check_summary(const struct row *row)
{
	char wanted[80], *text;

	assert_int_equal(dlp_summary_format(replay.model, &verdict, &replay.facts.facts, &text), 0);
	(void)snprintf(wanted, sizeof(wanted), "\"python job.py %s\"", row->name);
	assert_non_null(strstr(text, wanted));
	assert_no_place(text, strlen(text));
	free(text);
}

static int free_model(void **state)
{
	(void)state;
	dlp_model_free(replay.model);
	replay.model = NULL;
	return 0;
}

static void test_recording(void **state)
{
	const struct row *row = *state;

	check_texts(row);
	replay_it(row);
	check_verdict(row);
	check_figures(row);
	check_summary(row);
}

/* Each scenario's recording is there, and each recording is looked at. */
static void test_all_listed(void **unused)
{
	DIR *dir = opendir(FOLDER);
	const struct dirent *entry;
	size_t cnt = 0;

	(void)unused;
	assert_true(row_cnt >= ROWS_LEAST);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		size_t length = strcspn(entry->d_name, ".");
		bool found = false;

		if (strcmp(entry->d_name + length, ".dlp"))
			continue;
		for (size_t i = 0; i < row_cnt; i++)
			found |= strlen(rows[i].name) == length &&
				 !strncmp(rows[i].name, entry->d_name, length);
		if (!found)
			fail_msg("%s is not in the table", entry->d_name);
		cnt++;
	}
	closedir(dir);
	assert_int_equal(cnt, row_cnt);
}

int main(void)
{
	struct CMUnitTest tests[ROWS_MAX + 1] = { cmocka_unit_test(test_all_listed) };

	read_table();
	for (size_t i = 0; i < row_cnt; i++)
		tests[i + 1] = (struct CMUnitTest){ rows[i].name, test_recording, NULL, free_model,
						    &rows[i] };
	/* of tests that were left empty cmocka takes no notice */
	return cmocka_run_group_tests_name("recordings", tests, NULL, NULL);
}
