/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Jobs that never end, queues that are none of ours, and input that is plain wrong. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode.h"
#include "model_check.h"

static struct dlp_model *model;
static uint64_t now;

static void put(const void *event, size_t bytes)
{
	assert_int_equal(dlp_model_apply(model, event, bytes), 0);
	assert_true(model->loader_cnt <= DLP_MODEL_LOADERS_MAX);
	assert_true(model->iterator_cnt <= DLP_MODEL_ITERATORS_MAX);
	assert_true(model->worker_cnt <= DLP_MODEL_WORKERS_MAX);
	assert_true(model->thread_cnt <= DLP_MODEL_THREADS_MAX);
	assert_true(model->stage_cnt <= DLP_MODEL_STAGES_MAX);
	assert_true(model->wait_cnt <= DLP_MODEL_WAITS_MAX);
}

#define HDR(NAME, type, pid, thread)                                                               \
	{ .size = sizeof(struct type), .kind = DLP_EV_##NAME, .ts_ns = ++now, .tgid = (pid),       \
	  .tid = (thread) }

static void start(void)
{
	struct dlp_ev_proc proc;
	struct dlp_ev_window window;

	now = 1000000000;
	assert_int_equal(dlp_model_new(&model), 0);
	proc = (struct dlp_ev_proc){ .hdr = HDR(PROC, dlp_ev_proc, 10, 10),
				     .role = DLP_ROLE_TRAINER };
	put(&proc, sizeof(proc));
	window = (struct dlp_ev_window){ .hdr = HDR(WINDOW, dlp_ev_window, 0, 0) };
	put(&window, sizeof(window));
}

static void do_fork(uint32_t parent, uint32_t pid)
{
	struct dlp_ev_fork ev = { .hdr = HDR(FORK, dlp_ev_fork, parent, parent),
				  .child_tgid = pid, .child_tid = pid };

	put(&ev, sizeof(ev));
}

static void do_exit(uint32_t pid)
{
	struct dlp_ev_exit ev = { .hdr = HDR(EXIT, dlp_ev_exit, pid, pid) };

	ev.traced_ns = now - 500;
	ev.clock.ns[DLP_ST_RUN] = 500;
	ev.cpu_ns = 500;
	put(&ev, sizeof(ev));
}

static void msg(uint32_t tgid, uint32_t tid, uint8_t dir, uint64_t inode, uint64_t bytes,
		uint32_t index)
{
	struct dlp_ev_msg ev = { .hdr = HDR(MSG, dlp_ev_msg, tgid, tid), .inode = inode,
				 .bytes = bytes, .dir = dir, .prefix_len = 18 };

	memcpy(ev.prefix, "\x80\4\x95\x40\0\0\0\0\0\0\0J", 12);
	memcpy(ev.prefix + 12, &index, 4);
	ev.prefix[16] = ']';
	put(&ev, sizeof(ev));
}

static void scope(uint32_t tid, uint64_t took, uint32_t label)
{
	struct dlp_ev_scope ev = { .hdr = HDR(SCOPE, dlp_ev_scope, 10, tid), .label = label };

	ev.hdr.flags = DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER;
	ev.start_ns = now - took;
	put(&ev, sizeof(ev));
}

static size_t used(void)
{
	return mallinfo2().uordblks;
}

static void test_forks(void **unused)
{
	size_t before;

	(void)unused;
	start();
	before = used();
	for (uint32_t i = 0; i < 300000; i++) {
		uint32_t pid = 100 + i % 32000;

		do_fork(10, pid);
		if (i % 7)
			do_exit(pid);
	}
	assert_true(model->thread_cnt <= DLP_MODEL_THREADS_MAX);
	assert_int_equal(model->worker_cnt, 0);
	assert_true(used() - before < 16 << 20);
	dlp_model_free(model);
}

