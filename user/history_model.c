/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the model tells the history: calls, productions, iterators, workers; and its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history_priv.h"

static struct dlp_history_iterator *iterator_get(struct dlp_history *history, uint32_t id,
						 uint32_t loader)
{
	struct dlp_history_priv *priv = history->priv;
	struct dlp_history_iterator *it;
	uint32_t at = dlp_map_get(&priv->iterator_at, id);

	if (at != DLP_MAP_NONE)
		return &history->iterators[at];
	it = dlp_history_add(history, DLP_STORE_ITERATORS);
	if (!it)
		return NULL;
	it->id = id;
	it->loader = loader;
	if (dlp_map_put(&priv->iterator_at, id, (uint32_t)history->iterator_cnt - 1))
		priv->err = -ENOMEM;
	return it;
}

static void on_delivery(void *ctx, const struct dlp_delivery *delivery)
{
	struct dlp_history *history = ctx;
	const struct dlp_batch *batch = delivery->batch;
	struct dlp_history_call *call = &history->priv->delivery;

	*call = (struct dlp_history_call){
		.index = delivery->index,
		.worker_pid = delivery->worker_pid,
		.ready = delivery->ready,
		.in_flight = delivery->in_flight,
	};
	history->priv->delivered = true;
	if (!batch)
		return;
	call->flags = DLP_CALL_BATCH;
	call->asked_ns = batch->asked_ns;
	call->taken_ns = batch->taken_ns;
	call->produced_ns = batch->produced_ns;
	call->sent_ns = batch->sent_ns;
	call->received_ns = batch->received_ns;
	call->message_bytes = batch->bytes;
}

/*
 * Calls from before an iterator's first message were put down to one without messages. When the
 * model has found out, they are its own.
 */
static void absorb(struct dlp_history *history, struct dlp_history_iterator *it, uint32_t epoch)
{
	struct dlp_history_iterator *plain = NULL;
	const struct dlp_model *model = history->model;

	for (size_t i = 0; i < history->iterator_cnt && !plain; i++) {
		struct dlp_history_iterator *other = &history->iterators[i];

		if (other->plain && other->loader == it->loader && other->call_cnt)
			plain = other;
	}
	if (!plain)
		return;
	for (size_t i = 0; i < model->iterator_cnt; i++) {
		if (model->iterators[i].id == plain->id && model->iterators[i].loader)
			return;
	}
	for (size_t i = 0; i < history->call_cnt; i++) {
		struct dlp_history_call *call = &history->calls[i];

		if (call->iterator != plain->id)
			continue;
		call->iterator = it->id;
		call->epoch = epoch;
	}
	it->first_call_ns = plain->first_call_ns;
	it->call_cnt += plain->call_cnt;
	plain->call_cnt = 0;
}

static void note_iterator(struct dlp_history *history, const struct dlp_call_note *note,
			  uint32_t epoch)
{
	struct dlp_history_iterator *it = iterator_get(history, note->iterator, note->loader);

	if (!it)
		return;
	it->plain = note->plain;
	/* an initialisation may have been noted before the loader was known */
	it->loader = note->loader;
	if (!it->call_cnt) {
		it->first_call_ns = note->start_ns;
		if (!note->plain)
			absorb(history, it, epoch);
	}
	it->last_call_ns = note->end_ns;
	it->call_cnt++;
	it->epoch_cnt += note->first && !note->plain;
}

static void on_call(void *ctx, const struct dlp_call_note *note)
{
	struct dlp_history *history = ctx;
	struct dlp_history_priv *priv = history->priv;
	bool delivered = priv->delivered, first = note->first && !note->plain;
	struct dlp_history_call *call;
	uint32_t *epoch;

	priv->delivered = false;
	if (!note->loader || note->loader > DLP_MODEL_LOADERS_MAX)
		return;
	epoch = &priv->epochs[note->loader - 1];
	*epoch += first;
	note_iterator(history, note, *epoch);
	call = dlp_history_add(history, DLP_STORE_CALLS);
	if (!call)
		return;
	if (delivered) {
		*call = priv->delivery;
	} else {
		call->index = -1;
		call->ready = call->in_flight = -1;
	}
	call->start_ns = note->start_ns;
	call->end_ns = note->end_ns;
	call->loader = note->loader;
	call->iterator = note->iterator;
	call->epoch = note->plain ? 0 : *epoch;
	call->tid = note->tid;
	call->flags |= (note->outer ? DLP_CALL_OUTER : 0) | (note->data ? DLP_CALL_DATA : 0) |
		       (first ? DLP_CALL_FIRST : 0) | (note->counts ? DLP_CALL_WINDOW : 0);
	call->split = *note->split;
}

static void on_production(void *ctx, const struct dlp_interval *made)
{
	struct dlp_history *history = ctx;
	const struct dlp_worker *worker = dlp_model_worker(history->model, made->worker_pid);
	struct dlp_history_production *production;

	production = dlp_history_add(history, DLP_STORE_PRODUCTIONS);
	if (!production)
		return;
	*production = (struct dlp_history_production){
		.taken_ns = made->start_ns,
		.done_ns = made->end_ns,
		.index = made->batch,
		.pid = made->worker_pid,
		.loader = worker ? worker->loader : 0,
		.iterator = worker ? worker->iterator : 0,
	};
}

static void on_init(void *ctx, const struct dlp_iterator *it, const struct dlp_interval *init)
{
	struct dlp_history *history = ctx;
	struct dlp_history_iterator *entry = iterator_get(history, it->id, it->loader);

	if (!entry)
		return;
	entry->init_start_ns = init->start_ns;
	entry->init_end_ns = init->end_ns;
	entry->init_cnt++;
}

void dlp_history_take_worker(struct dlp_history *history, const struct dlp_worker *worker)
{
	struct dlp_history_worker *entry;

	entry = dlp_history_add(history, DLP_STORE_WORKERS);
	if (!entry)
		return;
	*entry = (struct dlp_history_worker){
		.pid = worker->pid,
		.loader = worker->loader,
		.iterator = worker->iterator,
		.born_ns = worker->born_ns,
		.died_ns = worker->died_ns,
		.exit_code = worker->died_ns ? worker->exit_code : 0,
		.unexpected = worker->unexpected,
		.proven = worker->proven,
		.clock_valid = worker->clock_valid,
		.window_ns = worker->window_ns,
		.clock = worker->clock,
		.batch_cnt = worker->batch_cnt,
	};
}

static void on_folded(void *ctx, const struct dlp_worker *worker)
{
	dlp_history_take_worker(ctx, worker);
}

void dlp_history_watch(struct dlp_history *history)
{
	struct dlp_history_priv *priv = history->priv;

	priv->watch = (struct dlp_model_watch){
		.call = on_call,
		.production = on_production,
		.init = on_init,
		.folded = on_folded,
	};
	priv->model->on_delivery = on_delivery;
	priv->model->on_delivery_ctx = history;
	priv->model->watch = &priv->watch;
	priv->model->watch_ctx = history;
}

void dlp_history_unwatch(struct dlp_history *history)
{
	struct dlp_history_priv *priv = history->priv;

	if (priv->model->watch != &priv->watch)
		return;
	priv->model->on_delivery = NULL;
	priv->model->on_delivery_ctx = NULL;
	priv->model->watch = NULL;
	priv->model->watch_ctx = NULL;
}
