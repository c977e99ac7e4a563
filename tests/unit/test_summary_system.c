/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's "system": growth over the window, null for what is unknown, others by CPU time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "summary_check.h"

/* Two snapshots 12 s apart, every group of figures known. */
static void add_snapshots(void)
{
	struct dlp_ev_system *first = &job.model.system.first, *last = &job.model.system.last;

	*first = (struct dlp_ev_system){
		.hdr = { .size = sizeof(*first), .kind = DLP_EV_SYSTEM, .ts_ns = JOB_START_NS },
		.known = 0x7f,
		.cpus = 8,
		.cpus_allowed = 6,
		.quota_us = 150000,
		.period_us = 100000,
		.periods = 7,
		.throttled_periods = 6,
		.throttled_ns = 5000,
		.busy_ns = 1000,
		.steal_ns = 1000,
		.mem_total = 1 << 30,
		.mem_available = 1 << 29,
		.swap_total = 4096,
		.swap_free = 4096,
		.reclaim_pages = 70,
		.swap_in_pages = 80,
		.oom_kills = 90,
		.group_limit = 1 << 28,
		.group_used = 1 << 20,
		.psi_cpu_us = 1000,
		.psi_io_us = 2000,
		.psi_memory_us = 3000,
		.shm_total = 1 << 26,
		.shm_free = 1 << 26,
	};
	*last = *first;
	last->hdr.ts_ns += 12 * SECOND;
	last->periods += 120;
	last->throttled_periods += 100;
	last->throttled_ns += 4321000000;
	last->steal_ns += 250000000;
	last->mem_available = 1 << 28;
	last->swap_free = 1024;
	last->reclaim_pages += 1;
	last->swap_in_pages += 2;
	last->oom_kills += 3;
	last->group_used = 1 << 21;
	last->psi_cpu_us += 4;
	last->psi_io_us += 5;
	last->psi_memory_us += 6;
	last->shm_free = 1 << 20;
}

static void every_figure(void **state)
{
	(void)state;
	add_snapshots();
	load();
	/* the events know better than whoever filled the facts when attaching */
	assert_integer("system.cpus", 8);
	assert_integer("system.cpus_allowed", 6);
	assert_number("system.cgroup.quota_cpus", 1.5, 1e-9);
	assert_integer("system.cgroup.periods", 120);
	assert_integer("system.cgroup.throttled_periods", 100);
	assert_number("system.cgroup.throttled_us", 4321000, 0.1);
	assert_integer("system.memory.total_bytes", 1 << 30);
	assert_integer("system.memory.available_bytes", 1 << 28);
	assert_integer("system.memory.swap_used_bytes", 3072);
	assert_integer("system.memory.group_limit_bytes", 1 << 28);
	assert_integer("system.memory.group_used_bytes", 1 << 21);
	assert_integer("system.memory.reclaim_pages", 1);
	assert_integer("system.memory.swap_in_pages", 2);
	assert_integer("system.memory.oom_kills", 3);
	assert_integer("system.memory.pressure.cpu_us", 4);
	assert_integer("system.memory.pressure.io_us", 5);
	assert_integer("system.memory.pressure.memory_us", 6);
	assert_integer("system.shm.total_bytes", 1 << 26);
	assert_integer("system.shm.free_bytes", 1 << 20);
	assert_number("system.hypervisor_steal_us", 250000, 0.1);
	/* nobody looked at other processes */
	assert_null_at("system.others_cpu_us");
	assert_null_at("system.steal_by_others");
}

static void parts_may_be_unknown(void **state)
{
	static const char *const paths[] = {
		"system.cgroup.quota_cpus",	  "system.cgroup.periods",
		"system.cgroup.throttled_us",	  "system.memory.total_bytes",
		"system.memory.swap_used_bytes",  "system.memory.group_limit_bytes",
		"system.memory.group_used_bytes", "system.memory.oom_kills",
		"system.memory.pressure.io_us",	  "system.shm.total_bytes",
		"system.hypervisor_steal_us",
	};

	(void)state;
	add_snapshots();
	job.model.system.last = (struct dlp_ev_system){ .hdr = job.model.system.last.hdr };
	load();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(paths); i++)
		assert_null_at(paths[i]);
	assert_integer("system.cpus", 4);
	assert_integer("system.cpus_allowed", 2);
	/* counters that went back are unknown, and made-up ones do not overflow */
	add_snapshots();
	job.model.system.last.throttled_ns = 0;
	job.model.system.last.periods = UINT64_MAX;
	job.model.system.last.quota_us = 0;
	load();
	assert_null_at("system.cgroup.throttled_us");
	assert_null_at("system.cgroup.quota_cpus");
	assert_true(json_integer_value(at("system.cgroup.periods")) > 0);
}

static void other_processes_are_ranked(void **state)
{
	static const struct dlp_other other[] = {
		{ .pid = 20, .comm = "small", .used_ns = 1000 },
		{ .pid = 21, .comm = "idle", .used_ns = 0, .seen_ns = 9000 },
		{ .pid = 22, .comm = "\x1b[2Jsixteen..,", .used_ns = 2000000000 },
	};
	struct dlp_system_facts *system = &job.model.system;

	(void)state;
	system->others_ns = job.model.end_ns;
	load();
	assert_number("system.others_cpu_us", 0, 0);
	assert_int_equal(json_array_size(at("system.steal_by_others")), 0);
	memcpy(system->others, other, sizeof(other));
	memset(system->others[2].comm + 13, 'x', 3);
	system->other_cnt = DLP_ARRAY_SIZE(other);
	system->others_all.used_ns = 3000000000;
	load();
	assert_number("system.others_cpu_us", 3000000, 0.1);
	assert_int_equal(json_array_size(at("system.steal_by_others")), 2);
	assert_integer("system.steal_by_others.0.pid", 22);
	assert_number("system.steal_by_others.0.cpu_us", 2000000, 0.1);
	assert_text("system.steal_by_others.0.comm", "?[2Jsixteen..xxx");
	assert_text("system.steal_by_others.1.comm", "small");
	assert_number("system.steal_by_others.1.cpu_us", 1, 0.01);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_figure),
		TEST(parts_may_be_unknown),
		TEST(other_processes_are_ranked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
