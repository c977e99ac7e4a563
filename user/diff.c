/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "diff.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "decode.h"
#include "dlprof/event.h"
#include "util.h"

/*
 * Two runs of one job on one machine differ by some per cent for reasons that no single run shows
 * (where memory lies, what else runs), so less than this share of a figure never counts.
 */
#define RUN_TO_RUN 0.03
/* For ratios of the wall time: as much in absolute terms. */
#define RUN_TO_RUN_RATIO 0.01
/* Differences beyond two standard errors are seen by chance in one of twenty comparisons. */
#define ERRORS 2.0
/* From p95 - median to the standard deviation, of a normal distribution. */
#define P95_SIGMAS 1.645
/* Of the median, in standard deviations over the square root of the count. */
#define MEDIAN_ERROR 1.253
/* A p99 of fewer calls is the slowest one or two. */
#define P99_CALLS_MIN 500

/* One document's figure and its standard error; NAN = not known. */
struct side {
	double value, error;
};

static const struct side unknown = { NAN, NAN };

/* A number below `object`, by names parted by '.'; NAN. */
static double number_at(const json_t *object, const char *path)
{
	char name[32];

	while (*path) {
		size_t bytes = strcspn(path, ".");

		if (bytes >= sizeof(name))
			return NAN;
		memcpy(name, path, bytes);
		name[bytes] = '\0';
		object = json_object_get(object, name);
		path += bytes + (path[bytes] == '.');
	}
	return json_is_number(object) ? json_number_value(object) : NAN;
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* Standard deviation of a loader's GetNext calls, microseconds; NAN. */
static double call_sigma(const json_t *loader)
{
	return (number_at(loader, "getnext.p95_us") - number_at(loader, "getnext.median_us")) /
	       P95_SIGMAS;
}

/* ---- figures --------------------------------------------------------------------------------- */

static struct side exposed(const json_t *root)
{
	double wall_us = number_at(root, "window.wall_s") * 1e6, variance = 0;
	const json_t *loader;
	size_t i;

	json_array_foreach(json_object_get(root, "loaders"), i, loader) {
		double count = number_at(loader, "getnext.count"), sigma = call_sigma(loader);

		if (count > 0)
			variance += sigma * sigma * count;
	}
	return (struct side){ number_at(root, "verdict.exposed_wait_ratio"),
			      wall_us > 0 ? sqrt(variance) / wall_us : NAN };
}

/* The waits are what varies most in the time of a batch. */
static struct side batch_rate(const json_t *root)
{
	double wall_s = number_at(root, "window.wall_s"), batches = 0;
	double share = exposed(root).error;
	const json_t *loader;
	size_t i;

	json_array_foreach(json_object_get(root, "loaders"), i, loader)
		batches += number_at(loader, "batches");
	if (!(wall_s > 0))
		return unknown;
	return (struct side){ batches / wall_s, share * batches / wall_s };
}

static struct side startup(const json_t *root)
{
	return (struct side){ number_at(root, "verdict.startup_ratio"), 0 };
}

static struct side getnext_median(const json_t *loader)
{
	double count = number_at(loader, "getnext.count");

	if (!(count > 0))
		return unknown;
	return (struct side){ number_at(loader, "getnext.median_us"),
			      MEDIAN_ERROR * call_sigma(loader) / sqrt(count) };
}

/*
 * The rank of the 99th percentile of n calls is right within sqrt(n * 0.99 * 0.01). What that is
 * in time, the slope between p95 and p99 tells: four per cent of the ranks lie between them.
 */
static struct side getnext_p99(const json_t *loader)
{
	double count = number_at(loader, "getnext.count");
	double p99 = number_at(loader, "getnext.p99_us");
	double slope = (p99 - number_at(loader, "getnext.p95_us")) / (0.04 * count);

	if (!(count > 0))
		return unknown;
	return (struct side){ p99, count < P99_CALLS_MIN ? NAN : slope * sqrt(count * 0.0099) };
}

static struct side init_median(const json_t *loader)
{
	double count = number_at(loader, "iterator_init.count");
	double median = number_at(loader, "iterator_init.median_us");

	/* a handful at most: the largest is all that is known of how they differ */
	return (struct side){ median, count > 1 ? number_at(loader, "iterator_init.max_us") - median :
						  NAN };
}

/* The workers' median production time, each worker counting for its batches. */
static struct side production(const json_t *root)
{
	double sum = 0, batches = 0, squares = 0;
	const json_t *worker;
	size_t i, cnt = 0;

	json_array_foreach(json_object_get(root, "workers"), i, worker) {
		double median = number_at(worker, "produce.median_us");
		double weight = number_at(worker, "batches");

		if (isnan(median) || !(weight > 0))
			continue;
		sum += median * weight;
		squares += median * median * weight;
		batches += weight;
		cnt++;
	}
	if (!cnt)
		return unknown;
	sum /= batches;
	return (struct side){ sum, cnt > 1 ? sqrt(fmax(0, squares / batches - sum * sum) /
						  (double)cnt) : NAN };
}

/* Share of a state in the time in which workers made batches; its error from how workers differ. */
static struct side state_share(const json_t *root, unsigned int state)
{
	double all = 0, part = 0, sum = 0, squares = 0;
	const json_t *worker;
	size_t i, cnt = 0;

	json_array_foreach(json_object_get(root, "workers"), i, worker) {
		double made = 0, in_state = 0;

		for (unsigned int s = 0; s < DLP_ST_MAX; s++) {
			char path[40];
			double us;

			if (s == DLP_ST_IDLE)
				continue;
			(void)snprintf(path, sizeof(path), "states.%s_us", dlp_state_name(s));
			us = number_at(worker, path);
			if (isnan(us))
				continue;
			made += us;
			in_state += s == state ? us : 0;
		}
		if (!(made > 0))
			continue;
		all += made;
		part += in_state;
		sum += in_state / made;
		squares += in_state / made * in_state / made;
		cnt++;
	}
	if (!(all > 0))
		return unknown;
	sum /= (double)cnt;
	return (struct side){ part / all,
			      cnt > 1 ? sqrt(fmax(0, squares / (double)cnt - sum * sum) /
					     (double)cnt) : NAN };
}

/* ---- comparison ------------------------------------------------------------------------------ */

static double noise_of(struct side a, struct side b, enum dlp_diff_unit unit)
{
	double floor = unit == DLP_DIFF_RATIO ? RUN_TO_RUN_RATIO :
						RUN_TO_RUN * fmax(fabs(a.value), fabs(b.value));

	return fmax(floor, 0) + ERRORS * sqrt(a.error * a.error + b.error * b.error);
}

/* `loader` 0 = of the whole run. */
static void compare(struct dlp_diff *diff, const char *id, const char *text, uint64_t loader,
		    struct side a, struct side b, enum dlp_diff_unit unit, int better)
{
	struct dlp_diff_figure *figure = &diff->figure[diff->figure_cnt];

	if (diff->figure_cnt == DLP_DIFF_FIGURES_MAX || (isnan(a.value) && isnan(b.value)))
		return;
	*figure = (struct dlp_diff_figure){ .unit = unit,
					    .a = a.value,
					    .b = b.value,
					    .noise = noise_of(a, b, unit),
					    .better = better };
	if (loader) {
		(void)snprintf(figure->id, sizeof(figure->id), "loader %" PRIu64 " %s", loader, id);
		(void)snprintf(figure->text, sizeof(figure->text), "loader %" PRIu64 ": %s", loader,
			       text);
	} else {
		(void)snprintf(figure->id, sizeof(figure->id), "%s", id);
		(void)snprintf(figure->text, sizeof(figure->text), "%s", text);
	}
	diff->figure_cnt++;
}

/* Loaders are numbered in order of first use, so the same program's have the same numbers. */
static void compare_loaders(struct dlp_diff *diff)
{
	const json_t *a = json_object_get(diff->a, "loaders");
	const json_t *b = json_object_get(diff->b, "loaders");
	size_t cnt = json_array_size(a) > json_array_size(b) ? json_array_size(a) :
							       json_array_size(b);

	for (size_t i = 0; i < cnt && i < DLP_DIFF_LOADERS_MAX; i++) {
		const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
		uint64_t loader = cnt > 1 ? i + 1 : 0;

		compare(diff, "getnext_median_us", "GetNext, median", loader, getnext_median(x),
			getnext_median(y), DLP_DIFF_US, -1);
		compare(diff, "getnext_p99_us", "GetNext, p99", loader, getnext_p99(x),
			getnext_p99(y), DLP_DIFF_US, -1);
		compare(diff, "iterator_init_median_us", "iter(loader), median", loader,
			init_median(x), init_median(y), DLP_DIFF_US, -1);
	}
}

/* States in which neither run's workers were for a hundredth of the time are left out. */
static void compare_states(struct dlp_diff *diff)
{
	for (unsigned int s = 0; s < DLP_ST_MAX; s++) {
		struct side a, b;
		char id[48], text[48];

		if (s == DLP_ST_IDLE)
			continue;
		a = state_share(diff->a, s);
		b = state_share(diff->b, s);
		if (!(a.value >= 0.01) && !(b.value >= 0.01))
			continue;
		(void)snprintf(id, sizeof(id), "production_%s_share", dlp_state_name(s));
		(void)snprintf(text, sizeof(text), "production: %s", dlp_state_name(s));
		compare(diff, id, text, 0, a, b, DLP_DIFF_RATIO, 0);
	}
}

static bool is_summary(const json_t *root)
{
	static const char schema[] = "dlprof.summary/";

	return !strncmp(text_at(root, "schema"), schema, strlen(schema)) &&
	       json_is_object(json_object_get(root, "verdict"));
}

int dlp_diff_make(const json_t *a, const json_t *b, struct dlp_diff *ret, int *ret_bad)
{
	static const char *const said[] = { "bottleneck", "severity", "cause" };

	*ret = (struct dlp_diff){ .a = a, .b = b };
	if (!is_summary(a) || !is_summary(b)) {
		*ret_bad = is_summary(a);
		return -EINVAL;
	}
	for (size_t i = 0; i < DLP_ARRAY_SIZE(said); i++)
		ret->verdict_changed |= strcmp(text_at(json_object_get(a, "verdict"), said[i]),
					       text_at(json_object_get(b, "verdict"), said[i])) != 0;
	compare(ret, "exposed_wait_ratio", "training waits for data", 0, exposed(a), exposed(b),
		DLP_DIFF_RATIO, -1);
	compare(ret, "startup_ratio", "starting workers", 0, startup(a), startup(b), DLP_DIFF_RATIO,
		-1);
	compare(ret, "batches_per_s", "batches per second", 0, batch_rate(a), batch_rate(b),
		DLP_DIFF_PER_S, 1);
	compare_loaders(ret);
	compare(ret, "production_median_us", "making a batch, median", 0, production(a),
		production(b), DLP_DIFF_US, -1);
	compare_states(ret);
	return 0;
}

int dlp_diff_beyond(const struct dlp_diff_figure *figure)
{
	double difference = fabs(figure->b - figure->a);

	return isnan(difference) || isnan(figure->noise) ? -1 : difference > figure->noise;
}
