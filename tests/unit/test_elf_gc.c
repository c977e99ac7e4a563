/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The garbage collector's functions in made-up ELF files: by their names, and by what their code
 * does; and what references of code are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf_build.h"
#include "elf_code.h"
#include "elf_gc.h"
#include "tree.h"
#include "util.h"

/* The interpreter's functions, as offsets in the text. */
enum {
	COLLECT = 0x100, /* PyGC_Collect, which calls MAIN by way of STEP and has nothing else */
	STEP = 0x180,
	MAIN = 0x200,
	DECREF = 0x400,
	REACHABLE = 0x440,
	SUBTYPE = 0x500,
	DICT = 0x600,
	LIST = 0x680,
	OTHER = 0x700,	   /* called by MAIN: uses tp_traverse once, takes no address */
	LARGE = 0x800,	   /* MAIN takes its address: too large for what visits an object */
	TYPE_NEW = 0x1000, /* takes SUBTYPE's address and reads tp_traverse */
	LAST = 0x1100,
};

static const uint32_t starts[] = { COLLECT, STEP, MAIN,	 DECREF, REACHABLE, SUBTYPE,
				   DICT,    LIST, OTHER, LARGE,	 TYPE_NEW,  LAST };

#define TP_TRAVERSE 184

static struct tree tree;
static struct elf_build build;
static struct dlp_elf *elf;
static struct dlp_gc_code code;
static uint32_t at; /* in the text: where code is written next */

/* The initial state is the machine whose code the file holds. */
static int start(void **state)
{
	memset(&build, 0, sizeof(build));
	build.machine = *(const uint16_t *)*state;
	elf = NULL;
	tree_init(&tree);
	memcpy(build.start, starts, sizeof(starts));
	build.start_cnt = DLP_ARRAY_SIZE(starts);
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

static void emit(const void *bytes, size_t cnt)
{
	memcpy(build.text + at, bytes, cnt);
	at += (uint32_t)cnt;
}

static bool is_arm64(void)
{
	return build.machine == EM_AARCH64;
}

static void put_word(uint32_t insn)
{
	emit(&insn, 4);
}

static void put_call(uint32_t target)
{
	if (is_arm64()) {
		put_word(0x94000000 | ((target - at) >> 2 & 0x3ffffff));
		return;
	}
	emit("\xe8", 1);
	put_word(target - (at + 4));
}

/* adrp x1,page(target); add x1,x1,#the rest */
static void put_arm64_address(uint32_t target)
{
	int64_t pages = (int64_t)((ELF_TEXT + target) >> 12) - (int64_t)((ELF_TEXT + at) >> 12);

	put_word(0x90000001 | (uint32_t)(pages & 3) << 29 | (uint32_t)(pages >> 2 & 0x7ffff) << 5);
	put_word(0x91000021 | (uint32_t)((ELF_TEXT + target) & 0xfff) << 10);
}

/* lea target(%rip),%rsi; where the file is not moved, mov $target,%esi */
static void put_address(uint32_t target)
{
	if (is_arm64()) {
		put_arm64_address(target);
	} else if (build.type == ET_EXEC) {
		emit("\xbe", 1);
		put_word((uint32_t)ELF_TEXT + target);
	} else {
		emit("\x48\x8d\x35", 3);
		put_word(target - (at + 4));
	}
}

/* call *field(%rax); ldr x0,[x0,#field] */
static void put_field(uint32_t field)
{
	if (is_arm64()) {
		put_word(0xf9400000 | field / 8 << 10);
		return;
	}
	emit("\xff\x90", 2);
	put_word(field);
}

/* mov field(%r12),%r13: with a SIB byte */
static void put_load(uint32_t field)
{
	if (is_arm64()) {
		put_field(field);
		return;
	}
	emit("\x4d\x8b\xac\x24", 4);
	put_word(field);
}

static void write_code(void)
{
	at = COLLECT;
	put_call(STEP);
	at = STEP;
	put_call(MAIN);
	at = MAIN;
	put_field(TP_TRAVERSE);
	put_address(DECREF);
	put_call(OTHER);
	put_field(TP_TRAVERSE);
	put_address(REACHABLE);
	put_address(LARGE);
	at = SUBTYPE;
	put_load(TP_TRAVERSE);
	put_address(SUBTYPE);
	put_load(TP_TRAVERSE);
	at = OTHER;
	put_field(TP_TRAVERSE);
	at = TYPE_NEW;
	put_field(TP_TRAVERSE);
	put_field(TP_TRAVERSE);
	put_address(SUBTYPE);
}

static int find(const struct elf_build_sym *sym, size_t cnt)
{
	const char *path = tree_path(&tree, "python");

	build.sym = sym;
	build.sym_cnt = cnt;
	elf_build(&build);
	elf_build_write(&build, path);
	assert_int_equal(dlp_elf_open(path, &elf), 0);
	return dlp_elf_find_gc(elf, &code);
}

static void expect(size_t i, uint64_t lo, uint64_t hi)
{
	assert_true(i < code.cnt);
	assert_int_equal(code.range[i].lo, ELF_TEXT + lo);
	assert_int_equal(code.range[i].hi, ELF_TEXT + hi);
}

#define FUNC(sym_name, sym_off, dynamic)                                                           \
	{                                                                                          \
		.name = sym_name, .where = ELF_IN_TEXT, .off = sym_off, .size = 0x30,              \
		.bind = STB_GLOBAL, .type = STT_FUNC, .is_dynamic = dynamic                        \
	}
#define TYPE(sym_name, sym_off, bytes)                                                             \
	{                                                                                          \
		.name = sym_name, .where = ELF_IN_DATA, .off = sym_off, .size = bytes,             \
		.bind = STB_GLOBAL, .type = STT_OBJECT, .is_dynamic = true                         \
	}

/* Two types, and one too small to be what its name says; PyGC_Collect is the root. */
static const struct elf_build_sym exported[] = {
	FUNC("PyGC_Collect", COLLECT, true),
	TYPE("PyDict_Type", 0x100, 408),
	TYPE("PyList_Type", 0x300, 408),
	TYPE("PyShort_Type", 0x500, 100),
};

static void named_functions(void **state)
{
	static const struct elf_build_sym sym[] = {
		FUNC("gc_collect_main.lto_priv.0", 0x200, false),
		FUNC("visit_decref", 0x240, false),		 /* 16 bytes behind: apart */
		FUNC("tupletraverse.constprop.0", 0x27f, false), /* 15: one range */
		FUNC("gc_collect_main.cold", 0x1000, false),
		FUNC("gc_collect_mainly", 0x400, false),
		FUNC("traverse_dict", 0x480, false),
		FUNC("gc_enable", 0x500, false),
		FUNC("PyObject_Call", 0x600, true),
	};

	(void)state;
	assert_int_equal(find(sym, DLP_ARRAY_SIZE(sym)), 0);
	assert_int_equal(code.cnt, 3);
	expect(0, 0x200, 0x230);
	expect(1, 0x240, 0x2af);
	expect(2, 0x1000, 0x1030);
}

/* Traverse functions alone would show a part of the collector's time only. */
static void no_collector_is_none(void **state)
{
	static const struct elf_build_sym sym[] = {
		FUNC("dict_traverse", 0x200, false),
		FUNC("PyGC_Collect", COLLECT, true),
	};

	(void)state;
	assert_int_equal(find(sym, DLP_ARRAY_SIZE(sym)), -ENOENT);
	assert_int_equal(code.cnt, 0);
}

static void put_pointer(uint64_t off, uint64_t value, bool relocate)
{
	if (relocate)
		build.rela[build.rela_cnt++] =
			(Elf64_Rela){ ELF_DATA + off,
				      is_arm64() ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE,
				      (int64_t)value };
	else
		memcpy(build.data + off, &value, 8);
}

static void stripped_functions(void **state)
{
	(void)state;
	write_code();
	put_pointer(0x100 + TP_TRAVERSE, ELF_TEXT + DICT, true);
	put_pointer(0x300 + TP_TRAVERSE, ELF_TEXT + LIST, true);
	put_pointer(0x500 + TP_TRAVERSE, ELF_TEXT + LARGE, true);
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), 0);
	/* one run from PyGC_Collect to LIST: each of them reaches up to the next */
	assert_int_equal(code.cnt, 1);
	expect(0, COLLECT, OTHER);
}

