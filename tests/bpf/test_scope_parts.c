/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a scope says beyond its own duration: the part inside scopes nested in it, its thread's
 * clock when it ended, and how many scopes of its label it stands for.
 */
#include "harness.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define GETNEXT "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

/* bpf_ktime_get_ns() may differ from the vDSO's reading while the clock is being adjusted. */
#define CLOCK_SLACK_NS 1000

static struct bt_job job;

/* Around and inside each scope, by the process itself. */
enum scope { OUTER, FIRST, DEEPEST, SECOND, SCOPES };

struct begin {
	uint64_t before_ns, after_ns, enter_ns;
};

#define PROMPT 20

static struct shared {
	struct begin prompt[PROMPT], alone, held_up, later;
	struct {
		uint64_t outer_begin_ns, begin_ns, end_ns, outer_end_ns;
	} scope[SCOPES];
	int calls;
} *shared;

static int open_job(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_SCOPE | BT_PROBE_NEXT };

	(void)state;
	shared = shared ? shared : bt_shared(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	bt_job_prepare(&job, &setup);
	return 0;
}

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

/* The nth event with that label. */
static const struct dlp_ev_scope *find(const char *label, size_t nth)
{
	struct bt_event *event;

	for (size_t i = 0; (event = bt_find(&job, DLP_EV_SCOPE, 0, i)); i++) {
		const char *text = bt_label(&job, event->scope.label);

		if (text && !strcmp(text, label) && !nth--)
			return &event->scope;
	}
	fail_msg("there are too few scopes '%s'", label);
	return NULL;
}

static size_t count(const char *label, uint64_t *ret_weight)
{
	struct bt_event *event;
	size_t cnt = 0;

	*ret_weight = 0;
	for (size_t i = 0; (event = bt_find(&job, DLP_EV_SCOPE, 0, i)); i++) {
		const char *text = bt_label(&job, event->scope.label);

		if (!text || strcmp(text, label))
			continue;
		*ret_weight += event->scope.weight;
		cnt++;
	}
	return cnt;
}

static uint64_t duration(const struct dlp_ev_scope *scope)
{
	return scope->hdr.ts_ns - scope->start_ns;
}

/* ---- nested time ---- */

static void begin(enum scope at, const char *label)
{
	shared->scope[at].outer_begin_ns = dlp_now_ns();
	bt_enter(label);
	shared->scope[at].begin_ns = dlp_now_ns();
}

static void end(enum scope at)
{
	shared->scope[at].end_ns = dlp_now_ns();
	bt_exit();
	/* over for certain: an exit is kept open while its thread may be held up right behind it */
	bt_sleep_ns(100 * DLP_NS_PER_US);
	shared->scope[at].outer_end_ns = dlp_now_ns();
}

static void nest(void *arg)
{
	(void)arg;
	begin(OUTER, GETNEXT);
	bt_sleep_ns(10 * BT_MS);
	begin(FIRST, "first");
	bt_sleep_ns(6 * BT_MS);
	begin(DEEPEST, "deepest");
	bt_sleep_ns(8 * BT_MS);
	end(DEEPEST);
	end(FIRST);
	begin(SECOND, "second");
	bt_sleep_ns(4 * BT_MS);
	end(SECOND);
	end(OUTER);
}

/* Between what lies inside those scopes for certain, and what encloses them. */
static bool parts_are(uint64_t ns, const enum scope *part, size_t cnt)
{
	uint64_t low = 0, high = 0;

	for (size_t i = 0; i < cnt; i++) {
		low += shared->scope[part[i]].end_ns - shared->scope[part[i]].begin_ns;
		high += shared->scope[part[i]].outer_end_ns - shared->scope[part[i]].outer_begin_ns;
	}
	return bt_between(ns, low, high, 0, CLOCK_SLACK_NS * cnt);
}

static void time_inside_nested_scopes(void **state)
{
	static const enum scope of_outer[] = { FIRST, SECOND }, of_first[] = { DEEPEST };

	(void)state;
	bt_run(&job, nest);
	assert_true(parts_are(find(GETNEXT, 0)->child_ns, of_outer, 2));
	assert_true(parts_are(find("first", 0)->child_ns, of_first, 1));
	assert_int_equal(find("deepest", 0)->child_ns, 0);
	assert_int_equal(find("second", 0)->child_ns, 0);
	assert_int_equal(find(GETNEXT, 0)->child_ns,
			 duration(find("first", 0)) + duration(find("second", 0)));
}

