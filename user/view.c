/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The screen from top to bottom: who, the verdict, how much training waits, calls and steps, the
 * threads, devices, the machine, keys. What matters most stays when there is little room.
 */
#include "view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util.h"
#include "view_priv.h"

/* The sparkline goes back at most so far. */
#define SPARK_NS (600 * DLP_NS_PER_S)

struct dlp_human dlp_view_duration(uint64_t ns)
{
	return ns ? dlp_human_duration(ns) : (struct dlp_human){ "-" };
}

struct dlp_human dlp_view_clock(uint64_t ns)
{
	unsigned long long s = ns / DLP_NS_PER_S;
	struct dlp_human ret;

	if (s < 3600)
		(void)snprintf(ret.text, sizeof(ret.text), "%llu:%02llu", s / 60, s % 60);
	else
		(void)snprintf(ret.text, sizeof(ret.text), "%llu:%02llu:%02llu", s / 3600,
			       s / 60 % 60, s % 60);
	return ret;
}

const struct dlp_snap_loader *dlp_view_loader(const struct dlp_view *view,
					      const struct dlp_snapshot *snapshot)
{
	for (size_t i = 1; i < snapshot->loader_cnt; i++) {
		if (view->loader && snapshot->loader[i].id == view->loader)
			return &snapshot->loader[i];
	}
	return &snapshot->loader[0];
}

int dlp_view_wrap(const struct dlp_canvas *canvas, int row, int end, int col, unsigned int style,
		  const char *text)
{
	int columns = canvas->grid->cols - 1 - col;
	char line[1024];

	while (*text && row < end) {
		size_t next, len = dlp_grid_line(text, columns, &next);

		if (row + 1 == end)
			len = strlen(text);
		(void)snprintf(line, sizeof(line), "%.*s", (int)len, text);
		dlp_grid_put_cut(canvas->grid, row++, col, col + columns, style, line);
		text += next;
	}
	return row;
}

unsigned int dlp_view_severity_style(enum dlp_severity severity)
{
	switch (severity) {
	case DLP_SEV_HIGH:
		return DLP_STYLE_BAD;
	case DLP_SEV_MODERATE:
		return DLP_STYLE_WARN;
	case DLP_SEV_LOW:
		return DLP_STYLE_PLAIN;
	default:
		return DLP_STYLE_GOOD;
	}
}

unsigned int dlp_view_exposed_style(double share)
{
	return share < 0.05 ? DLP_STYLE_GOOD :
	       share < 0.1  ? DLP_STYLE_PLAIN :
	       share < 0.2  ? DLP_STYLE_WARN :
			      DLP_STYLE_BAD;
}

void dlp_view_head(const struct dlp_canvas *canvas, const struct dlp_view_head *head)
{
	struct dlp_grid *grid = canvas->grid;
	const struct dlp_human clock = dlp_view_clock(head->window_ns);
	const char *lost = head->governed ? "  fewer probes" :
			   head->complete ? "  lost 0" :
					    "  figures short";
	bool whole = head->complete && !head->governed;
	char text[96];
	int at, end;

	if (isnan(head->cost))
		(void)snprintf(text, sizeof(text), "own cost -");
	else if (grid->cols < 76)
		(void)snprintf(text, sizeof(text), "own %.2f %%", head->cost * 100);
	else
		(void)snprintf(text, sizeof(text),
			       grid->cols < 100 ? "own %.2f %% %s" :
						  "own cost %.2f %% of a CPU, %s",
			       head->cost * 100, dlp_human_bytes(head->rss_bytes).text);
	end = grid->cols - 1 - (int)strlen(clock.text);
	dlp_grid_put(grid, 0, end, grid->cols, DLP_STYLE_STRONG, clock.text);
	at = end - 2 - (int)strlen(lost);
	dlp_grid_put(grid, 0, at, end, whole ? DLP_STYLE_DIM : DLP_STYLE_WARN, lost);
	at -= (int)strlen(text);
	dlp_grid_put(grid, 0, at, grid->cols, DLP_STYLE_DIM, text);
	end = at - 2;
	at = dlp_grid_put(grid, 0, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG, "dlprof-bpf");
	if (canvas->view->paused)
		at = dlp_grid_put(grid, 0, at + 1, end, DLP_STYLE_ALARM, " PAUSED ");
	at = dlp_grid_put(grid, 0, at + 2, end, DLP_STYLE_PLAIN, head->who);
	dlp_grid_put_cut(grid, 0, at + 1, end, DLP_STYLE_DIM, head->cmdline);
}

