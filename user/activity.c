/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "activity.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int dlp_activity_init(struct dlp_activity *activity, const struct dlp_history *history)
{
	int err = 0;

	memset(activity, 0, sizeof(*activity));
	activity->history = history;
#define INDEX(spans, array, cnt)                                                                   \
	if (!err)                                                                                  \
	err = dlp_spans_init(&activity->spans, history->array, history->cnt,                       \
			     sizeof(*history->array))
	INDEX(calls, calls, call_cnt);
	INDEX(productions, productions, production_cnt);
	INDEX(samples, samples, sample_cnt);
	INDEX(waits, waits, wait_cnt);
	INDEX(scopes, scopes, scope_cnt);
	INDEX(blocks, blocks, block_cnt);
	INDEX(requests, requests, request_cnt);
#undef INDEX
	for (size_t i = 0; !err && i < history->worker_cnt; i++)
		err = dlp_map_put(&activity->workers, history->workers[i].pid, 1);
	if (err)
		dlp_activity_fini(activity);
	return err;
}

void dlp_activity_fini(struct dlp_activity *activity)
{
	dlp_spans_fini(&activity->calls);
	dlp_spans_fini(&activity->productions);
	dlp_spans_fini(&activity->samples);
	dlp_spans_fini(&activity->waits);
	dlp_spans_fini(&activity->scopes);
	dlp_spans_fini(&activity->blocks);
	dlp_spans_fini(&activity->requests);
	dlp_map_fini(&activity->workers);
}

bool dlp_activity_worker(const struct dlp_activity *activity, uint32_t pid)
{
	return dlp_map_get(&activity->workers, pid) != DLP_MAP_NONE;
}

/* Others are read once an interval: a second, or what --interval says. */
#define OTHER_LATE_NS 2000000000ull

/* tid 0: the main threads of all workers. */
static bool meant(const struct dlp_activity *activity, uint32_t want, uint32_t pid, uint32_t tid)
{
	return want ? tid == want : tid == pid && dlp_activity_worker(activity, pid);
}

/* The readings that overlap that time. */
struct readings {
	uint64_t lived_ns; /* of that time */
	uint64_t from_ns, to_ns;
	struct dlp_clock split; /* between from and to */
};

static void read_samples(const struct dlp_activity *activity, uint32_t tid, uint64_t from_ns,
			 uint64_t to_ns, struct readings *ret)
{
	const struct dlp_history *history = activity->history;

	*ret = (struct readings){ .from_ns = from_ns, .to_ns = to_ns };
	for (size_t i = dlp_spans_next(&activity->samples, 0, from_ns, to_ns);
	     i < history->sample_cnt;
	     i = dlp_spans_next(&activity->samples, i + 1, from_ns, to_ns)) {
		const struct dlp_history_sample *sample = &history->samples[i];

		if (!meant(activity, tid, sample->pid, sample->tid))
			continue;
		ret->lived_ns += dlp_overlap(sample->start_ns, sample->end_ns, from_ns, to_ns);
		ret->from_ns = sample->start_ns < ret->from_ns ? sample->start_ns : ret->from_ns;
		ret->to_ns = sample->end_ns > ret->to_ns ? sample->end_ns : ret->to_ns;
		for (int state = 0; state < DLP_ST_MAX; state++)
			ret->split.ns[state] += sample->split.ns[state];
	}
}

static void add_waits(const struct dlp_activity *activity, uint32_t tid, uint64_t from_ns,
		      uint64_t to_ns, struct dlp_clock *ret)
{
	const struct dlp_history *history = activity->history;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = dlp_spans_next(&activity->waits, 0, from_ns, to_ns); i < history->wait_cnt;
	     i = dlp_spans_next(&activity->waits, i + 1, from_ns, to_ns)) {
		const struct dlp_history_wait *wait = &history->waits[i];

		if (meant(activity, tid, wait->pid, wait->tid))
			ret->ns[wait->state] +=
				dlp_overlap(wait->start_ns, wait->end_ns, from_ns, to_ns);
	}
}

void dlp_activity_split(const struct dlp_activity *activity, uint32_t tid, uint64_t from_ns,
			uint64_t to_ns, struct dlp_clock *ret)
{
	uint64_t blocked_ns = 0, base_ns = 0, rest_ns;
	struct readings readings;
	struct dlp_clock around;

	read_samples(activity, tid, from_ns, to_ns, &readings);
	add_waits(activity, tid, from_ns, to_ns, ret);
	add_waits(activity, tid, readings.from_ns, readings.to_ns, &around);
	for (int i = 0; i < DLP_ST_MAX; i++) {
		/* what was not a long wait */
		readings.split.ns[i] -= around.ns[i] < readings.split.ns[i] ? around.ns[i] :
									    readings.split.ns[i];
		base_ns += readings.split.ns[i];
		blocked_ns += ret->ns[i];
	}
	rest_ns = readings.lived_ns > blocked_ns ? readings.lived_ns - blocked_ns : 0;
	for (int i = 0; i < DLP_ST_MAX && base_ns; i++)
		ret->ns[i] += (uint64_t)((double)rest_ns * (double)readings.split.ns[i] /
					 (double)base_ns);
	if (!base_ns)
		ret->ns[DLP_ST_OTHER] += rest_ns;
}

