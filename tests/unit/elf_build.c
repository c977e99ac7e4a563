/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One more with .eh_frame_hdr. */
#define PHDR_CNT 5
#define FILE_BYTES 0x20000u

struct layout {
	size_t at; /* next free byte of the first segment, later of the rest */
	size_t dynsym, dynstr, dynstr_bytes, dyn_cnt;
	size_t symtab, strtab, strtab_bytes, sym_cnt;
	size_t versym, hash, rela;
};

static size_t place(struct elf_build *build, struct layout *layout, const void *data, size_t bytes)
{
	size_t at = (layout->at + 7) & ~(size_t)7;

	if (at + bytes > FILE_BYTES)
		abort();
	if (bytes)
		memcpy(build->bytes + at, data, bytes);
	layout->at = at + bytes;
	return at;
}

static uint64_t sym_value(const struct elf_build_sym *sym)
{
	switch (sym->where) {
	case ELF_IN_TEXT:
		return ELF_TEXT + sym->off;
	case ELF_IN_DATA:
		return ELF_DATA + sym->off;
	case ELF_IN_BSS:
		return ELF_DATA + ELF_PART_BYTES + sym->off;
	case ELF_UNDEFINED:
		break;
	}
	return 0;
}

static void place_symbols(struct elf_build *build, struct layout *layout, bool is_dynamic)
{
	static Elf64_Sym syms[256];
	static uint16_t versions[256];
	static char strings[65536];
	size_t cnt = 1, bytes = 1, syms_at, strings_at;

	memset(syms, 0, sizeof(syms));
	memset(strings, 0, sizeof(strings));
	memset(versions, 0, sizeof(versions));
	for (size_t i = 0; i < build->sym_cnt; i++) {
		const struct elf_build_sym *sym = &build->sym[i];

		if (sym->is_dynamic != is_dynamic)
			continue;
		syms[cnt].st_name = (uint32_t)bytes;
		syms[cnt].st_info = ELF64_ST_INFO(sym->bind, sym->type);
		syms[cnt].st_shndx = sym->where == ELF_UNDEFINED ? SHN_UNDEF : 1;
		syms[cnt].st_value = sym_value(sym);
		syms[cnt].st_size = sym->size;
		versions[cnt++] = sym->version;
		strcpy(strings + bytes, sym->name);
		bytes += strlen(sym->name) + 1;
	}
	syms_at = place(build, layout, syms, cnt * sizeof(syms[0]));
	strings_at = place(build, layout, strings, bytes);
	if (!is_dynamic) {
		layout->symtab = syms_at;
		layout->sym_cnt = cnt;
		layout->strtab = strings_at;
		layout->strtab_bytes = bytes;
		return;
	}
	layout->dynsym = syms_at;
	layout->dyn_cnt = cnt;
	layout->dynstr = strings_at;
	layout->dynstr_bytes = bytes;
	layout->versym = place(build, layout, versions, cnt * sizeof(versions[0]));
}

static void place_hash(struct elf_build *build, struct layout *layout)
{
	uint32_t word[300] = { 0 };
	size_t cnt = layout->dyn_cnt;

	if (build->has_sysv_hash) {
		word[0] = 1;
		word[1] = (uint32_t)cnt;
		layout->hash = place(build, layout, word, (3 + cnt) * 4);
	} else {
		/* one bucket, all symbols but the first hashed, one bloom word; the chain */
		word[0] = 1;
		word[1] = 1;
		word[2] = 1;
		word[6] = cnt > 1 ? 1 : 0;
		for (size_t i = 1; i < cnt; i++)
			word[6 + i] = (uint32_t)(i * 2) | (i + 1 == cnt);
		layout->hash = place(build, layout, word, (7 + cnt) * 4);
	}
	build->hash_off = layout->hash;
}