static void draw_header(const struct dlp_canvas *canvas)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;
	struct dlp_view_head head = {
		.cmdline = snapshot->cmdline,
		.cost = snapshot->cost,
		.rss_bytes = snapshot->rss_bytes,
		.window_ns = snapshot->window_ns,
		.complete = snapshot->complete,
		.governed = snapshot->governed,
	};

	(void)snprintf(head.who, sizeof(head.who), "%s%spid %u", snapshot->rank,
		       *snapshot->rank ? "  " : "", snapshot->pid);
	dlp_view_head(canvas, &head);
}

static void draw_headline(const struct dlp_canvas *canvas, int row,
			  const struct dlp_snap_loader *loader)
{
	struct dlp_grid *grid = canvas->grid;
	const char *cause = dlp_cause_id(loader->cause);
	int end = grid->cols - 1;
	char right[64] = "";

	if (loader->bottleneck != DLP_BN_INSUFFICIENT)
		(void)snprintf(right, sizeof(right), "confidence %s",
			       dlp_confidence_id(loader->confidence));
	if (loader->id)
		(void)snprintf(right, sizeof(right), "loader %u", loader->id);
	end -= (int)strlen(right);
	dlp_grid_put(grid, row, end, grid->cols, DLP_STYLE_DIM, right);
	end -= 2;
	switch (loader->bottleneck) {
	case DLP_BN_STALLED:
		dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_ALARM, " STALLED: %s ",
				cause);
		break;
	case DLP_BN_DATA_LOADING:
		dlp_grid_printf(grid, row, DLP_VIEW_LEFT, end,
				dlp_view_severity_style(loader->severity), "%s%s",
				grid->cols < 76 ? "Waits for data: " :
						  "Data loading is the bottleneck: ",
				cause);
		break;
	case DLP_BN_NOT_DATA_LOADING:
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_GOOD,
			     "Data loading is not the bottleneck");
		break;
	default:
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG, "No verdict yet");
	}
}

void dlp_view_bar(const struct dlp_canvas *canvas, int row, int col, int end, unsigned int style,
		  double share)
{
	/* in eighths of a cell where the terminal can show them */
	int eighths = (int)lround(share * 8 * (end - col)), full = eighths / 8;

	if (col >= end || isnan(share))
		return;
	if (!canvas->view->unicode) {
		dlp_grid_fill(canvas->grid, row, col, end, DLP_STYLE_DIM, '.');
		dlp_grid_fill(canvas->grid, row, col, col + (eighths + 4) / 8, style, '#');
		return;
	}
	dlp_grid_fill(canvas->grid, row, col, end, DLP_STYLE_DIM, 0x00b7);
	dlp_grid_fill(canvas->grid, row, col, col + full, style, 0x2588);
	/* U+258F is one eighth, U+2589 seven */
	if (eighths % 8 && col + full < end)
		dlp_grid_fill(canvas->grid, row, col + full, col + full + 1, style,
			      0x2590 - (uint32_t)(eighths % 8));
}

/* Mean of the intervals [from, to) of the history; NAN when none of them is known. */
static double history_mean(const struct dlp_snapshot *snapshot, uint64_t from, uint64_t to)
{
	double sum = 0;
	int cnt = 0;

	for (; from < to; from++) {
		float share = snapshot->history[from % DLP_SNAP_HISTORY_MAX];

		if (isnan(share))
			continue;
		sum += (double)share;
		cnt++;
	}
	return cnt ? sum / cnt : NAN;
}

