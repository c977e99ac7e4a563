/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cells, widths of characters, and lines broken to fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "grid.h"

#define WIDE "\xe6\x95\xb0"   /* U+6570, two columns */
#define COMBINING "e\xcc\x81" /* e, and an accent that takes no column */

static struct dlp_grid grid;
static char text[256];

static int setup(void **state)
{
	(void)state;
	return dlp_grid_resize(&grid, 2, 8);
}

static int teardown(void **state)
{
	(void)state;
	dlp_grid_fini(&grid);
	return 0;
}

/* A row as text; the right half of a wide character as '<'. */
static const char *row_text(int row)
{
	size_t len = 0;

	for (int col = 0; col < grid.cols; col++) {
		uint32_t ch = grid.cell[row * grid.cols + col].ch;

		if (ch)
			len += dlp_grid_utf8(ch, text + len);
		else
			text[len++] = '<';
	}
	text[len] = '\0';
	return text;
}

static void test_put(void **state)
{
	(void)state;
	assert_int_equal(dlp_grid_put(&grid, 0, 2, 99, DLP_STYLE_BAD, "abc"), 5);
	assert_string_equal(row_text(0), "  abc   ");
	assert_int_equal(grid.cell[2].style, DLP_STYLE_BAD);
	assert_int_equal(grid.cell[1].style, DLP_STYLE_PLAIN);
	/* what does not fit is left out, and nothing reaches the next row */
	assert_int_equal(dlp_grid_put(&grid, 0, 5, 99, 0, "123456"), 8);
	assert_string_equal(row_text(0), "  abc123");
	assert_string_equal(row_text(1), "        ");
	assert_int_equal(dlp_grid_put(&grid, 1, 0, 3, 0, "wxyz"), 3);
	assert_string_equal(row_text(1), "wxy     ");
	dlp_grid_put(&grid, 7, 0, 9, 0, "no");
	dlp_grid_put(&grid, -1, 0, 9, 0, "no");
	dlp_grid_put(&grid, 0, -3, 9, 0, "no");
	dlp_grid_fill(&grid, 0, 6, 99, 0, '#');
	assert_string_equal(row_text(0), "  abc1##");
}

static void test_width(void **state)
{
	(void)state;
	assert_int_equal(dlp_grid_columns("abc"), 3);
	assert_int_equal(dlp_grid_columns(WIDE "a"), 3);
	assert_int_equal(dlp_grid_columns(COMBINING), 1);
	dlp_grid_put(&grid, 0, 0, 8, 0, WIDE "x" COMBINING);
	assert_string_equal(row_text(0), WIDE "<xe    ");
	/* half of it would not be shown */
	dlp_grid_clear(&grid);
	assert_int_equal(dlp_grid_put(&grid, 0, 5, 6, 0, WIDE), 5);
	assert_string_equal(row_text(0), "        ");
	/* a text that a buffer cut in the middle of a character */
	dlp_grid_put(&grid, 0, 0, 8, 0, "a\xe6\x95");
	assert_string_equal(row_text(0), "a?      ");
}

static void test_cut(void **state)
{
	(void)state;
	dlp_grid_put_cut(&grid, 0, 0, 6, 0, "123456");
	dlp_grid_put_cut(&grid, 1, 0, 6, 0, "1234567");
	assert_string_equal(row_text(0), "123456  ");
	assert_string_equal(row_text(1), "1234..  ");
	dlp_grid_put_tail(&grid, 0, 0, 6, 0, "/a/b/c.tar");
	assert_string_equal(row_text(0), "...tar  ");
	dlp_grid_put_tail(&grid, 1, 0, 8, 0, WIDE WIDE WIDE "abc");
	assert_string_equal(row_text(1), ".." WIDE "<abc ");
}

static void test_lines(void **state)
{
	size_t next;

	(void)state;
	assert_int_equal(dlp_grid_line("one two three", 9, &next), 7);
	assert_int_equal(next, 8);
	assert_int_equal(dlp_grid_line("one two", 7, &next), 7);
	assert_int_equal(next, 7);
	assert_int_equal(dlp_grid_line("", 7, &next), 0);
	/* the blank after a full line belongs to neither */
	assert_int_equal(dlp_grid_line("one two", 3, &next), 3);
	assert_int_equal(next, 4);
	/* a word that is too long is broken; a line is never empty */
	assert_int_equal(dlp_grid_line("abcdefgh", 3, &next), 3);
	assert_int_equal(next, 3);
	assert_int_equal(dlp_grid_line(WIDE WIDE, 1, &next), 3);
}

static void test_resize(void **state)
{
	(void)state;
	assert_int_equal(dlp_grid_resize(&grid, 0, -4), 0);
	assert_int_equal(grid.rows, 1);
	assert_int_equal(grid.cols, 1);
	assert_int_equal(dlp_grid_resize(&grid, 1 << 20, 1 << 20), 0);
	assert_int_equal(grid.rows, DLP_GRID_ROWS_MAX);
	assert_int_equal(grid.cols, DLP_GRID_COLS_MAX);
}

static void test_utf8(void **state)
{
	static const struct {
		uint32_t ch;
		const char *bytes;
	} cases[] = { { 'a', "a" },
		      { 0xe9, "\xc3\xa9" },
		      { 0x2588, "\xe2\x96\x88" },
		      { 0x1f600, "\xf0\x9f\x98\x80" } };
	char out[5] = "";

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		memset(out, 0, sizeof(out));
		assert_int_equal(dlp_grid_utf8(cases[i].ch, out), strlen(cases[i].bytes));
		assert_string_equal(out, cases[i].bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_width, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
		cmocka_unit_test(test_lines),
		cmocka_unit_test_setup_teardown(test_resize, setup, teardown),
		cmocka_unit_test(test_utf8),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
