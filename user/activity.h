/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the system and the job did in any part of a run, from its history: threads' states, CPUs
 * used, block IO. Long waits and scopes are exact; the rest of a thread's time is split as it was
 * between the two clock readings around it. Pure.
 */
#ifndef DLP_ACTIVITY_H
#define DLP_ACTIVITY_H

#include "history.h"
#include "map.h"
#include "spans.h"

struct dlp_activity {
	const struct dlp_history *history;
	struct dlp_spans calls, productions, samples, waits, scopes, blocks, requests;
	struct dlp_map workers; /* pids */
};

/* 0, or -ENOMEM and nothing to free. */
int dlp_activity_init(struct dlp_activity *activity, const struct dlp_history *history);
void dlp_activity_fini(struct dlp_activity *activity);

bool dlp_activity_worker(const struct dlp_activity *activity, uint32_t pid);
/* Split of that time on one thread, or (tid 0) over the main threads of all workers; 0 = unknown. */
void dlp_activity_split(const struct dlp_activity *activity, uint32_t tid, uint64_t from_ns,
			uint64_t to_ns, struct dlp_clock *ret);
/* CPUs that the job used on average, and processes outside it; NAN = unknown. */
double dlp_activity_job_cpus(const struct dlp_activity *activity, uint64_t from_ns, uint64_t to_ns);
double dlp_activity_others_cpus(const struct dlp_activity *activity, uint64_t from_ns,
				uint64_t to_ns);
/*
 * The process outside the job that used most CPU time, pid 0 = none known, and how many CPUs on
 * average. Its name is not terminated when full, and untrusted.
 */
const struct dlp_history_other *dlp_activity_top_other(const struct dlp_activity *activity,
						       uint64_t from_ns, uint64_t to_ns,
						       double *ret_cpus);

/* Block IO completed, intervals that overlap partly taken in proportion. */
struct dlp_activity_io {
	double reads, read_bytes, write_bytes;
	uint64_t slowest_ns; /* of the reads kept one by one; 0 = none was slow */
};

void dlp_activity_io(const struct dlp_activity *activity, uint64_t from_ns, uint64_t to_ns,
		     struct dlp_activity_io *ret);

#endif /* DLP_ACTIVITY_H */
