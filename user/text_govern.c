/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "text_govern.h"

#include "governor.h"

static double percent(uint32_t ppm)
{
	return (double)ppm / DLP_PPM_PER_PERCENT;
}

static bool is_new(const struct dlp_model *model, uint64_t at_ns)
{
	return at_ns > model->interval.start_ns && at_ns <= model->interval.end_ns;
}

void dlp_text_govern(FILE *out, const struct dlp_model *model)
{
	const struct dlp_governing *governing = &model->governing;
	size_t first = governing->note_cnt > DLP_MODEL_GOVERN_NOTES_MAX ?
			       governing->note_cnt - DLP_MODEL_GOVERN_NOTES_MAX :
			       0;

	for (size_t i = first; i < governing->note_cnt; i++) {
		const struct dlp_govern_note *note =
			&governing->note[i % DLP_MODEL_GOVERN_NOTES_MAX];

		if (!is_new(model, note->at_ns))
			continue;
		fprintf(out,
			"dlprof-bpf: the probes cost %.2f %% of the job's CPU time (limit %.2f %%): %s %s\n",
			percent(note->measured_ppm), percent(governing->limit_ppm),
			!note->undone				  ? "from now on" :
			note->measured_ppm > governing->limit_ppm ? "did not help, no longer" :
								    "no longer",
			dlp_governor_step_text(note->step));
	}
	if (governing->unmet && is_new(model, governing->unmet_ns))
		fprintf(out,
			"dlprof-bpf: the probes cost %.2f %% of the job's CPU time (limit %.2f %%): "
			"nothing more can be left out, GetNext never is\n",
			percent(governing->measured_ppm), percent(governing->limit_ppm));
}

const char *dlp_text_governed(const struct dlp_model *model, char *buf, size_t size)
{
	const struct dlp_governing *governing = &model->governing;

	*buf = '\0';
	if (governing->note_cnt || governing->unmet)
		(void)snprintf(buf, size,
			       "; limited to %.2f %% of the job's CPU time (%zu change%s, %s)",
			       percent(governing->limit_ppm), governing->note_cnt,
			       governing->note_cnt == 1 ? "" : "s",
			       governing->unmet ? "which cannot be met" : "see overhead.governor");
	return buf;
}
