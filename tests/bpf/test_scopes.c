/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * record_function scopes through probes on the test's own functions: count, label, nesting, time,
 * and what becomes of those that cannot be reported.
 */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GETNEXT "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
/* A user's own label: only the whole prefix is the DataLoader's. */
#define ALMOST_GETNEXT "enumerate(DataLoader)"
#define CALLS	       200
#define THREADS	       4

/* bpf_ktime_get_ns() may differ from the vDSO's reading while the clock is being adjusted. */
#define CLOCK_SLACK_NS 1000
/* Half of the probes are hit within this, on any machine that is not on its knees. */
#define LATE_NS (200 * DLP_NS_PER_US)

static struct bt_job job;

/* Clock readings right before and after each edge, by the process itself. */
struct edge {
	uint64_t before_ns, after_ns;
};

static struct shared {
	struct edge enter[THREADS][CALLS], exit[THREADS][CALLS];
	pid_t tid[THREADS];
	pid_t child;
} *shared;

static int open_job(void **state)
{
	(void)state;
	shared = shared ? shared : bt_shared(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	bt_job_start(&job);
	return 0;
}

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void observe(void)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE };

	bt_job_observe(&job, &setup);
	bt_job_need(&job);
}

static void timed_enter(struct edge *edge, const char *label)
{
	edge->before_ns = dlp_now_ns();
	bt_enter(label);
	edge->after_ns = dlp_now_ns();
}

static void timed_exit(struct edge *edge)
{
	edge->before_ns = dlp_now_ns();
	bt_exit();
	edge->after_ns = dlp_now_ns();
}

static bool inside(uint64_t ns, const struct edge *edge)
{
	return ns + CLOCK_SLACK_NS >= edge->before_ns && ns <= edge->after_ns + CLOCK_SLACK_NS;
}

/*
 * An end is where the call was, or later when the thread lost the CPU right behind it; never
 * behind what the thread did next.
 */
static bool ended(uint64_t ns, const struct edge *edge, uint64_t next_ns, size_t *prompt)
{
	*prompt += inside(ns, edge);
	return ns + CLOCK_SLACK_NS >= edge->before_ns && ns <= next_ns + CLOCK_SLACK_NS;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *value, size_t cnt)
{
	qsort(value, cnt, sizeof(*value), compare_u64);
	return value[cnt / 2];
}

/* ---- plain calls ---- */

static void call_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < CALLS; i++) {
		timed_enter(&shared->enter[0][i], i % 2 ? "Optimizer.step#SGD.step" : GETNEXT);
		bt_sleep_ns(100 * DLP_NS_PER_US);
		timed_exit(&shared->exit[0][i]);
	}
}

static void count_label_and_time(void **state)
{
	uint64_t late[2][CALLS];
	size_t prompt = 0;

	(void)state;
	observe();
	bt_call(&job, call_often, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), CALLS);
	/* each text is told once */
	assert_int_equal(bt_count(&job, DLP_EV_LABEL, 0), 2);
	for (int i = 0; i < CALLS; i++) {
		const struct dlp_ev_scope *scope = bt_scope(&job, job.trainer, (size_t)i);

		bt_assert_label(&job, scope, i % 2 ? "Optimizer.step#SGD.step" : GETNEXT);
		assert_int_equal(scope->hdr.tgid, job.trainer);
		assert_int_equal(scope->hdr.flags,
				 i % 2 ? 0 : DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
		assert_int_equal(scope->depth, 0);
		assert_true(inside(scope->start_ns, &shared->enter[0][i]));
		assert_true(ended(scope->hdr.ts_ns, &shared->exit[0][i],
				  i + 1 < CALLS ? shared->enter[0][i + 1].before_ns : dlp_now_ns(),
				  &prompt));
		assert_true(bt_near(bt_sum(&scope->split), scope->hdr.ts_ns - scope->start_ns, 0.01,
				    0));
		late[0][i] = scope->start_ns - shared->enter[0][i].before_ns;
		late[1][i] = scope->hdr.ts_ns - shared->exit[0][i].before_ns;
	}
	assert_true(prompt >= CALLS / 2);
	assert_true(median(late[0], CALLS) < LATE_NS);
	assert_true(median(late[1], CALLS) < LATE_NS);
}

