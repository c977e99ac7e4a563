/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lanes: what the training thread and each worker did over time. */
#include "svg_priv.h"

#include <string.h>

#include "report_priv.h"
#include "util.h"

#define LANE_HEIGHT 22
#define LANE_GAP 8

void dlp_svg_lane_add(struct dlp_svg_lane *lane, enum dlp_svg_class class, uint64_t start_ns,
		      uint64_t end_ns)
{
	double start = ((double)start_ns - lane->from_ns) / lane->column_ns;
	double end = ((double)end_ns - lane->from_ns) / lane->column_ns;

	if (start < 0)
		start = 0;
	if (end > DLP_SVG_PLOT)
		end = DLP_SVG_PLOT;
	for (size_t at = (size_t)start; at < DLP_SVG_PLOT && (double)at < end; at++) {
		double from = start > (double)at ? start : (double)at;
		double to = end < (double)at + 1 ? end : (double)at + 1;

		lane->ns[class][at] += (to - from) * lane->column_ns;
	}
}

void dlp_svg_lane_init(const struct dlp_svg *svg, struct dlp_svg_lane *lane)
{
	memset(lane, 0, sizeof(*lane));
	lane->from_ns = (double)svg->from_ns;
	lane->column_ns = (double)(svg->to_ns - svg->from_ns) / DLP_SVG_PLOT;
}

/* Edges of a class's part of a column, 0..1 from the bottom; more than all of it is cut. */
static void part_of(const struct dlp_svg_lane *lane, enum dlp_svg_class class, size_t column,
		    double *ret_from, double *ret_to)
{
	double below = 0, to;

	for (int i = 0; i < (int)class; i++)
		below += lane->ns[i][column];
	to = (below + lane->ns[class][column]) / lane->column_ns;
	*ret_from = below < lane->column_ns ? below / lane->column_ns : 1;
	*ret_to = to < 1 ? to : 1;
}

/* Neighbours that look the same become one rectangle. */
static bool draw_class(struct dlp_svg *svg, const struct dlp_svg_lane *lane,
		       enum dlp_svg_class class, double height)
{
	bool any = false;

	for (size_t at = 0, next; at < DLP_SVG_PLOT; at = next) {
		double from, to, f, t;

		part_of(lane, class, at, &from, &to);
		for (next = at + 1; next < DLP_SVG_PLOT; next++) {
			part_of(lane, class, next, &f, &t);
			/* a difference that nobody sees */
			if ((f - from) * (f - from) + (t - to) * (t - to) > 1e-4)
				break;
		}
		if (to - from < 0.02)
			continue;
		if (!any)
			fprintf(svg->out, "<path class=\"%s\" d=\"", dlp_svg_class(class));
		any = true;
		fprintf(svg->out, "M%zu %.1fh%zuv%.1fh-%zuz", DLP_SVG_LEFT + at,
			svg->y + height * (1 - to), next - at, height * (to - from), next - at);
	}
	if (any)
		(void)fputs("\"/>\n", svg->out);
	return any;
}

void dlp_svg_lane_draw(struct dlp_svg *svg, const struct dlp_svg_lane *lane, double height)
{
	dlp_svg_ground(svg, height);
	for (int i = 0; i < DLP_SVG_CLASS_MAX; i++)
		if (draw_class(svg, lane, (enum dlp_svg_class)i, height))
			svg->used |= 1u << i;
	svg->y += height + LANE_GAP;
}

/* Where time in a class was time of another one as well, as a wait is while a batch is made. */
static void take_from(struct dlp_svg_lane *lane, enum dlp_svg_class whole)
{
	for (size_t at = 0; at < DLP_SVG_PLOT; at++) {
		double *left = &lane->ns[whole][at];

		for (int i = 0; i < DLP_SVG_CLASS_MAX; i++)
			if (i != (int)whole)
				*left -= lane->ns[i][at];
		if (*left < 0)
			*left = 0;
	}
}

void dlp_svg_lane_waits(const struct dlp_svg *svg, struct dlp_svg_lane *lane)
{
	const struct dlp_history *history = svg->report->history;
	const struct dlp_spans *calls = &svg->activity->calls;

	for (size_t i = dlp_spans_next(calls, 0, svg->from_ns, svg->to_ns); i < history->call_cnt;
	     i = dlp_spans_next(calls, i + 1, svg->from_ns, svg->to_ns)) {
		const struct dlp_history_call *call = &history->calls[i];

		if ((call->flags & DLP_CALL_OUTER) &&
		    dlp_selected_loader(svg->report, call->loader))
			dlp_svg_lane_add(lane, DLP_SVG_WAIT, call->start_ns, call->end_ns);
	}
	dlp_svg_lane_add(lane, DLP_SVG_WAIT, dlp_history_unfinished(history), history->end_ns);
}

