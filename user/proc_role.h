/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a process of a training job is: trainer, DataLoader worker, or something else. */
#ifndef DLP_PROC_ROLE_H
#define DLP_PROC_ROLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "dlprof/event.h"

/*
 * Role of `pid` in the job of `trainer`: worker = a descendant that looks like one. 0, or as
 * procfs.h says (-ESRCH: gone). `root` as in procfs.h.
 */
int dlp_proc_role(const char *root, pid_t trainer, pid_t pid, enum dlp_proc_role *ret);

/*
 * Whose worker `pid` is; *ret_trainer = 0: it is none. `names_workers`: its torch names worker
 * processes (2.5 and later), so one without that name is none; before, a rank of a distributed
 * job that was forked or spawned is told from a worker only by having children.
 */
int dlp_proc_trainer_of(const char *root, pid_t pid, bool names_workers, pid_t *ret_trainer);

/*
 * Whose workers `pid` starts as multiprocessing's fork server; 0: it is none. From Python 3.14 on it
 * imports the main module first, and torch with that.
 */
pid_t dlp_proc_forkserver_of(const char *root, pid_t pid);

/*
 * The process that was probably meant instead of `pid`, which has not loaded torch: its parent
 * (then `pid` is a helper of the job), or one below it that is no worker (then it is a launcher
 * or a shell). 0: none.
 */
pid_t dlp_proc_near_with_torch(const char *root, pid_t pid);

/* Has it mapped torch's Python part? False also when it may not be looked at. */
bool dlp_proc_has_torch(const char *root, pid_t pid);
/*
 * Processes that have loaded torch and have this number in a container of theirs, another one here:
 * up to `max`; returns how many.
 */
size_t dlp_proc_inside_with_torch(const char *root, pid_t number, pid_t *ret, size_t max);

/* One of the programs that only start the trainers, but import torch themselves (torchrun). */
bool dlp_proc_is_launcher(const char *root, pid_t pid);

/*
 * May it be a trainer, by how it was started? Not so: forks of their parents, what multiprocessing
 * starts, and launchers.
 */
bool dlp_proc_may_train(const char *root, pid_t pid);

#endif /* DLP_PROC_ROLE_H */
