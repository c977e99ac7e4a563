/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writing the seeds of the fuzz targets; make_seeds.c has those of all targets but replay. */
#ifndef DLP_MAKE_CORPUS_H
#define DLP_MAKE_CORPUS_H

#include <stddef.h>

/* Writes TARGET/NAME below the folder of corpora, or ends the program. */
void corpus_save(const char *target, const char *name, const void *data, size_t bytes);

void make_elf_seeds(void);
void make_text_seeds(void);
void make_word_seeds(void); /* cli and msg */
void make_event_seeds(void);

#endif /* DLP_MAKE_CORPUS_H */
