/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes small ELF files whose every address and offset the test chose, so that there is a truth
 * to compare with. Addresses are never equal to file offsets.
 */
#ifndef ELF_BUILD_H
#define ELF_BUILD_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch.h"

#define ELF_RELATIVE (DLP_ARCH_MACHINE == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE)

/* Segments: headers and tables, code, data. The code's file offset is ELF_TEXT_OFF. */
#define ELF_BASE 0x10000ull
#define ELF_TEXT_OFF 0x8000ull
#define ELF_TEXT 0x400000ull
#define ELF_DATA_OFF 0xa000ull
#define ELF_DATA 0x600000ull
#define ELF_PART_BYTES 0x2000ull
#define ELF_RODATA 0x700000ull
#define ELF_RODATA_OFF 0xc000ull

enum elf_where { ELF_IN_TEXT, ELF_IN_DATA, ELF_IN_BSS, ELF_UNDEFINED };

struct elf_build_sym {
	const char *name;
	enum elf_where where;
	uint64_t off; /* in that part */
	uint64_t size;
	uint8_t bind;	  /* STB_* */
	uint8_t type;	  /* STT_* */
	uint16_t version; /* .gnu.version, 0x8000 = hidden; only .dynsym */
	bool is_dynamic;  /* in .dynsym, else in .symtab */
};

struct elf_build {
	const struct elf_build_sym *sym;
	size_t sym_cnt;
	uint8_t text[ELF_PART_BYTES], data[ELF_PART_BYTES], rodata[ELF_PART_BYTES];
	Elf64_Rela rela[64];
	size_t rela_cnt;
	/* beginnings of functions in the text, for .eh_frame_hdr in the rodata; 0 = there is none */
	uint32_t start[32];
	size_t start_cnt;
	uint16_t type;	      /* 0 = ET_DYN */
	uint16_t machine;     /* 0 = this one */
	bool has_no_sections; /* as sstrip leaves it */
	bool has_sysv_hash;   /* DT_HASH, else DT_GNU_HASH */
	bool has_versions;
	/* made */
	uint8_t *bytes;
	size_t len;
	size_t shdr_off; /* section headers, ELF_SH_* gives the order */
	size_t dynamic_off;
	size_t hash_off;
	size_t frame_off; /* of .eh_frame_hdr */
};

enum {
	ELF_SH_NULL,
	ELF_SH_DYNSYM,
	ELF_SH_DYNSTR,
	ELF_SH_SYMTAB,
	ELF_SH_STRTAB,
	ELF_SH_VERSYM,
	ELF_SH_CNT
};

/* Fills bytes and len; free with elf_build_fini. */
void elf_build(struct elf_build *build);
void elf_build_write(const struct elf_build *build, const char *path);
void elf_build_fini(struct elf_build *build);

Elf64_Ehdr *elf_build_ehdr(struct elf_build *build);
Elf64_Phdr *elf_build_phdr(struct elf_build *build);
Elf64_Shdr *elf_build_shdr(struct elf_build *build, int index);
/* The dynamic entry with that tag. */
Elf64_Dyn *elf_build_dyn(struct elf_build *build, int64_t tag);

#endif /* ELF_BUILD_H */
