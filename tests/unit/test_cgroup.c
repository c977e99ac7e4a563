/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Control groups on made-up trees: both versions, nesting, containers, moves, and rubbish. */
#include "cgroup_fixture.h"

static void version_1(void **state)
{
	(void)state;
	mounts(TMPFS MOUNT_CPUSET MOUNT_CPU("/") MOUNT_MEMORY("/"));
	groups("9:name=cpu:/wrong\n6:cpuset:/wrong\n5:memory:/job\n3:cpu,cpuacct:/job\n0::/x\n");
	cpu_v1("", -1, 100000, 0, 0);
	cpu_v1("/job", 50000, 100000, 500, 100);
	memory_in(MEMORY, V1_NONE, "999\n", false);
	memory_in(MEMORY "/job", "1073741824\n", "4096\n", false);
	look();
	assert_quota(50000, 100000);
	/* what was before attaching is not ours */
	assert_throttled(0, 0);
	assert_true(got.known & DLP_SYS_GROUPMEM);
	assert_int_equal(got.group_limit, 1 << 30);
	assert_int_equal(got.group_used, 4096);
	cpu_v1("/job", 50000, 100000, 510, 107);
	look();
	assert_throttled(10, 7);
	/* limits may be changed under way */
	cpu_v1("/job", 20000, 10000, 520, 107);
	look();
	assert_quota(20000, 10000);
	assert_throttled(20, 7);
	cpu_v1("/job", -1, 100000, 520, 107);
	look();
	assert_quota(0, 0);
	assert_throttled(20, 7);
}

static void version_2(void **state)
{
	(void)state;
	mounts("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n" MOUNT_V2("/"));
	groups("0::/kubepods.slice/pod1.slice/cri-1.scope\n");
	write_in(UNIFIED, "cgroup.controllers", "cpu memory\n");
	cpu_v2("/kubepods.slice", "max 100000\n", 0, 0);
	cpu_v2("/kubepods.slice/pod1.slice", "200000 100000\n", 900, 3);
	cpu_v2("/kubepods.slice/pod1.slice/cri-1.scope", "150000 100000\n", 1000, 400);
	memory_in(UNIFIED "/kubepods.slice", "9000000\n", "8000\n", true);
	memory_in(UNIFIED "/kubepods.slice/pod1.slice", "5000000\n", "7000\n", true);
	memory_in(UNIFIED "/kubepods.slice/pod1.slice/cri-1.scope", "max\n", "6000\n", true);
	look();
	assert_quota(150000, 100000);
	assert_int_equal(got.group_limit, 5000000);
	assert_int_equal(got.group_used, 7000);
	cpu_v2("/kubepods.slice/pod1.slice/cri-1.scope", "150000 100000\n", 1010, 406);
	look();
	assert_throttled(10, 6);
}

static void no_limit_is_known(void **state)
{
	(void)state;
	/* the root group of version 2 has neither cpu.max nor memory.current */
	mounts(MOUNT_V2("/"));
	groups("0::/\n");
	write_in(UNIFIED, "cpu.stat", "usage_usec 5\n");
	look();
	assert_int_equal(got.known, DLP_SYS_QUOTA);
	assert_quota(0, 0);
	/* without limits the memory of the process's own group is meant */
	groups("0::/user.slice/me.scope\n");
	memory_in(UNIFIED "/user.slice", "max\n", "9000\n", true);
	memory_in(UNIFIED "/user.slice/me.scope", "max\n", "8000\n", true);
	look();
	assert_quota(0, 0);
	assert_true(got.known & DLP_SYS_GROUPMEM);
	assert_int_equal(got.group_limit, 0);
	assert_int_equal(got.group_used, 8000);
}

static void the_tightest_counts(void **state)
{
	(void)state;
	mounts(TMPFS MOUNT_CPU("/"));
	groups("3:cpu,cpuacct:/a/b/c\n");
	cpu_v1("", -1, 100000, 0, 0);
	cpu_v1("/a", 100000, 50000, 1, 1);
	/* less time than below, but in a shorter period: 1.5 CPUs against 1 */
	cpu_v1("/a/b", 15000, 10000, 2, 2);
	cpu_v1("/a/b/c", 100000, 100000, 3, 3);
	look();
	assert_quota(100000, 100000);
	cpu_v1("/a", 40000, 50000, 1, 1);
	look();
	assert_quota(40000, 50000);
	/* of two alike the nearest */
	cpu_v1("/a/b/c", 80000, 100000, 3, 3);
	look();
	assert_quota(80000, 100000);
}

