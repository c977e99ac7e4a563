/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Several training processes ("ranks") of one job observed together: each has a session, a model
 * and a recording of its own; one event loop runs them all, compares them, and reports on the job.
 */
#ifndef DLP_RANKS_H
#define DLP_RANKS_H

#include <stdio.h>
#include <sys/types.h>

#include "cli.h"
#include "finder.h"
#include "launch.h"

/*
 * Observes these processes, which run already, until all have ended. One that is refused, or ends,
 * does not end the others' observation. `launch` and `events` as in dlp_observation. Prints and
 * complains.
 */
enum dlp_exit dlp_ranks_processes(const struct dlp_options *options,
				  const struct dlp_launch *launch, const pid_t *pids, size_t cnt,
				  FILE *events);
/*
 * Observes `first`, the first rank that a command of ours has started, and those that `finder`
 * finds later, until the command ends or no rank has been left for a while.
 */
enum dlp_exit dlp_ranks_command(const struct dlp_options *options, const struct dlp_launch *launch,
				struct dlp_finder *finder, const struct dlp_target *first,
				FILE *events);

#endif /* DLP_RANKS_H */
