/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Symbols of made-up ELF files, honest and lying ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "elf_build.h"
#include "elf_sym.h"
#include "tree.h"
#include "util.h"

#define FUNC(sym_name, sym_off, dynamic)                                                           \
	{                                                                                          \
		.name = sym_name, .where = ELF_IN_TEXT, .off = sym_off, .size = 0x40,              \
		.bind = STB_GLOBAL, .type = STT_FUNC, .is_dynamic = dynamic                        \
	}

static struct tree tree;
static struct elf_build build;
static struct dlp_elf *elf;

static int start(void **state)
{
	(void)state;
	memset(&build, 0, sizeof(build));
	elf = NULL;
	tree_init(&tree);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlp_elf_free(elf);
	elf_build_fini(&build);
	tree_fini(&tree);
	return 0;
}

static void make(const struct elf_build_sym *sym, size_t cnt)
{
	build.sym = sym;
	build.sym_cnt = cnt;
	elf_build(&build);
}

static int open_built(void)
{
	const char *path = tree_path(&tree, "lib.so");

	elf_build_write(&build, path);
	return dlp_elf_open(path, &elf);
}

static int find(const char *name, enum dlp_elf_match match, struct dlp_elf_sym *ret)
{
	return dlp_elf_find(elf, DLP_ELF_FUNC, match, name, ret);
}

static void dynsym_is_searched_first(void **state)
{
	static const struct elf_build_sym syms[] = {
		FUNC("_Py_write_noraise", 0x40, true),
		FUNC("_Py_write", 0x80, true),
		FUNC("_Py_write", 0x100, false),
		FUNC("local_only", 0x140, false),
	};
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("_Py_write", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x80);
	assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x80);
	assert_int_equal(sym.size, 0x40);
	assert_int_equal(sym.table, DLP_ELF_DYNSYM);
	assert_false(sym.weak);
	assert_string_equal(sym.name, "_Py_write");
	assert_int_equal(find("local_only", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.table, DLP_ELF_SYMTAB);
	assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x140);
}

static void missing_symbols_are_not_found(void **state)
{
	static const struct elf_build_sym syms[] = {
		FUNC("present", 0x40, true),
		{ .name = "imported",
		  .where = ELF_UNDEFINED,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true },
		{ .name = "resolver",
		  .where = ELF_IN_TEXT,
		  .off = 0x80,
		  .bind = STB_GLOBAL,
		  .type = STT_GNU_IFUNC,
		  .is_dynamic = true },
	};
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("absent", DLP_ELF_EXACT, &sym), -ENOENT);
	assert_int_equal(find("presen", DLP_ELF_EXACT, &sym), -ENOENT);
	assert_int_equal(find("resent", DLP_ELF_EXACT, &sym), -ENOENT);
	assert_int_equal(find("resent", DLP_ELF_PREFIX, &sym), -ENOENT);
	assert_int_equal(find("imported", DLP_ELF_EXACT, &sym), -ENOENT);
	assert_int_equal(find("resolver", DLP_ELF_EXACT, &sym), -ENOENT);
	assert_int_equal(dlp_elf_find(elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "present", &sym),
			 -ENOENT);
}

