/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "grid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static int within(int value, int most)
{
	return value < 1 ? 1 : value > most ? most : value;
}

int dlp_grid_resize(struct dlp_grid *grid, int rows, int cols)
{
	struct dlp_grid_cell *cell;

	rows = within(rows, DLP_GRID_ROWS_MAX);
	cols = within(cols, DLP_GRID_COLS_MAX);
	cell = malloc((size_t)rows * (size_t)cols * sizeof(*cell));
	if (!cell)
		return -ENOMEM;
	free(grid->cell);
	*grid = (struct dlp_grid){ .rows = rows, .cols = cols, .cell = cell };
	dlp_grid_clear(grid);
	return 0;
}

void dlp_grid_fini(struct dlp_grid *grid)
{
	free(grid->cell);
	*grid = (struct dlp_grid){ 0 };
}

void dlp_grid_clear(struct dlp_grid *grid)
{
	for (int row = 0; row < grid->rows; row++)
		dlp_grid_fill(grid, row, 0, grid->cols, DLP_STYLE_PLAIN, ' ');
}

/* One character of valid UTF-8 (dlp_sanitise has seen to that); returns its bytes, 0 at the end. */
static size_t next_char(const char *text, uint32_t *ret)
{
	const unsigned char *byte = (const unsigned char *)text;
	size_t len = byte[0] < 0x80 ? 1 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;

	*ret = len == 1 ? byte[0] : byte[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		/* cut short by a snprintf somewhere: better a mark than what lies behind */
		if ((byte[i] & 0xc0) != 0x80) {
			*ret = '?';
			return i;
		}
		*ret = *ret << 6 | (byte[i] & 0x3f);
	}
	return *byte ? len : 0;
}

/* Columns of a character: 0 for those that combine with the one before, else 1 or 2. */
static int width_of(uint32_t *ch)
{
	int width;

	if (*ch >= ' ' && *ch < 0x7f)
		return 1;
	width = wcwidth((wchar_t)*ch);
	if (width >= 0)
		return width;
	*ch = '?';
	return 1;
}

int dlp_grid_columns(const char *text)
{
	int columns = 0;
	uint32_t ch;
	size_t len;

	for (; (len = next_char(text, &ch)); text += len)
		columns += width_of(&ch);
	return columns;
}

static struct dlp_grid_cell *cell_at(struct dlp_grid *grid, int row, int col)
{
	return &grid->cell[(size_t)row * (size_t)grid->cols + (size_t)col];
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

int dlp_grid_put(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		 const char *text)
{
	uint32_t ch;
	size_t len;

	end = least(end, grid->cols);
	if (row < 0 || row >= grid->rows || col < 0)
		return col;
	for (; (len = next_char(text, &ch)); text += len) {
		int width = width_of(&ch);

		if (!width)
			continue;
		if (col + width > end)
			break;
		*cell_at(grid, row, col) = (struct dlp_grid_cell){ ch, style };
		if (width == 2)
			*cell_at(grid, row, col + 1) = (struct dlp_grid_cell){ 0, style };
		col += width;
	}
	return col;
}

int dlp_grid_put_cut(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		     const char *text)
{
	end = least(end, grid->cols);
	if (dlp_grid_columns(text) <= end - col)
		return dlp_grid_put(grid, row, col, end, style, text);
	col = dlp_grid_put(grid, row, col, end - 2, style, text);
	return dlp_grid_put(grid, row, col, end, style, "..");
}

int dlp_grid_put_tail(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		      const char *text)
{
	int left = dlp_grid_columns(text), room;
	uint32_t ch;

	end = least(end, grid->cols);
	room = end - col;
	if (left <= room)
		return dlp_grid_put(grid, row, col, end, style, text);
	while (left > room - 2 && *text) {
		text += next_char(text, &ch);
		left -= width_of(&ch);
	}
	col = dlp_grid_put(grid, row, col, end, style, "..");
	return dlp_grid_put(grid, row, col, end, style, text);
}

int dlp_grid_printf(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		    const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return dlp_grid_put(grid, row, col, end, style, text);
}

void dlp_grid_fill(struct dlp_grid *grid, int row, int col, int end, unsigned int style,
		   uint32_t ch)
{
	end = least(end, grid->cols);
	if (row < 0 || row >= grid->rows || col < 0)
		return;
	for (; col < end; col++)
		*cell_at(grid, row, col) = (struct dlp_grid_cell){ ch, style };
}

void dlp_grid_restyle(struct dlp_grid *grid, int row, int col, int end, unsigned int style)
{
	end = least(end, grid->cols);
	if (row < 0 || row >= grid->rows || col < 0)
		return;
	for (; col < end; col++)
		cell_at(grid, row, col)->style = style;
}

size_t dlp_grid_line(const char *text, int columns, size_t *ret_next)
{
	size_t at = 0, blank = 0, len;
	int used = 0;
	uint32_t ch;

	for (; (len = next_char(text + at, &ch)); at += len) {
		if (ch == ' ')
			blank = at;
		used += width_of(&ch);
		if (used > columns)
			break;
	}
	if (!len) {
		*ret_next = at;
		return at;
	}
	/* a word longer than the line is broken where the line ends; always at least one character */
	if (blank)
		at = blank;
	else if (!at)
		at = len;
	*ret_next = at + strspn(text + at, " ");
	return at;
}

size_t dlp_grid_utf8(uint32_t ch, char out[4])
{
	if (ch < 0x80) {
		out[0] = (char)ch;
		return 1;
	}
	if (ch < 0x800) {
		out[0] = (char)(0xc0 | ch >> 6);
		out[1] = (char)(0x80 | (ch & 0x3f));
		return 2;
	}
	if (ch < 0x10000) {
		out[0] = (char)(0xe0 | ch >> 12);
		out[1] = (char)(0x80 | (ch >> 6 & 0x3f));
		out[2] = (char)(0x80 | (ch & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | ch >> 18);
	out[1] = (char)(0x80 | (ch >> 12 & 0x3f));
	out[2] = (char)(0x80 | (ch >> 6 & 0x3f));
	out[3] = (char)(0x80 | (ch & 0x3f));
	return 4;
}