static void trainer_lane(struct dlp_svg *svg, struct dlp_svg_lane *lane)
{
	const struct dlp_history *history = svg->report->history;

	dlp_svg_lane_init(svg, lane);
	dlp_svg_lane_add(lane, DLP_SVG_STEP, svg->from_ns, svg->to_ns);
	dlp_svg_lane_waits(svg, lane);
	for (size_t i = 0; i < history->iterator_cnt; i++) {
		const struct dlp_history_iterator *it = &history->iterators[i];

		if (it->init_end_ns && dlp_selected_loader(svg->report, it->loader))
			dlp_svg_lane_add(lane, DLP_SVG_ITER, it->init_start_ns, it->init_end_ns);
	}
	take_from(lane, DLP_SVG_STEP);
	dlp_svg_heading(svg, "Training thread, pid %u", history->model->trainer_pid);
	dlp_svg_lane_draw(svg, lane, LANE_HEIGHT);
}

/* DLP_SVG_CLASS_MAX where a state has no colour: idle workers, and what is not known. */
static enum dlp_svg_class class_of(uint32_t state)
{
	static const uint8_t classes[DLP_ST_MAX] = {
		[DLP_ST_RUN] = DLP_SVG_CLASS_MAX,  [DLP_ST_RUNQ] = DLP_SVG_RUNQ,
		[DLP_ST_DISK] = DLP_SVG_DISK,	   [DLP_ST_FAULT] = DLP_SVG_FAULT,
		[DLP_ST_FS] = DLP_SVG_FS,	   [DLP_ST_NET] = DLP_SVG_NET,
		[DLP_ST_LOCK] = DLP_SVG_LOCK,	   [DLP_ST_GIL] = DLP_SVG_GIL,
		[DLP_ST_PIPE] = DLP_SVG_PIPE,	   [DLP_ST_SLEEP] = DLP_SVG_SLEEP,
		[DLP_ST_IDLE] = DLP_SVG_CLASS_MAX, [DLP_ST_OTHER] = DLP_SVG_CLASS_MAX,
	};

	return state < DLP_ST_MAX ? classes[state] : DLP_SVG_CLASS_MAX;
}

static void add_waits(const struct dlp_svg *svg, struct dlp_svg_lane *lane, uint32_t pid)
{
	const struct dlp_history *history = svg->report->history;
	const struct dlp_spans *waits = &svg->activity->waits;

	for (size_t i = dlp_spans_next(waits, 0, svg->from_ns, svg->to_ns); i < history->wait_cnt;
	     i = dlp_spans_next(waits, i + 1, svg->from_ns, svg->to_ns)) {
		const struct dlp_history_wait *wait = &history->waits[i];
		enum dlp_svg_class class = class_of(wait->state);
		uint64_t wake_ns = wait->wake_ns;

		if (wait->tid != pid || class == DLP_SVG_CLASS_MAX)
			continue;
		if (wake_ns < wait->start_ns || wake_ns > wait->end_ns)
			wake_ns = wait->end_ns;
		dlp_svg_lane_add(lane, class, wait->start_ns, wake_ns);
		dlp_svg_lane_add(lane, DLP_SVG_RUNQ, wake_ns, wait->end_ns);
	}
}

static void worker_lane(struct dlp_svg *svg, struct dlp_svg_lane *lane,
			const struct dlp_history_worker *worker)
{
	const struct dlp_history *history = svg->report->history;
	const struct dlp_spans *made = &svg->activity->productions;
	uint64_t batches = 0;

	dlp_svg_lane_init(svg, lane);
	for (size_t i = dlp_spans_next(made, 0, svg->from_ns, svg->to_ns);
	     i < history->production_cnt;
	     i = dlp_spans_next(made, i + 1, svg->from_ns, svg->to_ns)) {
		const struct dlp_history_production *one = &history->productions[i];

		if (one->pid != worker->pid)
			continue;
		dlp_svg_lane_add(lane, DLP_SVG_RUN, one->taken_ns, one->done_ns);
		batches += one->done_ns > svg->from_ns && one->done_ns <= svg->to_ns;
	}
	add_waits(svg, lane, worker->pid);
	take_from(lane, DLP_SVG_RUN);
	dlp_svg_heading(svg, "Worker %u, batches made: %llu", worker->pid,
			(unsigned long long)batches);
	dlp_svg_lane_draw(svg, lane, LANE_HEIGHT);
}

/* Part of the selected time, and a worker that was selected. */
static bool is_shown(const struct dlp_svg *svg, const struct dlp_history_worker *worker)
{
	return dlp_selected_loader(svg->report, worker->loader) &&
	       dlp_selected_worker(svg->report, worker->pid) && worker->born_ns < svg->to_ns &&
	       (!worker->died_ns || worker->died_ns > svg->from_ns);
}

void dlp_svg_lanes(struct dlp_svg *svg)
{
	static struct dlp_svg_lane lane; /* too large for a stack */
	const struct dlp_history *history = svg->report->history;
	size_t shown = 0, more = 0;

	trainer_lane(svg, &lane);
	for (size_t i = 0; i < history->worker_cnt; i++) {
		if (!is_shown(svg, &history->workers[i]))
			continue;
		if (shown == DLP_SVG_WORKERS) {
			more++;
			continue;
		}
		worker_lane(svg, &lane, &history->workers[i]);
		shown++;
	}
	if (more)
		dlp_svg_heading(svg, "%zu more workers are left out", more);
}
