/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Births, execs and deaths of the job's threads and processes, at any depth (workers of the fork
 * server are its grandchildren), and the task iterator that reads every thread's clock.
 */
#include "classify.bpf.h"
#include "scope.bpf.h"

SEC("tp_btf/sched_process_fork")
int dlp_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 parent_tgid = dlp_tgid(parent), child_tgid = dlp_tgid(child);
	struct dlp_job *job = bpf_map_lookup_elem(&dlp_job, &parent_tgid);
	struct dlp_ev_fork *event;
	u64 now;

	if (!job)
		return 0;
	now = bpf_ktime_get_ns();
	if (child_tgid != parent_tgid) {
		struct dlp_job copy = *job;

		if (bpf_map_update_elem(&dlp_job, &child_tgid, &copy, BPF_ANY))
			dlp_count(DLP_CNT_JOB_FULL);
	}
	dlp_thread_new(child, job->trainer, DLP_ST_RUNQ, now);
	event = dlp_reserve(dlp_ev_fork, DLP_EV_FORK, parent_tgid, dlp_tid(parent), now);
	if (!event)
		return 0;
	event->hdr.flags = child_tgid == parent_tgid ? DLP_FORK_THREAD : 0;
	event->child_tgid = child_tgid;
	event->child_tid = dlp_tid(child);
	dlp_submit(event);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int dlp_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = dlp_tgid(task);
	struct dlp_job *job = bpf_map_lookup_elem(&dlp_job, &tgid);
	struct dlp_thread *thread;
	struct dlp_ev_exec *event;

	if (!job)
		return 0;
	/* another address space: user space finds the interpreter anew */
	job->gil_lo = 0;
	job->gil_hi = 0;
	job->gc_known = 0;
	thread = dlp_thread_get(task);
	if (thread) {
		/* the thread that called exec has become the main thread, whichever it was */
		thread->flags |= DLP_THREAD_MAIN;
		thread->gil_lo = 0;
		thread->gil_hi = 0;
		thread->idle_pipe = 0;
		thread->depth = 0;
		thread->getnext_depth = 0;
		thread->getnext_since_ns = 0;
	}
	event = dlp_reserve(dlp_ev_exec, DLP_EV_EXEC, tgid, dlp_tid(task), bpf_ktime_get_ns());
	if (!event)
		return 0;
	bpf_probe_read_kernel(event->comm, sizeof(event->comm), task->comm);
	dlp_submit(event);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int dlp_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct dlp_thread *thread = dlp_thread_get(task);
	u32 tgid = dlp_tgid(task);
	struct dlp_ev_exit *event;
	u64 now;

	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	dlp_scope_settle(thread, dlp_tid(task));
	dlp_clock_move(thread, thread->state, now);
	event = dlp_reserve(dlp_ev_exit, DLP_EV_EXIT, tgid, dlp_tid(task), now);
	if (event) {
		event->hdr.flags = thread->flags;
		event->clock = thread->clock;
		dlp_counts_read(thread, &event->counts);
		event->traced_ns = thread->traced_ns;
		event->cpu_ns = task->se.sum_exec_runtime;
		event->exit_code = task->exit_code;
		event->minflt = task->min_flt;
		event->utime_ns = task->utime;
		event->stime_ns = task->stime;
		dlp_submit(event);
	}
	thread->flags |= DLP_THREAD_DEAD;
	/* `live` has been decremented by now (kernel/exit.c: do_exit) */
	if (BPF_CORE_READ(task, signal, live.counter) <= 0)
		bpf_map_delete_elem(&dlp_job, &tgid);
	dlp_thread_drop(task);
	return 0;
}

/* Too large for the stack; only one reader runs the iterator. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dlp_ev_clock);
} dlp_sweep SEC(".maps");

static __always_inline struct dlp_thread *adopt(struct task_struct *task, u64 now)
{
	u32 tgid = dlp_tgid(task);
	struct dlp_job *job = bpf_map_lookup_elem(&dlp_job, &tgid);
	struct dlp_thread *thread;
	u32 task_state;

	/* what has ended needs no clock any more */
	if (!job || task->exit_state)
		return NULL;
	task_state = dlp_task_state(task);
	thread = dlp_thread_new(task, job->trainer, task->on_cpu ? DLP_ST_RUN : DLP_ST_RUNQ, now);
	if (!thread)
		dlp_count(DLP_CNT_STORAGE);
	if (thread && task_state && !task->on_cpu) {
		classify(task, thread, task_state, DLP_IS_BLOCKED, &thread->blocked);
		if (thread->since_ns == now)
			thread->state = thread->blocked.state;
	}
	return thread;
}

static __always_inline void fill_clock(struct dlp_thread *thread, struct task_struct *task, u64 now,
				       struct dlp_ev_clock *event)
{
	u32 frame = thread->getnext_frame;

	__builtin_memset(event, 0, sizeof(*event));
	event->hdr.size = sizeof(*event);
	event->hdr.kind = DLP_EV_CLOCK;
	event->hdr.flags = thread->flags;
	event->hdr.ts_ns = now;
	event->hdr.tgid = dlp_tgid(task);
	event->hdr.tid = dlp_tid(task);
	event->state = thread->state;
	event->since_ns = thread->since_ns;
	dlp_clock_read(thread, now, &event->clock);
	dlp_counts_read(thread, &event->counts);
	event->traced_ns = thread->traced_ns;
	event->cpu_ns = task->se.sum_exec_runtime;
	event->minflt = task->min_flt;
	event->majflt = task->maj_flt;
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	event->getnext_since_ns = thread->getnext_since_ns;
	/* its exit has been seen: it counts, although the last microseconds are still open */
	if (thread->exit_ns && event->getnext_since_ns && thread->depth == frame + 1) {
		event->counts.getnext_cnt++;
		event->counts.getnext_ns += thread->exit_ns - event->getnext_since_ns;
		event->getnext_since_ns = 0;
	}
	if (event->getnext_since_ns && frame < DLP_SCOPE_DEPTH) {
		/* once spilled, a bound is forgotten by the verifier of 5.10: said again */
		barrier_var(frame);
		frame &= DLP_SCOPE_DEPTH - 1;
		event->getnext_now = event->clock;
		dlp_clock_sub(&event->getnext_now, &thread->frame[frame].clock);
	}
	if (event->state != DLP_ST_RUN && event->state != DLP_ST_RUNQ) {
		event->object = thread->blocked.object;
		event->syscall = thread->blocked.syscall;
		event->dev = thread->blocked.dev;
		event->fs_magic = thread->blocked.fs_magic;
	}
	bpf_probe_read_kernel(event->comm, sizeof(event->comm), task->comm);
}

/*
 * Writes one DLP_EV_CLOCK for each live thread of the job; a thread met for the first time (at
 * attaching) gets its clock now.
 */
SEC("iter/task")
int dlp_sweep_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct dlp_ev_clock *event;
	struct dlp_thread *thread;
	u32 zero = 0;
	u64 now;

	if (!task)
		return 0;
	now = bpf_ktime_get_ns();
	thread = dlp_thread_get(task);
	if (!thread)
		thread = adopt(task, now);
	/* a zombie is still listed, but its last reading went out with its EXIT */
	if (!thread || thread->flags & DLP_THREAD_DEAD)
		return 0;
	event = bpf_map_lookup_elem(&dlp_sweep, &zero);
	if (!event)
		return 0;
	fill_clock(thread, task, now, event);
	bpf_seq_write(ctx->meta->seq, event, sizeof(*event));
	return 0;
}
