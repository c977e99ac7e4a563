/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's account of idle workers: did the trainer wait for their loader meanwhile (then
 * another worker's batch was due), or not (then the queues were full)? State clocks say how long a
 * worker was idle before it took a message, so that no idle time is too short to be seen.
 */
#include <string.h>

#include "model_priv.h"

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t overlap(uint64_t from, uint64_t to, uint64_t a, uint64_t b)
{
	return dlp_less(min_of(to, b), dlp_max(from, a));
}

/* Of an idle time, what fell into calls of its loader. */
static uint64_t waited_ns(const struct dlp_calls *calls, const struct dlp_idle *idle)
{
	uint64_t ret = 0, whole_ns = idle->to_ns - idle->from_ns;

	for (size_t i = calls->cnt; i-- > 0 && calls->called[i].to_ns > idle->from_ns;) {
		const struct dlp_called *called = &calls->called[i];
		uint64_t both_ns = overlap(idle->from_ns, idle->to_ns, called->from_ns,
					   called->to_ns);

		ret += (uint64_t)((double)both_ns * (double)called->in_ns /
				  (double)(called->to_ns - called->from_ns));
	}
	return min_of(ret, whole_ns);
}

/* 0 = not known yet. */
static uint32_t loader_of(struct dlp_model *model, const struct dlp_idle *idle)
{
	const struct dlp_worker *worker = dlp_worker_find(model, idle->pid);

	return worker ? worker->loader : 0;
}

/*
 * Where readings are missing, messages can tell of more than the account of the workers' time has:
 * that waits for the readings, and is left out when there will be none. Returns false to wait.
 */
static bool settle(struct dlp_model *model, const struct dlp_idle *idle, bool last)
{
	struct dlp_loader *loader = dlp_loader_find(model, loader_of(model, idle));
	uint64_t waited, full, room_ns;

	if (!loader)
		return last;
	waited = waited_ns(&model->priv->calls[loader->id - 1], idle);
	full = idle->to_ns - idle->from_ns - waited;
	room_ns = dlp_less(loader->sums.made.ns[DLP_ST_IDLE],
			   loader->sums.idle_wait_ns + loader->sums.idle_full_ns);
	if (waited + full > room_ns && !last)
		return false;
	loader->sums.idle_wait_ns += min_of(waited, room_ns);
	loader->sums.idle_full_ns += min_of(full, dlp_less(room_ns, waited));
	return true;
}

void dlp_idle_note(struct dlp_model *model, const struct dlp_thread *thread, uint64_t ts_ns,
		   const struct dlp_clock *clock)
{
	struct dlp_thread_state *state = thread->state_priv;
	struct dlp_model_priv *priv = model->priv;
	uint64_t now_ns = clock->ns[DLP_ST_IDLE], idle_ns;

	if (!state || !priv->open || model->closed ||
	    (thread->born_ns ? !state->first_taken_ns : !thread->base_set))
		return;
	/* as in its loader's account: one that was born here begins with its first batch */
	if (!state->idle_set)
		state->idle_ns = thread->born_ns ? state->first_clock.ns[DLP_ST_IDLE] :
						   thread->base.ns[DLP_ST_IDLE];
	state->idle_set = true;
	idle_ns = dlp_less(now_ns, state->idle_ns);
	state->idle_ns = dlp_max(now_ns, state->idle_ns);
	if (idle_ns > dlp_less(ts_ns, model->start_ns))
		idle_ns = dlp_less(ts_ns, model->start_ns);
	if (!idle_ns)
		return;
	/* of a loader that nobody calls any more: it is not waited for */
	if (priv->idle_cnt == DLP_IDLE_MAX) {
		settle(model, &priv->idle[0], true);
		priv->idle_cnt--;
		memmove(&priv->idle[0], &priv->idle[1], priv->idle_cnt * sizeof(priv->idle[0]));
	}
	priv->idle[priv->idle_cnt++] =
		(struct dlp_idle){ thread->tid, ts_ns - idle_ns, ts_ns };
}

/* The older half of the calls, two by two. */
static void thin_out(struct dlp_calls *calls)
{
	size_t kept = 0, half = DLP_CALLED_MAX / 2;

	for (size_t i = 0; i < half; i += 2) {
		struct dlp_called both = calls->called[i];

		both.to_ns = calls->called[i + 1].to_ns;
		both.in_ns += calls->called[i + 1].in_ns;
		calls->called[kept++] = both;
	}
	memmove(&calls->called[kept], &calls->called[half],
		(calls->cnt - half) * sizeof(calls->called[0]));
	calls->cnt -= half - kept;
}

void dlp_idle_call(struct dlp_model *model, uint32_t loader, const struct dlp_call *call)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_calls *calls;
	size_t kept = 0;

	if (!dlp_loader_find(model, loader) || !call->outer || call->end_ns <= call->start_ns)
		return;
	calls = &priv->calls[loader - 1];
	if (calls->cnt == DLP_CALLED_MAX)
		thin_out(calls);
	calls->called[calls->cnt++] = (struct dlp_called){ call->start_ns, call->end_ns,
							   call->end_ns - call->start_ns };
	/* a worker wakes up because a call asks for another batch: only now is that call known */
	for (size_t i = 0; i < priv->idle_cnt; i++) {
		if (loader_of(model, &priv->idle[i]) != loader ||
		    priv->idle[i].to_ns > call->end_ns || !settle(model, &priv->idle[i], false))
			priv->idle[kept++] = priv->idle[i];
	}
	priv->idle_cnt = kept;
}

/* The thread is inside a call that has not ended: most likely of the loader whose turn it is. */
static void note_unfinished(struct dlp_model *model, const struct dlp_thread *thread)
{
	const struct dlp_thread_state *state = thread->state_priv;
	const struct dlp_iterator *it;
	struct dlp_call call = {
		.start_ns = thread->getnext_since_ns,
		.end_ns = thread->read_ns,
		.outer = true,
	};

	if (!thread->getnext_since_ns || !state)
		return;
	it = dlp_iterator_find(model, state->last_iterator);
	if (it && it->state->successor)
		it = dlp_iterator_find(model, it->state->successor);
	if (it)
		dlp_idle_call(model, it->loader, &call);
}

void dlp_idle_close(struct dlp_model *model)
{
	struct dlp_model_priv *priv = model->priv;

	for (size_t i = 0; i < model->thread_cnt; i++)
		note_unfinished(model, &model->threads[i]);
	for (size_t i = 0; i < priv->idle_cnt; i++)
		settle(model, &priv->idle[i], true);
	priv->idle_cnt = 0;
}
