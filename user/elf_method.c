/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_method.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

/* struct PyMethodDef of every 64-bit CPython: ml_name, ml_meth, int ml_flags, ml_doc */
#define ENTRY_BYTES 32
#define METH_OFF 8
#define FLAGS_OFF 16

/* A Python executable with all modules built in has 30 MB; a sparse file claims any size. */
#define SEARCH_BYTES_MAX (512ull << 20)
/* "loads" is the tail of few longer strings, since linkers merge equal ends. */
#define STRINGS_MAX 64
/* Table entries of that name: pickle, marshal, json (a Python module, so none) and others' */
#define ENTRIES_MAX 64

struct entry {
	uint64_t addr;
	/* as the file has them, then as relocated */
	uint64_t previous, meth;
};

struct search {
	const struct dlp_elf *elf;
	uint64_t meth_off; /* of the function in an entry */
	uint64_t string[STRINGS_MAX]; /* virtual addresses of the name */
	size_t string_cnt;
	struct entry entry[ENTRIES_MAX];
	size_t entry_cnt;
};

static bool is_string(const struct search *search, uint64_t addr)
{
	for (size_t i = 0; i < search->string_cnt; i++) {
		if (search->string[i] == addr)
			return true;
	}
	return false;
}

static int add_entry(struct search *search, uint64_t addr)
{
	for (size_t i = 0; i < search->entry_cnt; i++) {
		if (search->entry[i].addr == addr)
			return 0;
	}
	if (search->entry_cnt == ENTRIES_MAX)
		return -ENOTUNIQ;
	search->entry[search->entry_cnt++] = (struct entry){ .addr = addr };
	return 0;
}

static bool searchable(const struct dlp_elf *elf, const Elf64_Phdr *phdr, uint32_t flags)
{
	return phdr->p_type == PT_LOAD && (phdr->p_flags & flags) == flags &&
	       phdr->p_filesz <= SEARCH_BYTES_MAX &&
	       dlp_elf_in_file(elf, phdr->p_offset, phdr->p_filesz);
}

static int find_strings(struct search *search, const char *name)
{
	const struct dlp_elf *elf = search->elf;

	for (size_t i = 0; i < elf->phdr_cnt; i++) {
		const Elf64_Phdr *phdr = &elf->phdr[i];
		uint64_t *at = search->string + search->string_cnt;
		size_t cnt;
		int err;

		if (!searchable(elf, phdr, PF_R))
			continue;
		err = dlp_elf_scan(elf, phdr->p_offset, phdr->p_filesz, name, strlen(name) + 1, at,
				   STRINGS_MAX - search->string_cnt, &cnt);
		if (err)
			return err;
		for (size_t j = 0; j < cnt; j++)
			at[j] = at[j] - phdr->p_offset + phdr->p_vaddr;
		search->string_cnt += cnt;
	}
	return search->string_cnt ? 0 : -ENOENT;
}

/*
 * Pointers as they stand in the file: executables that are not relocated, and DT_RELR, whose
 * addends stand in place.
 */
static int find_entries_in_words(struct search *search)
{
	const struct dlp_elf *elf = search->elf;
	_cleanup_free_ uint64_t *chunk = malloc(DLP_ELF_CHUNK_BYTES);

	if (!chunk)
		return -ENOMEM;
	for (size_t i = 0; i < elf->phdr_cnt; i++) {
		const Elf64_Phdr *phdr = &elf->phdr[i];
		uint64_t done = -phdr->p_vaddr & 7;

		if (!searchable(elf, phdr, PF_R | PF_W))
			continue;
		while (done + 8 <= phdr->p_filesz) {
			uint64_t left = phdr->p_filesz - done;
			size_t len = left < DLP_ELF_CHUNK_BYTES ? left & ~7ull :
								  DLP_ELF_CHUNK_BYTES;
			int err;

			err = dlp_elf_read(elf, phdr->p_offset + done, chunk, len);
			for (size_t j = 0; j < len / 8 && !err; j++) {
				if (chunk[j] && is_string(search, chunk[j]))
					err = add_entry(search, phdr->p_vaddr + done + j * 8);
			}
			if (err)
				return err;
			done += len;
		}
	}
	return 0;
}

static int add_relocated_entry(void *ctx, const Elf64_Rela *rela)
{
	struct search *search = ctx;

	return is_string(search, (uint64_t)rela->r_addend) ? add_entry(search, rela->r_offset) : 0;
}

static int relocate_entry(void *ctx, const Elf64_Rela *rela)
{
	struct search *search = ctx;

	for (size_t i = 0; i < search->entry_cnt; i++) {
		struct entry *entry = &search->entry[i];

		if (rela->r_offset == entry->addr + search->meth_off)
			entry->meth = (uint64_t)rela->r_addend;
		else if (rela->r_offset == entry->addr - ENTRY_BYTES)
			entry->previous = (uint64_t)rela->r_addend;
	}
	return 0;
}

static bool has_text(const struct dlp_elf *elf, uint64_t addr, const char *text)
{
	char buf[64];
	size_t bytes = strlen(text) + 1;

	return bytes <= sizeof(buf) && !dlp_elf_read_addr(elf, addr, buf, bytes) &&
	       !memcmp(buf, text, bytes);
}

