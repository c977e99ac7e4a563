/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_predict.h"

#include <string.h>

#include "util.h"

#define WORD_OF(type, field) (offsetof(struct type, field) / 8)

_Static_assert(WORD_OF(dlp_ev_hdr, ts_ns) == DLP_W_TS && WORD_OF(dlp_ev_hdr, tgid) == DLP_W_THREAD,
	       "the header's words moved");

static const struct dlp_rule rules[] = {
	[DLP_EV_SCOPE] = { .key = { WORD_OF(dlp_ev_scope, label) },
			   .start = WORD_OF(dlp_ev_scope, start_ns),
			   .split = WORD_OF(dlp_ev_scope, split),
			   .clock = WORD_OF(dlp_ev_scope, clock),
			   .words = sizeof(struct dlp_ev_scope) / 8 },
	[DLP_EV_LABEL] = { .text = WORD_OF(dlp_ev_label, text),
			   .text_words = DLP_LABEL_MAX / 8,
			   .words = sizeof(struct dlp_ev_label) / 8 },
	[DLP_EV_MSG] = { .key = { WORD_OF(dlp_ev_msg, inode), WORD_OF(dlp_ev_msg, dir) },
			 .text = WORD_OF(dlp_ev_msg, prefix),
			 .text_words = DLP_MSG_PREFIX / 8,
			 .clock = WORD_OF(dlp_ev_msg, clock),
			 .words = sizeof(struct dlp_ev_msg) / 8 },
	[DLP_EV_SEM] = { .clock = WORD_OF(dlp_ev_sem, clock),
			 .words = sizeof(struct dlp_ev_sem) / 8 },
	[DLP_EV_BLOCK] = { .key = { WORD_OF(dlp_ev_block, op) },
			   .start = WORD_OF(dlp_ev_block, queued_ns),
			   .later = WORD_OF(dlp_ev_block, issued_ns),
			   .words = sizeof(struct dlp_ev_block) / 8 },
	[DLP_EV_WAIT] = { .key = { WORD_OF(dlp_ev_wait, syscall) },
			  .later = WORD_OF(dlp_ev_wait, wake_ns),
			  .wait = true,
			  .words = sizeof(struct dlp_ev_wait) / 8 },
	[DLP_EV_CLOCK] = { .clock = WORD_OF(dlp_ev_clock, clock),
			   .words = sizeof(struct dlp_ev_clock) / 8 },
	[DLP_EV_EXIT] = { .clock = WORD_OF(dlp_ev_exit, clock),
			  .words = sizeof(struct dlp_ev_exit) / 8 },
};

static const struct dlp_rule no_rule;

void dlp_context_start(struct dlp_context *ctx, const void *frames)
{
	ctx->frames = frames;
	ctx->last_ns = 0;
	ctx->series_cnt = ctx->thread_cnt = 0;
	memset(ctx->kind_last, 0, sizeof(ctx->kind_last));
	memset(ctx->thread_slot, 0, sizeof(ctx->thread_slot));
}

const struct dlp_rule *dlp_rule_of(unsigned int kind, size_t words)
{
	const struct dlp_rule *rule = kind < DLP_ARRAY_SIZE(rules) ? &rules[kind] : &no_rule;

	return words >= rule->words ? rule : &no_rule;
}

static uint16_t thread_of(struct dlp_context *ctx, uint64_t id)
{
	uint32_t slot = dlp_slot_of(id);
	struct dlp_rec_thread *thread;

	for (; ctx->thread_slot[slot]; slot = (slot + 1) & (DLP_BLOCK_SLOTS - 1)) {
		if (ctx->thread[ctx->thread_slot[slot] - 1].id == id)
			return ctx->thread_slot[slot] - 1;
	}
	if (ctx->thread_cnt == DLP_BLOCK_THREADS_MAX)
		return DLP_BLOCK_THREADS_MAX - 1;
	thread = &ctx->thread[ctx->thread_cnt];
	memset(thread, 0, sizeof(*thread));
	thread->id = id;
	ctx->thread_slot[slot] = (uint16_t)++ctx->thread_cnt;
	return ctx->thread_slot[slot] - 1;
}

struct dlp_series *dlp_series_new(struct dlp_context *ctx, unsigned int kind, size_t words,
				  uint64_t thread_id)
{
	struct dlp_series *series = &ctx->series[ctx->series_cnt++];

	series->last = 0;
	series->words = (uint16_t)words;
	series->rule = dlp_rule_of(kind, words);
	series->thread = thread_of(ctx, thread_id);
	return series;
}

const uint64_t *dlp_kin(const struct dlp_context *ctx, unsigned int kind, size_t words)
{
	uint32_t position = ctx->kind_last[kind & 0xff];
	const uint64_t *event;

	if (!position)
		return NULL;
	event = dlp_event_at(ctx, position);
	return dlp_words_size(event) == words * 8 ? event : NULL;
}

