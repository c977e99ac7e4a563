/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A comparison for people, and as JSON. */
#include <math.h>
#include <string.h>

#include "diff.h"
#include "util.h"

#define NAME_SIZE 200

static const char *text_of(const json_t *object, const char *key, char *buf, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || !*text)
		text = "unknown";
	return dlp_sanitise(buf, size, text, strlen(text));
}

/* "data_loading, high: worker_cpu" */
static const char *verdict_of(const json_t *root, char *buf, size_t size)
{
	const json_t *verdict = json_object_get(root, "verdict");
	char bottleneck[40], severity[40], cause[40];

	(void)snprintf(buf, size, "%s, %s: %s",
		       text_of(verdict, "bottleneck", bottleneck, sizeof(bottleneck)),
		       text_of(verdict, "severity", severity, sizeof(severity)),
		       text_of(verdict, "cause", cause, sizeof(cause)));
	return buf;
}

static const char *value_text(double value, enum dlp_diff_unit unit, char *buf, size_t size)
{
	if (isnan(value))
		(void)snprintf(buf, size, "-");
	else if (unit == DLP_DIFF_RATIO)
		(void)snprintf(buf, size, "%.1f %%", value * 100);
	else if (unit == DLP_DIFF_PER_S)
		(void)snprintf(buf, size, "%.2f", value);
	else if (fabs(value) < 1000)
		(void)snprintf(buf, size, "%.1f us", value);
	else if (fabs(value) < 1e6)
		(void)snprintf(buf, size, "%.2f ms", value / 1e3);
	else
		(void)snprintf(buf, size, "%.2f s", value / 1e6);
	return buf;
}

/* Shares differ by points, other figures by their ratio. */
static const char *change_text(const struct dlp_diff_figure *figure, double difference, bool sign,
			       char *buf, size_t size)
{
	double scale = figure->unit == DLP_DIFF_RATIO ? 1 : fabs(figure->a);
	const char *unit = figure->unit == DLP_DIFF_RATIO ? "points" : "%";

	if (isnan(difference) || !(scale > 0))
		(void)snprintf(buf, size, "-");
	else if (sign)
		(void)snprintf(buf, size, "%+.1f %s", 100 * difference / scale, unit);
	else
		(void)snprintf(buf, size, "%.1f %s", 100 * difference / scale, unit);
	return buf;
}

static const char *judge(const struct dlp_diff_figure *figure, char *buf, size_t size)
{
	int beyond = dlp_diff_beyond(figure);
	double gain = (figure->b - figure->a) * figure->better;
	char noise[40];

	if (beyond < 0) {
		(void)snprintf(buf, size, "cannot be told");
		return buf;
	}
	change_text(figure, figure->noise, false, noise, sizeof(noise));
	if (beyond)
		(void)snprintf(buf, size, "%s (noise: %s)",
			       gain > 0 ? "better" : gain < 0 ? "worse" : "changed", noise);
	else
		(void)snprintf(buf, size, "within noise (%s)", noise);
	return buf;
}

static void run_text(FILE *out, const char *letter, const json_t *root, const char *name)
{
	double wall_s = json_number_value(json_object_get(json_object_get(root, "window"), "wall_s"));
	char clean[NAME_SIZE], command[NAME_SIZE];

	fprintf(out, "%s: %s, %.1f s of %s\n", letter,
		dlp_sanitise(clean, sizeof(clean), name, strlen(name)), wall_s,
		text_of(json_object_get(root, "target"), "cmdline", command, sizeof(command)));
}

void dlp_diff_text(FILE *out, const struct dlp_diff *diff, const char *name_a, const char *name_b)
{
	char a[140], b[140], change[40], verdict[100];

	run_text(out, "A", diff->a, name_a);
	run_text(out, "B", diff->b, name_b);
	verdict_of(diff->a, a, sizeof(a));
	verdict_of(diff->b, b, sizeof(b));
	if (diff->verdict_changed)
		fprintf(out, "Verdict: %s -> %s\n\n", a, b);
	else
		fprintf(out, "Verdict: the same, %s\n\n", a);
	fprintf(out, "%-34s %12s %12s %15s\n", "", "A", "B", "change");
	for (size_t i = 0; i < diff->figure_cnt; i++) {
		const struct dlp_diff_figure *figure = &diff->figure[i];

		fprintf(out, "%-34s %12s %12s %15s  %s\n", figure->text,
			value_text(figure->a, figure->unit, a, sizeof(a)),
			value_text(figure->b, figure->unit, b, sizeof(b)),
			change_text(figure, figure->b - figure->a, true, change, sizeof(change)),
			judge(figure, verdict, sizeof(verdict)));
	}
	if (!diff->figure_cnt)
		fprintf(out, "No figure was measured in either run.\n");
}

static json_t *real(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *tri(int value)
{
	return value < 0 ? json_null() : json_boolean(value);
}

static json_t *figure_json(const struct dlp_diff_figure *figure)
{
	static const char *const unit[] = {
		[DLP_DIFF_RATIO] = "ratio", [DLP_DIFF_US] = "us", [DLP_DIFF_PER_S] = "1/s"
	};
	int beyond = dlp_diff_beyond(figure);
	double gain = (figure->b - figure->a) * figure->better;

	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "metric", figure->id, "unit",
			 unit[figure->unit], "a", real(figure->a), "b", real(figure->b),
			 "difference", real(figure->b - figure->a), "noise", real(figure->noise),
			 "beyond_noise", tri(beyond), "better",
			 tri(beyond == 1 && figure->better ? gain > 0 : -1));
}

/* The names and verdict of one run. */
static json_t *run_json(const json_t *root, const char *name)
{
	const json_t *verdict = json_object_get(root, "verdict");
	char clean[NAME_SIZE], bottleneck[40], severity[40], cause[40];

	return json_pack("{s:s, s:s, s:s, s:s}", "file",
			 dlp_sanitise(clean, sizeof(clean), name, strlen(name)), "bottleneck",
			 text_of(verdict, "bottleneck", bottleneck, sizeof(bottleneck)), "severity",
			 text_of(verdict, "severity", severity, sizeof(severity)), "cause",
			 text_of(verdict, "cause", cause, sizeof(cause)));
}

json_t *dlp_diff_json(const struct dlp_diff *diff, const char *name_a, const char *name_b)
{
	json_t *figures = json_array();

	for (size_t i = 0; figures && i < diff->figure_cnt; i++) {
		if (json_array_append_new(figures, figure_json(&diff->figure[i]))) {
			json_decref(figures);
			return NULL;
		}
	}
	return json_pack("{s:s, s:o, s:o, s:b, s:o}", "schema", "dlprof.diff/1", "a",
			 run_json(diff->a, name_a), "b", run_json(diff->b, name_b),
			 "verdict_changed", diff->verdict_changed, "figures", figures);
}
