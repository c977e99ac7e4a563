/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict while a job is being watched: of a sliding window, so that it is steady and rests on many
 * calls, cut short where the job changes, so that it does not lag behind. Pure code over the model.
 */
#ifndef DLP_LIVE_H
#define DLP_LIVE_H

#include "diagnose.h"

struct dlp_live;

/*
 * Looks back window_ns at most, in steps of interval_ns. 0 or -ENOMEM; *ret is freed with
 * dlp_live_free (NULL is fine).
 */
int dlp_live_new(uint64_t window_ns, uint64_t interval_ns, struct dlp_live **ret);
void dlp_live_free(struct dlp_live *live);
/* To be called at the end of every interval: the verdict of now. */
void dlp_live_verdict(struct dlp_live *live, const struct dlp_model *model,
		      struct dlp_verdict *ret);

#endif /* DLP_LIVE_H */
