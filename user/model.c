/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's outside: taking events, the window and its intervals, labels. Threads, workers,
 * queues, iterators, loaders, GetNext calls, stages, waits, block IO and the system are in
 * model_*.c.
 */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "model_priv.h"

void dlp_clock_add(struct dlp_clock *to, const struct dlp_clock *what)
{
	for (size_t i = 0; i < DLP_ST_MAX; i++)
		to->ns[i] += what->ns[i];
}

/*
 * A reading taken in the middle of a time slice counts all of it as `run`; what interrupts and
 * the hypervisor took of it moves to `runq` when the slice ends, so `run` can seem to go back.
 */
struct dlp_clock dlp_clock_less(const struct dlp_clock *a, const struct dlp_clock *b)
{
	struct dlp_clock ret;

	for (size_t i = 0; i < DLP_ST_MAX; i++)
		ret.ns[i] = dlp_less(a->ns[i], b->ns[i]);
	if (a->ns[DLP_ST_RUN] < b->ns[DLP_ST_RUN])
		ret.ns[DLP_ST_RUNQ] = dlp_less(a->ns[DLP_ST_RUN] + a->ns[DLP_ST_RUNQ],
					       b->ns[DLP_ST_RUN] + b->ns[DLP_ST_RUNQ]);
	return ret;
}

bool dlp_in_window(const struct dlp_model *model, uint64_t ts_ns)
{
	return model->priv->open && ts_ns >= model->start_ns &&
	       (!model->closed || ts_ns <= model->end_ns);
}

int dlp_model_new(struct dlp_model **ret)
{
	struct dlp_model *model;

	model = calloc(1, sizeof(*model));
	if (!model)
		return -ENOMEM;
	model->priv = calloc(1, sizeof(*model->priv));
	if (!model->priv) {
		free(model);
		return -ENOMEM;
	}
	*ret = model;
	return 0;
}

void dlp_model_free(struct dlp_model *model)
{
	if (!model)
		return;
	dlp_iterators_fini(model);
	dlp_queues_fini(model);
	dlp_threads_fini(model);
	dlp_stages_fini(model);
	dlp_identities_fini(model);
	dlp_map_fini(&model->priv->by_pid);
	dlp_map_fini(&model->priv->by_label);
	free(model->priv->labels);
	free(model->priv);
	free(model->loaders);
	free(model->workers);
	free(model->devices);
	free(model);
}

static void interval_start(struct dlp_model *model, uint64_t ts_ns)
{
	memset(&model->priv->now, 0, sizeof(model->priv->now));
	model->priv->now.start_ns = ts_ns;
	model->priv->exposed_before = model->exposed_ns;
}

/* What waits for something to happen first: it will not any more. */
static void settle_all(struct dlp_model *model)
{
	for (size_t i = 0; i < model->thread_cnt; i++) {
		struct dlp_thread_state *state = model->threads[i].state_priv;

		if (state && state->owed.loader)
			dlp_exposed_settle(model, state, 0);
	}
	dlp_idle_close(model);
}

static void apply_window(struct dlp_model *model, const struct dlp_ev_window *ev)
{
	struct dlp_model_priv *priv = model->priv;

	if (ev->phase == 0) {
		if (priv->open)
			return;
		priv->open = true;
		model->start_ns = ev->hdr.ts_ns;
		model->end_ns = ev->hdr.ts_ns;
		model->realtime_start_ns = ev->realtime_ns;
		dlp_main_update(model);
		interval_start(model, ev->hdr.ts_ns);
		return;
	}
	if (!priv->open || model->closed)
		return;
	if (ev->phase == 2) {
		settle_all(model);
		model->closed = true;
		model->end_ns = dlp_max(ev->hdr.ts_ns, model->start_ns);
	}
	dlp_main_update(model);
	priv->now.end_ns = ev->hdr.ts_ns;
	priv->now.exposed_ns = dlp_less(model->exposed_ns, priv->exposed_before);
	model->interval = priv->now;
	interval_start(model, ev->hdr.ts_ns);
}

