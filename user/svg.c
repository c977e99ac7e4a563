/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_priv.h"
#include "svg_priv.h"
#include "util.h"

#define MARGIN 10
#define LEGEND_COLUMNS 3
/* A picture needs some width of time. */
#define SPAN_LEAST_NS 1000

/*
 * Narrow windows shrink the picture: there the letters are larger. Colours are told apart by people
 * who see no red or green as well (Okabe and Ito's, and darker ones between them).
 */
static const char style[] =
	"<style>\n"
	"svg{--page:#fff;--ink:#1b1f27;--soft:#59616f;--ground:#eef0f3;--step:#c4dccf;"
	"--wait:#d55e00;--outlier:#8f1d00;--iter:#ad1457;--run:#0072b2;--runq:#e69f00;"
	"--disk:#7b2d5e;--fault:#cc79a7;--fs:#9c5a1a;--net:#009e73;--lock:#5d4037;--gil:#c9b400;"
	"--pipe:#56b4e9;--sleep:#8c7ae6}\n"
	"@media(prefers-color-scheme:dark){svg{--page:#12151b;--ink:#e8ebf0;--soft:#a2abb9;"
	"--ground:#262c36;--step:#35604d;--wait:#ff8a3d;--outlier:#ffd0a8;--iter:#f06292;"
	"--run:#3d9ad6;--disk:#c273a4;--fault:#f0a9cf;--fs:#d08a45;--net:#2fc79b;--lock:#a98274}}\n"
	"text{font:15px system-ui,\"DejaVu Sans\",sans-serif;fill:var(--ink)}\n"
	".say,.head{font-weight:600}.soft{fill:var(--soft)}.tick{fill:var(--soft);"
	"text-anchor:middle}\n"
	".page{fill:var(--page)}.ground{fill:var(--ground)}.area{fill:var(--wait);opacity:.75}\n"
	".line{stroke:var(--soft);opacity:.5}.median{stroke:var(--ink);fill:none;"
	"stroke-dasharray:4 3}\n"
#define X(CLASS, name, text) "." name "{fill:var(--" name ")}"
	DLP_SVG_CLASSES(X)
#undef X
		"\n@media(max-width:600px){text{font-size:21px}}\n"
		"</style>\n";