static void prefixes_match_one_function_or_fail(void **state)
{
	static const struct elf_build_sym syms[] = {
		FUNC("_ZN5enterERKSs", 0x40, true),
		FUNC("_ZN4leaveEi", 0x80, true),
		FUNC("_ZN4leaveEl", 0xc0, true),
		/* one function by two names, as constructors have them */
		FUNC("_ZN5ThingC1Ev", 0x100, true),
		FUNC("_ZN5ThingC2Ev", 0x100, true),
		/* pieces the compiler split off are no functions of that name */
		FUNC("_ZN3hotEv", 0x140, false),
		FUNC("_ZN3hotEv.cold", 0x180, false),
		FUNC("_ZN3hotEv.part.0", 0x1c0, false),
	};
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("_ZN5enterE", DLP_ELF_PREFIX, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x40);
	assert_string_equal(sym.name, "_ZN5enterERKSs");
	assert_int_equal(find("_ZN4leaveE", DLP_ELF_PREFIX, &sym), -ENOTUNIQ);
	assert_int_equal(find("_ZN5Thing", DLP_ELF_PREFIX, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x100);
	assert_int_equal(find("_ZN3hot", DLP_ELF_PREFIX, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x140);
}

static void strong_symbols_beat_weak_ones(void **state)
{
	static const struct elf_build_sym syms[] = {
		{ .name = "both",
		  .where = ELF_IN_TEXT,
		  .off = 0x40,
		  .bind = STB_WEAK,
		  .type = STT_FUNC,
		  .is_dynamic = true },
		FUNC("both", 0x80, true),
		{ .name = "weak",
		  .where = ELF_IN_TEXT,
		  .off = 0xc0,
		  .bind = STB_WEAK,
		  .type = STT_FUNC,
		  .is_dynamic = true },
		FUNC("twice", 0x100, false),
		FUNC("twice", 0x140, false),
	};
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("both", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x80);
	assert_int_equal(find("weak", DLP_ELF_EXACT, &sym), 0);
	assert_true(sym.weak);
	assert_int_equal(find("twice", DLP_ELF_EXACT, &sym), -ENOTUNIQ);
}

static void default_versions_beat_old_ones(void **state)
{
	static const struct elf_build_sym syms[] = {
		{ .name = "versioned",
		  .where = ELF_IN_TEXT,
		  .off = 0x40,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true,
		  .version = 0x8002 },
		{ .name = "versioned",
		  .where = ELF_IN_TEXT,
		  .off = 0x80,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true,
		  .version = 3 },
		FUNC("inner@V1", 0xc0, false),
		FUNC("inner@@V2", 0x100, false),
		FUNC("static_one.lto_priv.0", 0x140, false),
	};
	struct dlp_elf_sym sym;

	(void)state;
	build.has_versions = true;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("versioned", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x80);
	assert_int_equal(find("inner", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x100);
	assert_int_equal(find("static_one", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x140);
}

static void objects_have_an_address_and_maybe_an_offset(void **state)
{
	static const struct elf_build_sym syms[] = {
		{ .name = "in_data",
		  .where = ELF_IN_DATA,
		  .off = 0x10,
		  .size = 8,
		  .bind = STB_GLOBAL,
		  .type = STT_OBJECT,
		  .is_dynamic = true },
		{ .name = "in_bss",
		  .where = ELF_IN_BSS,
		  .off = 0x20,
		  .size = 0x300,
		  .bind = STB_GLOBAL,
		  .type = STT_OBJECT,
		  .is_dynamic = true },
		/* a function outside executable code is a lie */
		{ .name = "data_function",
		  .where = ELF_IN_DATA,
		  .off = 0x30,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true },
	};
	struct dlp_elf_sym sym;
	uint64_t value = 0;

	(void)state;
	memcpy(build.data + 0x10, "\x11\x22\x33\x44\x55\x66\x77\x08", 8);
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(dlp_elf_find(elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "in_data", &sym), 0);
	assert_int_equal(sym.offset, ELF_DATA_OFF + 0x10);
	assert_int_equal(dlp_elf_read_addr(elf, sym.addr, &value, 8), 0);
	assert_true(value == 0x0877665544332211ull);
	assert_int_equal(dlp_elf_find(elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "in_bss", &sym), 0);
	assert_int_equal(sym.addr, ELF_DATA + ELF_PART_BYTES + 0x20);
	assert_int_equal(sym.size, 0x300);
	assert_true(sym.offset == UINT64_MAX);
	assert_int_equal(dlp_elf_read_addr(elf, sym.addr, &value, 8), -EBADMSG);
	assert_int_equal(find("data_function", DLP_ELF_EXACT, &sym), -EBADMSG);
}

static void without_section_headers(void **state)
{
	static const struct elf_build_sym syms[] = {
		FUNC("first", 0x40, true),
		FUNC("middle", 0x80, true),
		{ .name = "last",
		  .where = ELF_IN_TEXT,
		  .off = 0xc0,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true,
		  .version = 0x8002 },
		{ .name = "last",
		  .where = ELF_IN_TEXT,
		  .off = 0x100,
		  .bind = STB_GLOBAL,
		  .type = STT_FUNC,
		  .is_dynamic = true,
		  .version = 3 },
		FUNC("gone", 0x140, false),
	};
	struct dlp_elf_sym sym;

	(void)state;
	for (int sysv = 0; sysv < 2; sysv++) {
		build.has_no_sections = true;
		build.has_versions = true;
		build.has_sysv_hash = sysv;
		make(syms, DLP_ARRAY_SIZE(syms));
		assert_int_equal(open_built(), 0);
		assert_false(elf->damaged);
		assert_int_equal(elf->dynsym.cnt, 5);
		assert_int_equal(find("first", DLP_ELF_EXACT, &sym), 0);
		assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x40);
		assert_int_equal(find("last", DLP_ELF_EXACT, &sym), 0);
		assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x100);
		assert_int_equal(find("gone", DLP_ELF_EXACT, &sym), -ENOENT);
		dlp_elf_free(elf);
		elf = NULL;
		elf_build_fini(&build);
	}
}

/* Each changes a good file in one way; opening or finding must fail, never crash or hang. */
enum lie {
	LIE_SYM_OFFSET,
	LIE_SYM_SIZE,
	LIE_SYM_ENTRY,
	LIE_SYM_LINK,
	LIE_STR_OFFSET,
	LIE_STR_SIZE,
	LIE_STR_OVERFLOW,
	LIE_SHDR_OFFSET,
	LIE_SHDR_COUNT,
	LIE_MAX,
};

static void tell(enum lie lie)
{
	Elf64_Shdr *sym = elf_build_shdr(&build, ELF_SH_DYNSYM);
	Elf64_Shdr *str = elf_build_shdr(&build, ELF_SH_DYNSTR);

	/* else the dynamic linker's view would serve */
	elf_build_dyn(&build, DT_SYMENT)->d_un.d_val = 0;
	switch (lie) {
	case LIE_SYM_OFFSET:
		sym->sh_offset = UINT64_MAX - 8;
		break;
	case LIE_SYM_SIZE:
		sym->sh_size = UINT64_MAX;
		break;
	case LIE_SYM_ENTRY:
		sym->sh_entsize = 0;
		break;
	case LIE_SYM_LINK:
		sym->sh_link = 0xffffffff;
		break;
	case LIE_STR_OFFSET:
		str->sh_offset = build.len + 1;
		break;
	case LIE_STR_SIZE:
		str->sh_size = build.len;
		break;
	case LIE_STR_OVERFLOW:
		str->sh_offset = UINT64_MAX;
		str->sh_size = 2;
		break;
	case LIE_SHDR_OFFSET:
		elf_build_ehdr(&build)->e_shoff = UINT64_MAX - 63;
		break;
	case LIE_SHDR_COUNT:
		elf_build_ehdr(&build)->e_shnum = 0xffff;
		break;
	case LIE_MAX:
		break;
	}
}

static void lying_tables_are_refused(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	struct dlp_elf_sym sym;

	(void)state;
	for (int lie = 0; lie < LIE_MAX; lie++) {
		make(syms, DLP_ARRAY_SIZE(syms));
		tell((enum lie)lie);
		assert_int_equal(open_built(), 0);
		if (find("target", DLP_ELF_EXACT, &sym) != -EBADMSG)
			fail_msg("lie %d was believed", lie);
		dlp_elf_free(elf);
		elf = NULL;
		elf_build_fini(&build);
	}
}

static void the_dynamic_table_serves_when_sections_lie(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	elf_build_shdr(&build, ELF_SH_DYNSYM)->sh_size = UINT64_MAX;
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("target", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x40);
}

static void lying_hash_tables_are_refused(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	/* buckets, first symbol, bloom words; then the bucket and the chain word of the builder */
	static const uint32_t lies[][2] = {
		{ 0, 0xffffffff }, { 1, 0xffffffff }, { 2, 0xffffffff },
		{ 6, 0xfffffff0 }, { 7, 0 },
	};
	struct dlp_elf_sym sym;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(lies); i++) {
		build.has_no_sections = true;
		make(syms, DLP_ARRAY_SIZE(syms));
		/* an endless chain: no word up to the end of the segment has its last bit set */
		if (lies[i][0] == 7)
			memset(build.bytes + build.hash_off + 28, 0, 4);
		memcpy(build.bytes + build.hash_off + lies[i][0] * 4, &lies[i][1], 4);
		assert_int_equal(open_built(), 0);
		assert_int_not_equal(find("target", DLP_ELF_EXACT, &sym), -ENOTUNIQ);
		dlp_elf_free(elf);
		elf = NULL;
		elf_build_fini(&build);
	}
}

static void segments_beyond_the_file_are_refused(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	elf_build_phdr(&build)[1].p_offset = UINT64_MAX - 0x20;
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("target", DLP_ELF_EXACT, &sym), -EBADMSG);
	dlp_elf_free(elf);
	elf = NULL;
	elf_build_phdr(&build)[1].p_offset = build.len;
	assert_int_equal(open_built(), 0);
	assert_int_equal(find("target", DLP_ELF_EXACT, &sym), -EBADMSG);
}

