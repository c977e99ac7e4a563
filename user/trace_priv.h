/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the trace share: rows, and what they are called. */
#ifndef DLP_TRACE_PRIV_H
#define DLP_TRACE_PRIV_H

#include "history.h"
#include "trace_out.h"
#include "track.h"

/*
 * Linux numbers processes and threads below this (PID_MAX_LIMIT in include/linux/threads.h); what
 * is none is numbered from here on.
 */
#define DLP_TRACE_ID_MAX (1u << 22)
#define DLP_TRACE_ROW_STATES DLP_TRACE_ID_MAX	   /* + tid, 0 = all the process's other threads */
#define DLP_TRACE_ROW_WAITS (2 * DLP_TRACE_ID_MAX) /* + tid */
#define DLP_TRACE_PID_DEVICES DLP_TRACE_ID_MAX

struct dlp_trace {
	struct dlp_trace_out out;
	const struct dlp_history *history;
	struct dlp_tracks tracks; /* rows that have a name; of states and waits, the open slices */
	uint64_t arrow_cnt;
};

/* Writes the process's name on first sight; 0 or -ENOMEM. */
int dlp_trace_process(struct dlp_trace *trace, uint32_t pid);
/* The row, whose name, and whose process's, is written on first sight. NULL = out of memory. */
struct dlp_track *dlp_trace_row(struct dlp_trace *trace, uint32_t pid, uint32_t row);
/* Arguments "run_us" and so on, of states that are not 0. */
void dlp_trace_split(struct dlp_trace *trace, const struct dlp_clock *split);
/* Name of a device, or its numbers. Returns buf. */
const char *dlp_trace_device(const struct dlp_trace *trace, uint32_t dev, char *buf, size_t size);

/* The parts; 0 or -ENOMEM. */
int dlp_trace_threads(struct dlp_trace *trace);	 /* trace.c: calls, batches, scopes, arrows */
int dlp_trace_states(struct dlp_trace *trace);	 /* states as sampled, long waits */
int dlp_trace_counters(struct dlp_trace *trace);
int dlp_trace_devices(struct dlp_trace *trace);

#endif /* DLP_TRACE_PRIV_H */
