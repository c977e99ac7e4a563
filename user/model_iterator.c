/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's iterators: their life, and the batches between asked and delivered. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_priv.h"

/* A result that was not returned within this time was not wanted: time enough to wake up. */
#define WAITED_NS 1000000

struct dlp_iterator *dlp_iterator_find(struct dlp_model *model, uint32_t id)
{
	size_t low = 0, high = model->iterator_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (model->iterators[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	if (!id || low == model->iterator_cnt || model->iterators[low].id != id)
		return NULL;
	return &model->iterators[low];
}

static void recent_del(struct dlp_model_priv *priv, uint32_t id)
{
	for (size_t i = 0; i < priv->recent_iterator_cnt; i++) {
		if (priv->recent_iterator[i] != id)
			continue;
		priv->recent_iterator_cnt--;
		memmove(&priv->recent_iterator[i], &priv->recent_iterator[i + 1],
			(priv->recent_iterator_cnt - i) * sizeof(priv->recent_iterator[0]));
		return;
	}
}

void dlp_iterator_used(struct dlp_model *model, uint32_t id)
{
	struct dlp_model_priv *priv = model->priv;

	if (priv->recent_iterator_cnt && priv->recent_iterator[0] == id)
		return;
	recent_del(priv, id);
	memmove(&priv->recent_iterator[1], &priv->recent_iterator[0],
		priv->recent_iterator_cnt * sizeof(priv->recent_iterator[0]));
	priv->recent_iterator[0] = id;
	priv->recent_iterator_cnt++;
}

static void iterator_fini(struct dlp_model *model, struct dlp_iterator *it)
{
	struct dlp_model_priv *priv = model->priv;

	recent_del(priv, it->id);
	if (it->pipe && dlp_map_get(&priv->by_result, it->pipe) == it->id)
		dlp_map_del(&priv->by_result, it->pipe);
	free(it->batches);
	free(it->state);
	model->folded.iterator_cnt++;
}

/* The older half of the ended ones; where none has ended, the oldest one goes. */
static void fold_ended(struct dlp_model *model)
{
	size_t ended = 0, goal, kept = 0;

	for (size_t i = 0; i < model->iterator_cnt; i++)
		ended += model->iterators[i].ended;
	goal = ended / 2 + 1;
	if (!ended)
		model->dropped_cnt++;
	for (size_t i = 0; i < model->iterator_cnt; i++) {
		struct dlp_iterator *it = &model->iterators[i];

		if (goal && (it->ended || !ended)) {
			goal--;
			iterator_fini(model, it);
			continue;
		}
		model->iterators[kept++] = *it;
	}
	model->iterator_cnt = kept;
}

struct dlp_iterator *dlp_iterator_new(struct dlp_model *model, uint64_t pipe, uint64_t ts_ns,
				      int *err)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_iterator *it;

	if (model->iterator_cnt >= DLP_MODEL_ITERATORS_MAX)
		fold_ended(model);
	*err = dlp_grow(&model->iterators, &priv->iterator_room, model->iterator_cnt, sizeof(*it));
	if (*err)
		return NULL;
	it = &model->iterators[model->iterator_cnt];
	memset(it, 0, sizeof(*it));
	it->state = calloc(1, sizeof(*it->state));
	if (!it->state) {
		*err = -ENOMEM;
		return NULL;
	}
	it->id = ++priv->iterator_ids;
	if (pipe) {
		*err = dlp_map_put(&priv->by_result, pipe, it->id);
		if (*err) {
			free(it->state);
			return NULL;
		}
	}
	model->iterator_cnt++;
	it->pipe = pipe;
	it->start_ns = ts_ns;
	it->end_ns = ts_ns;
	it->next_index = -1;
	it->num_workers = pipe ? -1 : 0;
	it->state->max_index = -1;
	it->state->last_recv_index = -1;
	dlp_iterator_used(model, it->id);
	return it;
}

void dlp_iterators_fini(struct dlp_model *model)
{
	for (size_t i = 0; i < model->iterator_cnt; i++) {
		free(model->iterators[i].batches);
		free(model->iterators[i].state);
	}
	free(model->iterators);
	dlp_map_fini(&model->priv->by_result);
}

void dlp_iterator_end(struct dlp_iterator *it, uint64_t ts_ns)
{
	it->ended = true;
	it->end_ns = dlp_max(it->end_ns, ts_ns);
	it->state->ended_ns = ts_ns;
}

/* Numbering starts at 0 again: persistent workers, another epoch. */
void dlp_iterator_reset(struct dlp_iterator *it, uint64_t ts_ns)
{
	struct dlp_iterator_state *state = it->state;

	it->batch_cnt = 0;
	it->next_index = 0;
	it->epochs++;
	state->max_index = -1;
	state->resuming = false;
	state->reset_ns = ts_ns;
	state->calls = 0;
	state->over = state->shards = false;
	state->last_recv_index = -1;
}

/* `stride`: between consecutive indices of one pipe, 0 = nothing new about it. */
void dlp_iterator_workers(struct dlp_model *model, struct dlp_iterator *it, int stride)
{
	struct dlp_loader *loader;

	if (stride > 0 && it->num_workers < 0)
		it->num_workers = stride;
	loader = dlp_loader_find(model, it->loader);
	if (!loader)
		return;
	if (it->num_workers >= 0) {
		loader->num_workers = it->num_workers;
		loader->workers_known = true;
	} else if (!loader->workers_known && (int)it->worker_cnt > loader->num_workers) {
		loader->num_workers = (int)it->worker_cnt;
	}
}

/* Position of the first batch with at least this index. */
static size_t batch_seek(const struct dlp_iterator *it, int64_t index)
{
	size_t low = 0, high = it->batch_cnt;

	if (!high || it->batches[high - 1].index < index)
		return high;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (it->batches[mid].index < index)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct dlp_batch *dlp_batch_find(const struct dlp_iterator *it, int64_t index)
{
	size_t at = batch_seek(it, index);

	return at < it->batch_cnt && it->batches[at].index == index ? &it->batches[at] : NULL;
}

struct dlp_batch *dlp_batch_get(struct dlp_model *model, struct dlp_iterator *it, int64_t index,
				int *err)
{
	size_t at = batch_seek(it, index);
	struct dlp_batch *batch;

	*err = 0;
	if (at < it->batch_cnt && it->batches[at].index == index)
		return &it->batches[at];
	if (it->batch_cnt >= DLP_MODEL_IN_FLIGHT_MAX) {
		model->dropped_cnt++;
		dlp_batch_del(it, &it->batches[0]);
		at = batch_seek(it, index);
	}
	*err = dlp_grow(&it->batches, &it->batch_room, it->batch_cnt, sizeof(*batch));
	if (*err)
		return NULL;
	batch = &it->batches[at];
	memmove(batch + 1, batch, (it->batch_cnt - at) * sizeof(*batch));
	memset(batch, 0, sizeof(*batch));
	batch->index = index;
	it->batch_cnt++;
	return batch;
}

void dlp_batch_del(struct dlp_iterator *it, struct dlp_batch *batch)
{
	size_t at = (size_t)(batch - it->batches);

	it->batch_cnt--;
	memmove(batch, batch + 1, (it->batch_cnt - at) * sizeof(*batch));
}

/*
 * When could it have been returned? The thread that reads for others (pin_memory) hands it over
 * some time after its message, but before it reads the next one.
 */
static uint64_t handed_ns(const struct dlp_iterator *it, const struct dlp_batch *batch,
			  const struct dlp_call *call)
{
	uint64_t ret = UINT64_MAX;

	if (it->state->recv_tid == call->tid)
		return batch->received_ns;
	for (size_t i = 0; i < it->batch_cnt; i++) {
		uint64_t next_ns = it->batches[i].received_ns;

		if (next_ns > batch->received_ns && next_ns < ret)
			ret = next_ns;
	}
	return ret;
}

bool dlp_batch_waited(const struct dlp_iterator *it, const struct dlp_batch *batch,
		      const struct dlp_call *call)
{
	for (size_t i = 0; i < it->batch_cnt; i++) {
		const struct dlp_batch *other = &it->batches[i];

		/* read later, so handed over later */
		if (!other->received_ns || other->end_mark ||
		    other->received_ns >= batch->received_ns)
			continue;
		if (dlp_max(handed_ns(it, other, call), call->start_ns) + WAITED_NS <
		    batch->received_ns)
			return true;
	}
	return false;
}
