/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Making tables, and the two forms of them that machines read. */
#include "report_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "split.h"
#include "util.h"

void dlp_table_init(struct dlp_table *table, const struct dlp_table_form *form)
{
	*table = (struct dlp_table){ .form = form };
	while (form->column[table->column_cnt].key)
		table->column_cnt++;
}

void dlp_table_fini(struct dlp_table *table)
{
	for (size_t i = 0; i < table->row_cnt * table->column_cnt; i++) {
		enum dlp_cell_kind kind = table->form->column[i % table->column_cnt].kind;

		if (kind == DLP_CELL_TEXT)
			free(table->cell[i].text);
		else if (kind == DLP_CELL_SPLIT)
			free(table->cell[i].split);
	}
	free(table->cell);
	memset(table, 0, sizeof(*table));
}

void dlp_row(struct dlp_table *table)
{
	size_t row_bytes = table->column_cnt * sizeof(*table->cell);

	table->fill = 0;
	if (table->failed)
		return;
	if (dlp_grow(&table->cell, &table->room, table->row_cnt, row_bytes)) {
		table->failed = true;
		return;
	}
	memset(&table->cell[table->row_cnt++ * table->column_cnt], 0, row_bytes);
}

/* The next cell of the row; NULL where memory was short. */
static struct dlp_cell *next(struct dlp_table *table, enum dlp_cell_kind *ret_kind)
{
	size_t at = table->fill++;

	if (table->failed || at >= table->column_cnt)
		return NULL;
	*ret_kind = table->form->column[at].kind;
	return &table->cell[(table->row_cnt - 1) * table->column_cnt + at];
}

void dlp_put_count(struct dlp_table *table, uint64_t value)
{
	enum dlp_cell_kind kind;
	struct dlp_cell *cell = next(table, &kind);

	if (!cell)
		return;
	cell->count = value;
	cell->known = value || (kind != DLP_CELL_ID && kind != DLP_CELL_TIME);
}

void dlp_put_span(struct dlp_table *table, uint64_t start_ns, uint64_t end_ns)
{
	dlp_put_count(table, start_ns);
	dlp_put_count(table, end_ns);
	dlp_put_count(table, end_ns - start_ns);
}

void dlp_put_index(struct dlp_table *table, int64_t value)
{
	enum dlp_cell_kind kind;
	struct dlp_cell *cell = next(table, &kind);

	if (!cell)
		return;
	cell->index = value;
	cell->known = value >= 0;
}

void dlp_put_number(struct dlp_table *table, double value)
{
	enum dlp_cell_kind kind;
	struct dlp_cell *cell = next(table, &kind);

	if (!cell)
		return;
	cell->number = value;
	cell->known = isfinite(value);
}

void dlp_put_text(struct dlp_table *table, const char *text)
{
	enum dlp_cell_kind kind;
	struct dlp_cell *cell = next(table, &kind);

	if (!cell || !text || !*text)
		return;
	cell->text = strdup(text);
	cell->known = cell->text;
	table->failed |= !cell->text;
}

void dlp_put_split(struct dlp_table *table, const struct dlp_clock *split)
{
	enum dlp_cell_kind kind;
	struct dlp_cell *cell = next(table, &kind);

	/* without state clocks every split is empty */
	if (!cell || !split || !dlp_split_sum(split))
		return;
	cell->split = malloc(sizeof(*cell->split));
	cell->known = cell->split;
	table->failed |= !cell->split;
	if (cell->split)
		*cell->split = *split;
}

void dlp_put_unknown(struct dlp_table *table)
{
	enum dlp_cell_kind kind;

	(void)next(table, &kind);
}

struct keyed {
	uint64_t key;
	size_t row;
};

static int larger_first(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return (x->row > y->row) - (x->row < y->row);
}

void dlp_table_sort(struct dlp_table *table, size_t column)
{
	size_t row_bytes = table->column_cnt * sizeof(*table->cell);
	_cleanup_free_ struct keyed *order = NULL;
	struct dlp_cell *sorted;

	if (table->row_cnt < 2)
		return;
	order = malloc(table->row_cnt * sizeof(*order));
	sorted = malloc(table->row_cnt * row_bytes);
	if (!order || !sorted) {
		free(sorted);
		table->failed = true;
		return;
	}
	for (size_t i = 0; i < table->row_cnt; i++)
		order[i] = (struct keyed){ table->cell[i * table->column_cnt + column].count, i };
	qsort(order, table->row_cnt, sizeof(*order), larger_first);
	for (size_t i = 0; i < table->row_cnt; i++)
		memcpy(&sorted[i * table->column_cnt],
		       &table->cell[order[i].row * table->column_cnt], row_bytes);
	free(table->cell);
	table->cell = sorted;
	table->room = table->row_cnt;
}

