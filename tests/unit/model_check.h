/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Runs a simulated job through the model and compares what it says with the simulator's truth. */
#ifndef DLP_TEST_MODEL_CHECK_H
#define DLP_TEST_MODEL_CHECK_H

#include "model.h"
#include "scn.h"

#define LABEL_MULTI 1u
#define LABEL_SINGLE 2u
#define LABEL_OWN 3u /* a scope that the user has named */

struct run {
	struct scn *scn;
	struct scn_view view;
	struct dlp_model *model;
	struct dlp_delivery *got; /* without .batch */
	size_t got_cnt, got_room;
};

/* Feeds the simulated events to a new model. */
void run_model(struct run *run, struct scn *scn, const struct scn_view *view);
void run_free(struct run *run);
void run_done(struct run *run); /* the simulated job may run again */
/* As sink of scn_feed: the context is the run. */
int run_sink(void *ctx, const void *event, size_t bytes);
void scn_labels(struct scn *scn);

struct match {
	size_t calls;	 /* truth: calls that ended in the window and returned data */
	size_t right;	 /* reported with the right batch and worker */
	size_t unknown;	 /* reported with batch -1 */
	size_t wrong;
	size_t missing;	 /* not reported as a delivery */
	size_t extra;	 /* reported, but nothing was returned */
};

struct match run_match(const struct run *run);
/* Every batch right, none unknown, none missing. */
void check_exact(const struct run *run);
/* Counts and times of the training thread, and the clocks of all workers. */
void check_main(const struct run *run);
void check_workers(const struct run *run);
/*
 * What the loader's calls were spent on: they are those of the simulator's iterators (bit n - 1 =
 * its number n). Each part may be off by per_call_ns for each call and by this share of their time.
 */
void check_spent(const struct run *run, uint32_t loader, uint64_t iters, uint64_t per_call_ns,
		 double share);
/* The parts of any account: their sum has to be right whatever happened. */
void check_sums(const struct dlp_loader_sums *sums);
/* A thread is inside a call, making or ending an iterator, or at something else: not two at once. */
void check_room(const struct run *run);
/* The accounts of production hold no more than the workers' lives in the window. */
void check_made(const struct run *run);
/* Its workers' idle times, by whether it was called meanwhile. */
void check_idle(const struct run *run, uint32_t loader, uint64_t iters, uint64_t by_ns);

#endif /* DLP_TEST_MODEL_CHECK_H */
