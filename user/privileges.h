/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this process may do. It starts with all that loading and attaching need; once that is done
 * it becomes the invoking user, with the few capabilities that watching still needs, for good.
 */
#ifndef DLP_PRIVILEGES_H
#define DLP_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/capability.h>

/* Since 5.8 and 5.9; older headers do not name them. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define DLP_CAP_BIT(cap) (1ull << (cap))

/* A capability we have a use for. */
struct dlp_capability {
	int cap;
	const char *name;
	bool needed;	      /* nothing can be observed without it */
	const char *what_for; /* as a part of a sentence: "loading BPF programs" */
	const char *after;    /* what becomes of it once the programs are attached */
};

#define DLP_CAPABILITY_CNT 6
extern const struct dlp_capability dlp_capabilities[DLP_CAPABILITY_CNT];

/*
 * False when this program was made set-user-ID or set-group-ID: whoever may run it would be root,
 * which it was not written for.
 */
bool dlp_privileges_start_ok(void);

/* This thread's effective capabilities as DLP_CAP_BIT()s. 0 or -errno. */
int dlp_privileges_effective(uint64_t *ret);

/*
 * Becomes the invoking user (where sudo named one) and lets every capability rest: until they are
 * raised again this process may do what any program of that user may. 0 or -errno.
 */
int dlp_privileges_lower(void);
/* Takes up again what rests. 0 or -errno. */
int dlp_privileges_raise(void);
/*
 * After lowering: gives up for good what watching these processes does not need, what could be
 * gained by exec, and being traced by this user's other processes. The user changes for all threads,
 * the rest for this one: others are to call dlp_privileges_only() afterwards. 0 or -errno; then too
 * much may be left.
 */
int dlp_privileges_settle(const pid_t *pids, size_t cnt);
/*
 * Gives up for good all capabilities but these (DLP_CAP_BIT()s), and gaining others by exec. Of
 * this thread; the user stays. 0 or -errno.
 */
int dlp_privileges_only(uint64_t caps);

#endif /* DLP_PRIVILEGES_H */
