/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One row per thread: how fast it is, where its time goes, and what it does now. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split.h"
#include "summary.h"
#include "util.h"
#include "view_priv.h"

#define BAR_MIN 10
#define BAR_MAX 64
/* From this width on a batch's production time has a column. */
#define WIDE 76

/* Where colours do not tell the states apart, these do. */
static const char letters[DLP_ST_MAX] = {
	[DLP_ST_RUN] = '=',  [DLP_ST_RUNQ] = 'q',  [DLP_ST_DISK] = 'd', [DLP_ST_FAULT] = 'f',
	[DLP_ST_FS] = 's',   [DLP_ST_NET] = 'n',   [DLP_ST_LOCK] = 'l', [DLP_ST_GIL] = 'g',
	[DLP_ST_PIPE] = 'p', [DLP_ST_SLEEP] = 'z', [DLP_ST_IDLE] = '.', [DLP_ST_OTHER] = 'o',
};

/* Left to right; a fixed order, so that a bar's parts grow and shrink but never jump. */
static const unsigned int order[DLP_ST_MAX] = {
	DLP_ST_RUN,  DLP_ST_RUNQ, DLP_ST_DISK, DLP_ST_FAULT, DLP_ST_FS,	   DLP_ST_NET,
	DLP_ST_LOCK, DLP_ST_GIL,  DLP_ST_PIPE, DLP_ST_SLEEP, DLP_ST_OTHER, DLP_ST_IDLE,
};

static double idle_share(const struct dlp_snap_worker *worker)
{
	uint64_t sum = dlp_split_sum(&worker->recent);

	return sum ? (double)worker->recent.ns[DLP_ST_IDLE] / (double)sum : 1;
}

static bool comes_first(enum dlp_view_sort sort, const struct dlp_snap_worker *a,
			const struct dlp_snap_worker *b)
{
	if (a->trainer != b->trainer)
		return a->trainer;
	if (sort == DLP_SORT_SLOW && a->median_ns != b->median_ns)
		return a->median_ns > b->median_ns;
	/* whole percents: rows that are as good as equal must not change places all the time */
	if (sort == DLP_SORT_BUSY && lround(idle_share(a) * 100) != lround(idle_share(b) * 100))
		return idle_share(a) < idle_share(b);
	return a->pid < b->pid;
}

size_t dlp_view_rows(const struct dlp_view *view, const struct dlp_snapshot *snapshot,
		     const struct dlp_snap_worker *ret[DLP_SNAP_WORKERS_MAX + 1])
{
	size_t cnt = 0;

	for (size_t i = 0; i < snapshot->worker_cnt; i++) {
		const struct dlp_snap_worker *worker = &snapshot->worker[i];
		size_t at = cnt;

		if (view->loader && !worker->trainer && worker->loader != view->loader)
			continue;
		for (; at && comes_first(view->sort, worker, ret[at - 1]); at--)
			ret[at] = ret[at - 1];
		ret[at] = worker;
		cnt++;
	}
	return cnt;
}

/* Columns of each state, together `width`: rounded down, what is left goes to the largest rests. */
static void apportion(const struct dlp_clock *clock, int width, int ret_width[DLP_ST_MAX])
{
	double rest[DLP_ST_MAX], sum = (double)dlp_split_sum(clock);
	int left = width;

	for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
		double exact = (double)clock->ns[i] / sum * width;

		ret_width[i] = (int)exact;
		rest[i] = exact - ret_width[i];
		left -= ret_width[i];
	}
	for (; left > 0; left--) {
		unsigned int most = 0;

		for (unsigned int i = 1; i < DLP_ST_MAX; i++) {
			if (rest[i] > rest[most])
				most = i;
		}
		ret_width[most]++;
		rest[most] = -1;
	}
}

