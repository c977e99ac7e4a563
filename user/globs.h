/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shell patterns (as fnmatch without flags, but for [:classes:]) made into what the BPF programs
 * match labels with: see struct dlp_glob and dlp_glob_match(). Pure.
 */
#ifndef DLP_GLOBS_H
#define DLP_GLOBS_H

#include "dlprof/config.h"

/*
 * Adds a pattern to those that match; zeroed = none does. 0; -EINVAL: it holds what is not
 * supported; -ENOSPC: all patterns together are too long. Then nothing has changed.
 */
int dlp_glob_add(struct dlp_glob *glob, const char *pattern);

#endif /* DLP_GLOBS_H */