static uint64_t sum_but_run(const uint64_t *clock)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DLP_CLOCK_WORDS; i++)
		sum += clock[i];
	return sum - clock[DLP_ST_RUN];
}

void dlp_predict(const struct dlp_context *ctx, const struct dlp_series *series,
		 const uint64_t *before, uint64_t *ret)
{
	const struct dlp_rec_thread *thread = &ctx->thread[series->thread];
	const struct dlp_rule *rule = series->rule;

	if (before)
		memcpy(ret, before, series->words * 8u);
	else
		memset(ret, 0, series->words * 8u);
	ret[DLP_W_TS] = ctx->last_ns;
	if (rule->start)
		ret[rule->start] = 0;
	if (rule->later)
		ret[rule->later] = 0;
	if (rule->wait)
		ret[WORD_OF(dlp_ev_wait, start_ns)] = thread->last_ns;
	if (rule->split)
		memset(&ret[rule->split], 0, sizeof(struct dlp_clock));
	if (rule->clock) {
		memcpy(&ret[rule->clock], thread->ns, sizeof(thread->ns));
		if (thread->known)
			ret[rule->clock + DLP_ST_RUN] = 0;
	}
}

void dlp_relate(const struct dlp_context *ctx, const struct dlp_series *series, uint64_t *words)
{
	const struct dlp_rec_thread *thread = &ctx->thread[series->thread];
	const struct dlp_rule *rule = series->rule;
	uint64_t ts = words[DLP_W_TS];

	if (rule->clock && thread->known)
		words[rule->clock + DLP_ST_RUN] -=
			ts + thread->offset - sum_but_run(&words[rule->clock]);
	if (rule->split)
		words[rule->split + DLP_ST_RUN] -=
			ts - words[rule->start] - sum_but_run(&words[rule->split]);
	if (rule->later)
		words[rule->later] = ts - words[rule->later];
	if (rule->start)
		words[rule->start] = ts - words[rule->start];
}

void dlp_unrelate(const struct dlp_context *ctx, const struct dlp_series *series, uint64_t *words)
{
	const struct dlp_rec_thread *thread = &ctx->thread[series->thread];
	const struct dlp_rule *rule = series->rule;
	uint64_t ts = words[DLP_W_TS];

	if (rule->start)
		words[rule->start] = ts - words[rule->start];
	if (rule->later)
		words[rule->later] = ts - words[rule->later];
	if (rule->split)
		words[rule->split + DLP_ST_RUN] +=
			ts - words[rule->start] - sum_but_run(&words[rule->split]);
	if (rule->clock && thread->known)
		words[rule->clock + DLP_ST_RUN] +=
			ts + thread->offset - sum_but_run(&words[rule->clock]);
}

/* A reported wait is in the thread's next clock: nothing that was blocked so long went unseen. */
static void note_wait(struct dlp_rec_thread *thread, const uint64_t *event)
{
	uint64_t start_ns = event[WORD_OF(dlp_ev_wait, start_ns)];
	uint64_t wake_ns = event[WORD_OF(dlp_ev_wait, wake_ns)];
	uint32_t state = (uint32_t)(event[WORD_OF(dlp_ev_wait, state)] >> 32);

	_Static_assert(offsetof(struct dlp_ev_wait, state) % 8 == 4, "state is the upper half");
	if (state >= DLP_ST_MAX)
		return;
	thread->ns[state] += wake_ns - start_ns;
	thread->ns[DLP_ST_RUNQ] += event[DLP_W_TS] - wake_ns;
}

static void note_clock(struct dlp_rec_thread *thread, const uint64_t *clock, uint64_t ts)
{
	uint64_t sum = sum_but_run(clock) + clock[DLP_ST_RUN];

	/* all zero: the thread has no clock, or it could not be read here */
	if (!sum)
		return;
	memcpy(thread->ns, clock, sizeof(thread->ns));
	thread->offset = sum - ts;
	thread->known = true;
}

void dlp_note(struct dlp_context *ctx, struct dlp_series *series, uint32_t position)
{
	struct dlp_rec_thread *thread = &ctx->thread[series->thread];
	const uint64_t *event = dlp_event_at(ctx, position);
	const struct dlp_rule *rule = series->rule;

	series->last = position;
	ctx->kind_last[dlp_words_kind(event) & 0xff] = position;
	ctx->last_ns = thread->last_ns = event[DLP_W_TS];
	if (rule->wait)
		note_wait(thread, event);
	if (rule->clock)
		note_clock(thread, &event[rule->clock], event[DLP_W_TS]);
}
