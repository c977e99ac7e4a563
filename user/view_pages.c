/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The pages that take the place of the rows of workers: one worker, the stages, help. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "split.h"
#include "util.h"
#include "view_priv.h"

static const struct dlp_snap_worker *selected(const struct dlp_canvas *canvas)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;

	for (size_t i = 0; i < snapshot->worker_cnt; i++) {
		if (snapshot->worker[i].pid == canvas->view->selected)
			return &snapshot->worker[i];
	}
	return NULL;
}

static double share_of(const struct dlp_clock *clock, unsigned int state)
{
	uint64_t sum = dlp_split_sum(clock);

	return sum ? (double)clock->ns[state] / (double)sum : 0;
}

static void detail_head(const struct dlp_canvas *canvas, int row,
			const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;
	int end = grid->cols - 1, col;

	col = dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG, "%s %u",
			      worker->trainer ? "Training thread" : "Worker", worker->pid);
	if (worker->loader)
		col = dlp_grid_printf(grid, row, col, end, DLP_STYLE_PLAIN, "  loader %u",
				      worker->loader);
	if (worker->age_ns)
		col = dlp_grid_printf(grid, row, col, end, DLP_STYLE_PLAIN, "  %s old",
				      dlp_view_clock(worker->age_ns).text);
	if (worker->threads)
		col = dlp_grid_printf(grid, row, col, end, DLP_STYLE_PLAIN, "  %u thread%s",
				      worker->threads, worker->threads == 1 ? "" : "s");
	if (worker->proc_known && worker->cpus)
		dlp_grid_printf(grid, row, col, end, DLP_STYLE_PLAIN, "  %u CPU%s", worker->cpus,
				worker->cpus == 1 ? "" : "s");
}

static void detail_batches(const struct dlp_canvas *canvas, int row,
			   const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;
	int end = grid->cols - 1, col;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_DIM, "Batches");
	col = dlp_grid_printf(grid, row, DLP_VIEW_LABEL, end, DLP_STYLE_PLAIN, "%llu",
			      (unsigned long long)worker->batch_cnt);
	if (worker->trainer || !worker->median_ns)
		return;
	dlp_grid_printf(grid, row, col, end, DLP_STYLE_PLAIN, "   median %s   p99 %s   max %s",
			dlp_view_duration(worker->median_ns).text,
			dlp_view_duration(worker->p99_ns).text,
			dlp_view_duration(worker->max_ns).text);
}

static void detail_reads(const struct dlp_canvas *canvas, int row,
			 const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM, "Read");
	if (worker->proc_known)
		dlp_grid_printf(grid, row, DLP_VIEW_LABEL, grid->cols - 1, DLP_STYLE_PLAIN,
				"%s from block devices, %llu page fault%s that read",
				dlp_human_bytes(worker->read_bytes).text,
				(unsigned long long)worker->majflt, worker->majflt == 1 ? "" : "s");
	else
		dlp_grid_put(grid, row, DLP_VIEW_LABEL, grid->cols, DLP_STYLE_DIM, "-");
}

/* States with any time in the window, the largest first. */
static void detail_states(const struct dlp_canvas *canvas, int row, int end,
			  const struct dlp_snap_worker *worker)
{
	struct dlp_grid *grid = canvas->grid;
	struct dlp_share share[DLP_ST_MAX];
	size_t cnt = dlp_split_rank(&worker->total, false, share);
	int half = (grid->cols - DLP_VIEW_LABEL - 2) / 2, second = DLP_VIEW_LABEL + half;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM, "State");
	dlp_grid_put(grid, row, DLP_VIEW_LABEL, grid->cols, DLP_STYLE_DIM, "last seconds");
	dlp_grid_put(grid, row++, second, grid->cols, DLP_STYLE_DIM, "since attached");
	for (size_t i = 0; i < cnt && row < end; i++, row++) {
		unsigned int state = share[i].state;
		double recent = share_of(&worker->recent, state);

		dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_STATE + state,
			     dlp_split_state_id(state));
		dlp_grid_printf(grid, row, DLP_VIEW_LABEL, grid->cols, DLP_STYLE_PLAIN, "%5.1f %%",
				recent * 100);
		dlp_view_bar(canvas, row, DLP_VIEW_LABEL + 9, second - 2, DLP_STYLE_STATE + state,
			     recent);
		dlp_grid_printf(grid, row, second, grid->cols, DLP_STYLE_PLAIN, "%5.1f %%",
				share[i].share * 100);
		dlp_view_bar(canvas, row, second + 9, grid->cols - 1, DLP_STYLE_STATE + state,
			     share[i].share);
	}
}

