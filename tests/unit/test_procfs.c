/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Readers of /proc on a made-up tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "proc_role.h"
#include "procfs.h"
#include "tree_fixture.h"
#include "util.h"

#define PYTHON "/usr/bin/python3.11"
#define TRAIN "python|train.py|--epochs|3"

static void add(int pid, int ppid, const char *comm, const char *cmdline)
{
	tree_add_process(&tree, &(struct tree_process){ .pid = pid,
							.ppid = ppid,
							.comm = comm,
							.exe = PYTHON,
							.cmdline = cmdline });
}

static void stat_is_read_by_field(void **state)
{
	struct dlp_proc_stat stat;
	const uint64_t tick_ns = DLP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	tree_add_process(&tree, &(struct tree_process){ .pid = 100,
							.ppid = 42,
							.comm = "python",
							.state = 'R',
							.flags = 0x400040,
							.start_ticks = 987654 });
	assert_int_equal(dlp_proc_stat(tree.path, 100, &stat), 0);
	assert_string_equal(stat.comm, "python");
	assert_int_equal(stat.state, 'R');
	assert_int_equal(stat.ppid, 42);
	assert_int_equal(stat.flags, 0x400040);
	assert_int_equal(stat.minflt, 2000);
	assert_int_equal(stat.majflt, 7);
	assert_int_equal(stat.utime_ns, 123 * tick_ns);
	assert_int_equal(stat.stime_ns, 45 * tick_ns);
	assert_int_equal(stat.threads, 3);
	assert_int_equal(stat.start_ticks, 987654);
}

static void names_cannot_confuse_stat(void **state)
{
	static const char *const comms[] = { "a b", ") S 1 2 3", "((", "))", "x\ny) R", "" };
	struct dlp_proc_stat stat;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(comms); i++) {
		tree_add_process(
			&tree, &(struct tree_process){ .pid = 100, .ppid = 42, .comm = comms[i] });
		assert_int_equal(dlp_proc_stat(tree.path, 100, &stat), 0);
		assert_string_equal(stat.comm, comms[i]);
		assert_int_equal(stat.ppid, 42);
		assert_int_equal(stat.start_ticks, 5100);
	}
}

static void broken_stat_is_an_error(void **state)
{
	static const char *const texts[] = {
		"",
		"100",
		"100 (python",
		"100 (python)",
		"100 (python) ",
		"100 (python) S",
		"100 (python) S 1 2 3",
		")(",
		"100 python S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
		"100 (p) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999999",
	};
	struct dlp_proc_stat stat;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(texts); i++) {
		tree_text(&tree, "proc/100/stat", "%s", texts[i]);
		assert_int_equal(dlp_proc_stat(tree.path, 100, &stat), -EBADMSG);
	}
}

static void processes_that_are_gone_are_esrch(void **state)
{
	struct dlp_proc_stat stat;
	struct dlp_proc_status status;
	struct dlp_proc_maps maps = { 0 };
	enum dlp_proc_role role;
	char buf[100];
	uint64_t bytes;
	pid_t trainer;
	size_t len;

	(void)state;
	tree_text(&tree, "proc/version", "x");
	assert_int_equal(dlp_proc_stat(tree.path, 100, &stat), -ESRCH);
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), -ESRCH);
	assert_int_equal(dlp_proc_cmdline(tree.path, 100, buf, sizeof(buf), &len), -ESRCH);
	assert_int_equal(dlp_proc_exe(tree.path, 100, buf, sizeof(buf)), -ESRCH);
	assert_int_equal(dlp_proc_maps_read(tree.path, 100, &maps), -ESRCH);
	assert_int_equal(dlp_proc_read_bytes(tree.path, 100, &bytes), -ESRCH);
	assert_int_equal(dlp_proc_container(tree.path, 100, buf, sizeof(buf)), -ESRCH);
	assert_int_equal(dlp_proc_role(tree.path, 1, 100, &role), -ESRCH);
	assert_int_equal(dlp_proc_trainer_of(tree.path, 100, true, &trainer), -ESRCH);
	assert_int_equal(dlp_proc_near_with_torch(tree.path, 100), 0);
	/* a real one: gone between two reads, or a pid that never is */
	assert_int_equal(dlp_proc_stat("", 0x7fffffff, &stat), -ESRCH);
}