static void place_dynamic(struct elf_build *build, struct layout *layout)
{
	Elf64_Dyn dyn[16] = { 0 };
	size_t cnt = 0;

	dyn[cnt++] = (Elf64_Dyn){ DT_SYMTAB, { ELF_BASE + layout->dynsym } };
	dyn[cnt++] = (Elf64_Dyn){ DT_STRTAB, { ELF_BASE + layout->dynstr } };
	dyn[cnt++] = (Elf64_Dyn){ DT_STRSZ, { layout->dynstr_bytes } };
	dyn[cnt++] = (Elf64_Dyn){ DT_SYMENT, { sizeof(Elf64_Sym) } };
	dyn[cnt++] = (Elf64_Dyn){ build->has_sysv_hash ? DT_HASH : DT_GNU_HASH,
				  { ELF_BASE + layout->hash } };
	if (build->has_versions)
		dyn[cnt++] = (Elf64_Dyn){ DT_VERSYM, { ELF_BASE + layout->versym } };
	if (build->rela_cnt) {
		dyn[cnt++] = (Elf64_Dyn){ DT_RELA, { ELF_BASE + layout->rela } };
		dyn[cnt++] = (Elf64_Dyn){ DT_RELASZ, { build->rela_cnt * sizeof(Elf64_Rela) } };
	}
	cnt++;
	build->dynamic_off = place(build, layout, dyn, cnt * sizeof(dyn[0]));
	elf_build_phdr(build)[4] = (Elf64_Phdr){
		.p_type = PT_DYNAMIC,
		.p_flags = PF_R,
		.p_offset = build->dynamic_off,
		.p_vaddr = ELF_BASE + build->dynamic_off,
		.p_filesz = cnt * sizeof(dyn[0]),
		.p_memsz = cnt * sizeof(dyn[0]),
	};
}

static Elf64_Shdr section(uint32_t type, size_t off, size_t bytes, uint32_t link, size_t entry)
{
	return (Elf64_Shdr){ .sh_type = type,
			     .sh_offset = off,
			     .sh_size = bytes,
			     .sh_link = link,
			     .sh_entsize = entry };
}

static void place_sections(struct elf_build *build, struct layout *layout)
{
	Elf64_Shdr shdr[ELF_SH_CNT] = { 0 };
	const size_t entry = sizeof(Elf64_Sym);

	shdr[ELF_SH_DYNSYM] =
		section(SHT_DYNSYM, layout->dynsym, layout->dyn_cnt * entry, ELF_SH_DYNSTR, entry);
	shdr[ELF_SH_DYNSTR] = section(SHT_STRTAB, layout->dynstr, layout->dynstr_bytes, 0, 0);
	/* a stripped file has no .symtab: as for a table without symbols */
	if (layout->sym_cnt > 1) {
		shdr[ELF_SH_SYMTAB] = section(SHT_SYMTAB, layout->symtab, layout->sym_cnt * entry,
					      ELF_SH_STRTAB, entry);
		shdr[ELF_SH_STRTAB] =
			section(SHT_STRTAB, layout->strtab, layout->strtab_bytes, 0, 0);
	}
	if (build->has_versions)
		shdr[ELF_SH_VERSYM] = section(SHT_GNU_versym, layout->versym, layout->dyn_cnt * 2,
					      ELF_SH_DYNSYM, 2);
	build->shdr_off = place(build, layout, shdr, sizeof(shdr));
	elf_build_ehdr(build)->e_shoff = build->shdr_off;
	elf_build_ehdr(build)->e_shnum = ELF_SH_CNT;
	elf_build_ehdr(build)->e_shentsize = sizeof(Elf64_Shdr);
}

static Elf64_Phdr load(uint32_t flags, uint64_t off, uint64_t addr, uint64_t bytes, uint64_t extra)
{
	return (Elf64_Phdr){ .p_type = PT_LOAD,
			     .p_flags = flags,
			     .p_offset = off,
			     .p_vaddr = addr,
			     .p_filesz = bytes,
			     .p_memsz = bytes + extra,
			     .p_align = 0x1000 };
}

