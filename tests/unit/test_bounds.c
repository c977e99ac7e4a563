/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A job that does too much of everything for a week, in accelerated time: the whole of it in one
 * process whose memory is looked at, and whose figures still equal what was fed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jobs.h"
#include "model.h"
#include "sums.h"
#include "util.h"

#define RSS_MAX_BYTES (64u << 20)
#define TRAINER 10u
#define WORKERS 256u
#define WEEK_S (7 * 24 * 3600u)
#define EPOCH_BATCHES 10000u
#define AHEAD (2 * WORKERS)
#define CLOCK_EVERY_S 600u
#define WAIT_NS (DLP_NS_PER_S / 4)

static struct dlp_model *model;
static uint64_t now;

static void put(const void *event, size_t bytes)
{
	assert_int_equal(dlp_model_apply(model, event, bytes), 0);
}

#define HDR(NAME, type, pid, thread)                                                               \
	{                                                                                          \
		.size = sizeof(struct type), .kind = DLP_EV_##NAME, .ts_ns = ++now, .tgid = (pid), \
		.tid = (thread)                                                                    \
	}

/* The largest this process has ever been; what the sanitizers and valgrind add is not ours. */
static size_t peak_bytes(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");
	unsigned long kilobytes = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmHWM: %lu", &kilobytes) == 1)
			break;
	}
	return (size_t)kilobytes << 10;
}

static void window(uint32_t phase)
{
	struct dlp_ev_window ev = { .hdr = HDR(WINDOW, dlp_ev_window, 0, 0), .phase = phase };

	put(&ev, sizeof(ev));
}

static int setup(void **state)
{
	struct dlp_ev_proc proc = { .role = DLP_ROLE_TRAINER };

	(void)state;
	now = 1000000000;
	assert_int_equal(dlp_model_new(&model), 0);
	proc.hdr = (struct dlp_ev_hdr)HDR(PROC, dlp_ev_proc, TRAINER, TRAINER);
	put(&proc, sizeof(proc));
	window(0);
	return 0;
}

/* Their own memory is none of ours, and a week of it would take them too long. */
static bool is_checked(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
#endif
}

static int teardown(void **state)
{
	(void)state;
	dlp_model_free(model);
	if (!is_checked())
		assert_in_range(peak_bytes(), 1 << 20, RSS_MAX_BYTES);
	return 0;
}

static void born(uint32_t pid)
{
	struct dlp_ev_fork ev = { .hdr = HDR(FORK, dlp_ev_fork, TRAINER, TRAINER),
				  .child_tgid = pid,
				  .child_tid = pid };

	put(&ev, sizeof(ev));
}

static void died(uint32_t pid)
{
	struct dlp_ev_exit ev = { .hdr = HDR(EXIT, dlp_ev_exit, pid, pid),
				  .clock.ns[DLP_ST_RUN] = 500,
				  .cpu_ns = 500 };

	ev.traced_ns = ev.hdr.ts_ns - 500;
	put(&ev, sizeof(ev));
}

static void message(uint32_t tgid, uint32_t tid, uint8_t dir, uint64_t inode, uint32_t index)
{
	struct dlp_ev_msg ev = { .hdr = HDR(MSG, dlp_ev_msg, tgid, tid),
				 .inode = inode,
				 .bytes = 60,
				 .dir = dir,
				 .prefix_len = 18 };

	memcpy(ev.prefix, "\x80\4\x95\x40\0\0\0\0\0\0\0J", 12);
	memcpy(ev.prefix + 12, &index, 4);
	ev.prefix[16] = ']';
	put(&ev, sizeof(ev));
}

static void scope(uint32_t tgid, uint32_t tid, uint64_t took_ns, uint32_t label, uint16_t flags)
{
	struct dlp_ev_scope ev = { .hdr = HDR(SCOPE, dlp_ev_scope, tgid, tid),
				   .label = label,
				   .weight = 1 };

	ev.hdr.flags = flags;
	ev.start_ns = now - took_ns;
	put(&ev, sizeof(ev));
}

