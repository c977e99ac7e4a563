/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command `replay`: a recording's summary, as the live run printed it. */
#ifndef DLP_REPLAY_COMMAND_H
#define DLP_REPLAY_COMMAND_H

#include "cli.h"

/* Exit status; complains on stderr. */
int dlp_replay_command(const struct dlp_options *options);

#endif /* DLP_REPLAY_COMMAND_H */
