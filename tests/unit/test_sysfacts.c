/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The system's figures on a made-up tree: each group on its own, unknown when it cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "sysfacts.h"
#include "tree.h"
#include "util.h"

#define PID 100

static struct tree tree;
static struct dlp_sysfacts *facts;
static struct dlp_ev_system got;
static uint64_t tick_ns;

static const char *const machine_files[] = {
	"proc/stat",	     "proc/meminfo",	     "proc/vmstat",
	"proc/pressure/cpu", "proc/pressure/memory", "sys/devices/system/cpu/online",
};

/* A machine whose every figure is another number. */
static void write_machine(void)
{
	tree_text(&tree, "proc/stat",
		  "cpu  1 20 300 4000 50000 600000 7000000 80000000 1 20\n"
		  "cpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n");
	tree_text(&tree, "proc/meminfo",
		  "MemTotal:       1000 kB\nMemFree:         111 kB\nMemAvailable:    400 kB\n"
		  "SwapCached:        9 kB\nSwapTotal:       200 kB\nSwapFree:         50 kB\n");
	tree_text(&tree, "proc/vmstat",
		  "nr_free_pages 1\npswpin 21\npswpout 22\npgscan_kswapd 23\npgscan_direct 24\n"
		  "pgscan_direct_throttle 25\npgscan_khugepaged 26\noom_kill 27\n");
	tree_text(&tree, "proc/pressure/cpu",
		  "some avg10=1.50 avg60=0.00 avg300=0.00 total=31\n"
		  "full avg10=0.00 avg60=0.00 avg300=0.00 total=41\n");
	tree_text(&tree, "proc/pressure/io",
		  "some avg10=0.00 avg60=0.00 avg300=0.00 total=32\n"
		  "full avg10=0.00 avg60=0.00 avg300=0.00 total=42\n");
	tree_text(&tree, "proc/pressure/memory",
		  "some avg10=0.00 avg60=0.00 avg300=0.00 total=33\n"
		  "full avg10=0.00 avg60=0.00 avg300=0.00 total=43\n");
	tree_text(&tree, "sys/devices/system/cpu/online", "0-1,4-6,13\n");
}

static int start(void **state)
{
	(void)state;
	tick_ns = DLP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID, .ppid = 1, .comm = "python" });
	tree_text(&tree, "rootfs/dev/shm/x", "x");
	tree_text(&tree, "proc/self/mountinfo",
		  "35 24 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_text(&tree, "proc/100/cgroup", "0::/job\n");
	tree_text(&tree, "sys/fs/cgroup/job/cpu.max", "50000 100000\n");
	tree_text(&tree, "sys/fs/cgroup/job/cpu.stat",
		  "nr_periods 9\nnr_throttled 8\nthrottled_usec 7\n");
	tree_text(&tree, "sys/fs/cgroup/job/memory.max", "4096\n");
	tree_text(&tree, "sys/fs/cgroup/job/memory.current", "1024\n");
	write_machine();
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlp_sysfacts_free(facts);
	facts = NULL;
	tree_fini(&tree);
	return 0;
}

static void look(void)
{
	if (!facts)
		assert_int_equal(dlp_sysfacts_new(tree.path, PID, &facts), 0);
	dlp_sysfacts_read(facts, 12345, &got);
}

static void look_anew(void)
{
	dlp_sysfacts_free(facts);
	facts = NULL;
	look();
}

