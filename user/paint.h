/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From one grid to the next with as few bytes as is easy: only cells that differ are written, so
 * nothing flickers and a slow line is enough. Pure: makes bytes, writes none.
 *
 * Of terminals it needs what all have since the VT100 (cursor address, SGR); hence no curses: that
 * would own the screen, the signals and the memory of the grid, which tests want to compare.
 */
#ifndef DLP_PAINT_H
#define DLP_PAINT_H

#include <stdbool.h>
#include <stddef.h>

#include "grid.h"

enum dlp_colors {
	DLP_COLORS_NONE = 0, /* bold, dim and reverse only */
	DLP_COLORS_16,
	DLP_COLORS_256,
};

/* Zeroed but for `colors`, it knows nothing of the terminal: the first paint writes every cell. */
struct dlp_paint {
	enum dlp_colors colors;
	struct dlp_grid front; /* what the terminal shows once `out` has been written to it */
	char *out;	       /* out_bytes of them; owned */
	size_t out_bytes, out_room;
};

/*
 * Appends to paint->out what turns the terminal's contents into `next`. 0 or -ENOMEM; then
 * nothing is appended.
 */
int dlp_paint(struct dlp_paint *paint, const struct dlp_grid *next);
/* The terminal's contents are not known any more (resized, stopped). */
void dlp_paint_forget(struct dlp_paint *paint);
void dlp_paint_fini(struct dlp_paint *paint);

#endif /* DLP_PAINT_H */
