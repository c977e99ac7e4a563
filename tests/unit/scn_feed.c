/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a finished simulation to the events of a window, in order of arrival. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "dlprof/config.h"

/* The tool is there a moment before the window opens. */
#define ATTACHED_NS (900 * US)

/* The kernel's counts of the training thread at a moment: of calls whose begin it saw. */
static void counts_at(const struct scn *scn, const struct scn_view *view, uint64_t ts,
		      struct dlp_ev_clock *ev)
{
	for (size_t i = 0; i < scn->call_cnt; i++) {
		const struct scn_call *call = &scn->call[i];
		uint64_t end = call->end_ns < ts ? call->end_ns : ts;
		struct dlp_clock split;

		if (call->start_ns >= ts)
			break;
		if (call->start_ns < view->start_ns - ATTACHED_NS)
			continue;
		split = scn_clock(scn, SCN_TRAINER, call->start_ns, end);
		if (call->end_ns > ts) {
			ev->getnext_since_ns = call->start_ns;
			ev->getnext_now = split;
			continue;
		}
		ev->counts.getnext_cnt++;
		ev->counts.getnext_ns += call->end_ns - call->start_ns;
		for (int s = 0; s < DLP_ST_MAX; s++)
			ev->counts.getnext_split.ns[s] += split.ns[s];
	}
}

/* Clocks of threads that live when the tool attaches run since then. */
static uint64_t traced_ns(const struct scn_view *view, const struct proc *proc)
{
	return proc->born_ns > view->start_ns ? proc->born_ns : view->start_ns - ATTACHED_NS;
}

static void read_clock(const struct scn *scn, const struct scn_view *view, const struct proc *proc,
		       uint64_t ts, struct dlp_ev_clock *ev)
{
	uint64_t traced = traced_ns(view, proc);
	const struct seg *s;

	*ev = (struct dlp_ev_clock){ .hdr = HDR(CLOCK, dlp_ev_clock, ts, proc->pid, proc->pid),
				     .traced_ns = traced };
	ev->hdr.flags = DLP_THREAD_MAIN;
	ev->clock = scn_clock(scn, proc->pid, traced, ts);
	ev->cpu_ns = scn_clock(scn, proc->pid, 0, ts).ns[DLP_ST_RUN];
	s = scn_seg_at(scn_track(scn, proc->pid), ts);
	if (s && ts < s->to_ns) {
		ev->state = s->state;
		ev->since_ns = s->from_ns;
	}
	if (proc->pid == SCN_TRAINER) {
		ev->hdr.flags |= DLP_THREAD_GETNEXT;
		counts_at(scn, view, ts, ev);
	}
}

struct feed {
	struct record *rec;
	size_t cnt, room;
	uint64_t *lost_ns;
	size_t lost_cnt, lost_room;
};

static void arrive(struct feed *feed, uint64_t key, const void *event, size_t bytes)
{
	struct record *rec = PUSH(feed->rec, feed->cnt, feed->room);

	memcpy(&rec->data, event, bytes);
	rec->bytes = bytes;
	rec->key = key;
	rec->seq = feed->cnt;
}

static void sweep(const struct scn *scn, const struct scn_view *view, struct feed *feed,
		  uint64_t ts, uint32_t phase)
{
	struct dlp_ev_window window = {
		.hdr = HDR(WINDOW, dlp_ev_window, ts, SCN_TRAINER, SCN_TRAINER),
		.realtime_ns = ts + 1000000 * SEC,
		.phase = phase,
	};

	struct dlp_ev_counters counters = {
		.hdr = HDR(COUNTERS, dlp_ev_counters, ts - 400 * US, SCN_TRAINER, SCN_TRAINER),
	};

	for (size_t i = 0; i < feed->lost_cnt; i++)
		counters.value[DLP_CNT_RING_FULL] += feed->lost_ns[i] <= ts;
	arrive(feed, ts - 400 * US, &counters, sizeof(counters));
	for (size_t i = 0; i < scn->proc_cnt; i++) {
		const struct proc *proc = &scn->proc[i];
		struct dlp_ev_proc ev = {
			.hdr = HDR(PROC, dlp_ev_proc, ts - 400 * US, proc->pid, proc->pid),
			.born_ns = proc->born_ns,
			.role = i ? DLP_ROLE_WORKER : DLP_ROLE_TRAINER,
			.threads = 3,
		};

		if (proc->born_ns < ts - 400 * US && (!proc->died_ns || proc->died_ns > ts))
			arrive(feed, ts - 400 * US, &ev, sizeof(ev));
	}
	for (size_t i = 0; i < scn->proc_cnt && !view->no_clocks; i++) {
		const struct proc *proc = &scn->proc[i];
		uint64_t at = ts - 300 * US + i * US;
		struct dlp_ev_clock ev;

		if (proc->born_ns >= at || (proc->died_ns && proc->died_ns <= at))
			continue;
		read_clock(scn, view, proc, at, &ev);
		arrive(feed, ts - 300 * US, &ev, sizeof(ev));
	}
	arrive(feed, ts, &window, sizeof(window));
}

