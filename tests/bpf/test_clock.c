/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State clocks: every scene's known time is found in its state, twice, with task storage and
 * with the hash table that replaces it. Looked at through the split of a scope around the scene
 * and through the EXIT of the worker that played it.
 */
#include "harness.h"
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A neighbour on the machine can spoil a measurement, but not three in a row in the same way. */
#define ATTEMPTS 3
/* Below this a share of the time says nothing. */
#define KNOWN_MIN_NS (8 * BT_MS)
/*
 * What a wait may be off by at its two edges: the scheduler's own account leaves out interrupts
 * and what a hypervisor takes, and has no name for that. Emulated code is an order slower.
 */
#define EDGES_NS	  (10 * DLP_NS_PER_US)
#define EMULATED_EDGES_NS (80 * DLP_NS_PER_US)

static const char *const state_names[DLP_ST_MAX] = {
	"run", "runq", "disk", "fault", "fs", "net", "lock", "gil", "pipe", "sleep", "idle", "other",
};

static struct bt_job job;
static char why[600];

static bool wrong(const struct dlp_clock *clock, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool wrong(const struct dlp_clock *clock, const char *format, ...)
{
	size_t at;
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	at = strlen(why);
	for (int i = 0; i < DLP_ST_MAX && at < sizeof(why); i++) {
		if (clock->ns[i])
			at += (size_t)snprintf(why + at, sizeof(why) - at, " %s=%.2f", state_names[i],
					       (double)clock->ns[i] / BT_MS);
	}
	return false;
}

static double ms(uint64_t ns)
{
	return (double)ns / BT_MS;
}

/* tests/vm/guest.sh asks for patience */
static uint64_t edges_ns(uint64_t waits)
{
	return waits * (getenv("DLPROF_TEST_PATIENCE") ? EMULATED_EDGES_NS : EDGES_NS);
}

static bool split_is_right(const struct bt_scene *scene, const struct dlp_ev_scope *scope)
{
	const struct dlp_clock *split = &scope->split;
	uint64_t known = bt_truth_known_ns(scene, bt_truth), got = split->ns[scene->state];
	uint64_t wall = bt_truth->end_ns - bt_truth->begin_ns, edges = edges_ns(bt_truth->waits);

	if (known < KNOWN_MIN_NS)
		return wrong(split, "only %.2f ms were spent as meant;", ms(known));
	if ((double)(got + edges) < 0.9 * (double)known || 2 * got < known ||
	    (double)got > 1.1 * (double)known + BT_MS + (double)edges)
		return wrong(split, "%.2f ms in %s, known are %.2f in %llu waits;", ms(got),
			     state_names[scene->state], ms(known),
			     (unsigned long long)bt_truth->waits);
	if (scene->state != DLP_ST_OTHER && split->ns[DLP_ST_OTHER] * 20 > wall)
		return wrong(split, "over 5 %% of %.2f ms in other;", ms(wall));
	if (!bt_near(split->ns[DLP_ST_RUN], bt_truth->cpu_ns, 0.02, 5 * BT_MS))
		return wrong(split, "run is not the thread's CPU time, %.2f;", ms(bt_truth->cpu_ns));
	if (!bt_between(split->ns[DLP_ST_RUNQ], bt_truth->delay_ns, bt_truth->outer_delay_ns, 0.02,
			5 * BT_MS))
		return wrong(split, "runq is not the scheduler's delay, %.2f to %.2f;",
			     ms(bt_truth->delay_ns), ms(bt_truth->outer_delay_ns));
	if (!bt_near(bt_sum(split), scope->hdr.ts_ns - scope->start_ns, 0.01, 0))
		return wrong(split, "the sum is not the scope's %.2f ms;",
			     ms(scope->hdr.ts_ns - scope->start_ns));
	if (scope->start_ns < bt_truth->outer_begin_ns || scope->start_ns > bt_truth->begin_ns ||
	    scope->hdr.ts_ns < bt_truth->end_ns || scope->hdr.ts_ns > bt_truth->outer_end_ns)
		return wrong(split, "the scope's edges are not where they were;");
	return true;
}

static bool life_is_right(const struct bt_scene *scene, const struct dlp_ev_exit *event,
			  const struct dlp_ev_scope *scope)
{
	const struct dlp_clock *clock = &event->clock;

	if (event->traced_ns < bt_truth->fork_ns || event->traced_ns > bt_truth->born_ns ||
	    event->hdr.ts_ns < bt_truth->ended_ns || event->hdr.ts_ns > bt_truth->reaped_ns)
		return wrong(clock, "birth or death not when they happened;");
	if (!bt_near(bt_sum(clock), event->hdr.ts_ns - event->traced_ns, 0.01, 0))
		return wrong(clock, "the sum is not the lifetime, %.2f ms;",
			     ms(event->hdr.ts_ns - event->traced_ns));
	if (!bt_near(clock->ns[DLP_ST_RUN], event->cpu_ns, 0.02, 5 * BT_MS))
		return wrong(clock, "run is not the scheduler's CPU time, %.2f;", ms(event->cpu_ns));
	for (int i = 0; i < DLP_ST_MAX; i++) {
		if (clock->ns[i] < scope->split.ns[i])
			return wrong(clock, "less %s than in the scene alone;", state_names[i]);
	}
	if (scene->state != DLP_ST_OTHER && clock->ns[DLP_ST_OTHER] * 20 > bt_sum(clock))
		return wrong(clock, "over 5 %% in other;");
	return true;
}

static bool wait_is_right(const struct bt_scene *scene, const struct dlp_ev_scope *scope)
{
	const struct dlp_ev_wait *longest = NULL;
	const struct bt_event *event;

	for (size_t i = 0; (event = bt_find(&job, DLP_EV_WAIT, bt_truth->pid, i)); i++) {
		if (!longest ||
		    event->hdr.ts_ns - event->wait.start_ns > longest->hdr.ts_ns - longest->start_ns)
			longest = &event->wait;
	}
	if (!longest)
		return wrong(&scope->split, "no DLP_EV_WAIT for a wait of %.2f ms;",
			     ms(bt_truth_known_ns(scene, bt_truth)));
	if (longest->start_ns < bt_truth->begin_ns || longest->start_ns > longest->wake_ns ||
	    longest->wake_ns > longest->hdr.ts_ns || longest->hdr.ts_ns > bt_truth->end_ns)
		return wrong(&scope->split, "DLP_EV_WAIT out of order;");
	if (longest->syscall != scene->syscall || longest->state != scene->state)
		return wrong(&scope->split, "DLP_EV_WAIT has call %d, state %u;", longest->syscall,
			     longest->state);
	if (bt_truth->object && longest->object != bt_truth->object)
		return wrong(&scope->split, "DLP_EV_WAIT is on inode %llu, not %llu;",
			     (unsigned long long)longest->object,
			     (unsigned long long)bt_truth->object);
	return true;
}

static bool scene_is_right(const struct bt_scene *scene)
{
	static const struct dlp_clock none;
	struct bt_event *scope, *life;

	bt_clear(&job);
	bt_call(&job, bt_scene_run, (void *)scene);
	bt_drain(&job);
	if (bt_truth->skipped[0])
		bt_skip("%s", bt_truth->skipped);
	scope = bt_find(&job, DLP_EV_SCOPE, bt_truth->pid, 0);
	life = bt_find(&job, DLP_EV_EXIT, bt_truth->pid, 0);
	if (!scope || !life)
		return wrong(&none, "the worker's %s is missing", scope ? "exit" : "scope");
	return split_is_right(scene, &scope->scope) &&
	       life_is_right(scene, &life->exit, &scope->scope) &&
	       (scene->syscall == BT_NO_SYSCALL || wait_is_right(scene, &scope->scope));
}

static void play(void **state)
{
	const struct bt_scene *scene = *state;

	bt_job_need(&job);
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (scene_is_right(scene))
			return;
		if (attempt < ATTEMPTS - 1)
			print_message("# %s again: %s\n", scene->name, why);
	}
	fail_msg("%s", why);
}

