/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a pid to its probes, and every reason why not, on made-up processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_torch.h"
#include "target.h"
#include "util.h"

#define PID 4242
#define EXE "/usr/bin/python3.11"
#define TRAIN "python|train.py|--name|a\033[31mb"
#define CPU_ADDR 0x10000000ull
#define PYTHON_ADDR 0x20000000ull
#define LIBPYTHON_ADDR 0x30000000ull
#define PICKLE_ADDR 0x40000000ull
#define LIBC_ADDR 0x50000000ull

static const struct elf_build_sym cpu[] = {
	FAKE_FUNC(SYM_ENTER_NEW_2_13, 0x100, 0x83, true),
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x200, 0x244, true),
};
static const struct elf_build_sym torch_python[] = {
	FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x400, 0x5f5, true),
};
static const struct elf_build_sym libpython[] = {
	FAKE_FUNC("_Py_write", 0x100, 0x80, true),
	{ .name = "_PyRuntime",
	  .where = ELF_IN_BSS,
	  .off = 0x40,
	  .size = 0x500,
	  .bind = STB_GLOBAL,
	  .type = STT_OBJECT,
	  .is_dynamic = true },
};
static const struct elf_build_sym pickle[] = {
	FAKE_FUNC("_pickle_loads", 0x300, 0x80, false),
};
static const struct elf_build_sym libc[] = {
	FAKE_FUNC("sem_open", 0x100, 0x80, true),
};

static struct tree tree;
static struct elf_build build;
static struct dlp_target target;
static struct dlp_target_failure failure;

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
	elf_build_fini(&build);
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

static void map(int pid, const struct elf_build_sym *sym, size_t cnt, const char *path,
		uint64_t addr, unsigned int flags)
{
	fake_map(&tree, pid, &build, sym, cnt, path, addr, flags);
	elf_build_fini(&build);
}

static void map_python(int pid)
{
	map(pid, libpython, 2, FAKE_LIBPYTHON, LIBPYTHON_ADDR, 0);
	map(pid, pickle, 1, FAKE_PICKLE, PICKLE_ADDR, 0);
}

static void map_torch(int pid, const char *version, unsigned int flags)
{
	map(pid, cpu, 2, FAKE_TORCH_CPU, CPU_ADDR, flags);
	map(pid, torch_python, 1, FAKE_TORCH_PYTHON, PYTHON_ADDR, flags);
	tree_text(&tree, "rootfs" FAKE_PACKAGE "/version.py", "__version__ = '%s'\n", version);
}

static int open_target(int pid)
{
	int err = dlp_target_open(tree.path, pid, &target, &failure);

	assert_int_equal(err, failure.err == DLP_TARGET_OK ? 0 : -1);
	/* one line, and nothing in it that moves a cursor */
	for (const char *at = failure.text; *at; at++)
		assert_true(*at >= ' ' && *at != 0x7f);
	return err;
}

static void refused(int pid, enum dlp_target_err err, const char *text)
{
	assert_int_equal(open_target(pid), -1);
	if (failure.err != err || strcmp(failure.text, text))
		fail_msg("%d: %s", failure.err, failure.text);
}

