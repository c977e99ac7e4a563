/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An ELF file as a source of bytes: its segments and where its symbol tables lie. The file is
 * untrusted, may be half a gigabyte and may change while it is read: everything goes through
 * bounded pread, nothing is mapped, and no table is held in memory. Own parsing, since libelf
 * needs section headers and whole string tables.
 */
#ifndef DLP_ELF_FILE_H
#define DLP_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One pread per so many bytes: few calls, and what is searched stays in the L2 cache. */
#define DLP_ELF_CHUNK_BYTES (64u * 1024)

/* Where a symbol table and its strings lie in the file; cnt 0 = there is none. */
struct dlp_elf_syms {
	uint64_t off, cnt;
	uint64_t str_off, str_bytes;
	uint64_t version_off; /* .gnu.version, 0 = none */
	uint64_t version_cnt;
};

struct dlp_elf {
	int fd;
	uint64_t bytes;
	uint16_t type, machine;
	Elf64_Phdr *phdr;
	size_t phdr_cnt;
	struct dlp_elf_syms dynsym, symtab;
	uint64_t rela_off, rela_bytes; /* DT_RELA */
	bool damaged;		       /* a table was refused: its bounds are wrong */
};

/*
 * 0, or -errno of open and read, -ENOEXEC (not ELF), -ENOTSUP (32-bit, foreign byte order, a
 * machine other than x86-64 and arm64, not something that is executed), -EBADMSG (damaged). `path` is followed through links.
 */
int dlp_elf_open(const char *path, struct dlp_elf **ret);
void dlp_elf_free(struct dlp_elf *elf);

static inline void dlp_cleanup_elf(struct dlp_elf **elf)
{
	dlp_elf_free(*elf);
}

#define _cleanup_elf_ __attribute__((cleanup(dlp_cleanup_elf)))

/* Whether offset and length lie in the file. */
bool dlp_elf_in_file(const struct dlp_elf *elf, uint64_t off, uint64_t bytes);
/* All bytes or -EBADMSG (not in the file), or -errno. */
int dlp_elf_read(const struct dlp_elf *elf, uint64_t off, void *buf, size_t bytes);
/* The loaded segment that holds this address in its file part and has all of `flags` (PF_*). */
const Elf64_Phdr *dlp_elf_segment(const struct dlp_elf *elf, uint64_t addr, uint32_t flags);
/* Virtual address to file offset through that segment; 0 or -EBADMSG. */
int dlp_elf_addr_to_off(const struct dlp_elf *elf, uint64_t addr, uint32_t flags, uint64_t *ret);
/* Bytes at a virtual address, all of them or -EBADMSG, or -errno. */
int dlp_elf_read_addr(const struct dlp_elf *elf, uint64_t addr, void *buf, size_t bytes);
/*
 * File offsets of every occurrence of a byte string in a range. 0, -ENOTUNIQ (more than `max`),
 * or as dlp_elf_read.
 */
int dlp_elf_scan(const struct dlp_elf *elf, uint64_t off, uint64_t bytes, const void *needle,
		 size_t needle_bytes, uint64_t *ret, size_t max, size_t *ret_cnt);

/*
 * Tells `fn` of every relocation of DT_RELA that puts an address of this file into a word of it.
 * 0, what fn returned other than 0, or as dlp_elf_read.
 */
typedef int (*dlp_elf_rela_fn)(void *ctx, const Elf64_Rela *rela);
int dlp_elf_each_relative(const struct dlp_elf *elf, dlp_elf_rela_fn fn, void *ctx);

#endif /* DLP_ELF_FILE_H */
