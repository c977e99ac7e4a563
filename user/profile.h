/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the command line asks for, from finding the process to the report: of a job that runs
 * already, or of a command that is started here. Prints; everything below it does not.
 */
#ifndef DLP_PROFILE_H
#define DLP_PROFILE_H

#include "cli.h"

/* --pid: the exit status. */
int dlp_profile_process(const struct dlp_options *options);
/* A command: its own exit status, unless we have failed. */
int dlp_profile_command(const struct dlp_options *options);

/* --list: the exit status. */
int dlp_profile_list(void);

#endif /* DLP_PROFILE_H */
