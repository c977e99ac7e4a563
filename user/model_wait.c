/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the job's threads are blocked on for long: the intervals that are sent one by one, summed by
 * state, file system and device. The state clocks know all of the time; this says on what.
 */
#include "model_priv.h"

static struct dlp_wait_group *group_get(struct dlp_model *model, const struct dlp_ev_wait *ev)
{
	bool worker = dlp_in_worker(model, ev->hdr.tgid);
	struct dlp_wait_group *group;

	for (size_t i = 0; i < model->wait_cnt; i++) {
		group = &model->waits[i];
		if (group->state == ev->state && group->dev == ev->dev &&
		    group->fs_magic == ev->fs_magic && group->worker == worker)
			return group;
	}
	if (model->wait_cnt == DLP_MODEL_WAITS_MAX)
		return &model->other_waits[worker];
	group = &model->waits[model->wait_cnt++];
	group->state = ev->state;
	group->dev = ev->dev;
	group->fs_magic = ev->fs_magic;
	group->worker = worker;
	return group;
}

void dlp_wait(struct dlp_model *model, const struct dlp_ev_wait *ev)
{
	struct dlp_wait_group *group;
	uint64_t ns;

	if (!dlp_in_window(model, ev->hdr.ts_ns))
		return;
	ns = dlp_less(ev->hdr.ts_ns, dlp_max(ev->start_ns, model->start_ns));
	group = group_get(model, ev);
	group->cnt++;
	group->total_ns += ns;
	group->max_ns = dlp_max(group->max_ns, ns);
}

const struct dlp_wait_group *dlp_model_top_wait(const struct dlp_model *model, unsigned int state,
						bool worker)
{
	const struct dlp_wait_group *top = NULL;

	for (size_t i = 0; i < model->wait_cnt; i++) {
		const struct dlp_wait_group *group = &model->waits[i];

		if (group->state == state && group->worker == worker &&
		    (!top || group->total_ns > top->total_ns))
			top = group;
	}
	return top;
}