static void hybrid(void **state)
{
	(void)state;
	/* controllers in version 1, processes also in a version 2 tree without any */
	mounts(TMPFS MOUNT_V2_BESIDE MOUNT_CPU("/") MOUNT_MEMORY("/"));
	groups("4:memory:/\n1:cpu,cpuacct:/job\n0::/elsewhere\n");
	cpu_v1("", -1, 100000, 0, 0);
	cpu_v1("/job", 50000, 100000, 0, 0);
	memory_in(MEMORY, V1_NONE, "12345\n", false);
	write_in("sys/fs/cgroup/unified/elsewhere", "cpu.max", "1000 100000\n");
	look();
	assert_quota(50000, 100000);
	assert_int_equal(got.group_limit, 0);
	assert_int_equal(got.group_used, 12345);
	/* its version 1 hierarchy is not mounted here: version 2 does not have the controller */
	mounts(TMPFS MOUNT_V2_BESIDE MOUNT_MEMORY("/"));
	look_anew();
	assert_int_equal(got.known, DLP_SYS_GROUPMEM);
	/* one controller still in version 1, the other in version 2 */
	mounts(TMPFS MOUNT_V2_BESIDE MOUNT_MEMORY("/"));
	groups("4:memory:/\n0::/elsewhere\n");
	write_in("sys/fs/cgroup/unified/elsewhere", "cpu.stat",
		 "nr_periods 1\nnr_throttled 1\nthrottled_usec 1\n");
	look_anew();
	assert_quota(1000, 100000);
	assert_int_equal(got.group_used, 12345);
}

static void moves_do_not_jump(void **state)
{
	(void)state;
	mounts(TMPFS MOUNT_CPU("/"));
	groups("3:cpu,cpuacct:/a\n");
	cpu_v1("", -1, 100000, 0, 0);
	cpu_v1("/a", 50000, 100000, 100, 50);
	cpu_v1("/b", 25000, 100000, 90000, 80000);
	look();
	cpu_v1("/a", 50000, 100000, 110, 55);
	look();
	assert_throttled(10, 5);
	groups("3:cpu,cpuacct:/b\n");
	look();
	assert_quota(25000, 100000);
	assert_throttled(10, 5);
	cpu_v1("/b", 25000, 100000, 90003, 80002);
	look();
	assert_throttled(13, 7);
	/* back, and made anew */
	groups("3:cpu,cpuacct:/a\n");
	look();
	assert_throttled(13, 7);
	cpu_v1("/a", 50000, 100000, 2, 1);
	look();
	assert_throttled(13, 7);
	cpu_v1("/a", 50000, 100000, 4, 2);
	look();
	assert_throttled(15, 8);
	/* each counter on its own tells of another group */
	write_in(CPU "/a", "cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_time 1\n");
	look();
	assert_throttled(15, 8);
	/* another group on the way becomes the tightest */
	cpu_v1("", 10000, 100000, 7000, 6000);
	look();
	assert_quota(10000, 100000);
	assert_throttled(15, 8);
}

static void an_ending_process_stays_where_it_was(void **state)
{
	(void)state;
	mounts(TMPFS MOUNT_CPU("/"));
	groups("3:cpu,cpuacct:/a\n");
	cpu_v1("", -1, 100000, 0, 0);
	cpu_v1("/a", 50000, 100000, 100, 50);
	look();
	/* version 1 says so of a process with PF_EXITING */
	tree_add_process(&tree, &(struct tree_process){
					.pid = PID, .ppid = 1, .comm = "python", .flags = 0x404 });
	groups("3:cpu,cpuacct:/\n");
	cpu_v1("/a", 50000, 100000, 104, 52);
	look();
	assert_quota(50000, 100000);
	assert_throttled(4, 2);
	/* a move to the root of one that lives on is a move */
	tree_add_process(&tree, &(struct tree_process){
					.pid = PID, .ppid = 1, .comm = "python", .flags = 0x400 });
	look();
	assert_quota(0, 0);
	/* gone for good, and then its group too */
	groups("3:cpu,cpuacct:/a\n");
	look();
	assert_int_equal(unlink(tree_path(&tree, "proc/100/cgroup")), 0);
	assert_int_equal(unlink(tree_path(&tree, "proc/100/stat")), 0);
	look();
	assert_quota(50000, 100000);
	assert_int_equal(rename(tree_path(&tree, CPU "/a"), tree_path(&tree, "a")), 0);
	look();
	assert_nothing();
}

