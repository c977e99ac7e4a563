/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command `doctor`: what can be seen here, of a job or at all. */
#ifndef DLP_DOCTOR_COMMAND_H
#define DLP_DOCTOR_COMMAND_H

#include "cli.h"

/* Exit status: DLP_EXIT_OK when a job could be observed. */
int dlp_doctor_command(const struct dlp_options *options);

#endif /* DLP_DOCTOR_COMMAND_H */
