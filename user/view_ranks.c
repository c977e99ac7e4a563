/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Several processes on one screen: an overview with a row for each, which of them holds the others
 * back on top, and what keys do to it. Each one's own screen is the rest of the view's.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"
#include "util.h"
#include "view_priv.h"

/* A wait for another rank below this is not worth a word; severities begin there, too. */
#define HELD_BACK 0.05
/* From this width on a rank's times are behind its verdict, below it in a row of their own. */
#define WIDE 166
#define VERDICT_WIDTH 34

/* ---- which one ------------------------------------------------------------------------------- */

/* By number, those without one last: places in `rank`. */
static void order(const struct dlp_view_job *job, size_t ret[DLP_RANKS_MAX])
{
	for (size_t i = 0; i < job->cnt; i++) {
		size_t at = i;

		/* as unsigned numbers -1 is the largest */
		for (; at && (unsigned int)job->rank[ret[at - 1]].number >
				     (unsigned int)job->rank[i].number;
		     at--)
			ret[at] = ret[at - 1];
		ret[at] = i;
	}
}

/* The one that was chosen; before that the one that matters most. */
static size_t chosen(const struct dlp_view *view, const struct dlp_view_job *job)
{
	size_t sorted[DLP_RANKS_MAX] = { 0 };

	for (size_t i = 0; i < job->cnt; i++) {
		if (view->rank && job->rank[i].pid == view->rank)
			return i;
	}
	order(job, sorted);
	return job->compared.slowest >= 0 ? (size_t)job->compared.slowest : sorted[0];
}