/* Epoch after epoch with new workers: sums stay right though most are folded away. */
static void test_iterators(void **unused)
{
	enum { ITERATORS = 20000 };
	uint64_t batches = 0, workers, window = 0, iterators = 0, produced;
	size_t before;

	(void)unused;
	start();
	before = used();
	for (uint32_t i = 0; i < ITERATORS; i++) {
		uint32_t pid = 1000 + 2 * (i % 15000);

		do_fork(10, pid);
		do_fork(10, pid + 1);
		for (uint32_t w = 0; w < 2; w++) {
			msg(10, 20 + w, DLP_MSG_SEND, 100 + 3 * i + w, 50, w);
			msg(10, 20 + w, DLP_MSG_SEND, 100 + 3 * i + w, 50, w + 2);
		}
		for (uint32_t k = 0; k < 4; k++) {
			now += 1000;
			msg(pid + k % 2, pid + k % 2, DLP_MSG_RECV, 0, 50, k);
		}
		for (uint32_t k = 0; k < 4; k++) {
			uint64_t begin = now;

			now += 1000;
			msg(pid + k % 2, 9, DLP_MSG_SEND, 102 + 3 * i, 70, k);
			msg(10, 10, DLP_MSG_RECV, 0, 70, k);
			scope(10, now - begin, 1);
		}
		do_exit(pid);
		do_exit(pid + 1);
		scope(10, 10, 1);
	}
	assert_int_equal(model->loader_cnt, 1);
	assert_int_equal(model->loaders[0].iterator_cnt, ITERATORS);
	assert_int_equal(model->loaders[0].batch_cnt, 4 * ITERATORS);
	assert_int_equal(model->loaders[0].getnext.cnt, 5 * ITERATORS);
	assert_int_equal(model->loaders[0].num_workers, 2);
	/* so short an epoch never shows all four in flight at once */
	assert_true(model->loaders[0].prefetch >= 3 && model->loaders[0].prefetch <= 4);
	workers = model->folded.worker_cnt + model->worker_cnt;
	batches = model->folded.worker_batch_cnt;
	window = model->folded.worker_window_ns;
	produced = model->folded.produce.cnt;
	for (size_t i = 0; i < model->worker_cnt; i++) {
		batches += model->workers[i].batch_cnt;
		window += model->workers[i].window_ns;
		produced += model->workers[i].produce.cnt;
	}
	iterators = model->folded.iterator_cnt + model->iterator_cnt;
	assert_int_equal(iterators, ITERATORS);
	assert_int_equal(workers, 2 * ITERATORS);
	assert_int_equal(batches, 4 * ITERATORS);
	assert_int_equal(window, 2 * ITERATORS * 500ull);
	assert_int_equal(produced, 4 * ITERATORS);
	assert_int_equal(model->dropped_cnt, 0);
	assert_true(used() - before < 12 << 20);
	dlp_model_free(model);
}

/* Asked, asked, asked: nothing is ever delivered. */
static void test_endless(void **unused)
{
	size_t before;

	(void)unused;
	start();
	before = used();
	do_fork(10, 50);
	msg(10, 20, DLP_MSG_SEND, 100, 50, 0);
	msg(50, 50, DLP_MSG_RECV, 100, 50, 0);
	msg(50, 51, DLP_MSG_SEND, 200, 60, 0);
	for (uint32_t i = 1; i < 200000; i++) {
		msg(10, 20, DLP_MSG_SEND, 100, 50, i);
		if (i % 3)
			msg(50, 51, DLP_MSG_SEND, 200, 60, i);
	}
	assert_int_equal(model->iterator_cnt, 1);
	assert_int_equal(model->iterators[0].batch_cnt, DLP_MODEL_IN_FLIGHT_MAX);
	assert_true(model->dropped_cnt > 0);
	assert_true(used() - before < 4 << 20);
	dlp_model_free(model);
}

