/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * No memory: the n-th allocation fails, for every n until all succeed. Nothing crashes, nothing is
 * left behind, and whoever can say so says -ENOMEM. Linked with --wrap for the functions below;
 * jansson is given them as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose.h"
#include "doctor.h"
#include "labels.h"
#include "record_file.h"
#include "record_make.h"
#include "replay.h"
#include "summary.h"
#include "text.h"

/* ---- allocations ------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t cnt, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *ptr);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t cnt, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *ptr);

/* Allocations until one fails; 0 = none does, and nothing is watched. */
static size_t left;
static bool watched, failed;

/* What was given while watched and is not freed yet; a hash table with linear probing. */
#define LIVE_MAX (1u << 16)
static void *live[LIVE_MAX];
static size_t live_cnt;

static size_t place_of(const void *ptr)
{
	return (size_t)((uintptr_t)ptr / 16 * 0x9e3779b97f4a7c15ull >> 48) % LIVE_MAX;
}

static void *remember(void *ptr)
{
	size_t at = place_of(ptr);

	if (!ptr || !watched)
		return ptr;
	assert_true(live_cnt < LIVE_MAX / 2);
	while (live[at])
		at = (at + 1) % LIVE_MAX;
	live[at] = ptr;
	live_cnt++;
	return ptr;
}

static void forget(const void *ptr)
{
	size_t at = place_of(ptr), next;

	while (live[at] && live[at] != ptr)
		at = (at + 1) % LIVE_MAX;
	/* made before, or by a library */
	if (!ptr || !live[at])
		return;
	live[at] = NULL;
	live_cnt--;
	/* those behind it must still be found */
	for (next = (at + 1) % LIVE_MAX; live[next]; next = (next + 1) % LIVE_MAX) {
		void *moved = live[next];

		live[next] = NULL;
		live_cnt--;
		(void)remember(moved);
	}
}

static bool fails(void)
{
	if (!watched || failed || !left || --left)
		return false;
	failed = true;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : remember(__real_malloc(bytes));
}

