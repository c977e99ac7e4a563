/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's batches between asked and delivered: how many were on their way when a GetNext began,
 * and how many of them stood ready.
 */
#include "model_priv.h"

/* Calls until the largest number in flight is believed, besides twice that number. */
#define SETTLE_MIN 64
#define SETTLE_FRESH 4

bool dlp_batch_skipped(struct dlp_model *model, const struct dlp_batch *batch)
{
	const struct dlp_worker *worker;

	if (batch->end_mark)
		return true;
	if (batch->sent_ns || batch->received_ns || !batch->worker_pid)
		return false;
	worker = dlp_worker_find(model, batch->worker_pid);
	return worker && worker->shard_ended;
}

struct dlp_batch *dlp_batch_oldest(const struct dlp_iterator *it, uint64_t end_ns)
{
	struct dlp_batch *best = NULL;

	for (size_t i = 0; i < it->batch_cnt; i++) {
		struct dlp_batch *batch = &it->batches[i];

		if (!batch->received_ns || batch->received_ns > end_ns || batch->end_mark)
			continue;
		if (!best || batch->received_ns < best->received_ns)
			best = batch;
	}
	return best;
}

/* Batches in flight that were asked for before `ns`; *ret_next = the index after the newest. */
static size_t in_flight_at(const struct dlp_iterator *it, uint64_t ns, int64_t *ret_next)
{
	size_t cnt = it->batch_cnt, late = 0;

	while (cnt && it->batches[cnt - 1].asked_ns >= ns)
		cnt--;
	*ret_next = cnt ? it->batches[cnt - 1].index + 1 : 0;
	while (!it->unordered && late < cnt && it->batches[late].index < it->next_index)
		late++;
	return cnt - late;
}

static bool settled(const struct dlp_iterator *it)
{
	/* when the start was seen, the queues were filled before the first call */
	if (it->state->reset_ns && it->num_workers > 0)
		return it->state->settling > SETTLE_FRESH;
	return it->state->settling > 2 * (uint64_t)it->in_flight_max + SETTLE_MIN;
}

void dlp_flight_note(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call)
{
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	int64_t next, least;
	size_t cnt;

	/* the end of a shard is answered with another index, beyond that number */
	if (it->next_index < 0 || it->state->shards)
		return;
	cnt = in_flight_at(it, call->start_ns, &next);
	if (!settled(it)) {
		it->state->settling += !it->state->reset_ns ||
				       it->num_workers <= (int)it->state->pipe_cnt;
		if (cnt > it->in_flight_max)
			it->in_flight_max = (uint32_t)cnt;
		if (it->in_flight_max > loader->prefetch)
			loader->prefetch = it->in_flight_max;
		return;
	}
	if (!dlp_lossy(model))
		return;
	if (!it->unordered) {
		least = next - (int64_t)it->in_flight_max;
		if (it->next_index < least)
			it->next_index = least;
		return;
	}
	for (; cnt > it->in_flight_max; cnt--) {
		struct dlp_batch *oldest = dlp_batch_oldest(it, call->start_ns);

		if (!oldest)
			return;
		dlp_batch_del(it, oldest);
	}
}

int32_t dlp_flight_ready(struct dlp_model *model, struct dlp_iterator *it,
			 struct dlp_loader *loader, const struct dlp_call *call)
{
	uint64_t ready = 0;
	int64_t want = it->next_index;

	if (want < 0)
		return -1;
	for (size_t i = 0; i < it->batch_cnt; i++) {
		const struct dlp_batch *batch = &it->batches[i];
		bool sent = batch->sent_ns && batch->sent_ns <= call->start_ns;

		if (!it->unordered && (batch->index < want))
			continue;
		if (dlp_batch_skipped(model, batch)) {
			want = batch->index + 1;
			continue;
		}
		if (!it->unordered && (batch->index != want || !sent))
			break;
		want++;
		ready += sent;
	}
	if (call->counts) {
		loader->ready_cnt++;
		loader->ready_sum += ready;
		loader->empty_cnt += !ready;
	}
	return (int32_t)ready;
}

int32_t dlp_flight_count(const struct dlp_iterator *it, const struct dlp_call *call,
			 const struct dlp_batch *batch)
{
	uint64_t until_ns = call->start_ns;
	int64_t next;

	if (batch && !it->state->shards)
		until_ns = dlp_max(until_ns, batch->received_ns);
	return (int32_t)in_flight_at(it, until_ns, &next);
}
