/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The live screen: view, terminal, keys and signals put together for an event loop. While it is
 * open nobody else writes to the terminal.
 */
#ifndef DLP_SCREEN_H
#define DLP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose_ranks.h"
#include "model.h"
#include "summary.h"

struct dlp_screen;

/*
 * Takes the terminal that `fd` is. 0; -ENOTTY where there is none that can show a screen, or
 * another -errno: then nothing has changed and lines are in order. Blocks SIGWINCH, SIGTSTP and
 * SIGCONT in this thread, which the screen reads itself; *ret ends with dlp_screen_close, which
 * accepts NULL and may be called as soon as the terminal is needed. Complaints wait for that.
 */
int dlp_screen_open(int fd, struct dlp_screen **ret);
void dlp_screen_close(struct dlp_screen *screen);

/* A process that the screen shows. */
struct dlp_screen_job {
	const struct dlp_model *model;
	const struct dlp_summary_facts *facts;
	uint32_t pid;
	const char *name; /* among several: "rank 1"; copied */
	int number;	  /* -1 = none */
};

/*
 * One more process to show; with the second there is an overview of all. Before that nothing is
 * drawn. 0, -ENOMEM, or -ENOSPC when there are DLP_RANKS_MAX.
 */
int dlp_screen_add(struct dlp_screen *screen, const struct dlp_screen_job *job);
/* It is shown no more. Those behind it move up in the order that dlp_screen_compare() goes by. */
void dlp_screen_remove(struct dlp_screen *screen, const struct dlp_model *model);
/* Nothing new will come of it; what was last seen stays. */
void dlp_screen_ended(struct dlp_screen *screen, const struct dlp_model *model);

/* For epoll: readable when dlp_screen_input has something to do. */
int dlp_screen_fd(const struct dlp_screen *screen);
/* Keys and signals. True: the user wants to quit. */
bool dlp_screen_input(struct dlp_screen *screen);
/* An interval of this one has ended; `lately` is the verdict of the last seconds. */
void dlp_screen_interval(struct dlp_screen *screen, const struct dlp_model *model,
			 const struct dlp_verdict *lately);
/* How they compare, in the order in which they were added, and that in a sentence. */
void dlp_screen_compare(struct dlp_screen *screen, const struct dlp_ranks_verdict *compared,
			const char *text);
/* Draws when there is something new and the last time is long enough ago: call it often. */
void dlp_screen_tick(struct dlp_screen *screen, uint64_t now_ns);

#endif /* DLP_SCREEN_H */
