/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's account of GetNext: what the thread that iterates spent each call on. The batch's
 * stations say what it waited for, its state clock says what it did itself. And the workers' idle
 * times, set against the calls.
 */
#include <string.h>

#include "model_priv.h"

/* What a thread did in a while. */
struct parts {
	uint64_t blocked, run, runq, gil;
};

static struct parts parts_of(const struct dlp_clock *clock)
{
	struct parts ret = {
		.run = clock->ns[DLP_ST_RUN],
		.runq = clock->ns[DLP_ST_RUNQ],
		.gil = clock->ns[DLP_ST_GIL],
	};

	for (size_t i = 0; i < DLP_ST_MAX; i++)
		ret.blocked += clock->ns[i];
	ret.blocked -= ret.run + ret.runq + ret.gil;
	return ret;
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How much of [from, to) lies in [a, b). */
static uint64_t overlap(uint64_t from, uint64_t to, uint64_t a, uint64_t b)
{
	return dlp_less(min_of(to, b), dlp_max(from, a));
}

/* wait_ns, spread evenly over `whole_ns`, of which `part_ns`. */
static uint64_t portion(uint64_t wait_ns, uint64_t part_ns, uint64_t whole_ns)
{
	return whole_ns ? (uint64_t)((double)wait_ns * (double)part_ns / (double)whole_ns) : 0;
}

static bool within(const struct dlp_call *call, uint64_t ts_ns)
{
	return ts_ns >= call->start_ns && ts_ns <= call->end_ns;
}

/* The call's time that lies in the window, of a call of which `ns` were spent on something. */
static uint64_t in_window(const struct dlp_model *model, const struct dlp_call *call, uint64_t ns)
{
	if (call->start_ns >= model->start_ns)
		return ns;
	return portion(ns, dlp_less(call->end_ns, model->start_ns),
		       call->end_ns - call->start_ns);
}

/* Of the call, what came behind the batch's message. */
static struct parts parts_behind(struct dlp_model *model, const struct dlp_call *call,
				 const struct dlp_batch *batch, const struct parts *all)
{
	const struct dlp_thread *thread = dlp_thread_find(model, call->tid);
	const struct dlp_thread_state *state = thread ? thread->state_priv : NULL;
	struct parts ret = { 0 };
	struct dlp_clock since;

	if (!batch || !batch->received_ns || batch->received_ns > call->end_ns)
		return ret;
	if (batch->received_ns < call->start_ns)
		return *all;
	if (state && state->recv_ns == batch->received_ns && state->recv_first_ns) {
		since = dlp_clock_less(call->clock, &state->recv_clock);
		ret = parts_of(&since);
		ret.blocked = min_of(ret.blocked, all->blocked);
		/* batches read before it was its turn are unpickled at once, and waited behind */
		since = dlp_clock_less(call->clock, &state->recv_first_clock);
		ret.run = min_of(parts_of(&since).run, all->run);
		return ret;
	}
	/* another thread of the trainer has read it (pin_memory) */
	ret.blocked = min_of(all->blocked, call->end_ns - batch->received_ns);
	return ret;
}

/* When did the first later batch stand ready? UINT64_MAX = none did. */
static uint64_t later_ready(const struct dlp_iterator *it, const struct dlp_batch *batch)
{
	uint64_t ret = UINT64_MAX;

	if (it->unordered)
		return ret;
	for (size_t i = it->batch_cnt; i-- > 0 && it->batches[i].index > batch->index;) {
		if (it->batches[i].sent_ns && !it->batches[i].end_mark)
			ret = min_of(ret, it->batches[i].sent_ns);
	}
	return ret;
}

/* Now that it is known when the batch was made. */
static void settle(struct dlp_model *model, const struct dlp_owed *owed, uint64_t produced_ns)
{
	struct dlp_loader *loader = dlp_loader_find(model, owed->loader);
	uint64_t moved_ns, transfer_ns, held_ns, whole_ns = dlp_less(owed->received_ns, owed->from_ns);

	if (!loader)
		return;
	/* it was sent before it was read, and made before it was sent */
	if (!produced_ns || produced_ns > owed->sent_ns)
		produced_ns = owed->sent_ns;
	moved_ns = overlap(owed->from_ns, owed->received_ns, produced_ns, owed->received_ns);
	transfer_ns = portion(owed->wait_ns, moved_ns, whole_ns);
	held_ns = overlap(owed->from_ns, min_of(produced_ns, owed->received_ns), owed->ready_ns,
			  owed->received_ns);
	loader->sums.held_ns += portion(owed->wait_ns, held_ns, whole_ns);
	loader->sums.transfer_ns += transfer_ns;
	loader->sums.produce_ns += owed->wait_ns - transfer_ns;
}

void dlp_exposed_settle(struct dlp_model *model, struct dlp_thread_state *state,
			uint64_t produced_ns)
{
	settle(model, &state->owed, produced_ns);
	state->owed.loader = 0;
}

/* The call was blocked for wait_ns until to_ns, when the batch was read. */
static void account_wait(struct dlp_model *model, struct dlp_loader *loader,
			 const struct dlp_iterator *it, const struct dlp_batch *batch,
			 uint64_t from_ns, uint64_t to_ns, uint64_t wait_ns)
{
	struct dlp_thread *thread = batch ? dlp_thread_find(model, batch->worker_pid) : NULL;
	struct dlp_thread_state *state = thread ? thread->state_priv : NULL;
	uint64_t whole_ns = dlp_less(to_ns, from_ns), boot_ns = 0;
	struct dlp_owed owed;

	if (!batch || !whole_ns) {
		loader->sums.produce_ns += wait_ns;
		return;
	}
	if (batch->taken_ns && state && state->first_taken_ns &&
	    state->first_index == batch->index)
		boot_ns = portion(wait_ns, overlap(from_ns, to_ns, 0, batch->taken_ns), whole_ns);
	loader->sums.boot_ns += boot_ns;
	owed = (struct dlp_owed){
		.loader = loader->id,
		.index = batch->index,
		.from_ns = boot_ns ? batch->taken_ns : from_ns,
		.received_ns = to_ns,
		.wait_ns = wait_ns - boot_ns,
		.ready_ns = later_ready(it, batch),
		.sent_ns = batch->sent_ns ? batch->sent_ns : to_ns,
	};
	if (batch->produced_ns || !state)
		settle(model, &owed, batch->produced_ns);
	else if (state->done_index == batch->index)
		settle(model, &owed, state->done_taken_ns + state->done_ns);
	else if (state->index == batch->index && !state->owed.loader)
		state->owed = owed;
	else
		settle(model, &owed, 0);
}

static void account_own(const struct dlp_model *model, struct dlp_loader_sums *sums,
			const struct dlp_call *call, const struct parts *all)
{
	sums->own_ns += in_window(model, call, all->run);
	sums->lack_ns += in_window(model, call, all->runq);
	sums->gil_ns += in_window(model, call, all->gil);
}

void dlp_exposed_batch(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		       const struct dlp_batch *batch)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	struct parts all = parts_of(call->split), behind;
	uint64_t from_ns = dlp_max(call->start_ns, model->start_ns), to_ns = call->end_ns;