static int pick_entry(const struct search *search, const struct dlp_elf_method *method,
		      uint64_t *ret)
{
	bool found = false;

	for (size_t i = 0; i < search->entry_cnt; i++) {
		const struct entry *entry = &search->entry[i];
		uint32_t flags;

		if (dlp_elf_read_addr(search->elf, entry->addr + FLAGS_OFF, &flags,
				      sizeof(flags)) ||
		    flags != method->flags || !dlp_elf_segment(search->elf, entry->meth, PF_X) ||
		    !has_text(search->elf, entry->previous, method->previous))
			continue;
		if (found && *ret != entry->meth)
			return -ENOTUNIQ;
		*ret = entry->meth;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

/* Every place that points to the name, taken for the beginning of a table's entry. */
static int find_named(struct search *search, const char *name)
{
	const struct dlp_elf *elf = search->elf;
	int err;

	err = find_strings(search, name);
	if (!err)
		err = find_entries_in_words(search);
	if (!err)
		err = dlp_elf_each_relative(elf, add_relocated_entry, search);
	if (err)
		return err;
	for (size_t i = 0; i < search->entry_cnt; i++) {
		struct entry *entry = &search->entry[i];

		/* unreadable: stays 0, which no entry that counts has */
		(void)dlp_elf_read_addr(elf, entry->addr + search->meth_off, &entry->meth, 8);
		(void)dlp_elf_read_addr(elf, entry->addr - ENTRY_BYTES, &entry->previous, 8);
	}
	return dlp_elf_each_relative(elf, relocate_entry, search);
}

static int fill(const struct dlp_elf *elf, uint64_t addr, const char *name, const char *table,
		struct dlp_elf_sym *ret)
{
	*ret = (struct dlp_elf_sym){ .addr = addr, .table = DLP_ELF_SYMTAB };
	(void)snprintf(ret->name, sizeof(ret->name), "%s (%s)", name, table);
	return dlp_elf_addr_to_off(elf, addr, PF_X, &ret->offset);
}

int dlp_elf_find_method(const struct dlp_elf *elf, const struct dlp_elf_method *method,
			struct dlp_elf_sym *ret)
{
	_cleanup_free_ struct search *search = calloc(1, sizeof(*search));
	uint64_t addr = 0;
	int err;

	if (!search)
		return -ENOMEM;
	search->elf = elf;
	search->meth_off = METH_OFF;
	err = find_named(search, method->name);
	if (!err)
		err = pick_entry(search, method, &addr);
	return err ? err : fill(elf, addr, method->name, "method table", ret);
}

/*
 * slotdefs: struct wrapperbase { name, int offset, function, ... } (Include/cpython/descrobject.h),
 * offset being that of tp_iternext in PyTypeObject, the same in CPython 3.8 to 3.14.
 */
#define SLOT_OFFSET_OFF 8
#define SLOT_FUNCTION_OFF 16
#define TP_ITERNEXT_OFFSET 224

static int pick_slot(const struct search *search, uint64_t *ret)
{
	bool found = false;

	for (size_t i = 0; i < search->entry_cnt; i++) {
		const struct entry *entry = &search->entry[i];
		uint32_t offset;

		if (dlp_elf_read_addr(search->elf, entry->addr + SLOT_OFFSET_OFF, &offset,
				      sizeof(offset)) ||
		    offset != TP_ITERNEXT_OFFSET ||
		    !dlp_elf_segment(search->elf, entry->meth, PF_X))
			continue;
		if (found && *ret != entry->meth)
			return -ENOTUNIQ;
		*ret = entry->meth;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

int dlp_elf_find_next_slot(const struct dlp_elf *elf, struct dlp_elf_sym *ret)
{
	_cleanup_free_ struct search *search = NULL;
	uint64_t addr = 0;
	int err;

	err = dlp_elf_find_in(elf, DLP_ELF_SYMTAB, DLP_ELF_FUNC, DLP_ELF_EXACT, "slot_tp_iternext",
			      ret);
	if (!err)
		return 0;
	search = calloc(1, sizeof(*search));
	if (!search)
		return -ENOMEM;
	search->elf = elf;
	search->meth_off = SLOT_FUNCTION_OFF;
	err = find_named(search, "__next__");
	if (!err)
		err = pick_slot(search, &addr);
	return err ? err : fill(elf, addr, "__next__", "slot table", ret);
}

int dlp_elf_find_pickle_loads(const struct dlp_elf *elf, struct dlp_elf_sym *ret)
{
	/*
	 * The order in _pickle.c is dump, dumps, load, loads; marshal's table, in the same file
	 * when both are built in, has dump, load, dumps, loads, from 3.13 on with the same flags.
	 */
	static const struct dlp_elf_method loads = {
		.name = "loads",
		.flags = DLP_METH_FASTCALL_KEYWORDS,
		.previous = "load",
	};
	int err;

	err = dlp_elf_find_in(elf, DLP_ELF_SYMTAB, DLP_ELF_FUNC, DLP_ELF_EXACT, "_pickle_loads",
			      ret);
	if (!err)
		return 0;
	return dlp_elf_find_method(elf, &loads, ret);
}
