/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a snapshot to a screenful of cells, and what keys do to it. Pure. */
#ifndef DLP_VIEW_H
#define DLP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose_ranks.h"
#include "grid.h"
#include "snapshot.h"

/* Below this only a line that asks for more room is drawn. */
#define DLP_VIEW_ROWS_MIN 15
#define DLP_VIEW_COLS_MIN 60

enum dlp_view_page {
	DLP_PAGE_WORKERS = 0,
	DLP_PAGE_DETAIL, /* of the selected worker */
	DLP_PAGE_STAGES,
	DLP_PAGE_HELP,
};

enum dlp_view_sort {
	DLP_SORT_PID = 0,
	DLP_SORT_SLOW, /* the longest production time first */
	DLP_SORT_BUSY, /* the least idle first */
	DLP_SORT_MAX,
};

/* Zeroed but for the first two it is the screen that comes first. */
struct dlp_view {
	bool unicode; /* bars of block characters */
	bool color;   /* states can be told by colour */
	enum dlp_view_page page;
	enum dlp_view_sort sort;
	bool paused;
	uint32_t loader;   /* id; 0 = all */
	uint32_t selected; /* tid of a row; 0 = none yet */
	/* Of several processes on one screen: */
	bool several;
	bool overview; /* instead of the pages of one; help is the same for both */
	uint32_t rank; /* pid of the one that is shown or selected; 0 = none yet */
};

/* One of several processes that are observed together. */
struct dlp_view_rank {
	uint32_t pid;
	int number; /* -1 = it has none */
	bool ended;
	bool taken; /* `snapshot` holds something */
	const struct dlp_snapshot *snapshot;
};

/* All of them, cnt > 0, in the order of `compared`. */
struct dlp_view_job {
	struct dlp_view_rank rank[DLP_RANKS_MAX];
	size_t cnt;
	struct dlp_ranks_verdict compared; /* as of the last interval */
	char text[320];			   /* its sentence; "" = not compared yet */
};

enum dlp_view_act { DLP_VIEW_NOTHING = 0, DLP_VIEW_REDRAW, DLP_VIEW_QUIT };

/* enum dlp_key or a character. */
enum dlp_view_act dlp_view_key(struct dlp_view *view, const struct dlp_snapshot *snapshot, int key);
/* Fills the whole grid. */
void dlp_view_draw(const struct dlp_view *view, const struct dlp_snapshot *snapshot,
		   struct dlp_grid *grid);
/* The same for several processes: an overview, or the screen of one of them. */
enum dlp_view_act dlp_view_job_key(struct dlp_view *view, const struct dlp_view_job *job, int key);
void dlp_view_job_draw(const struct dlp_view *view, const struct dlp_view_job *job,
		       struct dlp_grid *grid);

#endif /* DLP_VIEW_H */