/* The rungs of thread state and of queue messages do not touch each other: both in one go. */
static int setup_storage(void **state)
{
	const struct bt_setup setup = {
		.probes = BT_PROBE_SCOPE | BT_PROBE_QUEUE,
		.without = DLP_FEATURE_BIT(QUEUE_SYSCALL),
		.gil_lo = (uintptr_t)bt_gil,
		.gil_hi = (uintptr_t)bt_gil + sizeof(bt_gil),
	};

	(void)state;
	bt_job_start(&job);
	bt_job_observe(&job, &setup);
	return 0;
}

static int setup_hash(void **state)
{
	const struct bt_setup setup = {
		.probes = BT_PROBE_SCOPE,
		.without = DLP_FEATURE_BIT(TASK_STORAGE) | DLP_FEATURE_BIT(QUEUE_UPROBE),
		.gil_lo = (uintptr_t)bt_gil,
		.gil_hi = (uintptr_t)bt_gil + sizeof(bt_gil),
	};

	(void)state;
	bt_job_start(&job);
	bt_job_observe(&job, &setup);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

/* What is asked for must be what is used, or the second group proves nothing. */
static void uses_storage(void **state)
{
	struct dlp_session_info info;

	(void)state;
	bt_job_need(&job);
	dlp_session_info(job.session, &info);
	if (!(info.active & DLP_FEATURE_BIT(TASK_STORAGE)))
		bt_skip("%s", info.refused[DLP_FEATURE_TASK_STORAGE]);
}

static void uses_hash(void **state)
{
	struct dlp_session_info info;

	(void)state;
	bt_job_need(&job);
	dlp_session_info(job.session, &info);
	assert_false(info.active & DLP_FEATURE_BIT(TASK_STORAGE));
}

static void nothing_lost(void **state)
{
	struct dlp_ev_counters counters;

	(void)state;
	bt_job_need(&job);
	memset(&counters, 0, sizeof(counters));
	dlp_session_counters(job.session, &counters);
	for (int i = 0; i < DLP_CNT_MAX; i++) {
		if (i != DLP_CNT_SYSCALL_SEEN && counters.value[i])
			fail_msg("counter %d is %llu", i, (unsigned long long)counters.value[i]);
	}
	assert_int_equal(counters.recursion_misses, 0);
}

#define TESTS_MAX 64

static struct CMUnitTest group[TESTS_MAX];
static char names[TESTS_MAX][64];

static size_t list(const char *store, CMUnitTestFunction uses)
{
	size_t cnt = 0;

	memset(group, 0, sizeof(group));
	snprintf(names[cnt], sizeof(names[0]), "%s", store);
	group[cnt++] = (struct CMUnitTest){ .name = names[0], .test_func = uses };
	for (size_t i = 0; i < bt_scene_cnt && cnt < TESTS_MAX - 1; i++, cnt++) {
		snprintf(names[cnt], sizeof(names[0]), "%s: %s", store, bt_scenes[i].name);
		group[cnt] = (struct CMUnitTest){ .name = names[cnt], .test_func = play,
						  .initial_state = (void *)&bt_scenes[i] };
	}
	snprintf(names[cnt], sizeof(names[0]), "%s: nothing lost", store);
	group[cnt] = (struct CMUnitTest){ .name = names[cnt], .test_func = nothing_lost };
	return cnt + 1;
}

int main(void)
{
	int failed;
	size_t cnt;

	bt_scene_setup();
	cnt = list("task storage", uses_storage);
	failed = _cmocka_run_group_tests("task storage", group, cnt, setup_storage, teardown);
	cnt = list("hash", uses_hash);
	failed += _cmocka_run_group_tests("hash", group, cnt, setup_hash, teardown);
	return failed ? 1 : 0;
}
