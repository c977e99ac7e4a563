/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which functions are probed in real releases of torch: what is left of their libraries is in
 * tests/data/torch, with the places that binutils found in the originals. What a release calls, and
 * so which pair serves it, was measured on running ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "probes.h"
#include "util.h"
#include "version.h"

#define PID 100
/* Neither an address of the file nor an offset in it. */
#define CPU_BASE 0x200000000ull
#define PYTHON_BASE 0x300000000ull

struct release {
	const char *name; /* in tests/data/torch */
	const char *version;
	enum dlp_scope_kind kind;
	uint32_t args_param; /* B; what binutils call "op_forwarded" is at 5 */
	bool pair_hidden;    /* B although A would do: the exit is taken away */
};

#define A(name, version)                                                                           \
	{                                                                                          \
		name, version, DLP_SCOPE_KIND_A, 0, false                                          \
	}
#define B(name, version)                                                                           \
	{                                                                                          \
		name, version, DLP_SCOPE_KIND_B, 4, false                                          \
	}
#define C(name, version)                                                                           \
	{                                                                                          \
		name, version, DLP_SCOPE_KIND_C, 0, false                                          \
	}
#define HIDDEN(name, version, param)                                                               \
	{                                                                                          \
		name, version, DLP_SCOPE_KIND_B, param, true                                       \
	}

static const struct release releases[] = {
	C("1.8.1", "1.8.1+cu102"),
	C("1.8.1-arm64", "1.8.1"),
	C("1.10.2", "1.10.2+cu102"),
	B("1.12.1", "1.12.1+cu102"),
	B("1.12.1-arm64", "1.12.1"),
	B("1.13.1", "1.13.1+cu117"),
	B("1.13.1-debian", "1.13.0"),
	A("2.0.1", "2.0.1+cu117"),
	A("2.0.1-arm64", "2.0.1"),
	A("2.6.0", "2.6.0+cu124"),
	A("2.6.0-arm64", "2.6.0"),
	A("2.6.0-debian", "2.6.0+debian"),
	A("2.8.0", "2.8.0+cu128"),
	A("2.9.1", "2.9.1+cu128"),
	A("2.9.1-stripped", "2.9.1+cu128"),
	A("2.9.1-arm64", "2.9.1"),
	A("2.9.1-arm64-stripped", "2.9.1"),
	A("2.13.0", "2.13.0+cpu"),
	A("2.13.0-stripped", "2.13.0+cpu"),
	A("2.14.1", "2.14.1+cu130"),
	A("2.14.1-debian", "2.14.1+debian"),
	A("2.15.0", "2.15.0+cu130"),
	A("2.15.0-arm64", "2.15.0"),
	/* the operator where it does the work, and where it forwards: by name, and by its call */
	HIDDEN("2.0.1", "2.0.1", 4),
	HIDDEN("2.0.1-arm64", "2.0.1", 4),
	HIDDEN("2.6.0", "2.6.0", 4),
	HIDDEN("2.6.0-debian", "2.6.0", 4),
	HIDDEN("2.8.0", "2.8.0", 4),
	HIDDEN("2.9.1", "2.9.1", 5),
	HIDDEN("2.9.1-stripped", "2.9.1", 5),
	HIDDEN("2.9.1-arm64", "2.9.1", 5),
	HIDDEN("2.9.1-arm64-stripped", "2.9.1", 5),
	HIDDEN("2.13.0", "2.13.0", 5),
	HIDDEN("2.13.0-stripped", "2.13.0", 5),
	HIDDEN("2.14.1", "2.14.1", 5),
	HIDDEN("2.14.1-debian", "2.14.1", 5),
	HIDDEN("2.15.0", "2.15.0", 5),
	HIDDEN("2.15.0-arm64", "2.15.0", 5),
};

static struct tree tree;
static struct dlp_proc_maps maps;
static struct dlp_probe_sources sources;
static struct dlp_target target;
static struct dlp_target_failure failure;

