/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Patterns as the BPF programs match them, against fnmatch(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../bpf/logic.bpf.h"
#include "globs.h"

static bool matches(const struct dlp_glob *glob, const char *text)
{
	char label[DLP_LABEL_MAX] = "";

	memcpy(label, text, strlen(text));
	return dlp_glob_match(glob, label);
}

static void compare(const char *pattern, const char *text)
{
	struct dlp_glob glob = { 0 };

	assert_int_equal(dlp_glob_add(&glob, pattern), 0);
	if (matches(&glob, text) != !fnmatch(pattern, text, 0))
		fail_msg("'%s' on '%s'", pattern, text);
}

static void test_known(void **state)
{
	static const char *const patterns[] = {
		"",	      "*",    "a",     "a*",	   "*a",	  "*a*",
		"a*b*c",      "?",    "a?c",   "**",	   "[abc]",	  "[!abc]",
		"[^a-c]*",    "[]a]", "[a-]",  "[a\\]b]c", "\\*",	  "my_next",
		"*.__next__", "a\\",  "[c-a]", "\xff*?",   "[\x80-\xff]", "fetch [0-9]*",
	};
	static const char *const texts[] = {
		"",	    "a",    "b",	"c",	   "ab", "abc", "aXbXc",	   "]",
		"-",	    "]c",   "*",	"my_next", "d",	 "cc",	"Loader.__next__", "a\\",
		"\xff\xfe", "\x90", "fetch 12", "fetch x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++) {
			/* glibc: a pattern that ends with \ matches nothing; here it is a character */
			if (strcmp(patterns[i], "a\\"))
				compare(patterns[i], texts[j]);
		}
	}
}

static void test_random(void **state)
{
	static const char letters[] = "ab*?[]!-c";

	(void)state;
	srand(7);
	for (unsigned int i = 0; i < 200000; i++) {
		char pattern[9] = "", text[9] = "";
		struct dlp_glob glob = { 0 };

		for (int j = rand() % 8; j > 0; j--)
			pattern[strlen(pattern)] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		for (int j = rand() % 8; j > 0; j--)
			text[strlen(text)] = "abc-]"[rand() % 5];
		/* a class without end is refused, and a character to fnmatch */
		if (!dlp_glob_add(&glob, pattern))
			compare(pattern, text);
	}
}

static void test_several(void **state)
{
	struct dlp_glob glob = { 0 }, before;
	char longest[65];

	(void)state;
	assert_false(matches(&glob, ""));
	assert_int_equal(dlp_glob_add(&glob, "one*"), 0);
	assert_int_equal(dlp_glob_add(&glob, "*two"), 0);
	assert_int_equal(dlp_glob_add(&glob, "three"), 0);
	assert_true(matches(&glob, "one") && matches(&glob, "one more"));
	assert_true(matches(&glob, "two") && matches(&glob, "forty two"));
	assert_true(matches(&glob, "three"));
	/* no pattern goes on where another one ends */
	assert_false(matches(&glob, "forty twothree") || matches(&glob, "aone"));
	assert_false(matches(&glob, "twothree") || matches(&glob, "on") || matches(&glob, ""));
	before = glob;
	assert_int_equal(dlp_glob_add(&glob, "[ab"), -EINVAL);
	assert_int_equal(dlp_glob_add(&glob, "[[:alpha:]]"), -EINVAL);
	memset(longest, 'x', 64);
	longest[64] = '\0';
	assert_int_equal(dlp_glob_add(&glob, longest), -ENOSPC);
	assert_memory_equal(&glob, &before, sizeof(glob));
	memset(&glob, 0, sizeof(glob));
	longest[63] = '\0';
	assert_int_equal(dlp_glob_add(&glob, longest), 0);
	assert_true(matches(&glob, longest));
	assert_int_equal(dlp_glob_add(&glob, ""), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
