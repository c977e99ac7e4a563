/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A picture of the selected time as one SVG document: verdict, exposed wait, GetNext calls, and a
 * lane for the training thread and each worker, on one time axis. Holds no script and loads
 * nothing; texts of the job are sanitised and escaped. Pure but for the stream.
 */
#ifndef DLP_SVG_H
#define DLP_SVG_H

#include <stdio.h>

#include "report.h"

/* 0, -ENOMEM, or the stream's -errno. */
int dlp_svg_write(const struct dlp_report *report, FILE *out);

#endif /* DLP_SVG_H */
