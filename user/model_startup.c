/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's account of starting and ending iterators: what the thread that iterates spends on it
 * outside GetNext. iter(loader) of torch's _MultiProcessingDataLoaderIter makes a result queue, an
 * event and for each worker an index queue and a process, then asks for the first batches
 * (dataloader.py, __init__ and _reset); multiprocessing makes 3 semaphores for a queue and 5 for an
 * event, so that with one worker there are 11 at least.
 */
#include <errno.h>
#include <string.h>

#include "model_priv.h"
#include "util.h"

/* So many in a row are more than one queue or one event of the job's own. */
#define SEMS_MIN 8
/* Pauses between two of a row: the group's quota may be used up for a period. */
#define SEMS_PAUSE_NS 250000000
/* The final signals to the workers of one iterator are sent within that time of each other. */
#define FINALS_PAUSE_NS 20000000
/* Time stamps of different CPUs may be swapped by this much. */
#define SKEW_NS 100000

static struct dlp_init *init_new(struct dlp_thread_state *state, uint64_t start_ns)
{
	struct dlp_init *init;

	if (state->init_cnt == DLP_INITS_MAX) {
		state->init_cnt--;
		memmove(&state->init[0], &state->init[1],
			state->init_cnt * sizeof(state->init[0]));
	}
	init = &state->init[state->init_cnt++];
	*init = (struct dlp_init){ .start_ns = start_ns };
	return init;
}

static struct dlp_init *init_newest(struct dlp_thread_state *state)
{
	return state->init_cnt ? &state->init[state->init_cnt - 1] : NULL;
}

int dlp_startup_sem(struct dlp_model *model, const struct dlp_ev_sem *ev)
{
	struct dlp_thread_state *state;
	struct dlp_thread *thread;
	struct dlp_init *init;
	uint64_t now = ev->hdr.ts_ns;
	int err;

	if (ev->hdr.tgid != model->trainer_pid)
		return 0;
	thread = dlp_thread_of(model, &ev->hdr, &err);
	if (!thread)
		return err;
	state = thread->state_priv;
	if (!state->sem_cnt || now > state->sem_last_ns + SEMS_PAUSE_NS) {
		state->sem_cnt = 0;
		state->sem_first_ns = now;
	}
	state->sem_last_ns = now;
	init = init_newest(state);
	if (++state->sem_cnt == SEMS_MIN) {
		/* queues without processes are not a loader's */
		if (init && !init->forked_ns)
			state->init_cnt--;
		init = init_new(state, state->sem_first_ns);
		init->queues = true;
	}
	/* behind a process they belong to what comes next */
	if (init && !init->forked_ns)
		init->last_ns = dlp_max(init->last_ns, now);
	return 0;
}

int dlp_startup_fork(struct dlp_model *model, const struct dlp_ev_fork *ev)
{
	struct dlp_thread_state *state;
	struct dlp_thread *thread;
	struct dlp_init *init;
	int err;

	if (ev->hdr.tgid != model->trainer_pid)
		return 0;
	thread = dlp_thread_of(model, &ev->hdr, &err);
	if (!thread)
		return err;
	state = thread->state_priv;
	init = init_newest(state);
	if (!(ev->hdr.flags & DLP_FORK_THREAD)) {
		/* we came when the queues were made already, or do not see semaphores */
		if (!init)
			init = init_new(state, ev->hdr.ts_ns);
		init->forked_ns = ev->hdr.ts_ns;
		state->sem_cnt = 0;
	}
	if (init)
		init->last_ns = dlp_max(init->last_ns, ev->hdr.ts_ns);
	return 0;
}

void dlp_startup_send(struct dlp_model *model, uint64_t ts_ns)
{
	model->priv->sends_ns[model->priv->send_cnt++ % DLP_SENDS_MAX] = ts_ns;
}

/* The newest index message before the call, which iter() has sent. */
static uint64_t last_send(const struct dlp_model_priv *priv, uint64_t before_ns)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < DLP_SENDS_MAX; i++) {
		if (priv->sends_ns[i] <= before_ns)
			ret = dlp_max(ret, priv->sends_ns[i]);
	}
	return ret;
}

void dlp_startup_final(struct dlp_model *model, struct dlp_iterator *it, uint64_t ts_ns)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_iterator_state *own = it->state;

	if (!own->final_ns || ts_ns > own->final_ns + FINALS_PAUSE_NS)
		own->finals_ns = ts_ns;
	own->final_ns = ts_ns;
	if (own->closing || priv->closing_cnt == DLP_CLOSING_MAX)
		return;
	own->closing = true;
	priv->closing[priv->closing_cnt++] = it->id;
}