static void choose(struct dlp_view *view, const struct dlp_view_job *job, size_t i)
{
	/* workers and loaders are each one's own */
	if (view->rank != job->rank[i].pid)
		view->selected = view->loader = 0;
	view->rank = job->rank[i].pid;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void choose_by(struct dlp_view *view, const struct dlp_view_job *job, int steps)
{
	size_t sorted[DLP_RANKS_MAX] = { 0 }, now = chosen(view, job);
	int at = 0, last = (int)job->cnt - 1;

	order(job, sorted);
	while (at < last && sorted[at] != now)
		at++;
	/* the first key shows where the selection is */
	if (view->rank || !view->overview)
		at += steps;
	choose(view, job, sorted[at < 0 ? 0 : at > last ? last : at]);
}

static void open_one(struct dlp_view *view, const struct dlp_view_job *job, size_t i)
{
	choose(view, job, i);
	view->overview = false;
	view->page = DLP_PAGE_WORKERS;
}

/* False: none has this number. */
static bool open_number(struct dlp_view *view, const struct dlp_view_job *job, int number)
{
	for (size_t i = 0; i < job->cnt; i++) {
		if (job->rank[i].number != number)
			continue;
		open_one(view, job, i);
		return true;
	}
	return false;
}

/* False: not a key of the overview. */
static bool overview_key(struct dlp_view *view, const struct dlp_view_job *job, int key)
{
	switch (key) {
	case 'k':
	case DLP_KEY_UP:
		choose_by(view, job, -1);
		return true;
	case 'j':
	case DLP_KEY_DOWN:
		choose_by(view, job, 1);
		return true;
	case DLP_KEY_PAGE_UP:
	case DLP_KEY_HOME:
		choose_by(view, job, -DLP_RANKS_MAX);
		return true;
	case DLP_KEY_PAGE_DOWN:
	case DLP_KEY_END:
		choose_by(view, job, DLP_RANKS_MAX);
		return true;
	case 'r':
	case 'd':
	case DLP_KEY_ENTER:
		open_one(view, job, chosen(view, job));
		return true;
	default:
		return false;
	}
}

/* False: not a key that leads from one to another. */
static bool one_key(struct dlp_view *view, const struct dlp_view_job *job, int key)
{
	switch (key) {
	case DLP_KEY_ESC:
		if (view->page != DLP_PAGE_WORKERS)
			return false;
		view->overview = true;
		return true;
	case 'r':
		view->overview = true;
		view->page = DLP_PAGE_WORKERS;
		return true;
	case DLP_KEY_LEFT:
		choose_by(view, job, -1);
		return true;
	case DLP_KEY_RIGHT:
		choose_by(view, job, 1);
		return true;
	default:
		return false;
	}
}

/* What an overview has in common with the screen of one. */
static bool is_common(int key)
{
	return key == 'q' || key == 'Q' || key == 'p' || key == ' ' || key == 'h' || key == '?' ||
	       key == DLP_KEY_ESC;
}

enum dlp_view_act dlp_view_job_key(struct dlp_view *view, const struct dlp_view_job *job, int key)
{
	bool overview = view->overview && view->page != DLP_PAGE_HELP;

	if (view->several) {
		if (key >= '0' && key <= '9' && open_number(view, job, key - '0'))
			return DLP_VIEW_REDRAW;
		if (overview ? overview_key(view, job, key) : one_key(view, job, key))
			return DLP_VIEW_REDRAW;
		if (view->overview && !is_common(key))
			return DLP_VIEW_NOTHING;
	}
	return dlp_view_key(view, job->rank[chosen(view, job)].snapshot, key);
}

/* ---- the overview ---------------------------------------------------------------------------- */

/*
 * What the tool itself uses is in each one's cost, what its probes use only in that one's. The last
 * one that came is not charged with what attaching to the others took.
 */
static void add_cost(const struct dlp_snapshot *snapshot, double *own, double *probes)
{
	double part = isnan(snapshot->probe_cost) ? 0 : snapshot->probe_cost;

	if (isnan(snapshot->cost))
		return;
	*own = fmin(*own, snapshot->cost - part);
	*probes += part;
}

static void draw_head(const struct dlp_canvas *canvas, const struct dlp_view_job *job)
{
	struct dlp_view_head head = { .cmdline = "", .complete = true };
	double own = NAN, probes = 0;

	for (size_t i = job->cnt; i-- > 0;) {
		const struct dlp_snapshot *snapshot = job->rank[i].snapshot;

		if (!job->rank[i].taken)
			continue;
		add_cost(snapshot, &own, &probes);
		if (snapshot->rss_bytes > head.rss_bytes)
			head.rss_bytes = snapshot->rss_bytes;
		if (snapshot->window_ns > head.window_ns)
			head.window_ns = snapshot->window_ns;
		head.complete &= snapshot->complete;
		head.governed |= snapshot->governed;
		head.cmdline = snapshot->cmdline;
	}
	head.cost = own + probes;
	(void)snprintf(head.who, sizeof(head.who), "%zu ranks", job->cnt);
	dlp_view_head(canvas, &head);
}

static void draw_slowest(const struct dlp_canvas *canvas, int row, const struct dlp_view_job *job)
{
	const struct dlp_ranks_verdict *said = &job->compared;
	const struct dlp_view_rank *rank = &job->rank[said->slowest];
	struct dlp_grid *grid = canvas->grid;
	int end = grid->cols - 1;
	char who[24], right[32];

	if (rank->number >= 0)
		(void)snprintf(who, sizeof(who), "rank %d", rank->number);
	else
		(void)snprintf(who, sizeof(who), "process %u", rank->pid);
	(void)snprintf(right, sizeof(right), "confidence %s", dlp_confidence_id(said->confidence));
	if (grid->cols >= 76) {
		end -= (int)strlen(right);
		dlp_grid_put(grid, row, end, grid->cols, DLP_STYLE_DIM, right);
	}
	dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end - 2,
			said->by_loader ? dlp_view_exposed_style(said->wait) : DLP_STYLE_WARN,
			"Slowest: %s; %s %.0f %% of the time", who,
			said->known == 2 ? "the other waits" : "the others wait", said->wait * 100);
}

static void draw_headline(const struct dlp_canvas *canvas, int row, const struct dlp_view_job *job)
{
	const struct dlp_ranks_verdict *said = &job->compared;
	int end = canvas->grid->cols - 1;

	if (said->slowest >= 0)
		draw_slowest(canvas, row, job);
	else if (said->known < 2)
		dlp_grid_put(canvas->grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG,
			     "The ranks are not compared yet");
	else if (!said->in_step)
		dlp_grid_put(canvas->grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG,
			     "These processes do not train in step");
	else
		dlp_grid_put(canvas->grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_GOOD,
			     "No rank holds the others back");
}

static const char *own_verdict(const struct dlp_snap_loader *all)
{
	switch (all->bottleneck) {
	case DLP_BN_STALLED:
	case DLP_BN_DATA_LOADING:
		return dlp_cause_id(all->cause);
	case DLP_BN_NOT_DATA_LOADING:
		return "not data loading";
	default:
		return "no verdict yet";
	}
}

