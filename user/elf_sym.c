/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_sym.h"

#include <errno.h>
#include <string.h>

#include "util.h"

/* Strings that hold the wanted name; a version and a handful of clones are usual. */
#define NAMES_MAX 256

/* Rest of a string after the wanted name: does the whole still name that function? */
static bool rest_matches(enum dlp_elf_match match, const char *rest)
{
	if (match == DLP_ELF_PREFIX)
		return !strchr(rest, '.');
	/* LTO renames statics of different files that share a name; the function is whole */
	return !*rest || *rest == '@' || !strncmp(rest, ".lto_priv.", 10);
}

/* String table offsets (st_name) of the names that match, in ascending order. */
static int find_names(const struct dlp_elf *elf, const struct dlp_elf_syms *syms,
		      enum dlp_elf_match match, const char *name, uint64_t *ret, size_t *ret_cnt)
{
	uint64_t hits[NAMES_MAX];
	size_t hit_cnt, cnt = 0, len = strlen(name);
	int err;

	err = dlp_elf_scan(elf, syms->str_off, syms->str_bytes, name, len, hits, NAMES_MAX,
			   &hit_cnt);
	if (err)
		return err;
	for (size_t i = 0; i < hit_cnt; i++) {
		char rest[1024];
		uint64_t from = hits[i] + len;
		uint64_t left = syms->str_off + syms->str_bytes - from;
		size_t take = left < sizeof(rest) - 1 ? (size_t)left : sizeof(rest) - 1;

		err = dlp_elf_read(elf, from, rest, take);
		if (err)
			return err;
		rest[take] = '\0';
		if (rest_matches(match, rest))
			ret[cnt++] = hits[i] - syms->str_off;
	}
	*ret_cnt = cnt;
	return 0;
}

static bool has_name(const uint64_t *names, size_t cnt, uint64_t name)
{
	if (name < names[0] || name > names[cnt - 1])
		return false;
	for (size_t i = 0; i < cnt; i++) {
		if (names[i] == name)
			return true;
	}
	return false;
}

static int read_name(const struct dlp_elf *elf, const struct dlp_elf_syms *syms, uint64_t name,
		     char *ret, size_t size)
{
	uint64_t left = syms->str_bytes - name;
	size_t take = left < size - 1 ? (size_t)left : size - 1;

	ret[take] = '\0';
	return dlp_elf_read(elf, syms->str_off + name, ret, take);
}

/* Not the default version of its name. 0 or -errno; what lies outside the file has no version. */
static int read_hidden(const struct dlp_elf *elf, const struct dlp_elf_syms *syms,
		       const Elf64_Sym *sym, uint64_t index, bool *ret)
{
	uint16_t version;
	char name[512];
	const char *at;
	int err;

	*ret = false;
	if (syms->version_cnt > index) {
		err = dlp_elf_read(elf, syms->version_off + index * 2, &version, sizeof(version));
		/* bit 15 of .gnu.version */
		*ret = !err && version & 0x8000;
	} else {
		/* in .symtab the version is part of the name: name@OLD, name@@DEFAULT */
		err = read_name(elf, syms, sym->st_name, name, sizeof(name));
		at = err ? NULL : strchr(name, '@');
		*ret = at && at[1] != '@';
	}
	return err == -EBADMSG ? 0 : err;
}

static bool wanted(const Elf64_Sym *sym, enum dlp_elf_kind kind)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	/* an STT_GNU_IFUNC's value is the resolver, not the function */
	return sym->st_shndx != SHN_UNDEF && sym->st_value &&
	       type == (kind == DLP_ELF_FUNC ? STT_FUNC : STT_OBJECT);
}

struct pick {
	Elf64_Sym sym;
	int rank;
	bool found, ambiguous;
};

