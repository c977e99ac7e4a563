/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the control groups of a process allow it, versions 1 and 2, and how much they hold it
 * back. A group's limits bind everything below it, so all groups on the way to the root count, as
 * far as they can be seen from here: the paths are those that our own cgroup namespace shows, the
 * mounts those of our own mount namespace, or of the process's where ours do not have its groups.
 */
#ifndef DLP_CGROUP_H
#define DLP_CGROUP_H

#include <sys/types.h>

#include "dlprof/event.h"

struct dlp_cgroup;

/* 0 or -ENOMEM. `root` as in procfs.h, borrowed; it is put before mount points as well. */
int dlp_cgroup_new(const char *root, pid_t pid, struct dlp_cgroup **ret);
void dlp_cgroup_free(struct dlp_cgroup *cgroup);
/*
 * Fills the figures of DLP_SYS_QUOTA and DLP_SYS_GROUPMEM, and sets these bits in event->known
 * when they could be read. Looks again for the process's groups, which may be others by now; for
 * a process that has ended its last ones count.
 */
void dlp_cgroup_read(struct dlp_cgroup *cgroup, struct dlp_ev_system *event);

#endif /* DLP_CGROUP_H */
