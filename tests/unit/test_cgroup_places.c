/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a process's control groups are found: containers, pods, namespaces, whose mounts. */
#include "cgroup_fixture.h"

static void from_inside_a_container(void **state)
{
	(void)state;
	/* docker, version 1, no cgroup namespace: the mount shows only the container's own part */
	mounts(TMPFS MOUNT_CPU("/docker/abc"));
	groups("3:cpu,cpuacct:/docker/abc\n");
	cpu_v1("", 70000, 100000, 0, 0);
	look();
	assert_quota(70000, 100000);
	/* a group made inside of it */
	groups("3:cpu,cpuacct:/docker/abc/job\n");
	cpu_v1("/job", 30000, 100000, 0, 0);
	look();
	assert_quota(30000, 100000);
	/* another container's process, and one whose name only begins alike */
	groups("3:cpu,cpuacct:/docker/other\n");
	look();
	assert_nothing();
	groups("3:cpu,cpuacct:/docker/abcd\n");
	look();
	assert_nothing();
	/* of several mounts the one that shows most */
	mounts(TMPFS MOUNT_CPU("/docker/abc") WIDER_MOUNT);
	groups("3:cpu,cpuacct:/docker/abc\n");
	write_in("mnt/with blank", "cpu.cfs_quota_us", "10000\n");
	write_in("mnt/with blank", "cpu.cfs_period_us", "100000\n");
	write_in("mnt/with blank", "cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 1\n");
	write_in("mnt/with blank/abc", "cpu.cfs_quota_us", "-1\n");
	look_anew();
	assert_quota(10000, 100000);
	/* in whichever order */
	mounts(TMPFS WIDER_MOUNT MOUNT_CPU("/docker/abc"));
	look_anew();
	assert_quota(10000, 100000);
}

/* Paths as the kubelet makes them: with the cgroupfs driver and with systemd's. */
static void kubernetes_version_1(void **state)
{
	static const char *const pods[] = {
		"/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c_b29f.slice",
	};
	char container[256], line[320];

	(void)state;
	mounts(TMPFS MOUNT_CPU("/") MOUNT_MEMORY("/"));
	for (size_t i = 0; i < DLP_ARRAY_SIZE(pods); i++) {
		(void)snprintf(container, sizeof(container), "%s/%s", pods[i],
			       i ? "cri-containerd-0123abcd.scope" : "0123abcd");
		(void)snprintf(line, sizeof(line), "4:memory:%s\n3:cpu,cpuacct:%s\n", container,
			       container);
		groups(line);
		cpu_v1("/kubepods", -1, 100000, 0, 0);
		/* the sum of the pod's containers, and one of them */
		cpu_v1(pods[i], 350000, 100000, 10, 1);
		cpu_v1(container, 50000, 100000, 100, 20);
		look_anew();
		assert_quota(50000, 100000);
		cpu_v1(container, 50000, 100000, 110, 29);
		look();
		assert_throttled(10, 9);
		/* a sidecar without a limit: the pod's holds */
		cpu_v1(container, -1, 100000, 0, 0);
		look_anew();
		assert_quota(350000, 100000);
	}
}

static void kubernetes_version_2(void **state)
{
	(void)state;
	mounts(MOUNT_V2("/"));
	groups("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podab.slice/cri-containerd-1.scope\n");
	cpu_v2("/kubelet.slice/kubelet-kubepods.slice", "max 100000\n", 0, 0);
	cpu_v2("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podab.slice", "250000 100000\n", 7, 0);
	cpu_v2("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podab.slice/cri-containerd-1.scope",
	       "max 100000\n", 0, 0);
	look();
	assert_quota(250000, 100000);
	/* from inside, in a cgroup namespace of the container's own */
	mounts(MOUNT_V2("/"));
	groups("0::/\n");
	cpu_v2("", "150000 100000\n", 3, 1);
	look_anew();
	assert_quota(150000, 100000);
}

/* A tool in a pod of its own sees the other pod's groups only where that pod has them mounted. */
static void by_the_mounts_of_the_process(void **state)
{
	(void)state;
	mounts(MOUNT_V2("/"));
	groups("0::/../../pod-b.slice/cri-2.scope\n");
	cpu_v2("", "10000 100000\n", 0, 0);
	look();
	assert_nothing();
	tree_text(&tree, "proc/100/mountinfo", "%s",
		  "50 1 0:40 / / rw - overlay overlay rw\n" MOUNT_V2("/../../pod-b.slice/cri-2.scope"));
	write_in("rootfs/" UNIFIED, "cpu.max", "60000 100000\n");
	write_in("rootfs/" UNIFIED, "cpu.stat",
		 "usage_usec 1\nnr_periods 40\nnr_throttled 30\nthrottled_usec 30000\n");
	look_anew();
	assert_quota(60000, 100000);
	write_in("rootfs/" UNIFIED, "cpu.stat",
		 "usage_usec 1\nnr_periods 45\nnr_throttled 32\nthrottled_usec 32000\n");
	look();
	assert_throttled(5, 2);
	/* where ours show it they come first: they show the groups above, too */
	mounts(MOUNT_V2("/../../pod-b.slice"));
	cpu_v2("/cri-2.scope", "50000 100000\n", 0, 0);
	look_anew();
	assert_quota(10000, 100000);
}

static void outside_our_namespace(void **state)
{
	(void)state;
	mounts(MOUNT_V2("/"));
	cpu_v2("", "50000 100000\n", 0, 0);
	cpu_v2("/..data", "40000 100000\n", 0, 0);
	groups("0::/../neighbour\n");
	look();
	assert_nothing();
	groups("0::/..\n");
	look();
	assert_nothing();
	/* a name of a group, no way up */
	groups("0::/..data\n");
	look();
	assert_quota(40000, 100000);
	/* the whole machine's tree, of which our namespace is a part: only what is beside it is found */
	mounts(MOUNT_V2("/.."));
	cpu_v2("/neighbour", "30000 100000\n", 0, 0);
	groups("0::/../neighbour\n");
	look_anew();
	assert_quota(30000, 100000);
	groups("0::/../../neighbour\n");
	look();
	assert_nothing();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(from_inside_a_container),
		TEST(kubernetes_version_1),
		TEST(kubernetes_version_2),
		TEST(by_the_mounts_of_the_process),
		TEST(outside_our_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
