/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strict numbers and durations, and text that is safe to show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "util.h"

static void numbers_are_whole_and_decimal(void **state)
{
	static const char *const bad[] = { "",	 " ",	 "+1",	"-1",  " 1",	  "1 ",
					   "1x", "0x10", "1.0", "1e3", "\xd9\xa1" };
	uint64_t value = 77;

	(void)state;
	assert_int_equal(dlp_parse_u64("0", &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(dlp_parse_u64("007", &value), 0);
	assert_int_equal(value, 7);
	assert_int_equal(dlp_parse_u64("18446744073709551615", &value), 0);
	assert_true(value == UINT64_MAX);
	value = 77;
	assert_int_equal(dlp_parse_u64("18446744073709551616", &value), -ERANGE);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad); i++)
		assert_int_equal(dlp_parse_u64(bad[i], &value), -EINVAL);
	assert_int_equal(value, 77);
}

static void durations_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "2", 2000000000ull },	      { "0.5", 500000000ull },
		{ ".5", 500000000ull },	      { "90s", 90000000000ull },
		{ "250ms", 250000000ull },    { "10us", 10000ull },
		{ "10m", 600000000000ull },   { "1h", 3600000000000ull },
		{ "1.5h", 5400000000000ull }, { "8760h", 31536000000000000ull },
	};
	static const struct {
		const char *text;
		int err;
	} bad[] = {
		{ "", -EINVAL },      { "-1", -EINVAL },       { "+1s", -EINVAL },
		{ "s", -EINVAL },     { "1 s", -EINVAL },      { "1d", -EINVAL },
		{ "1S", -EINVAL },    { "1ns", -EINVAL },      { "1s2", -EINVAL },
		{ "0", -EINVAL },     { "0.0s", -EINVAL },     { "inf", -EINVAL },
		{ "nan", -EINVAL },   { "9000h", -ERANGE },    { "1e300", -ERANGE },
		{ "1e999", -ERANGE }, { "0.0001us", -EINVAL },
	};
	uint64_t ns = 77;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		assert_int_equal(dlp_parse_duration_ns(cases[i].text, &ns), 0);
		assert_int_equal(ns, cases[i].ns);
	}
	ns = 77;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad); i++) {
		if (dlp_parse_duration_ns(bad[i].text, &ns) != bad[i].err)
			fail_msg("'%s' was taken or refused otherwise", bad[i].text);
	}
	assert_int_equal(ns, 77);
}

static void clean(const char *text, const char *expected)
{
	char buf[128];

	assert_ptr_equal(dlp_sanitise(buf, sizeof(buf), text, strlen(text)), buf);
	assert_string_equal(buf, expected);
}

static void harmless_text_stays(void **state)
{
	(void)state;
	clean("", "");
	clean("train.py --lr 0.1", "train.py --lr 0.1");
	/* two, three and four bytes; the widest of each */
	clean("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	clean("\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf", "\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf");
	clean("\xc2\xa0\xed\x9f\xbf\xee\x80\x80", "\xc2\xa0\xed\x9f\xbf\xee\x80\x80");
}

static void control_characters_are_replaced(void **state)
{
	(void)state;
	clean("a\033[31mb", "a?[31mb");
	clean("a\nb\tc\rd\x7f"
	      "e\x01",
	      "a?b?c?d?e?");
	/* C1: U+009B is a CSI of one character */
	clean("\xc2\x9b"
	      "31m\xc2\x80",
	      "?31m?");
	/* bidirectional overrides, isolates and marks, line separators */
	clean("a\xe2\x80\xae"
	      "b\xe2\x81\xa6"
	      "c\xe2\x80\x8e"
	      "d\xe2\x80\xa8",
	      "a?b?c?d?");
}

static void invalid_utf8_is_replaced(void **state)
{
	(void)state;
	clean("\xff\xfe", "??");
	clean("\x80x", "?x");
	/* overlong NUL, slash and euro; a surrogate; beyond U+10FFFF; five bytes */
	clean("\xc0\x80", "??");
	clean("\xc1\xaf", "??");
	clean("\xe0\x80\xaf", "???");
	clean("\xf0\x82\x82\xac", "????");
	clean("\xed\xa0\x80", "???");
	clean("\xf4\x90\x80\x80", "????");
	clean("\xf8\x88\x80\x80\x80", "?????");
	/* cut, and interrupted */
	clean("\xe2\x82", "??");
	clean("\xe2x", "?x");
}

static void text_is_cut_at_a_character(void **state)
{
	char buf[8];

	(void)state;
	dlp_sanitise(buf, 5, "abcdef", 6);
	assert_string_equal(buf, "abcd");
	dlp_sanitise(buf, 4, "ab\xe2\x82\xac", 5);
	assert_string_equal(buf, "ab");
	dlp_sanitise(buf, 6, "ab\xe2\x82\xac", 5);
	assert_string_equal(buf, "ab\xe2\x82\xac");
	dlp_sanitise(buf, 3, "ab\n", 3);
	assert_string_equal(buf, "ab");
	dlp_sanitise(buf, 1, "ab", 2);
	assert_string_equal(buf, "");
	buf[0] = 'x';
	dlp_sanitise(buf, 0, "ab", 2);
	assert_int_equal(buf[0], 'x');
}

static void the_source_is_bounded(void **state)
{
	/* not terminated: the sanitizer would see a read behind it */
	const char source[4] = { 'a', 'b', '\xe2', '\x82' };
	char buf[16];

	(void)state;
	dlp_sanitise(buf, sizeof(buf), source, sizeof(source));
	assert_string_equal(buf, "ab??");
	dlp_sanitise(buf, sizeof(buf), source, 1);
	assert_string_equal(buf, "a");
	dlp_sanitise(buf, sizeof(buf), source, 0);
	assert_string_equal(buf, "");
	dlp_sanitise(buf, sizeof(buf), "a\0b", 3);
	assert_string_equal(buf, "a");
}

static void clocks_are_the_system_s(void **state)
{
	struct timespec before, after;
	uint64_t now, real;

	(void)state;
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &before), 0);
	now = dlp_now_ns();
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &after), 0);
	assert_true(now >= (uint64_t)before.tv_sec * 1000000000ull + (uint64_t)before.tv_nsec);
	assert_true(now <= (uint64_t)after.tv_sec * 1000000000ull + (uint64_t)after.tv_nsec);
	real = dlp_realtime_ns() / 1000000000ull;
	assert_true(real + 2 >= (uint64_t)time(NULL) && real <= (uint64_t)time(NULL) + 2);
}

static void cleanup_releases_at_the_end_of_the_scope(void **state)
{
	int copy;

	(void)state;
	{
		_cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		_cleanup_close_ int none = -1;
		_cleanup_free_ char *nothing = NULL;
		_cleanup_fclose_ FILE *file = NULL;

		assert_true(fd >= 0);
		assert_true(none < 0 && !nothing && !file);
		copy = fd;
	}
	assert_int_equal(fcntl(copy, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_whole_and_decimal),
		cmocka_unit_test(durations_have_units),
		cmocka_unit_test(harmless_text_stays),
		cmocka_unit_test(control_characters_are_replaced),
		cmocka_unit_test(invalid_utf8_is_replaced),
		cmocka_unit_test(text_is_cut_at_a_character),
		cmocka_unit_test(the_source_is_bounded),
		cmocka_unit_test(clocks_are_the_system_s),
		cmocka_unit_test(cleanup_releases_at_the_end_of_the_scope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
