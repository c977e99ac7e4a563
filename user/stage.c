/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stage.h"

#include <math.h>
#include <stdlib.h>

#include "split.h"

/* What the shares are of; NAN = not known. */
static double base_ns(const struct dlp_model *model, bool worker)
{
	const struct dlp_clock *gone = &model->folded.worker_clock;
	struct dlp_clock sum;

	if (!worker)
		return model->end_ns > model->start_ns ? (double)(model->end_ns - model->start_ns) :
							 NAN;
	(void)dlp_split_workers(model, &sum);
	dlp_split_add(&sum, gone);
	sum.ns[DLP_ST_IDLE] = 0;
	return dlp_split_sum(&sum) ? (double)dlp_split_sum(&sum) : NAN;
}

static int larger_first(const void *a, const void *b)
{
	const struct dlp_stage_row *x = a, *y = b;

	return (x->sum->exclusive_ns < y->sum->exclusive_ns) -
	       (x->sum->exclusive_ns > y->sum->exclusive_ns);
}

size_t dlp_stage_rank(const struct dlp_model *model,
		      struct dlp_stage_row ret_row[DLP_STAGE_ROWS_MAX])
{
	double base[2] = { base_ns(model, false), base_ns(model, true) };
	size_t cnt = 0;

	for (size_t i = 0; i < model->stage_cnt; i++) {
		const struct dlp_stage *stage = &model->stages[i];

		ret_row[cnt++] = (struct dlp_stage_row){
			.label = *stage->label ? stage->label : NULL,
			.worker = stage->worker,
			.sum = &stage->sum,
			.duration = &stage->duration,
		};
	}
	for (int worker = 0; worker < 2; worker++) {
		if (model->other_stages[worker].cnt)
			ret_row[cnt++] = (struct dlp_stage_row){
				.label = "(other labels)",
				.worker = worker,
				.sum = &model->other_stages[worker],
			};
	}
	for (size_t i = 0; i < cnt; i++)
		ret_row[i].share = (double)ret_row[i].sum->exclusive_ns / base[ret_row[i].worker];
	qsort(ret_row, cnt, sizeof(*ret_row), larger_first);
	return cnt;
}
