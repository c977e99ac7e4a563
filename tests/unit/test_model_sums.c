/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the model keeps for the whole job: threads that are gone, shared memory, the last batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed.h"
#include "model_check.h"
#include "sums.h"

#define WORKER 20u
#define POOL_TIDS 100u /* the kernel gives the numbers of dead threads again */

static uint64_t at_ns;

static void thread_born(struct dlp_model *model, uint32_t tid)
{
	struct dlp_ev_fork ev = { .hdr = FEED_HDR(FORK, dlp_ev_fork, at_ns += 1000, WORKER),
				  .child_tgid = WORKER, .child_tid = tid };

	ev.hdr.flags = DLP_FORK_THREAD;
	feed(model, &ev);
}

static void thread_ends(struct dlp_model *model, uint32_t tid, uint64_t run_ns)
{
	struct dlp_ev_exit ev = { .hdr = FEED_HDR(EXIT, dlp_ev_exit, at_ns + run_ns, WORKER),
				  .traced_ns = at_ns };

	at_ns += run_ns;
	ev.hdr.tid = tid;
	ev.clock.ns[DLP_ST_RUN] = run_ns;
	feed(model, &ev);
}

/* A worker that starts threads for every sample: none of their time is lost when they are gone. */
static void test_pool(void **unused)
{
	struct dlp_model *model = feed_open();
	struct dlp_sums sums;
	uint64_t run_ns = 0;

	(void)unused;
	at_ns = FEED_START_NS;
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t tid = 1000 + i % POOL_TIDS;

		thread_born(model, tid);
		thread_ends(model, tid, 5000 + i);
		run_ns += 5000 + i;
	}
	dlp_sums_take(model, &sums);
	assert_int_equal(sums.pool.ns[DLP_ST_RUN], run_ns);
	assert_true(model->folded.pool.ns[DLP_ST_RUN] > run_ns / 2);
	assert_true(model->thread_cnt < 600);
	dlp_model_free(model);
}

/* /proc shows a worker's end just before the ring does: its own word counts, and its last clock. */
static void test_end_told_twice(void **unused)
{
	struct dlp_ev_fork born = { .hdr = FEED_HDR(FORK, dlp_ev_fork, FEED_START_NS + 1000, FEED_TRAINER),
				    .child_tgid = WORKER, .child_tid = WORKER };
	struct dlp_ev_proc seen = { .hdr = FEED_HDR(PROC, dlp_ev_proc, FEED_START_NS + 2000, WORKER),
				    .born_ns = FEED_START_NS + 1000, .role = DLP_ROLE_WORKER };
	struct dlp_ev_exit end = { .hdr = FEED_HDR(EXIT, dlp_ev_exit, FEED_START_NS + 501000, WORKER),
				   .traced_ns = FEED_START_NS + 1000, .exit_code = 9 };
	struct dlp_model *model = feed_open();
	const struct dlp_worker *worker;

	(void)unused;
	feed(model, &born);
	feed(model, &seen);
	seen.hdr.ts_ns = FEED_START_NS + 900000;
	seen.ended = 1;
	feed(model, &seen);
	worker = dlp_model_worker(model, WORKER);
	assert_non_null(worker);
	assert_int_equal(worker->exit_code, DLP_EXIT_UNKNOWN);
	end.clock.ns[DLP_ST_RUN] = 500000;
	feed(model, &end);
	worker = dlp_model_worker(model, WORKER);
	assert_int_equal(worker->exit_code, 9);
	assert_true(worker->unexpected);
	assert_int_equal(worker->died_ns, FEED_START_NS + 501000);
	assert_int_equal(worker->clock.ns[DLP_ST_RUN], 500000);
	/* once more is none */
	end.hdr.ts_ns -= 1000;
	end.exit_code = 0;
	feed(model, &end);
	assert_int_equal(dlp_model_worker(model, WORKER)->exit_code, 9);
	dlp_model_free(model);
}

static void feed_shm(struct dlp_model *model, uint64_t ts_ns, uint64_t total, uint64_t left)
{
	struct dlp_ev_system ev = { .hdr = FEED_HDR(SYSTEM, dlp_ev_system, ts_ns, FEED_TRAINER),
				    .known = DLP_SYS_SHM, .shm_total = total, .shm_free = left };

	feed(model, &ev);
}

/* The least that was free, which is not what is free now; unknown is not none. */
static void test_shm(void **unused)
{
	struct dlp_ev_system blind = { .hdr = FEED_HDR(SYSTEM, dlp_ev_system, FEED_START_NS + 1,
						       FEED_TRAINER) };
	struct dlp_model *model = feed_open();

	(void)unused;
	feed(model, &blind);
	assert_int_equal(model->shm_total, 0);
	feed_shm(model, FEED_START_NS + 2, 1000, 900);
	feed_shm(model, FEED_START_NS + 3, 1000, 0);
	feed(model, &blind);
	feed_shm(model, FEED_START_NS + 4, 1000, 800);
	assert_int_equal(model->shm_total, 1000);
	assert_int_equal(model->shm_least, 0);
	feed_window(model, FEED_START_NS + 5, 2);
	dlp_model_free(model);
}

/* Batches count, the end of an epoch does not, and not a message that nobody asked for. */
static void test_last_delivery(void **unused)
{
	struct scn_conf conf = { .workers = 2, .batches = 20, .label = LABEL_MULTI };
	struct scn_view view = { 0 };
	struct scn *scn = scn_new(3);
	const struct scn_call *call;
	struct scn_iter *it;
	struct run run;
	size_t cnt;

	(void)unused;
	scn_labels(scn);
	scn_step(scn, 5 * MS);
	it = scn_iter(scn, &conf);
	while (scn_next(scn, it, false))
		scn_step(scn, MS);
	scn_step(scn, 50 * MS);
	run_model(&run, scn, &view);
	cnt = scn_calls(scn, &call);
	assert_false(call[cnt - 1].data);
	assert_int_equal(run.model->last_delivery_ns, call[cnt - 2].end_ns);
	assert_true(run.model->last_progress_ns > run.model->last_delivery_ns);
	assert_int_equal(run.model->error_ns, 0);
	run_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_end_told_twice),
		cmocka_unit_test(test_shm),
		cmocka_unit_test(test_last_delivery),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
