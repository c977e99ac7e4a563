/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ELF structures are read as they are");

/* A sparse file can claim any size at no cost; the largest string table seen is 130 MB. */
#define TABLE_BYTES_MAX (1ull << 30)
/* Linkers make about ten, the kernel's loader refuses more than 64 KiB of them. */
#define PHDR_MAX 1024
/* Shared objects have about 40; objects with a section per function don't occur here. */
#define SHDR_MAX 16384
/* Entries of PT_DYNAMIC: about 40 are usual. */
#define DYN_MAX 1024
/* Symbols in one bucket of DT_GNU_HASH: linkers aim at about four. */
#define HASH_CHAIN_MAX 65536

bool dlp_elf_in_file(const struct dlp_elf *elf, uint64_t off, uint64_t bytes)
{
	return off <= elf->bytes && bytes <= elf->bytes - off;
}

int dlp_elf_read(const struct dlp_elf *elf, uint64_t off, void *buf, size_t bytes)
{
	char *at = buf;

	if (!dlp_elf_in_file(elf, off, bytes))
		return -EBADMSG;
	while (bytes) {
		ssize_t got = pread(elf->fd, at, bytes, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		/* cut short since it was opened */
		if (!got)
			return -EBADMSG;
		at += got;
		off += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return 0;
}

const Elf64_Phdr *dlp_elf_segment(const struct dlp_elf *elf, uint64_t addr, uint32_t flags)
{
	for (size_t i = 0; i < elf->phdr_cnt; i++) {
		const Elf64_Phdr *phdr = &elf->phdr[i];

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & flags) == flags &&
		    addr >= phdr->p_vaddr && addr - phdr->p_vaddr < phdr->p_filesz)
			return phdr;
	}
	return NULL;
}

int dlp_elf_addr_to_off(const struct dlp_elf *elf, uint64_t addr, uint32_t flags, uint64_t *ret)
{
	const Elf64_Phdr *phdr = dlp_elf_segment(elf, addr, flags);
	uint64_t off;

	if (!phdr || __builtin_add_overflow(addr - phdr->p_vaddr, phdr->p_offset, &off) ||
	    !dlp_elf_in_file(elf, off, 1))
		return -EBADMSG;
	*ret = off;
	return 0;
}

int dlp_elf_read_addr(const struct dlp_elf *elf, uint64_t addr, void *buf, size_t bytes)
{
	const Elf64_Phdr *phdr = dlp_elf_segment(elf, addr, 0);
	uint64_t off;
	int err;

	if (!phdr || bytes > phdr->p_filesz - (addr - phdr->p_vaddr))
		return -EBADMSG;
	err = dlp_elf_addr_to_off(elf, addr, 0, &off);
	if (err)
		return err;
	return dlp_elf_read(elf, off, buf, bytes);
}

