/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Times and counts of the model against the simulator's truth, lost events included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_check.h"

static uint64_t uneven(int64_t index, int worker)
{
	uint64_t x = (uint64_t)(index * 7919 + worker * 104729 + 13) % 23;

	return (3 + x) * MS + (index % 11 == 5 ? 60 * MS : 0);
}

static struct scn *job(const struct scn_conf *conf, uint64_t step_ns)
{
	struct scn *scn = scn_new(31);
	struct scn_iter *it;

	scn_labels(scn);
	scn_step(scn, 5 * MS);
	it = scn_iter(scn, conf);
	while (scn_next(scn, it, false))
		scn_step(scn, step_ns);
	return scn;
}

static const struct scn_conf plain = { .workers = 3, .batches = 150, .produce = uneven,
				       .label = LABEL_MULTI };

static void assert_near(uint64_t a, uint64_t b, uint64_t by)
{
	if ((a > b ? a - b : b - a) > by)
		fail_msg("%llu is not within %llu of %llu", (unsigned long long)a,
			 (unsigned long long)by, (unsigned long long)b);
}

/* Busy workers end a batch when they take the next, idle ones when they fall asleep. */
static void test_production(void **unused)
{
	(void)unused;
	for (int idle = 0; idle < 2; idle++) {
		struct scn *scn = job(&plain, idle ? 40 * MS : 2 * MS);
		struct scn_view view = { .uprobe = true };
		const struct scn_made *made;
		size_t cnt;
		struct run run;

		run_model(&run, scn, &view);
		cnt = scn_made(scn, &made);
		for (size_t w = 0; w < run.model->worker_cnt; w++) {
			const struct dlp_worker *worker = &run.model->workers[w];
			uint64_t truth_cnt = 0, truth_ns = 0, longest = 0;

			for (size_t i = 0; i < cnt; i++) {
				uint64_t ns = made[i].done_ns - made[i].taken_ns;

				if (made[i].pid != worker->pid)
					continue;
				truth_cnt++;
				truth_ns += ns;
				longest = ns > longest ? ns : longest;
			}
			assert_true(truth_cnt > 40);
			assert_int_equal(worker->batch_cnt, truth_cnt);
			assert_int_equal(worker->produce.cnt, truth_cnt);
			/* up to the next read: torch's own 30 us between */
			assert_near(worker->produce.sum_ns, truth_ns, truth_cnt * 60 * US);
			assert_near(worker->produce.max_ns, longest, 60 * US);
		}
		run_free(&run);
	}
}

struct stations {
	size_t cnt, bad;
};

static void on_station(void *ctx, const struct dlp_delivery *delivery)
{
	const struct dlp_batch *batch = delivery->batch;
	struct stations *stations = ctx;

	stations->cnt++;
	if (!batch || !batch->asked_ns || batch->taken_ns < batch->asked_ns ||
	    (batch->produced_ns && batch->produced_ns < batch->taken_ns) ||
	    batch->sent_ns < batch->taken_ns || batch->received_ns < batch->sent_ns ||
	    batch->delivered_ns < batch->received_ns || batch->delivered_ns != delivery->end_ns)
		stations->bad++;
}

static void test_stations(void **unused)
{
	struct scn *scn = job(&plain, 5 * MS);
	struct scn_view view = { .uprobe = true };
	struct stations stations = { 0 };
	struct run run = { .scn = scn };

	(void)unused;
	assert_int_equal(dlp_model_new(&run.model), 0);
	run.model->on_delivery = on_station;
	run.model->on_delivery_ctx = &stations;
	assert_int_equal(scn_feed(scn, &view, run_sink, &run), 0);
	assert_int_equal(stations.cnt, 150);
	assert_int_equal(stations.bad, 0);
	run_free(&run);
}

