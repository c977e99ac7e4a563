/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's run-time statistics of BPF programs take CAP_SYS_ADMIN to switch on, which is as
 * much as being root. A small process keeps that right and does nothing but switch them, so that
 * the one that reads what the job wrote need not have it.
 */
#ifndef DLP_STATS_SWITCH_H
#define DLP_STATS_SWITCH_H

#include <stdbool.h>

struct dlp_stats_switch;

/*
 * Starts the process, before this one has threads; it ends with this one, however that ends. 0,
 * -EPERM where statistics may not be switched on, or -errno.
 */
int dlp_stats_switch_new(struct dlp_stats_switch **ret);
/* Are they on now? False, too, when the process does not answer. */
bool dlp_stats_switch_set(struct dlp_stats_switch *stats, bool on);
/* Switches them off; NULL is fine. */
void dlp_stats_switch_free(struct dlp_stats_switch *stats);

#endif /* DLP_STATS_SWITCH_H */