int dlp_elf_scan(const struct dlp_elf *elf, uint64_t off, uint64_t bytes, const void *needle,
		 size_t needle_bytes, uint64_t *ret, size_t max, size_t *ret_cnt)
{
	_cleanup_free_ char *chunk = NULL;
	size_t cnt = 0;

	*ret_cnt = 0;
	if (!needle_bytes || needle_bytes > DLP_ELF_CHUNK_BYTES / 2 ||
	    !dlp_elf_in_file(elf, off, bytes))
		return -EBADMSG;
	chunk = malloc(DLP_ELF_CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	while (bytes >= needle_bytes) {
		size_t len = bytes < DLP_ELF_CHUNK_BYTES ? (size_t)bytes : DLP_ELF_CHUNK_BYTES;
		size_t step = len - (needle_bytes - 1);
		const char *at = chunk, *hit;
		int err;

		err = dlp_elf_read(elf, off, chunk, len);
		if (err)
			return err;
		while ((hit = memmem(at, len - (size_t)(at - chunk), needle, needle_bytes))) {
			if (cnt == max)
				return -ENOTUNIQ;
			ret[cnt++] = off + (uint64_t)(hit - chunk);
			at = hit + 1;
		}
		off += step;
		bytes -= step;
	}
	*ret_cnt = cnt;
	return 0;
}

int dlp_elf_each_relative(const struct dlp_elf *elf, dlp_elf_rela_fn fn, void *ctx)
{
	_cleanup_free_ Elf64_Rela *chunk = malloc(DLP_ELF_CHUNK_BYTES);
	uint32_t relative = elf->machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	uint64_t total = elf->rela_bytes / sizeof(*chunk);

	if (!chunk)
		return -ENOMEM;
	for (uint64_t base = 0; base < total;) {
		uint64_t cnt = DLP_ELF_CHUNK_BYTES / sizeof(*chunk);
		int err;

		cnt = total - base < cnt ? total - base : cnt;
		err = dlp_elf_read(elf, elf->rela_off + base * sizeof(*chunk), chunk,
				   cnt * sizeof(*chunk));
		for (uint64_t i = 0; i < cnt && !err; i++) {
			if (ELF64_R_TYPE(chunk[i].r_info) == relative)
				err = fn(ctx, &chunk[i]);
		}
		if (err)
			return err;
		base += cnt;
	}
	return 0;
}

/* Takes a table over only when all of it lies in the file. */
static bool set_syms(struct dlp_elf *elf, struct dlp_elf_syms *syms, uint64_t off, uint64_t cnt,
		     uint64_t str_off, uint64_t str_bytes)
{
	if (cnt > TABLE_BYTES_MAX / sizeof(Elf64_Sym) || str_bytes > TABLE_BYTES_MAX ||
	    !dlp_elf_in_file(elf, off, cnt * sizeof(Elf64_Sym)) ||
	    !dlp_elf_in_file(elf, str_off, str_bytes)) {
		elf->damaged = true;
		return false;
	}
	syms->off = off;
	syms->cnt = cnt;
	syms->str_off = str_off;
	syms->str_bytes = str_bytes;
	return true;
}

static int read_phdrs(struct dlp_elf *elf, const Elf64_Ehdr *ehdr)
{
	if (!ehdr->e_phnum || ehdr->e_phnum > PHDR_MAX || ehdr->e_phentsize != sizeof(Elf64_Phdr))
		return -EBADMSG;
	elf->phdr = calloc(ehdr->e_phnum, sizeof(*elf->phdr));
	if (!elf->phdr)
		return -ENOMEM;
	elf->phdr_cnt = ehdr->e_phnum;
	return dlp_elf_read(elf, ehdr->e_phoff, elf->phdr, elf->phdr_cnt * sizeof(*elf->phdr));
}

static void use_section(struct dlp_elf *elf, const Elf64_Shdr *shdr, size_t cnt, size_t index)
{
	const Elf64_Shdr *symbols = &shdr[index], *strings;
	bool dynamic = symbols->sh_type == SHT_DYNSYM;
	struct dlp_elf_syms *syms = dynamic ? &elf->dynsym : &elf->symtab;

	if (syms->cnt)
		return;
	if (symbols->sh_entsize != sizeof(Elf64_Sym) || symbols->sh_link >= cnt ||
	    shdr[symbols->sh_link].sh_type != SHT_STRTAB) {
		elf->damaged = true;
		return;
	}
	strings = &shdr[symbols->sh_link];
	if (!set_syms(elf, syms, symbols->sh_offset, symbols->sh_size / sizeof(Elf64_Sym),
		      strings->sh_offset, strings->sh_size))
		return;
	if (!dynamic)
		return;
	for (size_t i = 0; i < cnt; i++) {
		if (shdr[i].sh_type != SHT_GNU_versym || shdr[i].sh_link != index ||
		    !dlp_elf_in_file(elf, shdr[i].sh_offset, shdr[i].sh_size))
			continue;
		syms->version_off = shdr[i].sh_offset;
		syms->version_cnt = shdr[i].sh_size / 2;
	}
}

static int read_sections(struct dlp_elf *elf, const Elf64_Ehdr *ehdr)
{
	_cleanup_free_ Elf64_Shdr *shdr = NULL;
	uint64_t cnt = ehdr->e_shnum;
	int err;

	if (!ehdr->e_shoff)
		return 0;
	if (ehdr->e_shentsize != sizeof(*shdr) || !cnt || cnt > SHDR_MAX ||
	    !dlp_elf_in_file(elf, ehdr->e_shoff, cnt * sizeof(*shdr))) {
		elf->damaged = true;
		return 0;
	}
	shdr = calloc(cnt, sizeof(*shdr));
	if (!shdr)
		return -ENOMEM;
	err = dlp_elf_read(elf, ehdr->e_shoff, shdr, cnt * sizeof(*shdr));
	if (err)
		return err;
	for (uint64_t i = 0; i < cnt; i++) {
		if (shdr[i].sh_type == SHT_DYNSYM || shdr[i].sh_type == SHT_SYMTAB)
			use_section(elf, shdr, cnt, i);
	}
	return 0;
}

struct dynamic {
	uint64_t symtab, strtab, strsz, syment, hash, gnu_hash, versym, rela, relasz;
};

static int read_dynamic(const struct dlp_elf *elf, struct dynamic *ret)
{
	_cleanup_free_ Elf64_Dyn *dyn = NULL;
	const Elf64_Phdr *phdr = NULL;
	uint64_t cnt;
	int err;

	for (size_t i = 0; i < elf->phdr_cnt && !phdr; i++) {
		if (elf->phdr[i].p_type == PT_DYNAMIC)
			phdr = &elf->phdr[i];
	}
	if (!phdr)
		return -ENOENT;
	cnt = phdr->p_filesz / sizeof(*dyn);
	if (cnt > DYN_MAX)
		return -EBADMSG;
	dyn = calloc(cnt ? cnt : 1, sizeof(*dyn));
	if (!dyn)
		return -ENOMEM;
	err = dlp_elf_read(elf, phdr->p_offset, dyn, cnt * sizeof(*dyn));
	if (err)
		return err;
	for (uint64_t i = 0; i < cnt && dyn[i].d_tag != DT_NULL; i++) {
		switch (dyn[i].d_tag) {
		case DT_SYMTAB:
			ret->symtab = dyn[i].d_un.d_ptr;
			break;
		case DT_STRTAB:
			ret->strtab = dyn[i].d_un.d_ptr;
			break;
		case DT_STRSZ:
			ret->strsz = dyn[i].d_un.d_val;
			break;
		case DT_SYMENT:
			ret->syment = dyn[i].d_un.d_val;
			break;
		case DT_HASH:
			ret->hash = dyn[i].d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			ret->gnu_hash = dyn[i].d_un.d_ptr;
			break;
		case DT_VERSYM:
			ret->versym = dyn[i].d_un.d_ptr;
			break;
		case DT_RELA:
			ret->rela = dyn[i].d_un.d_ptr;
			break;
		case DT_RELASZ:
			ret->relasz = dyn[i].d_un.d_val;
			break;
		}
	}
	return 0;
}

/* Highest symbol index the buckets name; the chain from there ends the table. */
static int gnu_hash_cnt(const struct dlp_elf *elf, uint64_t addr, uint64_t *ret)
{
	uint32_t head[4], word, last = 0;
	uint64_t off;
	int err;

	err = dlp_elf_addr_to_off(elf, addr, 0, &off);
	if (!err)
		err = dlp_elf_read(elf, off, head, sizeof(head));
	if (err)
		return err;
	off += sizeof(head) + (uint64_t)head[2] * 8;
	if (!dlp_elf_in_file(elf, off, (uint64_t)head[0] * 4))
		return -EBADMSG;
	for (uint64_t i = 0; i < head[0];) {
		uint32_t bucket[1024];
		size_t cnt = head[0] - i < 1024 ? head[0] - i : 1024;

		err = dlp_elf_read(elf, off + i * 4, bucket, cnt * 4);
		if (err)
			return err;
		for (size_t j = 0; j < cnt; j++)
			last = bucket[j] > last ? bucket[j] : last;
		i += cnt;
	}
	*ret = head[1];
	if (last < head[1])
		return 0;
	off += (uint64_t)head[0] * 4;
	for (uint64_t i = last; i - last < HASH_CHAIN_MAX; i++) {
		err = dlp_elf_read(elf, off + (i - head[1]) * 4, &word, sizeof(word));
		if (err)
			return err;
		if (word & 1) {
			*ret = i + 1;
			return 0;
		}
	}
	return -EBADMSG;
}

static int dynsym_cnt(const struct dlp_elf *elf, const struct dynamic *dyn, uint64_t *ret)
{
	uint32_t hash[2];
	int err;

	if (!dyn->hash)
		return dyn->gnu_hash ? gnu_hash_cnt(elf, dyn->gnu_hash, ret) : -EBADMSG;
	err = dlp_elf_read_addr(elf, dyn->hash, hash, sizeof(hash));
	*ret = err ? 0 : hash[1];
	return err;
}

/*
 * Without section headers the dynamic linker's own view is all there is. 0, or -errno of a read: one
 * that lies is no error.
 */
static int use_dynamic(struct dlp_elf *elf, const struct dynamic *dyn)
{
	uint64_t off, str_off, cnt;
	int err;

	if (dyn->rela && !dlp_elf_addr_to_off(elf, dyn->rela, 0, &off) &&
	    dlp_elf_in_file(elf, off, dyn->relasz)) {
		elf->rela_off = off;
		elf->rela_bytes = dyn->relasz;
	}
	if (elf->dynsym.cnt || !dyn->symtab)
		return 0;
	err = dyn->syment == sizeof(Elf64_Sym) ? dynsym_cnt(elf, dyn, &cnt) : -EBADMSG;
	if (!err)
		err = dlp_elf_addr_to_off(elf, dyn->symtab, 0, &off);
	if (!err)
		err = dlp_elf_addr_to_off(elf, dyn->strtab, 0, &str_off);
	if (err) {
		elf->damaged = true;
		return err == -EBADMSG ? 0 : err;
	}
	if (!set_syms(elf, &elf->dynsym, off, cnt, str_off, dyn->strsz))
		return 0;
	if (dyn->versym && !dlp_elf_addr_to_off(elf, dyn->versym, 0, &off) &&
	    dlp_elf_in_file(elf, off, cnt * 2)) {
		elf->dynsym.version_off = off;
		elf->dynsym.version_cnt = cnt;
	}
	return 0;
}

static int check_header(const Elf64_Ehdr *ehdr)
{
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
	    (ehdr->e_machine != EM_X86_64 && ehdr->e_machine != EM_AARCH64))
		return -ENOTSUP;
	if (ehdr->e_type != ET_DYN && ehdr->e_type != ET_EXEC)
		return -ENOTSUP;
	return 0;
}

