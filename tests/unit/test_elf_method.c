/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Python method tables in made-up ELF files, and all look-ups in files a compiler made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_build.h"
#include "elf_method.h"
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

/* One struct PyMethodDef in the data segment, its pointers as words or as relocations. */
static void put_method(uint64_t off, uint64_t name, uint64_t function, uint32_t flags,
		       bool relocate)
{
	memcpy(build.data + off + 16, &flags, sizeof(flags));
	if (!relocate) {
		memcpy(build.data + off, &name, 8);
		memcpy(build.data + off + 8, &function, 8);
		return;
	}
	build.rela[build.rela_cnt++] = (Elf64_Rela){ ELF_DATA + off, ELF_RELATIVE, (int64_t)name };
	build.rela[build.rela_cnt++] =
		(Elf64_Rela){ ELF_DATA + off + 8, ELF_RELATIVE, (int64_t)function };
}

#define STR_LOAD (ELF_RODATA + 0x10)
#define STR_LOADS (ELF_RODATA + 0x20)
#define STR_DUMPS (ELF_RODATA + 0x30)
#define METHODS 0x100

/* As in a Python 3.13 with both modules built in: the flags don't tell pickle from marshal. */
static void put_tables(bool relocate)
{
	strcpy((char *)build.rodata + 0x10, "load");
	strcpy((char *)build.rodata + 0x20, "loads");
	strcpy((char *)build.rodata + 0x30, "dumps");
	put_method(METHODS, STR_LOAD, ELF_TEXT + 0x200, 0x82, relocate);
	put_method(METHODS + 32, STR_LOADS, ELF_TEXT + 0x300, 0x82, relocate);
	put_method(METHODS + 96, STR_DUMPS, ELF_TEXT + 0x400, 0x82, relocate);
	put_method(METHODS + 128, STR_LOADS, ELF_TEXT + 0x500, 0x82, relocate);
}

static void methods_are_found_in_tables(void **state)
{
	struct dlp_elf_sym sym;

	(void)state;
	for (int relocate = 0; relocate < 2; relocate++) {
		memset(&build, 0, sizeof(build));
		build.type = relocate ? ET_DYN : ET_EXEC;
		put_tables(relocate);
		make(NULL, 0);
		assert_int_equal(open_built(), 0);
		assert_int_equal(dlp_elf_find_pickle_loads(elf, &sym), 0);
		assert_int_equal(sym.addr, ELF_TEXT + 0x300);
		assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x300);
		dlp_elf_free(elf);
		elf = NULL;
		elf_build_fini(&build);
	}
}

