/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Exposed wait over time, and the GetNext calls of each loader. */
#include "svg_priv.h"

#include <errno.h>
#include <math.h>

#include "human.h"
#include "report_priv.h"
#include "util.h"

#define EXPOSED_HEIGHT 60
#define CALLS_HEIGHT 96
#define GAP 8
/* Columns of the lane in one of this chart: short waits make no fence of it. */
#define STEP 12

void dlp_svg_exposed(struct dlp_svg *svg)
{
	static struct dlp_svg_lane lane; /* too large for a stack */
	double sum = 0;

	dlp_svg_lane_init(svg, &lane);
	dlp_svg_lane_waits(svg, &lane);
	for (size_t i = 0; i < DLP_SVG_PLOT; i++)
		sum += lane.ns[DLP_SVG_WAIT][i];
	dlp_svg_heading(svg, "Exposed wait over time: %.1f %% of what is shown",
			100 * sum / (double)(svg->to_ns - svg->from_ns));
	dlp_svg_ground(svg, EXPOSED_HEIGHT);
	fprintf(svg->out, "<path class=\"area\" d=\"M%d %.1f", DLP_SVG_LEFT,
		svg->y + EXPOSED_HEIGHT);
	for (size_t i = 0; i < DLP_SVG_PLOT; i += STEP) {
		double share = 0;

		for (size_t j = i; j < i + STEP; j++)
			share += lane.ns[DLP_SVG_WAIT][j] / lane.column_ns / STEP;
		fprintf(svg->out, "V%.1fh%d", svg->y + EXPOSED_HEIGHT * (1 - fmin(share, 1)), STEP);
	}
	fprintf(svg->out, "V%.1fz\"/>\n", svg->y + EXPOSED_HEIGHT);
	svg->y += EXPOSED_HEIGHT + GAP;
}
_Static_assert(DLP_SVG_PLOT % STEP == 0, "the last column would be cut");

/* The longest call of those that begin in each column, and how long the others may be. */
struct chart {
	const struct dlp_history_call *longest[DLP_SVG_PLOT];
	uint64_t median_ns, outlier_ns, max_ns;
	size_t cnt, outlier_cnt;
};

static uint64_t took(const struct dlp_history_call *call)
{
	return call->end_ns - call->start_ns;
}

static void add_call(const struct dlp_svg *svg, struct chart *chart,
		     const struct dlp_history_call *call)
{
	double at = dlp_svg_x(svg, call->start_ns) - DLP_SVG_LEFT;
	size_t column = at < 0 ? 0 : (size_t)at;
	const struct dlp_history_call **room = &chart->longest[column];

	if (column < DLP_SVG_PLOT && (!*room || took(*room) < took(call)))
		*room = call;
	if (chart->max_ns < took(call))
		chart->max_ns = took(call);
}

/* Figures are of the selected calls, as in the report's section; more begin or end outside. */
static int judge(const struct dlp_svg *svg, uint32_t loader, struct chart *chart)
{
	const struct dlp_history *history = svg->report->history;
	struct dlp_stats stats = { 0 };
	int err;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];

		if (call->loader != loader)
			continue;
		if (dlp_selected_call(svg->report, call))
			dlp_stats_add(&stats, took(call));
		if (dlp_overlap(call->start_ns, call->end_ns, svg->from_ns, svg->to_ns))
			add_call(svg, chart, call);
	}
	chart->cnt = stats.cnt;
	chart->median_ns = dlp_stats_quantile(&stats, 0.5);
	chart->outlier_ns = dlp_stats_outlier(&stats);
	chart->outlier_cnt = dlp_stats_count_from(&stats, chart->outlier_ns);
	err = stats.failed ? -ENOMEM : 0;
	dlp_stats_fini(&stats);
	return err;
}

/* As wide as it lasted, as high as it took. */
static void draw_bars(struct dlp_svg *svg, const struct chart *chart, bool outliers)
{
	enum dlp_svg_class class = outliers ? DLP_SVG_OUTLIER : DLP_SVG_WAIT;
	bool any = false;

	for (size_t i = 0; i < DLP_SVG_PLOT; i++) {
		const struct dlp_history_call *call = chart->longest[i];
		double x, width, height;

		if (!call || (took(call) >= chart->outlier_ns) != outliers)
			continue;
		x = fmax(dlp_svg_x(svg, call->start_ns), DLP_SVG_LEFT);
		width = fmax(fmin(dlp_svg_x(svg, call->end_ns), DLP_SVG_LEFT + DLP_SVG_PLOT) - x,
			     1);
		height = CALLS_HEIGHT * (double)took(call) / (double)chart->max_ns;
		if (!any)
			fprintf(svg->out, "<path class=\"%s\" d=\"", dlp_svg_class(class));
		any = true;
		fprintf(svg->out, "M%.1f %.1fv-%.1fh%.1fv%.1fz", x, svg->y + CALLS_HEIGHT, height,
			width, height);
	}
	if (any) {
		(void)fputs("\"/>\n", svg->out);
		svg->used |= 1u << class;
	}
}

static void draw_chart(struct dlp_svg *svg, const struct chart *chart, uint32_t loader)
{
	double y;

	dlp_svg_heading(svg, "GetNext of loader %u: %zu calls, median %s, longest %s, %zu outliers",
			loader, chart->cnt, dlp_human_duration(chart->median_ns).text,
			dlp_human_duration(chart->max_ns).text, chart->outlier_cnt);
	dlp_svg_ground(svg, CALLS_HEIGHT);
	draw_bars(svg, chart, false);
	draw_bars(svg, chart, true);
	if (chart->max_ns) {
		y = svg->y + CALLS_HEIGHT * (1 - (double)chart->median_ns / (double)chart->max_ns);
		fprintf(svg->out, "<path class=\"median\" d=\"M%d %.1fh%d\"/>\n", DLP_SVG_LEFT, y,
			DLP_SVG_PLOT);
	}
	svg->y += CALLS_HEIGHT + GAP;
}

int dlp_svg_calls(struct dlp_svg *svg)
{
	const struct dlp_model *model = svg->report->history->model;

	for (size_t i = 0; i < model->loader_cnt; i++) {
		struct chart chart = { 0 };
		int err;

		if (!dlp_selected_loader(svg->report, model->loaders[i].id))
			continue;
		err = judge(svg, model->loaders[i].id, &chart);
		if (err)
			return err;
		if (chart.cnt)
			draw_chart(svg, &chart, model->loaders[i].id);
	}
	return 0;
}