static void whose_proc_it_is(void **state)
{
	char own[16];

	(void)state;
	assert_true(dlp_proc_is_ours(""));
	assert_false(dlp_proc_is_ours(tree.path));
	(void)snprintf(own, sizeof(own), "%d", (int)getpid());
	tree_link(&tree, "proc/self", own);
	assert_true(dlp_proc_is_ours(tree.path));
	assert_int_equal(unlink(tree_path(&tree, "proc/self")), 0);
	/* as nsenter --pid without --mount finds it */
	tree_link(&tree, "proc/self", "1");
	assert_false(dlp_proc_is_ours(tree.path));
}

static void status_counts_cpus(void **state)
{
	struct dlp_proc_status status;

	(void)state;
	add(100, 1, "python", TRAIN);
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), 0);
	assert_int_equal(status.tgid, 100);
	assert_int_equal(status.uid, 1000);
	assert_int_equal(status.cpus, 8);
	/* what a name says at its end is no field: the kernel escapes line ends */
	tree_text(&tree, "proc/100/status", "Name:\tTgid:\t5\nTgid:\t7\n");
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), 0);
	assert_int_equal(status.tgid, 7);
	assert_int_equal(status.cpus, 0);
	assert_int_equal(status.inside, 100);
	tree_text(&tree, "proc/100/status", "Tgid:\t100\nNStgid:\t100\t7\nNSpid:\t100\t23\t7\nNSpgid:\t9\n");
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), 0);
	assert_int_equal(status.inside, 7);
	tree_text(&tree, "proc/100/status", "Tgid:\t100\nNSpid:\t100");
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), 0);
	assert_int_equal(status.inside, 100);
	tree_text(&tree, "proc/100/status", "Name:\tx\n");
	assert_int_equal(dlp_proc_status(tree.path, 100, &status), -EBADMSG);
}

static void read_bytes_is_not_rchar(void **state)
{
	uint64_t bytes;

	(void)state;
	tree_text(&tree, "proc/100/io",
		  "rchar: 111\nwchar: 2\nsyscr: 3\nsyscw: 4\n"
		  "read_bytes: 9876543210\nwrite_bytes: 5\ncancelled_write_bytes: 0\n");
	assert_int_equal(dlp_proc_read_bytes(tree.path, 100, &bytes), 0);
	assert_int_equal(bytes, 9876543210ull);
	tree_text(&tree, "proc/100/io", "rchar: 111\n");
	assert_int_equal(dlp_proc_read_bytes(tree.path, 100, &bytes), -EBADMSG);
}

