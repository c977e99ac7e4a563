/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's GetNext calls: which iterator each one was on, which batch it returned, and the
 * statistics of both. Inference from torch's _MultiProcessingDataLoaderIter._next_data: a call
 * reads results until the due one is there; due ones read earlier are returned at once.
 */
#include <errno.h>
#include <string.h>

#include "model_priv.h"

/* Iterators considered for a call; more are never in use at once. */
#define LOOK_BACK 32
/* How far a batch may lag behind delivered ones before it counts as lost. */
#define LATE_MAX 1024
/* Calls until the largest number in flight is believed, besides twice that number. */
#define SETTLE_MIN 64
#define SETTLE_FRESH 4

/* Will never come: its worker's shard ended before it. */
static bool skipped(struct dlp_model *model, const struct dlp_batch *batch)
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
static struct dlp_batch *due_batch(struct dlp_model *model, struct dlp_iterator *it)
{
	struct dlp_batch *batch;

	if (it->next_index < 0)
		return NULL;
	while ((batch = dlp_batch_find(it, it->next_index)) && skipped(model, batch)) {
		dlp_batch_del(it, batch);
		it->next_index++;
	}
	return batch;
}

static bool in_flight(struct dlp_model *model, const struct dlp_iterator *it)
{
	for (size_t i = 0; i < it->batch_cnt; i++) {
		if (it->batches[i].index >= it->next_index && !skipped(model, &it->batches[i]))
			return true;
	}
	return false;
}

/* Has nothing left to return: its next call ends the epoch. */
static bool exhausted(struct dlp_model *model, const struct dlp_iterator *it)
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

static struct dlp_batch *oldest_received(const struct dlp_iterator *it, uint64_t end_ns)
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

static bool within(const struct dlp_call *call, uint64_t ts_ns)
{
	return ts_ns >= call->start_ns && ts_ns <= call->end_ns;
}

/* How well the call fits the iterator, from what is known when it ends; 0 = not at all. */
enum fit {
	FIT_NOT = 0,
	FIT_UNKNOWN,  /* which batch is due is not known */
	FIT_LOST,     /* due batch on its way: its arrival would have to be lost */
	FIT_END,      /* nothing left to return: the call that ends the epoch */
	FIT_READY,    /* due batch received */
	FIT_LAST,     /* FIT_END, and the thread was on it the call before */
	FIT_FIRST,    /* due batch received, and it is the epoch's first call */
	FIT_CLOSED,   /* its workers were told to end in this call */
};

static enum fit fit(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		    uint32_t last_iterator)
{
	const struct dlp_iterator_state *state = it->state;
	const struct dlp_batch *due;

