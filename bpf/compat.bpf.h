/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where kernels and architectures differ: nowhere else is there a flavour type or an #if. */
#ifndef DLP_COMPAT_BPF_H
#define DLP_COMPAT_BPF_H

#include "maps.bpf.h"

/* 2f064a59a11f ("sched: Change task_struct::state", v5.14): state, long -> __state, unsigned int */
struct task_struct___before_514 {
	long state;
} __attribute__((preserve_access_index));

/*
 * The state a task left the CPU with. 9c2136be0878 ("sched/tracing: Append prev_state to tp args
 * instead", v5.18, backported widely) passes it to sched_switch; before, reading it from the task
 * races with a wakeup on another CPU.
 */
static __always_inline u32 dlp_task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((struct task_struct___before_514 *)task, state);
}

/* Size of the kernel stack, below whose top the user registers lie: 16 kB on both architectures. */
#define DLP_STACK_BYTES 16384

/* The system call a task is in, and its first arguments. */
struct dlp_call {
	s32 nr; /* negative: an exception or interrupt brought the task into the kernel */
	u64 arg[3];
};

/*
 * The registers a task entered the kernel with. The helper is there since 5.15; before, they lie
 * right at the top of the stack. (With FRED they lie lower: never compute where the helper is.)
 * Direct loads where the verifier knows the pointer: a probe read costs twenty times as much.
 */
static __always_inline void *dlp_stack_regs(struct task_struct *task)
{
	return (char *)BPF_CORE_READ(task, stack) + DLP_STACK_BYTES -
	       bpf_core_type_size(struct pt_regs);
}

#if defined(__TARGET_ARCH_x86)

static __always_inline void dlp_task_call(struct task_struct *task, struct dlp_call *ret)
{
	struct pt_regs *regs;

	if (dlp_cfg.has_pt_regs) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		ret->nr = (s32)regs->orig_ax;
		ret->arg[0] = regs->di;
		ret->arg[1] = regs->si;
		ret->arg[2] = regs->dx;
		return;
	}
	regs = dlp_stack_regs(task);
	ret->nr = (s32)BPF_CORE_READ(regs, orig_ax);
	ret->arg[0] = BPF_CORE_READ(regs, di);
	ret->arg[1] = BPF_CORE_READ(regs, si);
	ret->arg[2] = BPF_CORE_READ(regs, dx);
}

/* Where its user code stands, or is to go on. */
static __always_inline u64 dlp_task_ip(struct task_struct *task)
{
	struct pt_regs *regs;

	if (dlp_cfg.has_pt_regs)
		return ((struct pt_regs *)bpf_task_pt_regs(task))->ip;
	regs = dlp_stack_regs(task);
	return BPF_CORE_READ(regs, ip);
}

/* The argument with this number at the entry of a C++ function that returns an object: see below. */
#define DLP_OBJECT_PARM2(ctx) PT_REGS_PARM2(ctx)
#define DLP_OBJECT_PARM3(ctx) PT_REGS_PARM3(ctx)
#define DLP_OBJECT_PARM4(ctx) PT_REGS_PARM4(ctx)
#define DLP_OBJECT_PARM5(ctx) PT_REGS_PARM5(ctx)

#elif defined(__TARGET_ARCH_arm64)

/* orig_x0: x0 holds the result before a program on the call's exit sees it. */
static __always_inline void dlp_task_call(struct task_struct *task, struct dlp_call *ret)
{
	struct pt_regs *regs;

	if (dlp_cfg.has_pt_regs) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		ret->nr = regs->syscallno;
		ret->arg[0] = regs->orig_x0;
		ret->arg[1] = regs->user_regs.regs[1];
		ret->arg[2] = regs->user_regs.regs[2];
		return;
	}
	regs = dlp_stack_regs(task);
	ret->nr = BPF_CORE_READ(regs, syscallno);
	ret->arg[0] = BPF_CORE_READ(regs, orig_x0);
	ret->arg[1] = BPF_CORE_READ(regs, user_regs.regs[1]);
	ret->arg[2] = BPF_CORE_READ(regs, user_regs.regs[2]);
}

static __always_inline u64 dlp_task_ip(struct task_struct *task)
{
	struct pt_regs *regs;

	if (dlp_cfg.has_pt_regs)
		return ((struct pt_regs *)bpf_task_pt_regs(task))->user_regs.pc;
	regs = dlp_stack_regs(task);
	return BPF_CORE_READ(regs, user_regs.pc);
}

/*
 * The numbers are those of x86-64, where the first argument is the place for the object; arm64 has
 * that place in a register of its own, x8.
 */
#define DLP_OBJECT_PARM2(ctx) PT_REGS_PARM1(ctx)
#define DLP_OBJECT_PARM3(ctx) PT_REGS_PARM2(ctx)
#define DLP_OBJECT_PARM4(ctx) PT_REGS_PARM3(ctx)
#define DLP_OBJECT_PARM5(ctx) PT_REGS_PARM4(ctx)

#endif

/* f3fa33acca9f ("block: remove the ->rq_disk field in struct request", v5.17) */
struct request___before_517 {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

/* Device number of a request, in the kernel's dev_t form (major << 20 | minor). */
static __always_inline u32 dlp_rq_dev(struct request *rq)
{
	struct request___before_517 *old = (void *)rq;
	struct gendisk *disk;

	if (bpf_core_field_exists(old->rq_disk))
		disk = BPF_CORE_READ(old, rq_disk);
	else
		disk = BPF_CORE_READ(rq, q, disk);
	if (!disk)
		return 0;
	return (u32)BPF_CORE_READ(disk, major) << 20 | (u32)BPF_CORE_READ(disk, first_minor);
}

#endif /* DLP_COMPAT_BPF_H */
