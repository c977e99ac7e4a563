/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "split.h"

#include <string.h>

#include "util.h"

const char *dlp_split_state_id(unsigned int state)
{
	static const char *const ids[DLP_ST_MAX] = {
		[DLP_ST_RUN] = "run",	  [DLP_ST_RUNQ] = "runq", [DLP_ST_DISK] = "disk",
		[DLP_ST_FAULT] = "fault", [DLP_ST_FS] = "fs",	  [DLP_ST_NET] = "net",
		[DLP_ST_LOCK] = "lock",	  [DLP_ST_GIL] = "gil",	  [DLP_ST_PIPE] = "pipe",
		[DLP_ST_SLEEP] = "sleep", [DLP_ST_IDLE] = "idle", [DLP_ST_OTHER] = "other",
	};

	return state < DLP_ST_MAX ? ids[state] : "unknown";
}

uint64_t dlp_split_sum(const struct dlp_clock *clock)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		sum += clock->ns[i];
	return sum;
}

void dlp_split_add(struct dlp_clock *dst, const struct dlp_clock *src)
{
	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		dst->ns[i] += src->ns[i];
}

size_t dlp_split_rank(const struct dlp_clock *clock, bool without_idle,
		      struct dlp_share ret_share[DLP_ST_MAX])
{
	uint64_t total = dlp_split_sum(clock);
	size_t cnt = 0;

	if (without_idle)
		total -= clock->ns[DLP_ST_IDLE];
	for (unsigned int i = 0; i < DLP_ST_MAX; i++) {
		struct dlp_share entry = { .state = i };
		size_t at = cnt;

		if (!clock->ns[i] || (without_idle && i == DLP_ST_IDLE))
			continue;
		entry.share = (double)clock->ns[i] / (double)total;
		for (; at && ret_share[at - 1].share < entry.share; at--)
			ret_share[at] = ret_share[at - 1];
		ret_share[at] = entry;
		cnt++;
	}
	return cnt;
}

bool dlp_split_seen(const struct dlp_worker *worker)
{
	return !worker->died_ns || worker->clock_valid || worker->proven;
}

bool dlp_split_counts(const struct dlp_model *model, const struct dlp_worker *worker)
{
	if (worker->proven)
		return true;
	for (size_t i = 0; i < model->worker_cnt; i++) {
		if (model->workers[i].proven)
			return false;
	}
	return true;
}

size_t dlp_split_workers(const struct dlp_model *model, struct dlp_clock *ret)
{
	size_t cnt = 0;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (!worker->clock_valid || !dlp_split_counts(model, worker))
			continue;
		dlp_split_add(ret, &worker->clock);
		cnt++;
	}
	return cnt;
}

const struct dlp_thread *dlp_split_thread(const struct dlp_model *model, uint32_t tid)
{
	const struct dlp_thread *found = NULL;

	for (size_t i = 0; i < model->thread_cnt; i++) {
		const struct dlp_thread *thread = &model->threads[i];

		/* a number may be in use again: the living one counts */
		if (thread->tid == tid && (!found || !thread->dead))
			found = thread;
	}
	return found;
}
