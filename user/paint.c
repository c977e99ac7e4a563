/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "paint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cursor address takes up to 10 bytes: cells that are the same are written over up to here. */
#define GAP_MAX 6
/* A cursor address, a style and a character. */
#define CELL_BYTES_MAX 48
#define STYLE_UNKNOWN UINT32_MAX

/* SGR parameters of every style; each begins with 0, so that none depends on the one before. */
static const char *const plain_sgr[3][DLP_STYLE_STATE] = {
	[DLP_COLORS_NONE] = {
		[DLP_STYLE_PLAIN] = "0", [DLP_STYLE_DIM] = "0;2", [DLP_STYLE_STRONG] = "0;1",
		[DLP_STYLE_GOOD] = "0;1", [DLP_STYLE_WARN] = "0;1", [DLP_STYLE_BAD] = "0;1",
		[DLP_STYLE_ALARM] = "0;1;7", [DLP_STYLE_SELECTED] = "0;7",
	},
	[DLP_COLORS_16] = {
		[DLP_STYLE_PLAIN] = "0", [DLP_STYLE_DIM] = "0;2", [DLP_STYLE_STRONG] = "0;1",
		[DLP_STYLE_GOOD] = "0;32", [DLP_STYLE_WARN] = "0;33", [DLP_STYLE_BAD] = "0;31",
		[DLP_STYLE_ALARM] = "0;1;37;41", [DLP_STYLE_SELECTED] = "0;7",
	},
	/* readable on black and on white: mid tones, and never white or black themselves */
	[DLP_COLORS_256] = {
		[DLP_STYLE_PLAIN] = "0", [DLP_STYLE_DIM] = "0;38;5;244", [DLP_STYLE_STRONG] = "0;1",
		[DLP_STYLE_GOOD] = "0;38;5;71", [DLP_STYLE_WARN] = "0;38;5;172",
		[DLP_STYLE_BAD] = "0;38;5;167", [DLP_STYLE_ALARM] = "0;1;38;5;231;48;5;124",
		[DLP_STYLE_SELECTED] = "0;7",
	},
};

/* Work is green, lack of CPU yellow, storage red and magenta, the network blue, locks violet. */
static const struct state_color {
	int ansi, palette;
} state_color[DLP_ST_MAX] = {
	[DLP_ST_RUN] = { 2, 71 },    [DLP_ST_RUNQ] = { 3, 178 }, [DLP_ST_DISK] = { 1, 167 },
	[DLP_ST_FAULT] = { 5, 169 }, [DLP_ST_FS] = { 1, 208 },	 [DLP_ST_NET] = { 4, 68 },
	[DLP_ST_LOCK] = { 5, 97 },   [DLP_ST_GIL] = { 5, 133 },	 [DLP_ST_PIPE] = { 6, 73 },
	[DLP_ST_SLEEP] = { 4, 103 }, [DLP_ST_IDLE] = { 7, 250 }, [DLP_ST_OTHER] = { 7, 245 },
};

static void sgr(enum dlp_colors colors, uint32_t style, char *out, size_t size)
{
	const struct state_color *color;
	bool bar = style >= DLP_STYLE_BAR;

	if (style < DLP_STYLE_STATE || style >= DLP_STYLE_MAX) {
		(void)snprintf(out, size, "\033[%sm",
			       plain_sgr[colors][style < DLP_STYLE_STATE ? style : 0]);
		return;
	}
	/* the two ranges of styles follow each other */
	color = &state_color[(style - DLP_STYLE_STATE) % DLP_ST_MAX];
	if (colors == DLP_COLORS_256)
		(void)snprintf(out, size, bar ? "\033[0;38;5;16;48;5;%dm" : "\033[0;38;5;%dm",
			       color->palette);
	else if (colors == DLP_COLORS_16)
		(void)snprintf(out, size, bar ? "\033[0;30;4%dm" : "\033[0;3%dm", color->ansi);
	else
		(void)snprintf(out, size, "\033[0m");
}

void dlp_paint_forget(struct dlp_paint *paint)
{
	dlp_grid_fini(&paint->front);
}

void dlp_paint_fini(struct dlp_paint *paint)
{
	dlp_grid_fini(&paint->front);
	free(paint->out);
	*paint = (struct dlp_paint){ .colors = paint->colors };
}

static int reserve(struct dlp_paint *paint, size_t bytes)
{
	size_t room = paint->out_bytes + bytes;
	char *out;

	if (room <= paint->out_room)
		return 0;
	room += room / 2;
	out = realloc(paint->out, room);
	if (!out)
		return -ENOMEM;
	paint->out = out;
	paint->out_room = room;
	return 0;
}

static void append(struct dlp_paint *paint, const char *bytes, size_t cnt)
{
	memcpy(paint->out + paint->out_bytes, bytes, cnt);
	paint->out_bytes += cnt;
}

static void append_cell(struct dlp_paint *paint, const struct dlp_grid_cell *cell, uint32_t *style)
{
	char text[32];

	if (!cell->ch)
		return;
	if (cell->style != *style) {
		*style = cell->style;
		sgr(paint->colors, *style, text, sizeof(text));
		append(paint, text, strlen(text));
	}
	append(paint, text, dlp_grid_utf8(cell->ch, text));
}

static bool same(const struct dlp_grid_cell *a, const struct dlp_grid_cell *b)
{
	return a->ch == b->ch && a->style == b->style;
}

/* The columns of one row that differ, in runs; a run never begins in the middle of a character. */
static void paint_row(struct dlp_paint *paint, const struct dlp_grid_cell *old,
		      const struct dlp_grid_cell *new, int row, int cols, uint32_t *style)
{
	int at = -1; /* column of the cursor; -1 = in another row */
	char text[32];

	for (int col = 0; col < cols; col++) {
		int first = col;

		if (old && same(&old[col], &new[col]))
			continue;
		while (first > 0 && !new[first].ch)
			first--;
		if (at >= 0 && first - at <= GAP_MAX && first >= at) {
			for (; at < first; at++)
				append_cell(paint, &new[at], style);
		} else if (at < 0 || first > at) {
			(void)snprintf(text, sizeof(text), "\033[%d;%dH", row + 1, first + 1);
			append(paint, text, strlen(text));
			at = first;
		}
		for (; at <= col; at++)
			append_cell(paint, &new[at], style);
		/* the right half of a wide character came with it */
		for (; at < cols && !new[at].ch; at++)
			col = at;
	}
}

int dlp_paint(struct dlp_paint *paint, const struct dlp_grid *next)
{
	size_t cells = (size_t)next->rows * (size_t)next->cols;
	bool fresh = !paint->front.cell || paint->front.rows != next->rows ||
		     paint->front.cols != next->cols;
	uint32_t style = STYLE_UNKNOWN;
	size_t cols = (size_t)next->cols;
	static const char wipe[] = "\033[0m\033[2J";
	int err;

	err = reserve(paint, cells * CELL_BYTES_MAX + sizeof(wipe));
	if (!err && fresh)
		err = dlp_grid_resize(&paint->front, next->rows, next->cols);
	if (err)
		return err;
	if (fresh)
		append(paint, wipe, sizeof(wipe) - 1);
	for (int row = 0; row < next->rows; row++)
		paint_row(paint, fresh ? NULL : paint->front.cell + (size_t)row * cols,
			  next->cell + (size_t)row * cols, row, next->cols, &style);
	memcpy(paint->front.cell, next->cell, cells * sizeof(*next->cell));
	return 0;
}
