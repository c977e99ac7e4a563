/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of observing several ranks share: ranks.c (the loop), ranks_report.c (the words). */
#ifndef DLP_RANKS_PRIV_H
#define DLP_RANKS_PRIV_H

#include "diagnose_ranks.h"
#include "observe_priv.h"
#include "profile_priv.h"
#include "rank_env.h"
#include "ranks.h"

struct dlp_rank {
	const struct dlp_ranks *ranks; /* it is one of these */
	struct dlp_run run;
	struct dlp_loop loop;
	struct dlp_rank_env env;
	char name[16]; /* "rank 1", or "4711" where it has no number: its lines begin with it */
	char who[40];  /* in a sentence: "rank 1 (pid 4711)" */
	char *record;  /* its recording; owned; NULL = none */
	bool is_named; /* by its number, which no other one has */
	bool is_open;  /* observed now */
	bool is_attached;
	bool is_common;			  /* observed since the common time began */
	struct dlp_sums common, interval; /* as of that moment, and of the last interval's end */
	struct dlp_verdict verdict;	  /* filled for the report */
};

struct dlp_ranks {
	const struct dlp_options *options;
	FILE *events, *out;
	const struct dlp_launch *launch;      /* NULL = they are of no command of ours */
	struct dlp_finder *finder;	      /* of more of them; NULL = there will be none */
	struct dlp_rank *rank[DLP_RANKS_MAX]; /* cnt of them, owned; they stay when they have ended */
	size_t cnt;
	size_t wanted; /* so many the launcher is to start */
	int epoll_fd, signal_fd;
	struct dlp_screen *screen; /* instead of the lines; NULL = none */
	uint64_t end_ns, next_ns;  /* of the observation, and of the interval */
	uint64_t look_ns;	   /* when to look for more ranks; UINT64_MAX = never */
	uint64_t lonely_ns;	   /* since when none is observed */
	bool stop, full_told;
	bool settled;	       /* privileges are given up: no rank can be added any more */
	int summary_fd;	       /* the summary, already open; < 0 = not */
	enum dlp_exit refused; /* why one could not be observed; DLP_EXIT_OK = all could */
	/* The comparison that says most so far. */
	struct dlp_ranks_verdict compared;
	struct dlp_rank_facts facts[DLP_RANKS_MAX];
	double compared_s;
};

/* ranks_report.c: names a rank and its recording. 0 or -ENOMEM. */
int dlp_ranks_name(const struct dlp_ranks *ranks, struct dlp_rank *rank);
/* Compares what is common to the ranks now, and keeps it when it says more than what there is. */
void dlp_ranks_compare(struct dlp_ranks *ranks);
/* What is said of the job behind its ranks' interval: a line, or the screen's overview. */
void dlp_ranks_say_interval(struct dlp_ranks *ranks);
/* The windows are closed: verdicts, summary, report. */
enum dlp_exit dlp_ranks_report(struct dlp_ranks *ranks);

#endif /* DLP_RANKS_PRIV_H */
