/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A made-up job for the BPF programs to watch: a "trainer" process that runs functions of the
 * test on request, memory it shares with the test, and a session whose events are kept. Nothing
 * here waits by sleeping: the trainer answers when it is done, and what it did is in the ring by
 * then.
 */
#ifndef BT_HARNESS_H
#define BT_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "dlprof/config.h"
#include "dlprof/event.h"
#include "points.h"
#include "session.h"
#include "util.h"

/* Ends the test as skipped; the runner takes the last line printed for the reason. */
#define bt_skip(...)                                                                               \
	do {                                                                                       \
		print_message("skipped: " __VA_ARGS__);                                            \
		print_message("\n");                                                               \
		skip();                                                                            \
	} while (0)

/* Which of the test's own functions get probes. */
#define BT_PROBE_SCOPE (1u << 0)
#define BT_PROBE_OP    (1u << 1)
#define BT_PROBE_OP5   (1u << 2)
#define BT_PROBE_QUEUE (1u << 3)
#define BT_PROBE_SEM   (1u << 4)
#define BT_PROBE_NEXT (1u << 5)

typedef void (*bt_fn)(void *arg);

struct bt_event {
	size_t bytes;
	union {
		struct dlp_ev_hdr hdr;
		struct dlp_ev_scope scope;
		struct dlp_ev_label label;
		struct dlp_ev_msg msg;
		struct dlp_ev_sem sem;
		struct dlp_ev_block block;
		struct dlp_ev_wait wait;
		struct dlp_ev_clock clock;
		struct dlp_ev_fork fork;
		struct dlp_ev_exec exec;
		struct dlp_ev_exit exit;
		struct dlp_ev_other other;
		struct dlp_ev_gc gc;
	};
};

struct bt_job {
	pid_t trainer;
	int to, from; /* a byte starts what is asked for, a byte says that it is done */
	struct dlp_target target;
	struct dlp_session *session;
	struct dlp_session_failure failure;
	bool refused; /* no session: failure.text says why */
	struct bt_event *event;
	size_t event_cnt, event_max;
};

struct bt_setup {
	uint32_t probes; /* BT_PROBE_* */
	uint32_t without; /* DLP_FEATURE_BIT()s */
	uint32_t ring_bytes; /* 0 = 4 MiB */
	uint64_t long_wait_ns; /* 0 = 1 ms */
	uint64_t gil_lo, gil_hi;
	const char *gc_lo, *gc_hi; /* code that counts as the garbage collector; NULL = none */
	uint32_t str_data_off; /* 0 = 48 */
	uint32_t tuple_item_off; /* 0 = 24 */
	uint32_t exit_delta;   /* 0 = 1 */
	const pid_t *more;     /* processes of the job that are there before the session */
	size_t more_cnt;
};

/* Zeroed memory that processes forked from now on share with the test; never freed. */
void *bt_shared(size_t bytes);

/* Starts the trainer, which does nothing yet. */
void bt_job_start(struct bt_job *job);
/* Loads and attaches; false (and job->refused) where this kernel or user may not. */
bool bt_job_observe(struct bt_job *job, const struct bt_setup *setup);
/* Both, for the set-up of a test, which cannot skip it: bt_run() or bt_job_need() do. */
void bt_job_prepare(struct bt_job *job, const struct bt_setup *setup);
/* The same, and skips the test when there can be no session. */
void bt_job_open(struct bt_job *job, const struct bt_setup *setup);
/* Ends the session only, then the trainer; also half-made ones. */
void bt_job_close_session(struct bt_job *job);
void bt_job_close(struct bt_job *job);
/* Skips the running test if a group's session was refused. */
void bt_job_need(const struct bt_job *job);

/* Runs fn(arg) in the trainer's main thread and waits for its end. */
void bt_call(struct bt_job *job, bt_fn fn, void *arg);
/* Needs the job, runs fn there and adds what the ring holds afterwards. */
void bt_run(struct bt_job *job, bt_fn fn);
/* bt_call() in two halves. */
void bt_begin(struct bt_job *job, bt_fn fn, void *arg);
void bt_end(struct bt_job *job);

/* In any process: forks one that runs fn(arg) and ends with status 0. */
pid_t bt_fork(bt_fn fn, void *arg);
void bt_reap(pid_t pid);

void bt_target_init(struct dlp_target *target, pid_t pid, const struct bt_setup *setup);

/* Forgets the events so far, those still in the ring included. */
void bt_clear(struct bt_job *job);
/* Adds what the ring holds. */
void bt_drain(struct bt_job *job);
/* Adds a DLP_EV_CLOCK of every live thread. */
void bt_sweep(struct bt_job *job);
/* Adds the DLP_EV_OTHERs. */
void bt_others(struct bt_job *job);
/* The nth event (from 0) of that kind and thread (0 = any); NULL when there are fewer. */
struct bt_event *bt_find(struct bt_job *job, uint32_t kind, pid_t tid, size_t nth);
size_t bt_count(struct bt_job *job, uint32_t kind, pid_t tid);
/* The last DLP_EV_CLOCK of that thread; fails the test when there is none. */
const struct dlp_ev_clock *bt_last_clock(struct bt_job *job, pid_t tid);
/* The nth scope of that thread (0 = any); fails the test when there are fewer. */
const struct dlp_ev_scope *bt_scope(struct bt_job *job, pid_t tid, size_t nth);
/* Text of a label id, NULL when it was never announced. */
const char *bt_label(struct bt_job *job, uint32_t id);
void bt_assert_label(struct bt_job *job, const struct dlp_ev_scope *scope, const char *text);
uint64_t bt_counter(struct bt_job *job, enum dlp_counter counter);
uint64_t bt_sum(const struct dlp_clock *clock);

/* CLOCK_THREAD_CPUTIME_ID, and the scheduler's own account of waiting for a CPU. */
uint64_t bt_cpu_ns(void);
uint64_t bt_delay_ns(void);
void bt_sleep_ns(uint64_t ns);
void bt_pin(int cpu);
/* Waits until the kernel shows the thread as blocked. */
void bt_wait_blocked(pid_t pid);

#define BT_MS DLP_NS_PER_MS

/* a and b agree within max(share of b, floor_ns). */
bool bt_near(uint64_t a, uint64_t b, double share, uint64_t floor_ns);
/* The same for low <= a <= high. */
bool bt_between(uint64_t a, uint64_t low, uint64_t high, double share, uint64_t floor_ns);

#endif /* BT_HARNESS_H */
