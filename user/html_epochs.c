/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One row per epoch of a loader. */
#include "html_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

struct epoch {
	uint32_t loader, epoch, iterator;
	uint64_t start_ns, end_ns;
	uint64_t batches, outliers;
	uint64_t wait_ns, first_ns, longest_ns;
	size_t call_cnt, first_duration; /* of durations */
};

struct epochs {
	const struct dlp_html *html;
	struct epoch *rows;
	size_t cnt, seen; /* of all */
	int64_t *durations; /* us; those of one epoch stand together and are sorted */
};

/* Loaders take turns at most: the epoch is among the newest. */
static struct epoch *find(struct epochs *epochs, const struct dlp_history_call *call)
{
	size_t back = epochs->cnt > 2 * DLP_MODEL_LOADERS_MAX ? epochs->cnt - 2 * DLP_MODEL_LOADERS_MAX : 0;

	for (size_t i = epochs->cnt; i > back; i--)
		if (epochs->rows[i - 1].loader == call->loader &&
		    epochs->rows[i - 1].epoch == call->epoch)
			return &epochs->rows[i - 1];
	return NULL;
}

static struct epoch *find_or_add(struct epochs *epochs, const struct dlp_history_call *call)
{
	struct epoch *row = find(epochs, call);

	if (row || epochs->cnt == DLP_HTML_EPOCHS_MAX) {
		epochs->seen += !row && (call->flags & DLP_CALL_FIRST);
		return row;
	}
	epochs->seen++;
	row = &epochs->rows[epochs->cnt++];
	*row = (struct epoch){
		.loader = call->loader,
		.epoch = call->epoch,
		.iterator = call->iterator,
		.start_ns = call->start_ns,
		.first_ns = call->end_ns - call->start_ns,
	};
	return row;
}

static void gather(struct epochs *epochs)
{
	const struct dlp_history *history = epochs->html->history;

	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		struct epoch *row = find_or_add(epochs, call);
		uint64_t ns = call->end_ns - call->start_ns;

		if (!row)
			continue;
		row->end_ns = call->end_ns > row->end_ns ? call->end_ns : row->end_ns;
		row->longest_ns = ns > row->longest_ns ? ns : row->longest_ns;
		row->batches += (call->flags & DLP_CALL_DATA) != 0;
		row->outliers += (epochs->html->outlier[i] & DLP_HTML_OUTLIER_GETNEXT) != 0;
		row->call_cnt++;
		if (call->flags & DLP_CALL_OUTER)
			row->wait_ns += ns;
	}
}

static int by_value(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

/* Two passes over the calls need no memory per epoch. */
static void sort_durations(struct epochs *epochs)
{
	const struct dlp_history *history = epochs->html->history;
	struct epochs again = { .html = epochs->html, .rows = epochs->rows };
	size_t at = 0;

	for (size_t i = 0; i < epochs->cnt; i++) {
		epochs->rows[i].first_duration = at;
		at += epochs->rows[i].call_cnt;
		epochs->rows[i].call_cnt = 0;
	}
	for (size_t i = 0; i < history->call_cnt; i++) {
		const struct dlp_history_call *call = &history->calls[i];
		struct epoch *row;

		/* epochs come in the order in which they were added */
		while (again.cnt < epochs->cnt && epochs->rows[again.cnt].start_ns <= call->start_ns)
			again.cnt++;
		row = find(&again, call);
		if (row)
			epochs->durations[row->first_duration + row->call_cnt++] =
				(int64_t)((call->end_ns - call->start_ns + 500) / 1000);
	}
	for (size_t i = 0; i < epochs->cnt; i++)
		qsort(epochs->durations + epochs->rows[i].first_duration, epochs->rows[i].call_cnt,
		      sizeof(*epochs->durations), by_value);
}

static const struct epoch *row_of(const void *ctx, size_t row)
{
	return &((const struct epochs *)ctx)->rows[row];
}

static int64_t epoch_loader(const void *ctx, size_t row)
{
	return row_of(ctx, row)->loader;
}

static int64_t epoch_number(const void *ctx, size_t row)
{
	return row_of(ctx, row)->epoch;
}

static int64_t epoch_start(const void *ctx, size_t row)
{
	return dlp_html_at(((const struct epochs *)ctx)->html, row_of(ctx, row)->start_ns);
}

static int64_t epoch_dur(const void *ctx, size_t row)
{
	return (int64_t)((row_of(ctx, row)->end_ns - row_of(ctx, row)->start_ns) / 1000);
}

static int64_t epoch_batches(const void *ctx, size_t row)
{
	return (int64_t)row_of(ctx, row)->batches;
}

static int64_t epoch_wait(const void *ctx, size_t row)
{
	return (int64_t)(row_of(ctx, row)->wait_ns / 1000);
}

static int64_t epoch_first(const void *ctx, size_t row)
{
	return (int64_t)(row_of(ctx, row)->first_ns / 1000);
}

static int64_t epoch_longest(const void *ctx, size_t row)
{
	return (int64_t)(row_of(ctx, row)->longest_ns / 1000);
}

static int64_t epoch_median(const void *ctx, size_t row)
{
	const struct epochs *epochs = ctx;
	const struct epoch *epoch = row_of(ctx, row);

	if (!epoch->call_cnt)
		return DLP_HTML_NULL;
	return epochs->durations[epoch->first_duration + (epoch->call_cnt - 1) / 2];
}

static int64_t epoch_outliers(const void *ctx, size_t row)
{
	return (int64_t)row_of(ctx, row)->outliers;
}

/* Making its iterator; a loader that keeps its workers makes one only, for the first epoch. */
static int64_t epoch_init(const void *ctx, size_t row)
{
	const struct epochs *epochs = ctx;
	const struct epoch *epoch = row_of(ctx, row);
	const struct dlp_history_iterator *iterator;

	iterator = dlp_history_iterator(epochs->html->history, epoch->iterator);
	if (!iterator || iterator->plain || !iterator->init_end_ns ||
	    (row && row_of(ctx, row - 1)->iterator == epoch->iterator))
		return DLP_HTML_NULL;
	return (int64_t)((iterator->init_end_ns - iterator->init_start_ns) / 1000);
}

static const struct dlp_html_column epoch_columns[] = {
	{ "loader", epoch_loader, false },   { "epoch", epoch_number, false },
	{ "start", epoch_start, false },     { "dur", epoch_dur, false },
	{ "batches", epoch_batches, false }, { "wait", epoch_wait, false },
	{ "first", epoch_first, false },     { "median", epoch_median, false },
	{ "longest", epoch_longest, false }, { "outliers", epoch_outliers, false },
	{ "init", epoch_init, false },
};

int dlp_html_epochs(struct dlp_html *html)
{
	_cleanup_free_ struct epoch *rows = calloc(DLP_HTML_EPOCHS_MAX, sizeof(*rows));
	_cleanup_free_ int64_t *durations = NULL;
	struct epochs epochs = { .html = html, .rows = rows };

	durations = calloc(html->history->call_cnt + 1, sizeof(*durations));
	if (!rows || !durations)
		return -ENOMEM;
	epochs.durations = durations;
	gather(&epochs);
	sort_durations(&epochs);
	dlp_html_table(html, "epochs", epoch_columns, DLP_ARRAY_SIZE(epoch_columns), &epochs,
		       epochs.cnt, (int64_t)epochs.seen);
	return 0;
}