static void a_trainer_is_described(void **state)
{
	(void)state;
	add(PID, 1, "py\nthon", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0+cpu", 0);
	tree_text(&tree, "proc/4242/cgroup",
		  "0::/docker/"
		  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n");
	map(PID, libc, 1, FAKE_LIBC, LIBC_ADDR, 0);
	if (open_target(PID))
		fail_msg("%s", failure.text);
	assert_int_equal(target.pid, PID);
	assert_string_equal(target.comm, "py?thon");
	assert_string_equal(target.cmdline, "python train.py --name a?[31mb");
	assert_int_equal(target.start_ticks, 5000 + PID);
	assert_string_equal(target.python.text, "3.11");
	assert_string_equal(target.torch.text, "2.13.0+cpu");
	assert_int_equal(strlen(target.container), 64);
	assert_int_equal(target.scope_kind, DLP_SCOPE_KIND_A);
	assert_int_equal(target.probe_cnt, 6);
	assert_string_equal(target.queue_note, "");
	assert_string_equal(target.iterator_note, "");
	/* .bss begins where the file's part of the data ends */
	assert_int_equal(target.gil_lo, LIBPYTHON_ADDR + 0x200000 + ELF_PART_BYTES + 0x40);
	assert_int_equal(target.gil_hi, target.gil_lo + 0x500);
	for (size_t i = 0; i < target.probe_cnt; i++) {
		assert_int_equal(access(target.probe[i].path, R_OK), 0);
		assert_non_null(strstr(target.probe[i].path, "/proc/4242/root/"));
		assert_int_equal(target.probe[i].shown[0], '/');
	}
	assert_string_equal(target.probe[3].symbol, "_Py_write");
	assert_string_equal(target.probe[3].shown, FAKE_LIBPYTHON);
	assert_string_equal(target.probe[4].symbol, "_pickle_loads");
	assert_int_equal(target.probe[5].id, DLP_PROBE_SEM_OPEN);
	assert_string_equal(target.probe[5].shown, FAKE_LIBC);
}

static void a_static_python_is_python(void **state)
{
	(void)state;
	tree_add_process(&tree, &(struct tree_process){ .pid = PID,
							.ppid = 1,
							.comm = "app",
							.exe = "/opt/my-app",
							.cmdline = "my-app" });
	build.type = ET_EXEC;
	map(PID, libpython, 2, "/opt/my-app", 0x400000, 0);
	build.type = ET_DYN;
	map_torch(PID, "2.5.0", 0);
	if (open_target(PID))
		fail_msg("%s", failure.text);
	assert_int_equal(target.gil_lo, ELF_DATA + ELF_PART_BYTES + 0x40);
	assert_int_equal(target.probe[3].id, DLP_PROBE_QUEUE_SEND);
	assert_string_equal(target.probe[3].shown, "/opt/my-app");
	assert_int_equal(target.probe_cnt, 4);
	assert_non_null(strstr(target.queue_note, "my-app has no symbol for pickle.loads"));
	assert_int_equal(target.python.major, 0);
}

static void no_such_process(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	refused(999, DLP_TARGET_NO_PROCESS, "no process with pid 999");
	refused(-1, DLP_TARGET_NO_PROCESS, "no process with pid -1");
}

/* Somebody gives the number that a training has inside its container. */
static void numbers_of_containers_are_understood(void **state)
{
	char path[64];

	(void)state;
	for (int pid = 4242; pid < 4245; pid++) {
		add(pid, 0, "python", TRAIN);
		map_python(pid);
		map_torch(pid, "2.5.0", 0);
		(void)snprintf(path, sizeof(path), "proc/%d/status", pid);
		tree_text(&tree, path,
			  "Tgid:\t%d\nNSpid:\t%d\t%d\n", pid, pid, pid == 4244 ? 8 : 7);
	}
	/* one that has no torch is not meant */
	add(4300, 0, "sh", "sh");
	tree_text(&tree, "proc/4300/status", "Tgid:\t4300\nNSpid:\t4300\t8\n");
	refused(8, DLP_TARGET_NO_PROCESS,
		"no process with pid 8; that number inside a container has pid 4244: use --pid 4244");
	refused(7, DLP_TARGET_NO_PROCESS,
		"no process with pid 7; that number inside a container has pid 4242 or 4243");
	refused(9, DLP_TARGET_NO_PROCESS, "no process with pid 9");
	tree_add_process(&tree, &(struct tree_process){
					.pid = 8, .ppid = 2, .comm = "kworker", .flags = 0x04208060 });
	refused(8, DLP_TARGET_KERNEL_THREAD,
		"pid 8 (kworker) is a kernel thread: give the pid of a training process; that number "
		"inside a container has pid 4244: use --pid 4244");
	tree_add_process(&tree, &(struct tree_process){
					.pid = 8,
					.ppid = 1,
					.comm = "cron",
					.exe = "/usr/sbin/cron",
					.cmdline = "cron" });
	refused(8, DLP_TARGET_NOT_PYTHON,
		"pid 8 (cron) is not a Python process; that number inside a container has pid 4244: "
		"use --pid 4244");
	/* we are in a container ourselves */
	tree_link(&tree, "proc/self/ns/pid", "pid:[4026532222]");
	refused(9, DLP_TARGET_NO_PROCESS,
		"no process with pid 9; numbers are those of this container here");
}

static void dead_processes_and_kernel_threads(void **state)
{
	(void)state;
	tree_add_process(&tree, &(struct tree_process){
					.pid = PID, .ppid = 17, .comm = "python", .state = 'Z' });
	refused(PID, DLP_TARGET_NO_PROCESS,
		"pid 4242 (python) has ended; its parent, pid 17, has not "
		"fetched its status");
	tree_add_process(
		&tree, &(struct tree_process){
			       .pid = 30, .ppid = 2, .comm = "kworker/0:1", .flags = 0x04208060 });
	refused(30, DLP_TARGET_KERNEL_THREAD,
		"pid 30 (kworker/0:1) is a kernel thread: give the pid "
		"of a training process");
}

static void threads_are_sent_to_their_process(void **state)
{
	(void)state;
	add(4300, 1, "pt_autograd_0", TRAIN);
	tree_text(&tree, "proc/4300/status", "Name:\tpt_autograd_0\nTgid:\t4242\n");
	refused(4300, DLP_TARGET_NO_PROCESS, "4300 is a thread of process 4242: use --pid 4242");
}

static void other_programs_are_refused(void **state)
{
	(void)state;
	tree_add_process(&tree, &(struct tree_process){ .pid = PID,
							.ppid = 1,
							.comm = "ba\033sh",
							.exe = "/bin/bash",
							.cmdline = "bash" });
	map(PID, pickle, 1, "/bin/bash", 0x400000, 0);
	refused(PID, DLP_TARGET_NOT_PYTHON, "pid 4242 (ba?sh) is not a Python process");
	/* but somebody below it trains */
	add(4243, PID, "python", TRAIN);
	map_python(4243);
	map_torch(4243, "2.5.0", 0);
	refused(PID, DLP_TARGET_NOT_PYTHON,
		"pid 4242 (ba?sh) is not a Python process; pid 4243 has "
		"loaded torch: use --pid 4243");
}

static void python_without_torch(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	refused(PID, DLP_TARGET_NO_TORCH,
		"pid 4242 (python) has not loaded torch (yet): start it "
		"first, or wait until it has imported torch");
	/* a resource tracker or fork server: its parent was meant */
	add(4000, 1, "python", TRAIN);
	map_torch(4000, "2.5.0", 0);
	add(4001, 4000, "python",
	    "python|-c|from multiprocessing.resource_tracker import main;main(5)");
	map_python(4001);
	refused(4001, DLP_TARGET_NO_TORCH,
		"pid 4001 (python) has not loaded torch; pid 4000 has "
		"loaded torch: use --pid 4000");
}

static void old_torch(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "1.7.1", 0);
	refused(PID, DLP_TARGET_TORCH_OLD,
		"torch 1.7.1 has no record_function around its loader; "
		"1.8 or later is needed");
}

static void torch_without_its_main_library(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map(PID, torch_python, 1, FAKE_TORCH_PYTHON, PYTHON_ADDR, 0);
	refused(PID, DLP_TARGET_NO_PROBE,
		"pid 4242 (python) has libtorch_python.so but no "
		"libtorch_cpu.so: a torch built in an unknown way");
}

static void workers_are_sent_to_their_trainer(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", 0);
	add(4243, PID, "pt_data_worker", TRAIN);
	map_python(4243);
	map_torch(4243, "2.13.0", 0);
	refused(4243, DLP_TARGET_IS_WORKER,
		"pid 4243 is a DataLoader worker of pid 4242: use --pid "
		"4242");
	assert_int_equal(failure.trainer_pid, PID);
	/* a forked rank of a torch that names its workers */
	add(4244, PID, "python", TRAIN);
	map_python(4244);
	map_torch(4244, "2.13.0", 0);
	assert_int_equal(open_target(4244), 0);
	/* the same with a torch that does not */
	map_torch(4244, "2.0.1", 0);
	refused(4244, DLP_TARGET_IS_WORKER,
		"pid 4244 is a DataLoader worker of pid 4242: use --pid "
		"4242");
}

/* Python 3.14's has loaded torch. */
static void fork_servers_are_sent_to_their_trainer(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", 0);
	add(4243, PID, "python",
	    "python|-c|from multiprocessing.forkserver import main; main(8, 9, ['__main__'])");
	map_python(4243);
	map_torch(4243, "2.13.0", 0);
	refused(4243, DLP_TARGET_IS_WORKER,
		"pid 4243 is the fork server of pid 4242: use --pid 4242");
	assert_int_equal(failure.trainer_pid, 0);
}

static void replaced_files_are_not_probed(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", FAKE_OTHER_INODE);
	refused(PID, DLP_TARGET_IO,
		FAKE_TORCH_PYTHON " was replaced or removed since pid 4242 loaded "
				  "it: restart the job, or run as root with CAP_SYS_ADMIN");
	end(NULL);
	start(NULL);
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", FAKE_DELETED);
	assert_int_equal(open_target(PID), -1);
	assert_int_equal(failure.err, DLP_TARGET_IO);
}

static void the_mapped_inode_is_preferred(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", FAKE_BY_MAP_FILES | FAKE_DELETED);
	if (open_target(PID))
		fail_msg("%s", failure.text);
	assert_string_equal(target.probe[0].path,
			    tree_path(&tree, "proc/4242/map_files/10000000-10002000"));
	assert_string_equal(target.probe[0].shown, FAKE_TORCH_CPU);
}

/* A root made by chroot comes first in the names of its files. */
static void files_below_another_root(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", FAKE_CHROOTED);
	if (open_target(PID))
		fail_msg("%s", failure.text);
	assert_string_equal(target.torch.text, "2.13.0");
	assert_string_equal(target.probe[0].path,
			    tree_path(&tree, "proc/4242/root" FAKE_TORCH_CPU));
}

static void damaged_files_are_said(void **state)
{
	(void)state;
	add(PID, 1, "python", TRAIN);
	map_python(PID);
	map_torch(PID, "2.13.0", 0);
	assert_int_equal(truncate(tree_path(&tree, "rootfs" FAKE_TORCH_CPU), 100), 0);
	refused(PID, DLP_TARGET_IO, FAKE_TORCH_CPU " can't be read: it is damaged");
}

static void what_may_not_be_read_is_denied(void **state)
{
	(void)state;
	if (!geteuid()) {
		puts("SKIP: root may read everything: there is nothing to deny");
		skip();
	}
	add(PID, 1, "python", TRAIN);
	assert_int_equal(chmod(tree_path(&tree, "proc/4242/maps"), 0), 0);
	refused(PID, DLP_TARGET_DENIED,
		"may not look into pid 4242 (python), which belongs to user "
		"1000: run as root");
}

static void a_real_process_that_is_no_python(void **state)
{
	(void)state;
	assert_int_equal(dlp_target_open("", getpid(), &target, &failure), -1);
	assert_int_equal(failure.err, DLP_TARGET_NOT_PYTHON);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(a_trainer_is_described),
		TEST(a_static_python_is_python),
		TEST(no_such_process),
		TEST(numbers_of_containers_are_understood),
		TEST(dead_processes_and_kernel_threads),
		TEST(threads_are_sent_to_their_process),
		TEST(other_programs_are_refused),
		TEST(python_without_torch),
		TEST(old_torch),
		TEST(torch_without_its_main_library),
		TEST(workers_are_sent_to_their_trainer),
		TEST(fork_servers_are_sent_to_their_trainer),
		TEST(replaced_files_are_not_probed),
		TEST(the_mapped_inode_is_preferred),
		TEST(files_below_another_root),
		TEST(damaged_files_are_said),
		TEST(what_may_not_be_read_is_denied),
		TEST(a_real_process_that_is_no_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
