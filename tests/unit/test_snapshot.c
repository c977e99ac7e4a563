/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Figures of the screen from a model built by hand, interval after interval. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "job_fixture.h"
#include "snapshot.h"

#define MS DLP_NS_PER_MS

static struct job job;
static struct dlp_summary_facts facts;
static struct dlp_snapshots *snapshots;
static struct dlp_snapshot snap;
static struct dlp_verdict verdict;
static struct dlp_snap_names names;

static int setup(void **state)
{
	(void)state;
	job_init(&job);
	job.model.closed = false;
	facts = (struct dlp_summary_facts){ .target = &job.target };
	verdict = (struct dlp_verdict){ .bottleneck = DLP_BN_DATA_LOADING,
					.cause = DLP_CAUSE_WORKER_CPU,
					.exposed_wait_ratio = 0.5,
					.startup_ratio = 0.125 };
	names = (struct dlp_snap_names){ 0 };
	return dlp_snapshots_new(&snapshots);
}

static int teardown(void **state)
{
	(void)state;
	dlp_snapshots_free(snapshots);
	return 0;
}

static void take(void)
{
	dlp_snapshots_take(snapshots, &job.model, &verdict, &facts, &names, &snap);
}

/* A second passes: 10 batches of 20 ms GetNext each, worker 1 reads, worker 2 computes. */
static void second(void)
{
	struct dlp_loader_sums *sums = &job.loader[0].sums;

	job.model.end_ns += SECOND;
	job.model.exposed_ns += 200 * MS;
	sums->calls += 10;
	sums->batches += 10;
	sums->getnext_ns += 200 * MS;
	sums->init_ns += 50 * MS;
	job.worker[0].clock.ns[DLP_ST_DISK] += SECOND;
	job.worker[1].clock.ns[DLP_ST_RUN] += SECOND;
	job.worker[0].batch_cnt += 4;
	job.worker[1].batch_cnt += 6;
}

static void test_last_seconds(void **state)
{
	(void)state;
	take();
	for (int i = 0; i < 6; i++) {
		second();
		take();
	}
	assert_int_equal(snap.worker_cnt, 1 + JOB_WORKERS);
	assert_true(snap.worker[0].trainer);
	assert_int_equal(snap.worker[1].pid, JOB_PID + 1);
	/* three readings back; what was before does not count any more */
	assert_int_equal(snap.worker[1].recent.ns[DLP_ST_DISK], 3 * SECOND);
	assert_int_equal(snap.worker[1].recent.ns[DLP_ST_RUN], 0);
	assert_int_equal(snap.worker[2].recent.ns[DLP_ST_RUN], 3 * SECOND);
	assert_float_equal(snap.worker[1].rate, 4, 1e-9);
	assert_float_equal(snap.worker[2].rate, 6, 1e-9);
	assert_int_equal(snap.worker[1].total.ns[DLP_ST_RUN], job.worker[0].clock.ns[DLP_ST_RUN]);
	assert_int_equal(snap.workers_alive, JOB_WORKERS);
	/* of the last interval alone */
	assert_float_equal(snap.loader[0].rate, 10, 1e-9);
	assert_int_equal(snap.loader[0].getnext.now_ns, 20 * MS);
	assert_int_equal(snap.loader[0].step.now_ns, 100 * MS);
	/* of the whole window */
	assert_int_equal(snap.loader[0].getnext.median_ns,
			 dlp_hist_quantile(&job.loader[0].getnext, 0.5));
	assert_int_equal(snap.loader[0].getnext.max_ns, 200 * MS);
	assert_float_equal(snap.loader[0].exposed, 0.625, 1e-9);
	/* waits in GetNext, and starting iterators */
	assert_int_equal(snap.history_cnt, 7);
	assert_float_equal(snap.history[6], 0.25, 1e-6);
	assert_int_equal(snap.interval_ns, SECOND);
}

/* Short intervals: compared is with a time of seconds all the same. */
static void test_short_intervals(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		job.model.end_ns += 100 * MS;
		job.worker[0].clock.ns[DLP_ST_NET] += 100 * MS;
		take();
	}
	assert_in_range(snap.worker[1].recent.ns[DLP_ST_NET], 2700 * MS, 3700 * MS);
}