static void stripped_parts(void **state)
{
	(void)state;
	write_code();
	/* not found: a type without tp_traverse, and a pointer to no function's beginning */
	put_pointer(0x300 + TP_TRAVERSE, ELF_TEXT + LIST + 4, true);
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), 0);
	assert_int_equal(code.cnt, 1);
	expect(0, COLLECT, DICT);
}

/* An executable that runs at its own addresses: they stand in its code and data as they are. */
static void stripped_fixed(void **state)
{
	(void)state;
	build.type = ET_EXEC;
	write_code();
	put_pointer(0x100 + TP_TRAVERSE, ELF_TEXT + LIST, false);
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), 0);
	assert_int_equal(code.cnt, 2);
	expect(0, COLLECT, DICT);
	expect(1, LIST, OTHER);
}

static void two_alike_are_none(void **state)
{
	(void)state;
	write_code();
	at = DICT;
	put_load(TP_TRAVERSE);
	put_address(DICT);
	put_load(TP_TRAVERSE);
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), 0);
	assert_int_equal(code.cnt, 1);
	expect(0, COLLECT, SUBTYPE);
}

static void no_table_of_functions(void **state)
{
	(void)state;
	build.start_cnt = 0;
	write_code();
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), -ENOENT);
}

/* One field of the table's head, and what becomes of it. */
static int damaged(size_t off, const void *bytes, size_t cnt)
{
	const char *path = tree_path(&tree, "python");
	int err;

	memcpy(build.bytes + build.frame_off + off, bytes, cnt);
	elf_build_write(&build, path);
	dlp_elf_free(elf);
	elf = NULL;
	assert_int_equal(dlp_elf_open(path, &elf), 0);
	err = dlp_elf_find_gc(elf, &code);
	assert_true(!err || !code.cnt);
	return err;
}

