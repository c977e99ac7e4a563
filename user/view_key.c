/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What keys do to the screen. */
#include "keys.h"
#include "view_priv.h"

/* Moves the selection by so many rows; to the first or last where it would leave them. */
static enum dlp_view_act select_by(struct dlp_view *view, const struct dlp_snapshot *snapshot,
				   long steps)
{
	const struct dlp_snap_worker *rows[DLP_SNAP_WORKERS_MAX + 1];
	long cnt = (long)dlp_view_rows(view, snapshot, rows), at = -1;

	if (!cnt)
		return DLP_VIEW_NOTHING;
	for (long i = 0; i < cnt; i++) {
		if (rows[i]->pid == view->selected)
			at = i;
	}
	/* the first key shows where the selection is: on the first worker, or the trainer */
	if (at < 0)
		at = cnt > 1 ? 1 : 0;
	else
		at += steps;
	view->selected = rows[at < 0 ? 0 : at >= cnt ? cnt - 1 : at]->pid;
	return DLP_VIEW_REDRAW;
}

static void next_loader(struct dlp_view *view, const struct dlp_snapshot *snapshot)
{
	size_t at = 0;

	for (size_t i = 1; i < snapshot->loader_cnt; i++) {
		if (snapshot->loader[i].id == view->loader)
			at = i;
	}
	/* with one loader there is nothing to switch to */
	at = snapshot->loader_cnt > 2 ? (at + 1) % snapshot->loader_cnt : 0;
	view->loader = snapshot->loader[at].id;
}

static void turn_to(struct dlp_view *view, enum dlp_view_page page)
{
	view->page = view->page == page ? DLP_PAGE_WORKERS : page;
}

enum dlp_view_act dlp_view_key(struct dlp_view *view, const struct dlp_snapshot *snapshot, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return DLP_VIEW_QUIT;
	case 'p':
	case ' ':
		view->paused = !view->paused;
		break;
	case 's':
		view->sort = (view->sort + 1) % DLP_SORT_MAX;
		break;
	case 'l':
		next_loader(view, snapshot);
		break;
	case 't':
		turn_to(view, DLP_PAGE_STAGES);
		break;
	case 'h':
	case '?':
		turn_to(view, DLP_PAGE_HELP);
		break;
	case DLP_KEY_ESC:
		view->page = DLP_PAGE_WORKERS;
		break;
	case 'd':
	case DLP_KEY_ENTER:
		(void)select_by(view, snapshot, 0);
		turn_to(view, DLP_PAGE_DETAIL);
		break;
	case 'k':
	case DLP_KEY_UP:
		return select_by(view, snapshot, -1);
	case 'j':
	case DLP_KEY_DOWN:
		return select_by(view, snapshot, 1);
	case DLP_KEY_PAGE_UP:
		return select_by(view, snapshot, -10);
	case DLP_KEY_PAGE_DOWN:
		return select_by(view, snapshot, 10);
	case DLP_KEY_HOME:
		return select_by(view, snapshot, -DLP_SNAP_WORKERS_MAX - 1);
	case DLP_KEY_END:
		return select_by(view, snapshot, DLP_SNAP_WORKERS_MAX + 1);
	default:
		return DLP_VIEW_NOTHING;
	}
	return DLP_VIEW_REDRAW;
}