static void draw_level(const struct dlp_canvas *canvas, int row, int col, double share)
{
	/* never the whole height: that would run into the bar above */
	static const char ascii[] = "_.:-=+*";
	int level = share >= 1 ? 6 : (int)(share * 7);
	uint32_t ch = canvas->view->unicode ? 0x2581 + (uint32_t)level :
					      (unsigned char)ascii[level];

	if (!isnan(share))
		dlp_grid_fill(canvas->grid, row, col, col + 1, dlp_view_exposed_style(share), ch);
}

/*
 * One column per interval, or per 2, 4, ...: doubled whenever the line is full. Columns always hold
 * the same intervals, so that the line moves on but does not flicker.
 */
static void draw_spark(const struct dlp_canvas *canvas, int row, int end)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;
	uint64_t cnt = snapshot->history_cnt, per = 1, first = 0, columns, oldest, most;
	uint64_t width = (uint64_t)(end - DLP_VIEW_LABEL);

	/* the oldest one in the ring may be overwritten with the next interval */
	oldest = cnt > DLP_SNAP_HISTORY_MAX ? cnt - DLP_SNAP_HISTORY_MAX : 0;
	most = snapshot->interval_ns ? SPARK_NS / snapshot->interval_ns : 1;
	while ((cnt + per - 1) / per > width && per * width < most &&
	       per * 2 * width <= DLP_SNAP_HISTORY_MAX)
		per *= 2;
	columns = (cnt + per - 1) / per;
	if (columns > width)
		first = columns - width;
	for (uint64_t i = first; i < columns; i++) {
		uint64_t from = i * per, to = from + per < cnt ? from + per : cnt;

		if (from >= oldest)
			draw_level(canvas, row, DLP_VIEW_LABEL + (int)(i - first),
				   history_mean(snapshot, from, to));
	}
	dlp_grid_printf(canvas->grid, row, end + 2, canvas->grid->cols, DLP_STYLE_DIM, "last %s",
			dlp_view_clock((cnt - first * per) * snapshot->interval_ns).text);
}

/* Bar and line of the exposed wait; returns the row behind. */
static int draw_exposed(const struct dlp_canvas *canvas, int row,
			const struct dlp_snap_loader *loader)
{
	struct dlp_grid *grid = canvas->grid;
	int end = grid->cols - 25;
	char rate[32] = "";

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, end, DLP_STYLE_STRONG, "Waiting");
	if (isnan(loader->exposed)) {
		dlp_grid_put(grid, row, DLP_VIEW_LABEL, end, DLP_STYLE_DIM, "not measured yet");
	} else {
		double share = fmin(1, loader->exposed);
		unsigned int style = dlp_view_exposed_style(share);

		dlp_view_bar(canvas, row, DLP_VIEW_LABEL, end, style, share);
		dlp_grid_printf(grid, row, end + 1, grid->cols, style, "%3.0f %%", share * 100);
	}
	if (!isnan(loader->rate))
		(void)snprintf(rate, sizeof(rate), "%.1f batches/s", loader->rate);
	dlp_grid_put(grid, row, grid->cols - 1 - (int)strlen(rate), grid->cols, DLP_STYLE_PLAIN,
		     rate);
	draw_spark(canvas, row + 1, end);
	return row + 2;
}

static void draw_times(const struct dlp_canvas *canvas, int row, const char *label,
		       const struct dlp_snap_times *times)
{
	struct dlp_grid *grid = canvas->grid;
	const struct {
		const char *name;
		uint64_t ns;
	} item[] = { { "now", times->now_ns },
		     { "median", times->median_ns },
		     { "p99", times->p99_ns },
		     { "max", times->max_ns } };
	int col = DLP_VIEW_LABEL;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, grid->cols, DLP_STYLE_STRONG, label);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(item); i++) {
		if (col + (int)strlen(item[i].name) + 9 > grid->cols - 1)
			break;
		col = dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_DIM, item[i].name);
		col = dlp_grid_printf(grid, row, col, grid->cols, DLP_STYLE_PLAIN, " %8s   ",
				      dlp_view_duration(item[i].ns).text);
	}
}

