/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sums.h"

#include <string.h>

#include "split.h"

/* Every member of struct dlp_loader_sums is a 64-bit sum. */
#define LOADER_WORDS (sizeof(struct dlp_loader_sums) / sizeof(uint64_t))

_Static_assert(LOADER_WORDS * sizeof(uint64_t) == sizeof(struct dlp_loader_sums),
	       "a member of the sums is not 64 bits wide");

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void words_less(void *to, const void *from, size_t words)
{
	uint64_t *a = to;
	const uint64_t *b = from;

	for (size_t i = 0; i < words; i++)
		a[i] = less(a[i], b[i]);
}

static void clock_less(struct dlp_clock *to, const struct dlp_clock *from)
{
	words_less(to, from, DLP_ST_MAX);
}

void dlp_loader_sums_add(struct dlp_loader_sums *to, const struct dlp_loader_sums *what)
{
	uint64_t *a = (uint64_t *)to;
	const uint64_t *b = (const uint64_t *)what;

	for (size_t i = 0; i < LOADER_WORDS; i++)
		a[i] += b[i];
}

void dlp_loader_sums_less(struct dlp_loader_sums *from, const struct dlp_loader_sums *what)
{
	words_less(from, what, LOADER_WORDS);
}

static void add_pool(const struct dlp_model *model, struct dlp_clock *pool)
{
	*pool = model->folded.pool;
	for (size_t i = 0; i < model->thread_cnt; i++) {
		const struct dlp_thread *thread = &model->threads[i];
		struct dlp_clock spent = thread->clock;

		if (thread->main || thread->tgid == model->trainer_pid || !thread->base_set)
			continue;
		clock_less(&spent, &thread->base);
		dlp_split_add(pool, &spent);
	}
}

void dlp_sums_take(const struct dlp_model *model, struct dlp_sums *ret)
{
	const struct dlp_thread *thread;

	memset(ret, 0, sizeof(*ret));
	ret->from_ns = model->start_ns;
	ret->to_ns = model->end_ns;
	ret->main_valid = model->main_valid;
	ret->exposed_ns = model->exposed_ns;
	ret->calls = model->getnext_cnt;
	ret->inside = model->main_inside;
	ret->outside = model->main_outside;
	thread = dlp_split_thread(model, model->main_tid);
	if (thread)
		ret->main_gc = thread->gc;
	add_pool(model, &ret->pool);
	ret->system_from = model->system.first;
	ret->system_to = model->system.last;
	ret->others_valid = model->system.others_ns;
	ret->others_ns = model->system.others_all.used_ns;
	ret->loader_cnt = model->loader_cnt;
	for (size_t i = 0; i < model->loader_cnt && i < DLP_MODEL_LOADERS_MAX; i++)
		ret->loader[i] = model->loaders[i].sums;
}

void dlp_sums_since(struct dlp_sums *to, const struct dlp_sums *from)
{
	to->from_ns = from->to_ns;
	to->exposed_ns = less(to->exposed_ns, from->exposed_ns);
	to->calls = less(to->calls, from->calls);
	clock_less(&to->inside, &from->inside);
	clock_less(&to->outside, &from->outside);
	clock_less(&to->pool, &from->pool);
	words_less(&to->main_gc, &from->main_gc, sizeof(to->main_gc) / sizeof(uint64_t));
	to->system_from = from->system_to;
	to->others_ns = less(to->others_ns, from->others_ns);
	for (size_t i = 0; i < from->loader_cnt; i++)
		dlp_loader_sums_less(&to->loader[i], &from->loader[i]);
}
