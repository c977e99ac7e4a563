/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which DataLoader an iterator belongs to, where label, thread and number of workers do not tell
 * (training and validation with the same settings). Two things do from outside: the sizes of the
 * first index messages, that is of the batches (known at once), and the number of batches in a
 * whole epoch (known at its end, or when it goes on for longer than ever). Until then it is taken
 * for the one whose turn it is; when that turns out wrong, its account moves. Differences count
 * only when they are large: epochs that are cut short, and sizes that vary, say nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_priv.h"
#include "sums.h"

/* Loaders that only the lengths of their epochs tell apart; with more it is the lengths that vary. */
#define BY_LENGTH_MAX 3

/* Clearly more: by half, and not because both are tiny. */
static bool clearly_more(uint64_t a, uint64_t b)
{
	return a >= b + b / 2 + 2;
}

static struct dlp_identity *identity_of(const struct dlp_model *model,
					const struct dlp_loader *loader)
{
	return &model->priv->identity[loader->id - 1];
}

static bool same_family(const struct dlp_loader *a, const struct dlp_loader *b)
{
	return a->label == b->label && a->tid == b->tid &&
	       (a->num_workers == b->num_workers || !a->workers_known || !b->workers_known);
}

void dlp_identity_ask(struct dlp_iterator *it, uint64_t bytes)
{
	struct dlp_iterator_state *state = it->state;

	if (state->bound || !bytes)
		return;
	if (!state->ask_min || bytes < state->ask_min)
		state->ask_min = bytes;
	state->ask_max = dlp_max(state->ask_max, bytes);
}

/* First messages are compared with first messages: later ones name larger indices. */
static bool sizes_known(const struct dlp_iterator *it)
{
	return it->state->reset_ns && it->state->ask_min;
}

bool dlp_identity_fits(const struct dlp_model *model, const struct dlp_loader *loader,
		       const struct dlp_iterator *it)
{
	const struct dlp_identity *id = identity_of(model, loader);

	if (!id->ask_min || !sizes_known(it))
		return true;
	return !clearly_more(it->state->ask_min, id->ask_max) &&
	       !clearly_more(id->ask_min, it->state->ask_max);
}

/* How far the sizes of the first messages are from those of the loader. */
static uint64_t distance(const struct dlp_identity *id, const struct dlp_iterator *it)
{
	if (!id->ask_min || !sizes_known(it))
		return 0;
	return dlp_less(it->state->ask_min, id->ask_max) +
	       dlp_less(id->ask_min, it->state->ask_max);
}

/* The loader of this kind that an iterator was bound to last; NULL = none. */
static const struct dlp_loader *newest(const struct dlp_model *model,
				       const struct dlp_loader *like)
{
	const struct dlp_loader *ret = NULL;

	for (size_t i = 0; i < model->loader_cnt; i++) {
		const struct dlp_loader *loader = &model->loaders[i];

		if (same_family(loader, like) &&
		    (!ret || identity_of(model, loader)->turn > identity_of(model, ret)->turn))
			ret = loader;
	}
	return ret;
}

/* Is it rather `a`'s than `b`'s? By size, then by whose turn it is, then by who waits for longer. */
bool dlp_identity_rather(const struct dlp_model *model, const struct dlp_iterator *it,
			 const struct dlp_loader *a, const struct dlp_loader *b)
{
	const struct dlp_identity *x = identity_of(model, a), *y = identity_of(model, b);
	const struct dlp_loader *last = newest(model, a);
	uint32_t next = last ? identity_of(model, last)->next : 0;

	if (distance(x, it) != distance(y, it))
		return distance(x, it) < distance(y, it);
	if (next == a->id || next == b->id)
		return next == a->id;
	return x->turn < y->turn;
}

static void take_turn(struct dlp_model *model, struct dlp_loader *loader)
{
	const struct dlp_loader *last = newest(model, loader);
	struct dlp_identity *id = identity_of(model, loader);

	id->old_turn = id->turn;
	id->prior = last && identity_of(model, last)->turn ? last->id : 0;
	if (id->prior)
		identity_of(model, last)->next = loader->id;
	id->turn = ++model->priv->turns;
}

/* It was not that one's turn, but the other's. */
static void give_turn(struct dlp_model *model, struct dlp_identity *id, struct dlp_loader *other)
{
	struct dlp_identity *to = identity_of(model, other);
	struct dlp_loader *prior = dlp_loader_find(model, id->prior);

	to->old_turn = to->turn;
	to->turn = id->turn;
	to->prior = id->prior;
	id->turn = id->old_turn;
	if (prior)
		identity_of(model, prior)->next = other->id;
}

static void learn_sizes(struct dlp_identity *id, const struct dlp_iterator *it)
{
	if (!sizes_known(it))
		return;
	if (!id->ask_min || it->state->ask_min < id->ask_min)
		id->ask_min = it->state->ask_min;
	id->ask_max = dlp_max(id->ask_max, it->state->ask_max);
}