/* The thread was ending this iterator's workers between its last call and this one. */
static void account_teardown(struct dlp_model *model, struct dlp_thread_state *state,
			     const struct dlp_iterator *it, const struct dlp_call *call)
{
	const struct dlp_iterator_state *own = it->state;
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	uint64_t from_ns = dlp_max(own->finals_ns, state->last_end_ns);
	uint64_t to_ns = own->gone_ns < call->start_ns ? own->gone_ns : call->start_ns;

	from_ns = dlp_max(dlp_max(from_ns, state->down_until_ns), model->start_ns);
	/* one worker's end in the middle of an epoch takes no time, an end unseen nobody knows */
	if (!loader || !it->ended || !own->gone_ns || to_ns <= from_ns)
		return;
	loader->sums.teardown_ns += to_ns - from_ns;
	state->down_until_ns = to_ns;
}

static void account_closing(struct dlp_model *model, struct dlp_thread_state *state,
			    const struct dlp_call *call)
{
	struct dlp_model_priv *priv = model->priv;
	size_t kept = 0;

	for (size_t i = 0; i < priv->closing_cnt; i++) {
		struct dlp_iterator *it = dlp_iterator_find(model, priv->closing[i]);

		if (it && (it->tid != call->tid || it->state->finals_ns > call->start_ns)) {
			priv->closing[kept++] = priv->closing[i];
			continue;
		}
		if (!it)
			continue;
		account_teardown(model, state, it, call);
		it->state->closing = false;
	}
	priv->closing_cnt = kept;
}

/* When the iterator's first worker was born; 0 = not seen. */
static uint64_t born_ns(struct dlp_model *model, const struct dlp_iterator *it)
{
	uint64_t ret = 0;

	for (uint32_t i = 0; i < it->worker_cnt && i < DLP_ARRAY_SIZE(it->worker_pid); i++) {
		const struct dlp_thread *thread = dlp_thread_find(model, it->worker_pid[i]);

		if (thread && thread->born_ns && (!ret || thread->born_ns < ret))
			ret = thread->born_ns;
	}
	return ret;
}

/* Which of those under way has made this iterator: the one in which its workers were born. */
static const struct dlp_init *init_of(struct dlp_model *model,
				      const struct dlp_thread_state *state,
				      const struct dlp_iterator *it)
{
	uint64_t born = born_ns(model, it);

	for (size_t i = state->init_cnt; i-- > 0;) {
		const struct dlp_init *init = &state->init[i];

		/* a fork server's workers are not born by the trainer */
		if (born ? born + SKEW_NS >= init->start_ns && born <= init->last_ns + SKEW_NS :
			   init->queues)
			return init;
	}
	return NULL;
}

static struct dlp_interval init_interval(const struct dlp_model *model,
					 const struct dlp_thread_state *state,
					 const struct dlp_init *init, const struct dlp_call *call)
{
	struct dlp_interval ret = {
		.start_ns = init->start_ns,
		.end_ns = init->last_ns,
		.batch = -1,
	};

	/* the last one before the call: it has asked for its first batches, too */
	if (init == &state->init[state->init_cnt - 1])
		ret.end_ns = dlp_max(ret.end_ns, last_send(model->priv, call->start_ns));
	if (ret.end_ns > call->start_ns)
		ret.end_ns = call->start_ns;
	return ret;
}

static void forget_inits(struct dlp_thread_state *state, size_t cnt)
{
	state->init_cnt -= cnt;
	memmove(&state->init[0], &state->init[cnt], state->init_cnt * sizeof(state->init[0]));
}

/*
 * A call in the middle of an epoch: whatever the thread had made before, it was not for this iterator.
 * What began after the call is another's: the call's end may be told late.
 */
static void forget_before(struct dlp_thread_state *state, uint64_t end_ns)
{
	size_t cnt = 0;

	while (cnt < state->init_cnt && state->init[cnt].start_ns < end_ns)
		cnt++;
	forget_inits(state, cnt);
	if (state->sem_first_ns < end_ns)
		state->sem_cnt = 0;
}

void dlp_startup_call(struct dlp_model *model, struct dlp_thread_state *state,
		      struct dlp_iterator *it, const struct dlp_call *call)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	const struct dlp_init *init;
	struct dlp_interval interval;

	account_closing(model, state, call);
	if (it->state->calls)
		forget_before(state, call->end_ns);
	init = init_of(model, state, it);
	if (!init || init->start_ns >= call->start_ns || !loader)
		return;
	interval = init_interval(model, state, init, call);
	/* older ones were not a loader's, or their loader is never called */
	forget_inits(state, (size_t)(init - state->init) + 1);
	it->init_ns = interval.end_ns - interval.start_ns;
	it->start_ns = interval.start_ns < it->start_ns ? interval.start_ns : it->start_ns;
	if (model->watch)
		model->watch->init(model->watch_ctx, it, &interval);
	if (!model->priv->open || interval.end_ns <= model->start_ns)
		return;
	dlp_phase_birth(model, loader, &interval);
	loader->sums.init_cnt++;
	loader->sums.init_ns += interval.end_ns - dlp_max(interval.start_ns, model->start_ns);
	dlp_hist_add(&loader->init, it->init_ns);
	dlp_longest_add(&loader->init_longest, &interval);
}