	/* results that were read early outlive the workers */
	if (!it->pipe ||
	    (it->ended && state->ended_ns < call->start_ns &&
	     (state->over || it->id != last_iterator)))
		return FIT_NOT;
	if (state->bound && (it->tid != call->tid || state->label != call->label))
		return FIT_NOT;
	/* other queues of the job look alike, but the trainer asks nothing on them */
	if (!state->bound && !state->pipe_cnt)
		return FIT_NOT;
	due = due_batch(model, it);
	if (it->unordered)
		due = oldest_received(it, call->end_ns);
	if (due && due->received_ns && due->received_ns <= call->end_ns)
		return state->reset_ns && !state->calls ? FIT_FIRST : FIT_READY;
	if (state->over)
		return FIT_NOT;
	if (state->bound && (within(call, state->final_ns) || within(call, state->ended_ns)))
		return FIT_CLOSED;
	if (it->next_index < 0)
		return FIT_UNKNOWN;
	if (exhausted(model, it))
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

static struct dlp_iterator *choose(struct dlp_model *model, const struct dlp_thread_state *state,
				   const struct dlp_call *call)
{
	struct dlp_model_priv *priv = model->priv;
	const struct dlp_iterator *last;
	struct dlp_iterator *best = NULL;
	enum fit best_fit = FIT_NOT, this;
	uint32_t predicted = 0;

	/* a result it read itself settles it */
	if (state->recv_iterator && within(call, state->recv_ns))
		best = dlp_iterator_find(model, state->recv_iterator);
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

/* Were events lost? The kernel's side tells at each interval. */
bool dlp_lossy(const struct dlp_model *model)
{
	return model->getnext_lost || model->counters.value[DLP_CNT_RING_FULL] ||
	       model->counters.recursion_misses;
}

/* Starting up: of some worker it is not known yet what it was asked for. */
static bool unlinked(const struct dlp_model *model, const struct dlp_iterator *it)
{
	return it->num_workers > (int)it->state->pipe_cnt && (!it->next_index || !dlp_lossy(model));
}

/* The call read a result itself: reads stop at the batch to return. */
static struct dlp_batch *pick_read(const struct dlp_model *model, struct dlp_iterator *it,
				   struct dlp_batch *due, struct dlp_batch *read,
				   const struct dlp_call *call)
{
	const struct dlp_iterator_state *own = it->state;

	if (due == read)
		return read;
	if (!due) {
		it->unordered |= unlinked(model, it);
		return read;
	}
	/* it had been received before: then it was returned by a call we did not see */
	if (due->received_ns)
		return read;
	if (own->in_order && due->sent_ns && due->sent_ns <= call->end_ns)
		return due;
	it->unordered |= !own->in_order;
	return read;
}

/* The call read nothing itself: what it returned had been read before, or by another thread. */
static struct dlp_batch *pick_kept(const struct dlp_model *model, struct dlp_iterator *it,
				   struct dlp_batch *due, const struct dlp_call *call)
{
	struct dlp_batch *oldest;

	if (due && due->received_ns && due->received_ns <= call->end_ns && !it->unordered)
		return due;
	oldest = oldest_received(it, call->end_ns);
	if (!oldest || it->state->in_order)
		return due;
	/* nothing at all was seen of the due one: lost events say less than the order */
	if (!due && oldest->index > it->next_index && !it->unordered && !unlinked(model, it))
		return NULL;
	it->unordered |= oldest != due;
	return oldest;
}

/* Its workers were told to end, or ended, in this call. */
static bool closed_in(const struct dlp_iterator *it, const struct dlp_call *call)
{
	return within(call, it->state->final_ns) ||
	       (it->ended && within(call, it->state->ended_ns));
}

/* What the call returned: *ret_index, and its batch where that is known; false = nothing. */
static bool find_delivered(struct dlp_model *model, struct dlp_iterator *it,
			   const struct dlp_thread_state *state, const struct dlp_call *call,
			   int64_t *ret_index, struct dlp_batch **ret_batch)
{
	const struct dlp_iterator_state *own = it->state;
	struct dlp_batch *due = due_batch(model, it), *batch;
	bool closed = closed_in(it, call);

	*ret_batch = NULL;
	*ret_index = -1;
	if (state->recv_iterator == it->id && within(call, state->recv_ns) && !state->recv_end) {
		batch = dlp_batch_find(it, state->recv_index);
		*ret_batch = batch ? pick_read(model, it, due, batch, call) : NULL;
		*ret_index = *ret_batch ? (*ret_batch)->index : state->recv_index;
		return true;
	}
	if (it->next_index < 0)
		return !closed;
	batch = pick_kept(model, it, due, call);
	if (!batch && (closed || exhausted(model, it)))
		return false;
	*ret_batch = batch;
	/* shards that ended before we looked leave gaps: which one is due must be learnt again */
	if (!batch && own->shards && !own->reset_ns)
		it->next_index = -1;
	*ret_index = batch ? batch->index : it->next_index;
	return true;
}

/*
 * Batches in flight before the call asked for another one; *ret_next = the index after the newest
 * of them.
 */
static size_t in_flight_before(const struct dlp_iterator *it, const struct dlp_call *call,
			       int64_t *ret_next)
{
	size_t cnt = it->batch_cnt, late = 0;

	while (cnt && it->batches[cnt - 1].asked_ns >= call->start_ns)
		cnt--;
	*ret_next = cnt ? it->batches[cnt - 1].index + 1 : 0;
	while (!it->unordered && late < cnt && it->batches[late].index < it->next_index)
		late++;
	return cnt - late;
}

static bool settled(const struct dlp_iterator *it)
{
	/* when the start was seen, the queues were filled before the first call */
	if (it->state->reset_ns && it->num_workers > 0)
		return it->state->settling > SETTLE_FRESH;
	return it->state->settling > 2 * (uint64_t)it->in_flight_max + SETTLE_MIN;
}

/*
 * torch never has more than prefetch x workers in flight. Once that number is settled, more than
 * that means that deliveries were lost: catch up.
 */
static void note_in_flight(struct dlp_model *model, struct dlp_iterator *it,
			   const struct dlp_call *call)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	int64_t next, least;
	size_t cnt;

	/* the end of a shard is answered with another index, beyond that number */
	if (it->next_index < 0 || it->state->shards)
		return;
	cnt = in_flight_before(it, call, &next);
	if (!settled(it)) {
		it->state->settling += !it->state->reset_ns ||
				       it->num_workers <= (int)it->state->pipe_cnt;
		if (cnt > it->in_flight_max)
			it->in_flight_max = (uint32_t)cnt;
		if (it->in_flight_max > loader->prefetch)
			loader->prefetch = it->in_flight_max;
		return;
	}
	if (!dlp_lossy(model))
		return;
	if (!it->unordered) {
		least = next - (int64_t)it->in_flight_max;
		if (it->next_index < least)
			it->next_index = least;
		return;
	}
	for (; cnt > it->in_flight_max; cnt--) {
		struct dlp_batch *oldest = oldest_received(it, call->start_ns);

		if (!oldest)
			return;
		dlp_batch_del(it, oldest);
	}
}

/* Ready = sent when the call began; in order, so only an unbroken row counts. */
static int32_t note_ready(struct dlp_model *model, struct dlp_iterator *it,
			  struct dlp_loader *loader, const struct dlp_call *call)
{
	uint64_t ready = 0;
	int64_t want = it->next_index;