/* From here on the loader's account can be set back to what it is now. */
static int remember(struct dlp_model *model, struct dlp_loader *loader,
		    const struct dlp_iterator *it)
{
	struct dlp_identity *id = identity_of(model, loader);

	/* what is still under way is its earlier iterators' */
	dlp_phase_close(model, loader);
	for (size_t i = 0; i < model->thread_cnt; i++) {
		struct dlp_thread_state *state = model->threads[i].state_priv;

		if (state && state->owed.loader == loader->id)
			dlp_exposed_settle(model, state, 0);
	}
	if (!id->before)
		id->before = malloc(sizeof(*id->before));
	if (!id->before)
		return -ENOMEM;
	*id->before = *loader;
	id->old_ask_min = id->ask_min;
	id->old_ask_max = id->ask_max;
	id->reached = dlp_max(id->reached, id->reaching);
	id->reaching = 0;
	id->iterator = it->id;
	learn_sizes(id, it);
	return 0;
}

int dlp_identity_bind(struct dlp_model *model, const struct dlp_iterator *it,
		      struct dlp_loader *loader)
{
	take_turn(model, loader);
	return remember(model, loader, it);
}

/* Can an epoch of so many batches (`whole`), or of that many so far, not be this loader's? */
static bool differs(const struct dlp_identity *id, uint64_t cnt, bool whole)
{
	if (id->varies)
		return false;
	if (id->epoch_max)
		return clearly_more(cnt, id->epoch_max) ||
		       (whole && clearly_more(id->epoch_min, cnt));
	return whole && clearly_more(id->reached, cnt);
}

/* Another loader that it can be; NULL = none yet. */
static struct dlp_loader *other_for(struct dlp_model *model, const struct dlp_loader *not,
				    const struct dlp_iterator *it, uint64_t cnt, bool whole)
{
	for (size_t i = 0; i < model->loader_cnt; i++) {
		struct dlp_loader *loader = &model->loaders[i];
		const struct dlp_identity *id = identity_of(model, loader);

		if (loader != not && same_family(loader, not) &&
		    (id->epoch_max || id->reached || id->reaching) && !differs(id, cnt, whole) &&
		    dlp_identity_fits(model, loader, it) && !dlp_loader_occupied(model, loader, it))
			return loader;
	}
	return NULL;
}

/* So many already that it is the lengths which vary. */
static bool too_many(struct dlp_model *model, const struct dlp_loader *like)
{
	size_t cnt = 0;

	for (size_t i = 0; i < model->loader_cnt; i++)
		cnt += same_family(&model->loaders[i], like);
	if (cnt < BY_LENGTH_MAX)
		return false;
	for (size_t i = 0; i < model->loader_cnt; i++) {
		if (same_family(&model->loaders[i], like))
			identity_of(model, &model->loaders[i])->varies = true;
	}
	return true;
}

static void keep_since(struct dlp_longest *list, uint64_t since_ns)
{
	struct dlp_longest all = *list;

	list->cnt = 0;
	for (uint32_t i = 0; i < all.cnt; i++) {
		if (all.item[i].start_ns >= since_ns)
			dlp_longest_add(list, &all.item[i]);
	}
}

static void merge_longest(struct dlp_longest *to, const struct dlp_longest *what)
{
	for (uint32_t i = 0; i < what->cnt; i++)
		dlp_longest_add(to, &what->item[i]);
}

/* What came to the loader's account since `before`; that was for an iterator seen since then. */
static void account_since(struct dlp_loader *now, const struct dlp_loader *before,
			  uint64_t since_ns)
{
	now->iterator_cnt -= before->iterator_cnt;
	now->batch_cnt -= before->batch_cnt;
	now->ready_sum -= before->ready_sum;
	now->ready_cnt -= before->ready_cnt;
	now->empty_cnt -= before->empty_cnt;
	now->straddle_cnt -= before->straddle_cnt;
	now->straddle_ns -= before->straddle_ns;
	now->epoch_cnt -= before->epoch_cnt;
	dlp_loader_sums_less(&now->sums, &before->sums);
	now->getnext_split = dlp_clock_less(&now->getnext_split, &before->getnext_split);
	dlp_hist_less(&now->getnext, &before->getnext);
	dlp_hist_less(&now->batch_time, &before->batch_time);
	dlp_hist_less(&now->init, &before->init);
	keep_since(&now->getnext_longest, since_ns);
	keep_since(&now->batch_time_longest, since_ns);
	keep_since(&now->init_longest, since_ns);
}

/* The steady phase under way, with `made` so far. */
static void add_steady(struct dlp_loader *to, const struct dlp_loader *what,
		       const struct dlp_clock *made)
{
	to->steady_start_ns = what->steady_start_ns;
	to->steady_end_ns = what->steady_end_ns;
	to->steady_exposed_ns = what->steady_exposed_ns;
	to->steady_batches = what->steady_batches;
	to->steady_read_bytes = what->steady_read_bytes;
	to->steady_made = dlp_clock_less(&to->sums.made, made);
}