void dlp_view_detail(const struct dlp_canvas *canvas, int row, int end)
{
	const struct dlp_snap_worker *worker = selected(canvas);
	struct dlp_grid *grid = canvas->grid;
	bool roomy = end - row >= 12;

	if (!worker) {
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM,
			     "This worker has ended. Esc: back to the others.");
		return;
	}
	detail_head(canvas, row++, worker);
	dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM, "Now");
	dlp_view_now(canvas, row++, DLP_VIEW_LABEL, worker);
	detail_batches(canvas, row++, worker);
	if (roomy)
		detail_reads(canvas, row++, worker);
	detail_states(canvas, row + roomy, end, worker);
}

void dlp_view_stages(const struct dlp_canvas *canvas, int row, int end)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;
	struct dlp_grid *grid = canvas->grid;
	int label_end = grid->cols - 45;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, label_end, DLP_STYLE_DIM, "record_function");
	dlp_grid_printf(grid, row++, label_end, grid->cols, DLP_STYLE_DIM, " %-7s %9s %8s %8s %7s",
			"where", "count", "median", "max", "own %");
	if (!snapshot->stage_cnt)
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_DIM,
			     "none seen yet: the job labels its stages with record_function");
	for (size_t i = 0; i < snapshot->stage_cnt && row < end; i++, row++) {
		const struct dlp_snap_stage *stage = &snapshot->stage[i];
		struct dlp_human own = { "-" };

		if (!isnan(stage->share))
			(void)snprintf(own.text, sizeof(own.text), "%.1f", stage->share * 100);
		dlp_grid_put_cut(grid, row, DLP_VIEW_LEFT, label_end, DLP_STYLE_PLAIN,
				 stage->label);
		dlp_grid_printf(grid, row, label_end, grid->cols, DLP_STYLE_PLAIN,
				" %-7s %s%8llu %8s %8s %7s", stage->worker ? "workers" : "main",
				stage->sampled ? "~" : " ", (unsigned long long)stage->cnt,
				dlp_view_duration(stage->median_ns).text,
				dlp_view_duration(stage->max_ns).text, own.text);
	}
}

static const struct {
	unsigned int state;
	const char *text;
} states[] = {
	{ DLP_ST_RUN, "on a CPU" },
	{ DLP_ST_RUNQ, "could run, but waits for a CPU (or is throttled)" },
	{ DLP_ST_DISK, "a system call waits for a block device" },
	{ DLP_ST_FAULT, "a page fault waits for a block device" },
	{ DLP_ST_FS, "in a network or user-space file system" },
	{ DLP_ST_NET, "on a network socket" },
	{ DLP_ST_LOCK, "for a lock of a file, process or thread" },
	{ DLP_ST_GIL, "for Python's global interpreter lock" },
	{ DLP_ST_PIPE, "on a pipe or a process of the job" },
	{ DLP_ST_SLEEP, "sleeps on purpose" },
	{ DLP_ST_IDLE, "a worker with nothing to do" },
	{ DLP_ST_OTHER, "none of these" },
};

static const char *const help[] = {
	"q  quit (the report follows)",
	"p  pause the picture, not the observation",
	"s  sort workers: by pid, slowest first, busiest first",
	"Up, Down, Enter  one worker in detail; Esc: back",
	"t  stages: record_function labels;  l  next loader, if any",
	"r  all ranks, or one: also Enter, its number, Left, Right",
	"Waiting: share of the time that training waits for data;",
	"below it how that went, each column's mean.",
	"A batch: what making one takes a worker, median.",
};

void dlp_view_help(const struct dlp_canvas *canvas, int row, int end)
{
	struct dlp_grid *grid = canvas->grid;
	/* side by side where there is room */
	int second = grid->cols >= 124 ? 64 : 0, at = row;

	for (size_t i = 0; i < DLP_ARRAY_SIZE(help) && at < end; i++)
		dlp_grid_put(grid, at++, DLP_VIEW_LEFT, grid->cols - 1, DLP_STYLE_PLAIN, help[i]);
	if (second)
		at = row;
	if (end - at < (int)DLP_ARRAY_SIZE(states)) {
		dlp_grid_put(grid, at + 1, DLP_VIEW_LEFT, grid->cols - 1, DLP_STYLE_DIM,
			     "What the states mean: here, in a taller window.");
		return;
	}
	for (size_t i = 0; i < DLP_ARRAY_SIZE(states) && at < end; i++, at++) {
		dlp_grid_put(grid, at, second + DLP_VIEW_LEFT, grid->cols - 1,
			     DLP_STYLE_STATE + states[i].state,
			     dlp_split_state_id(states[i].state));
		dlp_grid_put(grid, at, second + DLP_VIEW_LEFT + 7, grid->cols - 1, DLP_STYLE_PLAIN,
			     states[i].text);
	}
}