/* A lower rank is better: what the dynamic linker would bind an unversioned reference to. */
static void consider(struct pick *pick, const Elf64_Sym *sym, bool hidden)
{
	int sym_rank = (hidden ? 2 : 0) + (ELF64_ST_BIND(sym->st_info) == STB_WEAK ? 1 : 0);

	if (!pick->found || sym_rank < pick->rank) {
		*pick = (struct pick){ .sym = *sym, .rank = sym_rank, .found = true };
		return;
	}
	if (sym_rank == pick->rank && sym->st_value != pick->sym.st_value)
		pick->ambiguous = true;
}

static int pick_symbol(const struct dlp_elf *elf, const struct dlp_elf_syms *syms,
		       enum dlp_elf_kind kind, const uint64_t *names, size_t name_cnt,
		       struct pick *pick)
{
	_cleanup_free_ Elf64_Sym *chunk = NULL;
	const uint64_t chunk_cnt = DLP_ELF_CHUNK_BYTES / sizeof(*chunk);

	chunk = malloc(DLP_ELF_CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	for (uint64_t base = 0; base < syms->cnt; base += chunk_cnt) {
		uint64_t cnt = syms->cnt - base < chunk_cnt ? syms->cnt - base : chunk_cnt;
		int err;

		err = dlp_elf_read(elf, syms->off + base * sizeof(*chunk), chunk,
				   cnt * sizeof(*chunk));
		if (err)
			return err;
		for (uint64_t i = 0; i < cnt; i++) {
			bool hidden;

			if (!wanted(&chunk[i], kind) ||
			    !has_name(names, name_cnt, chunk[i].st_name))
				continue;
			/* a duplicate of what we have costs no further reads */
			if (pick->found && pick->sym.st_value == chunk[i].st_value &&
			    pick->sym.st_info == chunk[i].st_info)
				continue;
			err = read_hidden(elf, syms, &chunk[i], base + i, &hidden);
			if (err)
				return err;
			consider(pick, &chunk[i], hidden);
		}
	}
	return 0;
}

int dlp_elf_find_in(const struct dlp_elf *elf, enum dlp_elf_table table, enum dlp_elf_kind kind,
		    enum dlp_elf_match match, const char *name, struct dlp_elf_sym *ret)
{
	const struct dlp_elf_syms *syms = table == DLP_ELF_DYNSYM ? &elf->dynsym : &elf->symtab;
	struct pick pick = { .found = false };
	uint64_t names[NAMES_MAX];
	size_t name_cnt = 0;
	int err;

	if (!syms->cnt)
		return elf->damaged ? -EBADMSG : -ENOENT;
	err = find_names(elf, syms, match, name, names, &name_cnt);
	if (err)
		return err;
	if (!name_cnt)
		return -ENOENT;
	err = pick_symbol(elf, syms, kind, names, name_cnt, &pick);
	if (err)
		return err;
	if (!pick.found)
		return -ENOENT;
	if (pick.ambiguous)
		return -ENOTUNIQ;
	*ret = (struct dlp_elf_sym){
		.addr = pick.sym.st_value,
		.size = pick.sym.st_size,
		.table = table,
		.weak = ELF64_ST_BIND(pick.sym.st_info) == STB_WEAK,
	};
	err = read_name(elf, syms, pick.sym.st_name, ret->name, sizeof(ret->name));
	if (err)
		return err;
	err = dlp_elf_addr_to_off(elf, ret->addr, kind == DLP_ELF_FUNC ? PF_X : 0, &ret->offset);
	if (err && kind == DLP_ELF_OBJECT) {
		ret->offset = UINT64_MAX;
		return 0;
	}
	return err;
}

int dlp_elf_find(const struct dlp_elf *elf, enum dlp_elf_kind kind, enum dlp_elf_match match,
		 const char *name, struct dlp_elf_sym *ret)
{
	int dyn_err, err;

	dyn_err = dlp_elf_find_in(elf, DLP_ELF_DYNSYM, kind, match, name, ret);
	if (dyn_err != -ENOENT && dyn_err != -EBADMSG)
		return dyn_err;
	err = dlp_elf_find_in(elf, DLP_ELF_SYMTAB, kind, match, name, ret);
	return err == -ENOENT ? dyn_err : err;
}