/* The window opens and closes inside calls; only what lies within counts as exposed. */
static void test_cut_calls(void **unused)
{
	(void)unused;
	for (int clocks = 0; clocks < 2; clocks++) {
		struct scn *scn = job(&plain, 3 * MS);
		struct scn_view view = { .no_clocks = !clocks };
		const struct scn_call *call;
		struct run run;
		size_t cnt = scn_calls(scn, &call), longest = 0, last;

		for (size_t i = 0; i < cnt / 2; i++) {
			if (call[i].end_ns - call[i].start_ns >
			    call[longest].end_ns - call[longest].start_ns)
				longest = i;
		}
		last = longest + 40;
		while (call[last].end_ns - call[last].start_ns < 10 * MS)
			last++;
		view.start_ns = (call[longest].start_ns + call[longest].end_ns) / 2;
		view.end_ns = (call[last].start_ns + call[last].end_ns) / 2;
		run_model(&run, scn, &view);
		assert_int_equal(run.model->getnext_cnt, last - longest);
		if (clocks) {
			check_main(&run);
		} else {
			/* without a clock the unfinished call cannot be seen */
			uint64_t exposed = 0;

			for (size_t i = longest; i < last; i++)
				exposed += call[i].end_ns - (i == longest ? view.start_ns :
									    call[i].start_ns);
			assert_false(run.model->main_valid);
			assert_int_equal(run.model->exposed_ns, exposed);
		}
		/* it is counted, but its length is none of this window's */
		assert_int_equal(run.model->loaders[0].straddle_cnt, 1);
		assert_int_equal(run.model->loaders[0].straddle_ns,
				 call[longest].end_ns - view.start_ns);
		assert_int_equal(run.model->loaders[0].getnext.cnt, last - longest - 1);
		run_free(&run);
	}
}

static struct dlp_interval_stats stats[100];
static size_t stats_cnt;

static int sink_intervals(void *ctx, const void *event, size_t bytes)
{
	const struct dlp_ev_window *ev = event;
	struct run *run = ctx;
	int err = run_sink(ctx, event, bytes);

	if (ev->hdr.kind == DLP_EV_WINDOW && ev->phase > 0)
		stats[stats_cnt++] = run->model->interval;
	return err;
}

static void test_intervals(void **unused)
{
	struct scn *scn = job(&plain, 6 * MS);
	struct scn_view view = { .interval_ns = 200 * MS };
	uint64_t batches = 0, calls = 0, exposed = 0, all = 0, hist = 0, truth;
	const struct scn_call *call;
	size_t cnt = scn_calls(scn, &call);
	struct run run = { .scn = scn };

	(void)unused;
	stats_cnt = 0;
	assert_int_equal(dlp_model_new(&run.model), 0);
	assert_int_equal(scn_feed(scn, &view, sink_intervals, &run), 0);
	assert_true(stats_cnt > 5);
	for (size_t i = 0; i < stats_cnt; i++) {
		truth = 0;
		for (size_t c = 0; c < cnt; c++)
			truth += call[c].end_ns >= stats[i].start_ns &&
				 call[c].end_ns < stats[i].end_ns && call[c].data;
		assert_int_equal(stats[i].batches, truth);
		assert_true(!i || stats[i].start_ns == stats[i - 1].end_ns);
		assert_true(stats[i].exposed_ns <= stats[i].end_ns - stats[i].start_ns + 700 * US);
		batches += stats[i].batches;
		calls += stats[i].getnext_cnt;
		exposed += stats[i].exposed_ns;
		hist += stats[i].getnext.cnt;
		for (int s = 0; s < DLP_ST_MAX; s++)
			all += stats[i].workers.ns[s];
	}
	assert_int_equal(batches, 150);
	assert_int_equal(calls, 151);
	assert_int_equal(hist, 151);
	assert_int_equal(exposed, run.model->exposed_ns);
	truth = 0;
	for (size_t w = 0; w < run.model->worker_cnt; w++)
		truth += run.model->workers[w].window_ns;
	assert_int_equal(all, truth);
	run_free(&run);
}

