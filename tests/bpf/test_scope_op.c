/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Scopes on rung op: one dispatch function for all operators of torch.ops, which is handed a
 * Symbol and a Python tuple. Which calls are record_function's must be learned and told apart.
 */
#include "harness.h"
#include "scene.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GETNEXT "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
#define STEP	"Optimizer.step#SGD.step"

#define ENTER 4711u
#define OTHER 17u
#define CALLS 100

static struct bt_job job;
static struct dlp_target form;

static struct shared {
	uint64_t enter_ns[CALLS], entered_ns[CALLS], exit_ns[CALLS], exited_ns[CALLS];
} *shared;

/* What the called function gets: a py::args, that is a pointer to the tuple. */
static void call(uint32_t symbol, uint64_t size, const void *item)
{
	struct bt_tuple tuple = { .refcnt = 1, .size = size, .item = { item, item } };
	const void *args = &tuple;

	if (form.tuple_item_off == 32) {
		/* not known yet */
		tuple.hashed.hash = -1;
		tuple.hashed.item[0] = tuple.hashed.item[1] = item;
	}
	if (form.op_args_param == 5)
		(void)bt_point_op5(NULL, 0, symbol, &args);
	else
		(void)bt_point_op(NULL, symbol, &args);
}

static void enter(const char *label)
{
	struct bt_str str;

	bt_str_init(&str, label, form.str_data_off);
	call(ENTER, 2, &str);
}

static void leave(void)
{
	struct bt_str handle;

	bt_str_init(&handle, "", 48);
	call(ENTER + form.op_exit_delta, 1, &handle);
}


static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static const struct dlp_ev_scope *scope_at(size_t nth)
{
	return bt_scope(&job, job.trainer, nth);
}

static void assert_label(size_t nth, const char *text)
{
	bt_assert_label(&job, scope_at(nth), text);
}

static void no_losses(void)
{
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_DEEP), 0);
	assert_int_equal(bt_counter(&job, DLP_CNT_LABEL_FAULT), 0);
}

/* Runs fn in a trainer that calls in the given form; leaves the events. */
static void run(const struct bt_setup *setup, bt_fn fn)
{
	shared = shared ? shared : bt_shared(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	/* before the trainer is forked: it calls in the form that it says */
	bt_target_init(&form, 0, setup);
	bt_job_open(&job, setup);
	bt_call(&job, fn, NULL);
	bt_drain(&job);
}

static const struct bt_setup usual = { .probes = BT_PROBE_OP };

static void call_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < CALLS; i++) {
		shared->enter_ns[i] = dlp_now_ns();
		enter(i % 2 ? STEP : GETNEXT);
		shared->entered_ns[i] = dlp_now_ns();
		bt_sleep_ns(100 * DLP_NS_PER_US);
		shared->exit_ns[i] = dlp_now_ns();
		leave();
		shared->exited_ns[i] = dlp_now_ns();
		bt_sleep_ns(100 * DLP_NS_PER_US);
	}
}

static void check_calls(const struct bt_setup *setup)
{
	int prompt = 0;

	run(setup, call_often);
	no_losses();
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), CALLS);
	for (size_t i = 0; i < CALLS; i++) {
		const struct dlp_ev_scope *scope = scope_at(i);

		assert_label(i, i % 2 ? STEP : GETNEXT);
		assert_int_equal(scope->hdr.flags,
				 i % 2 ? 0 : DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
		assert_in_range(scope->start_ns, shared->enter_ns[i], shared->entered_ns[i]);
		assert_true(scope->hdr.ts_ns >= shared->exit_ns[i]);
		/* later only when the thread lost the CPU right there */
		prompt += scope->hdr.ts_ns <= shared->exited_ns[i];
		if (i + 1 < CALLS)
			assert_true(scope->hdr.ts_ns <= shared->enter_ns[i + 1]);
		assert_true(bt_near(bt_sum(&scope->split), scope->hdr.ts_ns - scope->start_ns, 0.01,
				    0));
	}
	assert_true(prompt >= CALLS / 2);
	bt_sweep(&job);
	assert_int_equal(bt_last_clock(&job, job.trainer)->counts.getnext_cnt, CALLS / 2);
}

static void count_label_and_time(void **state)
{
	(void)state;
	check_calls(&usual);
}

/* Python 3.12 and later; the exit operator two further on. */
static void other_layout_and_distance(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_OP, .str_data_off = 40, .exit_delta = 2 };

	(void)state;
	check_calls(&setup);
}

/* Python 3.14 and later */
static void tuples_with_a_hash(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_OP,
					.str_data_off = 40,
					.tuple_item_off = 32 };

	(void)state;
	check_calls(&setup);
}

static void tuple_as_fifth_parameter(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_OP5 };

	(void)state;
	check_calls(&setup);
}

/* Operators of the job with every shape of arguments, before, inside and after a scope. */
static void call_others(void)
{
	struct bt_str str;

	bt_str_init(&str, "relu", form.str_data_off);
	call(OTHER, 0, NULL);
	call(OTHER, 1, &str);
	call(OTHER, 2, &str);
	call(OTHER, 3, &str);
	call(OTHER + form.op_exit_delta, 1, &str);
	call(ENTER + 7, 2, &str);
	call(ENTER + 7, 1, &str);
}

