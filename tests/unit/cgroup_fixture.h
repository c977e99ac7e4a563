/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A made-up machine's control groups, their mounts, and one process in them. */
#ifndef CGROUP_FIXTURE_H
#define CGROUP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "tree.h"
#include "util.h"

#define PID 100
#define CPU "sys/fs/cgroup/cpu,cpuacct"
#define MEMORY "sys/fs/cgroup/memory"
#define UNIFIED "sys/fs/cgroup"
#define TMPFS "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
/* ROOT is where in its hierarchy the mount begins. */
#define MOUNT_CPU(ROOT)                                                                            \
	"32 31 0:29 " ROOT " /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup "       \
	"rw,cpu,cpuacct\n"
#define MOUNT_CPUSET                                                                               \
	"33 31 0:30 / /sys/fs/cgroup/cpuset rw,nosuid shared:10 - cgroup none rw,cpuset\n"
#define MOUNT_MEMORY(ROOT)                                                                         \
	"34 31 0:31 " ROOT                                                                         \
	" /sys/fs/cgroup/memory rw shared:11 master:4 - cgroup cgroup rw,memory\n"
#define MOUNT_V2(ROOT) "35 24 0:32 " ROOT " /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V2_BESIDE "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define WIDER_MOUNT "40 1 0:29 /docker /mnt/with\\040blank rw - cgroup c rw,cpu\n"
#define V1_NONE "9223372036854771712\n"

static struct tree tree;
static struct dlp_cgroup *cgroup;
static struct dlp_ev_system got;

static inline int start(void **state)
{
	(void)state;
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID, .ppid = 1, .comm = "python" });
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	dlp_cgroup_free(cgroup);
	cgroup = NULL;
	tree_fini(&tree);
	return 0;
}

static inline void look(void)
{
	if (!cgroup)
		assert_int_equal(dlp_cgroup_new(tree.path, PID, &cgroup), 0);
	memset(&got, 0, sizeof(got));
	dlp_cgroup_read(cgroup, &got);
}

static inline void look_anew(void)
{
	dlp_cgroup_free(cgroup);
	cgroup = NULL;
	look();
}

static inline void write_in(const char *folder, const char *file, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	tree_text(&tree, path, "%s", text);
}

static inline void cpu_v1(const char *group, int quota_us, int period_us, int periods, int throttled)
{
	char folder[256], text[256];

	(void)snprintf(folder, sizeof(folder), CPU "%s", group);
	(void)snprintf(text, sizeof(text), "%d\n", quota_us);
	write_in(folder, "cpu.cfs_quota_us", text);
	(void)snprintf(text, sizeof(text), "%d\n", period_us);
	write_in(folder, "cpu.cfs_period_us", text);
	(void)snprintf(text, sizeof(text),
		       "nr_periods %d\nnr_throttled %d\nthrottled_time %d000000\n", periods,
		       throttled, throttled);
	write_in(folder, "cpu.stat", text);
}

static inline void cpu_v2(const char *group, const char *max, int periods, int throttled)
{
	char folder[256], text[256];

	(void)snprintf(folder, sizeof(folder), UNIFIED "%s", group);
	write_in(folder, "cpu.max", max);
	(void)snprintf(text, sizeof(text),
		       "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods %d\nnr_throttled %d\n"
		       "throttled_usec %d000\nnr_bursts 0\nburst_usec 0\n",
		       periods, throttled, throttled);
	write_in(folder, "cpu.stat", text);
}

static inline void memory_in(const char *folder, const char *limit, const char *used, bool v2)
{
	write_in(folder, v2 ? "memory.max" : "memory.limit_in_bytes", limit);
	write_in(folder, v2 ? "memory.current" : "memory.usage_in_bytes", used);
}

static inline void mounts(const char *text)
{
	write_in("proc/self", "mountinfo", text);
}

static inline void groups(const char *text)
{
	write_in("proc/100", "cgroup", text);
}

static inline void assert_quota(uint64_t quota_us, uint64_t period_us)
{
	assert_true(got.known & DLP_SYS_QUOTA);
	assert_int_equal(got.quota_us, quota_us);
	assert_int_equal(got.period_us, period_us);
}

static inline void assert_throttled(uint64_t periods, uint64_t throttled)
{
	assert_int_equal(got.periods, periods);
	assert_int_equal(got.throttled_periods, throttled);
	assert_int_equal(got.throttled_ns, throttled * DLP_NS_PER_MS);
}

static inline void assert_nothing(void)
{
	static const struct dlp_ev_system nothing;

	assert_memory_equal(&got, &nothing, sizeof(got));
}

#endif /* CGROUP_FIXTURE_H */
