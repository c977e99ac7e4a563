/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's loaders: which iterators belong to one DataLoader. Told apart by label, thread and
 * number of workers, by being alive at the same time, and by their batches (model_identity.c).
 */
#include <errno.h>
#include <string.h>

#include "model_priv.h"

struct dlp_loader *dlp_loader_find(struct dlp_model *model, uint32_t id)
{
	/* ids are given in order and loaders never go away */
	return id && id <= model->loader_cnt ? &model->loaders[id - 1] : NULL;
}

const char *dlp_label_type(const char *text, size_t *ret_len)
{
	static const char head[] = "enumerate(DataLoader)#", tail[] = ".__next__";
	const char *type, *end;

	*ret_len = 0;
	if (strncmp(text, head, sizeof(head) - 1))
		return text;
	type = text + sizeof(head) - 1;
	end = strstr(type, tail);
	/* a label that was cut still names most of the class */
	*ret_len = end ? (size_t)(end - type) : strlen(type);
	return type;
}

bool dlp_label_single(const struct dlp_model *model, uint32_t label)
{
	size_t len;
	const char *type = dlp_label_type(dlp_model_label(model, label), &len);

	/* torch's own class and torchdata's stateful one */
	return len && memmem(type, len, "SingleProcess", strlen("SingleProcess"));
}

bool dlp_label_named(const struct dlp_model *model, uint32_t label)
{
	size_t len;

	return *dlp_label_type(dlp_model_label(model, label), &len) && !len;
}

static void set_type(struct dlp_model *model, struct dlp_loader *loader)
{
	size_t len;
	const char *type = dlp_label_type(dlp_model_label(model, loader->label), &len);

	/* a loader that the user has named has no class that we know */
	loader->named = dlp_label_named(model, loader->label);
	if (!len)
		len = strlen(type);
	if (len >= DLP_TYPE_MAX)
		len = DLP_TYPE_MAX - 1;
	memcpy(loader->type, type, len);
	loader->type[len] = '\0';
	if (dlp_label_single(model, loader->label)) {
		loader->num_workers = 0;
		loader->workers_known = true;
	}
}

void dlp_loader_label(struct dlp_model *model, const struct dlp_label *label)
{
	for (size_t i = 0; i < model->loader_cnt; i++) {
		if (model->loaders[i].label == label->id)
			set_type(model, &model->loaders[i]);
	}
}

static struct dlp_loader *loader_new(struct dlp_model *model, uint32_t tid, uint32_t label,
				     int *err)
{
	struct dlp_loader *loader;

	if (model->loader_cnt >= DLP_MODEL_LOADERS_MAX) {
		*err = -ENOSPC;
		model->dropped_cnt++;
		return NULL;
	}
	*err = dlp_grow(&model->loaders, &model->priv->loader_room, model->loader_cnt,
			sizeof(*loader));
	if (*err)
		return NULL;
	loader = &model->loaders[model->loader_cnt++];
	memset(loader, 0, sizeof(*loader));
	loader->id = (uint32_t)model->loader_cnt;
	loader->label = label;
	loader->tid = tid;
	loader->num_workers = -1;
	loader->pin_memory = -1;
	loader->in_order = -1;
	loader->last.batch = -1;
	set_type(model, loader);
	return loader;
}

struct dlp_loader *dlp_loader_like(struct dlp_model *model, const struct dlp_loader *like,
				   int *err)
{
	struct dlp_loader settings = *like, *loader;

	loader = loader_new(model, settings.tid, settings.label, err);
	if (!loader)
		return NULL;
	loader->num_workers = settings.num_workers;
	loader->workers_known = settings.workers_known;
	return loader;
}

bool dlp_loader_occupied(const struct dlp_model *model, const struct dlp_loader *loader,
			 const struct dlp_iterator *it)
{
	for (size_t i = model->iterator_cnt; i-- > 0;) {
		const struct dlp_iterator *other = &model->iterators[i];

		if (other->loader == loader->id && other->id != it->id && other->pipe &&
		    !other->ended)
			return true;
	}
	return false;
}

