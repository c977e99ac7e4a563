/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state clock: what every thread of the job does at every moment, moved at sched_switch and
 * sched_wakeup only, and the long blocked intervals one by one.
 */
#include "classify.bpf.h"
#include "scope.bpf.h"

/* Back on a CPU after a blocked interval: send it if it was long. */
static __noinline int send_wait(struct task_struct *task, struct dlp_thread *thread, u64 now)
{
	struct dlp_ev_wait *wait;

	wait = dlp_reserve(dlp_ev_wait, DLP_EV_WAIT, thread->tgid, dlp_tid(task), now);
	if (!wait)
		return 0;
	wait->start_ns = thread->off_ns;
	wait->wake_ns = thread->wake_ns ? thread->wake_ns : now;
	wait->waker_tid = thread->waker;
	wait->object = thread->blocked.object;
	wait->syscall = thread->blocked.syscall;
	wait->state = thread->blocked.state;
	wait->dev = thread->blocked.dev;
	wait->fs_magic = thread->blocked.fs_magic;
	dlp_submit(wait);
	return 0;
}

static __always_inline void leaves_cpu(struct task_struct *task, struct dlp_thread *thread, u32 state,
				       u64 now)
{
	thread->switch_cnt++;
	thread->wake_ns = 0;
	if (state) {
		classify(task, thread, state, DLP_BLOCKING, &thread->blocked);
		state = thread->blocked.state;
		thread->off_ns = now;
	} else {
		state = DLP_ST_RUNQ;
		thread->off_ns = 0;
	}
	dlp_scope_off_cpu(thread, dlp_tid(task), state, now);
	dlp_clock_switch(thread, task, state, now);
}

/*
 * Its way off the CPU was not reported. If it was woken since, it had blocked, for what its
 * registers still tell; else it was preempted, and dlp_clock_switch() is right as it is.
 */
static __noinline int left_unseen(struct task_struct *task, struct dlp_thread *thread)
{
	if (thread->wake_ns <= thread->since_ns)
		return 0;
	classify(task, thread, 0, DLP_WAS_BLOCKED, &thread->blocked);
	thread->state = thread->blocked.state;
	dlp_clock_switch(thread, task, DLP_ST_RUNQ, thread->wake_ns);
	return 0;
}

static __always_inline void enters_cpu(struct task_struct *task, struct dlp_thread *thread, u64 now)
{
	if (thread->state == DLP_ST_RUN)
		left_unseen(task, thread);
	dlp_clock_switch(thread, task, DLP_ST_RUN, now);
	dlp_scope_on_cpu(thread, dlp_tid(task), now);
	if (thread->off_ns) {
		if (dlp_cfg.has_wait_events &&
		    thread->flags & (DLP_THREAD_MAIN | DLP_THREAD_GETNEXT) &&
		    now - thread->off_ns >= dlp_cfg.long_wait_ns &&
		    now - thread->off_ns >= dlp_throttle.long_wait_ns)
			send_wait(task, thread, now);
		thread->off_ns = 0;
	}
	thread->wake_ns = 0;
}

/*
 * Arguments: (bool preempt, prev, next, unsigned int prev_state); preempt: still runnable,
 * whatever it was about to wait for.
 *
 * Not every switch is reported: on a 6.18 virtual machine about 2 in 100 are missing, for ftrace
 * as well (an event's prev is not the last event's next on that CPU), mostly those of the idle
 * task. So a thread can be found on a CPU that was not seen to get there, or to leave.
 */
SEC("tp_btf/sched_switch")
int dlp_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct dlp_thread *thread;
	u64 now = 0;

	thread = dlp_thread_get(prev);
	if (thread) {
		u32 state = dlp_cfg.has_prev_state ? (u32)ctx[3] : dlp_task_state(prev);

		now = bpf_ktime_get_ns();
		leaves_cpu(prev, thread, ctx[0] & 1 ? 0 : state, now);
	}
	thread = dlp_thread_get(next);
	if (thread) {
		if (!now)
			now = bpf_ktime_get_ns();
		enters_cpu(next, thread, now);
	}
	return 0;
}

static __always_inline int woken(struct task_struct *task)
{
	struct dlp_thread *thread = dlp_thread_get(task);
	u64 now;

	if (!thread || thread->state == DLP_ST_RUNQ)
		return 0;
	now = bpf_ktime_get_ns();
	thread->wake_ns = now;
	/* woken before it has switched out it was never off the CPU; or that was not reported */
	if (thread->state != DLP_ST_RUN)
		dlp_clock_switch(thread, task, DLP_ST_RUNQ, now);
	thread->waker = dlp_current_tid();
	return 0;
}

SEC("tp_btf/sched_wakeup")
int dlp_wakeup(u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

/*
 * sched_wakeup does not fire for new threads: without this their wait for the first CPU would be
 * lost. Also the second chance for a clock that could not be given at the fork.
 */
SEC("tp_btf/sched_wakeup_new")
int dlp_wakeup_new(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = dlp_tgid(task);
	struct dlp_job *job;

	if (dlp_thread_get(task))
		return woken(task);
	job = bpf_map_lookup_elem(&dlp_job, &tgid);
	if (job && !dlp_thread_new(task, job->trainer, DLP_ST_RUNQ, bpf_ktime_get_ns()))
		dlp_count(DLP_CNT_STORAGE);
	return 0;
}
