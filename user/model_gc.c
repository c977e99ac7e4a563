/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Samples of threads on a CPU, and which of them were in Python's garbage collector. */
#include "model_priv.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A recording may claim anything: a part is never larger than the whole, inside and outside. */
static void add(struct dlp_gc_sums *to, const struct dlp_ev_gc *ev)
{
	uint64_t inside = least(ev->inside, ev->samples);
	uint64_t gc = least(ev->gc_samples, ev->samples);
	uint64_t gc_inside = least(least(ev->gc_inside, inside), gc);

	to->samples += ev->samples;
	to->inside += inside;
	to->gc_inside += gc_inside;
	to->gc_samples += gc_inside + least(gc - gc_inside, ev->samples - inside);
}

/* Each event tells of the time since the last one: what came before the window is left out. */
void dlp_gc(struct dlp_model *model, const struct dlp_ev_gc *ev)
{
	struct dlp_worker *worker;
	struct dlp_thread *thread;
	struct dlp_loader *loader;

	if (!model->priv->open || model->closed)
		return;
	thread = dlp_thread_find(model, ev->hdr.tid);
	if (thread)
		add(&thread->gc, ev);
	worker = ev->hdr.tid == ev->hdr.tgid ? dlp_worker_find(model, ev->hdr.tgid) : NULL;
	if (!worker)
		return;
	add(&worker->gc, ev);
	loader = dlp_loader_find(model, worker->loader);
	if (loader)
		add(&loader->sums.gc, ev);
}
