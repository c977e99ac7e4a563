/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's "overhead.governor": the limit, what was measured against it, what was left out. */
#include <stdio.h>

#include "governor.h"
#include "summary_priv.h"

static json_t *percent(uint32_t ppm)
{
	return ppm == DLP_GOV_UNKNOWN ? json_null() :
					dlp_json_ratio((double)ppm / DLP_PPM_PER_PERCENT);
}

static json_t *step(struct dlp_doc *doc, const struct dlp_govern_note *note, uint32_t limit_ppm)
{
	json_t *entry = json_object();
	char why[120];

	(void)snprintf(why, sizeof(why),
		       "the probes cost %.2f %% of the job's CPU time, %s %.2f %%%s",
		       (double)note->measured_ppm / DLP_PPM_PER_PERCENT,
		       note->measured_ppm > limit_ppm ? "more than" : "less than half of",
		       (double)limit_ppm / DLP_PPM_PER_PERCENT,
		       note->undone && note->measured_ppm > limit_ppm ? ": it did not help" : "");
	dlp_doc_set(doc, entry, "at_ns", dlp_json_count(note->at_ns));
	dlp_doc_set(doc, entry, "step", dlp_json_text(dlp_governor_step_id(note->step)));
	dlp_doc_set(doc, entry, "undone", json_boolean(note->undone));
	dlp_doc_set(doc, entry, "measured_pct", percent(note->measured_ppm));
	dlp_doc_set(doc, entry, "why", json_string(why));
	return entry;
}

json_t *dlp_doc_governor(struct dlp_doc *doc)
{
	const struct dlp_governing *governing = &doc->model->governing;
	size_t first = governing->note_cnt > DLP_MODEL_GOVERN_NOTES_MAX ?
			       governing->note_cnt - DLP_MODEL_GOVERN_NOTES_MAX :
			       0;
	json_t *object, *steps;

	if (!governing->limit_ppm)
		return json_null();
	object = json_object();
	steps = json_array();
	for (size_t i = first; i < governing->note_cnt; i++)
		dlp_doc_push(doc, steps,
			     step(doc, &governing->note[i % DLP_MODEL_GOVERN_NOTES_MAX],
				  governing->limit_ppm));
	dlp_doc_set(doc, object, "limit_pct", percent(governing->limit_ppm));
	dlp_doc_set(doc, object, "measured_pct", percent(governing->measured_ppm));
	/* false: nothing is left that could be done without; GetNext is never */
	dlp_doc_set(doc, object, "can_be_met", json_boolean(!governing->unmet));
	dlp_doc_set(doc, object, "steps_before", dlp_json_count(first));
	dlp_doc_set(doc, object, "steps", steps);
	return object;
}
