/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between the files of the view. */
#ifndef DLP_VIEW_PRIV_H
#define DLP_VIEW_PRIV_H

#include "human.h"
#include "view.h"

/* Everything begins after one blank column; labels on the left are so wide. */
#define DLP_VIEW_LEFT 1
#define DLP_VIEW_LABEL 10

struct dlp_canvas {
	const struct dlp_view *view;
	const struct dlp_snapshot *snapshot;
	struct dlp_grid *grid;
};

/* The rows of the chosen loader in the chosen order, the trainer first. Returns how many. */
size_t dlp_view_rows(const struct dlp_view *view, const struct dlp_snapshot *snapshot,
		     const struct dlp_snap_worker *ret[DLP_SNAP_WORKERS_MAX + 1]);
/* The loader whose figures are shown; the first one stands for all. */
const struct dlp_snap_loader *dlp_view_loader(const struct dlp_view *view,
					      const struct dlp_snapshot *snapshot);

/* These draw from row `row` up to, not including, row `end`. */
void dlp_view_workers(const struct dlp_canvas *canvas, int row, int end);
void dlp_view_detail(const struct dlp_canvas *canvas, int row, int end);
void dlp_view_stages(const struct dlp_canvas *canvas, int row, int end);
void dlp_view_help(const struct dlp_canvas *canvas, int row, int end);

/* What it does now and what it waits for, from column `col` on. */
void dlp_view_now(const struct dlp_canvas *canvas, int row, int col,
		  const struct dlp_snap_worker *worker);
/* Names of the states that some bar shows, with their looks. */
void dlp_view_legend(const struct dlp_canvas *canvas, int row);
/* A bar for a share of 0..1. */
void dlp_view_bar(const struct dlp_canvas *canvas, int row, int col, int end, unsigned int style,
		  double share);
/* "-" for 0. */
struct dlp_human dlp_view_duration(uint64_t ns);
/* "1:02:03" or "2:03". */
struct dlp_human dlp_view_clock(uint64_t ns);
/* Wraps a text; returns the row behind it. */
int dlp_view_wrap(const struct dlp_canvas *canvas, int row, int end, int col, unsigned int style,
		  const char *text);

#endif /* DLP_VIEW_PRIV_H */
