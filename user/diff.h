/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two summaries compared: what changed from the first run to the second, and which of it is more
 * than two runs of the same job would differ by. Pure; the documents are untrusted.
 */
#ifndef DLP_DIFF_H
#define DLP_DIFF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define DLP_DIFF_FIGURES_MAX 64
/* Loaders whose figures are compared one by one. */
#define DLP_DIFF_LOADERS_MAX 8

enum dlp_diff_unit { DLP_DIFF_RATIO, DLP_DIFF_US, DLP_DIFF_PER_S };

struct dlp_diff_figure {
	char id[64];   /* "exposed_wait_ratio", "loader 1 getnext_median_us" */
	char text[64]; /* for people */
	enum dlp_diff_unit unit;
	double a, b;  /* NAN = not measured there */
	double noise; /* a difference up to this says nothing; NAN = not known */
	int better;   /* 1 = more is better, -1 = less, 0 = neither */
};

struct dlp_diff {
	const json_t *a, *b; /* borrowed */
	struct dlp_diff_figure figure[DLP_DIFF_FIGURES_MAX];
	size_t figure_cnt;
	bool verdict_changed; /* bottleneck, cause or severity */
};

/*
 * 0, or -EINVAL with *ret_bad the document (0 or 1) that is no summary. The documents are borrowed
 * for as long as *ret is used.
 */
int dlp_diff_make(const json_t *a, const json_t *b, struct dlp_diff *ret, int *ret_bad);
/* More than noise: 1 yes, 0 no, -1 cannot be told. */
int dlp_diff_beyond(const struct dlp_diff_figure *figure);

/* For people; the names are of the two files, untrusted. */
void dlp_diff_text(FILE *out, const struct dlp_diff *diff, const char *name_a, const char *name_b);
/* {schema "dlprof.diff/1", a, b, verdict, figures}; NULL = out of memory. */
json_t *dlp_diff_json(const struct dlp_diff *diff, const char *name_a, const char *name_b);

#endif /* DLP_DIFF_H */