struct losing {
	uint64_t from_ns, to_ns;
	unsigned int kind, per_mille;
	uint64_t seed, cnt;
};

static bool lose(const struct dlp_ev_hdr *hdr, void *ctx)
{
	struct losing *losing = ctx;

	if (hdr->ts_ns < losing->from_ns || hdr->ts_ns > losing->to_ns ||
	    (losing->kind && hdr->kind != losing->kind) || hdr->kind == DLP_EV_LABEL)
		return false;
	losing->seed = losing->seed * 6364136223846793005ull + 1442695040888963407ull;
	if ((losing->seed >> 33) % 1000 >= losing->per_mille)
		return false;
	losing->cnt++;
	return true;
}

/* The ring was full: the kernel's own counts fill the gap. */
static void test_lost_scopes(void **unused)
{
	struct losing losing = { .to_ns = UINT64_MAX, .kind = DLP_EV_SCOPE, .per_mille = 300 };
	struct scn_view view = { .lose = lose, .ctx = &losing };
	struct scn *scn = job(&plain, 5 * MS);
	struct run run;

	(void)unused;
	run_model(&run, scn, &view);
	assert_true(losing.cnt > 20);
	check_main(&run);
	assert_int_equal(run.model->getnext_lost, losing.cnt);
	assert_int_equal(run.model->loaders[0].getnext.cnt, 151 - losing.cnt);
	run_free(&run);
}

/* Nothing is lost: none is made up, however late the clocks are. */
static void test_nothing_lost(void **unused)
{
	struct scn_view view = { .jitter_ns = 4000, .interval_ns = 50 * MS };
	struct scn *scn = job(&plain, MS);
	struct run run;

	(void)unused;
	run_model(&run, scn, &view);
	assert_int_equal(run.model->getnext_lost, 0);
	run_free(&run);
}

/* Everything of 100 ms is lost: afterwards it is exact again. */
static void test_lost_burst(void **unused)
{
	(void)unused;
	for (int uprobe = 0; uprobe < 2; uprobe++) {
		for (uint64_t at = 0; at < 30; at++) {
			struct losing losing = { .per_mille = 1000 };
			struct scn_view view = { .lose = lose, .ctx = &losing, .uprobe = uprobe,
						 .interval_ns = 200 * MS };
			/* waiting or not, read by the training thread or by another */
			struct scn_conf conf = { .workers = 3, .batches = 150,
						 .produce = at % 3 ? uneven : NULL,
						 .pin = at % 2, .label = LABEL_MULTI };
			struct scn *scn = job(&conf, (at % 4 ? 7 : 20) * MS);
			const struct scn_call *call;
			size_t cnt = scn_calls(scn, &call), late_wrong = 0, late = 0;
			struct run run;

			assert_true(cnt > 100);
			losing.from_ns = 100 * SEC + 200 * MS + at * 1313 * US;
			losing.to_ns = losing.from_ns + 100 * MS;
			run_model(&run, scn, &view);
			check_main(&run);
			for (size_t i = 0; i < cnt; i++) {
				bool found = false;

				if (call[i].start_ns < losing.to_ns + 300 * MS || !call[i].data)
					continue;
				late++;
				for (size_t g = 0; g < run.got_cnt; g++)
					found |= run.got[g].end_ns == call[i].end_ns &&
						 run.got[g].index == call[i].index &&
						 run.got[g].worker_pid == call[i].worker_pid;
				late_wrong += !found;
			}
			assert_true(late > 50);
			assert_int_equal(late_wrong, 0);
			run_free(&run);
		}
	}
}