/* Seconds between the ticks: 1, 2 or 5 times a power of ten, some eight in all. */
static double tick_step(double seconds)
{
	double power = pow(10, floor(log10(seconds / 8)));
	double part = seconds / 8 / power;

	return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void axis(struct dlp_svg *svg, double top)
{
	const struct dlp_history *history = svg->report->history;
	double from = (double)(int64_t)(svg->from_ns - history->start_ns) / 1e9;
	double to = (double)(int64_t)(svg->to_ns - history->start_ns) / 1e9;
	double step = tick_step(to - from), first = ceil(from / step);
	int decimals = step < 1 ? (int)ceil(-log10(step)) : 0;

	for (double i = first; i * step <= to + step * 1e-6; i++) {
		double x = DLP_SVG_LEFT + DLP_SVG_PLOT * (i * step - from) / (to - from);
		char text[40];

		fprintf(svg->out, "<path class=\"line\" d=\"M%.1f %.1fV%.1f\"/>\n", x, top, svg->y);
		/* no room beside the edges */
		if (x < DLP_SVG_LEFT + 30 || x > DLP_SVG_LEFT + DLP_SVG_PLOT - 30)
			continue;
		(void)snprintf(text, sizeof(text), "%.*f s", decimals, i * step);
		dlp_svg_text(svg->out, x, svg->y + DLP_SVG_LINE - 8, "tick", text, sizeof(text));
	}
	svg->y += DLP_SVG_LINE + 6;
}

static void legend(struct dlp_svg *svg)
{
	static const char *const texts[] = {
#define X(CLASS, name, text) text,
		DLP_SVG_CLASSES(X)
#undef X
	};
	const int width = DLP_SVG_PLOT / LEGEND_COLUMNS;
	int column = -1;

	for (size_t i = 0; i < DLP_SVG_CLASS_MAX; i++) {
		double x;

		if (!(svg->used & 1u << i))
			continue;
		if (++column == LEGEND_COLUMNS) {
			column = 0;
			svg->y += DLP_SVG_LINE;
		}
		x = DLP_SVG_LEFT + (double)column * width;
		fprintf(svg->out,
			"<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\"/>\n",
			dlp_svg_class((enum dlp_svg_class)i), x, svg->y + 7);
		dlp_svg_text(svg->out, x + 20, svg->y + DLP_SVG_LINE - 7, "soft", texts[i],
			     strlen(texts[i]));
	}
	svg->y += DLP_SVG_LINE;
	dlp_svg_paragraph(
		svg, "soft",
		"Columns of a lane show how their time splits; grey is neither of these. "
		"Waits of less than 1 ms count as what is around them. Dashes: the median.");
}

/* What was seen, and what of it is in the picture. */
static void title(struct dlp_svg *svg)
{
	const struct dlp_history *history = svg->report->history;
	const struct dlp_target *target = history->facts ? history->facts->target : NULL;
	char text[300];

	if (target && *target->cmdline) {
		/* one line of it */
		dlp_sanitise(text, 72, target->cmdline, strlen(target->cmdline));
		dlp_svg_paragraph(svg, "soft", text);
	}
	dlp_svg_paragraph(svg, "say", history->verdict.text);
	(void)snprintf(text, sizeof(text), "%.3f s to %.3f s of %.3f s; pid %u.",
		       (double)(int64_t)(svg->from_ns - history->start_ns) / 1e9,
		       (double)(int64_t)(svg->to_ns - history->start_ns) / 1e9,
		       (double)(int64_t)(history->end_ns - history->start_ns) / 1e9,
		       history->model->trainer_pid);
	dlp_svg_paragraph(svg, "soft", text);
}

static int body(struct dlp_svg *svg)
{
	double top;
	int err;

	title(svg);
	top = svg->y;
	dlp_svg_exposed(svg);
	err = dlp_svg_calls(svg);
	if (err)
		return err;
	dlp_svg_lanes(svg);
	axis(svg, top);
	legend(svg);
	return ferror(svg->out) ? -ENOMEM : 0;
}

static void document(FILE *out, double height, const char *inside, size_t bytes)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" viewBox=\"0 0 %d %.0f\" "
		"preserveAspectRatio=\"xMidYMin meet\">\n"
		"<title>dlprof-bpf</title>\n",
		DLP_SVG_WIDTH, height);
	(void)fputs(style, out);
	fprintf(out, "<rect class=\"page\" width=\"%d\" height=\"%.0f\"/>\n", DLP_SVG_WIDTH,
		height);
	(void)fwrite(inside, 1, bytes, out);
	(void)fputs("</svg>\n", out);
}

/* Its height is known when all is drawn. */
int dlp_svg_write(const struct dlp_report *report, FILE *out)
{
	_cleanup_free_ char *inside = NULL;
	struct dlp_svg svg = { .report = report, .y = MARGIN };
	struct dlp_activity activity;
	size_t bytes = 0;
	int err;

	dlp_selected_time(report, &svg.from_ns, &svg.to_ns);
	if (svg.to_ns < svg.from_ns + SPAN_LEAST_NS)
		svg.to_ns = svg.from_ns + SPAN_LEAST_NS;
	err = dlp_activity_init(&activity, report->history);
	if (err)
		return err;
	svg.activity = &activity;
	svg.out = open_memstream(&inside, &bytes);
	err = svg.out ? body(&svg) : -ENOMEM;
	if (svg.out && fclose(svg.out))
		err = -ENOMEM;
	dlp_activity_fini(&activity);
	if (err)
		return err;
	document(out, svg.y + MARGIN, inside, bytes);
	return ferror(out) ? -EIO : 0;
}