static void mix_with_others(void *arg)
{
	struct bt_str str;

	(void)arg;
	call_others();
	/* an exit before any enter is known says nothing */
	leave();
	/* a label that is neither GetNext nor an optimizer's teaches nothing */
	bt_str_init(&str, "my own label", form.str_data_off);
	call(OTHER, 2, &str);
	enter(GETNEXT);
	call_others();
	enter("inner");
	call_others();
	leave();
	leave();
	call_others();
	enter("my own label");
	leave();
}

static void other_operators_in_between(void **state)
{
	(void)state;
	run(&usual, mix_with_others);
	no_losses();
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 3);
	assert_label(0, "inner");
	assert_int_equal(scope_at(0)->depth, 1);
	assert_label(1, GETNEXT);
	assert_int_equal(scope_at(1)->depth, 0);
	assert_label(2, "my own label");
}

/* Modes make each call twice, one inside the other. */
static void call_doubled(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		enter(GETNEXT);
		enter(GETNEXT);
		enter("inner");
		enter("inner");
		leave();
		leave();
		leave();
		leave();
	}
}

static void doubled_calls_count_once(void **state)
{
	(void)state;
	run(&usual, call_doubled);
	no_losses();
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 20);
	for (size_t i = 0; i < 20; i++) {
		assert_label(i, i % 2 ? GETNEXT : "inner");
		if (!(i % 2))
			continue;
		assert_int_equal(scope_at(i)->hdr.flags, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
		/* once, through the frame of the call that was seen twice */
		assert_int_equal(scope_at(i)->child_ns,
				 scope_at(i - 1)->hdr.ts_ns - scope_at(i - 1)->start_ns);
	}
	bt_sweep(&job);
	assert_int_equal(bt_last_clock(&job, job.trainer)->counts.getnext_cnt, 10);
}

/* What is no str, or no tuple at all, is left alone. */
static void call_oddly(void *arg)
{
	struct bt_str str;
	const void *nowhere = (const void *)16;

	(void)arg;
	enter(GETNEXT);
	bt_str_init(&str, "not compact", form.str_data_off);
	str.state = 0;
	call(ENTER, 2, &str);
	call(ENTER, 2, nowhere);
	(void)bt_point_op(NULL, ENTER, NULL);
	(void)bt_point_op(NULL, ENTER, &nowhere);
	leave();
}

static void odd_arguments(void **state)
{
	(void)state;
	run(&usual, call_oddly);
	no_losses();
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 1);
	assert_label(0, GETNEXT);
}

#define HELD_MS 5

/* The exit operator's dispatch gives the interpreter's lock away and wants it back. */
static void held_up_behind_exit(void *arg)
{
	struct timespec timeout = { .tv_nsec = HELD_MS * 1000 * 1000 };

	(void)arg;
	for (int i = 0; i < CALLS; i++) {
		enter(GETNEXT);
		shared->exit_ns[i] = dlp_now_ns();
		leave();
		if (i % 2)
			bt_sleep_ns(HELD_MS * BT_MS);
		else
			syscall(SYS_futex, bt_gil, FUTEX_WAIT, 0, &timeout, NULL, 0);
		shared->exited_ns[i] = dlp_now_ns();
	}
}

static void held_up_for_the_lock(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_OP,
					.gil_lo = (uintptr_t)bt_gil,
					.gil_hi = (uintptr_t)bt_gil + sizeof(bt_gil) };
	int late[2] = { 0, 0 };

	(void)state;
	run(&setup, held_up_behind_exit);
	no_losses();
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), CALLS);
	for (size_t i = 0; i < CALLS; i++) {
		uint64_t end_ns = scope_at(i)->hdr.ts_ns;

		assert_in_range(end_ns, shared->exit_ns[i], shared->exited_ns[i]);
		late[i % 2] += end_ns >= shared->exit_ns[i] + HELD_MS * BT_MS;
	}
	/* waiting for the lock is still inside, where it follows at once; sleeping is outside */
	assert_int_equal(late[1], 0);
	if (getenv("DLPROF_TEST_PATIENCE"))
		bt_skip("emulated code is not in its wait within 30 us of an exit");
	assert_true(late[0] > CALLS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(count_label_and_time, close_job),
		cmocka_unit_test_teardown(other_layout_and_distance, close_job),
		cmocka_unit_test_teardown(tuples_with_a_hash, close_job),
		cmocka_unit_test_teardown(tuple_as_fifth_parameter, close_job),
		cmocka_unit_test_teardown(other_operators_in_between, close_job),
		cmocka_unit_test_teardown(doubled_calls_count_once, close_job),
		cmocka_unit_test_teardown(odd_arguments, close_job),
		cmocka_unit_test_teardown(held_up_for_the_lock, close_job),
	};

	return cmocka_run_group_tests_name("scope op", tests, NULL, NULL);
}
