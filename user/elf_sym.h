/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Symbols of an ELF file by name or by the start of a name, and where they lie in the file.
 * Knows nothing of processes.
 */
#ifndef DLP_ELF_SYM_H
#define DLP_ELF_SYM_H

#include "elf_file.h"

enum dlp_elf_kind { DLP_ELF_FUNC, DLP_ELF_OBJECT };
enum dlp_elf_match { DLP_ELF_EXACT, DLP_ELF_PREFIX };
enum dlp_elf_table { DLP_ELF_DYNSYM, DLP_ELF_SYMTAB };

struct dlp_elf_sym {
	uint64_t addr;	 /* st_value */
	uint64_t size;	 /* st_size */
	uint64_t offset; /* in the file; UINT64_MAX for an object that is not in the file (.bss) */
	enum dlp_elf_table table;
	bool weak;
	char name[512]; /* cut */
};

/*
 * One defined symbol. Default versions go before old ones, non-weak before weak. Pieces that the
 * compiler splits off ("name.cold", "name.part.0") never match. 0, -ENOENT, -ENOTUNIQ (best
 * matches at different addresses), -EBADMSG.
 */
int dlp_elf_find_in(const struct dlp_elf *elf, enum dlp_elf_table table, enum dlp_elf_kind kind,
		    enum dlp_elf_match match, const char *name, struct dlp_elf_sym *ret);
/* The same in .dynsym, and when that has no match, in .symtab. */
int dlp_elf_find(const struct dlp_elf *elf, enum dlp_elf_kind kind, enum dlp_elf_match match,
		 const char *name, struct dlp_elf_sym *ret);

#endif /* DLP_ELF_SYM_H */