	if (want < 0)
		return -1;
	for (size_t i = 0; i < it->batch_cnt; i++) {
		const struct dlp_batch *batch = &it->batches[i];
		bool sent = batch->sent_ns && batch->sent_ns <= call->start_ns;

		if (!it->unordered && (batch->index < want))
			continue;
		if (skipped(model, batch)) {
			want = batch->index + 1;
			continue;
		}
		if (!it->unordered && (batch->index != want || !sent))
			break;
		want++;
		ready += sent;
	}
	if (call->counts) {
		loader->ready_cnt++;
		loader->ready_sum += ready;
		loader->empty_cnt += !ready;
	}
	return (int32_t)ready;
}

/* Takes the delivered batch out and moves on to the next one. */
static void advance(struct dlp_iterator *it, int64_t index, struct dlp_batch *batch,
		    const struct dlp_call *call)
{
	struct dlp_iterator_state *own = it->state;

	if (batch && !own->in_order && !it->unordered && batch->received_ns)
		own->in_order = dlp_batch_waited(it, batch, call);
	if (batch)
		dlp_batch_del(it, batch);
	if (it->unordered) {
		it->next_index = it->batch_cnt ? it->batches[0].index : own->max_index + 1;
		return;
	}
	if (index < 0) {
		/* some batch went; without this those received pile up */
		if (it->batch_cnt && it->batches[0].received_ns)
			dlp_batch_del(it, &it->batches[0]);
		return;
	}
	if (index >= it->next_index)
		it->next_index = index + 1;
	/* in order nothing below can follow; before that is proven one may just be slow */
	while (it->batch_cnt && it->batches[0].index < it->next_index &&
	       (own->in_order || it->num_workers == 1 ||
		it->batches[0].index < it->next_index - LATE_MAX))
		dlp_batch_del(it, &it->batches[0]);
}

static void delivered(struct dlp_model *model, struct dlp_iterator *it,
		      const struct dlp_call *call, int64_t index, struct dlp_batch *batch,
		      struct dlp_interval *interval)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	struct dlp_delivery delivery = {
		.iterator = it->id,
		.tid = call->tid,
		.start_ns = call->start_ns,
		.end_ns = call->end_ns,
		.index = index,
		.worker_pid = batch ? batch->worker_pid : 0,
		.batch = batch,
		.ready = -1,
		.in_flight = -1,
	};
	int64_t next;

	interval->batch = index;
	interval->worker_pid = delivery.worker_pid;
	if (batch)
		batch->delivered_ns = call->end_ns;
	if (it->pipe)
		delivery.ready = note_ready(model, it, loader, call);
	if (delivery.ready >= 0)
		delivery.in_flight = (int32_t)in_flight_before(it, call, &next);
	dlp_exposed_batch(model, it, call, batch);
	model->last_delivery_ns = dlp_max(model->last_delivery_ns, call->end_ns);
	if (call->counts) {
		loader->sums.batches += call->outer;
		it->delivered_cnt++;
		loader->batch_cnt++;
		model->priv->now.batches++;
	}
	if (model->on_delivery)
		model->on_delivery(model->on_delivery_ctx, &delivery);
	if (it->pipe)
		advance(it, index, batch, call);
}

static void note_call(struct dlp_model *model, struct dlp_iterator *it,
		      const struct dlp_call *call, const struct dlp_interval *interval, bool data)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	struct dlp_interval step = loader->last;

	it->end_ns = dlp_max(it->end_ns, call->end_ns);
	if (call->counts) {
		it->getnext_cnt++;
		if (call->outer) {
			uint64_t ns = dlp_less(call->end_ns,
					       dlp_max(call->start_ns, model->start_ns));

			it->getnext_ns += ns;
			loader->sums.getnext_ns += ns;
			loader->sums.calls++;
			dlp_clock_add(&loader->sums.inside, call->split);
		}
		if (call->start_ns >= model->start_ns) {
			dlp_hist_add(&loader->getnext, interval->end_ns - interval->start_ns);
			dlp_longest_add(&loader->getnext_longest, interval);
		} else {
			loader->straddle_cnt++;
			loader->straddle_ns += dlp_less(call->end_ns, model->start_ns);
		}
		dlp_clock_add(&loader->getnext_split, call->split);
		if (loader->last_start_ns && call->start_ns >= loader->last_start_ns) {
			step.start_ns = loader->last_start_ns;
			step.end_ns = call->start_ns;
			dlp_hist_add(&loader->batch_time, step.end_ns - step.start_ns);
			dlp_longest_add(&loader->batch_time_longest, &step);
		}
		if (call->outer) {
			model->priv->now.getnext_cnt++;
			dlp_hist_add(&model->priv->now.getnext,
				     interval->end_ns - interval->start_ns);
		}
	}
	loader->last = *interval;
	loader->last_start_ns = data ? call->start_ns : 0;
}