static void draw_part(const struct dlp_canvas *canvas, int row, int col, int width,
		      unsigned int state, double share)
{
	uint32_t fill = canvas->view->color ? ' ' : (unsigned char)letters[state];
	unsigned int style = DLP_STYLE_BAR + state;
	const char *name = dlp_split_state_id(state);
	int end = col + width, name_width = (int)strlen(name);
	char text[24];

	dlp_grid_fill(canvas->grid, row, col, end, style, fill);
	/* apart from the letters around it, where there are letters */
	(void)snprintf(text, sizeof(text), canvas->view->color ? "%s %.0f" : " %s %.0f ", name,
		       share * 100);
	if (width < (int)strlen(text) + 2)
		(void)snprintf(text, sizeof(text), "%s", name);
	if (width >= name_width + 2)
		dlp_grid_put(canvas->grid, row, col + 1, end, style, text);
}

static void draw_states(const struct dlp_canvas *canvas, int row, int col, int end,
			const struct dlp_clock *clock)
{
	uint64_t sum = dlp_split_sum(clock);
	int width[DLP_ST_MAX];

	if (!sum) {
		dlp_grid_put(canvas->grid, row, col, end, DLP_STYLE_DIM, "not measured yet");
		return;
	}
	apportion(clock, end - col, width);
	for (size_t i = 0; i < DLP_ST_MAX; i++) {
		unsigned int state = order[i];

		draw_part(canvas, row, col, width[state], state,
			  (double)clock->ns[state] / (double)sum);
		col += width[state];
	}
}

void dlp_view_legend(const struct dlp_canvas *canvas, int row)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;
	struct dlp_grid *grid = canvas->grid;
	struct dlp_clock sum = { 0 };
	int col = DLP_VIEW_LEFT;

	for (size_t i = 0; i < snapshot->worker_cnt; i++)
		dlp_split_add(&sum, &snapshot->worker[i].recent);
	for (size_t i = 0; i < DLP_ST_MAX; i++) {
		unsigned int state = order[i];
		char look[2] = { canvas->view->color ? ' ' : letters[state], '\0' };

		/* too little to be seen in a bar */
		if ((double)sum.ns[state] < 0.005 * (double)dlp_split_sum(&sum) || !sum.ns[state])
			continue;
		col = dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_BAR + state, look);
		col = dlp_grid_printf(grid, row, col + 1, grid->cols, DLP_STYLE_DIM, "%s",
				      dlp_split_state_id(state)) +
		      2;
	}
}

/* How it waits: all that is known, or the call alone; "" when not even that fits. */
static void say_how(const struct dlp_snap_worker *worker, int room, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s%s%s", worker->call, *worker->call && *worker->fs ? ", " : "",
		       worker->fs);
	if (dlp_grid_columns(buf) > room)
		(void)snprintf(buf, size, "%s", worker->call);
	if (dlp_grid_columns(buf) > room)
		buf[0] = '\0';
}

/* What it waits for, which comes first, and how. */
static void draw_object(const struct dlp_canvas *canvas, int row, int col,
			const struct dlp_snap_worker *worker)
{
	const char *object = worker->object;
	struct dlp_grid *grid = canvas->grid;
	int end = grid->cols - 1, least, object_end;
	char how[64];

	if (end - col < 4)
		return;
	/* enough of an object's name to know it again */
	least = dlp_grid_columns(object) < 20 ? dlp_grid_columns(object) : 20;
	say_how(worker, *object ? end - col - least - 2 : end - col, how, sizeof(how));
	object_end = *how && *object ? end - dlp_grid_columns(how) - 2 : end;
	if (*object)
		col = 2 + (worker->is_path ? dlp_grid_put_tail(grid, row, col, object_end,
							       DLP_STYLE_PLAIN, object) :
					     dlp_grid_put_cut(grid, row, col, object_end,
							      DLP_STYLE_PLAIN, object));
	dlp_grid_put(grid, row, col, end, DLP_STYLE_DIM, how);
}

void dlp_view_now(const struct dlp_canvas *canvas, int row, int col,
		  const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;
	char end[40];

	if (worker->dead) {
		dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_BAD,
			     worker->exit_code == DLP_EXIT_UNKNOWN ?
				     "died" :
				     dlp_summary_exit(worker->exit_code, end, sizeof(end)));
		return;
	}
	if (!worker->known) {
		dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_DIM, "-");
		return;
	}
	dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_STATE + worker->state,
		     dlp_split_state_id(worker->state));
	dlp_grid_printf(grid, row, col + 5, grid->cols, DLP_STYLE_PLAIN, "%8s",
			dlp_view_duration(worker->state_ns).text);
	/* an idle worker waits on its index pipe, always */
	if (worker->state != DLP_ST_IDLE)
		draw_object(canvas, row, col + 15, worker);
}

