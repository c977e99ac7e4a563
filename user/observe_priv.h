/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of an observation share: observe.c (the event loop), observe_attach.c (from the
 * target to the open window), observe_window.c (events, intervals, the window's end).
 */
#ifndef DLP_OBSERVE_PRIV_H
#define DLP_OBSERVE_PRIV_H

#include <sys/resource.h>

#include "govern.h"
#include "jobs.h"
#include "labels.h"
#include "live.h"
#include "observe.h"
#include "screen.h"
#include "sysfacts.h"
#include "util.h"

struct dlp_loop {
	struct dlp_observation *ob;
	struct dlp_session *session;
	struct dlp_session_info info;
	struct dlp_jobs *jobs;
	struct dlp_sysfacts *sysfacts;
	struct dlp_labels *labels;
	/* instead of the lines; NULL = none. That of several ranks is whoever's runs their loops */
	struct dlp_screen *screen;
	struct rusage usage_start;
	uint64_t interval_cnt;
	struct dlp_live *live;
	struct dlp_govern govern;
	uint64_t end_ns; /* the window's end, once it is known: what came later is left out */
	uint32_t nested_tgid; /* a worker that iterates a DataLoader of its own */
	int epoll_fd, signal_fd, target_fd;
	char exe[512]; /* the target's program; "" = not known */
	bool stop;
	bool settled; /* privileges are given up */
};

/*
 * The ring is read this often although nothing wakes us: rare enough to cost nothing, often
 * enough that a verdict is fresh. When it fills up sooner, the programs wake us.
 */
#define DLP_LOOP_PERIOD_NS (100 * DLP_NS_PER_MS)

/* One that dlp_loop_fini() accepts. */
void dlp_loop_init(struct dlp_loop *loop, struct dlp_observation *observation);

/*
 * The steps of an observation, in this order. The first returns DLP_EXIT_OK, or why not, with a
 * line in `error`; the others 0 or -errno, which ends it: dlp_loop_failed() says what to tell.
 */
/* From the target to the open window; politely, unless a command waits for us. */
enum dlp_exit dlp_loop_start(struct dlp_loop *loop, char *error, size_t error_size);
/* Waits up to a moment (0: not at all) until something happens; takes note of the target's end. */
int dlp_loop_wait(struct dlp_loop *loop, uint64_t deadline_ns);
/* Takes what the ring holds. */
int dlp_loop_read(struct dlp_loop *loop);
/* Reads everything there is to read now: the ring, /proc and all counters. */
int dlp_loop_gather(struct dlp_loop *loop);
/* An interval is over: reads all there is, and says so in a line or on the screen. */
int dlp_loop_end_interval(struct dlp_loop *loop);
int dlp_loop_close_window(struct dlp_loop *loop);

/* Detaches, and frees all of it but the screen; closes the descriptors. */
void dlp_loop_fini(struct dlp_loop *loop);
enum dlp_exit dlp_loop_failed(struct dlp_loop *loop, int err, char *error, size_t error_size);

/* Steps of dlp_loop_start(): load the programs, attach them; the latter needs loop->target_fd. */
enum dlp_exit dlp_loop_load(struct dlp_loop *loop, char *error, size_t error_size);
enum dlp_exit dlp_loop_attach(struct dlp_loop *loop, char *error, size_t error_size);
/* Of observe_window.c for observe_attach.c: a process of the job, and the window's first event. */
int dlp_loop_add_process(void *ctx, pid_t pid, const struct dlp_interpreter *python);
int dlp_loop_open_window(struct dlp_loop *loop);

#endif /* DLP_OBSERVE_PRIV_H */
