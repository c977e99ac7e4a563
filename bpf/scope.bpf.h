/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The stack of open record_function scopes of a thread. */
#ifndef DLP_SCOPE_BPF_H
#define DLP_SCOPE_BPF_H

#include "maps.bpf.h"

/*
 * A scope begins: `flags` are DLP_SCOPE_GETNEXT, _NAMED and DLP_FRAME_SILENT, `weight` is 0 where it is
 * not to be sent.
 */
static __always_inline void dlp_scope_push(struct dlp_thread *thread, u32 label, u32 flags,
					   u32 weight, u64 now)
{
	u32 at = thread->depth++;
	struct dlp_frame *frame;

	if (at >= DLP_SCOPE_DEPTH) {
		dlp_count(DLP_CNT_SCOPE_DEEP);
		return;
	}
	at &= DLP_SCOPE_DEPTH - 1;
	frame = &thread->frame[at];
	if (weight)
		dlp_clock_read(thread, now, &frame->clock);
	if ((flags & DLP_SCOPE_GETNEXT) && !(flags & DLP_FRAME_SILENT)) {
		if (!thread->getnext_depth++) {
			flags |= DLP_SCOPE_OUTER;
			thread->getnext_frame = at;
			thread->getnext_since_ns = now;
			thread->flags |= DLP_THREAD_GETNEXT;
		}
	}
	frame->start_ns = now;
	frame->label = label;
	frame->flags = flags;
	frame->child_ns = 0;
	frame->weight = weight;
}

/* The scope around one that ends; those nested too deep have no frame and are charged to none. */
static __always_inline void charge_parent(struct dlp_thread *thread, u32 at,
					  const struct dlp_frame *frame, u64 now)
{
	/* what is inside a scope seen twice is inside its first frame, and so is that frame's twin */
	u64 ns = frame->flags & DLP_FRAME_SILENT ? frame->child_ns : now - frame->start_ns;

	if (at)
		thread->frame[(at - 1) & (DLP_SCOPE_DEPTH - 1)].child_ns += ns;
}

/* The counts in the thread stay right when the ring is full and the event is lost. */
static __always_inline void count_getnext(struct dlp_thread *thread, const struct dlp_frame *frame,
					  const struct dlp_clock *split, u64 now)
{
	thread->getnext_depth--;
	if (!(frame->flags & DLP_SCOPE_OUTER))
		return;
	thread->getnext_since_ns = 0;
	thread->getnext_cnt++;
	thread->getnext_ns += now - frame->start_ns;
	for (int i = 0; i < DLP_ST_MAX; i++)
		thread->getnext_split.ns[i] += split->ns[i];
}

/* The end of a scope whose begin was not seen: that of the call in which the tool attached, say. */
static __noinline int end_begun(struct dlp_thread *thread, u32 tid, u64 now)
{
	struct dlp_ev_scope *event;

	dlp_count(DLP_CNT_SCOPE_UNPAIRED);
	thread->turn++;
	if (thread->tgid != thread->trainer)
		return 0;
	event = dlp_reserve(dlp_ev_scope, DLP_EV_SCOPE, thread->tgid, tid, now);
	if (!event)
		return 0;
	event->hdr.flags = DLP_SCOPE_BEGUN;
	event->start_ns = thread->traced_ns;
	event->weight = 1;
	event->turn = thread->turn;
	dlp_clock_read(thread, now, &event->clock);
	/* the clock began with the tracing */
	event->split = event->clock;
	dlp_submit(event);
	return 0;
}

/* The innermost scope ends; `now` may lie before the present, but not before the last switch. */
static __noinline int dlp_scope_pop(struct dlp_thread *thread, u32 tid, u64 now)
{
	struct dlp_ev_scope *event;
	struct dlp_clock split;
	struct dlp_frame *frame;
	u32 at;

	if (!thread->depth)
		return end_begun(thread, tid, now);
	at = --thread->depth;
	thread->turn += !at;
	if (at >= DLP_SCOPE_DEPTH)
		return 0;
	at &= DLP_SCOPE_DEPTH - 1;
	frame = &thread->frame[at];
	charge_parent(thread, at, frame, now);
	if (!frame->weight)
		return 0;
	dlp_clock_read(thread, now, &split);
	dlp_clock_sub(&split, &frame->clock);
	if (frame->flags & DLP_SCOPE_GETNEXT)
		count_getnext(thread, frame, &split, now);
	event = dlp_reserve(dlp_ev_scope, DLP_EV_SCOPE, thread->tgid, tid, now);
	if (!event)
		return 0;
	event->hdr.flags = frame->flags &
			   (DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER | DLP_SCOPE_NAMED);
	event->start_ns = frame->start_ns;
	event->label = frame->label;
	event->depth = at;
	event->split = split;
	event->child_ns = frame->child_ns;
	event->weight = frame->weight;
	event->turn = thread->turn;
	/*
	 * The same reading once more. Kept on the stack beside `split`, the verifier would follow its
	 * values through every branch of dlp_clock_sub(): 190,000 instructions instead of 900.
	 */
	dlp_clock_read(thread, now, &event->clock);
	dlp_submit(event);
	return 0;
}

/*
 * The exit is seen inside its operator, which has given the global lock away and takes it again:
 * Python leaves the scope only after that. The index queue's feeder thread, woken just before,
 * is often faster (0.1 to 0.6 ms in the median with two workers on a busy machine, measured with
 * torch 1.13 and 2.13). So the exit is kept open until it is clear whether the thread is held up
 * right behind it; what it does on the CPU there takes a few microseconds.
 */
#define DLP_EXIT_REACH_LOCK_NS 30000
/* Preempted: here Python may have gone on already, which it does some 15 us behind the exit. */
#define DLP_EXIT_REACH_CPU_NS 12000

/* Ends the scope whose exit is pending, where it was seen. */
static __always_inline void dlp_scope_settle(struct dlp_thread *thread, u32 tid)
{
	u64 exit_ns = thread->exit_ns;

	if (!exit_ns)
		return;
	thread->exit_ns = 0;
	dlp_scope_pop(thread, tid, exit_ns);
}

/*
 * The thread leaves the CPU, its clock not yet moved. Held up right behind the exit, for the lock
 * or a CPU, it is still inside; anything else it does is outside.
 */
static __always_inline void dlp_scope_off_cpu(struct dlp_thread *thread, u32 tid, u32 state, u64 now)
{
	u64 reach_ns = state == DLP_ST_GIL  ? DLP_EXIT_REACH_LOCK_NS :
		       state == DLP_ST_RUNQ ? DLP_EXIT_REACH_CPU_NS : 0;

	if (!thread->exit_ns || now - thread->exit_ns < reach_ns)
		return;
	dlp_scope_settle(thread, tid);
}

/* And is back, its clock moved: an exit still pending is over now. */
static __always_inline void dlp_scope_on_cpu(struct dlp_thread *thread, u32 tid, u64 now)
{
	if (!thread->exit_ns)
		return;
	thread->exit_ns = 0;
	dlp_scope_pop(thread, tid, now);
}

#endif /* DLP_SCOPE_BPF_H */