static void note_settings(struct dlp_model *model, const struct dlp_iterator *it,
			  const struct dlp_call *call)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);

	if (it->unordered || it->state->in_order)
		loader->in_order = !it->unordered;
	if (it->pipe && it->state->recv_tid)
		loader->pin_memory = it->state->recv_tid != call->tid;
}

/* The thread's iterators in the order of use: after `last` came `id`. */
static void note_order(struct dlp_model *model, struct dlp_thread_state *state, uint32_t id)
{
	struct dlp_iterator *last = dlp_iterator_find(model, state->last_iterator);

	/* what follows the end of an epoch says nothing about the next epoch */
	if (last && !last->state->over)
		last->state->successor = id;
	state->last_iterator = id;
	dlp_iterator_used(model, id);
}

static int call_on(struct dlp_model *model, struct dlp_thread_state *state,
		   struct dlp_iterator *it, const struct dlp_call *call)
{
	struct dlp_interval interval = {
		.start_ns = call->start_ns,
		.end_ns = dlp_max(call->end_ns, call->start_ns),
		.batch = -1,
	};
	struct dlp_batch *batch = NULL;
	int64_t index = -1;
	bool data = true;
	int err;

	if (it->pipe) {
		err = dlp_loader_bind(model, it, call->tid, call->label);
		if (err)
			return err == -ENOSPC ? 0 : err;
		note_in_flight(model, it, call);
		data = find_delivered(model, it, state, call, &index, &batch);
	}
	dlp_startup_call(model, state, it, call);
	if (data)
		delivered(model, it, call, index, batch, &interval);
	else
		dlp_exposed_end(model, it, call);
	dlp_idle_call(model, it->loader, call);
	note_settings(model, it, call);
	note_call(model, it, call, &interval, data);
	dlp_phase_call(model, it, call, data);
	/* an end that is only concluded may be a loss of messages */
	err = data || closed_in(it, call) ? dlp_identity_call(model, it, !data, index) : 0;
	if (model->watch)
		dlp_watch_call(model, it, call, data);
	it->state->calls++;
	it->state->over = !data;
	state->recv_iterator = 0;
	note_order(model, state, it->id);
	state->last_end_ns = dlp_max(state->last_end_ns, call->end_ns);
	state->recv_first_ns = 0;
	return err;
}

int dlp_getnext(struct dlp_model *model, const struct dlp_ev_scope *ev)
{
	struct dlp_call call = {
		.start_ns = ev->start_ns,
		.end_ns = ev->hdr.ts_ns,
		.tid = ev->hdr.tid,
		.label = ev->label,
		.counts = dlp_in_window(model, ev->hdr.ts_ns),
		.outer = ev->hdr.flags & DLP_SCOPE_OUTER,
		.split = &ev->split,
		.clock = &ev->clock,
	};
	struct dlp_thread_state *state;
	struct dlp_iterator *it = NULL;
	struct dlp_thread *thread;
	int err;

	if (!(ev->hdr.flags & DLP_SCOPE_GETNEXT))
		return 0;
	if (!model->trainer_pid)
		model->trainer_pid = ev->hdr.tgid;
	/* a worker that iterates a DataLoader of its own does so inside its production time */
	if (ev->hdr.tgid != model->trainer_pid)
		return 0;
	thread = dlp_thread_get(model, ev->hdr.tgid, ev->hdr.tid, &err);
	if (!thread)
		return err;
	state = dlp_thread_state_get(thread);
	if (!state)
		return -ENOMEM;
	model->priv->brood_open = false;
	model->priv->last_call_ns = dlp_max(model->priv->last_call_ns, call.end_ns);
	if (call.outer)
		dlp_thread_scope(model, thread, &call);
	if (call.end_ns > model->last_progress_ns)
		model->last_progress_ns = call.end_ns;
	/* what the user has named gets no batch from a queue that we understand */
	if (!(ev->hdr.flags & DLP_SCOPE_NAMED) && !dlp_label_single(model, call.label))
		it = choose(model, state, &call);
	if (!it) {
		it = dlp_loader_plain(model, &call, &err);
		if (!it)
			return err == -ENOSPC ? 0 : err;
	}
	return call_on(model, state, it, &call);
}