static int start(void **state)
{
	(void)state;
	memset(&maps, 0, sizeof(maps));
	memset(&sources, 0, sizeof(sources));
	memset(&target, 0, sizeof(target));
	memset(&failure, 0, sizeof(failure));
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID, .ppid = 1, .comm = "python" });
	sources.view = (struct dlp_process_view){ .root = tree.path, .pid = PID, .maps = &maps };
	assert_true(dlp_version_parse("3.11.2", &target.python));
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlp_mapped_fini(&sources.torch_python);
	dlp_mapped_fini(&sources.torch_cpu);
	dlp_proc_maps_fini(&maps);
	tree_fini(&tree);
	return 0;
}

/* As dlp_mapped_open does, but of any machine's files. */
static void open_library(const char *release, const char *library, struct dlp_mapped *ret)
{
	char name[96], path[64];

	(void)snprintf(name, sizeof(name), "%s-%s", release, library);
	(void)snprintf(path, sizeof(path), "libtorch_%s.so", library);
	fixture_unpack(&tree, name, path);
	(void)snprintf(ret->path, sizeof(ret->path), "%s", tree_path(&tree, "%s", path));
	assert_int_equal(dlp_elf_open(ret->path, &ret->elf), 0);
}

/* Each executable segment where the loader would put it. */
static void map_library(FILE *out, const struct dlp_mapped *mapped, uint64_t base, int inode)
{
	for (size_t i = 0; i < mapped->elf->phdr_cnt; i++) {
		const Elf64_Phdr *phdr = &mapped->elf->phdr[i];
		uint64_t from = base + (phdr->p_vaddr & ~0xfffull);
		uint64_t to = base + phdr->p_vaddr + phdr->p_memsz;
		uint64_t offset = phdr->p_offset & ~0xfffull;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_X)
			fprintf(out, "%" PRIx64 "-%" PRIx64 " r-xp %" PRIx64 " 08:01 %d %s\n", from,
				to, offset, inode, mapped->path);
	}
}

static void load(const struct release *release)
{
	FILE *out;

	open_library(release->name, "cpu", &sources.torch_cpu);
	open_library(release->name, "python", &sources.torch_python);
	out = fopen(tree_path(&tree, "proc/%d/maps", PID), "w");
	assert_non_null(out);
	map_library(out, &sources.torch_cpu, CPU_BASE, 1);
	map_library(out, &sources.torch_python, PYTHON_BASE, 2);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(dlp_proc_maps_read(tree.path, PID, &maps), 0);
	sources.torch_cpu.map = dlp_mapped_find_path(&maps, sources.torch_cpu.path);
	sources.torch_python.map = dlp_mapped_find_path(&maps, sources.torch_python.path);
	assert_non_null(sources.torch_cpu.map);
	assert_non_null(sources.torch_python.map);
	assert_true(dlp_version_parse(release->version, &target.torch));
}

/* A build that exports no exit: libtorch_cpu's tables are gone. */
static void hide_pair(void)
{
	sources.torch_cpu.elf->dynsym.cnt = 0;
	sources.torch_cpu.elf->symtab.cnt = 0;
}

/* Functions of Debian's builds begin with a mark, behind which the probe goes. */
static uint64_t behind_endbr64(const char *library, uint64_t offset)
{
	const struct dlp_mapped *mapped = strcmp(library, "cpu") ? &sources.torch_python :
								   &sources.torch_cpu;
	char code[4];

	assert_int_equal(dlp_elf_read(mapped->elf, offset, code, sizeof(code)), 0);
	return memcmp(code, "\xf3\x0f\x1e\xfa", sizeof(code)) ? offset : offset + sizeof(code);
}

static void check_probe(const struct release *release, size_t i, enum dlp_probe_id id,
			const char *library, const char *function)
{
	const struct dlp_probe *probe = &target.probe[i];
	uint64_t wanted =
		behind_endbr64(library, fixture_expected(release->name, library, function));

	if (i >= target.probe_cnt || probe->id != id || probe->offset != wanted ||
	    !strstr(probe->path, library))
		fail_msg("%s: probe %zu of %zu is %s at %#llx in %s, not %s of %s at %#llx",
			 release->name, i, target.probe_cnt, probe->symbol,
			 (unsigned long long)probe->offset, probe->path, function, library,
			 (unsigned long long)wanted);
}