static void getnext_counts_in_the_clock(void **state)
{
	const struct dlp_ev_clock *clock;
	uint64_t sum_ns = 0;

	(void)state;
	observe();
	bt_call(&job, call_often, NULL);
	bt_drain(&job);
	for (size_t i = 0; i < CALLS; i += 2)
		sum_ns += bt_scope(&job, job.trainer, i)->hdr.ts_ns - bt_scope(&job, job.trainer, i)->start_ns;
	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_true(clock->hdr.flags & DLP_THREAD_GETNEXT);
	assert_int_equal(clock->counts.getnext_cnt, CALLS / 2);
	assert_int_equal(clock->counts.getnext_ns, sum_ns);
	assert_true(bt_near(bt_sum(&clock->counts.getnext_split), sum_ns, 0.01, 0));
	assert_int_equal(clock->getnext_since_ns, 0);
}

/* ---- nesting ---- */

static void nest(void *arg)
{
	(void)arg;
	bt_enter(ALMOST_GETNEXT);
	bt_enter(GETNEXT);
	bt_enter("enumerate(DataLoader)#Inner.__next__");
	bt_enter("collate");
	bt_exit();
	bt_exit();
	bt_exit();
	bt_enter(GETNEXT);
	bt_exit();
	bt_exit();
}

static void nesting(void **state)
{
	static const struct {
		const char *label;
		uint16_t depth, flags;
	} want[] = {
		{ "collate", 3, 0 },
		{ "enumerate(DataLoader)#Inner.__next__", 2, DLP_SCOPE_GETNEXT },
		{ GETNEXT, 1, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER },
		{ GETNEXT, 1, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER },
		{ ALMOST_GETNEXT, 0, 0 },
	};

	(void)state;
	observe();
	bt_call(&job, nest, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), DLP_ARRAY_SIZE(want));
	for (size_t i = 0; i < DLP_ARRAY_SIZE(want); i++) {
		bt_assert_label(&job, bt_scope(&job, 0, i), want[i].label);
		assert_int_equal(bt_scope(&job, 0, i)->depth, want[i].depth);
		assert_int_equal(bt_scope(&job, 0, i)->hdr.flags, want[i].flags);
	}
	bt_sweep(&job);
	assert_int_equal(bt_last_clock(&job, job.trainer)->counts.getnext_cnt, 2);
}

static void inside_getnext(void *arg)
{
	(void)arg;
	timed_enter(&shared->enter[0][0], GETNEXT);
	bt_sleep_ns(20 * BT_MS);
}

static void leave(void *arg)
{
	(void)arg;
	bt_exit();
}

/* Between the two the trainer waits for us, inside its GetNext. */
static void unfinished_getnext(void **state)
{
	const struct dlp_ev_clock *clock;

	(void)state;
	observe();
	bt_call(&job, inside_getnext, NULL);
	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_true(inside(clock->getnext_since_ns, &shared->enter[0][0]));
	assert_true(bt_near(bt_sum(&clock->getnext_now), clock->hdr.ts_ns - clock->getnext_since_ns,
			    0.01, 0));
	/* its timer runs before it has left the CPU */
	assert_true(clock->getnext_now.ns[DLP_ST_SLEEP] >= 20 * BT_MS * 9 / 10);
	assert_int_equal(clock->counts.getnext_cnt, 0);
	bt_call(&job, leave, NULL);
	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_int_equal(clock->getnext_since_ns, 0);
	assert_int_equal(clock->counts.getnext_cnt, 1);
}

static void leave_three_times(void *arg)
{
	for (int i = 0; i < 3; i++)
		bt_exit();
	nest(arg);
}

/* Scopes that were open when the probes came: of the trainer's the ends are told, without a label. */
static void exits_without_enter(void **state)
{
	(void)state;
	observe();
	bt_call(&job, leave_three_times, NULL);
	bt_drain(&job);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 3);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 3 + 5);
	for (size_t i = 0; i < 3; i++) {
		const struct dlp_ev_scope *scope = bt_scope(&job, 0, i);
		uint64_t sum = 0;

		assert_int_equal(scope->hdr.flags, DLP_SCOPE_BEGUN);
		assert_int_equal(scope->label, 0);
		assert_int_equal(scope->turn, i + 1);
		for (int s = 0; s < DLP_ST_MAX; s++)
			sum += scope->split.ns[s];
		/* all that is known of it is since when its thread is traced */
		assert_in_range(sum, 1, scope->hdr.ts_ns - scope->start_ns);
		assert_true(scope->start_ns <= bt_scope(&job, 0, 0)->hdr.ts_ns);
	}
}

