/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A screenful of character cells. What is drawn says what it means (enum dlp_style); which colours
 * that becomes is the terminal's business. Pure; widths of characters are those of the current
 * locale, which must be one of UTF-8 for anything beyond ASCII to appear.
 */
#ifndef DLP_GRID_H
#define DLP_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "dlprof/event.h"

/* Larger than any real terminal; a size that is told in error costs no more than this. */
#define DLP_GRID_ROWS_MAX 256
#define DLP_GRID_COLS_MAX 512

enum dlp_style {
	DLP_STYLE_PLAIN = 0,
	DLP_STYLE_DIM,
	DLP_STYLE_STRONG,
	DLP_STYLE_GOOD,
	DLP_STYLE_WARN,
	DLP_STYLE_BAD,
	DLP_STYLE_ALARM, /* louder than bad */
	DLP_STYLE_SELECTED,
	DLP_STYLE_STATE, /* text about a thread's state: + enum dlp_state */
	DLP_STYLE_BAR = DLP_STYLE_STATE + DLP_ST_MAX, /* part of a bar of states, likewise */
	DLP_STYLE_MAX = DLP_STYLE_BAR + DLP_ST_MAX,
};

struct dlp_grid_cell {
	uint32_t ch; /* Unicode; 0 = right half of the wide character before it */
	uint32_t style;
};

struct dlp_grid {
	int rows, cols;
	struct dlp_grid_cell *cell; /* rows * cols, row by row; owned */
};

/* Blank, of this size, within the bounds above. 0 or -ENOMEM; then the grid is as it was. */
int dlp_grid_resize(struct dlp_grid *grid, int rows, int cols);
void dlp_grid_fini(struct dlp_grid *grid);
void dlp_grid_clear(struct dlp_grid *grid);

/*
 * Writes a sanitised text from column `col` up to, not including, column `end`; what does not fit
 * is left out. Anything outside the grid is no error. Returns the column behind it.
 */
int dlp_grid_put(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		 const char *text);
/* The same, but a text that is cut ends with "..", or keeps its end and begins with it. */
int dlp_grid_put_cut(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		     const char *text);
int dlp_grid_put_tail(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		      const char *text);
__attribute__((format(printf, 6, 7))) int dlp_grid_printf(struct dlp_grid *grid, int row, int col,
							  int end, unsigned int style,
							  const char *format, ...);
/* The same character in all columns up to `end`. */
void dlp_grid_fill(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		   uint32_t ch);
/* Gives what stands there another style. */
void dlp_grid_restyle(struct dlp_grid *grid, int row, int col, int end, unsigned int style);

/* Columns that a text takes. */
int dlp_grid_columns(const char *text);
/*
 * How many bytes of `text` go on one line of so many columns, broken at a blank where there is one;
 * *ret_next: bytes up to the next line's begin. 0 at the end of the text.
 */
size_t dlp_grid_line(const char *text, int columns, size_t *ret_next);
/* UTF-8 of a character, not terminated; returns how many bytes (1 to 4). */
size_t dlp_grid_utf8(uint32_t ch, char out[4]);

#endif /* DLP_GRID_H */
