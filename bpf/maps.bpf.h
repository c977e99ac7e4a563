/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps all programs share (defined in core.bpf.c), the per-thread state, and how events,
 * threads and counters are reached.
 */
#ifndef DLP_MAPS_BPF_H
#define DLP_MAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "dlprof/config.h"

/* One open record_function scope. */
struct dlp_frame {
	u64 start_ns;
	u32 label;
	u32 flags; /* DLP_SCOPE_*, DLP_FRAME_* */
	u64 child_ns; /* inside scopes nested in it that have ended */
	u32 weight;   /* scopes it stands for; 0 = it is not sent, and has no clock */
	u32 rsvd;
	struct dlp_clock clock; /* reading when it was entered */
};

#define DLP_FRAME_SILENT (1u << 16) /* the same scope seen twice (rung op): weight 0, only paired */
#define DLP_FRAME_BARE	 (1u << 17) /* weight 0, and it has no start either */

/*
 * Why a thread is off the CPU, as far as its registers and files tell; the fields are those of
 * struct dlp_ev_wait.
 */
struct dlp_blocked {
	u32 state;
	s32 syscall;
	u64 object;
	u32 dev;
	u32 fs_magic;
};

/* A label the thread has used: found again by its hash alone, without the table. */
struct dlp_label_cache {
	u64 hash; /* 0 = empty */
	u32 id;
	u32 flags;
};

/* A training loop has three or four labels; direct mapped. Power of two. */
#define DLP_LABEL_CACHE 4

/*
 * A traced thread. Written only by programs that run on behalf of the thread itself (scopes,
 * messages) or under the run queue's lock (switch, wakeup), so no two writers meet; the task
 * iterator reads it from elsewhere, see dlp_clock_read().
 */
struct dlp_thread {
	/* What every switch touches comes first, in as few cache lines as can be. */
	u64 since_ns; /* in `state` since; 0 while the clock is being changed */
	u32 state;
	u32 flags; /* DLP_THREAD_* */
	u32 tgid;
	u32 trainer;
	u64 off_ns;  /* left the CPU, blocked; 0 = not */
	u64 wake_ns; /* made runnable after that */
	u64 switch_cnt;
	u64 exec_base_ns; /* the scheduler's CPU time of the thread when its clock began */
	u32 waker;
	u32 rsvd;
	u64 exit_ns; /* exit seen, scope not ended yet; 0 = none */
	u64 idle_pipe; /* inode of the index pipe it was seen waiting on */
	struct dlp_clock clock;
	struct dlp_blocked blocked;
	u64 gil_lo; /* from the job table once it is known there */
	u64 gil_hi;
	u64 traced_ns; /* 0 = not initialised */

	/* What every scope touches; one more cache line costs it 50 to 100 ns. */
	u32 depth; /* open scopes, those deeper than DLP_SCOPE_DEPTH included */
	u32 getnext_depth;
	u32 turn; /* outermost scopes that have ended */
	u32 rsvd2;
	u64 next_ns; /* the interpreter last called a __next__; 0 = not, or used */
	u64 getnext_since_ns;
	u32 getnext_frame; /* index of that frame, valid while getnext_since_ns is set */
	u32 send_expect; /* length word sent on its own: bytes of the body that must follow */
	struct dlp_label_cache label[DLP_LABEL_CACHE];
	struct dlp_frame frame[DLP_SCOPE_DEPTH];

	struct dlp_clock next_clock; /* reading at next_ns */

	u32 send_misses; /* writes that were no queue message */
	u32 recv_expect; /* bytes of the message still to be read (syscall rung) */
	u32 recv_bytes;	 /* its whole length */
	u64 recv_inode;
	u8 recv_prefix_len;
	u8 recv_prefix[DLP_MSG_PREFIX];

	u64 getnext_cnt; /* these five: struct dlp_thread_counts */
	u64 getnext_ns;
	struct dlp_clock getnext_split;
	u64 send_cnt;
	u64 recv_cnt;
};

extern const volatile struct dlp_config dlp_cfg;
extern struct dlp_throttle dlp_throttle;

struct dlp_job_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_JOB_MAX);
	__type(key, u32); /* tgid */
	__type(value, struct dlp_job);
};

struct dlp_ring_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20); /* user space sets its own */
};

struct dlp_counters_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DLP_CNT_MAX);
	__type(key, u32);
	__type(value, u64);
};

struct dlp_storage_map {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dlp_thread);
};

/* Preallocated: run-time allocation in tracing programs warns before 6.1. */
struct dlp_threads_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_THREADS_MAX);
	__type(key, u32); /* tid, the kernel's own */
	__type(value, struct dlp_thread);
};

