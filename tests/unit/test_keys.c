/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What terminals send, and what it must be taken for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "keys.h"

static void test_known(void **state)
{
	static const struct {
		const char *bytes;
		int key;
	} cases[] = {
		{ "q", 'q' },
		{ "\r", DLP_KEY_ENTER },
		{ "\n", DLP_KEY_ENTER },
		{ "\033", DLP_KEY_ESC },
		{ "\033[A", DLP_KEY_UP },
		{ "\033OA", DLP_KEY_UP },
		{ "\033[B", DLP_KEY_DOWN },
		{ "\033OB", DLP_KEY_DOWN },
		{ "\033[C", DLP_KEY_RIGHT },
		{ "\033OD", DLP_KEY_LEFT },
		{ "\033[5~", DLP_KEY_PAGE_UP },
		{ "\033[6~", DLP_KEY_PAGE_DOWN },
		{ "\033[H", DLP_KEY_HOME },
		{ "\033[1~", DLP_KEY_HOME },
		{ "\033OF", DLP_KEY_END },
		{ "\033[4~", DLP_KEY_END },
		/* F5, Delete, Ctrl-Up, a mouse report: nothing of ours, and no letters left over */
		{ "\033[15~", DLP_KEY_NONE },
		{ "\033[3~", DLP_KEY_NONE },
		{ "\033[1;5A", DLP_KEY_NONE },
		{ "\033[<0;12;7M", DLP_KEY_NONE },
		{ "\033[", DLP_KEY_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t used = 0;

		assert_int_equal(dlp_key_next(cases[i].bytes, strlen(cases[i].bytes), &used),
				 cases[i].key);
		assert_int_equal(used, strlen(cases[i].bytes));
	}
}

static void test_several(void **state)
{
	const char bytes[] = "j\033[Bq";
	size_t used, at = 0;

	(void)state;
	assert_int_equal(dlp_key_next(bytes, 5, &used), 'j');
	at += used;
	assert_int_equal(dlp_key_next(bytes + at, 5 - at, &used), DLP_KEY_DOWN);
	at += used;
	assert_int_equal(dlp_key_next(bytes + at, 5 - at, &used), 'q');
	/* Esc, then a letter */
	assert_int_equal(dlp_key_next("\033q", 2, &used), DLP_KEY_ESC);
	assert_int_equal(used, 1);
}

/* Any bytes: it always goes forward and never reads beyond them (the sanitizers watch). */
static void test_any(void **state)
{
	(void)state;
	srandom(1);
	for (int i = 0; i < 20000; i++) {
		size_t cnt = (size_t)random() % 12 + 1, used;
		char *bytes = malloc(cnt);

		assert_non_null(bytes);
		for (size_t j = 0; j < cnt; j++)
			bytes[j] = random() % 3 ? "\033[O;~1A"[random() % 7] : (char)random();
		for (size_t at = 0; at < cnt; at += used) {
			(void)dlp_key_next(bytes + at, cnt - at, &used);
			assert_in_range(used, 1, cnt - at);
		}
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
