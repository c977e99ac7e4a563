/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The history's arrays, and what of it events tell without the model. */
#include "history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "history_priv.h"
#include "util.h"

/* What a store is made of; positions of its members in struct dlp_history. */
static const struct store {
	size_t array, cnt, lost;
	size_t item_bytes, max;
} stores[DLP_STORE_MAX] = {
#define X(NAME, name, count)                                                                       \
	[DLP_STORE_##NAME] = { offsetof(struct dlp_history, name),                                 \
			       offsetof(struct dlp_history, count),                                \
			       offsetof(struct dlp_history, lost.name),                            \
			       sizeof(*((struct dlp_history *)0)->name),                           \
			       DLP_HISTORY_##NAME##_MAX },
	DLP_HISTORY_STORES(X)
#undef X
};

/* The bound that history.h states. */
#define X(NAME, name, count) +sizeof(*((struct dlp_history *)0)->name) * DLP_HISTORY_##NAME##_MAX
_Static_assert(0 DLP_HISTORY_STORES(X) <= 200000000, "a full history is larger than it says");
#undef X

static void **array_of(struct dlp_history *history, enum dlp_history_store store)
{
	return (void **)((char *)history + stores[store].array);
}

static size_t *cnt_of(struct dlp_history *history, enum dlp_history_store store)
{
	return (size_t *)((char *)history + stores[store].cnt);
}

void *dlp_history_add(struct dlp_history *history, enum dlp_history_store store)
{
	const struct store *kind = &stores[store];
	size_t *cnt = cnt_of(history, store), *room = &history->priv->room[store];
	void **array = array_of(history, store);
	char *entry;

	if (*cnt == kind->max) {
		++*(uint64_t *)((char *)history + kind->lost);
		return NULL;
	}
	if (*cnt == *room) {
		/* doubled: the kernel moves large arrays by their page tables */
		size_t bigger = *room ? *room * 2 : 64;
		void *grown;

		if (bigger > kind->max)
			bigger = kind->max;
		grown = realloc(*array, bigger * kind->item_bytes);
		if (!grown) {
			history->priv->err = -ENOMEM;
			return NULL;
		}
		*array = grown;
		*room = bigger;
	}
	entry = (char *)*array + (*cnt)++ * kind->item_bytes;
	memset(entry, 0, kind->item_bytes);
	return entry;
}

int dlp_history_new(struct dlp_history **ret, struct dlp_model *model)
{
	struct dlp_history *history = calloc(1, sizeof(*history));
	struct dlp_history_priv *priv = calloc(1, sizeof(*priv));

	if (!history || !priv) {
		free(history);
		free(priv);
		return -ENOMEM;
	}
	priv->model = model;
	history->priv = priv;
	history->model = model;
	dlp_history_watch(history);
	*ret = history;
	return 0;
}

void dlp_history_free(struct dlp_history *history)
{
	if (!history)
		return;
	dlp_history_unwatch(history);
	for (int i = 0; i < DLP_STORE_MAX; i++)
		free(*array_of(history, i));
	dlp_map_fini(&history->priv->iterator_at);
	dlp_map_fini(&history->priv->label_at);
	free(history->priv->label_id);
	dlp_history_threads_fini(history->priv);
	free(history->priv);
	free(history);
}

static void take_wait(struct dlp_history *history, const struct dlp_ev_wait *ev)
{
	struct dlp_history_wait *wait = dlp_history_add(history, DLP_STORE_WAITS);

	if (!wait)
		return;
	*wait = (struct dlp_history_wait){
		.start_ns = ev->start_ns,
		.end_ns = ev->hdr.ts_ns,
		.wake_ns = ev->wake_ns,
		.object = ev->object,
		.pid = ev->hdr.tgid,
		.tid = ev->hdr.tid,
		.state = ev->state < DLP_ST_MAX ? ev->state : DLP_ST_OTHER,
		.syscall = ev->syscall,
		.dev = ev->dev,
		.fs_magic = ev->fs_magic,
		.waker_tid = ev->waker_tid,
	};
}

/* Position of the label's text, which finish() fills in; DLP_MAP_NONE = no room. */
static uint32_t label_at(struct dlp_history *history, uint32_t id)
{
	struct dlp_history_priv *priv = history->priv;
	uint32_t at = dlp_map_get(&priv->label_at, id);

	if (at != DLP_MAP_NONE)
		return at;
	if (dlp_grow(&priv->label_id, &priv->label_room, history->label_cnt, sizeof(uint32_t))) {
		priv->err = -ENOMEM;
		return at;
	}
	if (!dlp_history_add(history, DLP_STORE_LABELS))
		return at;
	at = (uint32_t)history->label_cnt - 1;
	priv->label_id[at] = id;
	if (dlp_map_put(&priv->label_at, id, at))
		priv->err = -ENOMEM;
	return at;
}

/* The trainer's GetNext scopes are calls, which the model tells. */
static void take_scope(struct dlp_history *history, const struct dlp_ev_scope *ev)
{
	struct dlp_history_scope *scope;
	uint32_t label;

	if (ev->hdr.flags & DLP_SCOPE_BEGUN ||
	    (ev->hdr.flags & DLP_SCOPE_GETNEXT && ev->hdr.tgid == history->model->trainer_pid))
		return;
	label = label_at(history, ev->label);
	if (label == DLP_MAP_NONE)
		return;
	scope = dlp_history_add(history, DLP_STORE_SCOPES);
	if (!scope)
		return;
	*scope = (struct dlp_history_scope){
		.start_ns = ev->start_ns,
		.end_ns = ev->hdr.ts_ns,
		.child_ns = ev->child_ns,
		.pid = ev->hdr.tgid,
		.tid = ev->hdr.tid,
		.label = label,
		.depth = ev->depth,
		.weight = ev->weight ? ev->weight : 1,
	};
}

/* The device's sums of the interval that runs. */
static struct dlp_history_block *block_of(struct dlp_history *history, uint32_t dev)
{
	struct dlp_history_block *block;

	for (size_t i = history->priv->block_base; i < history->block_cnt; i++) {
		if (history->blocks[i].dev == dev)
			return &history->blocks[i];
	}
	block = dlp_history_add(history, DLP_STORE_BLOCKS);
	if (block) {
		block->dev = dev;
		block->start_ns = history->priv->interval_ns;
	}
	return block;
}

static void take_block(struct dlp_history *history, const struct dlp_ev_block *ev)
{
	uint64_t ns = ev->hdr.ts_ns > ev->queued_ns ? ev->hdr.ts_ns - ev->queued_ns : 0;
	struct dlp_history_request *request;
	struct dlp_history_block *block;

	if (ev->op > 1)
		return;
	block = block_of(history, ev->dev);
	if (block && ev->op == 0) {
		block->reads++;
		block->read_bytes += ev->bytes;
		block->read_wait_ns += ns;
		if (ns > block->read_max_ns)
			block->read_max_ns = ns;
	} else if (block) {
		block->writes++;
		block->write_bytes += ev->bytes;
	}
	if (ns < DLP_HISTORY_SLOW_REQUEST_NS)
		return;
	request = dlp_history_add(history, DLP_STORE_REQUESTS);
	if (!request)
		return;
	*request = (struct dlp_history_request){
		.queued_ns = ev->queued_ns,
		.issued_ns = ev->issued_ns,
		.done_ns = ev->hdr.ts_ns,
		.dev = ev->dev,
		.op = ev->op,
		.bytes = ev->bytes,
		.pid = ev->hdr.tgid,
		.tid = ev->hdr.tid,
	};
}

static void take_system(struct dlp_history *history, const struct dlp_ev_system *ev)
{
	struct dlp_ev_system *system = dlp_history_add(history, DLP_STORE_SYSTEM);

	if (system)
		*system = *ev;
}

static void take_other(struct dlp_history *history, const struct dlp_ev_other *ev)
{
	struct dlp_history_other *other = dlp_history_add(history, DLP_STORE_OTHERS);

	if (!other)
		return;
	other->ts_ns = ev->hdr.ts_ns;
	other->cpu_ns = ev->cpu_ns;
	other->pid = ev->hdr.tgid;
	memcpy(other->comm, ev->comm, sizeof(other->comm));
}

static void take_window(struct dlp_history *history, const struct dlp_ev_window *ev)
{
	const struct dlp_interval_stats *stats = &history->model->interval;
	struct dlp_history_interval *interval;

	dlp_history_pools(history);
	for (size_t i = history->priv->block_base; i < history->block_cnt; i++)
		history->blocks[i].end_ns = ev->hdr.ts_ns;
	history->priv->block_base = history->block_cnt;
	history->priv->interval_ns = ev->hdr.ts_ns;
	/* what came before the window opened, or after it closed, is no interval of it */
	if (!ev->phase || stats->end_ns != ev->hdr.ts_ns || stats->end_ns <= stats->start_ns)
		return;
	interval = dlp_history_add(history, DLP_STORE_INTERVALS);
	if (!interval)
		return;
	*interval = (struct dlp_history_interval){
		.start_ns = stats->start_ns,
		.end_ns = stats->end_ns,
		.calls = stats->getnext_cnt,
		.batches = stats->batches,
		.exposed_ns = stats->exposed_ns,
	};
}

int dlp_history_apply(struct dlp_history *history, const void *event, size_t bytes)
{
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;

	if (dlp_event_check(event, bytes, &room, &hdr))
		return history->priv->err;
	switch (hdr->kind) {
	case DLP_EV_SCOPE:
		take_scope(history, (const void *)hdr);
		break;
	case DLP_EV_WAIT:
		take_wait(history, (const void *)hdr);
		break;
	case DLP_EV_CLOCK:
		dlp_history_clock(history, (const void *)hdr);
		break;
	case DLP_EV_EXIT:
		dlp_history_exit(history, (const void *)hdr);
		break;
	case DLP_EV_BLOCK:
		take_block(history, (const void *)hdr);
		break;
	case DLP_EV_WINDOW:
		take_window(history, (const void *)hdr);
		break;
	case DLP_EV_SYSTEM:
		take_system(history, (const void *)hdr);
		break;
	case DLP_EV_OTHER:
		take_other(history, (const void *)hdr);
		break;
	default:
		break;
	}
	return history->priv->err;
}
