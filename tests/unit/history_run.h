/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A simulated job through model and history, for those that read histories. */
#ifndef DLP_TEST_HISTORY_RUN_H
#define DLP_TEST_HISTORY_RUN_H

#include "history.h"
#include "scn.h"

struct history_run {
	struct scn *scn;
	struct dlp_model *model;
	struct dlp_history *history;
};

/* Feeds the simulation's events and finishes the history. */
void history_run(struct history_run *run, struct scn *scn, const struct scn_view *view);
/* The simulation included. */
void history_run_free(struct history_run *run);
/* A scope of the job's that ended; `text` becomes the label with this id, NULL = it is known. */
void history_run_scope(struct scn *scn, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
		       uint32_t label, const char *text);

#endif /* DLP_TEST_HISTORY_RUN_H */