/* While it is paused nobody looks, but the readings go on. */
static void test_paused(void **state)
{
	(void)state;
	take();
	for (int i = 0; i < 5; i++) {
		second();
		dlp_snapshots_take(snapshots, &job.model, &verdict, &facts, &names, NULL);
	}
	assert_int_equal(snap.history_cnt, 1);
	second();
	take();
	assert_int_equal(snap.history_cnt, 7);
	assert_float_equal(snap.loader[0].rate, 10, 1e-9);
	assert_int_equal(snap.worker[1].recent.ns[DLP_ST_DISK], 3 * SECOND);
}

static const char *some_device(uint32_t dev, char *buf, size_t size)
{
	(void)snprintf(buf, size, "sd%u", dev);
	return buf;
}

static const char *some_object(void *ctx, const struct dlp_thread *thread, char *buf, size_t size,
			       bool *ret_path)
{
	assert_ptr_equal(ctx, &job);
	if (thread->state != DLP_ST_DISK)
		return NULL;
	*ret_path = true;
	(void)snprintf(buf, size, "/data/%llu", (unsigned long long)thread->object);
	return buf;
}

static void test_waits_for(void **state)
{
	struct dlp_thread *first = &job.thread[1], *second_thread = &job.thread[2];

	(void)state;
	first->state = DLP_ST_DISK;
	first->syscall = SYS_read;
	first->object = 77;
	first->dev = 3;
	first->fs_magic = 0xef53;
	first->read_ns = job.model.end_ns;
	first->since_ns = job.model.end_ns - 4 * MS;
	second_thread->state = DLP_ST_FAULT;
	second_thread->syscall = -1;
	second_thread->dev = 5;
	names = (struct dlp_snap_names){ some_device, some_object, &job };
	take();
	assert_true(snap.worker[1].known);
	assert_int_equal(snap.worker[1].state_ns, 4 * MS);
	assert_string_equal(snap.worker[1].call, "read");
	assert_string_equal(snap.worker[1].fs, "ext4");
	assert_string_equal(snap.worker[1].object, "/data/77");
	assert_true(snap.worker[1].is_path);
	assert_string_equal(snap.worker[2].call, "page fault");
	assert_string_equal(snap.worker[2].object, "sd5");
	assert_false(snap.worker[2].is_path);
	second_thread->state = DLP_ST_LOCK;
	second_thread->syscall = SYS_futex;
	second_thread->dev = 0;
	second_thread->object = 0x7f00deadbee0;
	names.object = NULL;
	take();
	assert_string_equal(snap.worker[2].call, "futex");
	assert_string_equal(snap.worker[2].object, "0x7f00deadbee0");
	names.object = some_object;
	/* the call a running thread was in last says nothing */
	first->state = DLP_ST_RUN;
	take();
	assert_string_equal(snap.worker[1].call, "");
	assert_string_equal(snap.worker[1].object, "");
}

/* The end of workers that end with their epoch is no news; a crash is. */
static void test_dead_workers(void **state)
{
	(void)state;
	job.worker[0].died_ns = job.model.end_ns - SECOND;
	take();
	assert_int_equal(snap.worker_cnt, JOB_WORKERS);
	assert_int_equal(snap.workers_alive, 1);
	job.worker[0].unexpected = true;
	job.worker[0].exit_code = 9;
	take();
	assert_int_equal(snap.worker_cnt, 1 + JOB_WORKERS);
	assert_true(snap.worker[1].dead);
	assert_int_equal(snap.worker[1].exit_code, 9);
	assert_false(snap.worker[1].known);
}

/* More workers than rows: the newest have one, the others are counted; memory stays bounded. */
static void test_many_workers(void **state)
{
	struct dlp_worker *many = calloc(400, sizeof(*many));

	(void)state;
	assert_non_null(many);
	for (uint32_t i = 0; i < 400; i++) {
		many[i].pid = 10000 + i;
		many[i].proven = true;
	}
	job.model.workers = many;
	job.model.worker_cnt = 400;
	take();
	assert_int_equal(snap.worker_cnt, 1 + DLP_SNAP_WORKERS_MAX);
	assert_int_equal(snap.workers_unseen, 400 - DLP_SNAP_WORKERS_MAX);
	assert_int_equal(snap.workers_alive, 400);
	assert_int_equal(snap.worker[1].pid, 10000 + 400 - DLP_SNAP_WORKERS_MAX);
	free(many);
}

