/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the tool uses of the kernel and the target, each of which can be missing (or left out with
 * --without NAME) at a price.
 */
#ifndef DLP_FEATURE_H
#define DLP_FEATURE_H

#include <stdint.h>

/* NAME, name on the command line, what is lost without it */
#define DLP_FEATURES(X)                                                                            \
	X(SCOPES, "scopes", "GetNext, optimizer steps and labels")                                 \
	X(CLOCKS, "clocks", "what threads spend their time on")                                    \
	X(TASK_STORAGE, "task-storage", "nothing: a hash table keeps the clocks")                  \
	X(CLOCK_ITER, "clock-iter", "clocks of threads that are alive at the end")                 \
	X(QUEUE_UPROBE, "queue-uprobe", "the cheap way to see batch messages")                     \
	X(QUEUE_SYSCALL, "queue-syscall", "the costly way to see batch messages")                  \
	X(PROCESS, "process", "workers born after attaching")                                      \
	X(BLOCK, "block", "block device requests")                                                 \
	X(WAITS, "waits", "long blocked intervals one by one")                                     \
	X(ITERATORS, "iterators", "when an iterator begins to start its workers")                  \
	X(OTHERS, "others", "who else uses the CPUs")

enum dlp_feature {
#define X(NAME, name, loss) DLP_FEATURE_##NAME,
	DLP_FEATURES(X)
#undef X
	DLP_FEATURE_MAX,
};

#define DLP_FEATURE_BIT(NAME) (1u << DLP_FEATURE_##NAME)

const char *dlp_feature_name(enum dlp_feature feature);
const char *dlp_feature_loss(enum dlp_feature feature);
/* The feature of that name, or -1. */
int dlp_feature_find(const char *name);

#endif /* DLP_FEATURE_H */
