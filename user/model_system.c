/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The system in the model: snapshots at the edges of the window, and who else uses the CPUs. */
#include <string.h>

#include "model_priv.h"

void dlp_system_apply(struct dlp_model *model, const struct dlp_ev_system *ev)
{
	struct dlp_system_facts *system = &model->system;

	if (model->closed)
		return;
	if (ev->known & DLP_SYS_SHM && (!model->shm_total || ev->shm_free < model->shm_least)) {
		model->shm_total = ev->shm_total;
		model->shm_least = ev->shm_free;
	}
	system->before = system->last.hdr.size ? system->last : *ev;
	system->last = *ev;
	if (!model->priv->open || !system->first.hdr.size) {
		system->first = *ev;
		system->before = *ev;
	}
}

/* Takes a newer figure; returns by how much it grew. One that went back is another process's. */
static uint64_t advance(struct dlp_model *model, struct dlp_other *other,
			const struct dlp_ev_other *ev)
{
	uint64_t grown = ev->cpu_ns < other->seen_ns ? ev->cpu_ns : ev->cpu_ns - other->seen_ns;

	other->pid = ev->hdr.tgid;
	other->seen_ns = ev->cpu_ns;
	memcpy(other->comm, ev->comm, sizeof(other->comm));
	if (!model->priv->open)
		return 0;
	other->used_ns += grown;
	return grown;
}

static void apply_all(struct dlp_model *model, const struct dlp_ev_other *ev)
{
	struct dlp_system_facts *system = &model->system;
	uint64_t grown = advance(model, &system->others_all, ev);

	/* what is told while the window is not open yet begins the first interval */
	if (model->priv->open && system->others_ns) {
		system->others_recent_ns = grown;
		system->others_recent_wall_ns = dlp_less(ev->hdr.ts_ns, system->others_ns);
	}
	system->others_ns = ev->hdr.ts_ns;
}

/* Found or made; NULL when there is no room and everyone in the table has used more. */
static struct dlp_other *other_get(struct dlp_system_facts *system, const struct dlp_ev_other *ev)
{
	struct dlp_other *least = NULL;

	for (size_t i = 0; i < system->other_cnt; i++) {
		struct dlp_other *other = &system->others[i];

		if (other->pid == ev->hdr.tgid)
			return other;
		if (!least || other->seen_ns < least->seen_ns)
			least = other;
	}
	if (system->other_cnt < DLP_MODEL_OTHERS_MAX)
		least = &system->others[system->other_cnt++];
	else if (ev->cpu_ns <= least->seen_ns)
		return NULL;
	memset(least, 0, sizeof(*least));
	return least;
}

void dlp_system_other(struct dlp_model *model, const struct dlp_ev_other *ev)
{
	struct dlp_other *other;

	if (model->closed)
		return;
	if (!ev->hdr.tgid) {
		apply_all(model, ev);
		return;
	}
	other = other_get(&model->system, ev);
	if (other)
		(void)advance(model, other, ev);
}
