/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A history as a picture for Perfetto and chrome://tracing (Trace Event Format, JSON). A process
 * of the job is a process there. A thread has a row with GetNext calls, batches made and scopes,
 * nested, and rows below it with its states as sampled and its long waits. Arrows lead from the
 * call that asked for a batch to its making, on to the call that received it, and from there to
 * the one that returned it, when that is another. Counters: ready batches, batches per second,
 * share of time waiting, CPUs used by the job and by others, and each block device's transfers,
 * with slow requests one by one. Pure but for the stream.
 */
#ifndef DLP_TRACE_H
#define DLP_TRACE_H

#include <stdio.h>

#include "history.h"

/* Of a finished history. 0, -ENOMEM, or the stream's -errno. */
int dlp_trace_write(FILE *file, const struct dlp_history *history);

#endif /* DLP_TRACE_H */