static void every_figure(void **state)
{
	struct statvfs fs;

	(void)state;
	look();
	assert_int_equal(got.hdr.size, sizeof(got));
	assert_int_equal(got.hdr.kind, DLP_EV_SYSTEM);
	assert_int_equal(got.hdr.ts_ns, 12345);
	assert_int_equal(got.hdr.tgid, PID);
	assert_int_equal(got.known, 0x7f);
	assert_int_equal(got.cpus, 6);
	/* the process's mask is 0-3,12-15 */
	assert_int_equal(got.cpus_allowed, 3);
	assert_int_equal(got.quota_us, 50000);
	assert_int_equal(got.group_limit, 4096);
	assert_int_equal(got.busy_ns, 7600321 * tick_ns);
	assert_int_equal(got.idle_ns, 54000 * tick_ns);
	assert_int_equal(got.steal_ns, 80000000 * tick_ns);
	assert_int_equal(got.mem_total, 1000 * 1024);
	assert_int_equal(got.mem_available, 400 * 1024);
	assert_int_equal(got.swap_total, 200 * 1024);
	assert_int_equal(got.swap_free, 50 * 1024);
	assert_int_equal(got.reclaim_pages, 24);
	assert_int_equal(got.swap_in_pages, 21);
	assert_int_equal(got.oom_kills, 27);
	assert_int_equal(got.psi_cpu_us, 31);
	assert_int_equal(got.psi_io_us, 32);
	assert_int_equal(got.psi_memory_us, 33);
	assert_int_equal(statvfs(tree_path(&tree, "rootfs/dev/shm"), &fs), 0);
	assert_int_equal(got.shm_total, (uint64_t)fs.f_blocks * fs.f_frsize);
	assert_true(got.shm_free && got.shm_free < got.shm_total);
}

static void figures_are_new_each_time(void **state)
{
	(void)state;
	look();
	tree_text(&tree, "proc/vmstat", "pgscan_direct 1024\npswpin 1021\noom_kill 1027\n");
	tree_text(&tree, "sys/devices/system/cpu/online", "0\n");
	look();
	assert_int_equal(got.reclaim_pages, 1024);
	assert_int_equal(got.oom_kills, 1027);
	assert_int_equal(got.cpus, 1);
	assert_int_equal(got.cpus_allowed, 1);
	assert_int_equal(got.known, 0x7f);
}

static void each_file_may_be_missing(void **state)
{
	static const uint32_t lost[] = {
		DLP_SYS_CPU, DLP_SYS_MEM, DLP_SYS_VM, DLP_SYS_PSI, DLP_SYS_PSI, 0,
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(machine_files); i++) {
		write_machine();
		assert_int_equal(unlink(tree_path(&tree, "%s", machine_files[i])), 0);
		look_anew();
		assert_int_equal(got.known, 0x7f & ~lost[i]);
	}
	assert_int_equal(got.cpus, 0);
	assert_int_equal(got.cpus_allowed, 0);
	assert_int_equal(unlink(tree_path(&tree, "proc/100/root")), 0);
	look_anew();
	assert_int_equal(got.known, 0x7f & ~DLP_SYS_SHM);
	assert_int_equal(got.shm_total, 0);
}

static void rubbish_is_unknown(void **state)
{
	static const struct {
		const char *path, *text;
		uint32_t lost;
	} cases[] = {
		{ "proc/stat", "", DLP_SYS_CPU },
		{ "proc/stat", "cpu", DLP_SYS_CPU },
		{ "proc/stat", "cpu 1 2 3 4 5 6 7\n", DLP_SYS_CPU },
		{ "proc/stat", "cpu 1 2 3 4 x 6 7 8\n", DLP_SYS_CPU },
		{ "proc/stat", "cpu 1 2 3 4 5 6 7 18446744073709551615\n", DLP_SYS_CPU },
		{ "proc/meminfo", "MemTotal: 1 kB\n", DLP_SYS_MEM },
		{ "proc/meminfo",
		  "MemTotal: 1 kB\nMemAvailable: x kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n",
		  DLP_SYS_MEM },
		{ "proc/meminfo",
		  "MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\nSwapTotal: 1 kB\n"
		  "SwapFree: 1 kB\n",
		  DLP_SYS_MEM },
		{ "proc/vmstat", "pgscan_direct_throttle 1\noom_kill 1\npswpin 1\n", DLP_SYS_VM },
		{ "proc/vmstat", "pgscan_direct 1\npswpin 1\n", DLP_SYS_VM },
		/* a kernel without swap */
		{ "proc/vmstat", "pgscan_direct 1\noom_kill 1\n", 0 },
		{ "proc/pressure/io", "full avg10=0.00 total=42\n", DLP_SYS_PSI },
		{ "proc/pressure/io", "some avg10=0.00\nfull total=42\n", DLP_SYS_PSI },
		{ "proc/pressure/io", "some total=\n", DLP_SYS_PSI },
		{ "proc/pressure/io", "", DLP_SYS_PSI },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		write_machine();
		tree_text(&tree, cases[i].path, "%s", cases[i].text);
		look_anew();
		assert_int_equal(got.known, 0x7f & ~cases[i].lost);
	}
	assert_int_equal(got.psi_cpu_us, 0);
}

