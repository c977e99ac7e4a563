/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report's tables: typed cells that are printed for people, as JSON or as CSV. What was not
 * measured is "-", null or empty. Pure.
 */
#ifndef DLP_REPORT_TABLE_H
#define DLP_REPORT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dlprof/event.h"

/* What a column holds; keys of NS end in _us, keys of TIME in _ns. */
enum dlp_cell_kind {
	DLP_CELL_COUNT,
	DLP_CELL_ID,	/* a number that names something; 0 = unknown */
	DLP_CELL_INDEX, /* of a batch; -1 = unknown */
	DLP_CELL_NS,	/* duration: microseconds in JSON and CSV */
	DLP_CELL_TIME,	/* CLOCK_MONOTONIC; for people seconds from the window's start; 0 = unknown */
	DLP_CELL_BYTES,
	DLP_CELL_NUMBER, /* NAN = unknown */
	DLP_CELL_RATIO,	 /* for people in percent; NAN = unknown */
	DLP_CELL_TEXT,
	DLP_CELL_SPLIT, /* struct dlp_clock */
};

struct dlp_column {
	const char *key;
	const char *title; /* for people; NULL = the column is for machines only */
	enum dlp_cell_kind kind;
};

struct dlp_cell {
	bool known;
	union {
		uint64_t count;
		int64_t index;
		double number;
		char *text;	      /* owned; as the job wrote it */
		struct dlp_clock *split; /* owned */
	};
};

/* What a table is: static. The last column's key is NULL. */
struct dlp_table_form {
	const char *key;   /* in JSON; in CSV part of the file's name */
	const char *title; /* for people */
	const struct dlp_column *column;
};

struct dlp_table {
	const struct dlp_table_form *form;
	size_t column_cnt;
	struct dlp_cell *cell; /* row by row */
	size_t row_cnt, room;
	size_t fill;  /* cells of the last row that are filled */
	bool failed; /* memory was short */
};

void dlp_table_init(struct dlp_table *table, const struct dlp_table_form *form);
void dlp_table_fini(struct dlp_table *table);

/* A new row; its cells are then put from left to right, those left out are unknown. */
void dlp_row(struct dlp_table *table);
void dlp_put_count(struct dlp_table *table, uint64_t value); /* COUNT, ID, NS, TIME, BYTES */
/* Three cells: TIME, TIME and, as NS, what lies between. */
void dlp_put_span(struct dlp_table *table, uint64_t start_ns, uint64_t end_ns);
void dlp_put_index(struct dlp_table *table, int64_t value);
void dlp_put_number(struct dlp_table *table, double value); /* NUMBER, RATIO */
void dlp_put_text(struct dlp_table *table, const char *text); /* copied; "", NULL = unknown */
void dlp_put_split(struct dlp_table *table, const struct dlp_clock *split); /* copied */
void dlp_put_unknown(struct dlp_table *table);

/* The largest value of this column (NS, COUNT) first; keeps the order of equal ones. */
void dlp_table_sort(struct dlp_table *table, size_t column);

/* At most `rows` of them; times are told from origin_ns on. */
void dlp_table_print(const struct dlp_table *table, FILE *out, uint64_t origin_ns, size_t rows);
/* Array of objects; NULL = out of memory. */
json_t *dlp_table_json(const struct dlp_table *table);
/*
 * RFC 4180 with a header line. Texts are quoted, and those that a spreadsheet would take for a
 * formula get a ' in front.
 */
void dlp_table_csv(const struct dlp_table *table, FILE *out);

/* "812 us", "4.21 ms"; returns buf. */
const char *dlp_say_ns(uint64_t ns, char *buf, size_t size);

#endif /* DLP_REPORT_TABLE_H */