#define DEEP (DLP_SCOPE_DEPTH + 3)

static void nest_deeply(void *arg)
{
	char label[16];

	(void)arg;
	for (int i = 0; i < DEEP; i++) {
		snprintf(label, sizeof(label), "level%d", i);
		bt_enter(label);
	}
	for (int i = 0; i < DEEP; i++)
		bt_exit();
	bt_enter("after");
	bt_exit();
}

static void deeper_than_the_stack(void **state)
{
	char label[16];

	(void)state;
	observe();
	bt_call(&job, nest_deeply, NULL);
	bt_drain(&job);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_DEEP), DEEP - DLP_SCOPE_DEPTH);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), DLP_SCOPE_DEPTH + 1);
	for (int i = 0; i < DLP_SCOPE_DEPTH; i++) {
		int level = DLP_SCOPE_DEPTH - 1 - i;

		snprintf(label, sizeof(label), "level%d", level);
		bt_assert_label(&job, bt_scope(&job, 0, (size_t)i), label);
		assert_int_equal(bt_scope(&job, 0, (size_t)i)->depth, level);
	}
	bt_assert_label(&job, bt_scope(&job, 0, DLP_SCOPE_DEPTH), "after");
	assert_int_equal(bt_scope(&job, 0, DLP_SCOPE_DEPTH)->depth, 0);
}

/* ---- labels ---- */

#define EXTRA_LABELS 50

static void use_many_labels(void *arg)
{
	char label[32];

	(void)arg;
	for (int i = 0; i < DLP_LABELS_MAX + EXTRA_LABELS; i++) {
		snprintf(label, sizeof(label), "label %d", i);
		bt_enter(label);
		bt_exit();
	}
	bt_enter("label 0");
	bt_exit();
}

static void more_labels_than_fit(void **state)
{
	size_t known = 0;

	(void)state;
	observe();
	bt_call(&job, use_many_labels, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), DLP_LABELS_MAX + EXTRA_LABELS + 1);
	for (size_t i = 0; i < DLP_LABELS_MAX + EXTRA_LABELS; i++) {
		char label[32];

		if (!bt_scope(&job, 0, i)->label)
			continue;
		snprintf(label, sizeof(label), "label %zu", i);
		bt_assert_label(&job, bt_scope(&job, 0, i), label);
		known++;
	}
	assert_int_equal(known, bt_count(&job, DLP_EV_LABEL, 0));
	assert_in_range(known, DLP_LABELS_MAX - 1, DLP_LABELS_MAX);
	assert_int_equal(bt_counter(&job, DLP_CNT_LABELS_FULL), DLP_LABELS_MAX + EXTRA_LABELS - known);
	/* a full table does not forget */
	bt_assert_label(&job, bt_scope(&job, 0, DLP_LABELS_MAX + EXTRA_LABELS), "label 0");
}

static void use_bad_labels(void *arg)
{
	const struct bt_string nowhere = { .text = (const char *)16 };

	(void)arg;
	(void)bt_point_enter(NULL);
	bt_exit();
	(void)bt_point_enter(&nowhere);
	bt_exit();
	bt_enter("good");
	bt_exit();
}

static void unreadable_labels(void **state)
{
	(void)state;
	observe();
	bt_call(&job, use_bad_labels, NULL);
	bt_drain(&job);
	assert_int_equal(bt_counter(&job, DLP_CNT_LABEL_FAULT), 2);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 3);
	assert_int_equal(bt_scope(&job, 0, 0)->label, 0);
	assert_int_equal(bt_scope(&job, 0, 1)->label, 0);
	bt_assert_label(&job, bt_scope(&job, 0, 2), "good");
}

/* Of growing length. */
static void use_long_labels(void *arg)
{
	(void)arg;
	for (size_t len = DLP_LABEL_MAX - 2; len <= DLP_LABEL_MAX + 2; len++) {
		char label[DLP_LABEL_MAX + 3] = "";

		memset(label, 'a', len);
		bt_enter(label);
		bt_exit();
	}
	bt_enter("");
	bt_exit();
}