static void draw_verdict(const struct dlp_canvas *canvas, int row, int col, int end,
			 const struct dlp_view_job *job, size_t i)
{
	const struct dlp_view_rank *rank = &job->rank[i];
	const struct dlp_snap_loader *all = &rank->snapshot->loader[0];
	bool slowest = job->compared.slowest == (int)i, stalled = all->bottleneck == DLP_BN_STALLED;
	unsigned int style = all->bottleneck == DLP_BN_INSUFFICIENT ?
				     DLP_STYLE_PLAIN :
				     dlp_view_severity_style(all->severity);
	double held = job->compared.held[i];
	char waits[32] = "", text[96];

	if (held >= HELD_BACK)
		(void)snprintf(waits, sizeof(waits), "held back %.0f %%, ", held * 100);
	(void)snprintf(text, sizeof(text), "%s%s%s%s%s", rank->ended ? "ended: " : "",
		       slowest ? "slowest: " : "", waits, stalled ? "STALLED: " : "",
		       own_verdict(all));
	if (stalled)
		style = DLP_STYLE_BAD;
	else if (rank->ended)
		style = DLP_STYLE_DIM;
	dlp_grid_put_cut(canvas->grid, row, col, end, style, text);
}

static void draw_times(const struct dlp_canvas *canvas, int row, int col, const char *label,
		       const struct dlp_snap_times *times)
{
	col = dlp_grid_put(canvas->grid, row, col, canvas->grid->cols, DLP_STYLE_DIM, label);
	dlp_grid_printf(canvas->grid, row, col, canvas->grid->cols, DLP_STYLE_PLAIN, "%8s / %-8s",
			dlp_view_duration(times->now_ns).text,
			dlp_view_duration(times->median_ns).text);
}

/* GetNext and step, workers, losses: as much of it as there is room for. */
static void draw_figures(const struct dlp_canvas *canvas, int row, int col,
			 const struct dlp_view_rank *rank)
{
	const struct dlp_snapshot *snapshot = rank->snapshot;
	struct dlp_grid *grid = canvas->grid;
	const char *lost = snapshot->governed ? "fewer" : snapshot->complete ? "lost 0" : "short";
	unsigned int style = snapshot->governed || !snapshot->complete ? DLP_STYLE_WARN :
									 DLP_STYLE_DIM;

	draw_times(canvas, row, col, "GetNext ", &snapshot->loader[0].getnext);
	draw_times(canvas, row, col + 29, "Step ", &snapshot->loader[0].step);
	if (col + 74 > grid->cols)
		return;
	dlp_grid_printf(grid, row, col + 54, grid->cols, DLP_STYLE_PLAIN, "%3zu worker%s",
			snapshot->workers_alive, snapshot->workers_alive == 1 ? "" : "s");
	dlp_grid_put(grid, row, col + 67, grid->cols, style, lost);
}

static int bar_end(int cols)
{
	int width = 8 + (cols - DLP_VIEW_COLS_MIN) / 3;

	return 15 + (width > 32 ? 32 : width);
}

static void draw_rank(const struct dlp_canvas *canvas, int row, int height,
		      const struct dlp_view_job *job, size_t i)
{
	const struct dlp_view_rank *rank = &job->rank[i];
	struct dlp_grid *grid = canvas->grid;
	int bar = bar_end(grid->cols), verdict = bar + 8;
	double share = rank->snapshot->loader[0].exposed;

	if (rank->number >= 0)
		dlp_grid_printf(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_PLAIN, "%4d",
				rank->number);
	else
		dlp_grid_printf(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_PLAIN, "%4s", "-");
	dlp_grid_printf(grid, row, 5, grid->cols, DLP_STYLE_PLAIN, "%8u", rank->pid);
	if (i == chosen(canvas->view, job))
		dlp_grid_restyle(grid, row, 0, 14, DLP_STYLE_SELECTED);
	if (!rank->taken) {
		dlp_grid_put(grid, row, 15, grid->cols, DLP_STYLE_DIM, "no figures yet");
		return;
	}
	if (!isnan(share)) {
		unsigned int style = dlp_view_exposed_style(fmin(1, share));

		dlp_view_bar(canvas, row, 15, bar, style, fmin(1, share));
		dlp_grid_printf(grid, row, bar + 1, grid->cols, style, "%3.0f %%",
				fmin(1, share) * 100);
	}
	draw_verdict(canvas, row, verdict,
		     grid->cols >= WIDE ? verdict + VERDICT_WIDTH : grid->cols - 1, job, i);
	if (grid->cols >= WIDE)
		draw_figures(canvas, row, verdict + VERDICT_WIDTH + 2, rank);
	else if (height > 1)
		draw_figures(canvas, row + 1, 6, rank);
}

