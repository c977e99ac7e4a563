/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides of which record_function labels scopes are sent, and how many: those the user asked for,
 * and of frequent ones a sample. Sees the events that come and tells the capture side through a
 * callback; knows nothing else of it. The loaders' GetNext is always sent.
 */
#ifndef DLP_LABELS_H
#define DLP_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/config.h"
#include "dlprof/event.h"

struct dlp_labels;

/* From now on one in `every` scopes of the label is to be sent, or none (DLP_LABEL_NONE). 0 or -errno. */
typedef int (*dlp_label_limit_fn)(void *ctx, uint32_t label, uint32_t every);

/*
 * `globs` are shell patterns (fnmatch), borrowed until dlp_labels_free; none = all labels. Without
 * `limit` nothing is limited, but labels not asked for are still told apart. 0 or -ENOMEM.
 */
int dlp_labels_new(const char *const *globs, size_t glob_cnt, dlp_label_limit_fn limit, void *ctx,
		   struct dlp_labels **ret);
/*
 * To be called with every event, in order of arrival. False: a scope of a label that was not asked
 * for, sent before it could be stopped; to be left out.
 */
bool dlp_labels_apply(struct dlp_labels *labels, const struct dlp_ev_hdr *hdr);
/* How many are sent at most: as usual, a tenth of that, or none. */
enum dlp_labels_limit { DLP_LABELS_ALL, DLP_LABELS_FEW, DLP_LABELS_NONE };
void dlp_labels_throttle(struct dlp_labels *labels, enum dlp_labels_limit limit);
void dlp_labels_free(struct dlp_labels *labels); /* NULL is fine */

#endif /* DLP_LABELS_H */