/* Single messages are lost all the time: most is still right, and nothing gets stuck. */
static void test_lost_messages(void **unused)
{
	(void)unused;
	for (int uprobe = 0; uprobe < 2; uprobe++) {
		struct losing losing = { .to_ns = UINT64_MAX, .kind = DLP_EV_MSG,
					 .per_mille = 10 };
		struct scn_view view = { .lose = lose, .ctx = &losing, .uprobe = uprobe };
		struct scn_conf conf = plain;
		struct match match;
		struct run run;

		conf.batches = 2000;
		run_model(&run, job(&conf, 4 * MS), &view);
		match = run_match(&run);
		assert_int_equal(match.calls, 2000);
		assert_true(match.wrong + match.missing + match.unknown <= losing.cnt);
		assert_true(run.model->iterators[0].batch_cnt < 40);
		check_main(&run);
		run_free(&run);
	}
}

/* A worker is killed while it makes a batch. */
static void test_killed(void **unused)
{
	struct scn_conf conf = { .workers = 2, .batches = 100, .label = LABEL_MULTI };
	struct scn *scn = scn_new(3);
	struct scn_iter *it;
	struct scn_view view = { 0 };
	const struct dlp_worker *worker;
	struct run run;

	(void)unused;
	scn_labels(scn);
	it = scn_iter(scn, &conf);
	for (int i = 0; i < 20; i++)
		scn_next(scn, it, true);
	scn_step(scn, 100 * MS);
	scn_kill(scn, it, 1, 9);
	scn_step(scn, 100 * MS);
	run_model(&run, scn, &view);
	worker = dlp_model_worker(run.model, scn_iter_pid(it, 1));
	assert_int_equal(worker->exit_code, 9);
	assert_true(worker->died_ns > 0);
	assert_true(worker->window_ns <
		    dlp_model_worker(run.model, scn_iter_pid(it, 0))->window_ns);
	assert_int_equal(dlp_model_worker(run.model, scn_iter_pid(it, 0))->died_ns, 0);
	assert_false(run.model->iterators[0].ended);
	run_free(&run);
}

static void test_block(void **unused)
{
	struct dlp_ev_window window = { .hdr = { .size = sizeof(window), .kind = DLP_EV_WINDOW,
						 .ts_ns = 1000 } };
	struct dlp_ev_block block = { .hdr = { .size = sizeof(block), .kind = DLP_EV_BLOCK,
					       .ts_ns = 900 },
				      .queued_ns = 800, .bytes = 4096, .dev = 8 << 20 };
	struct dlp_model *model;

	(void)unused;
	assert_int_equal(dlp_model_new(&model), 0);
	/* before the window */
	dlp_model_apply(model, &block, sizeof(block));
	dlp_model_apply(model, &window, sizeof(window));
	for (uint64_t i = 1; i <= 100; i++) {
		block.hdr.ts_ns = 2000 + i * 1000000;
		block.queued_ns = block.hdr.ts_ns - i * 1000;
		block.op = i % 4 == 0;
		dlp_model_apply(model, &block, sizeof(block));
	}
	block.op = 3;
	dlp_model_apply(model, &block, sizeof(block));
	assert_int_equal(model->device_cnt, 1);
	assert_int_equal(model->devices[0].dev, 8 << 20);
	assert_int_equal(model->devices[0].reads, 75);
	assert_int_equal(model->devices[0].read_bytes, 75 * 4096);
	assert_int_equal(model->devices[0].writes, 25);
	assert_int_equal(model->devices[0].latency.cnt, 75);
	assert_int_equal(model->devices[0].latency.max_ns, 99000);
	block.op = 0;
	for (uint32_t dev = 1; dev < 200; dev++) {
		block.dev = dev;
		dlp_model_apply(model, &block, sizeof(block));
	}
	assert_int_equal(model->device_cnt, DLP_MODEL_DEVICES_MAX);
	assert_int_equal(model->dropped_cnt, 199 - (DLP_MODEL_DEVICES_MAX - 1));
	dlp_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_production),   cmocka_unit_test(test_stations),
		cmocka_unit_test(test_cut_calls),    cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_lost_scopes),  cmocka_unit_test(test_nothing_lost),
		cmocka_unit_test(test_lost_burst),   cmocka_unit_test(test_lost_messages),
		cmocka_unit_test(test_killed),	     cmocka_unit_test(test_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