static void files_cut_short_are_refused(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	const char *path = tree_path(&tree, "cut.so");
	struct dlp_elf_sym sym;
	int err;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	/* also odd places inside headers and tables */
	for (size_t len = 0; len < build.len; len += len < 0x600 ? 7 : 0x333) {
		struct elf_build part = build;

		part.len = len;
		elf_build_write(&part, path);
		err = dlp_elf_open(path, &elf);
		if (err) {
			assert_true(err == -ENOEXEC || err == -EBADMSG);
			continue;
		}
		err = find("target", DLP_ELF_EXACT, &sym);
		assert_true(!err || err == -EBADMSG || err == -ENOENT);
		dlp_elf_free(elf);
		elf = NULL;
	}
}

static void a_file_cut_while_open_is_an_error(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(truncate(tree_path(&tree, "lib.so"), 100), 0);
	assert_int_equal(find("target", DLP_ELF_EXACT, &sym), -EBADMSG);
}

static int open_with_byte(size_t at, uint8_t value)
{
	uint8_t old = build.bytes[at];
	int err;

	build.bytes[at] = value;
	err = open_built();
	build.bytes[at] = old;
	if (!err) {
		dlp_elf_free(elf);
		elf = NULL;
	}
	return err;
}

static void foreign_files_are_refused(void **state)
{
	(void)state;
	make(NULL, 0);
	assert_int_equal(open_with_byte(0, 0x7f), 0);
	assert_int_equal(open_with_byte(EI_MAG3, 'f'), -ENOEXEC);
	assert_int_equal(open_with_byte(EI_CLASS, ELFCLASS32), -ENOTSUP);
	assert_int_equal(open_with_byte(EI_DATA, ELFDATA2MSB), -ENOTSUP);
	assert_int_equal(open_with_byte(offsetof(Elf64_Ehdr, e_machine), EM_RISCV), -ENOTSUP);
	assert_int_equal(open_with_byte(offsetof(Elf64_Ehdr, e_type), ET_REL), -ENOTSUP);
	assert_int_equal(open_with_byte(offsetof(Elf64_Ehdr, e_phnum), 0), -EBADMSG);
	assert_int_equal(open_with_byte(offsetof(Elf64_Ehdr, e_phentsize), 1), -EBADMSG);
	assert_int_equal(open_with_byte(offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff), -EBADMSG);
}

