/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command line of `dlprof-bpf report`: one table, from which it is parsed and printed. */
#ifndef DLP_REPORT_OPTIONS_H
#define DLP_REPORT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report.h"

/* A moment as people give it, before the recording that it is about is known. */
struct dlp_when {
	enum {
		DLP_WHEN_NOT = 0,    /* not given */
		DLP_WHEN_ELAPSED,    /* ns after the window's start: "12.5", "250ms", "2m" */
		DLP_WHEN_MONOTONIC,  /* CLOCK_MONOTONIC: "123456789012ns", as --json has it */
		DLP_WHEN_TIME_OF_DAY, /* "14:03:07.25", local; the first one not before the start */
		DLP_WHEN_DATE,	     /* "2026-01-31 14:03:07.25", local; CLOCK_REALTIME */
	} kind;
	uint64_t ns;
};

/* Forms other than tables on stdout; a row each in report_options.c. */
enum dlp_report_form {
	DLP_FORM_JSON,
	DLP_FORM_CSV,
	DLP_FORM_TRACE,
	DLP_FORM_FOLDED,
	DLP_FORM_SMDEBUG,
	DLP_FORM_HTML,
	DLP_FORM_SVG,
	DLP_FORM_MAX,
};

struct dlp_report_options {
	const char *file;   /* the recording; borrowed from argv, like all strings */
	uint32_t sections;  /* 0 = all but the window, which is only for a stretch of time */
	struct dlp_when from, to;
	uint32_t loader, worker; /* 0 = all */
	const char *events, *dimensions; /* POSIX extended expressions that compile; NULL = all */
	const char *form[DLP_FORM_MAX];  /* where to write it; NULL = not wanted */
	size_t rows;
	bool help;
};

/*
 * argv[0] is "report". 0, or -EINVAL with one line in `error` that names what is wrong. Never
 * prints, never exits.
 */
int dlp_report_options_parse(int argc, char **argv, struct dlp_report_options *ret, char *error,
			     size_t error_size);
void dlp_report_options_help(FILE *out);

/* 0 or -EINVAL. */
int dlp_when_parse(const char *text, struct dlp_when *ret);
/*
 * The moment as CLOCK_MONOTONIC: start_ns and realtime_ns are the window's start on both clocks.
 * 0, or -EINVAL when it needs a clock time of a recording that has none.
 */
int dlp_when_resolve(const struct dlp_when *when, uint64_t start_ns, uint64_t realtime_ns,
		     uint64_t *ret_ns);

#endif /* DLP_REPORT_OPTIONS_H */
