/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "html_priv.h"
#include "summary.h"
#include "util.h"

#define SCHEMA "dlprof.page/1"

static int by_pid_and_birth(const void *a, const void *b)
{
	const struct dlp_html_who *left = a, *right = b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->born_ns > right->born_ns) - (left->born_ns < right->born_ns);
}

static void html_fini(struct dlp_html *html)
{
	free(html->step_us);
	free(html->outlier);
	free(html->kept);
	free(html->who);
}

static int html_init(struct dlp_html *html, const struct dlp_history *history, FILE *out)
{
	size_t calls = history->call_cnt + 1, workers = history->worker_cnt;

	*html = (struct dlp_html){ .out = out, .history = history };
	html->step_us = calloc(calls, sizeof(*html->step_us));
	html->outlier = calloc(calls, sizeof(*html->outlier));
	html->kept = calloc(calls, sizeof(*html->kept));
	html->who = calloc(workers + 1, sizeof(*html->who));
	if (!html->step_us || !html->outlier || !html->kept || !html->who)
		return -ENOMEM;
	for (size_t i = 0; i < workers; i++)
		html->who[i] = (struct dlp_html_who){
			.pid = history->workers[i].pid,
			.position = (uint32_t)i,
			.born_ns = history->workers[i].born_ns,
		};
	qsort(html->who, workers, sizeof(*html->who), by_pid_and_birth);
	dlp_html_judge(html);
	return dlp_html_pick(html, DLP_HTML_CALLS_MAX);
}

static int put_summary(struct dlp_html *html)
{
	static const struct dlp_summary_facts nothing;
	const struct dlp_history *history = html->history;
	_cleanup_free_ char *text = NULL;
	int err;

	err = dlp_summary_format(history->model, &history->verdict,
				 history->facts ? history->facts : &nothing, &text);
	if (!err)
		dlp_html_json(html, "summary", text);
	return err;
}

/* What the history had no room for. */
static void put_left_out(struct dlp_html *html)
{
	const struct dlp_history_lost *lost = &html->history->lost;
	const struct {
		const char *name;
		uint64_t cnt;
	} parts[] = {
		{ "calls", lost->calls },     { "productions", lost->productions },
		{ "readings", lost->samples }, { "blocked moments", lost->waits },
		{ "workers", lost->workers }, { "intervals of block IO", lost->blocks },
	};

	dlp_html_open(html, "left_out", '{');
	for (size_t i = 0; i < DLP_ARRAY_SIZE(parts); i++)
		if (parts[i].cnt)
			dlp_html_number(html, parts[i].name, (int64_t)parts[i].cnt);
	dlp_html_close(html, '}');
}

static int put_data(struct dlp_html *html)
{
	int (*const parts[])(struct dlp_html *) = {
		put_summary,	 dlp_html_calls,   dlp_html_bins,
		dlp_html_epochs, dlp_html_threads, dlp_html_grids,
	};
	const struct dlp_history *history = html->history;
	int err = 0;

	dlp_html_open(html, NULL, '{');
	dlp_html_json(html, "schema", "\"" SCHEMA "\"");
	dlp_html_number(html, "span_us", (int64_t)((history->end_ns - history->start_ns) / 1000));
	for (size_t i = 0; i < DLP_ARRAY_SIZE(parts) && !err; i++)
		err = parts[i](html);
	put_left_out(html);
	dlp_html_close(html, '}');
	return err;
}

static void put_part(FILE *out, const struct dlp_html_part *part)
{
	(void)fwrite(part->text, 1, (size_t)(part->end - part->text), out);
}

/*
 * A number that what the job wrote cannot know: it was written before. Only scripts and styles
 * that bear it are let run.
 */
static int make_nonce(char *hex, size_t size)
{
	unsigned char bytes[16];
	ssize_t got = getrandom(bytes, sizeof(bytes), 0);

	if (got != (ssize_t)sizeof(bytes))
		return got < 0 ? -errno : -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)snprintf(hex + 2 * i, size - 2 * i, "%02x", bytes[i]);
	return 0;
}

static int put_field(struct dlp_html *html, const char *name, size_t length, const char *nonce)
{
	if (length == 5 && !memcmp(name, "nonce", length)) {
		(void)fputs(nonce, html->out);
	} else if (length == 5 && !memcmp(name, "style", length)) {
		put_part(html->out, &dlp_html_style);
	} else if (length == 4 && !memcmp(name, "data", length)) {
		return put_data(html);
	} else if (length == 6 && !memcmp(name, "script", length)) {
		for (size_t i = 0; i < dlp_html_script_cnt; i++)
			put_part(html->out, &dlp_html_script[i]);
	} else {
		return -EINVAL;
	}
	return 0;
}

/* The page with its {{fields}} filled in; what fills them is not looked into. */
static int put_page(struct dlp_html *html, const char *nonce)
{
	const char *at = dlp_html_page.text, *end = dlp_html_page.end;

	while (at < end) {
		const char *open = memmem(at, (size_t)(end - at), "{{", 2);
		const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;
		int err;

		if (!close) {
			put_part(html->out, &(struct dlp_html_part){ at, end });
			return 0;
		}
		put_part(html->out, &(struct dlp_html_part){ at, open });
		err = put_field(html, open + 2, (size_t)(close - open - 2), nonce);
		if (err)
			return err;
		at = close + 2;
	}
	return 0;
}

int dlp_html_write(const struct dlp_history *history, FILE *out)
{
	struct dlp_html html;
	char nonce[33];
	int err;

	err = make_nonce(nonce, sizeof(nonce));
	if (err)
		return err;
	err = html_init(&html, history, out);
	if (!err)
		err = put_page(&html, nonce);
	html_fini(&html);
	if (!err && ferror(out))
		err = -EIO;
	return err;
}
