/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A ring buffer far too small that nobody reads: events are lost, each is counted, and the counts
 * and clocks that are kept per thread stay exact.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "message.h"

#define GETNEXT "enumerate(DataLoader)#X.__next__"
#define SCOPES	500
#define SENDS	200
#define PICKLE	40u

static struct bt_job job;

static struct shared {
	/* of all scopes together: read inside, and from each one's begin to the next one's */
	uint64_t least_ns, most_ns;
} *shared;

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

/* Nothing but scopes and messages, so that every event is known. */
static void open_job(uint32_t ring_bytes)
{
	const struct bt_setup setup = {
		.probes = BT_PROBE_SCOPE | BT_PROBE_QUEUE,
		.ring_bytes = ring_bytes,
		.without = DLP_FEATURE_BIT(WAITS) | DLP_FEATURE_BIT(BLOCK),
	};

	memset(shared, 0, sizeof(*shared));
	bt_job_open(&job, &setup);
}

static void send_some(int cnt)
{
	uint8_t buf[BT_LENGTH_WORD + PICKLE], sink[BT_LENGTH_WORD + PICKLE];
	int fd[2];

	if (pipe(fd))
		abort();
	for (int i = 0; i < cnt; i++) {
		bt_send(fd[1], buf, bt_message(buf, (uint8_t)i, PICKLE));
		bt_read(fd[0], sink, sizeof(sink));
	}
	close(fd[0]);
	close(fd[1]);
}

static void flood(void *arg)
{
	uint64_t begin_ns = dlp_now_ns();

	(void)arg;
	for (int i = 0; i < SCOPES; i++) {
		uint64_t inside_ns;

		bt_enter(GETNEXT);
		inside_ns = dlp_now_ns();
		if (i % 50 == 0)
			bt_sleep_ns(BT_MS);
		shared->least_ns += dlp_now_ns() - inside_ns;
		bt_exit();
	}
	/* an end may be held back for some microseconds of what follows */
	bt_sleep_ns(BT_MS);
	shared->most_ns = dlp_now_ns() - begin_ns;
	send_some(SENDS);
}

static void check_flood(uint32_t ring_bytes)
{
	const struct dlp_ev_clock *clock;
	uint64_t lost, bytes;
	size_t scopes, sends;

	open_job(ring_bytes);
	bt_call(&job, flood, NULL);
	/* before the ring is read: a reader that lags */
	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_int_equal(clock->counts.getnext_cnt, SCOPES);
	assert_in_range(clock->counts.getnext_ns, shared->least_ns, shared->most_ns);
	assert_true(bt_near(bt_sum(&clock->counts.getnext_split), clock->counts.getnext_ns, 0.01, 0));
	assert_true(clock->counts.getnext_split.ns[DLP_ST_SLEEP] >= SCOPES / 50 * BT_MS * 9 / 10);
	assert_int_equal(clock->counts.send_cnt, SENDS);
	assert_true(bt_near(bt_sum(&clock->clock), clock->hdr.ts_ns - clock->traced_ns, 0.01, 0));

	bt_drain(&job);
	scopes = bt_count(&job, DLP_EV_SCOPE, 0);
	sends = bt_count(&job, DLP_EV_MSG, 0);
	assert_int_equal(bt_count(&job, DLP_EV_LABEL, 0), 1);
	assert_true(scopes > 0 && scopes < ring_bytes / sizeof(struct dlp_ev_scope) + 1);
	lost = SCOPES - scopes + SENDS - sends;
	bytes = (SCOPES - scopes) * sizeof(struct dlp_ev_scope) +
		(SENDS - sends) * sizeof(struct dlp_ev_msg);
	assert_int_equal(bt_counter(&job, DLP_CNT_RING_FULL), lost);
	assert_int_equal(bt_counter(&job, DLP_CNT_RING_BYTES), bytes);
	/* pairing does not suffer from what is lost */
	assert_int_equal(bt_counter(&job, DLP_CNT_SCOPE_UNPAIRED), 0);
}

static void one_page(void **state)
{
	(void)state;
	check_flood((uint32_t)getpagesize());
}

static void two_pages(void **state)
{
	(void)state;
	check_flood(2 * (uint32_t)getpagesize());
}

static void large_enough(void **state)
{
	(void)state;
	open_job(1u << 20);
	bt_call(&job, flood, NULL);
	bt_drain(&job);
	assert_int_equal(bt_counter(&job, DLP_CNT_RING_FULL), 0);
	assert_int_equal(bt_counter(&job, DLP_CNT_RING_BYTES), 0);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), SCOPES);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), SENDS);
}

static void new_label(void *arg)
{
	(void)arg;
	bt_enter("new label");
	bt_exit();
}

/* More often than there are label ids: failures must not use them up. */
static void fill(void *arg)
{
	(void)arg;
	send_some(SENDS);
	for (int i = 0; i < DLP_LABELS_MAX + 10; i++)
		new_label(NULL);
}

/* A label whose text did not fit the ring is told again when there is room. */
static void a_lost_label_comes_later(void **state)
{
	struct bt_event *scope;

	(void)state;
	open_job((uint32_t)getpagesize());
	bt_call(&job, fill, NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_LABEL, 0), 0);
	assert_int_equal(bt_count(&job, DLP_EV_SCOPE, 0), 0);
	bt_call(&job, new_label, NULL);
	bt_drain(&job);
	scope = bt_find(&job, DLP_EV_SCOPE, 0, 0);
	assert_non_null(scope);
	assert_non_null(bt_label(&job, scope->scope.label));
	assert_string_equal(bt_label(&job, scope->scope.label), "new label");
}

/* Read again and again while it is written: what is counted is what was not delivered. */
#define ROUNDS 200

static void reader_keeps_up_badly(void **state)
{
	const struct dlp_ev_clock *clock;
	uint64_t all;

	(void)state;
	open_job((uint32_t)getpagesize());
	for (int i = 0; i < ROUNDS / 20; i++) {
		bt_begin(&job, flood, NULL);
		for (int k = 0; k < 20; k++)
			bt_drain(&job);
		bt_end(&job);
	}
	bt_drain(&job);
	all = bt_count(&job, DLP_EV_SCOPE, 0) + bt_count(&job, DLP_EV_MSG, 0) +
	      bt_count(&job, DLP_EV_LABEL, 0) + bt_counter(&job, DLP_CNT_RING_FULL);
	assert_int_equal(all, ROUNDS / 20 * (SCOPES + SENDS) + 1);
	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_int_equal(clock->counts.getnext_cnt, ROUNDS / 20 * SCOPES);
	assert_int_equal(clock->counts.send_cnt, ROUNDS / 20 * SENDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(one_page, close_job),
		cmocka_unit_test_teardown(two_pages, close_job),
		cmocka_unit_test_teardown(large_enough, close_job),
		cmocka_unit_test_teardown(a_lost_label_comes_later, close_job),
		cmocka_unit_test_teardown(reader_keeps_up_badly, close_job),
	};

	shared = bt_shared(sizeof(*shared));
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