	if (!loader || !call->outer || !call->counts || it->num_workers == 0)
		return;
	/* without state clocks all that is known is that it took time */
	if (!(all.blocked | all.run | all.runq | all.gil))
		all.blocked = call->end_ns - call->start_ns;
	behind = parts_behind(model, call, batch, &all);
	if (batch && within(call, batch->received_ns))
		to_ns = batch->received_ns;
	all.run -= behind.run;
	account_own(model, &loader->sums, call, &all);
	loader->sums.behind_ns += in_window(model, call, behind.run);
	loader->sums.handover_ns += in_window(model, call, behind.blocked);
	loader->sums.message_bytes += batch ? batch->bytes : 0;
	account_wait(model, loader, it, batch, from_ns, to_ns,
		     in_window(model, call, all.blocked - behind.blocked));
}

void dlp_exposed_end(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	const struct dlp_iterator_state *own = it->state;
	struct parts all = parts_of(call->split);
	uint64_t whole_ns = call->end_ns - call->start_ns, closing_ns = 0;

	if (!loader || !call->outer || !call->counts || it->num_workers == 0)
		return;
	if (within(call, own->final_ns))
		closing_ns = call->end_ns - dlp_max(own->finals_ns, call->start_ns);
	else if (it->ended && within(call, own->ended_ns))
		closing_ns = whole_ns;
	loader->sums.closing_ns += in_window(model, call, closing_ns);
	all.run = portion(all.run, whole_ns - closing_ns, whole_ns);
	all.runq = portion(all.runq, whole_ns - closing_ns, whole_ns);
	all.gil = portion(all.gil, whole_ns - closing_ns, whole_ns);
	account_own(model, &loader->sums, call, &all);
	loader->sums.produce_ns += in_window(
		model, call, portion(all.blocked, whole_ns - closing_ns, whole_ns));
}

static struct dlp_loader *loader_of_worker(struct dlp_model *model, uint32_t pid)
{
	const struct dlp_worker *worker = dlp_worker_find(model, pid);

	return worker ? dlp_loader_find(model, worker->loader) : NULL;
}

void dlp_idle_note(struct dlp_model *model, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_loader *loader = loader_of_worker(model, pid);

	from_ns = dlp_max(from_ns, model->start_ns);
	if (!loader || !priv->open || to_ns <= from_ns)
		return;
	/* nobody has called for so long: it did not wait */
	if (priv->idle_cnt == DLP_IDLE_MAX) {
		loader->sums.idle_full_ns += to_ns - from_ns;
		return;
	}
	priv->idle[priv->idle_cnt++] = (struct dlp_idle){ loader->id, from_ns, to_ns };
}

/* Of an idle time, what fell into calls of its loader. */
static uint64_t idle_in_calls(const struct dlp_model_priv *priv, const struct dlp_idle *idle)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < DLP_CALLS_MAX; i++) {
		const struct dlp_idle *call = &priv->calls[i];

		if (call->loader == idle->loader)
			ret += overlap(idle->from_ns, idle->to_ns, call->from_ns, call->to_ns);
	}
	return ret;
}

void dlp_idle_call(struct dlp_model *model, uint32_t loader_id, const struct dlp_call *call)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_loader *loader = dlp_loader_find(model, loader_id);
	size_t kept = 0;

	if (!loader || !call->outer)
		return;
	priv->calls[priv->call_cnt++ % DLP_CALLS_MAX] =
		(struct dlp_idle){ loader_id, call->start_ns, call->end_ns };
	/* a worker wakes up because a call asks for another batch: only now is that call known */
	for (size_t i = 0; i < priv->idle_cnt; i++) {
		struct dlp_idle *idle = &priv->idle[i];
		uint64_t waited_ns;

		if (idle->loader != loader_id || idle->to_ns > call->end_ns) {
			priv->idle[kept++] = *idle;
			continue;
		}
		waited_ns = idle_in_calls(priv, idle);
		loader->sums.idle_wait_ns += waited_ns;
		loader->sums.idle_full_ns += dlp_less(idle->to_ns - idle->from_ns, waited_ns);
	}
	priv->idle_cnt = kept;
}
