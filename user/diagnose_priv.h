/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the diagnosis's own files share: the facts judged, the table of causes, the wording. */
#ifndef DLP_DIAGNOSE_PRIV_H
#define DLP_DIAGNOSE_PRIV_H

#include "diagnose.h"
#include "loss.h"
#include "split.h"

/* Everything the rules look at, taken from the model once. */
struct dlp_facts {
	const struct dlp_model *model;
	double window_s;
	double exposed;			 /* 0..1; NAN = not measured */
	uint64_t calls;			 /* GetNext calls that ended */
	const struct dlp_loader *loader; /* the one training waits for most; NULL = none seen */
	bool main_makes;		 /* num_workers=0: the training thread makes the batches */
	size_t workers;			 /* with a clock */
	struct dlp_clock made;		 /* whoever makes the batches; idle included */
	double idle;			 /* workers' idle share of their time; NAN = no workers */
	struct dlp_share share[DLP_ST_MAX]; /* of the production time, largest first */
	size_t share_cnt;
	bool idle_much; /* so idle that the workers do not limit the rate */
	bool births;	/* workers are born again and again: start-up may be what costs */
	double stuck_s; /* the training thread has been in one unfinished GetNext so long */
	bool asleep;	/* and nobody who could end that has run lately */
	struct dlp_loss loss;
};

struct dlp_cause_info {
	unsigned int state; /* whose share is this cause's; DLP_ST_MAX = not told from a state */
	const char *doing;  /* "spend 88 % of their production time ..." */
	bool plain;	    /* a clear majority of that state alone convicts */
	struct dlp_advice advice[DLP_ADVICE_MAX]; /* up to the first without a text */
};

const struct dlp_cause_info *dlp_cause_info(enum dlp_cause cause);
/* DLP_CAUSE_NONE where a state has no cause of its own. */
enum dlp_cause dlp_cause_of_state(unsigned int state, bool main_makes);
const char *dlp_state_doing(unsigned int state);

/* Fill verdict->text, evidence and advice from what was decided. */
void dlp_say_verdict(const struct dlp_facts *facts, struct dlp_verdict *verdict);

#endif /* DLP_DIAGNOSE_PRIV_H */
