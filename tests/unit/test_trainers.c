/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list of training processes, and which one a launcher's pid means, on made-up processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fake_torch.h"
#include "trainers.h"
#include "util.h"

#define EXE "/usr/bin/python3.11"
#define TRAIN "python|train.py|--name|a\033[31mb"
#define RUN "python|/opt/bin/torchrun|train.py"
#define SPAWN                                                                                      \
	"python|-c|from multiprocessing.spawn import spawn_main; spawn_main(5, 7)"                 \
	"|--multiprocessing-fork"
#define FORKSERVER "python|-c|from multiprocessing.forkserver import main; main(8, 9, [])"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

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

static struct tree tree;
static struct elf_build build;
static struct dlp_trainer *trainers;
static size_t cnt;

static int start(void **state)
{
	(void)state;
	memset(&build, 0, sizeof(build));
	fake_code(&build);
	tree_init(&tree);
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(trainers);
	trainers = NULL;
	tree_fini(&tree);
	return 0;
}

static void add(int pid, int ppid, const char *comm, const char *cmdline)
{
	tree_add_process(
		&tree,
		&(struct tree_process){
			.pid = pid, .ppid = ppid, .comm = comm, .exe = EXE, .cmdline = cmdline });
}

static void map(int pid, const struct elf_build_sym *sym, size_t sym_cnt, const char *path,
		uint64_t addr)
{
	fake_map(&tree, pid, &build, sym, sym_cnt, path, addr, 0);
	elf_build_fini(&build);
}

static void add_torch(int pid, int ppid, const char *comm, const char *cmdline)
{
	add(pid, ppid, comm, cmdline);
	map(pid, libpython, 1, FAKE_LIBPYTHON, 0x30000000);
	map(pid, cpu, 2, FAKE_TORCH_CPU, 0x10000000);
	map(pid, torch_python, 1, FAKE_TORCH_PYTHON, 0x20000000);
}

static void set_version(const char *version)
{
	tree_text(&tree, "rootfs" FAKE_PACKAGE "/version.py", "__version__ = '%s'\n", version);
}

/* 100 trains in a container, 201 and 202 are torchrun's ranks, 300 has two spawned ones. */
static void add_machine(void)
{
	set_version("2.13.0+cpu");
	add(1, 0, "init", "init");
	add(50, 1, "bash", "bash");
	add_torch(100, 50, "python", TRAIN);
	tree_text(&tree, "proc/100/cgroup", "0::/docker/" ID "\n");
	add_torch(101, 100, "pt_data_worker", TRAIN);
	add_torch(102, 100, "pt_data_worker", TRAIN);
	add(103, 100, "python",
	    "python|-c|from multiprocessing.resource_tracker import main;main(5)");
	add_torch(104, 100, "python", FORKSERVER); /* has torch preloaded */
	add_torch(105, 104, "pt_data_worker", FORKSERVER);
	add_torch(200, 50, "python", RUN);
	add_torch(201, 200, "python", "python|-u|train.py");
	add_torch(202, 200, "python", "python|-u|train.py");
	add_torch(203, 202, "pt_data_worker", "python|-u|train.py");
	add_torch(300, 1, "python", "python|spawn.py");
	add_torch(301, 300, "python", SPAWN);
	add_torch(302, 301, "pt_data_worker", SPAWN);
}

static void find(pid_t ancestor)
{
	free(trainers);
	assert_int_equal(dlp_trainers_find(tree.path, ancestor, &trainers, &cnt), 0);
}

static const struct dlp_trainer *trainer(pid_t pid)
{
	for (size_t i = 0; i < cnt; i++) {
		if (trainers[i].pid == pid)
			return &trainers[i];
	}
	fail_msg("no %d", pid);
	return NULL;
}

static void all_of_a_machine(void **state)
{
	(void)state;
	add(1, 0, "init", "init");
	find(0);
	assert_int_equal(cnt, 0);
	add_machine();
	find(0);
	assert_int_equal(cnt, 5);
	assert_int_equal(trainer(100)->workers, 3);
	assert_int_equal(trainer(100)->uid, 1000);
	assert_string_equal(trainer(100)->torch, "2.13.0+cpu");
	assert_string_equal(trainer(100)->container, ID);
	assert_string_equal(trainer(100)->cmdline, "python train.py --name a?[31mb");
	assert_int_equal(trainer(201)->workers, 0);
	assert_string_equal(trainer(201)->container, "");
	assert_int_equal(trainer(202)->workers, 1);
	assert_int_equal(trainer(300)->workers, 0);
	assert_int_equal(trainer(301)->workers, 1);
	for (size_t i = 0; i < cnt; i++)
		assert_string_equal(trainers[i].refused, "");
}

static void one_family(void **state)
{
	(void)state;
	add_machine();
	find(200);
	assert_int_equal(cnt, 2);
	find(100);
	assert_int_equal(cnt, 1);
	find(103);
	assert_int_equal(cnt, 0);
}