static void check_release(const struct release *release)
{
	const char *op = release->args_param == 5 ? "op_forwarded" : "op_vector";

	load(release);
	if (release->pair_hidden)
		hide_pair();
	if (dlp_probes_scope(&sources, &target, &failure))
		fail_msg("%s: %s", release->name, failure.text);
	if (target.scope_kind != release->kind)
		fail_msg("%s is of kind %d", release->name, (int)target.scope_kind);
	switch (release->kind) {
	case DLP_SCOPE_KIND_A:
		assert_int_equal(target.probe_cnt, 3);
		check_probe(release, 0, DLP_PROBE_SCOPE_ENTER, "cpu", "enter_new");
		check_probe(release, 1, DLP_PROBE_SCOPE_EXIT, "cpu", "exit_class");
		check_probe(release, 2, DLP_PROBE_SCOPE_EXIT, "python", "exit_class");
		break;
	case DLP_SCOPE_KIND_B:
		assert_int_equal(target.probe_cnt, 1);
		check_probe(release, 0, DLP_PROBE_SCOPE_OP, "python", op);
		assert_int_equal(target.op_args_param, release->args_param);
		assert_int_equal(target.op_exit_delta, release->pair_hidden ? 1 : 2);
		break;
	case DLP_SCOPE_KIND_C:
		assert_int_equal(target.probe_cnt, 2);
		check_probe(release, 0, DLP_PROBE_SCOPE_ENTER, "cpu", "enter_old");
		check_probe(release, 1, DLP_PROBE_SCOPE_EXIT, "cpu", "exit_old");
		break;
	case DLP_SCOPE_KIND_NONE:
		fail();
	}
}

static void every_release(void **state)
{
	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(releases); i++) {
		end(NULL);
		start(NULL);
		check_release(&releases[i]);
	}
}

/* From 1.13 on they keep what is needed. */
static void stripped_old_releases_are_refused(void **state)
{
	static const struct release stripped[] = {
		C("1.8.1-stripped", "1.8.1"),
		B("1.12.1-stripped", "1.12.1"),
	};
	static const char *const texts[] = {
		"no usable probe point in torch 1.8.1: libtorch_cpu.so has no symbol for "
		"record_function_enter: it is stripped; use its wheel, or torch 1.13 or later",
		"no usable probe point in torch 1.12.1: libtorch_python.so has no symbol for "
		"_get_operation_for_overload_or_packet: it is stripped; use its wheel, or torch "
		"1.13 or later",
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(stripped); i++) {
		end(NULL);
		start(NULL);
		load(&stripped[i]);
		assert_int_equal(dlp_probes_scope(&sources, &target, &failure), -1);
		assert_int_equal(failure.err, DLP_TARGET_NO_PROBE);
		assert_int_equal(target.probe_cnt, 0);
		assert_string_equal(failure.text, texts[i]);
	}
}

/* Without a version: 1.13 has the names of A, and never calls them. */
static void releases_of_unknown_version(void **state)
{
	static const char *const names[] = { "1.13.1",		"1.13.1-debian", "2.0.1",
					     "2.13.0-stripped", "1.10.2",	 "2.9.1-arm64",
					     "1.12.1-arm64" };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(names); i++) {
		const struct release *release = releases;

		while (strcmp(release->name, names[i]))
			release++;
		end(NULL);
		start(NULL);
		load(release);
		memset(&target.torch, 0, sizeof(target.torch));
		if (dlp_probes_scope(&sources, &target, &failure))
			fail_msg("%s: %s", release->name, failure.text);
		if (target.scope_kind != release->kind)
			fail_msg("%s is of kind %d", release->name, (int)target.scope_kind);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(every_release),
		TEST(stripped_old_releases_are_refused),
		TEST(releases_of_unknown_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
