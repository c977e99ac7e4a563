/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The trainer in a command's family, as it comes up, on made-up processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "fake_torch.h"
#include "finder.h"
#include "util.h"

#define COMMAND 4000
#define EXE "/usr/bin/python3.11"
#define TRAIN "python|train.py"
#define MS DLP_NS_PER_MS
#define S DLP_NS_PER_S

static const struct elf_build_sym cpu[] = {
	FAKE_FUNC(SYM_ENTER_NEW_2_13, 0x100, 0x83, true),
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x200, 0x244, true),
};
static const struct elf_build_sym torch_python[] = {
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x400, 0x5f5, true),
};
static const struct elf_build_sym libpython[] = {
	FAKE_FUNC("_Py_write", 0x100, 0x80, true),
};
static const struct elf_build_sym pickle[] = {
	FAKE_FUNC("_pickle_loads", 0x300, 0x80, false),
};

static struct tree tree;
static struct elf_build build;
static struct dlp_finder finder;
static struct dlp_target target;
static struct dlp_target_failure failure;

static int start(void **state)
{
	(void)state;
	memset(&build, 0, sizeof(build));
	fake_code(&build);
	tree_init(&tree);
	finder = (struct dlp_finder){ .root = tree.path, .command = COMMAND };
	return 0;
}

static int end(void **state)
{
	(void)state;
	tree_fini(&tree);
	return 0;
}

static void add(int pid, int ppid, const char *cmdline)
{
	tree_add_process(&tree, &(struct tree_process){ .pid = pid,
							.ppid = ppid,
							.comm = "python",
							.exe = EXE,
							.cmdline = cmdline });
}

static void map(int pid, const struct elf_build_sym *sym, size_t cnt, const char *path,
		uint64_t addr)
{
	fake_map(&tree, pid, &build, sym, cnt, path, addr, 0);
	elf_build_fini(&build);
}

static void map_torch_python(int pid, const char *version)
{
	map(pid, libpython, 1, FAKE_LIBPYTHON, 0x30000000);
	map(pid, torch_python, 1, FAKE_TORCH_PYTHON, 0x20000000);
	tree_text(&tree, "rootfs" FAKE_PACKAGE "/version.py", "__version__ = '%s'\n", version);
}

static void map_rest(int pid)
{
	map(pid, cpu, 2, FAKE_TORCH_CPU, 0x10000000);
	map(pid, pickle, 1, FAKE_PICKLE, 0x40000000);
}

static void map_torch(int pid)
{
	map_torch_python(pid, "2.13.0");
	map_rest(pid);
}

static enum dlp_found look(uint64_t now_ns)
{
	return dlp_finder_look(&finder, now_ns, &target, &failure);
}

static void finds(pid_t pid, uint64_t now_ns)
{
	enum dlp_found found = look(now_ns);

	if (found != DLP_FOUND_TRAINER)
		fail_msg("%d: %s %s", found, failure.text, finder.pending.text);
	assert_int_equal(target.pid, pid);
}

static void the_command_itself(void **state)
{
	(void)state;
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	add(COMMAND, 1, TRAIN);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	map_torch(COMMAND);
	finds(COMMAND, S);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_A);
	assert_int_equal(finder.pending.err, DLP_TARGET_OK);
}

static void behind_shells_and_launchers(void **state)
{
	(void)state;
	add(COMMAND, 1, "bash|run.sh");
	add(4001, COMMAND, "uv|run|train.py");
	/* not ours */
	add(3999, 1, TRAIN);
	map_torch(3999);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	add(4002, 4001, "python|/opt/bin/torchrun|train.py");
	map_torch(4002);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	add(4003, 4002, "python|-u|train.py");
	add(4004, 4002, "python|-u|train.py");
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	map_torch(4004);
	finds(4004, S);
}

static void what_is_dropped_is_not_given_again(void **state)
{
	(void)state;
	add(COMMAND, 1, "bash|run.sh");
	add(4001, COMMAND, "python|-c|import torch");
	map_torch(4001);
	finds(4001, S);
	dlp_finder_drop(&finder, 4001);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	add(4002, COMMAND, TRAIN);
	map_torch(4002);
	finds(4002, S);
	finds(4002, S);
}

static void libraries_are_waited_for(void **state)
{
	(void)state;
	add(COMMAND, 1, TRAIN);
	map_torch_python(COMMAND, "2.13.0");
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	assert_int_equal(finder.pending.err, DLP_TARGET_NO_PROBE);
	assert_int_equal(look(S + 4900 * MS), DLP_FOUND_NOTHING);
	map_rest(COMMAND);
	finds(COMMAND, S + 4950 * MS);
	/* what was said of it before is not true any more */
	assert_int_equal(finder.pending.err, DLP_TARGET_OK);
}

static void pickle_is_waited_for_a_moment(void **state)
{
	(void)state;
	add(COMMAND, 1, TRAIN);
	map_torch_python(COMMAND, "2.13.0");
	map(COMMAND, cpu, 2, FAKE_TORCH_CPU, 0x10000000);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	assert_int_equal(look(S + 250 * MS), DLP_FOUND_NOTHING);
	finds(COMMAND, S + 300 * MS);
	assert_true(*target.queue_note);
}

static void refusals_are_told_once(void **state)
{
	(void)state;
	add(COMMAND, 1, TRAIN);
	map_torch_python(COMMAND, "1.7.1");
	map_rest(COMMAND);
	assert_int_equal(look(S), DLP_FOUND_NOTHING);
	assert_int_equal(finder.pending.err, DLP_TARGET_TORCH_OLD);
	assert_int_equal(look(6 * S), DLP_FOUND_REFUSED);
	assert_int_equal(failure.err, DLP_TARGET_TORCH_OLD);
	assert_non_null(strstr(failure.text, "1.7.1"));
	assert_int_equal(finder.pending.err, DLP_TARGET_OK);
	assert_int_equal(look(7 * S), DLP_FOUND_NOTHING);
}

static void many_processes_end_somewhere(void **state)
{
	(void)state;
	add(COMMAND, 1, "bash|run.sh");
	for (pid_t pid = 1; pid <= DLP_FINDER_KNOWN; pid++)
		dlp_finder_drop(&finder, 10000 + pid);
	assert_int_equal(finder.known_cnt, DLP_FINDER_KNOWN);
	add(4001, COMMAND, TRAIN);
	map_torch(4001);
	/* there is room for it again: those have all gone */
	finds(4001, S);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(the_command_itself),	    TEST(behind_shells_and_launchers),
		TEST(libraries_are_waited_for),	    TEST(pickle_is_waited_for_a_moment),
		TEST(refusals_are_told_once),	    TEST(what_is_dropped_is_not_given_again),
		TEST(many_processes_end_somewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