static void what_is_no_file_is_refused(void **state)
{
	(void)state;
	assert_int_equal(dlp_elf_open(tree_path(&tree, "absent"), &elf), -ENOENT);
	assert_int_equal(dlp_elf_open(tree.path, &elf), -ENOEXEC);
	/* nobody writes to it: opening must not wait */
	assert_int_equal(mkfifo(tree_path(&tree, "fifo"), 0600), 0);
	assert_int_equal(dlp_elf_open(tree_path(&tree, "fifo"), &elf), -ENOEXEC);
	tree_text(&tree, "short", "\177ELF");
	assert_int_equal(dlp_elf_open(tree_path(&tree, "short"), &elf), -ENOEXEC);
}

static void huge_files_are_read_in_bounds(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("target", 0x40, true) };
	const char *path = tree_path(&tree, "lib.so");
	struct dlp_elf_sym sym;

	(void)state;
	make(syms, DLP_ARRAY_SIZE(syms));
	elf_build_shdr(&build, ELF_SH_DYNSTR)->sh_size = 1ull << 40;
	elf_build_dyn(&build, DT_STRSZ)->d_un.d_val = 1ull << 40;
	elf_build_write(&build, path);
	/* sparse: takes no space, and would take hours to search */
	if (truncate(path, 1ll << 42)) {
		print_message("the file system takes no file of 4 TiB\n");
		skip();
	}
	assert_int_equal(dlp_elf_open(path, &elf), 0);
	assert_int_equal(find("target", DLP_ELF_EXACT, &sym), -EBADMSG);
}

