/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Capture: loads and attaches the BPF programs, hands out their events. The only module that
 * sees the skeleton (session*.c). Everything it holds ends with the process, SIGKILL included:
 * nothing is pinned, nothing is written to the target.
 */
#ifndef DLP_SESSION_H
#define DLP_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dlprof/config.h"
#include "dlprof/event.h"
#include "feature.h"
#include "stats_switch.h"
#include "governor.h"
#include "target.h"

struct dlp_session;

struct dlp_session_opts {
	const struct dlp_target *target;
	uint32_t without; /* DLP_FEATURE_BIT()s to do without */
	uint64_t long_wait_ns;
	const struct dlp_glob *getnext; /* labels that are GetNext, too; NULL = none; copied */
	uint32_t ring_bytes; /* power of two, whole pages */
	/* What switches the kernel's statistics in our place; NULL = we do it ourselves. */
	struct dlp_stats_switch *stats;
};

struct dlp_session_failure {
	bool unsupported; /* the kernel or missing privileges do not allow it */
	char text[400];	  /* one line for a person */
};

/* What came of each feature. */
struct dlp_session_info {
	uint32_t active; /* DLP_FEATURE_BIT()s in use */
	char refused[DLP_FEATURE_MAX][120]; /* why not, for those wanted and not in use; "" = not wanted */
	size_t scope_probe_cnt;
};

/* Takes one event; an error stops the call that delivers them, which returns it. */
typedef int (*dlp_sink_fn)(void *ctx, const void *event, size_t bytes);

/*
 * Loads what the kernel accepts. Attaches nothing yet, so processes can be added before anything
 * is seen. 0, or -1 with *failure filled.
 */
int dlp_session_open(const struct dlp_session_opts *opts, struct dlp_session **ret,
		     struct dlp_session_failure *failure);
/* Adds a process (trainer, or a descendant of it) to the job; its interpreter may be unknown. */
int dlp_session_add(struct dlp_session *session, pid_t tgid, const struct dlp_interpreter *python);
/* For a process that had ended before its end could be seen: its number may be another's now. */
void dlp_session_remove(struct dlp_session *session, pid_t tgid);
/* Attaches everything that was loaded. 0, or -1 with *failure filled. */
int dlp_session_attach(struct dlp_session *session, struct dlp_session_failure *failure);
void dlp_session_info(const struct dlp_session *session, struct dlp_session_info *ret);

/* Readable when the ring wants to be read before the next interval. */
int dlp_session_fd(const struct dlp_session *session);
/* Delivers what the ring holds. Number of events, or the sink's error. */
int dlp_session_consume(struct dlp_session *session, dlp_sink_fn sink, void *ctx);
/* Delivers a DLP_EV_CLOCK for every live thread of the job. 0 or -errno. */
int dlp_session_sweep(struct dlp_session *session, dlp_sink_fn sink, void *ctx);
/* Totals since the session was opened; hdr and the daemon's own figures are left alone. */
void dlp_session_counters(struct dlp_session *session, struct dlp_ev_counters *ret);
/*
 * Which scopes of a label (its id as in DLP_EV_LABEL, not 0) are sent from now on: all (every 0 or
 * 1), one in `every`, which then stands for as many, or none (UINT32_MAX). One that is not sent still
 * counts as a part of the scope around it. GetNext is always sent. 0 or -errno.
 */
int dlp_session_label(struct dlp_session *session, uint32_t label, uint32_t every);
/*
 * Delivers DLP_EV_OTHERs: CPU time used by processes outside the job since attaching, all together
 * (tgid 0), then each of the up to 16 that have used most. Estimated by sampling each CPU that was
 * online when attaching; this process is left out. Then a DLP_EV_GC for each thread of the job that
 * was sampled since the last call. 0, -errno, or the sink's error.
 */
int dlp_session_samples(struct dlp_session *session, dlp_sink_fn sink, void *ctx);
/*
 * Processes that are asked about and found to be kin are not told of there from now on: other ranks
 * of the job, which sessions of their own observe. What they used before is not taken back.
 */
typedef bool (*dlp_kin_fn)(void *ctx, uint32_t tgid);
void dlp_session_set_kin(struct dlp_session *session, dlp_kin_fn is_kin, void *ctx);
/*
 * To be called at every interval: the syscall rung taxes every system call of the machine, so
 * where there are many it is attached in bursts only. What is missed then is counted.
 */
void dlp_session_pace(struct dlp_session *session);
/*
 * Turns the kernel's run-time statistics of BPF programs on or off: they cost about 50 ns a run,
 * so they are on for a sample only. Ignored where the kernel has none.
 */
void dlp_session_sample(struct dlp_session *session, bool on);
/*
 * What the programs cost since the last call, or since the statistics were turned on; false when
 * these are off.
 */
bool dlp_session_cost(struct dlp_session *session, uint64_t ret_ns[DLP_COST_PARTS]);
/* Does without what these steps (bits of enum dlp_govern_step) leave out, and with all else. */
void dlp_session_throttle(struct dlp_session *session, uint32_t steps);
/* Detaches all; NULL is fine. */
void dlp_session_free(struct dlp_session *session);

#endif /* DLP_SESSION_H */