/* To the right of the times, where there is room. */
static void draw_queue(const struct dlp_canvas *canvas, int row,
		       const struct dlp_snap_loader *loader)
{
	struct dlp_grid *grid = canvas->grid;
	char text[96] = "";

	if (grid->cols < 100)
		return;
	if (!isnan(loader->ready) && loader->prefetch)
		(void)snprintf(text, sizeof(text), "%.1f of %u batches ready", loader->ready,
			       loader->prefetch);
	dlp_grid_put(grid, row, grid->cols - 1 - (int)strlen(text), grid->cols, DLP_STYLE_PLAIN,
		     text);
	(void)snprintf(text, sizeof(text), "%zu worker%s", canvas->snapshot->workers_alive,
		       canvas->snapshot->workers_alive == 1 ? "" : "s");
	dlp_grid_put(grid, row + 1, grid->cols - 1 - (int)strlen(text), grid->cols, DLP_STYLE_PLAIN,
		     text);
}

/* One fact of a line, when it fits; returns the column for the next one. */
__attribute__((format(printf, 5, 6))) static int
fact(const struct dlp_canvas *canvas, int row, int col, unsigned int style, const char *format, ...)
{
	struct dlp_grid *grid = canvas->grid;
	char text[96];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (col + dlp_grid_columns(text) > grid->cols - 1)
		return col;
	return dlp_grid_put(grid, row, col, grid->cols, style, text) + 3;
}

static void draw_device(const struct dlp_canvas *canvas, int row,
			const struct dlp_snap_device *device)
{
	struct dlp_grid *grid = canvas->grid;
	int col = DLP_VIEW_LABEL;

	dlp_grid_put(grid, row, DLP_VIEW_LEFT, col, DLP_STYLE_STRONG, "Disk");
	dlp_grid_put_cut(grid, row, col, col + 10, DLP_STYLE_PLAIN, device->name);
	col += 11;
	if (!isnan(device->reads))
		col = fact(canvas, row, col, DLP_STYLE_PLAIN, "%5.0f reads/s  %8s/s", device->reads,
			   dlp_human_bytes((uint64_t)device->bytes).text);
	if (!device->median_ns)
		return;
	col = fact(canvas, row, col, DLP_STYLE_PLAIN, "median %s",
		   dlp_view_duration(device->median_ns).text);
	(void)fact(canvas, row, col, DLP_STYLE_PLAIN, "p99 %s",
		   dlp_view_duration(device->p99_ns).text);
}

static void draw_system(const struct dlp_canvas *canvas, int row)
{
	const struct dlp_snap_system *system = &canvas->snapshot->system;
	unsigned int warn = DLP_STYLE_WARN, plain = DLP_STYLE_PLAIN;
	int col = DLP_VIEW_LABEL;

	dlp_grid_put(canvas->grid, row, DLP_VIEW_LEFT, canvas->grid->cols, DLP_STYLE_STRONG,
		     "Machine");
	if (system->cpus && !isnan(system->busy))
		col = fact(canvas, row, col, plain, "%u CPUs %.0f %% busy", system->cpus,
			   system->busy * 100);
	if (!isnan(system->throttled) && !isnan(system->quota_cpus))
		col = fact(canvas, row, col, system->throttled > 0 ? warn : plain,
			   "quota %.2g CPUs, throttled %.0f %%", system->quota_cpus,
			   system->throttled * 100);
	if (!isnan(system->others_cpus))
		col = fact(canvas, row, col,
			   system->others_cpus > 0.25 * system->cpus ? warn : plain,
			   "others %.1f CPUs", system->others_cpus);
	if (!isnan(system->steal))
		col = fact(canvas, row, col, system->steal > 0.05 ? warn : plain, "steal %.0f %%",
			   system->steal * 100);
	if (system->mem_known)
		col = fact(canvas, row, col,
			   system->mem_available < system->mem_total / 20 ? warn : plain,
			   "memory %s free", dlp_human_bytes(system->mem_available).text);
	if (system->group_known)
		col = fact(canvas, row, col,
			   system->group_used > system->group_limit / 20 * 19 ? warn : plain,
			   "group %s of %s", dlp_human_bytes(system->group_used).text,
			   dlp_human_bytes(system->group_limit).text);
	if (system->mem_known && system->swap_used)
		col = fact(canvas, row, col, plain, "swap %s used",
			   dlp_human_bytes(system->swap_used).text);
	if (system->shm_known)
		col = fact(canvas, row, col,
			   system->shm_free < system->shm_total / 10 ? warn : plain,
			   "/dev/shm %s free", dlp_human_bytes(system->shm_free).text);
	if (col == DLP_VIEW_LABEL)
		(void)fact(canvas, row, col, DLP_STYLE_DIM, "not known yet");
	/* no limit of ours: whose load it is helps more */
	if (*system->other && system->others_cpus > 0.05)
		(void)fact(canvas, row, col, DLP_STYLE_DIM, "most by %s", system->other);
}

