/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's record of what the governor left out, and when. */
#include "model_priv.h"

static void note(struct dlp_governing *governing, const struct dlp_ev_govern *ev, uint32_t step)
{
	struct dlp_govern_note *to =
		&governing->note[governing->note_cnt++ % DLP_MODEL_GOVERN_NOTES_MAX];

	*to = (struct dlp_govern_note){
		.at_ns = ev->hdr.ts_ns,
		.step = step,
		.undone = !(ev->active & 1u << step),
		.measured_ppm = ev->measured_ppm,
	};
	if (to->undone)
		governing->spent_ns[step] += dlp_less(ev->hdr.ts_ns, governing->since_ns[step]);
	else
		governing->since_ns[step] = ev->hdr.ts_ns;
}

void dlp_govern_note(struct dlp_model *model, const struct dlp_ev_govern *ev)
{
	struct dlp_governing *governing = &model->governing;
	uint32_t changed = ev->active ^ governing->active;

	governing->limit_ppm = ev->limit_ppm;
	governing->measured_ppm = ev->measured_ppm;
	for (uint32_t i = 0; i < DLP_GOV_MAX; i++) {
		if (changed & 1u << i)
			note(governing, ev, i);
	}
	governing->active = ev->active;
	if (ev->unmet && !governing->unmet)
		governing->unmet_ns = ev->hdr.ts_ns;
	governing->unmet = ev->unmet;
}

uint64_t dlp_model_governed_ns(const struct dlp_model *model, enum dlp_govern_step step)
{
	const struct dlp_governing *governing = &model->governing;
	uint64_t ns = governing->spent_ns[step];

	if (governing->active & 1u << step)
		ns += dlp_less(model->end_ns, dlp_max(governing->since_ns[step], model->start_ns));
	return ns;
}
