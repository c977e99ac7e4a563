/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The processes of the job as /proc shows them: who is there when we attach, what each one is,
 * and at every interval its figures as DLP_EV_PROC events. Births and deaths come from the
 * captured events.
 */
#ifndef DLP_JOBS_H
#define DLP_JOBS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dlprof/event.h"
#include "target.h"

struct dlp_jobs;

/* Told of each process: 0 or an error, which ends the call it came from. */
typedef int (*dlp_jobs_add_fn)(void *ctx, pid_t pid, const struct dlp_interpreter *python);
typedef int (*dlp_jobs_event_fn)(void *ctx, const void *event, size_t bytes);

/* 0 or -ENOMEM. `root` as in procfs.h, borrowed. */
int dlp_jobs_new(const char *root, pid_t trainer, struct dlp_jobs **ret);
void dlp_jobs_free(struct dlp_jobs *jobs);
/*
 * Looks for descendants of the trainer that are not known yet (the trainer itself included) and
 * tells `add` of each, with the place of its interpreter where that could be found.
 */
int dlp_jobs_scan(struct dlp_jobs *jobs, dlp_jobs_add_fn add, void *ctx);
/*
 * To be called once births and ends are seen: forgets, and tells `gone` of, what ended before, even
 * if another process has its number now.
 */
typedef void (*dlp_jobs_gone_fn)(void *ctx, pid_t pid);
void dlp_jobs_leave_out_gone(struct dlp_jobs *jobs, dlp_jobs_gone_fn gone, void *ctx);
/* Takes note of FORK, EXEC and EXIT events; others are ignored. */
void dlp_jobs_apply(struct dlp_jobs *jobs, const struct dlp_ev_hdr *hdr);
/*
 * Emits a PROC event for every process that is alive or has ended since the last report. `add` is
 * told again of those that have loaded another interpreter meanwhile (spawned workers).
 */
int dlp_jobs_report(struct dlp_jobs *jobs, uint64_t now_ns, dlp_jobs_event_fn emit,
		    dlp_jobs_add_fn add, void *ctx);
/* Processes alive now that look like DataLoader workers. */
size_t dlp_jobs_workers(const struct dlp_jobs *jobs);
/*
 * CPU time that the processes have used since they were first reported, or since their birth where
 * that was seen, up to the newest report; processes that ended before their first one are missing.
 */
uint64_t dlp_jobs_cpu_ns(const struct dlp_jobs *jobs);

#endif /* DLP_JOBS_H */
