/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The terminal: its size and abilities, its alternate screen, drawing to it without ever waiting
 * for it, and giving it back as it was: on closing, on exit(), on crashes, while we are stopped.
 * There is one of it in a process.
 */
#ifndef DLP_TERM_H
#define DLP_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "grid.h"
#include "paint.h"

struct dlp_term_caps {
	bool usable; /* it can address its cursor */
	enum dlp_colors colors;
	bool unicode; /* block characters can be expected to look right */
};

/* From the environment alone; `get` is getenv, or a test's. */
void dlp_term_caps(char *(*get)(const char *name), struct dlp_term_caps *ret);

struct dlp_term;

/*
 * Takes the terminal that `fd` is. 0, -ENOTTY when it is none, -EBUSY when we are not in its
 * foreground, or another -errno: then nothing has changed. *ret ends with dlp_term_close, which
 * accepts NULL.
 */
int dlp_term_open(int fd, enum dlp_colors colors, struct dlp_term **ret);
void dlp_term_close(struct dlp_term *term);
/* For epoll: readable when a key was pressed. Does not block. */
int dlp_term_fd(const struct dlp_term *term);
void dlp_term_size(const struct dlp_term *term, int *ret_rows, int *ret_cols);
/*
 * Draws what differs. A terminal that does not take it in time gets the rest with a later call;
 * until then new contents are dropped: returns false.
 */
bool dlp_term_draw(struct dlp_term *term, const struct dlp_grid *grid);
/* Are we in the foreground, and the screen ours? Takes it (again) where that is possible. */
bool dlp_term_up(struct dlp_term *term);
/* Gives the terminal back for a while; dlp_term_up takes it again, and all is drawn anew. */
void dlp_term_down(struct dlp_term *term);
/* Its contents are not known any more: everything is drawn with the next call. */
void dlp_term_forget(struct dlp_term *term);

#endif /* DLP_TERM_H */
