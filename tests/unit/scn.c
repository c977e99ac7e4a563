/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation's base: virtual time, what each thread did, processes, events. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint64_t scn_random(struct scn *scn, uint64_t below)
{
	scn->seed = scn->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (scn->seed >> 33) % below;
}

uint64_t scn_about(struct scn *scn, uint64_t ns)
{
	return ns ? ns / 2 + scn_random(scn, ns) : 0;
}

void scn_event(struct scn *scn, const void *event, size_t bytes)
{
	struct record *rec = PUSH(scn->rec, scn->rec_cnt, scn->rec_room);

	assert(bytes <= sizeof(rec->data));
	memcpy(&rec->data, event, bytes);
	rec->bytes = bytes;
	rec->seq = scn->rec_cnt;
	rec->ts_ns = ((const struct dlp_ev_hdr *)event)->ts_ns;
}

const struct track *scn_track(const struct scn *scn, uint32_t tid)
{
	for (size_t i = 0; i < scn->track_cnt; i++) {
		if (scn->track[i].tid == tid)
			return &scn->track[i];
	}
	return NULL;
}

void scn_seg(struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from, uint64_t to)
{
	struct track *track = (struct track *)scn_track(scn, tid);
	struct dlp_clock before = { 0 };
	struct seg *s;

	if (to <= from)
		return;
	if (!track) {
		track = PUSH(scn->track, scn->track_cnt, scn->track_room);
		track->tid = tid;
	}
	if (track->cnt) {
		s = &track->seg[track->cnt - 1];
		/* one after the other: clocks are read off by halving */
		assert(from >= s->to_ns);
		before = s->before;
		before.ns[s->state] += s->to_ns - s->from_ns;
	}
	s = PUSH(track->seg, track->cnt, track->room);
	*s = (struct seg){ state, from, to, before };
}

void scn_track_cut(struct scn *scn, uint32_t tid, uint64_t at)
{
	struct track *track = (struct track *)scn_track(scn, tid);

	while (track && track->cnt && track->seg[track->cnt - 1].from_ns >= at)
		track->cnt--;
	if (track && track->cnt && track->seg[track->cnt - 1].to_ns > at)
		track->seg[track->cnt - 1].to_ns = at;
}

const struct seg *scn_seg_at(const struct track *track, uint64_t ts)
{
	size_t low = 0, high = track ? track->cnt : 0;

	/* the last one that began by then */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (track->seg[mid].from_ns <= ts)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &track->seg[low - 1] : NULL;
}

static struct dlp_clock clock_at(const struct track *track, uint64_t ts)
{
	const struct seg *s = scn_seg_at(track, ts);
	struct dlp_clock clock = { 0 };

	if (!s)
		return clock;
	clock = s->before;
	clock.ns[s->state] += (s->to_ns < ts ? s->to_ns : ts) - s->from_ns;
	return clock;
}

struct dlp_clock scn_clock(const struct scn *scn, uint32_t tid, uint64_t from, uint64_t to)
{
	const struct track *track = scn_track(scn, tid);
	struct dlp_clock clock = clock_at(track, to), before = clock_at(track, from);

	for (int s = 0; s < DLP_ST_MAX; s++)
		clock.ns[s] -= to > from ? before.ns[s] : clock.ns[s];
	return clock;
}

uint64_t scn_state_ns(const struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from_ns,
		      uint64_t to_ns)
{
	return scn_clock(scn, tid, from_ns, to_ns).ns[state];
}

void scn_trainer_until(struct scn *scn, uint64_t to, enum dlp_state state)
{
	scn_seg(scn, SCN_TRAINER, state, scn->now, to);
	if (to > scn->now)
		scn->now = to;
}

void scn_trainer(struct scn *scn, uint64_t ns, enum dlp_state state)
{
	scn_trainer_until(scn, scn->now + ns, state);
}

struct scn *scn_new(unsigned int seed)
{
	struct scn *scn = calloc(1, sizeof(*scn));
	struct proc *trainer;

	assert(scn);
	scn->now = 100 * SEC;
	scn->seed = seed;
	trainer = PUSH(scn->proc, scn->proc_cnt, scn->proc_room);
	trainer->pid = SCN_TRAINER;
	trainer->born_ns = 50 * SEC;
	return scn;
}

void scn_free(struct scn *scn)
{
	for (size_t i = 0; i < scn->iter_cnt; i++) {
		free(scn->iter[i]->results);
		free(scn->iter[i]->tasks);
		free(scn->iter[i]);
	}
	for (size_t i = 0; i < scn->track_cnt; i++)
		free(scn->track[i].seg);
	free(scn->track);
	free(scn->iter);
	free(scn->rec);
	free(scn->call);
	free(scn->made);
	free(scn->outside);
	free(scn->proc);
	free(scn);
}

uint64_t scn_now(const struct scn *scn)
{
	return scn->now;
}

void scn_step(struct scn *scn, uint64_t ns)
{
	scn_trainer(scn, ns, DLP_ST_RUN);
}

void scn_scope(struct scn *scn, uint32_t label, uint64_t ns)
{
	struct dlp_ev_scope ev = { .start_ns = scn->now, .label = label, .turn = ++scn->turn,
				   .weight = 1 };

	scn_step(scn, ns);
	ev.hdr = (struct dlp_ev_hdr)HDR(SCOPE, dlp_ev_scope, scn->now, SCN_TRAINER, SCN_TRAINER);
	ev.split = scn_clock(scn, SCN_TRAINER, ev.start_ns, scn->now);
	scn_event(scn, &ev, sizeof(ev));
}

void scn_born(struct scn *scn, uint32_t pid)
{
	struct dlp_ev_fork ev = { .hdr = HDR(FORK, dlp_ev_fork, scn->now, SCN_TRAINER, SCN_TRAINER),
				  .child_tgid = pid, .child_tid = pid };
	struct proc *proc = PUSH(scn->proc, scn->proc_cnt, scn->proc_room);

	proc->pid = pid;
	proc->born_ns = scn->now;
	scn_event(scn, &ev, sizeof(ev));
}

struct proc *scn_proc(struct scn *scn, uint32_t pid)
{
	for (size_t i = scn->proc_cnt; i-- > 0;) {
		if (scn->proc[i].pid == pid)
			return &scn->proc[i];
	}
	assert(false);
	return NULL;
}

void scn_died(struct scn *scn, uint32_t pid, uint64_t ts, uint32_t exit_code)
{
	struct proc *proc = scn_proc(scn, pid);

	proc->died_ns = ts;
	proc->exit_code = exit_code;
}

size_t scn_calls(const struct scn *scn, const struct scn_call **ret)
{
	*ret = scn->call;
	return scn->call_cnt;
}

size_t scn_made(const struct scn *scn, const struct scn_made **ret)
{
	*ret = scn->made;
	return scn->made_cnt;
}

size_t scn_outside(const struct scn *scn, const struct scn_outside **ret)
{
	*ret = scn->outside;
	return scn->outside_cnt;
}
