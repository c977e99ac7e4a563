/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How the running kernel differs from others, told by its own type information; libbpf's words. */
#ifndef DLP_KERNEL_H
#define DLP_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct dlp_kernel_facts {
	int sched_switch_args; /* 0 = no such tracepoint */
	int rq_issue_args;
	bool block_io; /* tracepoint block_io_start */
	bool pt_regs; /* helper bpf_task_pt_regs */
	bool task_btf; /* helper bpf_get_current_task_btf */
};

/*
 * The pid namespace of this process by its inode: 0 = the kernel's own first one, or it can't be
 * told.
 */
uint32_t dlp_kernel_pid_ns(const char *root);

/* 0, or -errno when the kernel has no type information. */
int dlp_kernel_facts(struct dlp_kernel_facts *ret);

/*
 * The number by which a tracepoint ("raw_syscalls/sys_exit") is attached to, as tracefs says it: the
 * one mounted below `root`, or for the machine itself ("") one of our own. 0, or -errno where it may
 * not be read.
 */
int dlp_kernel_tracepoint(const char *root, const char *name, uint64_t *ret);

/* May this process load BPF programs of the kinds we need? Tries with an empty one. */
bool dlp_kernel_permits(void);

/* From here on libbpf says nothing by itself, unless DLPROF_DEBUG is set. */
void dlp_kernel_quiet_libbpf(void);

/* What gives the right to that, as a part of a sentence. */
#define DLP_KERNEL_PERMISSION                                                                      \
	"run as root (sudo), in the host's own user namespace, or give the program CAP_BPF, "      \
	"CAP_PERFMON and CAP_SYS_ADMIN (setcap)"

#endif /* DLP_KERNEL_H */
