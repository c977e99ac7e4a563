/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The byte strings are what CPython 3.11 and torch 2.13 made of the objects in the comments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "msg.h"

#define MODULE "torch.utils.data._utils.worker"
#define FRAME(n) "\x80\x04\x95" n "\0\0\0\0\0\0\0"

struct sample {
	const char *bytes;
	size_t len;
	enum dlp_msg_type type;
	int64_t index;
};

#define SAMPLE(text, type, index) { text, sizeof(text) - 1, type, index }

static const struct sample samples[] = {
	/* (0, [1, 2]) */
	SAMPLE(FRAME("\x0d") "K\0]\x94(K\1K\2e\x86\x94.", DLP_MSG_INDEX, 0),
	/* (255, [1]), (300, [1]), (65535, [1]), (70000, [1]), (2**31 - 1, [1]), (2**31, [1]) */
	SAMPLE(FRAME("\x0b") "K\xff]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 255),
	SAMPLE(FRAME("\x0b") "M\x2c\1]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 300),
	SAMPLE(FRAME("\x0b") "M\xff\xff]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 65535),
	SAMPLE(FRAME("\x0d") "J\x70\x11\1\0]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 70000),
	SAMPLE(FRAME("\x0d") "J\xff\xff\xff\x7f]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 2147483647),
	SAMPLE(FRAME("\x0f") "\x8a\5\0\0\0\x80\0]\x94K\1a\x86\x94.", DLP_MSG_INDEX, 2147483648),
	/* (0, None): batch_size=None of an iterable */
	SAMPLE(FRAME("\x06") "K\0N\x86\x94.", DLP_MSG_INDEX, 0),
	/* Python 3.14's protocol, and a body without frame */
	SAMPLE("\x80\5\x95\x0d\0\0\0\0\0\0\0K\7]\x94(K\1", DLP_MSG_INDEX, 7),
	SAMPLE("\x80\4K\7]\x94(K\1", DLP_MSG_INDEX, 7),
	/* None */
	SAMPLE("\x80\4N.", DLP_MSG_FINAL, -1),
	SAMPLE("\x80\5N.", DLP_MSG_FINAL, -1),
	/* (2, _IterableDatasetStopIteration(1)), index of one and of two bytes (cut at 48) */
	SAMPLE(FRAME("\x5d") "K\2\x8c\x1e" MODULE "\x94\x8c\x1d", DLP_MSG_END, 2),
	SAMPLE(FRAME("\x5d") "M\2\1\x8c\x1e" MODULE "\x94\x8c", DLP_MSG_END, 258),
	/* _ResumeIteration(3), and the answer (_ResumeIteration(3), None) */
	SAMPLE(FRAME("\x47") "\x8c\x1e" MODULE "\x94\x8c\x10_R", DLP_MSG_RESUME, -1),
	/* (0, ExceptionWrapper(...)), and cut before the name */
	SAMPLE(FRAME("\xe3") "K\0\x8c\x0ctorch._utils\x94\x8c\x10" "Exce", DLP_MSG_ERROR, 0),
	SAMPLE(FRAME("\xe4") "M\x2c\1\x8c\x0ctorch._utils", DLP_MSG_ERROR, 300),
	/* (0, another object of that module) */
	SAMPLE(FRAME("\xe3") "K\0\x8c\x0ctorch._utils\x94\x8c\x0f" "Othe", DLP_MSG_INDEX, 0),
	/* (0, _ResumeIteration(3)) is nobody's end mark */
	SAMPLE(FRAME("\x4b") "K\0\x8c\x1e" MODULE "\x94\x8c\x10", DLP_MSG_INDEX, 0),
	/* 5, -1, (-1, x), "text", b"", {}, a tuple of strings, protocol 2, nothing */
	SAMPLE("\x80\4K\5.", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x06") "J\xff\xff\xff\xff.", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x06") "J\xff\xff\xff\xffN\x86.", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x06") "\x8a\1\xffN\x86.", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x08") "\x8c\4text\x94.", DLP_MSG_OTHER, -1),
	SAMPLE("\x80\4C\0\x94.", DLP_MSG_OTHER, -1),
	SAMPLE("\x80\4}\x94.", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x0d") "\x8c\1a\x94\x8c\1b\x94\x86.", DLP_MSG_OTHER, -1),
	SAMPLE("\x80\2K\7]q\0(K\1", DLP_MSG_OTHER, -1),
	SAMPLE("", DLP_MSG_OTHER, -1),
	SAMPLE("\x80\4", DLP_MSG_OTHER, -1),
	SAMPLE("\x80\4N", DLP_MSG_OTHER, -1),
	/* numbers that no index has: nine bytes wide, of no width */
	SAMPLE(FRAME("\x0d") "\x8a\x09\0\0\0\0\0\0\0\0\1N", DLP_MSG_OTHER, -1),
	SAMPLE(FRAME("\x0d") "\x8a\0N\x86.", DLP_MSG_OTHER, -1),
};

static void test_samples(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		int64_t index = 12345;
		enum dlp_msg_type type;

		type = dlp_msg_parse((const uint8_t *)samples[i].bytes, samples[i].len, &index);
		if (type != samples[i].type || index != samples[i].index)
			fail_msg("sample %zu: type %d index %lld", i, type, (long long)index);
	}
}

/* Cut anywhere: nothing is read beyond the end (ASan watches), nothing is made up. */
static void test_cut(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		for (size_t len = 0; len <= samples[i].len; len++) {
			uint8_t *copy = malloc(len ? len : 1);
			enum dlp_msg_type type;
			int64_t index;

			assert_non_null(copy);
			memcpy(copy, samples[i].bytes, len);
			type = dlp_msg_parse(copy, len, &index);
			if (type == DLP_MSG_INDEX || type == DLP_MSG_END ||
			    type == DLP_MSG_ERROR)
				assert_int_equal(index, samples[i].index);
			else
				assert_int_equal(index, -1);
			free(copy);
		}
	}
}

static void test_noise(void **unused)
{
	uint64_t seed = 99;

	(void)unused;
	for (int round = 0; round < 200000; round++) {
		uint8_t bytes[48];
		int64_t index;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(seed >> 33);
		}
		bytes[0] = 0x80;
		bytes[1] = 4;
		if (round % 2)
			bytes[2] = 0x95;
		(void)dlp_msg_parse(bytes, (size_t)round % 49, &index);
		assert_true(index >= -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
