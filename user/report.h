/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The post-mortem of a run: sections of tables made from its history, for the part of it that was
 * selected. Pure.
 */
#ifndef DLP_REPORT_H
#define DLP_REPORT_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "history.h"
#include "report_table.h"

#define DLP_REPORT_SCHEMA "dlprof.report/1"

/* Every section: NAME, name. The order is that of the report. */
#define DLP_REPORT_SECTIONS(X)                                                                     \
	X(VERDICT, verdict)                                                                        \
	X(ITERATORS, iterators)                                                                    \
	X(WORKERS, workers)                                                                        \
	X(GETNEXT, getnext)                                                                        \
	X(BATCHTIME, batchtime)                                                                    \
	X(PREFETCH, prefetch)                                                                      \
	X(STAGES, stages)                                                                          \
	X(TIMELINE, timeline)                                                                      \
	X(WINDOW, window)

enum dlp_report_section {
#define X(NAME, name) DLP_SECTION_##NAME,
	DLP_REPORT_SECTIONS(X)
#undef X
	DLP_SECTION_MAX,
};

/* What of the history is reported. Zeroed but for to_ns = UINT64_MAX, it is all of it. */
struct dlp_selection {
	uint64_t from_ns, to_ns; /* what ended from the one to the other, both included */
	uint32_t loader;	 /* 0 = all */
	uint32_t worker;	 /* pid; 0 = all */
	const regex_t *events;	 /* NULL = all */
	const regex_t *dimensions;
};

struct dlp_report {
	const struct dlp_history *history; /* finished */
	struct dlp_selection selection;
	uint32_t sections; /* bits, 1u << enum dlp_report_section */
	size_t rows;	   /* of a table for people */
};

/* Number of the section; -1 = there is none of that name. */
int dlp_report_section_find(const char *name);
const char *dlp_report_section_name(enum dlp_report_section section);

/* 0 or -ENOMEM. */
int dlp_report_print(const struct dlp_report *report, FILE *out);
/* One JSON document with a newline at its end. 0 or -ENOMEM. */
int dlp_report_json(const struct dlp_report *report, FILE *out);
/*
 * Each table as CSV: `open` gives the stream for one ("getnext_outliers"), which is then given to
 * `done`; either may fail with a negative errno, which ends it. 0, -ENOMEM, or their error.
 */
struct dlp_csv_files {
	int (*open)(void *ctx, const char *name, FILE **ret);
	int (*done)(void *ctx, FILE *file);
	void *ctx;
};
int dlp_report_csv(const struct dlp_report *report, const struct dlp_csv_files *files);

#endif /* DLP_REPORT_H */