static void nest_deeply(void *arg)
{
	(void)arg;
	for (int i = 0; i < DLP_SCOPE_DEPTH + 2; i++) {
		bt_enter("level");
		bt_sleep_ns(BT_MS);
	}
	for (int i = 0; i < DLP_SCOPE_DEPTH + 2; i++)
		bt_exit();
}

/* Scopes without a frame of their own are a part of the innermost one that has one. */
static void too_deep_for_a_frame(void **state)
{
	(void)state;
	bt_run(&job, nest_deeply);
	assert_int_equal(find("level", 0)->depth, DLP_SCOPE_DEPTH - 1);
	assert_int_equal(find("level", 0)->child_ns, 0);
	assert_true(duration(find("level", 0)) >= 3 * BT_MS);
	assert_int_equal(find("level", 1)->child_ns, duration(find("level", 0)));
}

/* ---- the thread's clock ---- */

static void sleep_between(void *arg)
{
	(void)arg;
	begin(FIRST, "step");
	end(FIRST);
	bt_sleep_ns(20 * BT_MS);
	begin(SECOND, "step");
	bt_sleep_ns(5 * BT_MS);
	end(SECOND);
}

/* What lies between two scopes is the difference of their clocks less the second one's split. */
static void clock_between_scopes(void **state)
{
	const struct dlp_ev_scope *first, *second;
	const struct dlp_ev_clock *now;
	uint64_t sleep_ns, gap_ns;

	(void)state;
	bt_run(&job, sleep_between);
	bt_sweep(&job);
	now = bt_last_clock(&job, job.trainer);
	first = find("step", 0);
	second = find("step", 1);
	gap_ns = shared->scope[SECOND].outer_begin_ns - shared->scope[FIRST].outer_end_ns;
	sleep_ns = second->clock.ns[DLP_ST_SLEEP] - first->clock.ns[DLP_ST_SLEEP] -
		   second->split.ns[DLP_ST_SLEEP];
	/* its timer runs before it has left the CPU */
	assert_in_range(sleep_ns, 20 * BT_MS * 9 / 10, gap_ns + BT_MS);
	assert_in_range(second->split.ns[DLP_ST_SLEEP], 5 * BT_MS * 8 / 10, duration(second));
	assert_true(bt_near(bt_sum(&second->clock) - bt_sum(&first->clock),
			    second->hdr.ts_ns - first->hdr.ts_ns, 0.01, 0));
	/* the same clock that the sweep reads, at another time */
	assert_true(bt_near(bt_sum(&now->clock) - bt_sum(&second->clock),
			    now->hdr.ts_ns - second->hdr.ts_ns, 0.01, 0));
}

/* ---- sampled labels ---- */

static void call_both(void *arg)
{
	(void)arg;
	for (int i = 0; i < shared->calls; i++) {
		bt_enter(GETNEXT);
		bt_enter("often");
		bt_sleep_ns(50 * DLP_NS_PER_US);
		bt_exit();
		bt_exit();
	}
}

static void call(int calls)
{
	shared->calls = calls;
	bt_call(&job, call_both, NULL);
	bt_drain(&job);
}

/* Forgets events but what the labels are called. */
static void forget_scopes(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < job.event_cnt; i++) {
		if (job.event[i].hdr.kind == DLP_EV_LABEL)
			job.event[kept++] = job.event[i];
	}
	job.event_cnt = kept;
}

static void control(uint32_t label, uint32_t every, int calls)
{
	assert_int_equal(dlp_session_label(job.session, label, every), 0);
	forget_scopes();
	call(calls);
}

static void one_in_some(void **state)
{
	uint64_t weight, ns = 0;
	uint32_t often;

	(void)state;
	bt_job_need(&job);
	call(10);
	assert_int_equal(count("often", &weight), 10);
	assert_int_equal(weight, 10);
	often = find("often", 0)->label;
	control(often, 1, 10);
	assert_int_equal(count("often", &weight), 10);
	control(often, 7, 71);
	assert_int_equal(count("often", &weight), 10);
	assert_int_equal(weight, 70);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(find("often", i)->weight, 7);
		assert_true(bt_near(bt_sum(&find("often", i)->split), duration(find("often", i)), 0.01,
				    0));
	}
	/* the scope around them is none the worse */
	assert_int_equal(count(GETNEXT, &weight), 71);
	assert_int_equal(weight, 71);
	for (size_t i = 0; i < 71; i++) {
		assert_in_range(find(GETNEXT, i)->child_ns, 50 * DLP_NS_PER_US,
				duration(find(GETNEXT, i)));
		ns += find(GETNEXT, i)->child_ns;
	}
	assert_true(ns >= 71 * 50 * DLP_NS_PER_US);
	control(often, 0, 10);
	assert_int_equal(count("often", &weight), 10);
}

