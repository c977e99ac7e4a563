/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's stages as the views list them: ranked, with the share of time each has. Pure. */
#ifndef DLP_STAGE_H
#define DLP_STAGE_H

#include "model.h"

/* And one each for the trainer's and the workers' other labels. */
#define DLP_STAGE_ROWS_MAX (DLP_MODEL_STAGES_MAX + 2)

struct dlp_stage_row {
	const char *label; /* untrusted; NULL = could not be recorded */
	bool worker;
	const struct dlp_stage_sum *sum;
	const struct dlp_hist *duration; /* NULL = not kept */
	/*
	 * Exclusive time as a share of the window, or, for workers, of the time in which the main
	 * threads of all workers were producing; NAN = not known. Above 1 only with other threads.
	 */
	double share;
};

/* Fills ret_row, the largest exclusive time first; pointers into the model. Returns how many. */
size_t dlp_stage_rank(const struct dlp_model *model,
		      struct dlp_stage_row ret_row[DLP_STAGE_ROWS_MAX]);

#endif /* DLP_STAGE_H */