void dlp_view_hints(const struct dlp_canvas *canvas, const struct dlp_view_hint *hint, size_t cnt)
{
	struct dlp_grid *grid = canvas->grid;
	int col = DLP_VIEW_LEFT, row = grid->rows - 1;

	for (size_t i = 0; i < cnt; i++) {
		int width = dlp_grid_columns(hint[i].key) + 1 + dlp_grid_columns(hint[i].text);

		if (!hint[i].shown || col + width > grid->cols)
			continue;
		col = dlp_grid_put(grid, row, col, grid->cols, DLP_STYLE_STRONG, hint[i].key);
		col = dlp_grid_put(grid, row, col + 1, grid->cols, DLP_STYLE_DIM, hint[i].text) + 2;
	}
}

static void draw_keys(const struct dlp_canvas *canvas)
{
	static const char *const sorts[DLP_SORT_MAX] = { "pid", "slow", "busy" };
	const struct dlp_view *view = canvas->view;
	char sort[24];
	const struct dlp_view_hint hint[] = {
		{ "q", "quit", true },
		{ "p", view->paused ? "go on" : "pause", true },
		{ "Esc", "back", view->page != DLP_PAGE_WORKERS },
		{ "r", "ranks", view->several && view->page == DLP_PAGE_WORKERS },
		{ "s", sort, view->page == DLP_PAGE_WORKERS },
		{ "Enter", "worker", view->page == DLP_PAGE_WORKERS },
		{ "l", "loader", canvas->snapshot->loader_cnt > 2 },
		{ "t", "stages", view->page != DLP_PAGE_STAGES && !view->overview },
		{ "h", "help", view->page != DLP_PAGE_HELP },
	};

	(void)snprintf(sort, sizeof(sort), canvas->grid->cols < 72 ? "sort" : "sort: %s",
		       sorts[view->sort]);
	dlp_view_hints(canvas, hint, DLP_ARRAY_SIZE(hint));
}

/* What else costs, and what to do: where there is room for it. Returns the row behind. */
static int draw_advice(const struct dlp_canvas *canvas, int row,
		       const struct dlp_snap_loader *loader)
{
	struct dlp_grid *grid = canvas->grid;
	int col = DLP_VIEW_LABEL;

	if (loader->candidate_cnt) {
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, col, DLP_STYLE_STRONG, "Causes");
		for (size_t i = 0; i < loader->candidate_cnt; i++)
			col = dlp_grid_printf(grid, row, col, grid->cols, DLP_STYLE_PLAIN,
					      "%s %.0f %%   ",
					      dlp_cause_id(loader->candidate[i].cause),
					      loader->candidate[i].share * 100);
		row++;
	}
	if (loader->advice && *loader->advice) {
		dlp_grid_put(grid, row, DLP_VIEW_LEFT, DLP_VIEW_LABEL, DLP_STYLE_STRONG, "Try");
		row = dlp_view_wrap(canvas, row, row + 3, DLP_VIEW_LABEL, DLP_STYLE_PLAIN,
				    loader->advice);
	}
	return row;
}