static void none_of_a_label(void **state)
{
	uint64_t weight;

	(void)state;
	bt_job_need(&job);
	call(1);
	control(find("often", 0)->label, UINT32_MAX, 40);
	assert_int_equal(count("often", &weight), 0);
	assert_int_equal(count(GETNEXT, &weight), 40);
	for (size_t i = 0; i < 40; i++)
		assert_true(find(GETNEXT, i)->child_ns >= 50 * DLP_NS_PER_US);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
}

/* Whether training waits for data is never a matter of samples. */
static void getnext_is_always_sent(void **state)
{
	uint64_t weight;

	(void)state;
	bt_job_need(&job);
	call(1);
	control(find(GETNEXT, 0)->label, UINT32_MAX, 20);
	assert_int_equal(count(GETNEXT, &weight), 20);
	assert_int_equal(weight, 20);
}

static void labels_that_cannot_be(void **state)
{
	(void)state;
	bt_job_need(&job);
	assert_int_equal(dlp_session_label(job.session, 0, 5), -EINVAL);
	assert_int_equal(dlp_session_label(job.session, DLP_LABELS_MAX, 5), 0);
	assert_int_equal(dlp_session_label(job.session, DLP_LABELS_MAX + 1, 5), -EINVAL);
	assert_int_equal(dlp_session_label(job.session, UINT32_MAX, 5), -EINVAL);
}

/* ---- from __next__ on ---- */

#define NEXT(name) "enumerate(DataLoader)#" name ".__next__"

static void spin(uint64_t ns)
{
	uint64_t end_ns = dlp_now_ns() + ns;

	while (dlp_now_ns() < end_ns)
		;
}

static void next_and_enter(struct begin *call, const char *label, bool held_up)
{
	call->before_ns = dlp_now_ns();
	bt_point_next();
	call->after_ns = dlp_now_ns();
	if (held_up)
		bt_sleep_ns(100 * DLP_NS_PER_US);
	else
		spin(30 * DLP_NS_PER_US);
	call->enter_ns = dlp_now_ns();
	bt_enter(label);
	bt_exit();
}

static void next_often(void *arg)
{
	(void)arg;
	/* a thread is looked at from its first GetNext on */
	bt_enter(NEXT("first"));
	bt_exit();
	for (int i = 0; i < PROMPT; i++)
		next_and_enter(&shared->prompt[i], NEXT("prompt"), false);
	/* used once */
	shared->alone.enter_ns = dlp_now_ns();
	bt_enter(NEXT("alone"));
	bt_exit();
	next_and_enter(&shared->held_up, NEXT("held up"), true);
	/* another object's */
	bt_point_next();
	spin(4 * BT_MS);
	shared->later.enter_ns = dlp_now_ns();
	bt_enter(NEXT("later"));
	bt_exit();
}

static void calls_begin_with_their_next(void **state)
{
	size_t prompt = 0;

	(void)state;
	bt_run(&job, next_often);
	for (size_t i = 0; i < PROMPT; i++) {
		const struct dlp_ev_scope *scope = find(NEXT("prompt"), i);

		prompt += scope->start_ns + CLOCK_SLACK_NS >= shared->prompt[i].before_ns &&
			  scope->start_ns <= shared->prompt[i].after_ns + CLOCK_SLACK_NS;
		assert_true(bt_near(bt_sum(&scope->split), duration(scope), 0.01, CLOCK_SLACK_NS));
	}
	/* whether it kept the CPU or not */
	assert_int_equal(prompt, PROMPT);
	assert_true(find(NEXT("alone"), 0)->start_ns + CLOCK_SLACK_NS >= shared->alone.enter_ns);
	assert_true(find(NEXT("held up"), 0)->start_ns + CLOCK_SLACK_NS >= shared->held_up.enter_ns);
	assert_true(find(NEXT("later"), 0)->start_ns + CLOCK_SLACK_NS >= shared->later.enter_ns);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_job, close_job)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(time_inside_nested_scopes),
		TEST(too_deep_for_a_frame),
		TEST(clock_between_scopes),
		TEST(one_in_some),
		TEST(none_of_a_label),
		TEST(getnext_is_always_sent),
		TEST(labels_that_cannot_be),
		TEST(calls_begin_with_their_next),
	};

	return cmocka_run_group_tests_name("scope parts", tests, NULL, NULL);
}
