/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary of several ranks: the document of the one that holds the job back (of the first when
 * none does), with "job" and "ranks" added, in which each rank's own document is.
 */
#ifndef DLP_SUMMARY_RANKS_H
#define DLP_SUMMARY_RANKS_H

#include "diagnose_ranks.h"
#include "summary.h"

/* All borrowed for the call. */
struct dlp_summary_rank {
	int rank; /* -1 = it has none */
	const struct dlp_model *model;
	const struct dlp_verdict *verdict;
	const struct dlp_summary_facts *facts;
	const char *record; /* its recording; NULL = none */
};

struct dlp_summary_job {
	const struct dlp_summary_rank *rank; /* cnt of them */
	size_t cnt;
	/* The comparison and what it is of, in the same order. */
	const struct dlp_ranks_verdict *compared;
	const struct dlp_rank_facts *facts;
	const char *text;		   /* the sentence on the job */
	size_t main;			   /* index of the rank whose document the top level is, */
	const struct dlp_verdict *verdict; /* and the verdict that stands there */
};

/* As dlp_summary_format() and dlp_summary_write(). */
int dlp_summary_ranks_format(const struct dlp_summary_job *job, char **ret_text);
int dlp_summary_ranks_write(const char *path, int fd, const struct dlp_summary_job *job,
			    char *error, size_t error_size);

#endif /* DLP_SUMMARY_RANKS_H */
