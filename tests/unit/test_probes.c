/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which functions are probed for which torch, and what keeps a probe from being set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fake_torch.h"
#include "probes.h"
#include "util.h"
#include "version.h"

#define PID 100
#define CPU_ADDR 0x10000000ull
#define PYTHON_ADDR 0x20000000ull
#define LIBPYTHON_ADDR 0x30000000ull
#define PICKLE_ADDR 0x40000000ull
#define LIBC_ADDR 0x50000000ull

static const struct elf_build_sym cpu_new[] = {
	FAKE_FUNC(SYM_ENTER_NEW_2_13, 0x100, 0x83, true),
	FAKE_FUNC(SYM_ENTER_NEW_2_13 ".cold", 0x1100, 0x20, false),
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x200, 0x244, true),
	FAKE_FUNC(SYM_SINCE_2_0, 0x300, 0x100, true),
};
static const struct elf_build_sym python_new[] = {
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x400, 0x5f5, true),
	FAKE_FUNC(SYM_OP_VECTOR, 0x500, 0x3f, true),
	FAKE_FUNC(SYM_OP_ARRAYREF, 0x600, 0x4ee, false),
};
/* 1.13: all names of the new pair, never called */
static const struct elf_build_sym cpu_1_13[] = {
	FAKE_FUNC(SYM_ENTER_NEW_1_13, 0x100, 0x87, true),
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x200, 0x316, true),
};
static const struct elf_build_sym python_1_13[] = {
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x400, 0x362, true),
	FAKE_FUNC(SYM_OP_VECTOR, 0x500, 0x88a, true),
};
static const struct elf_build_sym cpu_1_10[] = {
	FAKE_FUNC(SYM_ENTER_OLD, 0x100, 0x80, false),
	FAKE_FUNC(SYM_EXIT_OLD, 0x200, 0x80, false),
};
static const struct elf_build_sym python_1_10[] = {
	FAKE_FUNC("_ZN5torch3jit24invokeOperatorFromPythonERKSt6vector", 0x500, 0x88a, false),
};

static struct tree tree;
static struct elf_build build;
static struct dlp_proc_maps maps;
static struct dlp_probe_sources sources;
static struct dlp_target target;
static struct dlp_target_failure failure;

static int start(void **state)
{
	(void)state;
	memset(&build, 0, sizeof(build));
	memset(&maps, 0, sizeof(maps));
	memset(&sources, 0, sizeof(sources));
	memset(&target, 0, sizeof(target));
	memset(&failure, 0, sizeof(failure));
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID, .ppid = 1, .comm = "python" });
	sources.view = (struct dlp_process_view){ .root = tree.path, .pid = PID, .maps = &maps };
	target.pid = PID;
	assert_true(dlp_version_parse("3.11.2", &target.python));
	fake_code(&build);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlp_mapped_fini(&sources.torch_python);
	dlp_mapped_fini(&sources.torch_cpu);
	dlp_mapped_fini(&sources.python);
	dlp_mapped_fini(&sources.pickle);
	dlp_proc_maps_fini(&maps);
	elf_build_fini(&build);
	tree_fini(&tree);
	return 0;
}

static void map(const struct elf_build_sym *sym, size_t cnt, const char *path, uint64_t addr,
		unsigned int flags)
{
	fake_map(&tree, PID, &build, sym, cnt, path, addr, flags);
	elf_build_fini(&build);
}

#define MAP_CPU(syms) map(syms, DLP_ARRAY_SIZE(syms), FAKE_TORCH_CPU, CPU_ADDR, 0)
#define MAP_PYTHON(syms) map(syms, DLP_ARRAY_SIZE(syms), FAKE_TORCH_PYTHON, PYTHON_ADDR, 0)

static void open_one(enum dlp_mapped_name name, struct dlp_mapped *ret)
{
	const struct dlp_proc_map *found = dlp_mapped_find(&maps, name);

	if (found)
		assert_int_equal(dlp_mapped_open(&sources.view, found, ret), 0);
}