static void label(uint32_t id, const char *text)
{
	struct dlp_ev_label ev = { .hdr = HDR(LABEL, dlp_ev_label, TRAINER, TRAINER), .label = id };

	(void)snprintf(ev.text, sizeof(ev.text), "%s", text);
	put(&ev, sizeof(ev));
}

static void clock_of(uint32_t pid)
{
	struct dlp_ev_clock ev = { .hdr = HDR(CLOCK, dlp_ev_clock, pid, pid) };

	ev.hdr.flags = DLP_THREAD_MAIN;
	ev.traced_ns = 1000000000;
	ev.clock.ns[DLP_ST_SLEEP] = now - ev.traced_ns;
	ev.state = DLP_ST_SLEEP;
	ev.since_ns = ev.traced_ns;
	put(&ev, sizeof(ev));
}

struct epoch {
	uint32_t pid[WORKERS];
	uint64_t inode; /* of its first pipe */
};

static void ask(const struct epoch *epoch, uint32_t index)
{
	message(TRAINER, TRAINER + 1, DLP_MSG_SEND, epoch->inode + index % WORKERS, index);
}

static void begin(struct epoch *epoch, uint32_t number)
{
	epoch->inode = 1000 + (uint64_t)number * (WORKERS + 1);
	for (uint32_t i = 0; i < WORKERS; i++) {
		epoch->pid[i] = 1000 + (number * WORKERS + i) % 30000;
		born(epoch->pid[i]);
	}
	for (uint32_t i = 0; i < AHEAD; i++)
		ask(epoch, i);
}