static void damaged_tables(void **state)
{
	const uint32_t large = 0x7fffffff, cnt = DLP_ARRAY_SIZE(starts), none = 0;
	const int32_t backwards = INT32_MAX;

	(void)state;
	write_code();
	assert_int_equal(find(exported, DLP_ARRAY_SIZE(exported)), 0);
	assert_int_equal(damaged(8, &large, 4), -EBADMSG);
	assert_int_equal(damaged(8, &none, 4), -ENOENT);
	assert_int_equal(damaged(8, &cnt, 4), 0);
	/* another version, and another encoding */
	assert_int_equal(damaged(0, "\x02", 1), -ENOENT);
	assert_int_equal(damaged(0, "\x01", 1), 0);
	assert_int_equal(damaged(3, "\x30", 1), -ENOENT);
	assert_int_equal(damaged(3, "\x3b", 1), 0);
	/* not in order */
	assert_int_equal(damaged(12, &backwards, 4), -EBADMSG);
}

struct seen {
	unsigned int call, address, field;
	uint64_t last;
};

static void on_ref(void *ctx, enum dlp_elf_ref ref, uint64_t target)
{
	struct seen *seen = ctx;

	seen->call += ref == DLP_ELF_CALL;
	seen->address += ref == DLP_ELF_ADDRESS;
	seen->field += ref == DLP_ELF_FIELD;
	seen->last = target;
}

static struct seen look(uint32_t function, const struct dlp_elf_question *question, int wanted)
{
	struct dlp_elf_starts known;
	struct seen seen = { 0 };

	assert_int_equal(dlp_elf_starts_read(elf, &known), 0);
	assert_int_equal(known.cnt, DLP_ARRAY_SIZE(starts));
	assert_int_equal(dlp_elf_refs(elf, &known, ELF_TEXT + function, question, on_ref, &seen),
			 wanted);
	dlp_elf_starts_fini(&known);
	return seen;
}

static void references(void **state)
{
	struct dlp_elf_question question = { .bytes_max = 0x200, .field = TP_TRAVERSE };
	struct seen seen;

	(void)state;
	write_code();
	(void)find(exported, DLP_ARRAY_SIZE(exported));
	seen = look(MAIN, &question, 0);
	assert_int_equal(seen.call, 1);
	assert_int_equal(seen.address, 3);
	assert_int_equal(seen.field, 2);
	assert_int_equal(seen.last, ELF_TEXT + LARGE);
	seen = look(SUBTYPE, &question, 0);
	assert_int_equal(seen.address, 1);
	assert_int_equal(seen.field, 2);
	/* only itself */
	question.own = true;
	seen = look(MAIN, &question, 0);
	assert_int_equal(seen.call + seen.address, 0);
	assert_int_equal(seen.field, 2);
	assert_int_equal(look(SUBTYPE, &question, 0).address, 1);
	/* another field */
	question.field = TP_TRAVERSE + 8;
	assert_int_equal(look(MAIN, &question, 0).field, 0);
	question.bytes_max = 0x1ff;
	(void)look(MAIN, &question, -EFBIG);
	(void)look(MAIN + 4, &question, -ENOENT);
}

static void room_of_functions(void **state)
{
	struct dlp_elf_starts known;

	(void)state;
	write_code();
	(void)find(exported, DLP_ARRAY_SIZE(exported));
	assert_int_equal(dlp_elf_starts_read(elf, &known), 0);
	assert_int_equal(dlp_elf_room(elf, &known, ELF_TEXT + DECREF), REACHABLE - DECREF);
	assert_int_equal(dlp_elf_room(elf, &known, ELF_TEXT + DECREF + 1), 0);
	/* the last one ends with the code */
	assert_int_equal(dlp_elf_room(elf, &known, ELF_TEXT + LAST), ELF_PART_BYTES - LAST);
	assert_int_equal(dlp_elf_room(elf, &known, ELF_DATA), 0);
	dlp_elf_starts_fini(&known);
}

int main(void)
{
	static uint16_t x86 = EM_X86_64, arm64 = EM_AARCH64;
#define TEST(name)                                                                                 \
	{ #name, name, start, end, &x86 },                                                         \
	{                                                                                          \
#name " (arm64)", name, start, end, &arm64                                         \
	}
	const struct CMUnitTest tests[] = {
		TEST(named_functions),	     TEST(no_collector_is_none), TEST(stripped_functions),
		TEST(stripped_parts),	     TEST(stripped_fixed),	 TEST(two_alike_are_none),
		TEST(no_table_of_functions), TEST(damaged_tables),	 TEST(references),
		TEST(room_of_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