void *__wrap_calloc(size_t cnt, size_t bytes)
{
	return fails() ? NULL : remember(__real_calloc(cnt, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
	void *ptr;

	if (fails())
		return NULL;
	forget(old);
	ptr = __real_realloc(old, bytes);
	assert_non_null(ptr);
	return remember(ptr);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : remember(__real_strdup(text));
}

void __wrap_free(void *ptr)
{
	forget(ptr);
	__real_free(ptr);
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* 0 or -errno; leaves nothing behind. */
typedef int (*operation_fn)(void);

/* More than any of them needs. */
#define ALLOCATIONS_MAX 5000

/* At least so many allocations can fail. */
static void for_every_allocation(operation_fn operation, size_t least)
{
	for (size_t n = 1; n < ALLOCATIONS_MAX; n++) {
		int err;

		left = n;
		failed = false;
		watched = true;
		err = operation();
		watched = false;
		if (live_cnt)
			fail_msg("allocation %zu failed: %zu left behind", n, live_cnt);
		if (!failed) {
			assert_int_equal(err, 0);
			/* the loop has seen what it was made for */
			if (n <= least)
				fail_msg("only %zu allocations", n - 1);
			return;
		}
		if (err != -ENOMEM)
			fail_msg("allocation %zu failed: %d", n, err);
	}
	fail_msg("more than %d allocations", ALLOCATIONS_MAX);
}

/* ---- operations -------------------------------------------------------------------------- */

static struct event_list events;
static struct memory recording;
static struct dlp_model *full_model;
static const struct dlp_summary_facts no_facts = { .version = "0" };
static FILE *nowhere;

static void add_window(uint64_t at_ns, uint32_t phase)
{
	struct dlp_ev_window window = { .hdr = { .size = sizeof(window),
						 .kind = DLP_EV_WINDOW,
						 .ts_ns = at_ns,
						 .tgid = 100,
						 .tid = 100 },
					.phase = phase };

	events_add(&events, &window, sizeof(window));
}

static int feed_all(struct dlp_model *model)
{
	for (size_t at = 0; at < events.bytes;) {
		uint32_t length;
		int err;

		memcpy(&length, events.data + at, sizeof(length));
		err = dlp_model_apply(model, events.data + at + sizeof(length), length);
		if (err == -ENOMEM)
			return err;
		at += sizeof(length) + length;
	}
	return 0;
}

static int start(void **state)
{
	struct dlp_ev_proc proc = { .hdr = { .size = sizeof(proc),
					     .kind = DLP_EV_PROC,
					     .ts_ns = 1000,
					     .tgid = 100,
					     .tid = 100 },
				    .role = DLP_ROLE_TRAINER };

	(void)state;
	nowhere = fopen("/dev/null", "w");
	json_set_alloc_funcs(__wrap_malloc, __wrap_free);
	events_add(&events, &proc, sizeof(proc));
	proc.hdr.tgid = proc.hdr.tid = 101;
	proc.role = DLP_ROLE_WORKER;
	events_add(&events, &proc, sizeof(proc));
	add_window(1000000000000ull, 0);
	events_make(&events, 300, 11);
	add_window(1010000000000ull, 1);
	recording_make(&recording, &events, 20, 0, false);
	if (!nowhere || dlp_model_new(&full_model))
		return -1;
	return feed_all(full_model);
}

static int end(void **state)
{
	(void)state;
	dlp_model_free(full_model);
	memory_free(&recording);
	events_free(&events);
	return fclose(nowhere);
}

static int model(void)
{
	struct dlp_verdict verdict;
	struct dlp_model *filled;
	int err;

	err = dlp_model_new(&filled);
	if (err)
		return err;
	err = feed_all(filled);
	/* what there is must be fit to be looked at all the same */
	dlp_diagnose(filled, NULL, &verdict);
	dlp_text_summary(nowhere, filled, &verdict, &no_facts);
	dlp_model_free(filled);
	return err;
}

static void test_model(void **state)
{
	(void)state;
	for_every_allocation(model, 10);
}

static int summary(void)
{
	struct dlp_verdict verdict;
	char *text = NULL;
	int err;

	dlp_diagnose(full_model, NULL, &verdict);
	err = dlp_summary_format(full_model, &verdict, &no_facts, &text);
	assert_int_equal(!err, text != NULL);
	free(text);
	return err;
}

static void test_summary(void **state)
{
	(void)state;
	for_every_allocation(summary, 200);
}

static int record(void)
{
	/* as many writes as it wants, and none of them allocates */
	static uint8_t room[256 << 10];
	struct memory memory = { .data = room, .room = sizeof(room) };
	const struct dlp_record_io io = memory_io(&memory);
	const struct dlp_rec_header header = { .pid = 100 };
	const struct dlp_rec_info info = { .pid = 100 };
	static _Alignas(8) uint8_t frames[DLP_REC_RAW_MAX];
	struct dlp_rec_batch batch = { .frames = frames, .first_ns = 5, .last_ns = 6 };
	struct dlp_record_file *file;
	int err;

	err = dlp_record_file_new(&io, &header, DLP_REC_MAX_LEAST, NULL, &file);
	if (err)
		return err;
	batch.bytes = frames_make(events.data, events.bytes, frames, &batch.items);
	err = dlp_record_file_info(file, &info);
	if (!err)
		err = dlp_record_file_events(file, &batch);
	if (!err)
		err = dlp_record_file_close(file);
	dlp_record_file_free(file);
	return err;
}

static void test_record(void **state)
{
	(void)state;
	for_every_allocation(record, 3);
}

static int replay(void)
{
	const struct dlp_record_source source = memory_source(&recording);
	static struct dlp_replay replayed;
	struct dlp_reader *reader;
	char error[200];
	int err;

	err = dlp_reader_open(&source, &reader, error, sizeof(error));
	if (err)
		return err;
	memset(&replayed, 0, sizeof(replayed));
	err = dlp_model_new(&replayed.model);
	if (!err)
		err = dlp_replay_run(&replayed, reader);
	dlp_model_free(replayed.model);
	dlp_reader_free(reader);
	return err;
}

static void test_replay(void **state)
{
	(void)state;
	for_every_allocation(replay, 10);
}

static int label(void)
{
	static const char *const globs[] = { "a*" };
	struct dlp_labels *labels;
	int err;

	err = dlp_labels_new(globs, 1, NULL, NULL, &labels);
	if (!err)
		dlp_labels_free(labels);
	return err;
}

static void test_labels(void **state)
{
	(void)state;
	for_every_allocation(label, 0);
}

static int doctor(void)
{
	static struct dlp_doctor_facts facts;
	static struct dlp_doctor table;
	char *text = NULL;
	int err;

	for (size_t i = 0; i < DLP_DOCTOR_SETTINGS; i++)
		facts.setting[i].name = "kernel";
	dlp_doctor_assemble(&facts, &table);
	err = dlp_doctor_format(&table, &facts, &text);
	assert_int_equal(!err, text != NULL);
	/* jansson has made it, by our functions */
	free(text);
	return err;
}

static void test_doctor(void **state)
{
	(void)state;
	for_every_allocation(doctor, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),  cmocka_unit_test(test_summary),
		cmocka_unit_test(test_record), cmocka_unit_test(test_replay),
		cmocka_unit_test(test_labels), cmocka_unit_test(test_doctor),
	};

	return cmocka_run_group_tests(tests, start, end);
}
