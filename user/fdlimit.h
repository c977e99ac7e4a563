/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many files this process may have open (RLIMIT_NOFILE): an observation has a descriptor for
 * every probe, program, map and CPU, and what it cannot open in the end is its own summary.
 */
#ifndef DLP_FDLIMIT_H
#define DLP_FDLIMIT_H

#include <stddef.h>

/* Raises the limit as far as it may be raised; the first call remembers what it was. */
void dlp_fdlimit_raise(void);
/* What was given to us, for a command that we start. */
void dlp_fdlimit_restore(void);
/*
 * Whether another observation has room beside what is open now: 0, or -EMFILE with one line for
 * people in `error`.
 */
int dlp_fdlimit_check(char *error, size_t error_size);

#endif /* DLP_FDLIMIT_H */
