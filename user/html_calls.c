/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of GetNext one by one, with the way of their batches; which of them when they are many. */
#include "html_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

/* Calls are kept in stretches of so many: single ones would show no order of events. */
#define STRETCH 64

struct medians {
	uint64_t getnext_ns, step_ns; /* 0 = unknown */
};

static void judge_step(struct dlp_html *html, size_t call, uint64_t ns, uint64_t median_ns)
{
	html->step_us[call] = (int64_t)((ns + 500) / 1000);
	if ((html->history->calls[call].flags & DLP_CALL_WINDOW) && median_ns && ns >= 2 * median_ns)
		html->outlier[call] |= DLP_HTML_OUTLIER_STEP;
}

void dlp_html_judge(struct dlp_html *html)
{
	const struct dlp_history *history = html->history;
	const struct dlp_history_call *last[DLP_MODEL_LOADERS_MAX + 1] = { NULL };
	struct medians median[DLP_MODEL_LOADERS_MAX + 1] = { { 0, 0 } };

	for (size_t i = 0; i < history->model->loader_cnt; i++) {
		const struct dlp_loader *loader = &history->model->loaders[i];

		if (loader->id <= DLP_MODEL_LOADERS_MAX)
			median[loader->id] = (struct medians){
				dlp_hist_quantile(&loader->getnext, 0.5),
				dlp_hist_quantile(&loader->batch_time, 0.5),
			};
	}
	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i], *before;
		uint32_t loader = call->loader <= DLP_MODEL_LOADERS_MAX ? call->loader : 0;

		before = last[loader];
		last[loader] = call;
		html->step_us[i] = DLP_HTML_NULL;
		if (before && before->epoch == call->epoch && before->iterator == call->iterator)
			judge_step(html, i, call->start_ns - before->start_ns, median[loader].step_ns);
		if ((call->flags & DLP_CALL_WINDOW) && median[loader].getnext_ns &&
		    call->end_ns - call->start_ns >= 2 * median[loader].getnext_ns)
			html->outlier[i] |= DLP_HTML_OUTLIER_GETNEXT;
	}
}

struct stretch {
	size_t number;
	uint64_t longest_ns;
};

static int by_longest(const void *a, const void *b)
{
	const struct stretch *left = a, *right = b;

	return (left->longest_ns < right->longest_ns) - (left->longest_ns > right->longest_ns);
}

static void keep_stretch(struct dlp_html *html, size_t number)
{
	size_t first = number * STRETCH;

	for (size_t i = first; i < first + STRETCH && i < html->history->call_cnt; i++)
		html->kept[i] = true;
}

/* Half of the room for the stretches with the longest calls, half for every so-manieth one. */
int dlp_html_pick(struct dlp_html *html, size_t budget)
{
	const struct dlp_history *history = html->history;
	size_t count = (history->call_cnt + STRETCH - 1) / STRETCH;
	_cleanup_free_ struct stretch *stretches = NULL;
	size_t half = budget / STRETCH / 2;

	if (history->call_cnt <= budget || !half) {
		for (size_t i = 0; i < history->call_cnt; i++)
			html->kept[i] = history->call_cnt <= budget;
		return 0;
	}
	stretches = calloc(count, sizeof(*stretches));
	if (!stretches)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		stretches[i].number = i;
	for (size_t i = 0; i < history->call_cnt; i++) {
		uint64_t ns = history->calls[i].end_ns - history->calls[i].start_ns;

		if (ns > stretches[i / STRETCH].longest_ns)
			stretches[i / STRETCH].longest_ns = ns;
	}
	qsort(stretches, count, sizeof(*stretches), by_longest);
	for (size_t i = 0; i < half; i++) {
		keep_stretch(html, stretches[i].number);
		keep_stretch(html, i * count / half);
	}
	return 0;
}

/* Positions of the calls of one table. */
struct chosen {
	const struct dlp_html *html;
	size_t *calls;
};

static const struct dlp_history_call *call_of(const void *ctx, size_t row)
{
	const struct chosen *chosen = ctx;

	return &chosen->html->history->calls[chosen->calls[row]];
}

static int64_t call_start(const void *ctx, size_t row)
{
	const struct chosen *chosen = ctx;

	return dlp_html_at(chosen->html, call_of(ctx, row)->start_ns);
}