/* Columns, and which of the ranks are shown where not all are. */
static void draw_title(const struct dlp_canvas *canvas, int row, size_t first, size_t shown,
		       size_t cnt)
{
	struct dlp_grid *grid = canvas->grid;
	int bar = bar_end(grid->cols), end = grid->cols - 1;
	char text[48] = "times: now / median";

	if (shown < cnt)
		(void)snprintf(text, sizeof(text), "%zu-%zu of %zu", first + 1, first + shown, cnt);
	end -= (int)strlen(text);
	dlp_grid_put(grid, row, end, grid->cols, DLP_STYLE_DIM, text);
	dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_DIM, "%4s%8s", "rank", "pid");
	dlp_grid_put(grid, row, 15, end, DLP_STYLE_DIM, "waits");
	dlp_grid_put(grid, row, bar + 8, end - 1, DLP_STYLE_DIM, "verdict");
}

static void draw_ranks(const struct dlp_canvas *canvas, int row, int end,
		       const struct dlp_view_job *job)
{
	size_t sorted[DLP_RANKS_MAX], room, shown, first = 0;
	int height = 1;

	if (canvas->grid->cols < WIDE && 2 * (int)job->cnt <= end - row - 1)
		height = 2;
	room = end - row > 1 ? (size_t)((end - row - 1) / height) : 0;
	shown = job->cnt < room ? job->cnt : room;
	order(job, sorted);
	for (size_t i = 0; i < job->cnt; i++) {
		if (sorted[i] == chosen(canvas->view, job) && i >= shown)
			first = i - shown + 1;
	}
	draw_title(canvas, row++, first, shown, job->cnt);
	for (size_t i = 0; i < shown; i++, row += height)
		draw_rank(canvas, row, height, job, sorted[first + i]);
}

static void draw_overview(const struct dlp_canvas *canvas, const struct dlp_view_job *job)
{
	struct dlp_grid *grid = canvas->grid;
	bool roomy = grid->rows >= DLP_VIEW_ROOMY, spacious = grid->rows >= DLP_VIEW_SPACIOUS;
	/* as in the screen of one: what is below must not jump with each sentence */
	int lines = grid->cols < 110 ? 2 : 1, row = 1 + spacious;
	const struct dlp_view_hint hint[] = {
		{ "q", "quit", true },
		{ "p", canvas->view->paused ? "go on" : "pause", true },
		{ "Enter", "one rank", true },
		{ "0-9", "by number", true },
		{ "h", "help", true },
	};

	draw_head(canvas, job);
	draw_headline(canvas, row++, job);
	(void)dlp_view_wrap(canvas, row, row + lines, DLP_VIEW_LEFT, DLP_STYLE_PLAIN, job->text);
	draw_ranks(canvas, row + lines + roomy, grid->rows - 1, job);
	dlp_view_hints(canvas, hint, DLP_ARRAY_SIZE(hint));
}

void dlp_view_job_draw(const struct dlp_view *view, const struct dlp_view_job *job,
		       struct dlp_grid *grid)
{
	const struct dlp_view_rank *rank = &job->rank[chosen(view, job)];
	const struct dlp_canvas canvas = { view, rank->snapshot, grid };

	if (rank->taken && !(view->several && view->overview && view->page != DLP_PAGE_HELP)) {
		dlp_view_draw(view, rank->snapshot, grid);
		return;
	}
	dlp_grid_clear(grid);
	if (!dlp_view_room(&canvas))
		return;
	if (view->several && view->overview)
		draw_overview(&canvas, job);
	else
		dlp_grid_put(grid, 0, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM,
			     "dlprof-bpf  attached; the first figures come with the first "
			     "interval");
}