static void test_devices(void **state)
{
	struct dlp_device *device = &job.device[0];

	(void)state;
	job.model.device_cnt = 1;
	*device = (struct dlp_device){ .dev = 259u << 20, .reads = 100, .read_bytes = 1 << 20 };
	take();
	job.model.end_ns += 2 * SECOND;
	device->reads += 50;
	device->read_bytes += 1 << 20;
	dlp_hist_add(&device->latency, 6 * MS);
	take();
	assert_int_equal(snap.device_cnt, 1);
	assert_string_equal(snap.device[0].name, "259:0");
	assert_float_equal(snap.device[0].reads, 25, 1e-9);
	assert_float_equal(snap.device[0].bytes, 524288.0, 1e-6);
	assert_int_equal(snap.device[0].median_ns, 6 * MS);
}

/* Nothing measured is not the same as 0. */
static void test_unknown(void **state)
{
	static struct dlp_model empty;

	(void)state;
	facts.target = NULL;
	verdict = (struct dlp_verdict){ .exposed_wait_ratio = NAN, .startup_ratio = NAN };
	dlp_snapshots_take(snapshots, &empty, &verdict, &facts, &names, &snap);
	assert_true(isnan(snap.cost));
	assert_true(isnan(snap.loader[0].exposed));
	assert_true(isnan(snap.loader[0].rate));
	assert_true(isnan(snap.history[0]));
	assert_true(isnan(snap.system.busy));
	assert_true(isnan(snap.system.quota_cpus));
	assert_false(snap.system.mem_known);
	assert_int_equal(snap.worker_cnt, 1);
	assert_false(snap.worker[0].known);
	assert_false(snap.complete);
}

/* Folders of the interpreter and of the script would leave no room for what tells jobs apart. */
static void test_command(void **state)
{
	static const struct {
		const char *cmdline, *shown;
	} cases[] = {
		{ "python train.py --lr 0.1", "python train.py --lr 0.1" },
		{ "/venv/bin/python3 -u -X dev /job/train.py /data/x",
		  "python3 -u -X dev /job/train.py /data/x" },
		{ "/venv/bin/python3 -u /job/train.py /data/x",
		  "python3 -u train.py /data/x" },
		{ "/usr/bin/python", "python" },
		{ "/usr/bin/python -i", "python -i" },
		{ "", "" },
		{ "/", "" },
		{ " x", " x" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		(void)snprintf(job.target.cmdline, sizeof(job.target.cmdline), "%s",
			       cases[i].cmdline);
		take();
		assert_string_equal(snap.cmdline, cases[i].shown);
	}
}

/* Steps of the governor: the one that takes most is told. */
static void test_governed(void **state)
{
	(void)state;
	take();
	assert_false(snap.governed);
	assert_string_equal(snap.fewer, "");
	job.model.governing.limit_ppm = 5000;
	job.model.governing.active = 1u << DLP_GOV_LABELS_FEW | 1u << DLP_GOV_LABELS_OFF;
	take();
	assert_true(snap.governed);
	assert_string_equal(snap.fewer, "without record_function labels (limit 0.50 %)");
	second();
	take();
	assert_true(snap.worker[1].rate > 0);
	/* what a worker has made is not known any more, and not 0 */
	job.model.governing.active |= 1u << DLP_GOV_MESSAGES;
	second();
	take();
	assert_true(isnan(snap.worker[1].rate));
	assert_true(snap.loader[0].rate > 0);
}

static void test_untrusted(void **state)
{
	(void)state;
	(void)snprintf(job.target.cmdline, sizeof(job.target.cmdline), "py\033[2Jthon \x9b x");
	(void)snprintf(job.loader[0].type, sizeof(job.loader[0].type), "It\001er");
	take();
	assert_null(strchr(snap.cmdline, '\033'));
	assert_string_equal(snap.loader[1].type, "It?er");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_last_seconds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_intervals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_paused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_command, setup, teardown),
		cmocka_unit_test_setup_teardown(test_governed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_untrusted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