/* Other queues of the job, with messages that look alike. */
static void test_other_queues(void **unused)
{
	struct dlp_ev_label label;
	size_t before;

	(void)unused;
	start();
	before = used();
	label = (struct dlp_ev_label){ .hdr = HDR(LABEL, dlp_ev_label, 10, 10), .label = 1,
		.text = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" };
	put(&label, sizeof(label));
	for (uint32_t i = 0; i < 100000; i++) {
		/* the trainer feeds many queues that nobody answers */
		msg(10, 20, DLP_MSG_SEND, 1000 + i % 9000, 50, i);
		/* user code in a helper process unpickles numbered pairs all day */
		msg(60, 60, DLP_MSG_RECV, 0, 51, i);
		/* and in the trainer */
		msg(10, 10, DLP_MSG_RECV, 0, 52, i);
		if (i % 10 == 0)
			scope(10, 3, 1);
	}
	assert_int_equal(model->iterator_cnt, 1);
	assert_int_equal(model->worker_cnt, 0);
	assert_int_equal(model->loader_cnt, 1);
	assert_int_equal(model->loaders[0].num_workers, 0);
	assert_int_equal(model->loaders[0].batch_cnt, 10000);
	assert_true(used() - before < 8 << 20);
	/* a helper that answers makes an iterator, but no call is ever put down to it */
	for (uint32_t i = 0; i < 1000; i++) {
		msg(60, 61, DLP_MSG_SEND, 5, 80, i);
		msg(10, 22, DLP_MSG_RECV, 0, 80, i);
		scope(10, 1, 1);
		scope(10, 1, 7);
	}
	for (size_t i = 0; i < model->iterator_cnt; i++)
		assert_true(!model->iterators[i].pipe || !model->iterators[i].getnext_cnt);
	dlp_model_free(model);
}

static void test_many_loaders(void **unused)
{
	(void)unused;
	start();
	for (uint32_t i = 0; i < 5000; i++) {
		struct dlp_ev_label label = { .hdr = HDR(LABEL, dlp_ev_label, 10, 10), .label = i };

		memset(label.text, 'A', sizeof(label.text));
		put(&label, sizeof(label));
		scope(10 + i % 50, 2, i);
	}
	assert_int_equal(model->loader_cnt, DLP_MODEL_LOADERS_MAX);
	assert_true(model->dropped_cnt > 0);
	assert_int_equal(strlen(dlp_model_label(model, 3)), DLP_LABEL_MAX);
	assert_string_equal(dlp_model_label(model, 4999), "");
	dlp_model_free(model);
}

static void test_label_late(void **unused)
{
	struct dlp_ev_label label;

	(void)unused;
	start();
	scope(10, 5, 4);
	assert_string_equal(model->loaders[0].type, "");
	assert_int_equal(model->loaders[0].num_workers, -1);
	label = (struct dlp_ev_label){ .hdr = HDR(LABEL, dlp_ev_label, 10, 10), .label = 4,
		.text = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" };
	put(&label, sizeof(label));
	scope(10, 5, 4);
	assert_string_equal(model->loaders[0].type, "_SingleProcessDataLoaderIter");
	assert_int_equal(model->loaders[0].num_workers, 0);
	assert_int_equal(model->loader_cnt, 1);
	assert_int_equal(model->loaders[0].straddle_cnt, 2);
	dlp_model_free(model);
}

static void test_malformed(void **unused)
{
	struct dlp_ev_scope ev = { .hdr = { .size = sizeof(ev), .kind = DLP_EV_SCOPE } };

	(void)unused;
	start();
	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev) - 1), -EBADMSG);
	assert_int_equal(dlp_model_apply(model, &ev, 0), -EBADMSG);
	ev.hdr.size = 40;
	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), -EBADMSG);
	ev.hdr.kind = 200;
	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), -ENOENT);
	assert_int_equal(model->malformed_cnt, 3);
	assert_int_equal(model->unknown_cnt, 1);
	dlp_model_free(model);
}

static uint64_t seed;

