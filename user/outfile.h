/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that the user asked for. */
#ifndef DLP_OUTFILE_H
#define DLP_OUTFILE_H

#include <stdio.h>

/*
 * Opens a file for writing, a new one for the user who called sudo; one that was there keeps its
 * owner, as with a shell's ">". "-" is stdout. 0 or -errno.
 */
int dlp_outfile_open(const char *path, FILE **ret);
/* Flushes and closes (stdout: only flushes). 0, or the -errno of any write that failed. */
int dlp_outfile_close(FILE *file);

#endif /* DLP_OUTFILE_H */
