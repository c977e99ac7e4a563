/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a phase of an epoch costs: told from the phase alone, so that epochs can be compared. */
#include "diagnose_priv.h"

double dlp_phase_ratio(const struct dlp_phase *phase)
{
	if (phase->end_ns <= phase->start_ns)
		return 0;
	return (double)phase->exposed_ns / (double)(phase->end_ns - phase->start_ns);
}

enum dlp_cause dlp_phase_cause(const struct dlp_model *model, const struct dlp_phase *phase)
{
	const struct dlp_loader *loader = &model->loaders[phase->loader - 1];
	bool main_makes = loader->num_workers == 0;
	struct dlp_share share[DLP_ST_MAX];

	if (phase->kind != DLP_PHASE_STEADY)
		return DLP_CAUSE_WORKER_STARTUP;
	/* workers' clocks are read at intervals: a short phase may have none of its own */
	if (dlp_phase_ratio(phase) < LIMIT(EXPOSED_LOW) || main_makes ||
	    !dlp_split_rank(&phase->made, true, share))
		return DLP_CAUSE_NONE;
	return dlp_cause_of_state(share[0].state, false);
}