static void open_all(void)
{
	assert_int_equal(dlp_proc_maps_read(tree.path, PID, &maps), 0);
	open_one(DLP_MAPPED_TORCH_CPU, &sources.torch_cpu);
	open_one(DLP_MAPPED_TORCH_PYTHON, &sources.torch_python);
	open_one(DLP_MAPPED_LIBPYTHON, &sources.python);
	open_one(DLP_MAPPED_PICKLE, &sources.pickle);
}

static int scope(const char *version)
{
	open_all();
	if (version)
		assert_true(dlp_version_parse(version, &target.torch));
	return dlp_probes_scope(&sources, &target, &failure);
}

static void check(size_t index, enum dlp_probe_id id, const char *base, uint64_t offset)
{
	const struct dlp_probe *probe = &target.probe[index];

	assert_true(index < target.probe_cnt);
	assert_int_equal(probe->id, id);
	assert_string_equal(dlp_mapped_base(probe->shown), base);
	assert_int_equal(probe->offset, ELF_TEXT_OFF + offset);
	assert_int_equal(probe->insn, FAKE_INSN);
	assert_false(probe->slow);
}

/* For tests that bring instructions of their own. */
static void needs_x86(void)
{
	if (DLP_ARCH_MACHINE == EM_X86_64)
		return;
	puts("SKIP: its instructions are x86-64's");
	skip();
}

static void check_pair_new(void)
{
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_A);
	assert_int_equal(target.probe_cnt, 3);
	check(0, DLP_PROBE_SCOPE_ENTER, "libtorch_cpu.so", 0x100);
	check(1, DLP_PROBE_SCOPE_EXIT, "libtorch_cpu.so", 0x200);
	check(2, DLP_PROBE_SCOPE_EXIT, "libtorch_python.so", 0x400);
	assert_int_equal(strncmp(target.probe[0].symbol, SYM_ENTER_NEW_2_13, 150), 0);
}

static void torch_2_has_a_pair(void **state)
{
	(void)state;
	MAP_CPU(cpu_new);
	MAP_PYTHON(python_new);
	assert_int_equal(scope("2.13.0+cpu"), 0);
	check_pair_new();
}

static void torch_2_0_has_it_too(void **state)
{
	(void)state;
	MAP_CPU(cpu_1_13);
	MAP_PYTHON(python_1_13);
	assert_int_equal(scope("2.0.1"), 0);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_A);
}

static void torch_1_13_dispatches_operators(void **state)
{
	static const char *const versions[] = { "1.12.1", "1.13.0a0", "1.13.1+cu117" };

	(void)state;
	MAP_CPU(cpu_1_13);
	MAP_PYTHON(python_1_13);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(versions); i++) {
		end(NULL);
		start(NULL);
		MAP_CPU(cpu_1_13);
		MAP_PYTHON(python_1_13);
		assert_int_equal(scope(versions[i]), 0);
		assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_B);
		assert_int_equal(target.probe_cnt, 1);
		check(0, DLP_PROBE_SCOPE_OP, "libtorch_python.so", 0x500);
		assert_int_equal(target.op_args_param, 4);
		assert_int_equal(target.op_exit_delta, 2);
		assert_int_equal(target.str_data_off, 48);
		assert_int_equal(target.tuple_item_off, 24);
	}
}

static void hidden_pair_falls_back_to_operators(void **state)
{
	(void)state;
	/* the enter alone, in a build that inlined the exit's template */
	map(cpu_new, 1, FAKE_TORCH_CPU, CPU_ADDR, 0);
	MAP_PYTHON(python_new);
	assert_true(dlp_version_parse("3.12.1", &target.python));
	assert_int_equal(scope("2.9.0"), 0);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_B);
	assert_int_equal(target.probe_cnt, 1);
	check(0, DLP_PROBE_SCOPE_OP, "libtorch_python.so", 0x600);
	assert_int_equal(target.op_args_param, 5);
	assert_int_equal(target.op_exit_delta, 1);
	assert_int_equal(target.str_data_off, 40);
	assert_int_equal(target.tuple_item_off, 24);
}