/* Devices, machine, losses and keys at the bottom; returns the first row of them. */
static int draw_bottom(const struct dlp_canvas *canvas)
{
	const struct dlp_snapshot *snapshot = canvas->snapshot;
	struct dlp_grid *grid = canvas->grid;
	int rows = grid->rows, row = rows - 1;
	int devices = rows < 18 ? 0 : rows < DLP_VIEW_ROOMY ? 1 : rows < DLP_VIEW_SPACIOUS ? 2 : 5;

	draw_keys(canvas);
	if (rows >= DLP_VIEW_ROOMY)
		dlp_view_legend(canvas, --row);
	if (*snapshot->fewer && rows >= DLP_VIEW_ROOMY)
		dlp_grid_printf(grid, --row, DLP_VIEW_LEFT, grid->cols - 1, DLP_STYLE_WARN,
				"Probes   %s", snapshot->fewer);
	/* losses that leave every figure whole can wait for the report */
	if (!snapshot->complete && *snapshot->lost && rows >= DLP_VIEW_ROOMY)
		dlp_grid_printf(grid, --row, DLP_VIEW_LEFT, grid->cols - 1, DLP_STYLE_WARN,
				"Lost     %s", snapshot->lost);
	draw_system(canvas, --row);
	for (int i = devices < (int)snapshot->device_cnt ? devices : (int)snapshot->device_cnt;
	     i-- > 0;)
		draw_device(canvas, --row, &snapshot->device[i]);
	return row - (rows >= DLP_VIEW_ROOMY);
}

/* Verdict, waiting, times; returns the row behind. */
static int draw_top(const struct dlp_canvas *canvas)
{
	const struct dlp_snap_loader *loader = dlp_view_loader(canvas->view, canvas->snapshot);
	struct dlp_grid *grid = canvas->grid;
	bool roomy = grid->rows >= DLP_VIEW_ROOMY, spacious = grid->rows >= DLP_VIEW_SPACIOUS;
	int row = 1 + spacious;

	draw_headline(canvas, row++, loader);
	if (!roomy && canvas->view->page != DLP_PAGE_WORKERS)
		return row;
	/* as many rows as it may need, always: what is below must not jump with each verdict */
	(void)dlp_view_wrap(canvas, row, row + (grid->cols < 110 ? 2 : 1) + spacious, DLP_VIEW_LEFT,
			    DLP_STYLE_PLAIN, loader->text);
	row += (grid->cols < 110 ? 2 : 1) + spacious + roomy;
	row = draw_exposed(canvas, row, loader) + spacious;
	draw_queue(canvas, row, loader);
	draw_times(canvas, row++, "GetNext", &loader->getnext);
	draw_times(canvas, row++, "Step", &loader->step);
	if (spacious)
		row = draw_advice(canvas, row + 1, loader);
	return row + roomy;
}

static void draw_page(const struct dlp_canvas *canvas, int row, int end)
{
	switch (canvas->view->page) {
	case DLP_PAGE_DETAIL:
		dlp_view_detail(canvas, row, end);
		break;
	case DLP_PAGE_STAGES:
		dlp_view_stages(canvas, row, end);
		break;
	default:
		dlp_view_workers(canvas, row, end);
	}
}

bool dlp_view_room(const struct dlp_canvas *canvas)
{
	const struct dlp_grid *grid = canvas->grid;

	if (grid->rows >= DLP_VIEW_ROWS_MIN && grid->cols >= DLP_VIEW_COLS_MIN)
		return true;
	(void)dlp_view_wrap(canvas, 0, grid->rows, 0, DLP_STYLE_PLAIN,
			    "dlprof-bpf needs 60 columns and 15 rows; q quits.");
	return false;
}

void dlp_view_draw(const struct dlp_view *view, const struct dlp_snapshot *snapshot,
		   struct dlp_grid *grid)
{
	const struct dlp_canvas canvas = { view, snapshot, grid };
	int row;

	dlp_grid_clear(grid);
	if (!dlp_view_room(&canvas))
		return;
	draw_header(&canvas);
	if (view->page == DLP_PAGE_HELP) {
		dlp_view_help(&canvas, 1 + (grid->rows > DLP_VIEW_ROOMY), grid->rows - 1);
		draw_keys(&canvas);
		return;
	}
	row = draw_top(&canvas);
	draw_page(&canvas, row, draw_bottom(&canvas));
}
