/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's phases: every epoch of a loader falls into starting its workers, its first batch, the
 * steady part and its end. Averages over a run hide what only one of them costs.
 */
#include <string.h>

#include "model_priv.h"

static uint64_t read_bytes(const struct dlp_model *model)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < model->device_cnt; i++)
		ret += model->devices[i].read_bytes;
	return ret;
}

/* The newest ones are kept. */
static struct dlp_phase *phase_new(struct dlp_model *model, const struct dlp_loader *loader,
				   enum dlp_phase_kind kind, uint64_t start_ns, uint64_t end_ns)
{
	struct dlp_phase *phase = &model->phases[model->phase_cnt++ % DLP_MODEL_PHASES_MAX];

	*phase = (struct dlp_phase){
		.kind = kind,
		.loader = loader->id,
		.epoch = loader->epoch_cnt,
		.start_ns = dlp_max(start_ns, model->start_ns),
		.end_ns = end_ns,
	};
	return phase;
}

void dlp_phase_birth(struct dlp_model *model, const struct dlp_loader *loader,
		     const struct dlp_interval *init)
{
	struct dlp_phase *phase;

	phase = phase_new(model, loader, DLP_PHASE_WORKER_BIRTH, init->start_ns, init->end_ns);
	/* its first call comes next */
	phase->epoch++;
	phase->exposed_ns = phase->end_ns - phase->start_ns;
}

static void whole_call(struct dlp_model *model, const struct dlp_loader *loader,
		       enum dlp_phase_kind kind, const struct dlp_call *call)
{
	struct dlp_phase *phase = phase_new(model, loader, kind, call->start_ns, call->end_ns);

	phase->exposed_ns = phase->end_ns - phase->start_ns;
}

void dlp_phase_close(struct dlp_model *model, struct dlp_loader *loader)
{
	struct dlp_phase *phase;

	if (!loader->steady_start_ns || loader->steady_end_ns <= loader->steady_start_ns)
		return;
	phase = phase_new(model, loader, DLP_PHASE_STEADY, loader->steady_start_ns,
			  loader->steady_end_ns);
	dlp_phase_steady(model, loader, phase);
	loader->steady_start_ns = 0;
}

void dlp_phase_steady(const struct dlp_model *model, const struct dlp_loader *loader,
		      struct dlp_phase *ret)
{
	*ret = (struct dlp_phase){
		.kind = DLP_PHASE_STEADY,
		.loader = loader->id,
		.epoch = loader->epoch_cnt,
		.start_ns = dlp_max(loader->steady_start_ns, model->start_ns),
		.end_ns = loader->steady_end_ns,
		.exposed_ns = loader->steady_exposed_ns,
		.batches = loader->steady_batches,
		.made = dlp_clock_less(&loader->sums.made, &loader->steady_made),
		.read_bytes = dlp_less(read_bytes(model), loader->steady_read_bytes),
	};
}

static void open_steady(struct dlp_model *model, struct dlp_loader *loader,
			const struct dlp_call *call)
{
	loader->steady_start_ns = loader->steady_end_ns = call->end_ns;
	loader->steady_exposed_ns = loader->steady_batches = 0;
	loader->steady_made = loader->sums.made;
	loader->steady_read_bytes = read_bytes(model);
}

void dlp_phase_call(struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_call *call, bool data)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	bool first = !it->state->calls || it->state->over;

	if (!loader || !call->counts || !call->outer)
		return;
	if (first) {
		dlp_phase_close(model, loader);
		loader->epoch_cnt++;
	}
	if (!data) {
		dlp_phase_close(model, loader);
		whole_call(model, loader, DLP_PHASE_EPOCH_END, call);
		return;
	}
	/* attached in mid-epoch: what is first for us was not the first */
	if (first && it->pipe && it->state->reset_ns) {
		whole_call(model, loader, DLP_PHASE_FIRST_BATCH, call);
		open_steady(model, loader, call);
	} else if (!loader->steady_start_ns) {
		open_steady(model, loader, call);
	} else {
		loader->steady_exposed_ns += call->end_ns - call->start_ns;
		loader->steady_batches++;
	}
	loader->steady_end_ns = dlp_max(loader->steady_end_ns, call->end_ns);
}

void dlp_phase_move(struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_loader *before, const struct dlp_loader *to)
{
	for (size_t i = 0; i < DLP_MODEL_PHASES_MAX && i < model->phase_cnt; i++) {
		struct dlp_phase *phase = &model->phases[i];

		if (phase->loader != before->id ||
		    phase->start_ns < dlp_max(it->start_ns, model->start_ns))
			continue;
		phase->loader = to->id;
		phase->epoch = phase->epoch - before->epoch_cnt + to->epoch_cnt;
	}
}
