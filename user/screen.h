/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The live screen: view, terminal, keys and signals put together for an event loop. While it is
 * open nobody else writes to the terminal.
 */
#ifndef DLP_SCREEN_H
#define DLP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose.h"
#include "model.h"
#include "summary.h"

struct dlp_screen;

/*
 * Takes the terminal that `fd` is. 0; -ENOTTY where there is none that can show a screen, or
 * another -errno: then nothing has changed and lines are in order. Blocks SIGWINCH, SIGTSTP and
 * SIGCONT in this thread, which the screen reads itself; *ret ends with dlp_screen_close, which
 * accepts NULL and may be called as soon as the terminal is needed.
 */
int dlp_screen_open(int fd, const struct dlp_model *model, const struct dlp_summary_facts *facts,
		    struct dlp_screen **ret);
void dlp_screen_close(struct dlp_screen *screen);

/* For epoll: readable when dlp_screen_input has something to do. */
int dlp_screen_fd(const struct dlp_screen *screen);
/* Keys and signals. True: the user wants to quit. */
bool dlp_screen_input(struct dlp_screen *screen);
/* An interval has ended; `lately` is the verdict of the last seconds. */
void dlp_screen_interval(struct dlp_screen *screen, const struct dlp_verdict *lately);
/* Draws when there is something new and the last time is long enough ago: call it often. */
void dlp_screen_tick(struct dlp_screen *screen, uint64_t now_ns);

#endif /* DLP_SCREEN_H */