static void cpu_lists_are_strict(void **state)
{
	static const struct {
		const char *text;
		uint32_t cpus;
	} cases[] = {
		{ "0\n", 1 },	 { "0-3\n", 4 },  { "0-3,2-5\n", 6 },
		{ "8191\n", 1 }, { "8192\n", 0 }, { "0-99999999999\n", 8192 },
		{ "5-3\n", 0 },	 { "\n", 0 },	  { "", 0 },
		{ "-1\n", 0 },	 { "0,\n", 0 },	  { "0-\n", 0 },
		{ "0x\n", 0 },	 { "0 1\n", 0 },  { "all\n", 0 },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		tree_text(&tree, "sys/devices/system/cpu/online", "%s", cases[i].text);
		look_anew();
		if (got.cpus != cases[i].cpus)
			fail_msg("'%s' gives %u CPUs", cases[i].text, got.cpus);
	}
}

static void a_trainer_that_has_gone_leaves_its_last_figures(void **state)
{
	struct dlp_ev_system before;

	(void)state;
	look();
	before = got;
	/* it cannot be read, but is there: unknown */
	assert_int_equal(rename(tree_path(&tree, "sys/fs/cgroup/job"), tree_path(&tree, "job")), 0);
	look();
	assert_int_equal(got.known, 0x7f & ~(DLP_SYS_QUOTA | DLP_SYS_GROUPMEM));
	assert_int_equal(got.quota_us, 0);
	/* it has ended */
	assert_int_equal(rename(tree_path(&tree, "job"), tree_path(&tree, "sys/fs/cgroup/job")), 0);
	look();
	assert_int_equal(rename(tree_path(&tree, "sys/fs/cgroup/job"), tree_path(&tree, "job")), 0);
	assert_int_equal(unlink(tree_path(&tree, "proc/100/stat")), 0);
	assert_int_equal(unlink(tree_path(&tree, "proc/100/root")), 0);
	tree_text(&tree, "proc/100/status", "%s", "");
	tree_text(&tree, "proc/vmstat", "pgscan_direct 99\noom_kill 99\n");
	look();
	assert_int_equal(got.known, 0x7f);
	assert_int_equal(got.cpus_allowed, before.cpus_allowed);
	assert_int_equal(got.quota_us, before.quota_us);
	assert_int_equal(got.period_us, before.period_us);
	assert_int_equal(got.group_limit, before.group_limit);
	assert_int_equal(got.group_used, before.group_used);
	assert_int_equal(got.shm_total, before.shm_total);
	assert_int_equal(got.oom_kills, 99);
}

static void this_machine(void **state)
{
	(void)state;
	assert_int_equal(dlp_sysfacts_new("", getpid(), &facts), 0);
	dlp_sysfacts_read(facts, 1, &got);
	assert_int_equal(got.cpus, sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(got.cpus_allowed >= 1 && got.cpus_allowed <= got.cpus);
	assert_true(got.known & DLP_SYS_CPU);
	assert_true(got.known & DLP_SYS_MEM);
	assert_int_equal(got.mem_total / (uint64_t)sysconf(_SC_PAGESIZE), sysconf(_SC_PHYS_PAGES));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(every_figure),
		TEST(figures_are_new_each_time),
		TEST(each_file_may_be_missing),
		TEST(rubbish_is_unknown),
		TEST(cpu_lists_are_strict),
		TEST(a_trainer_that_has_gone_leaves_its_last_figures),
		TEST(this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