static bool lost(const struct scn_view *view, struct feed *feed, const struct dlp_ev_hdr *hdr)
{
	if (!view->lose || !view->lose(hdr, view->ctx))
		return false;
	*PUSH(feed->lost_ns, feed->lost_cnt, feed->lost_room) = hdr->ts_ns;
	return true;
}

static void exits(const struct scn *scn, const struct scn_view *view, struct feed *feed)
{
	for (size_t i = 0; i < scn->proc_cnt; i++) {
		const struct proc *proc = &scn->proc[i];
		struct dlp_ev_exit ev = { .hdr = HDR(EXIT, dlp_ev_exit, proc->died_ns, proc->pid,
						     proc->pid) };
		struct dlp_ev_clock clock;

		if (!proc->died_ns || proc->died_ns < view->start_ns ||
		    proc->died_ns > view->end_ns)
			continue;
		read_clock(scn, view, proc, proc->died_ns, &clock);
		ev.hdr.flags = DLP_THREAD_MAIN;
		ev.clock = clock.clock;
		ev.counts = clock.counts;
		ev.traced_ns = clock.traced_ns;
		ev.cpu_ns = clock.cpu_ns;
		ev.exit_code = proc->exit_code;
		if (lost(view, feed, &ev.hdr))
			continue;
		arrive(feed, proc->died_ns, &ev, sizeof(ev));
	}
}

/* The clock of the main thread that had this number at that time. */
static struct dlp_clock clock_then(const struct scn *scn, const struct scn_view *view,
				   uint32_t pid, uint64_t ts)
{
	const struct proc *then = NULL;

	for (size_t i = 0; i < scn->proc_cnt; i++) {
		if (scn->proc[i].pid == pid && scn->proc[i].born_ns <= ts)
			then = &scn->proc[i];
	}
	return then ? scn_clock(scn, pid, traced_ns(view, then), ts) : (struct dlp_clock){ 0 };
}

/* Main threads' events carry their clocks. */
static void add_clock(const struct scn *scn, const struct scn_view *view, struct record *rec)
{
	const struct dlp_ev_hdr *hdr = &rec->data.hdr;
	struct dlp_clock now = { 0 };

	if (hdr->tid == hdr->tgid && !view->no_states)
		now = clock_then(scn, view, hdr->tid, hdr->ts_ns);
	if (hdr->kind == DLP_EV_MSG)
		rec->data.dlp_ev_msg.clock = now;
	else if (hdr->kind == DLP_EV_SEM)
		rec->data.dlp_ev_sem.clock = now;
	else if (hdr->kind == DLP_EV_SCOPE)
		rec->data.dlp_ev_scope.clock = now;
	if (hdr->kind == DLP_EV_SCOPE && view->no_states)
		rec->data.dlp_ev_scope.split = now;
}

/* Of a scope that had begun before only its end is seen. */
static void cut_scope(const struct scn *scn, const struct scn_view *view, struct dlp_ev_scope *ev)
{
	uint64_t traced_ns = view->start_ns - ATTACHED_NS;

	if (ev->start_ns >= traced_ns)
		return;
	ev->hdr.flags = DLP_SCOPE_BEGUN;
	ev->label = 0;
	ev->start_ns = traced_ns;
	ev->split = scn_clock(scn, ev->hdr.tid, traced_ns, ev->hdr.ts_ns);
}