static void command_lines_are_cut(void **state)
{
	char buf[8];
	size_t bytes;

	(void)state;
	add(100, 1, "python", "ab|c");
	assert_int_equal(dlp_proc_cmdline(tree.path, 100, buf, sizeof(buf), &bytes), 0);
	assert_int_equal(bytes, 5);
	assert_memory_equal(buf, "ab\0c\0", 6);
	add(100, 1, "python", "abcdefghijk");
	assert_int_equal(dlp_proc_cmdline(tree.path, 100, buf, sizeof(buf), &bytes), 0);
	assert_int_equal(bytes, 7);
	assert_string_equal(buf, "abcdefg");
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98fedcba98"

static void containers_are_told_by_their_cgroup(void **state)
{
	static const struct {
		const char *cgroup, *id;
	} cases[] = {
		{ "0::/user.slice/user-1000.slice/session-2.scope\n", "" },
		{ "0::/\n", "" },
		{ "0::/docker/" ID "\n", ID },
		{ "0::/system.slice/docker-" ID ".scope\n", ID },
		{ "12:memory:/docker/" ID "\n11:cpu:/docker/" ID "\n", ID },
		{ "0::/kubepods/burstable/pod2c48f0d4-7a6c-4f0f/" ID, ID },
		{ "0::/kubepods.slice/kubepods-pod2c_4.slice/cri-containerd-" ID ".scope\n", ID },
		{ "0::/kubepods.slice/crio-" ID ".scope/container\n", ID },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", ID },
		{ "0::/docker/" ID "/docker/" ID2 "\n", ID2 },
		/* too short, too long, part of a word */
		{ "0::/docker/0123456789abcdef\n", "" },
		{ "0::/docker/" ID "0\n", "" },
		{ "0::/docker/x" ID "\n", "" },
		{ "0::/docker/" ID "x\n", "" },
	};
	char buf[80];

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		tree_text(&tree, "proc/100/cgroup", "%s", cases[i].cgroup);
		assert_int_equal(dlp_proc_container(tree.path, 100, buf, sizeof(buf)), 0);
		assert_string_equal(buf, cases[i].id);
	}
	tree_text(&tree, "proc/100/cgroup", "%s", ID);
	assert_int_equal(dlp_proc_container(tree.path, 100, buf, 64), 0);
	assert_string_equal(buf, "");
}

static void maps_keep_files(void **state)
{
	struct dlp_proc_maps maps = { 0 };

	(void)state;
	tree_text(&tree, "proc/100/maps",
		  "00400000-00452000 r-xp 00001000 fd:1f 173521      /usr/bin/a program\n"
		  "00651000-00652000 rw-p 00051000 fd:1f 173521      /usr/bin/a program\n"
		  "00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
		  "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
		  "7f0000002000-7f0000003000 r-xs 00000000 00:2d 18446744073709551615 "
		  "/lib/x.so (deleted)\n"
		  "7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0   [vdso]\n"
		  "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n");
	assert_int_equal(dlp_proc_maps_read(tree.path, 100, &maps), 0);
	assert_int_equal(maps.cnt, 3);
	assert_int_equal(maps.map[0].start, 0x400000);
	assert_int_equal(maps.map[0].end, 0x452000);
	assert_int_equal(maps.map[0].offset, 0x1000);
	assert_int_equal(maps.map[0].dev_major, 0xfd);
	assert_int_equal(maps.map[0].dev_minor, 0x1f);
	assert_int_equal(maps.map[0].inode, 173521);
	assert_true(maps.map[0].is_exec);
	assert_false(maps.map[0].is_deleted);
	assert_string_equal(maps.map[0].path, "/usr/bin/a program");
	assert_false(maps.map[1].is_exec);
	assert_ptr_equal(maps.map[1].path, maps.map[0].path);
	assert_true(maps.map[2].inode == UINT64_MAX);
	assert_true(maps.map[2].is_deleted);
	assert_string_equal(maps.map[2].path, "/lib/x.so");
	dlp_proc_maps_fini(&maps);
	dlp_proc_maps_fini(&maps);
}

static void broken_maps_are_an_error(void **state)
{
	struct dlp_proc_maps maps = { 0 };

	(void)state;
	tree_text(&tree, "proc/100/maps", "nonsense\n");
	assert_int_equal(dlp_proc_maps_read(tree.path, 100, &maps), -EBADMSG);
	tree_text(&tree, "proc/100/maps", "%s", "");
	assert_int_equal(dlp_proc_maps_read(tree.path, 100, &maps), 0);
	assert_int_equal(maps.cnt, 0);
}