static void labels_at_the_limit(void **state)
{
	char text[DLP_LABEL_MAX] = "";

	(void)state;
	observe();
	bt_call(&job, use_long_labels, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 6);
	memset(text, 'a', DLP_LABEL_MAX - 2);
	bt_assert_label(&job, bt_scope(&job, 0, 0), text);
	/* one more fits, with its end; longer ones are cut to it and become one */
	memset(text, 'a', DLP_LABEL_MAX - 1);
	for (size_t i = 1; i < 5; i++) {
		bt_assert_label(&job, bt_scope(&job, 0, i), text);
		assert_int_equal(bt_scope(&job, 0, i)->label, bt_scope(&job, 0, 1)->label);
	}
	bt_assert_label(&job, bt_scope(&job, 0, 5), "");
	assert_int_equal(bt_count(&job, DLP_EV_LABEL, 0), 3);
}

/* ---- threads and processes ---- */

static pthread_barrier_t barrier;

/* All are inside their outer scope at once, and leave in turn. */
static void *interleave(void *arg)
{
	int me = (int)(intptr_t)arg;
	char label[32];

	shared->tid[me] = gettid();
	for (int i = 0; i < 20; i++) {
		snprintf(label, sizeof(label), "thread%d", me);
		timed_enter(&shared->enter[me][i], label);
		pthread_barrier_wait(&barrier);
		bt_enter("inner");
		pthread_barrier_wait(&barrier);
		bt_exit();
		pthread_barrier_wait(&barrier);
		timed_exit(&shared->exit[me][i]);
	}
	return NULL;
}

static void run_threads(void *arg)
{
	pthread_t thread[THREADS];

	(void)arg;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, interleave, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void threads_pair_on_their_own(void **state)
{
	size_t prompt = 0;

	(void)state;
	observe();
	bt_call(&job, run_threads, NULL);
	bt_drain(&job);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
	for (int i = 0; i < THREADS; i++) {
		char label[32];

		snprintf(label, sizeof(label), "thread%d", i);
		assert_int_equal(bt_count(&job, DLP_EV_SCOPE, shared->tid[i]), 40);
		for (size_t k = 0; k < 20; k++) {
			const struct dlp_ev_scope *scope = bt_scope(&job, shared->tid[i], 2 * k + 1);

			bt_assert_label(&job, bt_scope(&job, shared->tid[i], 2 * k), "inner");
			bt_assert_label(&job, scope, label);
			assert_int_equal(scope->hdr.tgid, job.trainer);
			assert_true(inside(scope->start_ns, &shared->enter[i][k]));
			assert_true(ended(scope->hdr.ts_ns, &shared->exit[i][k],
					  k < 19 ? shared->enter[i][k + 1].before_ns : dlp_now_ns(),
					  &prompt));
		}
	}
	assert_true(prompt >= 20 * THREADS / 2);
}

static void one_call(void *arg)
{
	shared->child = getpid();
	bt_enter(arg);
	bt_exit();
}

static void fork_caller(void *arg)
{
	bt_reap(bt_fork(one_call, arg));
}

static void fork_twice(void *arg)
{
	bt_reap(bt_fork(fork_caller, arg));
}

static void descendants_are_seen(void **state)
{
	(void)state;
	observe();
	bt_call(&job, fork_caller, (void *)"child");
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 1);
	bt_assert_label(&job, bt_scope(&job, shared->child, 0), "child");
	bt_call(&job, fork_twice, (void *)"grandchild");
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 2);
	bt_assert_label(&job, bt_scope(&job, shared->child, 0), "grandchild");
}

/* The probes sit in a file, so every process that maps it hits them: this test and its own child. */
static void strangers_are_not_seen(void **state)
{
	(void)state;
	observe();
	one_call((void *)"test");
	fork_caller((void *)"test's child");
	bt_call(&job, one_call, (void *)"trainer");
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 1);
	bt_assert_label(&job, bt_scope(&job, job.trainer, 0), "trainer");
	assert_int_equal(bt_count(&job, DLP_EV_LABEL, 0), 1);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_job, close_job)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(count_label_and_time),
		TEST(getnext_counts_in_the_clock),
		TEST(nesting),
		TEST(unfinished_getnext),
		TEST(exits_without_enter),
		TEST(deeper_than_the_stack),
		TEST(more_labels_than_fit),
		TEST(unreadable_labels),
		TEST(labels_at_the_limit),
		TEST(threads_pair_on_their_own),
		TEST(descendants_are_seen),
		TEST(strangers_are_not_seen),
	};

	return cmocka_run_group_tests_name("scopes", tests, NULL, NULL);
}
