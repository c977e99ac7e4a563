/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CPU time and block IO over time, on a grid as fine as the readings were. */
#include "html_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

struct grid {
	uint64_t start_ns, width_ns;
	size_t cnt;
	int64_t *cells; /* one array per column */
};

static int grid_init(const struct dlp_html *html, struct grid *grid, size_t columns)
{
	const struct dlp_history *history = html->history;
	uint64_t span_ns = history->end_ns - history->start_ns;

	grid->cnt = history->interval_cnt ? history->interval_cnt : 1;
	if (grid->cnt > DLP_HTML_GRID_MAX)
		grid->cnt = DLP_HTML_GRID_MAX;
	grid->start_ns = history->start_ns;
	grid->width_ns = (span_ns / grid->cnt / 1000 + 1) * 1000;
	grid->cells = calloc(columns * grid->cnt, sizeof(*grid->cells));
	return grid->cells ? 0 : -ENOMEM;
}

/* Spreads an amount evenly over the time in which it came about. */
static void spread(const struct grid *grid, size_t column, uint64_t from_ns, uint64_t to_ns,
		   uint64_t amount)
{
	int64_t *cells = grid->cells + column * grid->cnt;
	uint64_t left = amount;

	if (!amount || to_ns <= from_ns || to_ns <= grid->start_ns)
		return;
	/* what came before the window belongs to its first moment: none of it is lost */
	for (size_t i = from_ns > grid->start_ns ? (from_ns - grid->start_ns) / grid->width_ns : 0;
	     i < grid->cnt && left; i++) {
		uint64_t begin = grid->start_ns + i * grid->width_ns, end = begin + grid->width_ns;
		uint64_t part = left;

		begin = begin > from_ns ? begin : from_ns;
		if (end < to_ns && i + 1 < grid->cnt)
			part = (uint64_t)((double)amount * (double)(end - begin) /
					  (double)(to_ns - from_ns));
		part = part < left ? part : left;
		cells[i] += (int64_t)part;
		left -= part;
	}
}

static void put_grid(struct dlp_html *html, const char *key, const struct grid *grid,
		     const char *const *names, size_t columns)
{
	dlp_html_open(html, key, '{');
	dlp_html_number(html, "rows", (int64_t)grid->cnt);
	dlp_html_number(html, "width_us", (int64_t)(grid->width_ns / 1000));
	for (size_t i = 0; i < columns; i++)
		dlp_html_array(html, names[i], grid->cells + i * grid->cnt, grid->cnt);
	dlp_html_close(html, '}');
}

static void put_nothing(struct dlp_html *html, const char *key)
{
	dlp_html_open(html, key, '{');
	dlp_html_number(html, "rows", 0);
	dlp_html_close(html, '}');
}

enum cpu_column { TRAINER, WORKERS, POOL, OTHERS, WAITING, CPU_COLUMNS };

static void add_others(const struct dlp_history *history, const struct grid *grid)
{
	uint64_t before_ns = history->start_ns, before_cpu_ns = 0;
	bool seen = false;

	for (size_t i = 0; i < history->other_cnt; i++) {
		const struct dlp_history_other *other = &history->others[i];

		if (other->pid)
			continue;
		/* counted since attaching, which was before the window opened: the first is a base */
		if (seen && other->cpu_ns > before_cpu_ns)
			spread(grid, OTHERS, before_ns, other->ts_ns,
			       (other->cpu_ns - before_cpu_ns) / 1000);
		before_ns = other->ts_ns;
		before_cpu_ns = other->cpu_ns;
		seen = true;
	}
	for (size_t i = 0; i < grid->cnt && !seen; i++)
		grid->cells[OTHERS * grid->cnt + i] = DLP_HTML_NULL;
}

/* Microseconds of CPU time, and of waiting for a CPU. */
static int put_cpu(struct dlp_html *html)
{
	static const char *const names[] = { "trainer", "workers", "pool", "others", "waiting" };
	static const enum cpu_column columns[] = {
		[DLP_LANE_TRAINER] = TRAINER,
		[DLP_LANE_WORKER] = WORKERS,
		[DLP_LANE_POOL] = POOL,
	};
	const struct dlp_history *history = html->history;
	struct grid grid;

	if (!history->sample_cnt) {
		put_nothing(html, "cpu");
		return 0;
	}
	if (grid_init(html, &grid, CPU_COLUMNS))
		return -ENOMEM;
	for (size_t i = 0; i < history->sample_cnt; i++) {
		const struct dlp_history_sample *sample = &history->samples[i];

		spread(&grid, columns[sample->lane], sample->start_ns, sample->end_ns,
		       sample->split.ns[DLP_ST_RUN] / 1000);
		spread(&grid, WAITING, sample->start_ns, sample->end_ns,
		       sample->split.ns[DLP_ST_RUNQ] / 1000);
	}
	add_others(history, &grid);
	put_grid(html, "cpu", &grid, names, CPU_COLUMNS);
	free(grid.cells);
	return 0;
}

enum io_column { READ_BYTES, READS, WAIT, LONGEST, WRITE_BYTES, IO_COLUMNS };

static int put_io(struct dlp_html *html)
{
	static const char *const names[] = { "read_bytes", "reads", "wait_us", "max_us",
					     "write_bytes" };
	const struct dlp_history *history = html->history;
	struct grid grid;

	if (!history->block_cnt) {
		put_nothing(html, "io");
		return 0;
	}
	if (grid_init(html, &grid, IO_COLUMNS))
		return -ENOMEM;
	for (size_t i = 0; i < history->block_cnt; i++) {
		const struct dlp_history_block *block = &history->blocks[i];
		uint64_t from_ns = block->start_ns, to_ns = block->end_ns;
		size_t last;

		spread(&grid, READ_BYTES, from_ns, to_ns, block->read_bytes);
		spread(&grid, READS, from_ns, to_ns, block->reads);
		spread(&grid, WAIT, from_ns, to_ns, block->read_wait_ns / 1000);
		spread(&grid, WRITE_BYTES, from_ns, to_ns, block->write_bytes);
		/* the longest may have been at any moment of the interval */
		last = to_ns > grid.start_ns ? (to_ns - 1 - grid.start_ns) / grid.width_ns : 0;
		for (size_t at = from_ns > grid.start_ns ? (from_ns - grid.start_ns) / grid.width_ns : 0;
		     at <= last && at < grid.cnt; at++) {
			int64_t *cell = &grid.cells[LONGEST * grid.cnt + at];

			if (*cell < (int64_t)(block->read_max_ns / 1000))
				*cell = (int64_t)(block->read_max_ns / 1000);
		}
	}
	put_grid(html, "io", &grid, names, IO_COLUMNS);
	free(grid.cells);
	return 0;
}

int dlp_html_grids(struct dlp_html *html)
{
	int err = put_cpu(html);

	return err ? err : put_io(html);
}
