/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every call of GetNext, summed up: ranges and medians over time, and distributions. */
#include "html_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "util.h"

/* Eight buckets an octave, from 1 us to 2^42 ns and beyond. */
#define BUCKETS 264

struct bins {
	size_t cnt;
	uint64_t width_ns;
	int64_t *cells; /* one array per column */
};

enum bin_column { CALLS, EXPOSED, GETNEXT_MIN, GETNEXT_MEDIAN, GETNEXT_MAX, STEP_MIN, STEP_MEDIAN,
		  STEP_MAX, BIN_COLUMNS };

static const char *const bin_names[BIN_COLUMNS] = {
	[CALLS] = "calls",		    [EXPOSED] = "exposed",
	[GETNEXT_MIN] = "getnext_min",	    [GETNEXT_MEDIAN] = "getnext_median",
	[GETNEXT_MAX] = "getnext_max",	    [STEP_MIN] = "step_min",
	[STEP_MEDIAN] = "step_median",	    [STEP_MAX] = "step_max",
};

static int by_value(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

/* Sorts the values; unknown ones are the lowest there are and come first. */
static void summarise(const struct bins *bins, size_t bin, enum bin_column first, int64_t *values,
		      size_t count)
{
	size_t skip = 0;

	qsort(values, count, sizeof(*values), by_value);
	while (skip < count && values[skip] == DLP_HTML_NULL)
		skip++;
	if (skip == count)
		return;
	bins->cells[first * bins->cnt + bin] = values[skip];
	bins->cells[(first + 1) * bins->cnt + bin] = values[skip + (count - skip - 1) / 2];
	bins->cells[(first + 2) * bins->cnt + bin] = values[count - 1];
}

static size_t bin_of(const struct dlp_html *html, const struct bins *bins, uint64_t ns)
{
	uint64_t start_ns = html->history->start_ns;
	size_t bin = ns > start_ns ? (size_t)((ns - start_ns) / bins->width_ns) : 0;

	return bin < bins->cnt ? bin : bins->cnt - 1;
}

/* Adds the part of each bin that training waited, in us. */
static void expose(const struct dlp_html *html, const struct bins *bins, uint64_t from_ns,
		   uint64_t to_ns)
{
	uint64_t start_ns = html->history->start_ns;

	from_ns = from_ns > start_ns ? from_ns : start_ns;
	for (size_t bin = bin_of(html, bins, from_ns); bin < bins->cnt; bin++) {
		uint64_t begin = start_ns + bin * bins->width_ns, end = begin + bins->width_ns;

		if (begin >= to_ns)
			break;
		begin = begin > from_ns ? begin : from_ns;
		end = end < to_ns ? end : to_ns;
		if (end > begin)
			bins->cells[EXPOSED * bins->cnt + bin] += (int64_t)((end - begin) / 1000);
	}
}

/* Calls are in order of their start, so those of one bin stand together. */
static void fill_bins(const struct dlp_html *html, const struct bins *bins, int64_t *values)
{
	const struct dlp_history *history = html->history;
	size_t first = 0;

	while (first < history->call_cnt) {
		size_t bin = bin_of(html, bins, history->calls[first].start_ns), end = first, count = 0;

		for (; end < history->call_cnt; end++) {
			const struct dlp_history_call *call = &history->calls[end];

			if (bin_of(html, bins, call->start_ns) != bin)
				break;
			if (call->flags & DLP_CALL_OUTER)
				expose(html, bins, call->start_ns, call->end_ns);
			if (call->flags & DLP_CALL_WINDOW)
				values[count++] =
					(int64_t)((call->end_ns - call->start_ns + 500) / 1000);
		}
		bins->cells[CALLS * bins->cnt + bin] = (int64_t)count;
		summarise(bins, bin, GETNEXT_MIN, values, count);
		count = 0;
		for (size_t i = first; i < end; i++)
			if (history->calls[i].flags & DLP_CALL_WINDOW)
				values[count++] = html->step_us[i];
		summarise(bins, bin, STEP_MIN, values, count);
		first = end;
	}
}

static int put_bins(struct dlp_html *html)
{
	const struct dlp_history *history = html->history;
	uint64_t span_ns = history->end_ns - history->start_ns;
	_cleanup_free_ int64_t *cells = NULL, *values = NULL;
	struct bins bins;

	/* some four calls each; at least so many that waiting over time can be seen */
	bins.cnt = history->call_cnt / 4;
	if (bins.cnt < 60)
		bins.cnt = 60;
	if (bins.cnt > DLP_HTML_BINS_MAX)
		bins.cnt = DLP_HTML_BINS_MAX;
	/* whole microseconds, which is what the page is told */
	bins.width_ns = (span_ns / bins.cnt / 1000 + 1) * 1000;
	cells = calloc(BIN_COLUMNS * bins.cnt, sizeof(*cells));
	values = calloc(history->call_cnt + 1, sizeof(*values));
	if (!cells || !values)
		return -ENOMEM;
	bins.cells = cells;
	for (size_t i = GETNEXT_MIN * bins.cnt; i < BIN_COLUMNS * bins.cnt; i++)
		cells[i] = DLP_HTML_NULL;
	fill_bins(html, &bins, values);
	expose(html, &bins, dlp_history_unfinished(history), history->end_ns);
	dlp_html_open(html, "bins", '{');
	dlp_html_number(html, "rows", (int64_t)bins.cnt);
	dlp_html_number(html, "width_us", (int64_t)(bins.width_ns / 1000));
	for (size_t i = 0; i < BIN_COLUMNS; i++)
		dlp_html_array(html, bin_names[i], cells + i * bins.cnt, bins.cnt);
	dlp_html_close(html, '}');
	return 0;
}

static void count(int64_t *buckets, double us)
{
	int bucket = us > 1 ? (int)(log2(us) * 8) : 0;

	buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

/* Two arrays of the same length, of the buckets that are not empty. */
static void put_buckets(struct dlp_html *html, const char *key, const int64_t *buckets)
{
	dlp_html_open(html, key, '{');
	dlp_html_open(html, "bucket", '[');
	for (int i = 0; i < BUCKETS; i++)
		if (buckets[i])
			dlp_html_number(html, NULL, i);
	dlp_html_close(html, ']');
	dlp_html_open(html, "count", '[');
	for (int i = 0; i < BUCKETS; i++)
		if (buckets[i])
			dlp_html_number(html, NULL, buckets[i]);
	dlp_html_close(html, ']');
	dlp_html_close(html, '}');
}

static void put_histograms(struct dlp_html *html)
{
	const struct dlp_history *history = html->history;
	int64_t getnext[BUCKETS] = { 0 }, step[BUCKETS] = { 0 }, produce[BUCKETS] = { 0 };

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];

		if (!(call->flags & DLP_CALL_WINDOW))
			continue;
		count(getnext, (double)(call->end_ns - call->start_ns) / 1e3);
		if (html->step_us[i] != DLP_HTML_NULL)
			count(step, (double)html->step_us[i]);
	}
	for (size_t i = 0; i < history->production_cnt; i++)
		if (history->productions[i].in_window)
			count(produce, (double)(history->productions[i].done_ns -
					history->productions[i].taken_ns) /
					       1e3);
	dlp_html_open(html, "histograms", '{');
	put_buckets(html, "getnext", getnext);
	put_buckets(html, "step", step);
	put_buckets(html, "produce", produce);
	dlp_html_close(html, '}');
}

int dlp_html_bins(struct dlp_html *html)
{
	int err = put_bins(html);

	if (!err)
		put_histograms(html);
	return err;
}
