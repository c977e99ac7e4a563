/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The system in the model: which snapshots are kept, what two of them say, and who else runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "system.h"
#include "util.h"

#define START_NS 1000000000ull
#define CLOSE(value, wanted) assert_true(fabs((value) - (wanted)) < 1e-9)

static struct dlp_model *model;

static int start(void **state)
{
	(void)state;
	return dlp_model_new(&model);
}

static int end(void **state)
{
	(void)state;
	dlp_model_free(model);
	return 0;
}

static void window(uint32_t phase, uint64_t ts_ns)
{
	const struct dlp_ev_window ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_WINDOW, .ts_ns = ts_ns },
		.phase = phase,
	};

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void snapshot(uint64_t ts_ns)
{
	const struct dlp_ev_system ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_SYSTEM, .ts_ns = ts_ns },
		.known = DLP_SYS_VM,
		.oom_kills = ts_ns,
	};

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void other(uint32_t pid, const char *comm, uint64_t ts_ns, uint64_t cpu_ns)
{
	struct dlp_ev_other ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_OTHER, .ts_ns = ts_ns, .tgid = pid },
		.cpu_ns = cpu_ns,
	};

	memcpy(ev.comm, comm, strnlen(comm, sizeof(ev.comm)));
	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void snapshots_at_the_edges(void **state)
{
	const struct dlp_system_facts *system = &model->system;

	(void)state;
	assert_int_equal(system->last.hdr.size, 0);
	snapshot(1);
	snapshot(2);
	assert_int_equal(system->first.hdr.ts_ns, 2);
	assert_int_equal(system->before.hdr.ts_ns, 2);
	window(0, 3);
	assert_int_equal(system->last.hdr.ts_ns, 2);
	snapshot(10);
	assert_int_equal(system->first.hdr.ts_ns, 2);
	assert_int_equal(system->before.hdr.ts_ns, 2);
	snapshot(20);
	assert_int_equal(system->first.hdr.ts_ns, 2);
	assert_int_equal(system->before.hdr.ts_ns, 10);
	assert_int_equal(system->last.hdr.ts_ns, 20);
	window(2, 21);
	snapshot(30);
	assert_int_equal(system->last.hdr.ts_ns, 20);
}

static void without_one_before_the_window(void **state)
{
	const struct dlp_system_facts *system = &model->system;

	(void)state;
	window(0, 3);
	snapshot(10);
	snapshot(20);
	assert_int_equal(system->first.hdr.ts_ns, 10);
	assert_int_equal(system->before.hdr.ts_ns, 10);
	assert_int_equal(system->last.hdr.ts_ns, 20);
}

static void quota_and_throttling(void **state)
{
	struct dlp_ev_system from = { .known = DLP_SYS_QUOTA,
				      .quota_us = 50000,
				      .period_us = 100000,
				      .periods = 10,
				      .throttled_periods = 5 };
	struct dlp_ev_system to = from;

	(void)state;
	CLOSE(dlp_system_quota_cpus(&from), 0.5);
	assert_true(isnan(dlp_system_throttled(&from, &to)));
	to.periods = 30;
	to.throttled_periods = 20;
	CLOSE(dlp_system_throttled(&from, &to), 0.75);
	to.throttled_periods = 31;
	CLOSE(dlp_system_throttled(&from, &to), 1);
	/* backwards */
	to.throttled_periods = 4;
	assert_true(isnan(dlp_system_throttled(&from, &to)));
	to.throttled_periods = 20;
	to.periods = 9;
	assert_true(isnan(dlp_system_throttled(&from, &to)));
	to.periods = 30;
	from.known = 0;
	assert_true(isnan(dlp_system_throttled(&from, &to)));
	assert_true(isnan(dlp_system_quota_cpus(&from)));
	from.known = DLP_SYS_QUOTA;
	to.known = 0;
	assert_true(isnan(dlp_system_throttled(&from, &to)));
	/* no limit; and what no writer makes must not divide by 0 */
	from.quota_us = 0;
	assert_true(isnan(dlp_system_quota_cpus(&from)));
	from.quota_us = 1;
	from.period_us = 0;
	assert_true(isnan(dlp_system_quota_cpus(&from)));
}