static int parse(struct dlp_elf *elf)
{
	struct dynamic dyn = { 0 };
	Elf64_Ehdr ehdr = { 0 };
	int err;

	if (elf->bytes < sizeof(ehdr))
		return -ENOEXEC;
	err = dlp_elf_read(elf, 0, &ehdr, sizeof(ehdr));
	if (!err)
		err = check_header(&ehdr);
	if (err)
		return err;
	elf->type = ehdr.e_type;
	elf->machine = ehdr.e_machine;
	err = read_phdrs(elf, &ehdr);
	if (!err)
		err = read_sections(elf, &ehdr);
	if (err)
		return err;
	err = read_dynamic(elf, &dyn);
	if (!err)
		return use_dynamic(elf, &dyn);
	if (err == -EBADMSG)
		elf->damaged = true;
	/* none: a static executable */
	return err == -EBADMSG || err == -ENOENT ? 0 : err;
}

int dlp_elf_open(const char *path, struct dlp_elf **ret)
{
	_cleanup_elf_ struct dlp_elf *elf = NULL;
	struct stat st;
	int err;

	elf = calloc(1, sizeof(*elf));
	if (!elf)
		return -ENOMEM;
	/* whatever lies at a container's path: a fifo must not block us */
	elf->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (elf->fd < 0)
		return -errno;
	if (fstat(elf->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	elf->bytes = (uint64_t)st.st_size;
	err = parse(elf);
	if (err)
		return err;
	*ret = elf;
	elf = NULL;
	return 0;
}

void dlp_elf_free(struct dlp_elf *elf)
{
	if (!elf)
		return;
	if (elf->fd >= 0)
		close(elf->fd);
	free(elf->phdr);
	free(elf);
}
