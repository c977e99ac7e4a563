/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each system call of this architecture can block on, for the BPF programs, and their
 * names, for people.
 */
#ifndef DLP_SYSCALLS_H
#define DLP_SYSCALLS_H

#include "dlprof/config.h"

/* Fills cfg's syscall_class, nr_read and nr_write. */
void dlp_syscalls_configure(struct dlp_config *cfg);
/* "read", ...; "" for calls not in the table, "page fault" for negative numbers. */
const char *dlp_syscall_name(int number);

#endif /* DLP_SYSCALLS_H */