static void shares_of_the_machine(void **state)
{
	struct dlp_ev_system from = {
		.known = DLP_SYS_CPU, .busy_ns = 100, .idle_ns = 200, .steal_ns = 300
	};
	struct dlp_ev_system to = {
		.known = DLP_SYS_CPU, .busy_ns = 150, .idle_ns = 230, .steal_ns = 320
	};

	(void)state;
	CLOSE(dlp_system_idle(&from, &to), 0.3);
	CLOSE(dlp_system_steal(&from, &to), 0.2);
	/* idle may go back a little where there is next to none */
	to.idle_ns = 199;
	CLOSE(dlp_system_idle(&from, &to), 0);
	CLOSE(dlp_system_steal(&from, &to), 20.0 / 70);
	to.busy_ns = 99;
	assert_true(isnan(dlp_system_idle(&from, &to)));
	assert_true(isnan(dlp_system_steal(&from, &to)));
	assert_true(isnan(dlp_system_idle(&from, &from)));
	from.known = 0;
	to.busy_ns = 150;
	assert_true(isnan(dlp_system_idle(&from, &to)));
	CLOSE(dlp_system_growth(&from, &to, 0, 3, 10), 7);
	assert_true(isnan(dlp_system_growth(&from, &to, 0, 10, 3)));
	assert_true(isnan(dlp_system_growth(&from, &to, DLP_SYS_VM, 3, 10)));
}

static void others_count_from_the_opening(void **state)
{
	const struct dlp_other *ranked[DLP_MODEL_OTHERS_MAX];
	const uint64_t second = DLP_NS_PER_S;

	(void)state;
	assert_true(isnan(dlp_system_others_cpus(model)));
	assert_true(isnan(dlp_system_others_recent_cpus(model)));
	other(7, "early", 1, 500);
	other(0, "", START_NS - 1, 600);
	window(0, START_NS);
	assert_true(isnan(dlp_system_others_cpus(model)));
	assert_int_equal(dlp_system_others_rank(model, ranked), 0);
	other(7, "early", START_NS + second, 500);
	other(8, "late", START_NS + second, 300);
	other(9, "sixteen letters!", START_NS + second, 400);
	other(0, "", START_NS + second, 600 + second / 2);
	CLOSE(dlp_system_others_cpus(model), 0.5);
	other(8, "late", START_NS + 2 * second, 900);
	other(0, "", START_NS + 3 * second, 600 + 2 * second);
	CLOSE(dlp_system_others_cpus(model), 2.0 / 3);
	CLOSE(dlp_system_others_recent_cpus(model), 0.75);
	assert_int_equal(dlp_system_others_rank(model, ranked), 2);
	assert_int_equal(ranked[0]->pid, 8);
	assert_int_equal(ranked[0]->used_ns, 900);
	assert_int_equal(ranked[1]->pid, 9);
	assert_memory_equal(ranked[1]->comm, "sixteen letters!", 16);
	/* another process with the same number: its time is added */
	other(8, "third", START_NS + 3 * second, 50);
	assert_int_equal(dlp_system_others_rank(model, ranked), 2);
	assert_int_equal(ranked[0]->used_ns, 950);
	window(2, START_NS + 4 * second);
	other(8, "third", START_NS + 5 * second, 5000);
	other(0, "", START_NS + 5 * second, 90 * second);
	assert_int_equal(ranked[0]->used_ns, 950);
	CLOSE(dlp_system_others_cpus(model), 2.0 / 3);
}

static void many_others_are_bounded(void **state)
{
	const struct dlp_other *ranked[DLP_MODEL_OTHERS_MAX];

	(void)state;
	window(0, START_NS);
	for (uint32_t pid = 1; pid <= 500; pid++)
		other(pid, "p", START_NS + pid, pid * 7919 % 503);
	assert_int_equal(dlp_system_others_rank(model, ranked), DLP_MODEL_OTHERS_MAX);
	/* 503 is prime: each figure from 1 to 502 but two came once, and the largest are left */
	assert_true(ranked[0]->used_ns >= 500);
	assert_true(ranked[DLP_MODEL_OTHERS_MAX - 1]->used_ns >= 502 - DLP_MODEL_OTHERS_MAX - 2);
	for (size_t i = 1; i < DLP_MODEL_OTHERS_MAX; i++)
		assert_true(ranked[i]->used_ns < ranked[i - 1]->used_ns);
	assert_int_equal(model->dropped_cnt, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(snapshots_at_the_edges),	     TEST(without_one_before_the_window),
		TEST(quota_and_throttling),	     TEST(shares_of_the_machine),
		TEST(others_count_from_the_opening), TEST(many_others_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
