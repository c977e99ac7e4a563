/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's phases: the parts of each epoch, in the order in which they ended. */
#include "summary_priv.h"

static json_t *phase_entry(struct dlp_doc *doc, const struct dlp_phase *phase)
{
	static const char *const kinds[] = {
		[DLP_PHASE_WORKER_BIRTH] = "worker_birth",
		[DLP_PHASE_FIRST_BATCH] = "first_batch",
		[DLP_PHASE_STEADY] = "steady",
		[DLP_PHASE_EPOCH_END] = "epoch_end",
	};
	enum dlp_cause cause = dlp_phase_cause(doc->model, phase);
	bool steady = phase->kind == DLP_PHASE_STEADY;
	json_t *entry = json_object();

	dlp_doc_set(doc, entry, "kind", json_string(kinds[phase->kind]));
	dlp_doc_set(doc, entry, "loader", dlp_json_count(phase->loader));
	dlp_doc_set(doc, entry, "epoch", dlp_json_known(phase->epoch));
	dlp_doc_set(doc, entry, "start_ns", dlp_json_count(phase->start_ns));
	dlp_doc_set(doc, entry, "end_ns", dlp_json_count(phase->end_ns));
	dlp_doc_set(doc, entry, "exposed_wait_ratio", dlp_json_ratio(dlp_phase_ratio(phase)));
	dlp_doc_set(doc, entry, "exposed_us", dlp_json_us(phase->exposed_ns));
	dlp_doc_set(doc, entry, "cause", json_string(dlp_cause_id(cause)));
	dlp_doc_set(doc, entry, "batches", steady ? dlp_json_count(phase->batches) : json_null());
	dlp_doc_set(doc, entry, "read_bytes",
		    steady && doc->facts->block_seen ? dlp_json_count(phase->read_bytes) :
						       json_null());
	return entry;
}

json_t *dlp_doc_phases(struct dlp_doc *doc)
{
	const struct dlp_model *model = doc->model;
	size_t held = model->phase_cnt < DLP_MODEL_PHASES_MAX ? model->phase_cnt :
								DLP_MODEL_PHASES_MAX;
	json_t *array = json_array();
	struct dlp_phase open;

	for (size_t i = model->phase_cnt - held; i < model->phase_cnt; i++)
		dlp_doc_push(doc, array,
			     phase_entry(doc, &model->phases[i % DLP_MODEL_PHASES_MAX]));
	for (size_t i = 0; i < model->loader_cnt; i++) {
		if (!model->loaders[i].steady_start_ns)
			continue;
		dlp_phase_steady(model, &model->loaders[i], &open);
		dlp_doc_push(doc, array, phase_entry(doc, &open));
	}
	return array;
}