static void account_add(struct dlp_loader *to, const struct dlp_loader *what)
{
	to->iterator_cnt += what->iterator_cnt;
	to->batch_cnt += what->batch_cnt;
	to->ready_sum += what->ready_sum;
	to->ready_cnt += what->ready_cnt;
	to->empty_cnt += what->empty_cnt;
	to->straddle_cnt += what->straddle_cnt;
	to->straddle_ns += what->straddle_ns;
	to->epoch_cnt += what->epoch_cnt;
	dlp_loader_sums_add(&to->sums, &what->sums);
	dlp_clock_add(&to->getnext_split, &what->getnext_split);
	dlp_hist_merge(&to->getnext, &what->getnext);
	dlp_hist_merge(&to->batch_time, &what->batch_time);
	dlp_hist_merge(&to->init, &what->init);
	merge_longest(&to->getnext_longest, &what->getnext_longest);
	merge_longest(&to->batch_time_longest, &what->batch_time_longest);
	merge_longest(&to->init_longest, &what->init_longest);
	to->last_start_ns = what->last_start_ns;
	to->last = what->last;
	to->num_workers = what->num_workers;
	to->workers_known |= what->workers_known;
	to->pin_memory = what->pin_memory;
	to->in_order = what->in_order;
}

/* All that names the loader an iterator belongs to. */
static void rename_loader(struct dlp_model *model, struct dlp_iterator *it, uint32_t loader)
{
	uint32_t old = it->loader;

	it->loader = loader;
	for (size_t i = 0; i < model->worker_cnt; i++) {
		if (model->workers[i].iterator == it->id)
			model->workers[i].loader = loader;
	}
	for (size_t i = 0; i < model->thread_cnt; i++) {
		struct dlp_thread_state *state = model->threads[i].state_priv;

		if (state && state->owed.loader == old)
			state->owed.loader = loader;
	}
	model->priv->calls[loader - 1] = model->priv->calls[old - 1];
}

/* The iterator was taken for another loader's: its part of the account goes where it belongs. */
static int move(struct dlp_model *model, struct dlp_iterator *it, struct dlp_loader *from,
		struct dlp_loader *to)
{
	struct dlp_identity *id = identity_of(model, from), *other = identity_of(model, to);
	struct dlp_clock made = dlp_clock_less(&from->sums.made, &from->steady_made);
	struct dlp_loader *part = malloc(sizeof(*part));
	int err;

	if (!part)
		return -ENOMEM;
	err = remember(model, to, it);
	if (err) {
		free(part);
		return err;
	}
	dlp_phase_move(model, it, id->before, to);
	*part = *from;
	account_since(part, id->before, it->start_ns);
	account_add(to, part);
	add_steady(to, part, &made);
	if (it->in_flight_max > to->prefetch)
		to->prefetch = it->in_flight_max;
	*from = *id->before;
	free(part);
	id->ask_min = id->old_ask_min;
	id->ask_max = id->old_ask_max;
	id->iterator = 0;
	other->reaching = id->reaching;
	id->reaching = 0;
	give_turn(model, id, to);
	rename_loader(model, it, to->id);
	return 0;
}

/* Such an epoch is not this loader's. */
static int reassign(struct dlp_model *model, struct dlp_iterator *it, uint64_t cnt, bool whole)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader), *other;
	uint32_t from = it->loader;
	int err = 0;

	/* one and the same iterator has such and such epochs */
	if (identity_of(model, loader)->iterator != it->id || it->epochs) {
		identity_of(model, loader)->varies = true;
		return 0;
	}
	other = other_for(model, loader, it, cnt, whole);
	if (!other && too_many(model, loader))
		return 0;
	if (!other)
		other = dlp_loader_like(model, loader, &err);
	if (!other)
		return err == -ENOSPC ? 0 : err;
	return move(model, it, dlp_loader_find(model, from), other);
}

/* Batches of the epoch so far, or of all of it when it is over; 0 = not known. */
static uint64_t batches(const struct dlp_model *model, const struct dlp_iterator *it, bool over,
			int64_t index)
{
	const struct dlp_iterator_state *state = it->state;

	if (state->shards)
		return state->reset_ns && !dlp_lossy(model) ? state->calls + !over : 0;
	if (over)
		return it->next_index > state->max_index ? (uint64_t)(state->max_index + 1) : 0;
	return it->unordered || index < 0 ? 0 : (uint64_t)index + 1;
}

int dlp_identity_call(struct dlp_model *model, struct dlp_iterator *it, bool over, int64_t index)
{
	uint64_t cnt = it->pipe ? batches(model, it, over, index) : 0;
	struct dlp_identity *id;
	int err;

	if (!cnt)
		return 0;
	id = identity_of(model, dlp_loader_find(model, it->loader));
	if (id->iterator == it->id)
		id->reaching = dlp_max(id->reaching, cnt);
	if (differs(id, cnt, over)) {
		err = reassign(model, it, cnt, over);
		if (err)
			return err;
		id = identity_of(model, dlp_loader_find(model, it->loader));
	}
	if (!over)
		return 0;
	if (!id->epoch_min || cnt < id->epoch_min)
		id->epoch_min = cnt;
	id->epoch_max = dlp_max(id->epoch_max, cnt);
	return 0;
}

void dlp_identities_fini(struct dlp_model *model)
{
	for (size_t i = 0; i < DLP_MODEL_LOADERS_MAX; i++)
		free(model->priv->identity[i].before);
}