static void put_call(uint32_t at, uint32_t to)
{
	const uint32_t rel = to - (at + 5);

	build.text[at] = 0xe8;
	memcpy(build.text + at + 1, &rel, sizeof(rel));
}

static void stripped_forwarders_are_decoded(void **state)
{
	(void)state;
	needs_x86();
	map(cpu_new, 1, FAKE_TORCH_CPU, CPU_ADDR, 0);
	put_call(0x533, 0x600);
	map(python_new, 2, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	assert_int_equal(scope("2.14.1"), 0);
	check(0, DLP_PROBE_SCOPE_OP, "libtorch_python.so", 0x600);
	assert_int_equal(target.op_args_param, 5);
}

/* Debian's: functions begin with endbr64, and another call leads to __stack_chk_fail in the PLT. */
static void hardened_forwarders_are_decoded(void **state)
{
	(void)state;
	needs_x86();
	map(cpu_new, 1, FAKE_TORCH_CPU, CPU_ADDR, 0);
	put_call(0x520, 0x600);
	put_call(0x533, 0x700);
	memcpy(build.text + 0x600, "\xf3\x0f\x1e\xfa\x55", 5);
	memcpy(build.text + 0x700, "\xff\x25\x02\xaa\x3d\x01\x68", 7);
	map(python_new, 2, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	assert_true(dlp_version_parse("3.14.8", &target.python));
	assert_int_equal(scope("2.14.1"), 0);
	check(0, DLP_PROBE_SCOPE_OP, "libtorch_python.so", 0x604);
	assert_int_equal(target.tuple_item_off, 32);
}

static void a_forwarder_to_two_is_not_probed(void **state)
{
	(void)state;
	needs_x86();
	map(cpu_new, 1, FAKE_TORCH_CPU, CPU_ADDR, 0);
	put_call(0x520, 0x600);
	put_call(0x533, 0x700);
	map(python_new, 2, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	assert_int_equal(scope("2.14.1"), -1);
	assert_non_null(strstr(failure.text, "several functions"));
}

static void a_forwarder_without_target_is_not_probed(void **state)
{
	(void)state;
	map(cpu_new, 1, FAKE_TORCH_CPU, CPU_ADDR, 0);
	map(python_new, 2, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	assert_int_equal(scope("2.14.1"), -1);
	assert_int_equal(failure.err, DLP_TARGET_NO_PROBE);
	assert_int_equal(target.probe_cnt, 0);
	assert_non_null(strstr(failure.text, "2.14.1"));
	assert_non_null(strstr(failure.text, "toCustomClass"));
}

static void torch_1_10_needs_its_symbols(void **state)
{
	(void)state;
	MAP_CPU(cpu_1_10);
	MAP_PYTHON(python_1_10);
	assert_int_equal(scope("1.10.2"), 0);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_C);
	assert_int_equal(target.probe_cnt, 2);
	check(0, DLP_PROBE_SCOPE_ENTER, "libtorch_cpu.so", 0x100);
	check(1, DLP_PROBE_SCOPE_EXIT, "libtorch_cpu.so", 0x200);
}

static void stripped_torch_1_10_is_refused(void **state)
{
	(void)state;
	map(cpu_1_10, 0, FAKE_TORCH_CPU, CPU_ADDR, 0);
	MAP_PYTHON(python_1_10);
	assert_int_equal(scope("1.10.2"), -1);
	assert_int_equal(failure.err, DLP_TARGET_NO_PROBE);
	assert_non_null(
		strstr(failure.text, "libtorch_cpu.so has no symbol for record_function_enter"));
}

static void older_torch_is_refused(void **state)
{
	(void)state;
	MAP_CPU(cpu_1_10);
	MAP_PYTHON(python_1_10);
	assert_int_equal(scope("1.7.1"), -1);
	assert_int_equal(failure.err, DLP_TARGET_TORCH_OLD);
	assert_string_equal(failure.text, "torch 1.7.1 has no record_function around its loader; "
					  "1.8 or later is needed");
}

static void unknown_versions_are_told_by_an_operator_of_2_0(void **state)
{
	(void)state;
	MAP_CPU(cpu_new);
	MAP_PYTHON(python_new);
	assert_int_equal(scope(NULL), 0);
	check_pair_new();
	end(NULL);
	start(NULL);
	MAP_CPU(cpu_1_13);
	MAP_PYTHON(python_1_13);
	assert_int_equal(scope(NULL), 0);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_B);
	assert_int_equal(target.op_exit_delta, 2);
	end(NULL);
	start(NULL);
	MAP_CPU(cpu_1_10);
	MAP_PYTHON(python_1_10);
	assert_int_equal(scope(NULL), 0);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_C);
}

/* Nightlies between 1.13 and 2.0: the package's own Python says which operators it calls. */
static void nightlies_are_asked_what_they_call(void **state)
{
	static const char *const calls[] = { "_record_function_enter(self.name)",
					     "_record_function_enter_new(self.name)" };
	static const enum dlp_scope_kind kinds[] = { DLP_SCOPE_KIND_B, DLP_SCOPE_KIND_A };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(calls); i++) {
		end(NULL);
		start(NULL);
		MAP_CPU(cpu_new);
		MAP_PYTHON(python_1_13);
		tree_text(&tree, "rootfs/v/torch/autograd/profiler.py",
			  "x = torch.ops.profiler.%s\n", calls[i]);
		strcpy(sources.torch_package, "/v/torch");
		assert_int_equal(scope("1.14.0a0+410ce96"), 0);
		assert_int_equal(target.scope_kind, kinds[i]);
	}
}