/* Microseconds with the clock's own resolution. */
static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

/* All of the states, or NULL: one that is missing would pass for unmeasured. */
static json_t *split_json(const struct dlp_clock *split)
{
	json_t *object = json_object();
	char key[24];

	for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
		(void)snprintf(key, sizeof(key), "%s_us", dlp_split_state_id(i));
		if (json_object_set_new(object, key, json_real(us(split->ns[i])))) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

static json_t *text_json(const char *text)
{
	size_t bytes = strlen(text);
	char *clean = malloc(bytes + 1);
	json_t *ret = NULL;

	if (clean)
		ret = json_string(dlp_sanitise(clean, bytes + 1, text, bytes));
	free(clean);
	return ret;
}

static json_t *cell_json(const struct dlp_cell *cell, enum dlp_cell_kind kind)
{
	if (!cell->known)
		return json_null();
	switch (kind) {
	case DLP_CELL_INDEX:
		return json_integer(cell->index);
	case DLP_CELL_NS:
		return json_real(us(cell->count));
	case DLP_CELL_NUMBER:
	case DLP_CELL_RATIO:
		return json_real(cell->number);
	case DLP_CELL_TEXT:
		return text_json(cell->text);
	case DLP_CELL_SPLIT:
		return split_json(cell->split);
	default:
		return json_integer((json_int_t)cell->count);
	}
}

json_t *dlp_table_json(const struct dlp_table *table)
{
	json_t *array = json_array();
	bool failed = table->failed || !array;

	for (size_t i = 0; i < table->row_cnt && !failed; i++) {
		json_t *object = json_object();

		for (size_t j = 0; j < table->column_cnt && !failed; j++) {
			const struct dlp_column *column = &table->form->column[j];

			failed = json_object_set_new(
				object, column->key,
				cell_json(&table->cell[i * table->column_cnt + j], column->kind));
		}
		failed |= json_array_append_new(array, object) != 0;
	}
	if (!failed)
		return array;
	json_decref(array);
	return NULL;
}

static void csv_text(const char *text, FILE *out)
{
	size_t bytes = strlen(text);
	_cleanup_free_ char *clean = malloc(bytes + 1);

	if (!clean)
		return;
	dlp_sanitise(clean, bytes + 1, text, bytes);
	fputc('"', out);
	/* what begins so is run by spreadsheets, blanks before it or not */
	if (strchr("=+-@", clean[strspn(clean, " ")]) && *clean)
		fputc('\'', out);
	for (const char *at = clean; *at; at++) {
		if (*at == '"')
			fputc('"', out);
		fputc(*at, out);
	}
	fputc('"', out);
}

static void csv_cell(const struct dlp_cell *cell, enum dlp_cell_kind kind, FILE *out)
{
	if (kind == DLP_CELL_SPLIT) {
		for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
			fputs(i ? "," : "", out);
			if (cell->known)
				fprintf(out, "%.3f", us(cell->split->ns[i]));
		}
		return;
	}
	if (!cell->known)
		return;
	switch (kind) {
	case DLP_CELL_INDEX:
		fprintf(out, "%lld", (long long)cell->index);
		break;
	case DLP_CELL_NS:
		fprintf(out, "%.3f", us(cell->count));
		break;
	case DLP_CELL_NUMBER:
	case DLP_CELL_RATIO:
		fprintf(out, "%.9g", cell->number);
		break;
	case DLP_CELL_TEXT:
		csv_text(cell->text, out);
		break;
	default:
		fprintf(out, "%llu", (unsigned long long)cell->count);
		break;
	}
}

void dlp_table_csv(const struct dlp_table *table, FILE *out)
{
	for (size_t j = 0; j < table->column_cnt; j++) {
		const struct dlp_column *column = &table->form->column[j];

		fputs(j ? "," : "", out);
		if (column->kind != DLP_CELL_SPLIT)
			fputs(column->key, out);
		for (unsigned int i = 0; column->kind == DLP_CELL_SPLIT && i < DLP_ST_MAX; i++)
			fprintf(out, "%s%s_%s_us", i ? "," : "", column->key,
				dlp_split_state_id(i));
	}
	fputs("\r\n", out);
	for (size_t i = 0; i < table->row_cnt; i++) {
		for (size_t j = 0; j < table->column_cnt; j++) {
			fputs(j ? "," : "", out);
			csv_cell(&table->cell[i * table->column_cnt + j],
				 table->form->column[j].kind, out);
		}
		fputs("\r\n", out);
	}
}