static void batch(const struct epoch *epoch, uint32_t index)
{
	uint32_t pid = epoch->pid[index % WORKERS];

	message(pid, pid, DLP_MSG_RECV, 0, index);
	now += DLP_NS_PER_S;
	message(pid, 100000 + pid, DLP_MSG_SEND, epoch->inode + WORKERS, index);
	message(TRAINER, TRAINER, DLP_MSG_RECV, 0, index);
	scope(TRAINER, TRAINER, WAIT_NS, 1, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
	if (index + AHEAD < EPOCH_BATCHES)
		ask(epoch, index + AHEAD);
}

static void end(const struct epoch *epoch)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		died(epoch->pid[i]);
	scope(TRAINER, TRAINER, WAIT_NS, 1, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
}

static void test_week(void **state)
{
	const uint32_t epochs = is_checked() ? 3 : WEEK_S / EPOCH_BATCHES;
	uint64_t batches = 0, workers, calls = (uint64_t)epochs * (EPOCH_BATCHES + 1);
	const struct dlp_loader *loader;
	struct dlp_sums sums;

	(void)state;
	label(1, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
	for (uint32_t number = 0; number < epochs; number++) {
		struct epoch epoch;

		begin(&epoch, number);
		for (uint32_t i = 0; i < EPOCH_BATCHES; i++) {
			batch(&epoch, i);
			if (i % CLOCK_EVERY_S)
				continue;
			for (uint32_t w = 0; w < WORKERS; w++)
				clock_of(epoch.pid[w]);
			window(1);
			dlp_sums_take(model, &sums);
		}
		end(&epoch);
	}
	window(2);
	assert_int_equal(model->loader_cnt, 1);
	loader = &model->loaders[0];
	assert_int_equal(loader->num_workers, WORKERS);
	assert_int_equal(loader->iterator_cnt, epochs);
	assert_int_equal(loader->batch_cnt, (uint64_t)epochs * EPOCH_BATCHES);
	assert_int_equal(loader->getnext.cnt, calls);
	assert_int_equal(loader->getnext.sum_ns, calls * WAIT_NS);
	assert_int_equal(model->exposed_ns, calls * WAIT_NS);
	workers = model->folded.worker_cnt + model->worker_cnt;
	batches = model->folded.worker_batch_cnt;
	for (size_t i = 0; i < model->worker_cnt; i++)
		batches += model->workers[i].batch_cnt;
	assert_int_equal(workers, (uint64_t)epochs * WORKERS);
	assert_int_equal(batches, (uint64_t)epochs * EPOCH_BATCHES);
	assert_true(model->phase_cnt >= 3 * (uint64_t)epochs);
	assert_int_equal(model->dropped_cnt, 0);
}

/* The kernel's table gives 1024 ids; a recording may claim any. */
static void test_million_labels(void **state)
{
	uint64_t cnt, total;

	(void)state;
	for (uint32_t i = 1; i <= 1000000; i++) {
		char text[40];

		(void)snprintf(text, sizeof(text), "sample %u", i);
		label(i, text);
		now += 1000;
		scope(TRAINER, TRAINER, 700, i, 0);
	}
	window(2);
	cnt = model->other_stages[0].cnt;
	total = model->other_stages[0].total_ns;
	for (size_t i = 0; i < model->stage_cnt; i++) {
		cnt += model->stages[i].sum.cnt;
		total += model->stages[i].sum.total_ns;
	}
	assert_int_equal(model->stage_cnt, DLP_MODEL_STAGES_MAX);
	assert_int_equal(cnt, 1000000);
	assert_int_equal(total, 700000000);
	assert_int_equal(model->dropped_cnt, 1000000 - DLP_LABELS_MAX);
}

static int note_last(void *ctx, const void *event, size_t bytes)
{
	const struct dlp_ev_proc *proc = event;

	assert_int_equal(bytes, sizeof(*proc));
	*(uint32_t *)ctx = proc->hdr.tgid;
	return 0;
}

static void test_forks(void **state)
{
	struct dlp_ev_fork alive = { .child_tgid = 77777, .child_tid = 77777 };
	uint32_t last = 0;
	struct dlp_jobs *jobs;

	(void)state;
	assert_int_equal(dlp_jobs_new("/nowhere", TRAINER, &jobs), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t pid = 1000 + i % 30000;
		struct dlp_ev_fork fork = { .hdr = HDR(FORK, dlp_ev_fork, TRAINER, TRAINER),
					    .child_tgid = pid,
					    .child_tid = pid };
		struct dlp_ev_exit gone = { .hdr = HDR(EXIT, dlp_ev_exit, pid, pid) };

		put(&fork, sizeof(fork));
		dlp_jobs_apply(jobs, &fork.hdr);
		put(&gone, sizeof(gone));
		dlp_jobs_apply(jobs, &gone.hdr);
	}
	/* those that came and went have left room for one that stays */
	alive.hdr = (struct dlp_ev_hdr)HDR(FORK, dlp_ev_fork, TRAINER, TRAINER);
	dlp_jobs_apply(jobs, &alive.hdr);
	assert_int_equal(dlp_jobs_report(jobs, now, note_last, NULL, &last), 0);
	assert_int_equal(last, 77777);
	dlp_jobs_free(jobs);
	window(2);
	assert_int_equal(model->worker_cnt, 0);
	assert_true(model->thread_cnt <= 1024);
	assert_int_equal(model->dropped_cnt, 0);
}

/* Loaders that do not fit are counted, and what the thread waited in them is not lost. */
static void test_many_loaders(void **state)
{
	uint64_t calls = 0;

	(void)state;
	for (uint32_t i = 0; i < 10000; i++) {
		char text[DLP_LABEL_MAX];

		(void)snprintf(text, sizeof(text),
			       "enumerate(DataLoader)#_SingleProcess%u.__next__", i % 1000);
		if (i < 1000)
			label(i + 1, text);
		now += 2000;
		scope(TRAINER, TRAINER, 1000, i % 1000 + 1, DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER);
	}
	window(2);
	assert_int_equal(model->loader_cnt, DLP_MODEL_LOADERS_MAX);
	for (size_t i = 0; i < model->loader_cnt; i++)
		calls += model->loaders[i].getnext.cnt;
	assert_int_equal(calls, 10 * DLP_MODEL_LOADERS_MAX);
	assert_int_equal(calls + model->dropped_cnt, 10000);
	assert_int_equal(model->getnext_cnt, 10000);
	assert_int_equal(model->exposed_ns, 10000 * 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_week, setup, teardown),
		cmocka_unit_test_setup_teardown(test_million_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_loaders, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
