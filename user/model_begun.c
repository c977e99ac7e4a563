/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The GetNext in which the tool attached: only its end is seen, without its label. Whether the scope
 * that ended was one is concluded from what came after: the trainer read a result in it or asked for
 * a batch behind it; or the same label follows it as follows the next GetNext. Until then it is held.
 * It counts as a call of the loader that is called next.
 */
#include <errno.h>

#include "model_priv.h"

/* Only of the thread's first scope; whoever has run a whole GetNext was not in one before. */
static void hold(struct dlp_model *model, struct dlp_thread_state *state,
		 const struct dlp_ev_scope *ev)
{
	if (state->begun.held || state->recent_cnt || !dlp_in_window(model, ev->hdr.ts_ns) ||
	    ev->start_ns >= model->start_ns)
		return;
	state->begun = (struct dlp_begun){
		.held = true,
		.start_ns = ev->start_ns,
		.end_ns = ev->hdr.ts_ns,
		.split = ev->split,
		.clock = ev->clock,
		.turn = ev->turn,
	};
	model->begun_open_cnt++;
}

static void let_go(struct dlp_model *model, struct dlp_thread_state *state)
{
	state->begun.held = false;
	model->begun_open_cnt--;
}

/* Messages of its queues before the first whole GetNext: nothing else makes any, but iter(). */
static bool has_messages(const struct dlp_model *model, const struct dlp_thread_state *state,
			 uint64_t until_ns)
{
	const struct dlp_model_priv *priv = model->priv;
	const struct dlp_begun *begun = &state->begun;

	if (state->init_cnt || state->sem_last_ns > begun->start_ns)
		return false;
	if (state->recv_first.ts_ns && state->recv_first.ts_ns <= begun->end_ns)
		return true;
	for (size_t i = 0; i < priv->send_cnt && i < DLP_SENDS_MAX; i++) {
		if (priv->sends_ns[i] > begun->start_ns && priv->sends_ns[i] <= until_ns)
			return true;
	}
	return false;
}

/* The kernel has not counted it, nor does it reach back to where the interval began. */
static void count(struct dlp_model *model, struct dlp_thread *thread)
{
	const struct dlp_begun *begun = &thread->state_priv->begun;
	uint64_t before_ns = dlp_less(model->start_ns, begun->start_ns);
	struct dlp_model_priv *priv = model->priv;

	thread->begun_cnt = 1;
	thread->begun_ns = dlp_less(begun->end_ns, model->start_ns);
	thread->begun_split = begun->split;
	if (thread->base_set)
		thread->begun_split = dlp_clock_less(&begun->split, &thread->base);
	else
		thread->begun_split.ns[DLP_ST_OTHER] =
			dlp_less(thread->begun_split.ns[DLP_ST_OTHER], before_ns);
	dlp_main_update(model);
	if (thread->tid == model->main_tid && priv->now.start_ns > model->start_ns)
		priv->exposed_before += dlp_less(
			begun->end_ns < priv->now.start_ns ? begun->end_ns : priv->now.start_ns,
			model->start_ns);
}

/* Counts it as a call; what the next one has read may be known already, and is kept for that. */
static int deliver(struct dlp_model *model, struct dlp_thread *thread, uint32_t label)
{
	struct dlp_thread_state *state = thread->state_priv;
	const struct dlp_begun *begun = &state->begun;
	struct dlp_call call = {
		.start_ns = begun->start_ns,
		.end_ns = begun->end_ns,
		.tid = thread->tid,
		.label = label,
		.counts = true,
		.outer = true,
		.cut = true,
		.named = dlp_label_named(model, label),
		.split = &begun->split,
		.clock = &begun->clock,
	};
	struct dlp_recv newest = state->recv, first = state->recv_first;
	int err;

	let_go(model, state);
	count(model, thread);
	/* each call sees its own results */
	if (newest.ts_ns > begun->end_ns)
		state->recv.iterator = 0;
	err = dlp_getnext_call(model, state, &call);
	if (newest.ts_ns <= begun->end_ns)
		return err;
	state->recv = newest;
	state->recv_first = first.ts_ns > begun->end_ns ? first : newest;
	return err;
}

/* Calls in a row, without a scope of another kind, after which the loop is known to have no other. */
#define ALIKE 8

/*
 * Does what follows the first whole GetNext follow the scope that is held, too? Between two epochs a
 * GetNext follows another one anyway: only more of them tell. 1 yes, 0 no, -1 not known.
 */
static int is_alike(const struct dlp_begun *begun, const struct dlp_ev_scope *ev)
{
	bool is_call = ev->hdr.flags & DLP_SCOPE_OUTER;

	/* its neighbour was lost, or this one's */
	if (!begun->call_turn || !begun->after_known || ev->turn <= begun->call_turn)
		return -1;
	if (begun->after_call)
		return !is_call ? 0 : ev->turn < begun->call_turn + ALIKE ? -1 : 1;
	return ev->turn == begun->call_turn + 1 ? ev->label == begun->after_label : -1;
}

/* An outermost scope that ended on a thread of which one is held. */
static int compare(struct dlp_model *model, struct dlp_thread *thread,
		   const struct dlp_ev_scope *ev)
{
	struct dlp_thread_state *state = thread->state_priv;
	struct dlp_begun *begun = &state->begun;
	int alike = is_alike(begun, ev);

	if (alike > 0)
		return deliver(model, thread, begun->call_label);
	if (!alike) {
		let_go(model, state);
		return 0;
	}
	if (ev->turn == begun->turn + 1) {
		begun->after_label = ev->label;
		begun->after_call = ev->hdr.flags & DLP_SCOPE_OUTER;
		begun->after_known = true;
	}
	if (begun->call_turn || !(ev->hdr.flags & DLP_SCOPE_OUTER))
		return 0;
	if (has_messages(model, state, ev->start_ns))
		return deliver(model, thread, ev->label);
	begun->call_label = ev->label;
	begun->call_turn = ev->turn;
	return 0;
}

int dlp_begun_scope(struct dlp_model *model, const struct dlp_ev_scope *ev)
{
	bool is_begun = ev->hdr.flags & DLP_SCOPE_BEGUN;
	struct dlp_thread_state *state;
	struct dlp_thread *thread;
	int err;

	if (!model->trainer_pid || ev->hdr.tgid != model->trainer_pid ||
	    (!is_begun && !model->begun_open_cnt))
		return 0;
	thread = dlp_thread_of(model, &ev->hdr, &err);
	if (!thread)
		return err;
	state = thread->state_priv;
	if (is_begun)
		hold(model, state, ev);
	else if (state->begun.held && !ev->depth)
		return compare(model, thread, ev);
	return 0;
}
