/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What machine code tells without symbols: where functions begin (.eh_frame_hdr), which ones a
 * function calls, and whose addresses it takes. Knows nothing of processes.
 */
#ifndef DLP_ELF_CODE_H
#define DLP_ELF_CODE_H

#include "elf_file.h"

/* The beginnings of all functions, as virtual addresses in ascending order. */
struct dlp_elf_starts {
	uint64_t *addr;
	size_t cnt;
};

/* 0; -ENOENT: the file has no such table; -EBADMSG. Freed by dlp_elf_starts_fini. */
int dlp_elf_starts_read(const struct dlp_elf *elf, struct dlp_elf_starts *ret);
void dlp_elf_starts_fini(struct dlp_elf_starts *starts);
bool dlp_elf_is_start(const struct dlp_elf_starts *starts, uint64_t addr);
/*
 * Bytes up to the next function's beginning: at least the function's own, padding included. 0: no
 * function begins here.
 */
uint64_t dlp_elf_room(const struct dlp_elf *elf, const struct dlp_elf_starts *starts,
		      uint64_t addr);

enum dlp_elf_ref {
	DLP_ELF_CALL,	 /* calls that function */
	DLP_ELF_ADDRESS, /* takes its address */
	DLP_ELF_FIELD,	 /* reads or calls through the field at the asked for offset */
};

typedef void (*dlp_elf_ref_fn)(void *ctx, enum dlp_elf_ref ref, uint64_t target);

struct dlp_elf_question {
	uint64_t bytes_max; /* larger functions are not looked at */
	uint32_t field;	    /* offset in what a register points to */
	bool own; /* of all functions only the function itself is looked for: much faster */
};

/*
 * Goes through the code of the function at `addr` and tells of every reference to the beginning of a
 * function, and of every access to the field (target 0). Not a disassembler: instructions are
 * recognised at any byte, and a chance hit on the exact beginning of a function is as good as
 * impossible. 0; -ENOENT: no function begins here; -EFBIG; or as dlp_elf_read.
 */
int dlp_elf_refs(const struct dlp_elf *elf, const struct dlp_elf_starts *starts, uint64_t addr,
		 const struct dlp_elf_question *question, dlp_elf_ref_fn fn, void *ctx);

#endif /* DLP_ELF_CODE_H */
