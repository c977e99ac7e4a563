/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report as one page for a browser: the files of user/html/ with the run's data inside. It
 * loads nothing, and its Content-Security-Policy lets nothing run but its own script.
 */
#ifndef DLP_HTML_H
#define DLP_HTML_H

#include <stdio.h>

#include "history.h"

/*
 * The page of a finished history. Nothing of it is longer than its bounds, so that the page stays
 * below 20 MB: single calls, clock readings and blocked moments are thinned out, which the page
 * says; medians, ranges, outliers and epochs are of everything. Returns 0, -ENOMEM, or -errno of
 * the random numbers or of writing; `out` is not flushed then.
 */
int dlp_html_write(const struct dlp_history *history, FILE *out);

#endif /* DLP_HTML_H */
