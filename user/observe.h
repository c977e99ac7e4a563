/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One observation of a running job, from attaching to the last figure: the event loop. Reads the
 * ring, closes intervals, feeds the model; ends with the duration, the target or a signal.
 */
#ifndef DLP_OBSERVE_H
#define DLP_OBSERVE_H

#include <stdio.h>

#include "cli.h"
#include "launch.h"
#include "model.h"
#include "record.h"
#include "session.h"
#include "summary.h"
#include "target.h"

struct dlp_observation {
	const struct dlp_options *options;
	const struct dlp_target *target;
	struct dlp_model *model;	 /* filled; the caller's */
	struct dlp_summary_facts *facts; /* filled once attached */
	struct dlp_missing missing[DLP_FEATURE_MAX]; /* what facts->missing points to */
	FILE *events;			 /* every event as a line, or NULL */
	struct dlp_record *record;	 /* every event as it came, or NULL */
	FILE *out;			 /* attach and interval lines */
	struct dlp_stats_switch *stats;	 /* as of dlp_session_opts */
	int summary_fd;			 /* the summary, already open; < 0 = not */
	/*
	 * Its name among several that are observed together: then its lines begin with it, and signals
	 * are the caller's, who runs the loop itself (observe_priv.h). NULL: it is observed alone.
	 */
	const char *rank;
	/*
	 * The command that we have started and that the target belongs to; signals are passed on to
	 * it and do not end the observation, its own end does. NULL: we have attached to a job.
	 */
	const struct dlp_launch *launch;
	/*
	 * Set when the target had not iterated any DataLoader, but this process of its job, which is
	 * no worker of it, did (a rank, forked or spawned): then the observation ends without `finish`.
	 */
	pid_t other;
	/*
	 * What --fail-if makes of the run, once it is reported: DLP_EXIT_OK, DLP_EXIT_GATE, or
	 * DLP_EXIT_FAILURE where nothing can tell. Not among what `finish` returns: a command's own
	 * failure comes before it.
	 */
	enum dlp_exit gated;
	bool gone; /* it was never observed because it had ended too soon */
	/*
	 * Called once everything is attached and open, and the target has proved to be what trains:
	 * gives up what privileges are not needed any more. 0 or -errno, which ends the observation.
	 */
	int (*settle)(struct dlp_observation *observation);
	/*
	 * Called when the window is closed, before the probes are detached: that can take a tenth of
	 * a second, and whoever pressed Ctrl-C may not give us as much.
	 */
	enum dlp_exit (*finish)(struct dlp_observation *observation);
};

/*
 * What `finish` returned; or why it was never called, with one line for people in error (which is
 * left empty otherwise).
 */
enum dlp_exit dlp_observe(struct dlp_observation *observation, char *error, size_t error_size);

#endif /* DLP_OBSERVE_H */