double dlp_activity_job_cpus(const struct dlp_activity *activity, uint64_t from_ns, uint64_t to_ns)
{
	const struct dlp_history *history = activity->history;
	double sum_ns = 0;
	bool known = false;

	for (size_t i = dlp_spans_next(&activity->samples, 0, from_ns, to_ns);
	     i < history->sample_cnt;
	     i = dlp_spans_next(&activity->samples, i + 1, from_ns, to_ns)) {
		const struct dlp_history_sample *sample = &history->samples[i];
		uint64_t part = dlp_overlap(sample->start_ns, sample->end_ns, from_ns, to_ns);

		known = true;
		sum_ns += (double)sample->split.ns[DLP_ST_RUN] * (double)part /
			  (double)(sample->end_ns - sample->start_ns);
	}
	return known && to_ns > from_ns ? sum_ns / (double)(to_ns - from_ns) : NAN;
}

/* Growth of a process's CPU time between two times, from the readings around them; NAN. */
static double other_growth(const struct dlp_history *history, uint32_t pid, uint64_t from_ns,
			   uint64_t to_ns)
{
	const struct dlp_history_other *last = NULL;
	double sum_ns = 0;
	bool known = false;

	for (size_t i = 0; i < history->other_cnt; i++) {
		const struct dlp_history_other *other = &history->others[i];
		uint64_t part;

		if (other->pid != pid)
			continue;
		part = last ? dlp_overlap(last->ts_ns, other->ts_ns, from_ns, to_ns) : 0;
		if (part) {
			known = true;
			if (other->cpu_ns > last->cpu_ns)
				sum_ns += (double)(other->cpu_ns - last->cpu_ns) * (double)part /
					  (double)(other->ts_ns - last->ts_ns);
		}
		last = other;
		if (other->ts_ns >= to_ns)
			break;
	}
	return known ? sum_ns : NAN;
}

double dlp_activity_others_cpus(const struct dlp_activity *activity, uint64_t from_ns,
				uint64_t to_ns)
{
	return to_ns > from_ns ? other_growth(activity->history, 0, from_ns, to_ns) /
					 (double)(to_ns - from_ns) :
				 NAN;
}

const struct dlp_history_other *dlp_activity_top_other(const struct dlp_activity *activity,
						       uint64_t from_ns, uint64_t to_ns,
						       double *ret_cpus)
{
	const struct dlp_history *history = activity->history;
	const struct dlp_history_other *top = NULL;
	double top_ns = 0;

	for (size_t i = 0; i < history->other_cnt; i++) {
		const struct dlp_history_other *other = &history->others[i];
		double ns;

		/* a reading at or just behind that time tells about it */
		if (!other->pid || other->ts_ns <= from_ns)
			continue;
		ns = other_growth(history, other->pid, from_ns, to_ns);
		if (ns > top_ns) {
			top_ns = ns;
			top = other;
		}
		if (other->ts_ns >= to_ns + OTHER_LATE_NS)
			break;
	}
	*ret_cpus = top && to_ns > from_ns ? top_ns / (double)(to_ns - from_ns) : NAN;
	return top;
}

void dlp_activity_io(const struct dlp_activity *activity, uint64_t from_ns, uint64_t to_ns,
		     struct dlp_activity_io *ret)
{
	const struct dlp_history *history = activity->history;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = dlp_spans_next(&activity->blocks, 0, from_ns, to_ns);
	     i < history->block_cnt;
	     i = dlp_spans_next(&activity->blocks, i + 1, from_ns, to_ns)) {
		const struct dlp_history_block *block = &history->blocks[i];
		double part, whole = (double)(block->end_ns - block->start_ns);

		if (whole <= 0)
			continue;
		part = (double)dlp_overlap(block->start_ns, block->end_ns, from_ns, to_ns) / whole;
		ret->reads += (double)block->reads * part;
		ret->read_bytes += (double)block->read_bytes * part;
		ret->write_bytes += (double)block->write_bytes * part;
	}
	for (size_t i = dlp_spans_next(&activity->requests, 0, from_ns, to_ns);
	     i < history->request_cnt;
	     i = dlp_spans_next(&activity->requests, i + 1, from_ns, to_ns)) {
		const struct dlp_history_request *request = &history->requests[i];
		uint64_t ns = request->done_ns - request->queued_ns;

		if (!request->op && ns > ret->slowest_ns)
			ret->slowest_ns = ns;
	}
}
