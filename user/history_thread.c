/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The history's samples: what threads did between two readings of their clocks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history_priv.h"

/* Numbers of dead threads are dropped when this many are known, so that a week of forks fits. */
#define THREADS_MAX 16384u

static struct dlp_history_thread *thread_get(struct dlp_history_priv *priv, uint32_t tid)
{
	uint32_t at = dlp_map_get(&priv->thread_at, tid);

	if (at != DLP_MAP_NONE)
		return &priv->threads[at];
	if (priv->thread_cnt == THREADS_MAX ||
	    dlp_grow(&priv->threads, &priv->thread_room, priv->thread_cnt,
		     sizeof(*priv->threads)) ||
	    dlp_map_put(&priv->thread_at, tid, (uint32_t)priv->thread_cnt)) {
		priv->err = priv->thread_cnt == THREADS_MAX ? priv->err : -ENOMEM;
		return NULL;
	}
	memset(&priv->threads[priv->thread_cnt], 0, sizeof(*priv->threads));
	priv->threads[priv->thread_cnt].tid = tid;
	return &priv->threads[priv->thread_cnt++];
}

static void thread_del(struct dlp_history_priv *priv, uint32_t tid)
{
	uint32_t at = dlp_map_get(&priv->thread_at, tid);
	struct dlp_history_thread *last;

	if (at == DLP_MAP_NONE)
		return;
	dlp_map_del(&priv->thread_at, tid);
	last = &priv->threads[--priv->thread_cnt];
	if (last == &priv->threads[at])
		return;
	priv->threads[at] = *last;
	/* replaces an entry, so it needs no memory */
	(void)dlp_map_put(&priv->thread_at, last->tid, at);
}

static struct dlp_history_pool *pool_get(struct dlp_history_priv *priv, uint32_t pid)
{
	uint32_t at = dlp_map_get(&priv->pool_at, pid);

	if (at != DLP_MAP_NONE)
		return &priv->pools[at];
	if (dlp_grow(&priv->pools, &priv->pool_room, priv->pool_cnt, sizeof(*priv->pools)) ||
	    dlp_map_put(&priv->pool_at, pid, (uint32_t)priv->pool_cnt)) {
		priv->err = -ENOMEM;
		return NULL;
	}
	memset(&priv->pools[priv->pool_cnt], 0, sizeof(*priv->pools));
	priv->pools[priv->pool_cnt].pid = pid;
	return &priv->pools[priv->pool_cnt++];
}

static void add_clock(struct dlp_clock *to, const struct dlp_clock *what)
{
	for (int i = 0; i < DLP_ST_MAX; i++)
		to->ns[i] += what->ns[i];
}

static void spent(struct dlp_history *history, const struct dlp_history_sample *sample, bool own)
{
	struct dlp_history_sample *entry;
	struct dlp_history_pool *pool;

	if (own) {
		entry = dlp_history_add(history, DLP_STORE_SAMPLES);
		if (entry)
			*entry = *sample;
		return;
	}
	pool = pool_get(history->priv, sample->pid);
	if (!pool)
		return;
	if (!pool->start_ns || sample->start_ns < pool->start_ns)
		pool->start_ns = sample->start_ns;
	if (sample->end_ns > pool->end_ns)
		pool->end_ns = sample->end_ns;
	add_clock(&pool->split, &sample->split);
}

/* `traced_ns`: since when the clock runs; a thread born since has spent all of it since then. */
static void reading(struct dlp_history *history, const struct dlp_ev_hdr *hdr,
		    const struct dlp_clock *clock, uint64_t traced_ns, bool own)
{
	struct dlp_history_thread *thread = thread_get(history->priv, hdr->tid);
	struct dlp_history_sample sample = {
		.end_ns = hdr->ts_ns,
		.pid = hdr->tgid,
		.tid = hdr->tid,
	};
	uint64_t opened_ns = history->model->start_ns;

	if (!thread)
		return;
	/* a number may be in use again */
	if (thread->tgid != hdr->tgid || traced_ns > thread->read_ns) {
		thread->tgid = hdr->tgid;
		memset(&thread->clock, 0, sizeof(thread->clock));
		thread->read_ns = opened_ns && traced_ns >= opened_ns ? traced_ns : 0;
	}
	sample.start_ns = thread->read_ns;
	for (int i = 0; i < DLP_ST_MAX; i++) {
		if (clock->ns[i] > thread->clock.ns[i])
			sample.split.ns[i] = clock->ns[i] - thread->clock.ns[i];
	}
	thread->clock = *clock;
	thread->read_ns = hdr->ts_ns;
	if (sample.start_ns && sample.end_ns > sample.start_ns)
		spent(history, &sample, own);
}

void dlp_history_clock(struct dlp_history *history, const struct dlp_ev_clock *ev)
{
	/* the lanes of a timeline: what prepares batches, and what waits for them */
	bool own = ev->hdr.tid == ev->hdr.tgid || ev->hdr.flags & DLP_THREAD_GETNEXT;

	reading(history, &ev->hdr, &ev->clock, ev->traced_ns, own);
}

void dlp_history_exit(struct dlp_history *history, const struct dlp_ev_exit *ev)
{
	bool own = ev->hdr.tid == ev->hdr.tgid || ev->hdr.flags & DLP_THREAD_GETNEXT;

	reading(history, &ev->hdr, &ev->clock, ev->traced_ns, own);
	thread_del(history->priv, ev->hdr.tid);
}

void dlp_history_pools(struct dlp_history *history)
{
	struct dlp_history_priv *priv = history->priv;

	for (size_t i = 0; i < priv->pool_cnt; i++) {
		const struct dlp_history_pool *pool = &priv->pools[i];
		struct dlp_history_sample *sample;

		sample = pool->start_ns ? dlp_history_add(history, DLP_STORE_SAMPLES) : NULL;
		if (!sample)
			continue;
		sample->start_ns = pool->start_ns;
		sample->end_ns = pool->end_ns;
		sample->pid = pool->pid;
		sample->lane = DLP_LANE_POOL;
		sample->split = pool->split;
	}
	priv->pool_cnt = 0;
	dlp_map_clear(&priv->pool_at);
}

void dlp_history_threads_fini(struct dlp_history_priv *priv)
{
	dlp_map_fini(&priv->thread_at);
	dlp_map_fini(&priv->pool_at);
	free(priv->threads);
	free(priv->pools);
}