/* Inodes of index pipes, learned from what the trainer sends. */
struct dlp_pipes_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DLP_PIPES_MAX);
	__type(key, u64);
	__type(value, u32);
};

extern struct dlp_job_map dlp_job SEC(".maps");
extern struct dlp_ring_map dlp_ring SEC(".maps");
extern struct dlp_counters_map dlp_counters SEC(".maps");
extern struct dlp_storage_map dlp_storage SEC(".maps");
extern struct dlp_threads_map dlp_threads SEC(".maps");
extern struct dlp_pipes_map dlp_pipes SEC(".maps");

/* An empty thread to initialise hash entries from: too large for the stack. */
static const struct dlp_thread dlp_no_thread __attribute__((unused));

static __always_inline void dlp_count_add(u32 counter, u64 n)
{
	u64 *value = bpf_map_lookup_elem(&dlp_counters, &counter);

	if (value)
		*value += n;
}

static __always_inline void dlp_count(u32 counter)
{
	dlp_count_add(counter, 1);
}

/*
 * The number that a process or thread has in the observer's pid namespace, which is another than
 * the kernel's when the observer is in a container; 0 = it can't be seen from there.
 */
static __noinline u32 dlp_number_there(const struct pid *pid)
{
	const char *numbers = (const char *)pid + bpf_core_field_offset(struct pid, numbers);
	u32 level = BPF_CORE_READ(pid, level);

	for (u32 i = 0; i < DLP_PID_LEVELS && i <= level; i++) {
		const struct upid *number = (void *)(numbers + i * bpf_core_type_size(struct upid));

		if (BPF_CORE_READ(number, ns, ns.inum) == dlp_cfg.pid_ns)
			return (u32)BPF_CORE_READ(number, nr);
	}
	return 0;
}

/* For a task that the verifier knows as one. */
static __always_inline u32 dlp_tid(struct task_struct *task)
{
	return dlp_cfg.pid_ns ? dlp_number_there(BPF_CORE_READ(task, thread_pid)) : (u32)task->pid;
}

static __always_inline u32 dlp_tgid(struct task_struct *task)
{
	return dlp_cfg.pid_ns ? dlp_number_there(BPF_CORE_READ(task, group_leader, thread_pid)) :
				(u32)task->tgid;
}

static __always_inline u32 dlp_current_tid(void)
{
	struct task_struct *task;

	if (!dlp_cfg.pid_ns)
		return (u32)bpf_get_current_pid_tgid();
	task = (struct task_struct *)bpf_get_current_task();
	return dlp_number_there(BPF_CORE_READ(task, thread_pid));
}

static __always_inline u32 dlp_current_tgid(void)
{
	struct task_struct *task;

	if (!dlp_cfg.pid_ns)
		return bpf_get_current_pid_tgid() >> 32;
	task = (struct task_struct *)bpf_get_current_task();
	return dlp_number_there(BPF_CORE_READ(task, group_leader, thread_pid));
}

/*
 * A zeroed record of the given type in the ring, header filled; NULL (and counted) when the ring
 * is full. Must be followed by dlp_submit() soon: the reader stops at an open record.
 */
#define dlp_reserve(type, kind_, task_tgid, task_tid, now)                                         \
	({                                                                                         \
		struct type *record = bpf_ringbuf_reserve(&dlp_ring, sizeof(*record), 0);          \
		if (record) {                                                                      \
			__builtin_memset(record, 0, sizeof(*record));                              \
			record->hdr.size = sizeof(*record);                                        \
			record->hdr.kind = (kind_);                                                \
			record->hdr.cpu = bpf_get_smp_processor_id();                              \
			record->hdr.ts_ns = (now);                                                 \
			record->hdr.tgid = (task_tgid);                                            \
			record->hdr.tid = (task_tid);                                              \
		} else {                                                                           \
			dlp_count(DLP_CNT_RING_FULL);                                              \
			dlp_count_add(DLP_CNT_RING_BYTES, sizeof(*record));                        \
		}                                                                                  \
		record;                                                                            \
	})

/*
 * The reader looks at the ring by itself several times a second; waking it for each record would
 * be the dearest part of an event, so it is woken only when the ring fills.
 */