struct columns {
	int rate, batch, bar, bar_end, now;
};

static struct columns columns_of(int cols)
{
	struct columns ret = { .rate = 9, .batch = 0, .bar = 17 };
	int width;

	if (cols >= WIDE) {
		ret.batch = 17;
		ret.bar = 27;
	}
	width = (cols - ret.bar) * 45 / 100;
	width = width < BAR_MIN ? BAR_MIN : width > BAR_MAX ? BAR_MAX : width;
	ret.bar_end = ret.bar + width;
	ret.now = ret.bar_end + 2;
	return ret;
}

static void draw_row(const struct dlp_canvas *canvas, int row, const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;
	struct columns at = columns_of(grid->cols);
	struct dlp_human rate = { "-" };

	if (worker->trainer)
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_PLAIN, "trainer");
	else
		dlp_grid_printf(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_PLAIN, "%7u",
				worker->pid);
	if (!isnan(worker->rate))
		(void)snprintf(rate.text, sizeof(rate.text), worker->rate < 99.95 ? "%.1f" : "%.0f",
			       worker->rate);
	dlp_grid_printf(grid, row, at.rate, grid->cols, DLP_STYLE_PLAIN, "%6s", rate.text);
	if (at.batch)
		dlp_grid_printf(grid, row, at.batch, grid->cols, DLP_STYLE_PLAIN, "%8s",
				dlp_view_duration(worker->median_ns).text);
	draw_states(canvas, row, at.bar, at.bar_end, &worker->recent);
	dlp_view_now(canvas, row, at.now, worker);
	if (worker->pid == canvas->view->selected)
		dlp_grid_restyle(grid, row, 0, 8, DLP_STYLE_SELECTED);
}

static void draw_title(const struct dlp_canvas *canvas, int row, size_t first, size_t shown,
		       size_t cnt)
{
	struct dlp_grid *grid = canvas->grid;
	struct columns at = columns_of(grid->cols);
	unsigned int style = DLP_STYLE_DIM;
	int end = grid->cols;

	if (shown < cnt || canvas->snapshot->workers_unseen) {
		char text[48];

		(void)snprintf(text, sizeof(text), "%zu-%zu of %zu", first + 1, first + shown,
			       cnt + canvas->snapshot->workers_unseen);
		end = grid->cols - 1 - (int)strlen(text);
		dlp_grid_put(grid, row, end, grid->cols, style, text);
	}
	dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end, style, "%7s", "pid");
	dlp_grid_put(grid, row, at.rate, end, style, "batch/s");
	if (at.batch)
		dlp_grid_printf(grid, row, at.batch, end, style, "%8s", "a batch");
	dlp_grid_put(grid, row, at.bar, at.bar_end, style,
		     at.bar_end - at.bar < 26 ? "last seconds, %" : "time of the last seconds, %");
	dlp_grid_put(grid, row, at.now, end, style,
		     end - at.now < 26 ? "now" : "now, for so long, on what");
}

void dlp_view_workers(const struct dlp_canvas *canvas, int row, int end)
{
	const struct dlp_snap_worker *rows[DLP_SNAP_WORKERS_MAX + 1];
	size_t cnt = dlp_view_rows(canvas->view, canvas->snapshot, rows);
	size_t room = end - row > 1 ? (size_t)(end - row - 1) : 0, first = 0, shown;

	shown = cnt < room ? cnt : room;
	for (size_t i = 0; i < cnt; i++) {
		if (rows[i]->pid == canvas->view->selected && i >= shown)
			first = i - shown + 1;
	}
	draw_title(canvas, row++, first, shown, cnt);
	for (size_t i = 0; i < shown; i++)
		draw_row(canvas, row++, rows[first + i]);
}
