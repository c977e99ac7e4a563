/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One process observed, and the report on it: what both ways to profile share. */
#ifndef DLP_PROFILE_PRIV_H
#define DLP_PROFILE_PRIV_H

#include <stdio.h>

#include "observe.h"

struct dlp_run {
	struct dlp_observation observation;
	struct dlp_target target;
	struct dlp_summary_facts facts;
	/* once there was an observation, and for all later ones */
	bool is_prepared;
	struct dlp_stats_switch *stats; /* NULL = there is none */
	int summary_fd;			/* as of the observation */
};

/* The file of --events, open; *ret = NULL when there is none. 0, or -1 with a complaint. */
int dlp_run_open_events(const struct dlp_options *options, FILE **ret);
/* Complains when something could not be written; events may be NULL. */
enum dlp_exit dlp_run_close_events(const struct dlp_options *options, FILE *events);
/*
 * Observes run->target, which is open, or the process of its job that turns out to train instead:
 * then run->target is that one. observation.out, .launch and .finish are the caller's, the rest is
 * filled here. Complains, but not of a process of a command that was gone too soon.
 */
enum dlp_exit dlp_run_observe(struct dlp_run *run, const struct dlp_options *options, FILE *events);
/*
 * The same in steps, for several at once: open makes facts, model and the recording at `record`
 * (NULL = none) ready, close ends the recording. open: 0, or -1 with a complaint; either way
 * dlp_run_fini() is due. run->observation must be filled otherwise.
 */
int dlp_run_open(struct dlp_run *run, const char *record);
void dlp_run_close(struct dlp_run *run);
/*
 * Becomes the invoking user, with what watching these processes needs. Where that user may not
 * write the summary (NULL = none) it is opened before, unless *summary_fd is open. 0 or -errno.
 */
int dlp_run_settle(const char *summary, int *summary_fd, const pid_t *pids, size_t cnt);
/*
 * Verdict and figures of a closed window, for the screen and the file, and observation->gated;
 * complains.
 */
enum dlp_exit dlp_run_report(struct dlp_observation *observation);
void dlp_run_fini(struct dlp_run *run);
/* The last thing done with it. */
void dlp_run_end(struct dlp_run *run);
/*
 * Whether the files that are written at the end can be: 0, or -1 with a complaint that ends with
 * `consequence`.
 */
int dlp_run_check_files(const struct dlp_options *options, const char *consequence);
enum dlp_exit dlp_run_refusal(const struct dlp_target_failure *failure);

#endif /* DLP_PROFILE_PRIV_H */
