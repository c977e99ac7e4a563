/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's GetNext calls: which iterator each one was on, which batch it returned, and the
 * statistics of both. Inference from torch's _MultiProcessingDataLoaderIter._next_data: a call
 * reads results until the due one is there; due ones read earlier are returned at once.
 */
#include <errno.h>
#include <string.h>

#include "model_priv.h"

/* How far a batch may lag behind delivered ones before it counts as lost. */
#define LATE_MAX 1024

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
	oldest = dlp_batch_oldest(it, call->end_ns);
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
	return dlp_within(call, it->state->final_ns) ||
	       (it->ended && dlp_within(call, it->state->ended_ns));
}

/* What the call returned: *ret_index, and its batch where that is known; false = nothing. */
static bool find_delivered(struct dlp_model *model, struct dlp_iterator *it,
			   const struct dlp_thread_state *state, const struct dlp_call *call,
			   int64_t *ret_index, struct dlp_batch **ret_batch)
{
	const struct dlp_iterator_state *own = it->state;
	struct dlp_batch *due = dlp_batch_due(model, it), *batch;
	bool closed = closed_in(it, call);

	*ret_batch = NULL;
	*ret_index = -1;
	if (state->recv.iterator == it->id && dlp_within(call, state->recv.ts_ns) &&
	    !state->recv.end) {
		batch = dlp_batch_find(it, state->recv.index);
		*ret_batch = batch ? pick_read(model, it, due, batch, call) : NULL;
		*ret_index = *ret_batch ? (*ret_batch)->index : state->recv.index;
		return true;
	}
	if (it->next_index < 0)
		return !closed;
	batch = pick_kept(model, it, due, call);
	if (!batch && (closed || dlp_iterator_exhausted(model, it)))
		return false;
	*ret_batch = batch;
	/* shards that ended before we looked leave gaps: which one is due must be learnt again */
	if (!batch && own->shards && !own->reset_ns)
		it->next_index = -1;
	*ret_index = batch ? batch->index : it->next_index;
	return true;
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

static void delivered(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		      int64_t index, struct dlp_batch *batch, struct dlp_interval *interval)
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

	interval->batch = index;
	interval->worker_pid = delivery.worker_pid;
	if (batch)
		batch->delivered_ns = call->end_ns;
	if (it->pipe)
		delivery.ready = dlp_flight_ready(model, it, loader, call);
	if (delivery.ready >= 0)
		delivery.in_flight = dlp_flight_count(it, call, batch);
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

static void note_call(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		      const struct dlp_interval *interval, bool data)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	struct dlp_interval step = loader->last;

	it->end_ns = dlp_max(it->end_ns, call->end_ns);
	if (call->counts) {
		it->getnext_cnt++;
		if (call->outer) {
			uint64_t ns =
				dlp_less(call->end_ns, dlp_max(call->start_ns, model->start_ns));

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
	/* it may come behind the call after it, and nobody knows when it began */
	if (call->cut)
		return;
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

static int call_on(struct dlp_model *model, struct dlp_thread_state *state, struct dlp_iterator *it,
		   const struct dlp_call *call)
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
		dlp_flight_note(model, it, call);
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
	state->recv.iterator = 0;
	note_order(model, state, it->id);
	state->last_end_ns = dlp_max(state->last_end_ns, call->end_ns);
	state->recv_first.ts_ns = 0;
	return err;
}

int dlp_getnext_call(struct dlp_model *model, struct dlp_thread_state *state,
		     const struct dlp_call *call)
{
	struct dlp_iterator *it = NULL;
	int err;

	model->last_progress_ns = dlp_max(model->last_progress_ns, call->end_ns);
	/* what the user has named gets no batch from a queue that we understand */
	if (!call->named && !dlp_label_single(model, call->label))
		it = dlp_iterator_choose(model, state, call);
	if (!it) {
		it = dlp_loader_plain(model, call, &err);
		if (!it)
			return err == -ENOSPC ? 0 : err;
	}
	return call_on(model, state, it, call);
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
		.named = ev->hdr.flags & DLP_SCOPE_NAMED,
		.split = &ev->split,
		.clock = &ev->clock,
	};
	struct dlp_thread_state *state;
	struct dlp_thread *thread;
	int err;

	if (!(ev->hdr.flags & DLP_SCOPE_GETNEXT))
		return 0;
	if (!model->trainer_pid)
		model->trainer_pid = ev->hdr.tgid;
	/* a worker that iterates a DataLoader of its own does so inside its production time */
	if (ev->hdr.tgid != model->trainer_pid)
		return 0;
	thread = dlp_thread_of(model, &ev->hdr, &err);
	if (!thread)
		return err;
	state = thread->state_priv;
	model->priv->brood_open = false;
	model->priv->last_call_ns = dlp_max(model->priv->last_call_ns, call.end_ns);
	if (call.outer)
		dlp_thread_scope(model, thread, &call);
	return dlp_getnext_call(model, state, &call);
}