/* The kernel side keeps an end back until the thread leaves the CPU, or begins another scope. */
static uint64_t late_by(const struct scn *scn, const struct scn_view *view, size_t at)
{
	uint64_t ts_ns = scn->rec[at].ts_ns;

	if (scn->rec[at].data.hdr.kind != DLP_EV_SCOPE || scn->rec[at].data.hdr.tgid != SCN_TRAINER)
		return 0;
	for (size_t i = at + 1; i < scn->rec_cnt; i++) {
		const struct dlp_ev_scope *next = &scn->rec[i].data.dlp_ev_scope;

		if (next->hdr.kind == DLP_EV_SCOPE && next->hdr.tgid == SCN_TRAINER &&
		    next->start_ns >= ts_ns)
			return next->start_ns < ts_ns + view->late_ns ? next->start_ns - ts_ns :
									view->late_ns;
	}
	return 0;
}

static void ring(struct scn *scn, const struct scn_view *view, struct feed *feed)
{
	for (size_t i = 0; i < scn->rec_cnt; i++) {
		struct record rec = scn->rec[i];
		struct dlp_ev_hdr *hdr = &rec.data.hdr;

		/* labels are told when they are first met after attaching */
		if (hdr->kind == DLP_EV_LABEL && rec.ts_ns < view->start_ns)
			hdr->ts_ns = rec.ts_ns = view->start_ns - 800 * US;
		if (rec.ts_ns < view->start_ns - ATTACHED_NS || rec.ts_ns > view->end_ns)
			continue;
		if (hdr->kind == DLP_EV_FORK && view->no_forks)
			continue;
		if (view->uprobe && hdr->kind == DLP_EV_MSG &&
		    rec.data.dlp_ev_msg.dir == DLP_MSG_RECV)
			rec.data.dlp_ev_msg.inode = 0;
		if (hdr->kind == DLP_EV_SCOPE && hdr->tgid == SCN_TRAINER)
			cut_scope(scn, view, &rec.data.dlp_ev_scope);
		if (lost(view, feed, hdr))
			continue;
		add_clock(scn, view, &rec);
		arrive(feed, rec.ts_ns + (view->jitter_ns ? scn_random(scn, view->jitter_ns) : 0) +
			       (view->late_ns ? late_by(scn, view, i) : 0),
		       &rec.data, rec.bytes);
	}
}

static int by_key(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

int scn_feed(struct scn *scn, const struct scn_view *view,
	     int (*sink)(void *ctx, const void *event, size_t bytes), void *ctx)
{
	struct scn_view v = *view;
	struct feed feed = { 0 };
	int err = 0;

	if (!v.start_ns)
		v.start_ns = 100 * SEC + MS;
	if (!v.end_ns)
		v.end_ns = scn->now + 2 * MS;
	if (!v.interval_ns)
		v.interval_ns = SEC;
	/* live threads are in their last state up to the end */
	for (size_t i = 0; i < scn->iter_cnt; i++) {
		for (int w = 0; w < scn->iter[i]->conf.workers; w++) {
			struct worker *worker = &scn->iter[i]->w[w];

			if (!scn->iter[i]->closed && !worker->dead && worker->free_ns < v.end_ns) {
				scn_seg(scn, worker->pid, DLP_ST_IDLE, worker->free_ns, v.end_ns);
				worker->free_ns = v.end_ns;
			}
		}
	}
	scn_trainer_until(scn, v.end_ns, DLP_ST_RUN);
	ring(scn, &v, &feed);
	exits(scn, &v, &feed);
	sweep(scn, &v, &feed, v.start_ns, 0);
	for (uint64_t ts = v.start_ns + v.interval_ns; ts < v.end_ns; ts += v.interval_ns)
		sweep(scn, &v, &feed, ts, 1);
	sweep(scn, &v, &feed, v.end_ns, 2);
	qsort(feed.rec, feed.cnt, sizeof(*feed.rec), by_key);
	for (size_t i = 0; i < feed.cnt && !err; i++)
		err = sink(ctx, &feed.rec[i].data, feed.rec[i].bytes);
	free(feed.rec);
	free(feed.lost_ns);
	return err;
}