/* At the end of the rodata: version 1, pcrel|sdata4, udata4, datarel|sdata4, then the table. */
static void place_frames(struct elf_build *build)
{
	const int32_t head[3] = { 0x3b031b01, 0, (int32_t)build->start_cnt };
	size_t bytes = sizeof(head) + build->start_cnt * 8, off = ELF_PART_BYTES - bytes;
	uint64_t addr = ELF_RODATA + off;

	memcpy(build->rodata + off, head, sizeof(head));
	for (size_t i = 0; i < build->start_cnt; i++) {
		const int32_t entry[2] = { (int32_t)(ELF_TEXT + build->start[i] - addr), 0 };

		memcpy(build->rodata + off + sizeof(head) + i * 8, entry, sizeof(entry));
	}
	build->frame_off = ELF_RODATA_OFF + off;
	elf_build_phdr(build)[PHDR_CNT] = (Elf64_Phdr){
		.p_type = PT_GNU_EH_FRAME,
		.p_flags = PF_R,
		.p_offset = build->frame_off,
		.p_vaddr = addr,
		.p_filesz = bytes,
		.p_memsz = bytes,
	};
}

void elf_build(struct elf_build *build)
{
	size_t phdr_cnt = PHDR_CNT + (build->start_cnt > 0);
	struct layout layout = { .at = sizeof(Elf64_Ehdr) + phdr_cnt * sizeof(Elf64_Phdr) };
	Elf64_Phdr *phdr;

	build->bytes = calloc(1, FILE_BYTES);
	if (!build->bytes)
		abort();
	*elf_build_ehdr(build) = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = build->type ? build->type : ET_DYN,
		.e_machine = build->machine ? build->machine : DLP_ARCH_MACHINE,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_phnum = (uint16_t)phdr_cnt,
		.e_phentsize = sizeof(Elf64_Phdr),
	};
	phdr = elf_build_phdr(build);
	phdr[0] = load(PF_R, 0, ELF_BASE, ELF_TEXT_OFF, 0);
	phdr[1] = load(PF_R | PF_X, ELF_TEXT_OFF, ELF_TEXT, ELF_PART_BYTES, 0);
	phdr[2] = load(PF_R | PF_W, ELF_DATA_OFF, ELF_DATA, ELF_PART_BYTES, 0x1000);
	phdr[3] = load(PF_R, ELF_RODATA_OFF, ELF_RODATA, ELF_PART_BYTES, 0);
	if (build->start_cnt)
		place_frames(build);
	place_symbols(build, &layout, true);
	place_hash(build, &layout);
	layout.rela = place(build, &layout, build->rela, build->rela_cnt * sizeof(build->rela[0]));
	place_dynamic(build, &layout);
	if (layout.at > ELF_TEXT_OFF)
		abort();
	memcpy(build->bytes + ELF_TEXT_OFF, build->text, ELF_PART_BYTES);
	memcpy(build->bytes + ELF_DATA_OFF, build->data, ELF_PART_BYTES);
	memcpy(build->bytes + ELF_RODATA_OFF, build->rodata, ELF_PART_BYTES);
	layout.at = ELF_RODATA_OFF + ELF_PART_BYTES;
	place_symbols(build, &layout, false);
	if (!build->has_no_sections)
		place_sections(build, &layout);
	build->len = layout.at;
}

void elf_build_write(const struct elf_build *build, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(build->bytes, 1, build->len, file) != build->len || fclose(file))
		abort();
}

void elf_build_fini(struct elf_build *build)
{
	free(build->bytes);
	build->bytes = NULL;
}

Elf64_Ehdr *elf_build_ehdr(struct elf_build *build)
{
	return (Elf64_Ehdr *)build->bytes;
}

Elf64_Phdr *elf_build_phdr(struct elf_build *build)
{
	return (Elf64_Phdr *)(build->bytes + sizeof(Elf64_Ehdr));
}

Elf64_Shdr *elf_build_shdr(struct elf_build *build, int index)
{
	return (Elf64_Shdr *)(build->bytes + build->shdr_off) + index;
}

Elf64_Dyn *elf_build_dyn(struct elf_build *build, int64_t tag)
{
	Elf64_Dyn *dyn = (Elf64_Dyn *)(build->bytes + build->dynamic_off);

	while (dyn->d_tag != tag && dyn->d_tag != DT_NULL)
		dyn++;
	return dyn;
}