static int64_t call_dur(const void *ctx, size_t row)
{
	const struct dlp_history_call *call = call_of(ctx, row);

	return (int64_t)((call->end_ns - call->start_ns + 500) / 1000);
}

static int64_t call_step(const void *ctx, size_t row)
{
	const struct chosen *chosen = ctx;

	return chosen->html->step_us[chosen->calls[row]];
}

static int64_t call_flags(const void *ctx, size_t row)
{
	const struct chosen *chosen = ctx;
	size_t call = chosen->calls[row];
	uint32_t flags = call_of(ctx, row)->flags | chosen->html->outlier[call];

	return call && !chosen->html->kept[call - 1] ? flags | DLP_HTML_GAP : flags;
}

static int64_t call_worker(const void *ctx, size_t row)
{
	const struct dlp_history_call *call = call_of(ctx, row);

	if (!call->worker_pid)
		return -1;
	return dlp_html_worker(((const struct chosen *)ctx)->html, call->worker_pid, call->end_ns);
}

static int64_t call_loader(const void *ctx, size_t row)
{
	return call_of(ctx, row)->loader;
}

static int64_t call_epoch(const void *ctx, size_t row)
{
	return call_of(ctx, row)->epoch;
}

static int64_t call_index(const void *ctx, size_t row)
{
	return call_of(ctx, row)->index;
}

/* From one station of the batch to the next; unknown when either is, or what it was before. */
static int64_t leg(const void *ctx, uint64_t from_ns, uint64_t to_ns)
{
	const struct dlp_html *html = ((const struct chosen *)ctx)->html;

	if (!from_ns || !to_ns)
		return DLP_HTML_NULL;
	return dlp_html_at(html, to_ns) - dlp_html_at(html, from_ns);
}

static int64_t call_asked(const void *ctx, size_t row)
{
	return leg(ctx, call_of(ctx, row)->start_ns, call_of(ctx, row)->asked_ns);
}

static int64_t call_taken(const void *ctx, size_t row)
{
	return leg(ctx, call_of(ctx, row)->start_ns, call_of(ctx, row)->taken_ns);
}

static int64_t call_made(const void *ctx, size_t row)
{
	return leg(ctx, call_of(ctx, row)->start_ns, call_of(ctx, row)->produced_ns);
}

static int64_t call_sent(const void *ctx, size_t row)
{
	return leg(ctx, call_of(ctx, row)->start_ns, call_of(ctx, row)->sent_ns);
}

static int64_t call_received(const void *ctx, size_t row)
{
	return leg(ctx, call_of(ctx, row)->start_ns, call_of(ctx, row)->received_ns);
}

static const struct dlp_html_column call_columns[] = {
	{ "start", call_start, true },	     { "dur", call_dur, false },
	{ "step", call_step, false },	     { "flags", call_flags, false },
	{ "loader", call_loader, false },    { "epoch", call_epoch, true },
	{ "worker", call_worker, false },    { "index", call_index, true },
	{ "asked", call_asked, false },	     { "taken", call_taken, false },
	{ "made", call_made, false },	     { "sent", call_sent, false },
	{ "received", call_received, false },
};

static const struct dlp_html_column outlier_columns[] = {
	{ "start", call_start, true },	  { "dur", call_dur, false },
	{ "step", call_step, false },	  { "flags", call_flags, false },
	{ "worker", call_worker, false }, { "index", call_index, true },
};

int dlp_html_calls(struct dlp_html *html)
{
	const struct dlp_history *history = html->history;
	_cleanup_free_ size_t *calls = NULL;
	struct chosen chosen = { .html = html };
	size_t rows = 0;

	calls = calloc(history->call_cnt + 1, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	chosen.calls = calls;
	for (size_t i = 0; i < history->call_cnt; i++)
		if (html->kept[i])
			calls[rows++] = i;
	dlp_html_table(html, "calls", call_columns, DLP_ARRAY_SIZE(call_columns), &chosen, rows,
		       (int64_t)history->call_cnt);
	/* those of the calls above are marked there */
	rows = 0;
	for (size_t i = 0; i < history->call_cnt; i++)
		if (!html->kept[i] && html->outlier[i])
			calls[rows++] = i;
	dlp_html_table(html, "outliers", outlier_columns, DLP_ARRAY_SIZE(outlier_columns), &chosen,
		       rows, DLP_HTML_NULL);
	return 0;
}
