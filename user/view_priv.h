/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between the files of the view. */
#ifndef DLP_VIEW_PRIV_H
#define DLP_VIEW_PRIV_H

#include "human.h"
#include "view.h"

/* Everything begins after one blank column; labels on the left are so wide. */
#define DLP_VIEW_LEFT 1
#define DLP_VIEW_LABEL 10
/* Below so many rows nothing is spaced out. */
#define DLP_VIEW_ROOMY 22
#define DLP_VIEW_SPACIOUS 34

struct dlp_canvas {
	const struct dlp_view *view;
	const struct dlp_snapshot *snapshot;
	struct dlp_grid *grid;
};

/* What the first row says. */
struct dlp_view_head {
	char who[40];
	const char *cmdline;
	double cost;
	uint64_t rss_bytes, window_ns;
	bool complete, governed;
};

/* A key of the last row. */
struct dlp_view_hint {
	const char *key, *text;
	bool shown;
};

/* The first and the last row. */
void dlp_view_head(const struct dlp_canvas *canvas, const struct dlp_view_head *head);
void dlp_view_hints(const struct dlp_canvas *canvas, const struct dlp_view_hint *hint, size_t cnt);
/* There is something to draw on; says so otherwise. */
bool dlp_view_room(const struct dlp_canvas *canvas);

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
unsigned int dlp_view_severity_style(enum dlp_severity severity);
/* By the limits of the summary's severities. */
unsigned int dlp_view_exposed_style(double share);
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
