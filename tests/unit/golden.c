/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* 1, 2, 3: good, warning, bad. States in small letters, in bars in capitals: a = run, b = runq, ... */
static char style_letter(uint32_t style)
{
	static const char plain[] = " .+123!#";

	_Static_assert(sizeof(plain) - 1 == DLP_STYLE_STATE, "a style has no letter");
	if (style < DLP_STYLE_STATE)
		return plain[style];
	if (style < DLP_STYLE_BAR)
		return (char)('a' + (style - DLP_STYLE_STATE));
	return (char)('A' + (style - DLP_STYLE_BAR));
}

static void put_row(FILE *out, const struct dlp_grid *grid, int row, bool styles)
{
	const struct dlp_grid_cell *cell = grid->cell + (size_t)row * (size_t)grid->cols;
	char bytes[4];

	for (int col = 0; col < grid->cols; col++) {
		if (styles)
			fputc(style_letter(cell[col].style), out);
		else if (cell[col].ch)
			fwrite(bytes, 1, dlp_grid_utf8(cell[col].ch, bytes), out);
	}
	/* the edge, so that no line ends with blanks */
	fputs("|\n", out);
}

static char *as_text(const struct dlp_grid *grid)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	for (int row = 0; row < grid->rows; row++)
		put_row(out, grid, row, false);
	fputs("\nstyles\n", out);
	for (int row = 0; row < grid->rows; row++)
		put_row(out, grid, row, true);
	assert_int_equal(fclose(out), 0);
	return text;
}

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (!file)
		return NULL;
	/* golden files hold no NUL: all of it is one "line" */
	if (getdelim(&text, &room, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

void golden_check(const char *name, const struct dlp_grid *grid)
{
	_cleanup_free_ char *wanted = NULL, *got = as_text(grid);
	char path[256];

	(void)snprintf(path, sizeof(path), "tests/golden/%s.txt", name);
	if (getenv("DLP_GOLDEN_WRITE")) {
		FILE *file = fopen(path, "we");

		assert_non_null(file);
		assert_true(fputs(got, file) >= 0);
		assert_int_equal(fclose(file), 0);
		return;
	}
	wanted = read_file(path);
	if (wanted && !strcmp(wanted, got))
		return;
	print_error("%s is\n%s\nbut the screen is\n%s\n", path, wanted ? wanted : "not there", got);
	fail_msg("%s differs; if that is right: make golden, and look at the difference", path);
}