static void free_threaded_objects_are_not_read(void **state)
{
	(void)state;
	MAP_CPU(cpu_1_13);
	MAP_PYTHON(python_1_13);
	sources.is_free_threaded = true;
	assert_int_equal(scope("1.13.1"), -1);
	assert_int_equal(failure.err, DLP_TARGET_NO_PROBE);
	assert_non_null(strstr(failure.text, "free-threaded"));
}

static void slow_entries_are_marked(void **state)
{
	(void)state;
	memcpy(build.text + 0x100, "\x48\x83\xec\x08", 4);
	MAP_CPU(cpu_new);
	MAP_PYTHON(python_new);
	assert_int_equal(scope("2.13.0"), 0);
	assert_true(target.probe[0].slow);
	assert_int_equal(target.probe[0].insn, 0x48);
	assert_false(target.probe[1].slow);
}

static void landing_pads_are_skipped(void **state)
{
	(void)state;
	needs_x86();
	memcpy(build.text + 0x100, "\xf3\x0f\x1e\xfa\x55", 5);
	MAP_CPU(cpu_new);
	MAP_PYTHON(python_new);
	assert_int_equal(scope("2.13.0"), 0);
	check(0, DLP_PROBE_SCOPE_ENTER, "libtorch_cpu.so", 0x104);
}

static void memory_must_show_the_same_code(void **state)
{
	static const struct {
		const char *code;
		bool accepted;
	} cases[] = {
		{ "\x55\x48\x89\xe5", true },
		{ "\xcc\x48\x89\xe5", true },  /* somebody else's probe */
		{ "\xe9\x00\x00\x00", false }, /* patched */
	};
	uint8_t memory[16];

	(void)state;
	needs_x86();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		end(NULL);
		start(NULL);
		MAP_CPU(cpu_new);
		MAP_PYTHON(python_new);
		memcpy(memory, build.text + 0x100, sizeof(memory));
		fake_memory(&tree, PID, CPU_ADDR + 0x200, memory, sizeof(memory));
		fake_memory(&tree, PID, PYTHON_ADDR + 0x400, memory, sizeof(memory));
		memcpy(memory, cases[i].code, 4);
		fake_memory(&tree, PID, CPU_ADDR + 0x100, memory, sizeof(memory));
		assert_int_equal(scope("2.13.0"), cases[i].accepted ? 0 : -1);
		if (cases[i].accepted)
			continue;
		assert_int_equal(target.probe_cnt, 0);
		assert_non_null(strstr(failure.text, "in memory differs"));
	}
}