static void many_maps_are_read(void **state)
{
	struct dlp_proc_maps maps = { 0 };
	const char *path = tree_path(&tree, "proc/100/maps");
	FILE *file;

	(void)state;
	tree_text(&tree, "proc/100/maps", "%s", "");
	file = fopen(path, "w");
	assert_non_null(file);
	/* as a trainer has them whose tensors come over shared memory */
	for (int i = 0; i < 1000; i++)
		fprintf(file, "%x000-%x000 rw-s 0000 00:1a %d /dev/shm/torch_%d (deleted)\n",
			16 + i, 17 + i, i + 1, i);
	fclose(file);
	assert_int_equal(dlp_proc_maps_read(tree.path, 100, &maps), 0);
	assert_int_equal(maps.cnt, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(maps.map[i].inode, i + 1);
	assert_string_equal(maps.map[999].path, "/dev/shm/torch_999");
	dlp_proc_maps_fini(&maps);
}

static void birth_is_on_the_monotonic_clock(void **state)
{
	struct dlp_proc_stat stat;
	uint64_t now = dlp_now_ns(), born;
	int status_pid = fork();

	(void)state;
	if (!status_pid) {
		pause();
		_exit(0);
	}
	assert_true(status_pid > 0);
	assert_int_equal(dlp_proc_stat("", status_pid, &stat), 0);
	born = dlp_proc_born_ns(stat.start_ticks);
	/* a tick is 10 ms, and it is rounded down */
	assert_true(born + 20 * DLP_NS_PER_MS >= now && born <= dlp_now_ns());
	assert_int_equal(kill(status_pid, 9), 0);
	assert_int_equal(dlp_proc_born_ns(0), 0);
}

static void descendants_of_any_depth(void **state)
{
	static const struct {
		int pid, ppid;
	} list[] = { { 1, 0 },	  { 50, 1 },	{ 100, 50 }, { 7, 100 },  { 300, 7 },
		     { 20, 300 }, { 101, 100 }, { 200, 50 }, { 201, 200 } };
	static const pid_t expected[] = { 7, 101, 300, 20 };
	pid_t found[16];
	size_t cnt;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(list); i++)
		add(list[i].pid, list[i].ppid, "x", "x");
	tree_text(&tree, "proc/self", "not a process");
	tree_text(&tree, "proc/150/other", "went between readdir and open");
	tree_text(&tree, "proc/99999999999999999999/stat", "x");
	assert_int_equal(dlp_proc_descendants(tree.path, 100, found, 16, &cnt), 0);
	assert_int_equal(cnt, DLP_ARRAY_SIZE(expected));
	assert_memory_equal(found, expected, sizeof(expected));
	assert_int_equal(dlp_proc_descendants(tree.path, 100, found, 2, &cnt), -ENOSPC);
	assert_int_equal(cnt, 2);
	assert_int_equal(dlp_proc_descendants(tree.path, 100, found, 4, &cnt), 0);
	assert_int_equal(dlp_proc_descendants(tree.path, 201, found, 16, &cnt), 0);
	assert_int_equal(cnt, 0);
	assert_int_equal(dlp_proc_descendants(tree.path, 12345, found, 16, &cnt), 0);
	assert_int_equal(cnt, 0);
}

/* The list of /proc is no snapshot: reused pids can make it contradict itself. */
static void circles_end(void **state)
{
	pid_t found[16];
	size_t cnt;

	(void)state;
	add(100, 102, "x", "x");
	add(101, 100, "x", "x");
	add(102, 101, "x", "x");
	add(103, 103, "x", "x");
	assert_int_equal(dlp_proc_descendants(tree.path, 100, found, 16, &cnt), 0);
	assert_int_equal(cnt, 2);
	assert_int_equal(dlp_proc_descendants(tree.path, 103, found, 16, &cnt), 0);
	assert_int_equal(cnt, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(stat_is_read_by_field),	TEST(names_cannot_confuse_stat),
		TEST(broken_stat_is_an_error),	TEST(processes_that_are_gone_are_esrch),
		TEST(status_counts_cpus),	TEST(read_bytes_is_not_rchar),
		TEST(command_lines_are_cut),	TEST(containers_are_told_by_their_cgroup),
		TEST(whose_proc_it_is),
		TEST(maps_keep_files),		TEST(broken_maps_are_an_error),
		TEST(many_maps_are_read),	TEST(birth_is_on_the_monotonic_clock),
		TEST(descendants_of_any_depth), TEST(circles_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
