/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation's truth about GetNext: what each moment of a call was spent on. */
#include "scn_priv.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t shared(uint64_t from, uint64_t to, uint64_t a, uint64_t b)
{
	from = most(from, a);
	to = least(to, b);
	return to > from ? to - from : 0;
}

/* When the first batch of a higher number was on its way already, sent by its worker. */
static uint64_t overtaken_ns(const struct scn_iter *it, int64_t index)
{
	uint64_t ret = UINT64_MAX;

	for (size_t i = 0; i < it->result_cnt; i++) {
		const struct result *res = &it->results[i];

		if (res->index > index && res->what != MSG_END)
			ret = least(ret, res->sent_ns);
	}
	for (int64_t i = index + 1; i < it->send; i++) {
		if (it->tasks[i].exists && it->tasks[i].has_data)
			ret = least(ret, it->tasks[i].res.sent_ns);
	}
	return ret;
}

/* Blocked between these: it waited for the batch, or for its parts. */
static void blocked(const struct scn_iter *it, struct next *next, uint64_t from, uint64_t to)
{
	struct scn_spent *spent = &next->call.spent;
	const struct result *got = &next->got;
	uint64_t boot = got->first ? got->taken_ns : 0;

	if (!next->call.data) {
		spent->produce_ns += to - from;
		return;
	}
	spent->boot_ns += shared(from, to, 0, boot);
	spent->produce_ns += shared(from, to, boot, got->done_ns);
	spent->transfer_ns += shared(from, to, got->done_ns, got->read_ns);
	spent->handover_ns += shared(from, to, got->read_ns, UINT64_MAX);
	if (!it->conf.unordered)
		spent->held_ns += shared(from, to, most(boot, overtaken_ns(it, got->index)),
					 got->done_ns);
}

/* On a CPU between these: all that follows the first message it reads is about batches read. */
static void ran(const struct scn_iter *it, struct next *next, uint64_t from, uint64_t to)
{
	struct scn_spent *spent = &next->call.spent;
	uint64_t behind_from = next->read_ns;

	if (!behind_from && next->call.data)
		behind_from = next->call.start_ns;
	if (!behind_from || it->conf.pin)
		behind_from = UINT64_MAX;
	spent->own_ns += shared(from, to, 0, behind_from);
	spent->behind_ns += shared(from, to, behind_from, UINT64_MAX);
}

void scn_spend(const struct scn *scn, const struct scn_iter *it, struct next *next)
{
	const struct track *track = scn_track(scn, SCN_TRAINER);
	uint64_t closing = next->closing_ns ? next->closing_ns : UINT64_MAX;
	const struct seg *s = scn_seg_at(track, next->call.start_ns);

	for (; s < track->seg + track->cnt; s++) {
		uint64_t from = most(s->from_ns, next->call.start_ns);
		uint64_t to = least(s->to_ns, next->call.end_ns);

		next->call.spent.closing_ns += shared(from, to, closing, UINT64_MAX);
		to = least(to, closing);
		if (to <= from)
			continue;
		if (s->state == DLP_ST_RUN)
			ran(it, next, from, to);
		else if (s->state == DLP_ST_RUNQ)
			next->call.spent.lack_ns += to - from;
		else if (s->state == DLP_ST_GIL)
			next->call.spent.gil_ns += to - from;
		else
			blocked(it, next, from, to);
	}
}

/* Of [from, to), what lies in calls of these iterators. */
static uint64_t in_calls(const struct scn *scn, uint64_t iters, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < scn->call_cnt; i++) {
		const struct scn_call *call = &scn->call[i];

		if (iters >> (call->iter - 1) & 1)
			sum += shared(from, to, call->start_ns, call->end_ns);
	}
	return sum;
}

static void idle_of(struct scn *scn, uint32_t pid, uint64_t iters, uint64_t from, uint64_t to,
		    struct scn_idle *ret)
{
	const struct track *track = scn_track(scn, pid);
	const struct proc *proc = scn_proc(scn, pid);

	/* what one that is born meanwhile does before its first batch is another matter */
	if (proc->born_ns >= from)
		from = proc->first_ns ? proc->first_ns : UINT64_MAX;
	for (size_t i = 0; i < track->cnt; i++) {
		uint64_t a = most(track->seg[i].from_ns, from), b = least(track->seg[i].to_ns, to);
		uint64_t waited;

		if (track->seg[i].state != DLP_ST_IDLE || b <= a)
			continue;
		waited = in_calls(scn, iters, a, b);
		ret->wait_ns += waited;
		ret->full_ns += b - a - waited;
	}
}

void scn_idle(struct scn *scn, uint64_t iters, uint64_t from_ns, uint64_t to_ns,
	      struct scn_idle *ret)
{
	*ret = (struct scn_idle){ 0 };
	for (size_t i = 0; i < scn->iter_cnt; i++) {
		const struct scn_iter *it = scn->iter[i];

		for (int w = 0; w < it->conf.workers && iters >> i & 1; w++)
			idle_of(scn, it->w[w].pid, iters, from_ns, to_ns, ret);
	}
}

uint64_t scn_lives(const struct scn *scn, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	/* the first process is the trainer */
	for (size_t i = 1; i < scn->proc_cnt; i++)
		sum += shared(from_ns, to_ns, scn->proc[i].born_ns,
			      scn->proc[i].died_ns ? scn->proc[i].died_ns : UINT64_MAX);
	return sum;
}