static int apply_label(struct dlp_model *model, const struct dlp_ev_label *ev)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_label *label;
	uint32_t at;
	int err;

	at = dlp_map_get(&priv->by_label, ev->label);
	if (at == DLP_MAP_NONE) {
		if (priv->label_cnt >= DLP_LABELS_MAX) {
			model->dropped_cnt++;
			return 0;
		}
		err = dlp_grow(&priv->labels, &priv->label_room, priv->label_cnt,
			       sizeof(*priv->labels));
		if (!err)
			err = dlp_map_put(&priv->by_label, ev->label, (uint32_t)priv->label_cnt);
		if (err)
			return err;
		at = (uint32_t)priv->label_cnt++;
	}
	label = &priv->labels[at];
	label->id = ev->label;
	label->flags = ev->flags;
	memcpy(label->text, ev->text, DLP_LABEL_MAX);
	label->text[DLP_LABEL_MAX] = '\0';
	dlp_loader_label(model, label);
	return 0;
}

static void apply_wait(struct dlp_model *model, const struct dlp_ev_wait *ev)
{
	struct dlp_thread *thread;

	dlp_wait(model, ev);
	/* an idle worker has finished its batch */
	if (ev->state != DLP_ST_IDLE || ev->hdr.tid != ev->hdr.tgid)
		return;
	thread = dlp_thread_find(model, ev->hdr.tid);
	if (thread)
		dlp_produce_end_at(model, thread, ev->start_ns);
}

static int dispatch(struct dlp_model *model, const struct dlp_ev_hdr *hdr)
{
	int err;

	switch (hdr->kind) {
	case DLP_EV_SCOPE:
		err = dlp_begun_scope(model, (const void *)hdr);
		if (!err)
			err = dlp_getnext(model, (const void *)hdr);
		return err ? err : dlp_stage_scope(model, (const void *)hdr);
	case DLP_EV_LABEL:
		return apply_label(model, (const void *)hdr);
	case DLP_EV_MSG:
		return dlp_queue_msg(model, (const void *)hdr);
	case DLP_EV_SEM:
		return dlp_startup_sem(model, (const void *)hdr);
	case DLP_EV_BLOCK:
		return dlp_block(model, (const void *)hdr);
	case DLP_EV_WAIT:
		apply_wait(model, (const void *)hdr);
		return 0;
	case DLP_EV_CLOCK:
		return dlp_thread_clock(model, (const void *)hdr);
	case DLP_EV_FORK:
		return dlp_thread_fork(model, (const void *)hdr);
	case DLP_EV_EXEC:
		return dlp_thread_exec(model, (const void *)hdr);
	case DLP_EV_EXIT:
		return dlp_thread_exit(model, (const void *)hdr);
	case DLP_EV_WINDOW:
		apply_window(model, (const void *)hdr);
		return 0;
	case DLP_EV_COUNTERS:
		model->counters = *(const struct dlp_ev_counters *)hdr;
		return 0;
	case DLP_EV_PROC:
		return dlp_worker_proc(model, (const void *)hdr);
	case DLP_EV_SYSTEM:
		dlp_system_apply(model, (const void *)hdr);
		return 0;
	case DLP_EV_GOVERN:
		dlp_govern_note(model, (const void *)hdr);
		return 0;
	case DLP_EV_OTHER:
		dlp_system_other(model, (const void *)hdr);
		return 0;
	case DLP_EV_GC:
		dlp_gc(model, (const void *)hdr);
		return 0;
	default:
		return 0;
	}
}

int dlp_model_apply(struct dlp_model *model, const void *event, size_t bytes)
{
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;
	int err;

	err = dlp_event_check(event, bytes, &room, &hdr);
	if (err == -ENOENT)
		model->unknown_cnt++;
	else if (err)
		model->malformed_cnt++;
	if (err)
		return err;
	if (model->priv->open && !model->closed && hdr->ts_ns > model->end_ns)
		model->end_ns = hdr->ts_ns;
	return dispatch(model, hdr);
}

const char *dlp_model_label(const struct dlp_model *model, uint32_t label)
{
	uint32_t at = dlp_map_get(&model->priv->by_label, label);

	return at == DLP_MAP_NONE ? "" : model->priv->labels[at].text;
}
