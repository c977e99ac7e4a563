/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a blocked thread waits for, by name: the model has inode numbers; /proc knows which open
 * file or socket of the process has that number. A few reads of /proc for each new question;
 * answers are kept for a while.
 */
#ifndef DLP_OBJECTS_H
#define DLP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "model.h"

struct dlp_objects;

/* `root` is "" for the real system, else a folder that holds a made-up /proc. 0 or -ENOMEM. */
int dlp_objects_new(const char *root, struct dlp_objects **ret);
void dlp_objects_free(struct dlp_objects *objects);
/* Another interval: the budget of questions is new, and old answers are forgotten. */
void dlp_objects_age(struct dlp_objects *objects);
/*
 * A path (*ret_path) or the peer's address of what the thread waits for, sanitised, into buf;
 * NULL = not known, or no more questions in this interval. `ctx` is the struct dlp_objects.
 */
const char *dlp_objects_name(void *ctx, const struct dlp_thread *thread, char *buf, size_t size,
			     bool *ret_path);

#endif /* DLP_OBJECTS_H */
