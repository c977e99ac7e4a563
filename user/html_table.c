/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "html_priv.h"

#include <string.h>

#include "util.h"

static void put_key(struct dlp_html *html, const char *key)
{
	if (html->comma)
		(void)fputs(",\n", html->out);
	if (key)
		(void)fprintf(html->out, "\"%s\":", key);
	html->comma = true;
}

void dlp_html_open(struct dlp_html *html, const char *key, char bracket)
{
	put_key(html, key);
	(void)fputc(bracket, html->out);
	html->comma = false;
}

void dlp_html_close(struct dlp_html *html, char bracket)
{
	(void)fputc(bracket, html->out);
	html->comma = true;
}

/* Millions of these make a page: printf takes three times as long. */
static void put_int(FILE *out, int64_t value)
{
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	char text[24], *at = text + sizeof(text);

	if (value == DLP_HTML_NULL) {
		(void)fputs("null", out);
		return;
	}
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (value < 0)
		*--at = '-';
	(void)fwrite(at, 1, (size_t)(text + sizeof(text) - at), out);
}

void dlp_html_number(struct dlp_html *html, const char *key, int64_t value)
{
	put_key(html, key);
	put_int(html->out, value);
}

/*
 * In JSON these stand inside strings only, where an escape means the same. "</script" and "<!--"
 * would end or change the element, and U+2028 and U+2029 (e2 80 a8, a9) end lines for some readers.
 */
void dlp_html_json(struct dlp_html *html, const char *key, const char *json)
{
	put_key(html, key);
	for (const char *at = json; *at; at++) {
		if (strchr("<>&", *at)) {
			(void)fprintf(html->out, "\\u%04x", (unsigned int)*at);
		} else if (!strncmp(at, "\xe2\x80\xa8", 3) || !strncmp(at, "\xe2\x80\xa9", 3)) {
			(void)fputs(at[2] == '\xa8' ? "\\u2028" : "\\u2029", html->out);
			at += 2;
		} else {
			(void)fputc(*at, html->out);
		}
	}
}

/* Cells of one column; `values` where there is no column. */
struct source {
	const struct dlp_html_column *column;
	const void *ctx;
	const int64_t *values;
};

static int64_t cell(const struct source *source, size_t row)
{
	int64_t value;

	if (!source->column)
		return source->values[row];
	value = source->column->cell(source->ctx, row);
	if (source->column->delta && row)
		value -= source->column->cell(source->ctx, row - 1);
	return value;
}

static void put_cells(struct dlp_html *html, const char *key, const struct source *source,
		      size_t rows)
{
	int64_t first = rows ? cell(source, 0) : DLP_HTML_NULL;
	size_t same = 0;

	while (same < rows && cell(source, same) == first)
		same++;
	if (same == rows) {
		dlp_html_number(html, key, first);
		return;
	}
	put_key(html, key);
	(void)fputc('[', html->out);
	for (size_t row = 0; row < rows; row++) {
		if (row)
			(void)fputc(',', html->out);
		put_int(html->out, cell(source, row));
	}
	(void)fputc(']', html->out);
}

void dlp_html_array(struct dlp_html *html, const char *key, const int64_t *values, size_t count)
{
	put_cells(html, key, &(struct source){ .values = values }, count);
}

void dlp_html_table(struct dlp_html *html, const char *key, const struct dlp_html_column *columns,
		    size_t column_cnt, const void *ctx, size_t rows, int64_t total)
{
	dlp_html_open(html, key, '{');
	dlp_html_number(html, "rows", (int64_t)rows);
	if (total != DLP_HTML_NULL)
		dlp_html_number(html, "total", total);
	for (size_t i = 0; i < column_cnt; i++)
		put_cells(html, columns[i].name, &(struct source){ columns + i, ctx, NULL }, rows);
	dlp_html_close(html, '}');
}

int64_t dlp_html_at(const struct dlp_html *html, uint64_t ns)
{
	if (!ns)
		return DLP_HTML_NULL;
	return (int64_t)(ns - html->history->start_ns) / (int64_t)DLP_NS_PER_US;
}

int64_t dlp_html_worker(const struct dlp_html *html, uint32_t pid, uint64_t ts_ns)
{
	const struct dlp_html_who *who = html->who;
	size_t low = 0, high = html->history->worker_cnt;

	/* past the last one of this pid that was born before */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (who[middle].pid < pid ||
		    (who[middle].pid == pid && who[middle].born_ns <= ts_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && who[low - 1].pid == pid ? (int64_t)who[low - 1].position : -1;
}
