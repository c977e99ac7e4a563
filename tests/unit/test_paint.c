/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A small terminal is fed what paint makes, and must then show the grid that was painted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "paint.h"

#define ROWS 12
#define COLS 40

/* What a terminal keeps: characters, and the SGR in force when each was written. */
struct screen {
	int row, col;
	char sgr[32];
	struct {
		uint32_t ch;
		char sgr[32];
	} cell[ROWS][COLS];
};

static struct screen screen;
static struct dlp_paint paint;
static struct dlp_grid grid;
static size_t painted; /* bytes of the last paint */

static int setup(void **state)
{
	(void)state;
	memset(&screen, 0, sizeof(screen));
	paint = (struct dlp_paint){ .colors = DLP_COLORS_256 };
	srandom(7);
	return dlp_grid_resize(&grid, ROWS, COLS);
}

static int teardown(void **state)
{
	(void)state;
	dlp_paint_fini(&paint);
	dlp_grid_fini(&grid);
	return 0;
}

static void wipe(void)
{
	for (int row = 0; row < ROWS; row++) {
		for (int col = 0; col < COLS; col++)
			screen.cell[row][col].ch = ' ';
	}
}

/* Understands what paint uses, and fails on anything else. */
static const char *escape(const char *at)
{
	size_t len = strspn(at, "\033[0123456789;");

	switch (at[len]) {
	case 'm':
		assert_true(len + 1 < sizeof(screen.sgr));
		memcpy(screen.sgr, at, len + 1);
		screen.sgr[len + 1] = '\0';
		break;
	case 'H':
		assert_int_equal(sscanf(at, "\033[%d;%dH", &screen.row, &screen.col), 2);
		screen.row--;
		screen.col--;
		break;
	case 'J':
		wipe();
		break;
	default:
		fail_msg("a sequence that ends with '%c'", at[len]);
	}
	return at + len + 1;
}

static void feed(void)
{
	const char *at = paint.out;

	while (at < paint.out + paint.out_bytes) {
		wchar_t ch;
		int len;

		if (*at == '\033') {
			at = escape(at);
			continue;
		}
		len = mbtowc(&ch, at, 4);
		assert_true(len > 0);
		assert_in_range(screen.row, 0, ROWS - 1);
		assert_in_range(screen.col, 0, COLS - 1);
		screen.cell[screen.row][screen.col].ch = (uint32_t)ch;
		(void)snprintf(screen.cell[screen.row][screen.col].sgr, 32, "%s", screen.sgr);
		if (wcwidth(ch) == 2)
			screen.cell[screen.row][++screen.col].ch = 0;
		screen.col++;
		at += len;
	}
	painted = paint.out_bytes;
	paint.out_bytes = 0;
}

static void paint_and_compare(void)
{
	assert_int_equal(dlp_paint(&paint, &grid), 0);
	feed();
	for (int row = 0; row < ROWS; row++) {
		for (int col = 0; col < COLS; col++) {
			uint32_t wanted = grid.cell[row * COLS + col].ch;

			if (screen.cell[row][col].ch != wanted)
				fail_msg("row %d column %d: %x, wanted %x", row, col,
					 screen.cell[row][col].ch, wanted);
		}
	}
}

static void test_first(void **state)
{
	(void)state;
	dlp_grid_put(&grid, 0, 0, COLS, DLP_STYLE_STRONG, "hello");
	dlp_grid_put(&grid, ROWS - 1, COLS - 3, COLS, 0, "end");
	paint_and_compare();
	assert_string_equal(screen.cell[0][0].sgr, "\033[0;1m");
	assert_string_equal(screen.cell[0][5].sgr, "\033[0m");
}

/* Nothing new: nothing to write. One cell: a few bytes. */
static void test_little(void **state)
{
	(void)state;
	dlp_grid_put(&grid, 3, 10, COLS, 0, "12.3 ms");
	paint_and_compare();
	paint_and_compare();
	assert_int_equal(painted, 0);
	dlp_grid_put(&grid, 3, 10, COLS, 0, "12.4 ms");
	paint_and_compare();
	assert_in_range(painted, 1, 16);
	/* a style alone is a difference, too */
	dlp_grid_restyle(&grid, 3, 10, 11, DLP_STYLE_BAD);
	paint_and_compare();
	assert_string_equal(screen.cell[3][10].sgr, "\033[0;38;5;167m");
	assert_in_range(painted, 1, 32);
}

/* Any screen after any other, wide characters replaced half by half included. */
static void test_random(void **state)
{
	static const char *const words[] = { "a",
					     "disk 97",
					     "\xe6\x95\xb0\xe6\x8d\xae",
					     "\xe2\x96\x88",
					     "x\xe6\x95\xb0y",
					     "          " };

	(void)state;
	for (int i = 0; i < 3000; i++) {
		for (int cnt = (int)(random() % 6); cnt; cnt--) {
			int row = (int)(random() % ROWS), col = (int)(random() % COLS);

			/* the grid is always drawn whole: no halves of what was there before */
			dlp_grid_fill(&grid, row, 0, COLS, 0, ' ');
			dlp_grid_put(&grid, row, col, COLS, (unsigned int)random() % DLP_STYLE_MAX,
				     words[random() % 6]);
		}
		if (random() % 50 == 0)
			dlp_paint_forget(&paint);
		paint_and_compare();
	}
}

static void test_forget(void **state)
{
	(void)state;
	dlp_grid_put(&grid, 0, 0, COLS, 0, "still there");
	paint_and_compare();
	memset(screen.cell, 'z', sizeof(screen.cell));
	dlp_paint_forget(&paint);
	paint_and_compare();
}

/* NO_COLOR means: not one colour, for whatever style. */
static void test_colors(void **state)
{
	(void)state;
	for (unsigned int style = 0; style < DLP_STYLE_MAX; style++)
		dlp_grid_fill(&grid, (int)style % ROWS, (int)style / ROWS, COLS, style, 'x');
	for (unsigned int colors = 0; colors <= DLP_COLORS_256; colors++) {
		dlp_paint_fini(&paint);
		paint.colors = colors;
		paint_and_compare();
		for (int row = 0; row < ROWS; row++) {
			for (int col = 0; col < COLS; col++) {
				const char *sgr = screen.cell[row][col].sgr;

				/* 30 to 49 are colours in one form or another */
				if (colors == DLP_COLORS_NONE)
					assert_null(strpbrk(sgr, "34"));
				if (colors == DLP_COLORS_16)
					assert_null(strstr(sgr, "8;5"));
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_little, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_colors, setup, teardown),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