static void code_that_is_not_mapped_is_not_probed(void **state)
{
	(void)state;
	map(cpu_new, DLP_ARRAY_SIZE(cpu_new), FAKE_TORCH_CPU, CPU_ADDR, FAKE_NO_CODE);
	map(python_new, 1, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	assert_int_equal(scope("2.13.0"), -1);
	assert_int_equal(failure.err, DLP_TARGET_NO_PROBE);
	assert_non_null(
		strstr(failure.text, "libtorch_cpu.so is loaded without the part at 0x8100"));
}

static void another_machines_library_is_not_opened(void **state)
{
	const struct dlp_proc_map *found;

	(void)state;
	build.machine = DLP_ARCH_MACHINE == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
	MAP_CPU(cpu_new);
	assert_int_equal(dlp_proc_maps_read(tree.path, PID, &maps), 0);
	found = dlp_mapped_find(&maps, DLP_MAPPED_TORCH_CPU);
	assert_int_equal(dlp_mapped_open(&sources.view, found, &sources.torch_cpu), -ENOTSUP);
	assert_null(sources.torch_cpu.elf);
}

static const struct elf_build_sym libpython[] = {
	FAKE_FUNC("_Py_write", 0x100, 0x80, true),
	FAKE_FUNC("_Py_write_noraise", 0x200, 0x80, true),
};
static const struct elf_build_sym pickle[] = {
	FAKE_FUNC("_pickle_loads", 0x300, 0x80, false),
};

static void queue(void)
{
	open_all();
	dlp_probes_queue(&sources, &target);
}

static void queue_functions_are_found(void **state)
{
	(void)state;
	needs_x86();
	map(pickle, 1, FAKE_PICKLE, PICKLE_ADDR, 0);
	memcpy(build.text + 0x100, "\x48\xb8\xff\xff\xff\xff\xff\xff\xff\x7f\x55", 11);
	map(libpython, 2, FAKE_LIBPYTHON, LIBPYTHON_ADDR, 0);
	queue();
	assert_string_equal(target.queue_note, "");
	assert_int_equal(target.probe_cnt, 2);
	/* behind the movabs, at the push */
	check(0, DLP_PROBE_QUEUE_SEND, "libpython3.11.so.1.0", 0x10a);
	check(1, DLP_PROBE_QUEUE_RECV, dlp_mapped_base(FAKE_PICKLE), 0x300);
}

static void pickle_may_be_built_in(void **state)
{
	static const struct elf_build_sym both[] = {
		FAKE_FUNC("_Py_write", 0x100, 0x80, true),
		FAKE_FUNC("_pickle_loads", 0x200, 0x80, false),
	};

	(void)state;
	map(both, 2, FAKE_LIBPYTHON, LIBPYTHON_ADDR, 0);
	queue();
	assert_string_equal(target.queue_note, "");
	check(1, DLP_PROBE_QUEUE_RECV, "libpython3.11.so.1.0", 0x200);
}

static void missing_queue_functions_are_said(void **state)
{
	(void)state;
	map(libpython, 2, FAKE_LIBPYTHON, LIBPYTHON_ADDR, 0);
	queue();
	assert_int_equal(target.probe_cnt, 1);
	assert_string_equal(target.queue_note,
			    "messages received are not seen: libpython3.11.so.1.0 "
			    "has no symbol for pickle.loads");
	end(NULL);
	start(NULL);
	map(pickle, 1, FAKE_PICKLE, PICKLE_ADDR, 0);
	map(libpython + 1, 1, FAKE_LIBPYTHON, LIBPYTHON_ADDR, 0);
	queue();
	assert_int_equal(target.probe_cnt, 1);
	assert_string_equal(target.queue_note,
			    "messages sent are not seen: libpython3.11.so.1.0 has "
			    "no symbol for _Py_write");
	end(NULL);
	start(NULL);
	queue();
	assert_int_equal(target.probe_cnt, 0);
	assert_non_null(strstr(target.queue_note, "messages are not seen"));
}

static const struct elf_build_sym libc[] = {
	FAKE_FUNC("sem_open", 0x100, 0x80, true),
	FAKE_FUNC("sem_close", 0x200, 0x80, true),
};

static void iterator(void)
{
	open_all();
	dlp_probes_iterator(&sources, &target);
}

static void semaphores_are_in_libc(void **state)
{
	(void)state;
	needs_x86();
	map(libc + 1, 1, "/usr/lib/libcrypto.so.3", PICKLE_ADDR, 0);
	memcpy(build.text + 0x100, "\xf3\x0f\x1e\xfa\x55", 5);
	map(libc, 2, FAKE_LIBC, LIBC_ADDR, 0);
	iterator();
	assert_string_equal(target.iterator_note, "");
	assert_int_equal(target.probe_cnt, 1);
	/* behind the endbr64 */
	check(0, DLP_PROBE_SEM_OPEN, "libc.so.6", 0x104);
}

static void semaphores_were_in_libpthread(void **state)
{
	(void)state;
	map(libc + 1, 1, "/usr/lib/libc-2.31.so", LIBC_ADDR, 0);
	map(libc, 1, "/usr/lib/libpthread-2.31.so", PICKLE_ADDR, 0);
	iterator();
	assert_string_equal(target.iterator_note, "");
	check(0, DLP_PROBE_SEM_OPEN, "libpthread-2.31.so", 0x100);
}

static void missing_semaphores_are_said(void **state)
{
	(void)state;
	map(libc + 1, 1, FAKE_LIBC, LIBC_ADDR, 0);
	iterator();
	assert_int_equal(target.probe_cnt, 0);
	assert_string_equal(target.iterator_note, "the start of iterators is not seen: libc.so.6 "
						  "has no symbol for sem_open");
	end(NULL);
	start(NULL);
	iterator();
	assert_int_equal(target.probe_cnt, 0);
	assert_string_equal(target.iterator_note,
			    "the start of iterators is not seen: no C library is loaded");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(torch_2_has_a_pair),
		TEST(torch_2_0_has_it_too),
		TEST(torch_1_13_dispatches_operators),
		TEST(hidden_pair_falls_back_to_operators),
		TEST(stripped_forwarders_are_decoded),
		TEST(hardened_forwarders_are_decoded),
		TEST(a_forwarder_to_two_is_not_probed),
		TEST(a_forwarder_without_target_is_not_probed),
		TEST(torch_1_10_needs_its_symbols),
		TEST(stripped_torch_1_10_is_refused),
		TEST(older_torch_is_refused),
		TEST(unknown_versions_are_told_by_an_operator_of_2_0),
		TEST(nightlies_are_asked_what_they_call),
		TEST(free_threaded_objects_are_not_read),
		TEST(slow_entries_are_marked),
		TEST(landing_pads_are_skipped),
		TEST(memory_must_show_the_same_code),
		TEST(code_that_is_not_mapped_is_not_probed),
		TEST(another_machines_library_is_not_opened),
		TEST(queue_functions_are_found),
		TEST(pickle_may_be_built_in),
		TEST(missing_queue_functions_are_said),
		TEST(semaphores_are_in_libc),
		TEST(semaphores_were_in_libpthread),
		TEST(missing_semaphores_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
