/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides what the probes do without when they cost the job more CPU time than they may: step by
 * step, and back again when there is room. Pure: fed with measured costs, says what to do. What
 * the steps are: enum dlp_govern_step. No step touches what is counted of GetNext.
 */
#ifndef DLP_GOVERNOR_H
#define DLP_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/event.h"

#define DLP_PPM_PER_PERCENT 10000u

/* Whose programs cost the time. */
enum dlp_cost_part {
	DLP_COST_SCOPES,
	DLP_COST_CLOCKS, /* long waits included */
	DLP_COST_MESSAGES,
	DLP_COST_REST,
	DLP_COST_PARTS,
};

/* One interval in which the cost was measured all the time. */
struct dlp_cost_sample {
	uint64_t now_ns; /* its end */
	uint64_t part_ns[DLP_COST_PARTS];
	uint64_t job_ns; /* CPU time of the job's processes, or of one CPU where that is more */
};

struct dlp_governor {
	uint32_t limit_ppm;
	uint32_t possible;	     /* bits of the steps that would change anything here, */
	uint32_t final;		     /* and of those that cannot be taken back */
	uint32_t measured_ppm;	     /* DLP_GOV_UNKNOWN = not yet */
	uint64_t probe_ns, job_ns;   /* of that measurement */
	uint32_t taken[DLP_GOV_MAX]; /* taken_cnt steps, oldest first */
	size_t taken_cnt;
	uint32_t undone;	   /* bits of steps that were taken back once */
	uint32_t useless;	   /* and of those that had saved too little */
	bool on_trial;		   /* the newest step: did it help? When it was taken, */
	uint32_t trial_ppm;	   /* what it should save a part of cost so much, */
	uint32_t trial_excess_ppm; /* and so much was too much */
	bool unmet;
	bool over;	       /* the newest sample is above the limit */
	unsigned int over_cnt; /* samples above the limit in a row */
	bool settling;	       /* the next sample still sees the time before a step */
	uint64_t calm_ns;      /* well below the limit since; 0 = not */
	uint64_t patience_ns;  /* so long it has to be before a step is taken back */
};

/* Bits of the steps to choose from, and of those among them that are not taken back. */
void dlp_governor_init(struct dlp_governor *governor, uint32_t limit_ppm, uint32_t possible,
		       uint32_t final);
/* Takes a measurement. True when the steps to take, or whether the limit is met, have changed. */
bool dlp_governor_measured(struct dlp_governor *governor, const struct dlp_cost_sample *sample);
/* Too much, and something may be done about it: the next interval should be measured, too. */
bool dlp_governor_alert(const struct dlp_governor *governor);
uint32_t dlp_governor_active(const struct dlp_governor *governor); /* bits of the steps taken */
/* The state as an event; hdr.tgid is left to the caller. */
void dlp_governor_event(const struct dlp_governor *governor, uint64_t now_ns,
			struct dlp_ev_govern *ret);

/* "labels_off", and "without record_function labels"; NULL for numbers that are no step. */
const char *dlp_governor_step_id(uint32_t step);
const char *dlp_governor_step_text(uint32_t step);

#endif /* DLP_GOVERNOR_H */