static __always_inline void dlp_submit(void *record)
{
	u64 unread = bpf_ringbuf_query(&dlp_ring, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(record, unread >= dlp_cfg.ring_wakeup_bytes ? BPF_RB_FORCE_WAKEUP :
									 BPF_RB_NO_WAKEUP);
}

/* The thread's state, NULL when it is not traced: the cheapest test there is for strangers. */
static __always_inline struct dlp_thread *dlp_thread_get(struct task_struct *task)
{
	u32 tid;

	if (dlp_cfg.use_task_storage) {
		/* most threads of the machine have no storage at all: one load tells */
		if (bpf_core_field_exists(task->bpf_storage) && !task->bpf_storage)
			return NULL;
		return bpf_task_storage_get(&dlp_storage, task, 0, 0);
	}
	tid = task->pid;
	return bpf_map_lookup_elem(&dlp_threads, &tid);
}

/*
 * The current task. Its type is known to the verifier only where the helper for that is there
 * (3ca1032ab7ab, "bpf: Add bpf_get_current_task_btf() helper", v5.11); else it can be probed only.
 */
static __always_inline struct task_struct *dlp_task_current(void)
{
	if (dlp_cfg.has_task_btf)
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

static __always_inline struct dlp_thread *dlp_thread_current(void)
{
	u32 tid;

	if (dlp_cfg.use_task_storage)
		return bpf_task_storage_get(&dlp_storage, bpf_get_current_task_btf(), 0, 0);
	tid = (u32)bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&dlp_threads, &tid);
}

/*
 * Room for a thread's clock. NULL when the kernel has none to give, which can be for the moment
 * only: task storage is not entered twice on a CPU.
 */
static __always_inline struct dlp_thread *dlp_thread_room(struct task_struct *task, u32 tid)
{
	if (dlp_cfg.use_task_storage)
		return bpf_task_storage_get(&dlp_storage, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bpf_map_update_elem(&dlp_threads, &tid, &dlp_no_thread, BPF_NOEXIST);
	return bpf_map_lookup_elem(&dlp_threads, &tid);
}

/* A clock starts in the given state; `exec_ns` is the scheduler's CPU time of the thread. */
static __always_inline void dlp_thread_begin(struct dlp_thread *thread, u32 tgid, u32 tid,
					     u32 trainer, u32 state, u64 exec_ns, u64 now)
{
	/* a switch may have come first: its reading is newer */
	if (thread->traced_ns)
		return;
	thread->tgid = tgid;
	thread->trainer = trainer;
	thread->flags = tid == tgid ? DLP_THREAD_MAIN : 0;
	thread->state = state;
	thread->exec_base_ns = exec_ns;
	thread->traced_ns = now;
	thread->since_ns = dlp_throttle.clocks_off ? 0 : now;
}

/* Gives a thread of the job its clock, which starts now in the given state; NULL: no room. */
static __always_inline struct dlp_thread *dlp_thread_new(struct task_struct *task, u32 trainer,
							 u32 state, u64 now)
{
	struct dlp_thread *thread = dlp_thread_room(task, task->pid);

	if (thread)
		dlp_thread_begin(thread, dlp_tgid(task), dlp_tid(task), trainer, state,
				 task->se.sum_exec_runtime, now);
	return thread;
}

static __always_inline void dlp_thread_drop(struct task_struct *task)
{
	u32 tid = task->pid;

	/* task storage goes with the task */
	if (!dlp_cfg.use_task_storage)
		bpf_map_delete_elem(&dlp_threads, &tid);
}

/*
 * Books the time since the last change and puts the thread into another state. The scheduler
 * counts a thread's CPU time itself, without interrupts and without what other guests take of a
 * virtual CPU; while a thread is being switched that sum is up to date (update_curr), and the
 * difference to what the clock has is `run`. The rest belongs to the state it was in, or, for one
 * that was on the CPU, to waiting for it. So a switch that was not reported (see dlp_switch) costs
 * no run time, and what one slice is off by, the next one makes up for.
 *
 * since_ns is 0 meanwhile, so that a reader on another CPU sees that it must read again (stores
 * are seen in order on x86; on arm64 a reader can be wrong by one interval in this window of a few
 * nanoseconds).
 */
static __always_inline void dlp_clock_switch(struct dlp_thread *thread, struct task_struct *task,
					     u32 state, u64 now)
{
	u64 run_ns = task->se.sum_exec_runtime - thread->exec_base_ns;
	u64 had_ns = thread->clock.ns[DLP_ST_RUN];
	u64 since = thread->since_ns;
	/* clocks of different CPUs may differ by some nanoseconds */
	u64 wall_ns = since && now > since ? now - since : 0;
	u64 own_ns = run_ns > had_ns ? run_ns - had_ns : 0;
	u32 old = thread->state;

	if (own_ns > wall_ns)
		own_ns = wall_ns;
	if (old == DLP_ST_RUN || old >= DLP_ST_MAX)
		old = DLP_ST_RUNQ;
	*(volatile u64 *)&thread->since_ns = 0;
	thread->clock.ns[DLP_ST_RUN] += own_ns;
	thread->clock.ns[old] += wall_ns - own_ns;
	*(volatile u32 *)&thread->state = state;
	*(volatile u64 *)&thread->since_ns = since + wall_ns;
}

/* The same where the scheduler's sum is not up to date, or not at hand: all to the old state. */
static __always_inline void dlp_clock_move(struct dlp_thread *thread, u32 state, u64 now)
{
	u64 since = thread->since_ns;
	u64 wall_ns = since && now > since ? now - since : 0;
	u32 old = thread->state;

	*(volatile u64 *)&thread->since_ns = 0;
	if (old < DLP_ST_MAX)
		thread->clock.ns[old] += wall_ns;
	*(volatile u32 *)&thread->state = state;
	*(volatile u64 *)&thread->since_ns = since + wall_ns;
}

/* The rare part of dlp_thread_here(): out of line, and out of the way. */
static __noinline struct dlp_thread *dlp_thread_adopt_here(void)
{
	u32 tgid = dlp_current_tgid();
	struct dlp_job *job = bpf_map_lookup_elem(&dlp_job, &tgid);
	struct task_struct *task;
	struct dlp_thread *thread;

	if (!job)
		return NULL;
	task = dlp_task_current();
	thread = dlp_thread_room(task, (u32)bpf_get_current_pid_tgid());
	if (thread)
		dlp_thread_begin(thread, tgid, dlp_current_tid(), job->trainer, DLP_ST_RUN,
				 BPF_CORE_READ(task, se.sum_exec_runtime), bpf_ktime_get_ns());
	else
		dlp_count(DLP_CNT_STORAGE);
	return thread;
}

/*
 * The current thread, at a probe of the interpreter or torch. One that the task iterator has not
 * been able to give its clock gets it here.
 */
static __always_inline struct dlp_thread *dlp_thread_here(void)
{
	struct dlp_thread *thread = dlp_thread_current();

	if (!thread)
		return dlp_thread_adopt_here();
	/* its way onto the CPU was not reported */
	if (thread->state != DLP_ST_RUN && thread->traced_ns)
		dlp_clock_move(thread, DLP_ST_RUN, bpf_ktime_get_ns());
	return thread;
}

/* As often as a thread can plausibly switch while it is being read. */
#define DLP_CLOCK_READ_TRIES 4

/* Copies the clock, the current state's share up to now included. */
static __always_inline void dlp_clock_read(struct dlp_thread *thread, u64 now, struct dlp_clock *ret)
{
	u64 since = 0;
	u32 state = 0;

	for (int i = 0; i < DLP_CLOCK_READ_TRIES; i++) {
		since = *(volatile u64 *)&thread->since_ns;
		state = *(volatile u32 *)&thread->state;
		__builtin_memcpy(ret, &thread->clock, sizeof(*ret));
		if (since && since == *(volatile u64 *)&thread->since_ns)
			break;
	}
	if (since && now > since && state < DLP_ST_MAX)
		ret->ns[state] += now - since;
}

/*
 * to - from, for two readings of one thread. A reading taken in the middle of a slice counts all
 * of it as `run`; what was not the thread's own moves to `runq` only when the slice ends.
 */
static __always_inline void dlp_clock_sub(struct dlp_clock *to, const struct dlp_clock *from)
{
	s64 run = (s64)(to->ns[DLP_ST_RUN] - from->ns[DLP_ST_RUN]);

	for (int i = 0; i < DLP_ST_MAX; i++)
		to->ns[i] = to->ns[i] > from->ns[i] ? to->ns[i] - from->ns[i] : 0;
	if (run < 0)
		to->ns[DLP_ST_RUNQ] = to->ns[DLP_ST_RUNQ] > (u64)-run ?
					      to->ns[DLP_ST_RUNQ] + run : 0;
}

static __always_inline void dlp_counts_read(const struct dlp_thread *thread,
					    struct dlp_thread_counts *ret)
{
	ret->getnext_cnt = thread->getnext_cnt;
	ret->getnext_ns = thread->getnext_ns;
	ret->getnext_split = thread->getnext_split;
	ret->send_cnt = thread->send_cnt;
	ret->recv_cnt = thread->recv_cnt;
	ret->switch_cnt = thread->switch_cnt;
}

#endif /* DLP_MAPS_BPF_H */