static void workers_without_names_are_counted(void **state)
{
	(void)state;
	set_version("2.0.1");
	add(1, 0, "init", "init");
	add_torch(100, 1, "python", TRAIN);
	add_torch(101, 100, "python", TRAIN);
	find(0);
	assert_int_equal(cnt, 1);
	assert_int_equal(trainer(100)->workers, 1);
}

static void what_cannot_be_observed_is_listed_with_its_reason(void **state)
{
	(void)state;
	set_version("1.7.1");
	add(1, 0, "init", "init");
	add_torch(100, 1, "python", TRAIN);
	find(0);
	assert_int_equal(cnt, 1);
	assert_string_equal(trainer(100)->torch, "1.7.1");
	assert_non_null(strstr(trainer(100)->refused, "1.8 or later"));
}

static void launchers_mean_their_only_trainer(void **state)
{
	char several[64];

	(void)state;
	add_machine();
	assert_int_equal(dlp_trainers_meant(tree.path, 100, several, sizeof(several)), 100);
	assert_string_equal(several, "");
	assert_int_equal(dlp_trainers_meant(tree.path, 200, several, sizeof(several)), 0);
	assert_string_equal(several, "201, 202");
	assert_int_equal(dlp_trainers_meant(tree.path, 50, several, sizeof(several)), 0);
	assert_string_equal(several, "100, 201, 202");
	assert_int_equal(dlp_trainers_meant(tree.path, 103, several, sizeof(several)), 0);
	assert_string_equal(several, "");
	add(60, 1, "sh", "sh");
	add_torch(61, 60, "python", RUN);
	add_torch(62, 61, "python", TRAIN);
	assert_int_equal(dlp_trainers_meant(tree.path, 60, several, sizeof(several)), 62);
	for (int pid = 63; pid < 90; pid++)
		add_torch(pid, 61, "python", TRAIN);
	assert_int_equal(dlp_trainers_meant(tree.path, 60, several, sizeof(several)), 0);
	assert_string_equal(several, "62, 63, 64, 65, 66, 67, 68, 69, ...");
	assert_int_equal(dlp_trainers_meant(tree.path, 60, several, 5), 0);
	assert_string_equal(several, "62, ");
}

static void all_below_a_launcher(void **state)
{
	pid_t below[3] = { 0 };

	(void)state;
	add_machine();
	assert_int_equal(dlp_trainers_below(tree.path, 200, below, 3), 2);
	assert_int_equal(below[0], 201);
	assert_int_equal(below[1], 202);
	assert_int_equal(dlp_trainers_below(tree.path, 100, below, 3), 1);
	assert_int_equal(below[0], 100);
	assert_int_equal(dlp_trainers_below(tree.path, 103, below, 3), 0);
	/* with workers, and not itself */
	assert_int_equal(dlp_trainers_ranks(tree.path, 100, below, 3), 0);
	assert_int_equal(dlp_trainers_ranks(tree.path, 300, below, 3), 1);
	assert_int_equal(below[0], 301);
	assert_int_equal(dlp_trainers_ranks(tree.path, 50, below, 3), 2);
	assert_int_equal(below[0], 100);
	assert_int_equal(below[1], 202);
	below[1] = 0;
	assert_int_equal(dlp_trainers_below(tree.path, 50, below, 1), 1);
	assert_int_equal(below[0], 100);
	assert_int_equal(below[1], 0);
}

static void lines_are_cut_to_the_width(void **state)
{
	static const struct dlp_trainer some[] = {
		{ .pid = 7,
		  .inside = 4194303,
		  .uid = 3999999999,
		  .workers = 12,
		  .torch = "2.1\033",
		  .container = ID,
		  .cmdline = "python train.py --and so on" },
		{ .pid = 4194304, .uid = 3999999998, .cmdline = "python" },
	};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	dlp_trainers_print(out, some, 2, 80);
	dlp_trainers_print(out, some, 1, 0);
	dlp_trainers_print(out, some, 1, 20);
	fclose(out);
	assert_string_equal(
		text,
		"     PID    INSIDE  USER        TORCH           WORKERS  CONTAINER     COMMAND\n"
		"       7   4194303  3999999999  2.1?                 12  0123456789ab  python tr\n"
		" 4194304         -  3999999998  ?                     0  -             python\n"
		"     PID    INSIDE  USER        TORCH           WORKERS  CONTAINER     COMMAND\n"
		"       7   4194303  3999999999  2.1?                 12  0123456789ab  python train.py "
		"--and so on\n"
		"     PID    INSIDE  USER        TORCH           WORKERS  CONTAINER     COMMAND\n"
		"       7   4194303  3999999999  2.1?                 12  0123456789ab  \n");
	free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(all_of_a_machine),
		TEST(one_family),
		TEST(workers_without_names_are_counted),
		TEST(what_cannot_be_observed_is_listed_with_its_reason),
		TEST(launchers_mean_their_only_trainer),
		TEST(all_below_a_launcher),
		TEST(lines_are_cut_to_the_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