static struct dlp_loader *loader_for(struct dlp_model *model, const struct dlp_iterator *it,
				     uint32_t tid, uint32_t label)
{
	struct dlp_loader *best = NULL;

	for (size_t i = 0; i < model->loader_cnt; i++) {
		struct dlp_loader *loader = &model->loaders[i];

		if (loader->label != label || loader->tid != tid)
			continue;
		if (it->num_workers >= 0 && loader->workers_known &&
		    loader->num_workers != it->num_workers)
			continue;
		if (dlp_loader_occupied(model, loader, it) ||
		    !dlp_identity_fits(model, loader, it))
			continue;
		if (!best || dlp_identity_rather(model, it, loader, best))
			best = loader;
	}
	return best;
}

/*
 * Calls from before the first message were put down to an iterator without messages: when the
 * one that made them shows up, they are its own.
 */
static void absorb_plain(struct dlp_model *model, struct dlp_loader *loader,
			 struct dlp_iterator *it)
{
	struct dlp_iterator *plain = dlp_iterator_find(model, loader->plain);

	loader->plain = 0;
	if (!plain)
		return;
	plain->ended = true;
	plain->state->ended_ns = plain->end_ns;
	if (it->state->fresh)
		return;
	plain->loader = 0;
	it->getnext_cnt += plain->getnext_cnt;
	it->getnext_ns += plain->getnext_ns;
	it->delivered_cnt += plain->delivered_cnt;
	if (plain->start_ns < it->start_ns)
		it->start_ns = plain->start_ns;
	plain->getnext_cnt = plain->getnext_ns = plain->delivered_cnt = 0;
	loader->iterator_cnt--;
}

int dlp_loader_bind(struct dlp_model *model, struct dlp_iterator *it, uint32_t tid, uint32_t label)
{
	struct dlp_loader *loader;
	int err = 0;

	if (it->state->bound)
		return 0;
	loader = loader_for(model, it, tid, label);
	if (!loader)
		loader = loader_new(model, tid, label, &err);
	if (!loader)
		return err;
	err = dlp_identity_bind(model, it, loader);
	if (err)
		return err;
	it->state->bound = true;
	it->state->label = label;
	it->tid = tid;
	it->loader = loader->id;
	/* a DataLoader keeps its settings from epoch to epoch */
	it->state->in_order = loader->in_order == 1;
	it->unordered |= loader->in_order == 0;
	loader->iterator_cnt++;
	loader->sums.barren_cnt += it->state->barren_cnt;
	/* what came before in this loader was another epoch */
	loader->last_start_ns = 0;
	if (loader->plain && it->pipe)
		absorb_plain(model, loader, it);
	for (size_t i = 0; it->worker_cnt && i < model->worker_cnt; i++) {
		if (model->workers[i].iterator == it->id)
			dlp_worker_bind(&model->workers[i], loader);
	}
	if (it->pipe)
		dlp_iterator_workers(model, it, 0);
	return 0;
}

struct dlp_iterator *dlp_loader_plain(struct dlp_model *model, const struct dlp_call *call,
				      int *err)
{
	struct dlp_loader *loader = NULL;
	struct dlp_iterator *it;

	*err = 0;
	for (size_t i = 0; i < model->loader_cnt && !loader; i++) {
		if (model->loaders[i].label == call->label && model->loaders[i].tid == call->tid)
			loader = &model->loaders[i];
	}
	it = loader ? dlp_iterator_find(model, loader->plain) : NULL;
	if (it)
		return it;
	if (!loader)
		loader = loader_new(model, call->tid, call->label, err);
	if (!loader)
		return NULL;
	it = dlp_iterator_new(model, 0, call->start_ns, err);
	if (!it)
		return NULL;
	it->state->bound = true;
	it->state->label = call->label;
	it->tid = call->tid;
	it->loader = loader->id;
	it->num_workers = loader->num_workers;
	loader->iterator_cnt++;
	loader->plain = it->id;
	return it;
}

uint64_t dlp_model_loader_lost(const struct dlp_model *model, const struct dlp_loader *loader)
{
	if (!loader->tid || loader->tid != model->main_tid)
		return 0;
	for (size_t i = 0; i < model->loader_cnt; i++) {
		if (&model->loaders[i] != loader && model->loaders[i].tid == loader->tid)
			return 0;
	}
	return model->getnext_lost;
}
