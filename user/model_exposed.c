/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's account of GetNext: what the thread that iterates spent each call on. The batch's
 * stations say what it waited for, its state clock says what it did itself.
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

/* Without state clocks all that is known is that it took time. */
static struct parts parts_of_call(const struct dlp_call *call)
{
	struct parts ret = parts_of(call->split);

	if (!(ret.blocked | ret.run | ret.runq | ret.gil))
		ret.blocked = call->end_ns - call->start_ns;
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

/* The call's time that lies in the window, of a call of which `ns` were spent on something. */
static uint64_t in_window(const struct dlp_model *model, const struct dlp_call *call, uint64_t ns)
{
	if (call->start_ns >= model->start_ns)
		return ns;
	return portion(ns, dlp_less(call->end_ns, model->start_ns),
		       call->end_ns - call->start_ns);
}

/*
 * Of the call, what came behind the batch's message, which another thread of the trainer has read
 * and unpickled (pin_memory). The call runs each time it is handed a batch, its own or one that
 * has to wait for its turn.
 */
static struct parts parts_pinned(const struct dlp_iterator *it, const struct dlp_call *call,
				 const struct dlp_batch *batch, const struct parts *all)
{
	uint64_t ran_ns = dlp_less(call->end_ns - call->start_ns, all->blocked), handed_cnt = 0;

	for (size_t i = 0; i < it->batch_cnt; i++)
		handed_cnt += dlp_within(call, it->batches[i].received_ns);
	if (handed_cnt)
		ran_ns /= handed_cnt;
	return (struct parts){
		.blocked = min_of(all->blocked,
				  dlp_less(call->end_ns - batch->received_ns, ran_ns)),
	};
}

/* Likewise, in general. */
static struct parts parts_behind(struct dlp_model *model, const struct dlp_iterator *it,
				 const struct dlp_call *call, const struct dlp_batch *batch,
				 const struct parts *all)
{
	const struct dlp_thread *thread = dlp_thread_find(model, call->tid);
	const struct dlp_thread_state *state = thread ? thread->state_priv : NULL;
	struct parts ret = { 0 };
	struct dlp_clock since;

	if (!batch || !batch->received_ns || batch->received_ns > call->end_ns)
		return ret;
	if (it->state->recv_tid && it->state->recv_tid != call->tid)
		return parts_pinned(it, call, batch, all);
	if (batch->received_ns < call->start_ns)
		return *all;
	if (!state || state->recv.ts_ns != batch->received_ns || !state->recv_first.ts_ns)
		return ret;
	since = dlp_clock_less(call->clock, &state->recv.clock);
	ret = parts_of(&since);
	ret.blocked = min_of(ret.blocked, all->blocked);
	/* batches read before it was its turn are unpickled at once, and waited behind */
	since = dlp_clock_less(call->clock, &state->recv_first.clock);
	ret.run = min_of(parts_of(&since).run, all->run);
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
	uint64_t moved_ns, transfer_ns, held_ns, whole_ns = dlp_less(owed->sent_ns, owed->from_ns);

	if (!loader)
		return;
	/* it was made before it was sent */
	if (!produced_ns || produced_ns > owed->sent_ns)
		produced_ns = owed->sent_ns;
	moved_ns = overlap(owed->from_ns, owed->sent_ns, produced_ns, owed->sent_ns);
	transfer_ns = portion(owed->wait_ns, moved_ns, whole_ns);
	held_ns = overlap(owed->from_ns, produced_ns, owed->ready_ns, owed->sent_ns);
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

/*
 * The call was blocked for wait_ns until to_ns, when the batch was read. It is woken by the batch's
 * being sent: it is after that that it was not blocked.
 */
static void account_wait(struct dlp_model *model, struct dlp_loader *loader,
			 const struct dlp_iterator *it, const struct dlp_batch *batch,
			 uint64_t from_ns, uint64_t to_ns, uint64_t wait_ns)
{
	struct dlp_thread *thread = batch ? dlp_thread_find(model, batch->worker_pid) : NULL;
	struct dlp_thread_state *state = thread ? thread->state_priv : NULL;
	uint64_t sent_ns = batch && batch->sent_ns ? min_of(batch->sent_ns, to_ns) : to_ns;
	uint64_t woken_ns = dlp_less(to_ns, dlp_max(from_ns, sent_ns)), boot_ns = 0;
	struct dlp_owed owed;

	if (!batch || to_ns <= from_ns) {
		loader->sums.produce_ns += wait_ns;
		return;
	}
	woken_ns = sent_ns > from_ns ? dlp_less(woken_ns, dlp_less(to_ns - from_ns, wait_ns)) :
				       wait_ns;
	woken_ns = min_of(woken_ns, wait_ns);
	loader->sums.transfer_ns += woken_ns;
	wait_ns -= woken_ns;
	if (batch->taken_ns && state && state->first_taken_ns &&
	    state->first_index == batch->index)
		boot_ns = portion(wait_ns, overlap(from_ns, sent_ns, 0, batch->taken_ns),
				  dlp_less(sent_ns, from_ns));
	loader->sums.boot_ns += boot_ns;
	owed = (struct dlp_owed){
		.loader = loader->id,
		.index = batch->index,
		.from_ns = boot_ns ? batch->taken_ns : from_ns,
		.sent_ns = sent_ns,
		.wait_ns = wait_ns - boot_ns,
		.ready_ns = later_ready(it, batch),
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
	struct parts all = parts_of_call(call), behind;
	uint64_t from_ns = dlp_max(call->start_ns, model->start_ns), to_ns = call->end_ns;

	if (!loader || !call->outer || !call->counts || it->num_workers == 0)
		return;
	behind = parts_behind(model, it, call, batch, &all);
	if (batch && dlp_within(call, batch->received_ns))
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
	struct parts all = parts_of_call(call);
	uint64_t whole_ns = call->end_ns - call->start_ns, closing_ns = 0;

	if (!loader || !call->outer || !call->counts || it->num_workers == 0)
		return;
	if (dlp_within(call, own->final_ns))
		closing_ns = call->end_ns - dlp_max(own->finals_ns, call->start_ns);
	else if (it->ended && dlp_within(call, own->ended_ns))
		closing_ns = whole_ns;
	loader->sums.closing_ns += in_window(model, call, closing_ns);
	all.run = portion(all.run, whole_ns - closing_ns, whole_ns);
	all.runq = portion(all.runq, whole_ns - closing_ns, whole_ns);
	all.gil = portion(all.gil, whole_ns - closing_ns, whole_ns);
	account_own(model, &loader->sums, call, &all);
	loader->sums.produce_ns += in_window(
		model, call, portion(all.blocked, whole_ns - closing_ns, whole_ns));
}