static void a_symbol_beats_the_table(void **state)
{
	static const struct elf_build_sym syms[] = { FUNC("_pickle_loads", 0x40, false) };
	struct dlp_elf_sym sym;

	(void)state;
	put_tables(true);
	make(syms, DLP_ARRAY_SIZE(syms));
	assert_int_equal(open_built(), 0);
	assert_int_equal(dlp_elf_find_pickle_loads(elf, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x40);
}

static void other_methods_are_left_alone(void **state)
{
	struct dlp_elf_method method = { "loads", DLP_METH_FASTCALL_KEYWORDS, "load" };
	struct dlp_elf_sym sym;

	(void)state;
	put_tables(true);
	/* a second one with other flags, and one whose function is no code */
	put_method(0x400, STR_LOAD, ELF_TEXT + 0x600, 0x82, true);
	put_method(0x420, STR_LOADS, ELF_TEXT + 0x700, 0x08, true);
	put_method(0x500, STR_LOAD, ELF_TEXT + 0x600, 0x82, true);
	put_method(0x520, STR_LOADS, ELF_DATA + 0x700, 0x82, true);
	make(NULL, 0);
	assert_int_equal(open_built(), 0);
	assert_int_equal(dlp_elf_find_method(elf, &method, &sym), 0);
	assert_int_equal(sym.addr, ELF_TEXT + 0x300);
	method.previous = "dump";
	assert_int_equal(dlp_elf_find_method(elf, &method, &sym), -ENOENT);
	method.previous = "load";
	method.name = "absent";
	assert_int_equal(dlp_elf_find_method(elf, &method, &sym), -ENOENT);
	method.name = "loads";
	method.flags = 0x80;
	assert_int_equal(dlp_elf_find_method(elf, &method, &sym), -ENOENT);
}

/* An entry of typeobject.c's slotdefs: name, offset in PyTypeObject, function. */
static void put_slot(uint64_t off, uint32_t type_off, uint64_t function, bool relocate)
{
	const uint64_t name = ELF_RODATA + 0x40;

	memcpy(build.data + off + 8, &type_off, sizeof(type_off));
	if (!relocate) {
		memcpy(build.data + off, &name, 8);
		memcpy(build.data + off + 16, &function, 8);
		return;
	}
	build.rela[build.rela_cnt++] = (Elf64_Rela){ ELF_DATA + off, ELF_RELATIVE, (int64_t)name };
	build.rela[build.rela_cnt++] =
		(Elf64_Rela){ ELF_DATA + off + 16, ELF_RELATIVE, (int64_t)function };
}

static void the_slot_of_next_is_found(void **state)
{
	struct dlp_elf_sym sym;

	(void)state;
	for (int relocate = 0; relocate < 2; relocate++) {
		memset(&build, 0, sizeof(build));
		build.type = relocate ? ET_DYN : ET_EXEC;
		strcpy((char *)build.rodata + 0x40, "__next__");
		/* a method of that name, a slot of another offset, one that points to no code */
		put_slot(0x100, 8, ELF_TEXT + 0x100, relocate);
		put_slot(0x200, 216, ELF_TEXT + 0x200, relocate);
		put_slot(0x300, 224, ELF_DATA + 0x300, relocate);
		put_slot(0x400, 224, ELF_TEXT + 0x400, relocate);
		make(NULL, 0);
		assert_int_equal(open_built(), 0);
		assert_int_equal(dlp_elf_find_next_slot(elf, &sym), 0);
		assert_int_equal(sym.addr, ELF_TEXT + 0x400);
		assert_int_equal(sym.offset, ELF_TEXT_OFF + 0x400);
		dlp_elf_free(elf);
		elf = NULL;
		elf_build_fini(&build);
	}
	/* two of them: neither is believed */
	memset(&build, 0, sizeof(build));
	strcpy((char *)build.rodata + 0x40, "__next__");
	put_slot(0x100, 224, ELF_TEXT + 0x100, true);
	put_slot(0x200, 224, ELF_TEXT + 0x200, true);
	make(NULL, 0);
	assert_int_equal(open_built(), 0);
	assert_int_equal(dlp_elf_find_next_slot(elf, &sym), -ENOTUNIQ);
}

static void two_such_methods_are_ambiguous(void **state)
{
	struct dlp_elf_sym sym;

	(void)state;
	put_tables(false);
	put_method(0x400, STR_LOAD, ELF_TEXT + 0x600, 0x82, false);
	put_method(0x420, STR_LOADS, ELF_TEXT + 0x700, 0x82, false);
	make(NULL, 0);
	assert_int_equal(open_built(), 0);
	assert_int_equal(dlp_elf_find_pickle_loads(elf, &sym), -ENOTUNIQ);
}

/* The compiler's and nm's opinion; what a linker really does. */
static const char compiled_source[] =
	"#include <stddef.h>\n"
	"struct def { const char *name; void *(*meth)(void *); int flags; const char *doc; };\n"
	"__attribute__((noinline)) static void *pickled(void *a) { return (char *)a + 1; }\n"
	"__attribute__((noinline)) static void *marshalled(void *a) { return (char *)a + 2; }\n"
	"__attribute__((noinline)) static void *hidden_one(void *a) { return (char *)a + 3; }\n"
	"__attribute__((weak)) void *weak_one(void *a) { return (char *)a + 4; }\n"
	"void *old_v(void *a) { return (char *)a + 5; }\n"
	"void *new_v(void *a) { return (char *)a + 6; }\n"
	"__asm__(\".symver old_v,versioned@V1\\n.symver new_v,versioned@@V2\");\n"
	"char zeroes[400]; long filled = 7;\n"
	"struct def pickle_like[] = {\n"
	" {\"dump\", hidden_one, 0x82, 0}, {\"dumps\", hidden_one, 0x82, 0},\n"
	" {\"load\", hidden_one, 0x82, 0}, {\"loads\", pickled, 0x82, \"doc\"}, {0}};\n"
	"struct def marshal_like[] = {\n"
	" {\"dump\", hidden_one, 0x82, 0}, {\"load\", hidden_one, 0x82, 0},\n"
	" {\"dumps\", hidden_one, 0x82, 0}, {\"loads\", marshalled, 0x82, \"doc\"}, {0}};\n"
	"int main(void) { return 0; }\n";

static bool compile_fixture(const char *name, const char *flags)
{
	char command[1024];

	tree_text(&tree, "v.map", "V1 { global: *; }; V2 { } V1;\n");
	tree_write(&tree, "f.c", compiled_source, sizeof(compiled_source) - 1);
	(void)snprintf(
		command, sizeof(command),
		"cd %s && ${CC:-cc} -O1 -w f.c -o %s %s -Wl,--version-script=v.map 2>/dev/null",
		tree.path, name, flags);
	return !system(command);
}

/* What nm prints about the file the compiler made: .symtab, then .dynsym. */
static char nm_text[2][65536];

static bool run_nm(const char *file)
{
	for (int dynamic = 0; dynamic < 2; dynamic++) {
		char command[512];
		FILE *pipe;
		size_t len;

		(void)snprintf(command, sizeof(command), "nm %s %s 2>/dev/null",
			       dynamic ? "-D" : "", tree_path(&tree, "%s", file));
		pipe = popen(command, "r");
		assert_non_null(pipe);
		len = fread(nm_text[dynamic], 1, sizeof(nm_text[0]) - 1, pipe);
		nm_text[dynamic][len] = '\0';
		pclose(pipe);
		if (!len)
			return false;
	}
	return true;
}

static uint64_t nm_addr(bool dynamic, const char *name)
{
	unsigned long long addr = 0;
	char needle[128];
	const char *at;

	/* "0000000000001139 T name" */
	(void)snprintf(needle, sizeof(needle), " %s\n", name);
	at = strstr(nm_text[dynamic], needle);
	if (at && at - nm_text[dynamic] >= 18)
		(void)sscanf(at - 18, "%llx", &addr);
	return addr;
}

static void compare_with_nm(const char *file, bool has_symtab)
{
	uint64_t pickled = nm_addr(false, "pickled");
	struct dlp_elf_method loads = { "loads", DLP_METH_FASTCALL_KEYWORDS, "load" };
	struct dlp_elf_sym sym;

	assert_int_equal(dlp_elf_open(tree_path(&tree, "%s", file), &elf), 0);
	assert_int_equal(find("weak_one", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, nm_addr(true, "weak_one@@V1"));
	assert_true(sym.weak);
	assert_int_equal(find("versioned", DLP_ELF_EXACT, &sym), 0);
	assert_int_equal(sym.addr, nm_addr(true, "versioned@@V2"));
	assert_int_equal(find("hidden_one", DLP_ELF_EXACT, &sym), has_symtab ? 0 : -ENOENT);
	if (has_symtab)
		assert_int_equal(sym.addr, nm_addr(false, "hidden_one"));
	assert_int_equal(dlp_elf_find(elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "zeroes", &sym), 0);
	assert_int_equal(sym.addr, nm_addr(true, "zeroes@@V1"));
	assert_int_equal(sym.size, 400);
	assert_int_not_equal(pickled, 0);
	assert_int_equal(dlp_elf_find_method(elf, &loads, &sym), 0);
	assert_int_equal(sym.addr, pickled);
	dlp_elf_free(elf);
	elf = NULL;
}

static void what_compilers_make_agrees_with_nm(void **state)
{
	static const char *const kind[] = {
		"-shared -fPIC",
		"-no-pie -fno-pie -rdynamic",
		/* addends stand in the data, not in relocations; old linkers ignore it */
		"-shared -fPIC -Wl,-z,pack-relative-relocs",
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(kind); i++) {
		char command[512];

		if (!compile_fixture("full.so", kind[i]) || !run_nm("full.so")) {
			print_message("no compiler or no nm for %s\n", kind[i]);
			skip();
		}
		compare_with_nm("full.so", true);
		(void)snprintf(command, sizeof(command), "cd %s && strip -o bare.so full.so",
			       tree.path);
		assert_int_equal(system(command), 0);
		compare_with_nm("bare.so", false);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(methods_are_found_in_tables),	  TEST(a_symbol_beats_the_table),
		TEST(other_methods_are_left_alone),	  TEST(two_such_methods_are_ambiguous),
		TEST(the_slot_of_next_is_found),	  TEST(what_compilers_make_agrees_with_nm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
