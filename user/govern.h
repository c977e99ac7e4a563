/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Measures what the probes cost, and does what the governor decides: the event loop's part of it. */
#ifndef DLP_GOVERN_H
#define DLP_GOVERN_H

#include "governor.h"
#include "jobs.h"
#include "labels.h"
#include "session.h"

/* Its members outlive it. */
struct dlp_govern {
	struct dlp_governor governor;
	struct dlp_session *session;
	struct dlp_labels *labels;
	const struct dlp_jobs *jobs;
	uint64_t cpu_ns;  /* dlp_jobs_cpu_ns when the interval began */
	uint64_t last_ns; /* and when that was */
	uint32_t active;  /* steps as they are carried out */
};

/* When the window opens. Emits the limit. 0 or the sink's error. */
int dlp_govern_open(struct dlp_govern *govern, uint32_t limit_ppm, dlp_sink_fn emit, void *ctx);
/*
 * At the end of each interval, /proc having been read. Emits what was measured and decided, and
 * does that. 0 or the sink's error.
 */
int dlp_govern_interval(struct dlp_govern *govern, dlp_sink_fn emit, void *ctx);

#endif /* DLP_GOVERN_H */
