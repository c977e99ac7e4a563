/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which of several training processes ("ranks") of one job holds the others back. In synchronous
 * training all of them take as long for a step: who gets its batch late makes the others wait where
 * they exchange gradients, which is outside GetNext. Pure code over sums of their models.
 */
#ifndef DLP_DIAGNOSE_RANKS_H
#define DLP_DIAGNOSE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose.h"

/* A node has 8 or 16 accelerators, and each rank costs a ring and a set of attached programs. */
#define DLP_RANKS_MAX 16

/* A rank's time since some moment, which is to be the same for all. Shares of it are 0..1. */
struct dlp_rank_facts {
	bool known; /* enough was seen of it */
	double window_s;
	uint64_t steps; /* GetNext calls that ended */
	double exposed; /* exposed total: inside GetNext, and starting and ending workers */
	double blocked; /* asleep outside GetNext, as in collectives, and never what `exposed` has */
	double running; /* on a CPU outside GetNext, spinning included */
};

/* `since` as in dlp_diagnose. */
void dlp_rank_facts_take(const struct dlp_model *model, const struct dlp_sums *since,
			 struct dlp_rank_facts *ret);

struct dlp_ranks_verdict {
	size_t known;	/* ranks that were compared */
	bool in_step;	/* they train in step; without that nothing below is said */
	int slowest;	/* index of the rank that the others wait for; -1 = none */
	bool by_loader; /* and they do because its loader is slow */
	enum dlp_confidence confidence;
	double wait;		    /* of their time, on average, that the others wait for it */
	double held[DLP_RANKS_MAX]; /* of its time that this rank waits for the slowest one's loader */
};

/* `facts` of cnt <= DLP_RANKS_MAX ranks. */
void dlp_diagnose_ranks(const struct dlp_rank_facts *facts, size_t cnt,
			struct dlp_ranks_verdict *ret);

/*
 * The verdict on one rank, as dlp_diagnose has it, with what it waits for another: `held` of its
 * time for the loader of the rank that `who` names. Below the limit nothing changes. Where data
 * loading is its own bottleneck, too, its candidates' shares are of both waits together from now
 * on; where it is not, the cause stays none, and the share is of its time.
 */
void dlp_ranks_blame(double held, const char *who, enum dlp_confidence confidence,
		     struct dlp_verdict *verdict);

/* One sentence on the job as a whole; `who` are the ranks' names. Returns buf. */
const char *dlp_ranks_sentence(const struct dlp_ranks_verdict *verdict,
			       const struct dlp_rank_facts *facts, const char *const *who,
			       char *buf, size_t size);

#endif /* DLP_DIAGNOSE_RANKS_H */
