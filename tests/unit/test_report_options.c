/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's command line, and moments as people give them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "report_options.h"

#define SEC 1000000000ull

static int parse(struct dlp_report_options *options, char *error, const char *a, const char *b,
		 const char *c)
{
	char *argv[] = { (char *)"report", (char *)a, (char *)b, (char *)c, NULL };
	int argc = 1;

	while (argc < 4 && argv[argc])
		argc++;
	return dlp_report_options_parse(argc, argv, options, error, 400);
}

static void test_options(void **unused)
{
	struct dlp_report_options options;
	char error[400];

	(void)unused;
	assert_int_equal(parse(&options, error, "a.dlp", NULL, NULL), 0);
	assert_string_equal(options.file, "a.dlp");
	assert_false(options.sections & 1u << DLP_SECTION_WINDOW);
	assert_true(options.sections & 1u << DLP_SECTION_GETNEXT);
	/* options on either side of the file */
	assert_int_equal(parse(&options, error, "a.dlp", "--section=getnext", "--json=x"), 0);
	assert_int_equal(options.sections, 1u << DLP_SECTION_GETNEXT);
	assert_string_equal(options.form[DLP_FORM_JSON], "x");
	assert_int_equal(parse(&options, error, "--from=1", "--rows=3", "a.dlp"), 0);
	assert_true(options.sections & 1u << DLP_SECTION_WINDOW);
	assert_int_equal(options.rows, 3);
	assert_int_equal(parse(&options, error, "--help", NULL, NULL), 0);
	assert_true(options.help);
	assert_int_equal(parse(&options, error, "a.dlp", "--events", "wait:(disk|fs)"), 0);
	assert_string_equal(options.events, "wait:(disk|fs)");
}

static void test_refused(void **unused)
{
	static const struct {
		const char *a, *b, *c, *said;
	} bad[] = {
		{ NULL, NULL, NULL, "no recording given" },
		{ "a.dlp", "b.dlp", NULL, "one recording at a time" },
		{ "a.dlp", "--section", "none", "not one of all, verdict" },
		{ "a.dlp", "--events", "(", "Unmatched" },
		{ "a.dlp", "--dimensions", "[", "--dimensions" },
		{ "a.dlp", "--from", "yesterday", "not a time" },
		{ "a.dlp", "--to", "", "not a time" },
		{ "a.dlp", "--loader", "0", "not a number above 0" },
		{ "a.dlp", "--worker", "-3", "not a number above 0" },
		{ "a.dlp", "--rows", NULL, "no argument" },
		{ "a.dlp", "--nothing", NULL, "unknown option" },
		{ "a.dlp", "--help=1", NULL, "an argument that is not taken" },
		{ "a.dlp", "--json", "", "no file name" },
	};
	struct dlp_report_options options;
	char error[400];

	(void)unused;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		*error = '\0';
		assert_int_equal(parse(&options, error, bad[i].a, bad[i].b, bad[i].c), -22);
		if (!strstr(error, bad[i].said))
			fail_msg("'%s' does not say '%s'", error, bad[i].said);
		assert_null(strchr(error, '\n'));
	}
}

static void test_when(void **unused)
{
	/* 2026-01-31 23:59:50.5 UTC */
	const uint64_t start = 500 * SEC, real = 1769903990ull * SEC + SEC / 2;
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "0", 500 * SEC },
		{ "0.0", 500 * SEC },
		{ "12.5", 500 * SEC + 12 * SEC + SEC / 2 },
		{ "250ms", 500 * SEC + SEC / 4 },
		{ "2m", 620 * SEC },
		{ "503000000000ns", 503 * SEC },
		{ "0ns", 0 },
		{ "23:59:55", 500 * SEC + 4 * SEC + SEC / 2 },
		{ "23:59:55.25", 500 * SEC + 4 * SEC + SEC / 4 * 3 },
		{ "23:59:50", 500 * SEC }, /* the second it began in */
		{ "00:00:01", 500 * SEC + 10 * SEC + SEC / 2 }, /* the next day */
		{ "2026-01-31 23:59:52.5", 502 * SEC },
		{ "2026-02-01T00:00:00.5", 510 * SEC },
		{ "2020-01-01 00:00:00", 500 * SEC },
	};
	static const char *const bad[] = { "",	       "x",	   "-1",       "1.2.3",
					   "24:00:00", "12:60:00", "1:2:3",    "12:00:00.",
					   "12:00:0x", "ns",	   "5nsns",    "2026-13-01 00:00:00",
					   "2026-01-31", "2026-1-31 00:00:00", "0x", "00:00:00.5z" };
	struct dlp_when when;
	uint64_t ns;

	(void)unused;
	setenv("TZ", "UTC", 1);
	tzset();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(dlp_when_parse(good[i].text, &when), 0);
		assert_int_equal(dlp_when_resolve(&when, start, real, &ns), 0);
		if (ns != good[i].ns)
			fail_msg("%s is %llu", good[i].text, (unsigned long long)ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!dlp_when_parse(bad[i], &when))
			fail_msg("'%s' was taken", bad[i]);
	}
	assert_int_equal(dlp_when_parse("12:00:00", &when), 0);
	assert_int_equal(dlp_when_resolve(&when, start, 0, &ns), -22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_when),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
