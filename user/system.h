/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arithmetic on snapshots of the system (struct dlp_ev_system) for the readers of the model: over
 * the window with system.first and system.last, over an interval with any other two. Pure. What
 * is unknown at either end, or counts backwards, is NAN.
 */
#ifndef DLP_SYSTEM_H
#define DLP_SYSTEM_H

#include <stddef.h>

#include "model.h"

/* CPUs that the tightest group above the target allows; NAN = no limit, or not known. */
double dlp_system_quota_cpus(const struct dlp_ev_system *at);
/* Share of the group's periods in which it was throttled; NAN as well when none has elapsed. */
double dlp_system_throttled(const struct dlp_ev_system *from, const struct dlp_ev_system *to);
/* Shares of all CPUs' time: idle, and taken by the hypervisor. */
double dlp_system_idle(const struct dlp_ev_system *from, const struct dlp_ev_system *to);
double dlp_system_steal(const struct dlp_ev_system *from, const struct dlp_ev_system *to);
/*
 * Growth of any one counter, as in
 * dlp_system_growth(from, to, DLP_SYS_VM, from->oom_kills, to->oom_kills).
 */
double dlp_system_growth(const struct dlp_ev_system *from, const struct dlp_ev_system *to,
			 uint32_t known, uint64_t before, uint64_t after);

/* CPUs that processes outside the job used on average: in the window, in the newest interval. */
double dlp_system_others_cpus(const struct dlp_model *model);
double dlp_system_others_recent_cpus(const struct dlp_model *model);
/*
 * The processes outside the job that used CPU time in the window, the largest first; how many is
 * returned.
 */
size_t dlp_system_others_rank(const struct dlp_model *model,
			      const struct dlp_other *ret[DLP_MODEL_OTHERS_MAX]);

#endif /* DLP_SYSTEM_H */