static void what_is_missing_is_unknown(void **state)
{
	(void)state;
	look();
	assert_nothing();
	groups("3:cpu,cpuacct:/a\n4:memory:/a\n");
	look_anew();
	assert_nothing();
	mounts(TMPFS MOUNT_CPU("/") MOUNT_MEMORY("/"));
	look_anew();
	assert_nothing();
	/* a group that is not there, then a quota without its period, then one without statistics */
	cpu_v1("", -1, 100000, 0, 0);
	look_anew();
	assert_nothing();
	write_in(CPU "/a", "cpu.cfs_quota_us", "50000\n");
	look_anew();
	assert_nothing();
	write_in(CPU "/a", "cpu.cfs_period_us", "100000\n");
	look_anew();
	assert_nothing();
	write_in(CPU "/a", "cpu.stat", "nr_periods 1\nnr_throttled 1\n");
	look_anew();
	assert_nothing();
	write_in(CPU "/a", "cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 1\n");
	look_anew();
	assert_quota(50000, 100000);
	/* a limit above it that cannot be read may be the tightest */
	write_in(CPU, "cpu.cfs_quota_us", "rubbish\n");
	look_anew();
	assert_nothing();
}

static void rubbish_is_unknown(void **state)
{
	static const char *const bad_max[] = {
		"",
		"\n",
		"max",
		"maximum 100000\n",
		"-5 100000\n",
		"50000\n",
		"50000 0\n",
		"0 100000\n",
		"50000 x\n",
		"99999999999999999999 100000\n",
		"50000x 100000\n",
	};
	static const char *const bad_groups[] = {
		"",	     "\n",     ":", "::", "0::\n", "0:/\n", "x\n", "0::relative\n",
		"0:cpu:x\n", "::::\n",
	};
	static const char *const bad_mounts[] = {
		"",
		"\n",
		" - \n",
		"35 24 0:32 / /sys/fs/cgroup rw\n",
		"35 24 0:32 / - cgroup2 cgroup2 rw\n",
		"35 24 0:32 / /sys/fs/cgroup rw - cgroup2\n",
		"35 24 0:32 / /sys/fs/cgroup rw - cgroup cgroup2 rw\n",
	};

	(void)state;
	mounts(MOUNT_V2("/"));
	groups("0::/job\n");
	cpu_v2("/job", "50000 100000\n", 1, 1);
	look();
	assert_quota(50000, 100000);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad_max); i++) {
		cpu_v2("/job", bad_max[i], 1, 1);
		look_anew();
		assert_nothing();
	}
	cpu_v2("/job", "50000 100000\n", 1, 1);
	memory_in(UNIFIED "/job", "lots\n", "1\n", true);
	look_anew();
	assert_int_equal(got.known, DLP_SYS_QUOTA);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad_groups); i++) {
		groups(bad_groups[i]);
		look_anew();
		assert_nothing();
	}
	groups("0::/job\n");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad_mounts); i++) {
		mounts(bad_mounts[i]);
		look_anew();
		assert_nothing();
	}
}

static void huge_numbers_are_bounded(void **state)
{
	(void)state;
	mounts(MOUNT_V2("/"));
	groups("0::/job\n");
	cpu_v2("/job", "18446744073709551615 1\n", 0, 0);
	memory_in(UNIFIED "/job", "18446744073709551615\n", "18446744073709551615\n", true);
	look();
	assert_true(got.quota_us == UINT64_MAX);
	write_in(UNIFIED "/job", "cpu.stat",
		 "nr_periods 18446744073709551615\nnr_throttled 18446744073709551615\n"
		 "throttled_usec 18446744073709551615\n");
	look();
	assert_true(got.throttled_ns == UINT64_MAX);
	assert_true(got.group_used == UINT64_MAX);
	/* near 2^63 is a limit in version 2, and none in version 1 */
	mounts(TMPFS MOUNT_MEMORY("/"));
	groups("4:memory:/job\n");
	memory_in(MEMORY, V1_NONE, "3\n", false);
	memory_in(MEMORY "/job", V1_NONE, "2\n", false);
	look_anew();
	assert_int_equal(got.group_limit, 0);
	assert_int_equal(got.group_used, 2);
}

static void long_paths_are_bounded(void **state)
{
	char text[9000], deep[3 * 4096];

	(void)state;
	mounts(MOUNT_V2("/"));
	cpu_v2("", "50000 100000\n", 0, 0);
	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/", 4);
	text[5000] = '\0';
	groups(text);
	look();
	assert_nothing();
	/* a mount point that would not fit behind the root of the tree */
	memset(deep, 'b', sizeof(deep));
	(void)snprintf(deep, sizeof(deep), "35 24 0:32 / /%04090d rw - cgroup2 cgroup2 rw\n", 7);
	mounts(deep);
	groups("0::/\n");
	look_anew();
	assert_nothing();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(version_1),
		TEST(version_2),
		TEST(no_limit_is_known),
		TEST(the_tightest_counts),
		TEST(hybrid),
		TEST(moves_do_not_jump),
		TEST(an_ending_process_stays_where_it_was),
		TEST(what_is_missing_is_unknown),
		TEST(rubbish_is_unknown),
		TEST(huge_numbers_are_bounded),
		TEST(long_paths_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
