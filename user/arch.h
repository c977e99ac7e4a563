/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All that differs by the processor this program is built for; the BPF side's is in
 * bpf/compat.bpf.h. What can be told from a file's own machine is told while running instead.
 */
#ifndef DLP_ARCH_H
#define DLP_ARCH_H

#include <elf.h>

#if defined(__x86_64__)

#define DLP_ARCH_MACHINE EM_X86_64
/* system calls that newer machines never had: each is there under a newer name */
#define DLP_ARCH_OLD_CALLS(call)                                                                   \
	call(poll, POLL), call(select, SELECT), call(epoll_wait, EPOLL), call(pause, SLEEP),       \
		call(open, PATH), call(creat, PATH), call(stat, PATH), call(lstat, PATH),          \
		call(access, PATH), call(readlink, PATH), call(mkdir, PATH), call(rmdir, PATH),    \
		call(unlink, PATH), call(rename, PATH), call(getdents, FD),
/* what poll() and pause() of the C library end in */
#define DLP_ARCH_SYS_POLL SYS_poll
#define DLP_ARCH_SYS_PAUSE SYS_pause

#elif defined(__aarch64__)

#define DLP_ARCH_MACHINE EM_AARCH64
#define DLP_ARCH_OLD_CALLS(call)
#define DLP_ARCH_SYS_POLL SYS_ppoll
#define DLP_ARCH_SYS_PAUSE SYS_ppoll

#else
#error "only x86-64 and arm64"
#endif

#endif /* DLP_ARCH_H */