static uint64_t chance(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

/* Events of plausible kinds with fields from a small pool: everything meets everything. */
static void random_event(union dlp_event_room *room)
{
	static const uint16_t kinds[] = {
		DLP_EV_SCOPE, DLP_EV_LABEL, DLP_EV_MSG, DLP_EV_MSG, DLP_EV_MSG, DLP_EV_MSG,
		DLP_EV_BLOCK, DLP_EV_WAIT, DLP_EV_CLOCK, DLP_EV_FORK, DLP_EV_EXEC, DLP_EV_EXIT,
		DLP_EV_WINDOW, DLP_EV_COUNTERS, DLP_EV_PROC, DLP_EV_SCOPE,
	};
	uint64_t words[sizeof(*room) / 8];
	uint32_t pool = 10 + (uint32_t)chance(6);
	bool wild = !chance(50);

	for (size_t i = 0; i < sizeof(*room) / 8; i++) {
		words[i] = chance(4) ? chance(5) : now - chance(100);
		if (wild)
			words[i] = seed ^ (seed << 29) * i;
	}
	memcpy(room, words, sizeof(*room));
	room->hdr.kind = kinds[chance(sizeof(kinds) / sizeof(kinds[0]))];
	room->hdr.size = (uint16_t)dlp_event_kind_size(room->hdr.kind);
	room->hdr.flags = (uint16_t)chance(4);
	room->hdr.tgid = pool;
	room->hdr.tid = chance(3) ? pool : 10 + (uint32_t)chance(8);
	room->hdr.ts_ns = chance(100) ? (now += chance(50)) : chance(2) ? chance(now) : ~0ull;
	if (room->hdr.kind == DLP_EV_MSG) {
		struct dlp_ev_msg *ev = &room->dlp_ev_msg;

		ev->dir = (uint8_t)chance(2);
		ev->inode = chance(8);
		ev->bytes = chance(2);
		ev->prefix_len = (uint8_t)(chance(9) ? 48 : chance(256));
		memcpy(ev->prefix, "\x80\4K\0]", 5);
		ev->prefix[3] = (uint8_t)chance(12);
		if (!chance(6))
			memcpy(ev->prefix + 4, "\x8c\x1etorch.utils.data._utils.worker\x94\x8c\x1d",
			       35);
		if (!chance(9))
			memcpy(ev->prefix + 2, "\x8c\x1etorch.utils.data._utils.worker\x94\x8c\x10",
			       35);
		if (!chance(9)) {
			memcpy(ev->prefix, "\x80\4N.", 4);
			ev->prefix_len = 4;
		}
	}
	if (room->hdr.kind == DLP_EV_WINDOW)
		room->dlp_ev_window.phase = (uint32_t)(chance(3000) ? chance(2) : 2);
}

static void test_fuzz(void **unused)
{
	(void)unused;
	for (uint64_t round = 0; round < 40; round++) {
		seed = round;
		start();
		for (int i = 0; i < 6000; i++) {
			union dlp_event_room room;

			random_event(&room);
			put(&room, room.hdr.size);
		}
		for (size_t i = 0; i < model->iterator_cnt; i++) {
			const struct dlp_iterator *it = &model->iterators[i];

			assert_true(it->batch_cnt <= DLP_MODEL_IN_FLIGHT_MAX);
			for (size_t b = 1; b < it->batch_cnt; b++)
				assert_true(it->batches[b].index > it->batches[b - 1].index);
		}
		for (size_t i = 0; i < model->thread_cnt; i++)
			assert_ptr_equal(dlp_model_thread(model, model->threads[i].tid),
					 &model->threads[i]);
		dlp_model_free(model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forks),	     cmocka_unit_test(test_iterators),
		cmocka_unit_test(test_endless),	     cmocka_unit_test(test_other_queues),
		cmocka_unit_test(test_many_loaders), cmocka_unit_test(test_label_late),
		cmocka_unit_test(test_malformed),    cmocka_unit_test(test_fuzz),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
