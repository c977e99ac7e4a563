/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of a CPython that run only while it collects garbage: the collector itself, the
 * tp_traverse of each type, and what these two call for each object. Knows nothing of processes.
 */
#ifndef DLP_ELF_GC_H
#define DLP_ELF_GC_H

#include "dlprof/config.h"
#include "elf_file.h"

/*
 * By their names in .symtab; in a stripped file from PyGC_Collect and the exported types, by what
 * their code does. 0; -ENOENT: the collector was not found; -ENOTSUP; -EBADMSG; or as dlp_elf_read.
 */
int dlp_elf_find_gc(const struct dlp_elf *elf, struct dlp_gc_code *ret);

#endif /* DLP_ELF_GC_H */
