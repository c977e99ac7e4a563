/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which iterator a GetNext call was on, and which batch was due on it: by what is in flight, what has
 * been read, and in which order the thread's loops take turns.
 */
#include "model_priv.h"

/* Iterators considered for a call; more are never in use at once. */
#define LOOK_BACK 32

/* Will never come: its worker's shard ended before it. */
bool dlp_batch_skipped(struct dlp_model *model, const struct dlp_batch *batch)
{
	const struct dlp_worker *worker;

	if (batch->end_mark)
		return true;
	if (batch->sent_ns || batch->received_ns || !batch->worker_pid)
		return false;
	worker = dlp_worker_find(model, batch->worker_pid);
	return worker && worker->shard_ended;
}

/* Moves next_index over what will never come; the due batch, NULL = not known or not asked for. */
struct dlp_batch *dlp_batch_due(struct dlp_model *model, struct dlp_iterator *it)
{
	struct dlp_batch *batch;

	if (it->next_index < 0)
		return NULL;
	while ((batch = dlp_batch_find(it, it->next_index)) && dlp_batch_skipped(model, batch)) {
		dlp_batch_del(it, batch);
		it->next_index++;
	}
	return batch;
}

static bool in_flight(struct dlp_model *model, const struct dlp_iterator *it)
{
	for (size_t i = 0; i < it->batch_cnt; i++) {
		if (it->batches[i].index >= it->next_index &&
		    !dlp_batch_skipped(model, &it->batches[i]))
			return true;
	}
	return false;
}

/* Has nothing left to return: its next call ends the epoch. */
bool dlp_iterator_exhausted(struct dlp_model *model, const struct dlp_iterator *it)
{
	const struct dlp_iterator_state *state = it->state;

	if (in_flight(model, it))
		return false;
	/* asked for and gone without trace: lost, unless ended shards left gaps */
	if (it->next_index <= state->max_index && !state->shards)
		return false;
	/* attached in mid-epoch: what was asked before, and on pipes not tied yet, is unseen */
	return state->reset_ns || (state->pipe_cnt && state->pipe_cnt >= it->worker_cnt);
}

struct dlp_batch *dlp_batch_oldest_received(const struct dlp_iterator *it, uint64_t end_ns)
{
	struct dlp_batch *best = NULL;

	for (size_t i = 0; i < it->batch_cnt; i++) {
		struct dlp_batch *batch = &it->batches[i];

		if (!batch->received_ns || batch->received_ns > end_ns || batch->end_mark)
			continue;
		if (!best || batch->received_ns < best->received_ns)
			best = batch;
	}
	return best;
}

/* How well the call fits the iterator, from what is known when it ends; 0 = not at all. */
enum fit {
	FIT_NOT = 0,
	FIT_UNKNOWN, /* which batch is due is not known */
	FIT_LOST,    /* due batch on its way: its arrival would have to be lost */
	FIT_END,     /* nothing left to return: the call that ends the epoch */
	FIT_READY,   /* due batch received */
	FIT_LAST,    /* FIT_END, and the thread was on it the call before */
	FIT_FIRST,   /* due batch received, and it is the epoch's first call */
	FIT_CLOSED,  /* its workers were told to end in this call */
};

static enum fit fit(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		    uint32_t last_iterator)
{
	const struct dlp_iterator_state *state = it->state;
	const struct dlp_batch *due;

	/* results that were read early outlive the workers */
	if (!it->pipe || (it->ended && state->ended_ns < call->start_ns &&
			  (state->over || it->id != last_iterator)))
		return FIT_NOT;
	if (state->bound && (it->tid != call->tid || state->label != call->label))
		return FIT_NOT;
	/* other queues of the job look alike, but the trainer asks nothing on them */
	if (!state->bound && !state->pipe_cnt)
		return FIT_NOT;
	due = dlp_batch_due(model, it);
	if (it->unordered)
		due = dlp_batch_oldest_received(it, call->end_ns);
	if (due && due->received_ns && due->received_ns <= call->end_ns)
		return state->reset_ns && !state->calls ? FIT_FIRST : FIT_READY;
	if (state->over)
		return FIT_NOT;
	if (state->bound &&
	    (dlp_within(call, state->final_ns) || dlp_within(call, state->ended_ns)))
		return FIT_CLOSED;
	if (it->next_index < 0)
		return FIT_UNKNOWN;
	if (dlp_iterator_exhausted(model, it))
		return state->calls ? FIT_END : FIT_NOT;
	return FIT_LOST;
}

/* Iterators long ended leave the list of those in use. */
static void forget_ended(struct dlp_model *model, uint64_t before_ns, uint32_t last_iterator)
{
	struct dlp_model_priv *priv = model->priv;
	size_t kept = 0;

	for (size_t i = 0; i < priv->recent_iterator_cnt; i++) {
		uint32_t id = priv->recent_iterator[i];
		const struct dlp_iterator *it = dlp_iterator_find(model, id);

		if (it && (!it->ended || it->state->ended_ns >= before_ns || id == last_iterator))
			priv->recent_iterator[kept++] = id;
	}
	priv->recent_iterator_cnt = kept;
}

struct dlp_iterator *dlp_iterator_choose(struct dlp_model *model,
					 const struct dlp_thread_state *state,
					 const struct dlp_call *call)
{
	struct dlp_model_priv *priv = model->priv;
	const struct dlp_iterator *last;
	struct dlp_iterator *best = NULL;
	enum fit best_fit = FIT_NOT, this;
	uint32_t predicted = 0;

	/* a result it read itself settles it */
	if (state->recv.iterator && dlp_within(call, state->recv.ts_ns))
		best = dlp_iterator_find(model, state->recv.iterator);
	if (best && (!best->state->bound || best->state->label == call->label))
		return best;
	best = NULL;
	last = dlp_iterator_find(model, state->last_iterator);
	if (last)
		predicted = last->state->successor ? last->state->successor : last->id;
	if (priv->recent_iterator_cnt > LOOK_BACK / 2)
		forget_ended(model, call->start_ns, state->last_iterator);
	for (size_t i = 0; i < priv->recent_iterator_cnt && i < LOOK_BACK; i++) {
		struct dlp_iterator *it = dlp_iterator_find(model, priv->recent_iterator[i]);

		this = it ? fit(model, it, call, state->last_iterator) : FIT_NOT;
		/* loops stay on one iterator, or go round several in the same order */
		if (this == FIT_END && it->id == predicted)
			this = it->id == last->id ? FIT_LAST : FIT_READY;
		if (this == FIT_NOT || this < best_fit)
			continue;
		if (this == best_fit && it->id != predicted &&
		    (this != FIT_FIRST || it->state->reset_ns >= best->state->reset_ns))
			continue;
		best = it;
		best_fit = this;
	}
	return best;
}
