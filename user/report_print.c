/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's tables for people: columns as wide as what stands in them. */
#include "report_table.h"

#include <math.h>
#include <string.h>

#include "split.h"
#include "util.h"

/* The longest text of a cell; labels go up to 96. */
#define CELL_MAX 64
#define COLUMNS_MAX 32
/* States of a split that are named; the rest is added up. */
#define SPLIT_PARTS 3

const char *dlp_say_ns(uint64_t ns, char *buf, size_t size)
{
	double us = (double)ns / 1e3;

	if (us < 999.5)
		(void)snprintf(buf, size, us < 9.95 ? "%.1f us" : "%.0f us", us);
	else if (us < 999.5e3)
		(void)snprintf(buf, size,
			       us < 9.995e3 ? "%.2f ms" :
			       us < 99.95e3 ? "%.1f ms" :
					      "%.0f ms",
			       us / 1e3);
	else
		(void)snprintf(buf, size, us < 9.995e6 ? "%.2f s" : "%.1f s", us / 1e6);
	return buf;
}

static void say_bytes(uint64_t value, char *buf, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double left = (double)value;
	size_t unit = 0;

	for (; left >= 1023.5 && unit + 1 < DLP_ARRAY_SIZE(units); unit++)
		left /= 1024;
	(void)snprintf(buf, size, unit && left < 9.95 ? "%.1f %s" : "%.0f %s", left, units[unit]);
}

/* "run 88 disk 7 rest 5 %", the largest first. */
static void say_split(const struct dlp_clock *split, char *buf, size_t size)
{
	struct dlp_share share[DLP_ST_MAX];
	size_t cnt = dlp_split_rank(split, false, share), len = 0;
	int shown = 0;

	for (size_t i = 0; i < cnt && i < SPLIT_PARTS; i++) {
		int value = (int)lround(share[i].share * 100);

		if (i && !value)
			break;
		len += (size_t)snprintf(buf + len, size - len, "%s %d ",
					dlp_split_state_id(share[i].state), value);
		shown += value;
	}
	if (shown < 100)
		len += (size_t)snprintf(buf + len, size - len, "rest %d ", 100 - shown);
	(void)snprintf(buf + len, size - len, "%%");
}

static void say_text(const char *text, char *buf, size_t size)
{
	dlp_sanitise(buf, size - 3, text, strlen(text));
	if (strlen(text) > size - 4)
		memcpy(buf + strlen(buf), "...", 4);
}

static void say_cell(const struct dlp_cell *cell, enum dlp_cell_kind kind, uint64_t origin_ns,
		     char *buf, size_t size)
{
	if (!cell->known) {
		(void)snprintf(buf, size, "-");
		return;
	}
	switch (kind) {
	case DLP_CELL_INDEX:
		(void)snprintf(buf, size, "%lld", (long long)cell->index);
		break;
	case DLP_CELL_NS:
		dlp_say_ns(cell->count, buf, size);
		break;
	case DLP_CELL_TIME:
		/* before the window: negative */
		(void)snprintf(buf, size, "%.6f",
			       (double)(int64_t)(cell->count - origin_ns) / 1e9);
		break;
	case DLP_CELL_BYTES:
		say_bytes(cell->count, buf, size);
		break;
	case DLP_CELL_NUMBER:
		(void)snprintf(buf, size, "%.2f", cell->number);
		break;
	case DLP_CELL_RATIO:
		(void)snprintf(buf, size, "%.1f %%", cell->number * 100);
		break;
	case DLP_CELL_TEXT:
		say_text(cell->text, buf, size);
		break;
	case DLP_CELL_SPLIT:
		say_split(cell->split, buf, size);
		break;
	default:
		(void)snprintf(buf, size, "%llu", (unsigned long long)cell->count);
		break;
	}
}

/* Columns a text takes: characters, not bytes. */
static int width_of(const char *text)
{
	int cnt = 0;

	for (; *text; text++)
		cnt += ((unsigned char)*text & 0xc0) != 0x80;
	return cnt;
}

static bool flush_left(const struct dlp_column *column)
{
	return column->kind == DLP_CELL_TEXT || column->kind == DLP_CELL_SPLIT;
}

static void print_padded(FILE *out, const char *text, int width, bool left, bool last)
{
	int blanks = width - width_of(text);

	fprintf(out, "  %*s%s", left ? 0 : blanks, "", text);
	if (left && !last)
		fprintf(out, "%*s", blanks, "");
}

static size_t last_shown(const struct dlp_table *table)
{
	size_t last = 0;

	for (size_t j = 0; j < table->column_cnt; j++) {
		if (table->form->column[j].title)
			last = j;
	}
	return last;
}

void dlp_table_print(const struct dlp_table *table, FILE *out, uint64_t origin_ns, size_t rows)
{
	const struct dlp_column *column = table->form->column;
	size_t shown = table->row_cnt < rows ? table->row_cnt : rows, last = last_shown(table);
	size_t columns = table->column_cnt < COLUMNS_MAX ? table->column_cnt : COLUMNS_MAX;
	int width[COLUMNS_MAX];
	char buf[CELL_MAX];

	fprintf(out, "\n%s%s\n", table->form->title, table->row_cnt ? "" : ": none");
	if (!table->row_cnt)
		return;
	for (size_t j = 0; j < columns; j++) {
		width[j] = column[j].title ? width_of(column[j].title) : 0;
		for (size_t i = 0; column[j].title && i < shown; i++) {
			say_cell(&table->cell[i * table->column_cnt + j], column[j].kind,
				 origin_ns, buf, sizeof(buf));
			if (width_of(buf) > width[j])
				width[j] = width_of(buf);
		}
	}
	for (size_t j = 0; j < columns; j++) {
		if (column[j].title)
			print_padded(out, column[j].title, width[j], flush_left(&column[j]),
				     j == last);
	}
	fputc('\n', out);
	for (size_t i = 0; i < shown; i++) {
		for (size_t j = 0; j < columns; j++) {
			if (!column[j].title)
				continue;
			say_cell(&table->cell[i * table->column_cnt + j], column[j].kind,
				 origin_ns, buf, sizeof(buf));
			print_padded(out, buf, width[j], flush_left(&column[j]), j == last);
		}
		fputc('\n', out);
	}
	if (table->row_cnt > shown)
		fprintf(out, "  and %zu more (--rows, --json and --csv show them)\n",
			table->row_cnt - shown);
}
