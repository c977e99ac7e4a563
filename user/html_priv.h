/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The data block of the page: what html*.c share. Tables are written by column, numbers only;
 * every text of the job is in the summary document, which dlp_html_text escapes.
 */
#ifndef DLP_HTML_PRIV_H
#define DLP_HTML_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "history.h"

/*
 * Bounds of what is told one by one. Measured: 54 bytes a call, 45 a reading, 16 a blocked moment,
 * 22 an outlier, of which all stay. An hour at 100 batches a second makes 11 MB.
 */
#define DLP_HTML_CALLS_MAX 200000
#define DLP_HTML_READINGS_MAX 30000
#define DLP_HTML_WAITS_MAX 60000
#define DLP_HTML_EPOCHS_MAX 2000
#define DLP_HTML_BINS_MAX 1200
#define DLP_HTML_GRID_MAX 600

/* A figure that is not known: null. */
#define DLP_HTML_NULL INT64_MIN

/* At least twice the loader's median; told behind the DLP_CALL_* of a call. */
#define DLP_HTML_OUTLIER_GETNEXT (1u << 5)
#define DLP_HTML_OUTLIER_STEP	 (1u << 6) /* batch time before the call */
/* Calls before this one are not told one by one. */
#define DLP_HTML_GAP (1u << 7)

struct dlp_html_column {
	const char *name;
	int64_t (*cell)(const void *ctx, size_t row);
	bool delta; /* told as the distance to the row before; no cell may be unknown */
};

/* A worker by pid and birth: pids come back. */
struct dlp_html_who {
	uint32_t pid;
	uint32_t position; /* in history->workers */
	uint64_t born_ns;
};

struct dlp_html {
	FILE *out;
	const struct dlp_history *history;
	bool comma; /* the next thing is preceded by one */
	int64_t *step_us;  /* per call: batch time before it, or DLP_HTML_NULL */
	uint8_t *outlier;  /* per call: DLP_HTML_OUTLIER_* */
	bool *kept;	   /* per call: told one by one */
	struct dlp_html_who *who; /* worker_cnt of them, by pid and birth */
};

/* html_table.c: the JSON itself. `key` NULL = inside an array or at the top. */
void dlp_html_open(struct dlp_html *html, const char *key, char bracket);
void dlp_html_close(struct dlp_html *html, char bracket);
void dlp_html_number(struct dlp_html *html, const char *key, int64_t value);
/* A JSON document as it is, but with what could end the script element written as escapes. */
void dlp_html_json(struct dlp_html *html, const char *key, const char *json);
/* rows, total (unless it is DLP_HTML_NULL), and the columns. */
void dlp_html_table(struct dlp_html *html, const char *key, const struct dlp_html_column *columns,
		    size_t column_cnt, const void *ctx, size_t rows, int64_t total);
/* An array of numbers, or the number when all are the same. */
void dlp_html_array(struct dlp_html *html, const char *key, const int64_t *values, size_t count);

/* Microseconds from the start of the window; DLP_HTML_NULL for 0. May be negative. */
int64_t dlp_html_at(const struct dlp_html *html, uint64_t ns);
/* Position of the worker in history->workers, or -1. */
int64_t dlp_html_worker(const struct dlp_html *html, uint32_t pid, uint64_t ts_ns);

/* Each writes its part of the data: 0 or -ENOMEM. */
int dlp_html_calls(struct dlp_html *html);   /* html_calls.c: calls, outliers */
int dlp_html_bins(struct dlp_html *html);    /* html_bins.c: bins, histograms */
int dlp_html_epochs(struct dlp_html *html);  /* html_epochs.c */
int dlp_html_threads(struct dlp_html *html); /* html_threads.c: workers, samples, waits */
int dlp_html_grids(struct dlp_html *html);   /* html_grid.c: cpu, io */

/* html_calls.c: fills step_us and outlier. */
void dlp_html_judge(struct dlp_html *html);
/* Chooses the calls that are told one by one, at most `budget`; 0 or -ENOMEM. */
int dlp_html_pick(struct dlp_html *html, size_t budget);

/* html_parts.c: the files of user/html/, not terminated. */
struct dlp_html_part {
	const char *text, *end;
};
extern const struct dlp_html_part dlp_html_page, dlp_html_style, dlp_html_script[];
extern const size_t dlp_html_script_cnt;

#endif /* DLP_HTML_PRIV_H */
