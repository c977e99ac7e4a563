/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine and the target's control groups as /proc, /sys and the cgroup trees show them: one
 * DLP_EV_SYSTEM event per call. Nothing is allocated and few files are opened between two calls.
 */
#ifndef DLP_SYSFACTS_H
#define DLP_SYSFACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dlprof/event.h"

struct dlp_sysfacts;

/* 0 or -ENOMEM; what cannot be opened is unknown later. `root` as in procfs.h, borrowed. */
int dlp_sysfacts_new(const char *root, pid_t trainer, struct dlp_sysfacts **ret);
void dlp_sysfacts_free(struct dlp_sysfacts *facts);
/*
 * Does /dev/shm run full? A job can fill it between two intervals and die of it, so this is asked
 * more often (2 us). True when less than half is free, and less than when it was last said or read.
 */
bool dlp_sysfacts_shm_falls(struct dlp_sysfacts *facts);
/*
 * Fills a whole event. Of a trainer that has ended meanwhile it repeats what was known of it
 * before, where that cannot be read any more.
 */
void dlp_sysfacts_read(struct dlp_sysfacts *facts, uint64_t now_ns, struct dlp_ev_system *ret);

#endif /* DLP_SYSFACTS_H */
