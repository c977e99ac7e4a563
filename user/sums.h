/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Everything a verdict is made of that adds up over time, taken from the model at one moment. The
 * difference of two readings tells about the time between them: the whole window, or the last
 * seconds of a live view. Pure.
 */
#ifndef DLP_SUMS_H
#define DLP_SUMS_H

#include "model.h"

struct dlp_sums {
	uint64_t from_ns, to_ns; /* the time these sums are of */
	bool main_valid;	 /* the training thread's clock was read */
	uint64_t exposed_ns, calls;
	struct dlp_clock inside, outside; /* training thread, in GetNext and out of it */
	struct dlp_gc_sums main_gc;	  /* of the training thread */
	struct dlp_clock pool;		  /* other threads of the workers, all together */
	struct dlp_ev_system system_from, system_to; /* at both ends; hdr.size 0 = unknown */
	bool others_valid;
	uint64_t others_ns; /* CPU time of processes outside the job */
	size_t loader_cnt;
	struct dlp_loader_sums loader[DLP_MODEL_LOADERS_MAX]; /* as model->loaders */
};

/* Since the window opened. */
void dlp_sums_take(const struct dlp_model *model, struct dlp_sums *ret);
/* What came to it since `from` was taken. */
void dlp_sums_since(struct dlp_sums *to, const struct dlp_sums *from);
void dlp_loader_sums_less(struct dlp_loader_sums *from, const struct dlp_loader_sums *what);
void dlp_loader_sums_add(struct dlp_loader_sums *to, const struct dlp_loader_sums *what);

#endif /* DLP_SUMS_H */
