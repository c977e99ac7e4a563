/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's stages: record_function scopes summed by label, apart for the trainer and its
 * workers. The trainer's own GetNext calls are left out, the loaders have them.
 */
#include <stdlib.h>
#include <string.h>

#include "model_priv.h"

/* In by_stage: the label came after the last stage had been given away. */
#define OTHER DLP_MODEL_STAGES_MAX

static uint64_t stage_key(uint32_t label, bool worker)
{
	return (uint64_t)label << 1 | worker;
}

/* Position of the stage with this text, made if need be; OTHER when full; *err 0 or -ENOMEM. */
static uint32_t stage_at(struct dlp_model *model, const char *label, bool worker, int *err)
{
	struct dlp_stage *stage;

	*err = 0;
	for (size_t i = 0; i < model->stage_cnt; i++) {
		stage = &model->stages[i];
		if (stage->worker == worker && !strcmp(stage->label, label))
			return (uint32_t)i;
	}
	if (model->stage_cnt == DLP_MODEL_STAGES_MAX)
		return OTHER;
	*err = dlp_grow(&model->stages, &model->priv->stage_room, model->stage_cnt, sizeof(*stage));
	if (*err)
		return OTHER;
	stage = &model->stages[model->stage_cnt];
	memset(stage, 0, sizeof(*stage));
	(void)strncpy(stage->label, label, DLP_LABEL_MAX);
	stage->worker = worker;
	return (uint32_t)model->stage_cnt++;
}

static uint32_t stage_of(struct dlp_model *model, uint32_t label, bool worker, int *err)
{
	struct dlp_map *map = &model->priv->by_stage;
	uint32_t at = dlp_map_get(map, stage_key(label, worker));
	const char *text;

	*err = 0;
	if (at != DLP_MAP_NONE)
		return at;
	text = dlp_model_label(model, label);
	at = stage_at(model, text, worker, err);
	/* only labels that are known are remembered: they are few, and the others may become known */
	if (!*err && *text)
		*err = dlp_map_put(map, stage_key(label, worker), at);
	return at;
}

/* The part of a scope's figure that falls to `part` of its time. */
static uint64_t share(uint64_t figure, uint64_t part, uint64_t whole)
{
	return part < whole ? (uint64_t)((unsigned __int128)figure * part / whole) : figure;
}

static void add(const struct dlp_model *model, struct dlp_stage_sum *sum,
		const struct dlp_ev_scope *ev, uint64_t weight)
{
	uint64_t whole = dlp_less(ev->hdr.ts_ns, ev->start_ns);
	uint64_t part = dlp_less(ev->hdr.ts_ns, dlp_max(ev->start_ns, model->start_ns));

	sum->cnt += weight;
	sum->total_ns += part * weight;
	sum->exclusive_ns += share(dlp_less(whole, ev->child_ns), part, whole) * weight;
	sum->max_ns = dlp_max(sum->max_ns, part);
	for (size_t i = 0; i < DLP_ST_MAX; i++)
		sum->split.ns[i] += share(ev->split.ns[i], part, whole) * weight;
	sum->sampled |= weight > 1;
}

int dlp_stage_scope(struct dlp_model *model, const struct dlp_ev_scope *ev)
{
	bool worker = dlp_in_worker(model, ev->hdr.tgid);
	/* events from before scopes were sampled have none */
	uint32_t weight = ev->weight ? ev->weight : 1, at;
	struct dlp_stage *stage;
	int err;

	/* nobody knows what it was */
	if (ev->hdr.flags & DLP_SCOPE_BEGUN)
		return 0;
	if (!dlp_in_window(model, ev->hdr.ts_ns) || (ev->hdr.flags & DLP_SCOPE_GETNEXT && !worker))
		return 0;
	at = stage_of(model, ev->label, worker, &err);
	if (err)
		return err;
	if (at == OTHER) {
		add(model, &model->other_stages[worker], ev, weight);
		return 0;
	}
	stage = &model->stages[at];
	add(model, &stage->sum, ev, weight);
	dlp_hist_add_times(&stage->duration,
			   dlp_less(ev->hdr.ts_ns, dlp_max(ev->start_ns, model->start_ns)), weight);
	return 0;
}

void dlp_stages_fini(struct dlp_model *model)
{
	free(model->stages);
	dlp_map_fini(&model->priv->by_stage);
}
