/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The job's scopes as folded stacks, "trainer;label;nested label MICROSECONDS" a line, which
 * flame graph tools read. Microseconds are the time outside nested scopes. GetNext calls are
 * scopes as well. Pure but for the stream.
 */
#ifndef DLP_FOLDED_H
#define DLP_FOLDED_H

#include <stdio.h>

#include "history.h"

/* Different stacks that are told apart; what is nested deeper than that counts for the last one. */
#define DLP_FOLDED_STACKS_MAX 65536

/*
 * Of a finished history; only what lies in its window, scopes that were sampled standing for those
 * that were not. Sorted by text. 0, -ENOMEM, or the stream's -errno.
 */
int dlp_folded_write(FILE *file, const struct dlp_history *history);

#endif /* DLP_FOLDED_H */