static void scans_see_across_chunks(void **state)
{
	static const char needle[] = "needle";
	const char *path = tree_path(&tree, "lib.so");
	const uint64_t at[] = { 0x20000, 0x20000 + DLP_ELF_CHUNK_BYTES - 3, 0x3fffa };
	uint64_t hits[4];
	size_t cnt;
	int fd;

	(void)state;
	make(NULL, 0);
	elf_build_write(&build, path);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(at); i++)
		assert_int_equal(pwrite(fd, needle, 6, (off_t)at[i]), 6);
	close(fd);
	assert_int_equal(dlp_elf_open(path, &elf), 0);
	assert_int_equal(dlp_elf_scan(elf, 0x20000, 0x20000, needle, 6, hits, 4, &cnt), 0);
	assert_int_equal(cnt, 3);
	assert_memory_equal(hits, at, sizeof(at));
	assert_int_equal(dlp_elf_scan(elf, 0x20000, 0x20000, needle, 6, hits, 2, &cnt), -ENOTUNIQ);
	assert_int_equal(dlp_elf_scan(elf, 0x20000, 5, needle, 6, hits, 4, &cnt), 0);
	assert_int_equal(cnt, 0);
	assert_int_equal(dlp_elf_scan(elf, 0x20000, 0x20001, needle, 6, hits, 4, &cnt), -EBADMSG);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(dynsym_is_searched_first),
		TEST(missing_symbols_are_not_found),
		TEST(prefixes_match_one_function_or_fail),
		TEST(strong_symbols_beat_weak_ones),
		TEST(default_versions_beat_old_ones),
		TEST(objects_have_an_address_and_maybe_an_offset),
		TEST(without_section_headers),
		TEST(lying_tables_are_refused),
		TEST(the_dynamic_table_serves_when_sections_lie),
		TEST(lying_hash_tables_are_refused),
		TEST(segments_beyond_the_file_are_refused),
		TEST(files_cut_short_are_refused),
		TEST(a_file_cut_while_open_is_an_error),
		TEST(foreign_files_are_refused),
		TEST(what_is_no_file_is_refused),
		TEST(huge_files_are_read_in_bounds),
		TEST(scans_see_across_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
