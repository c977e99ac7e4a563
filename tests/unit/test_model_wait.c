/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Long waits, and block reads by process: what is summed with what, and how far it may grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/magic.h>

#include "feed.h"

#define MS 1000000ull
#define WORKER 21u
#define DISK (8u << 20 | 16)

static struct dlp_model *model;

static int setup(void **state)
{
	(void)state;
	model = feed_open();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dlp_model_free(model);
	return 0;
}

static void wait_for(uint32_t pid, uint32_t state, uint32_t dev, uint32_t magic, uint64_t end_ns,
		     uint64_t took_ns)
{
	struct dlp_ev_wait ev = {
		.hdr = FEED_HDR(WAIT, dlp_ev_wait, FEED_START_NS + end_ns, pid),
		.start_ns = FEED_START_NS + end_ns - took_ns,
		.state = state,
		.dev = dev,
		.fs_magic = magic,
	};

	feed(model, &ev);
}

static void test_groups(void **state)
{
	const struct dlp_wait_group *top;

	(void)state;
	wait_for(WORKER, DLP_ST_DISK, DISK, EXT4_SUPER_MAGIC, 10 * MS, 4 * MS);
	wait_for(WORKER + 1, DLP_ST_DISK, DISK, EXT4_SUPER_MAGIC, 20 * MS, 6 * MS);
	wait_for(WORKER, DLP_ST_DISK, DISK + 1, EXT4_SUPER_MAGIC, 30 * MS, 3 * MS);
	wait_for(WORKER, DLP_ST_FS, 5, NFS_SUPER_MAGIC, 40 * MS, 9 * MS);
	wait_for(FEED_TRAINER, DLP_ST_DISK, DISK, EXT4_SUPER_MAGIC, 50 * MS, 50 * MS);
	wait_for(FEED_TRAINER, DLP_ST_PIPE, 0, 0, 60 * MS, 2 * MS);
	assert_int_equal(model->wait_cnt, 5);
	top = dlp_model_top_wait(model, DLP_ST_DISK, true);
	assert_int_equal(top->dev, DISK);
	assert_int_equal(top->fs_magic, EXT4_SUPER_MAGIC);
	assert_int_equal(top->cnt, 2);
	assert_int_equal(top->total_ns, 10 * MS);
	assert_int_equal(top->max_ns, 6 * MS);
	assert_int_equal(dlp_model_top_wait(model, DLP_ST_DISK, false)->total_ns, 50 * MS);
	assert_int_equal(dlp_model_top_wait(model, DLP_ST_FS, true)->fs_magic, NFS_SUPER_MAGIC);
	assert_null(dlp_model_top_wait(model, DLP_ST_FS, false));
	assert_null(dlp_model_top_wait(model, DLP_ST_MAX, true));
}

static void test_wait_window(void **state)
{
	(void)state;
	dlp_model_free(model);
	model = feed_new();
	wait_for(WORKER, DLP_ST_LOCK, 0, 0, MS, MS);
	feed_window(model, FEED_START_NS, 0);
	assert_int_equal(model->wait_cnt, 0);
	/* most of it before the window */
	wait_for(WORKER, DLP_ST_LOCK, 0, 0, 100 * MS, 500 * MS);
	assert_int_equal(model->waits[0].total_ns, 100 * MS);
	assert_int_equal(model->waits[0].max_ns, 100 * MS);
	feed_window(model, FEED_START_NS + 200 * MS, 2);
	wait_for(WORKER, DLP_ST_LOCK, 0, 0, 201 * MS, MS);
	assert_int_equal(model->waits[0].cnt, 1);
}

static void test_wait_bounds(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		wait_for(WORKER, i % 20, i, i, 10 * MS, 2 * MS);
		wait_for(FEED_TRAINER, 0xffffffff, i, 0, 10 * MS, MS);
	}
	assert_int_equal(model->wait_cnt, DLP_MODEL_WAITS_MAX);
	assert_int_equal(model->other_waits[0].cnt, 1000 - DLP_MODEL_WAITS_MAX / 2);
	assert_int_equal(model->other_waits[1].cnt, 1000 - DLP_MODEL_WAITS_MAX / 2);
	assert_int_equal(model->other_waits[1].total_ns,
			 (1000 - DLP_MODEL_WAITS_MAX / 2) * 2 * MS);
	assert_int_equal(model->other_waits[0].max_ns, MS);
}

static void read_by(uint32_t pid, uint32_t bytes, uint64_t end_ns, uint64_t took_ns)
{
	struct dlp_ev_block ev = {
		.hdr = FEED_HDR(BLOCK, dlp_ev_block, FEED_START_NS + end_ns, pid),
		.queued_ns = took_ns ? FEED_START_NS + end_ns - took_ns : 0,
		.bytes = bytes,
		.dev = DISK,
	};

	feed(model, &ev);
}

static const struct dlp_reader *reader(uint32_t pid)
{
	const struct dlp_device *device = &model->devices[0];

	for (size_t i = 0; i < device->reader_cnt; i++) {
		if (device->reader[i].pid == pid)
			return &device->reader[i];
	}
	return NULL;
}

static void test_readers(void **state)
{
	struct dlp_ev_block write = {
		.hdr = FEED_HDR(BLOCK, dlp_ev_block, FEED_START_NS + MS, WORKER),
		.bytes = 512, .dev = DISK, .op = 1, .queued_ns = FEED_START_NS,
	};

	(void)state;
	read_by(WORKER, 4096, 10 * MS, 2 * MS);
	read_by(WORKER, 8192, 20 * MS, 3 * MS);
	read_by(WORKER + 1, 4096, 30 * MS, MS);
	/* not known when it was submitted, or by whom */
	read_by(WORKER + 1, 4096, 31 * MS, 0);
	read_by(0, 4096, 40 * MS, 5 * MS);
	feed(model, &write);
	assert_int_equal(model->device_cnt, 1);
	assert_int_equal(model->devices[0].reader_cnt, 2);
	assert_int_equal(reader(WORKER)->reads, 2);
	assert_int_equal(reader(WORKER)->read_bytes, 12288);
	assert_int_equal(reader(WORKER)->wait_ns, 5 * MS);
	assert_int_equal(reader(WORKER + 1)->reads, 2);
	assert_int_equal(reader(WORKER + 1)->timed, 1);
	assert_int_equal(reader(WORKER + 1)->wait_ns, MS);
	assert_int_equal(model->devices[0].other_readers.reads, 1);
	assert_int_equal(model->devices[0].other_readers.pid, 0);
	assert_int_equal(model->devices[0].reads, 5);
	assert_int_equal(model->devices[0].writes, 1);
	assert_int_equal(model->devices[0].latency.sum_ns, 11 * MS);
}

/* Epochs of new workers: the newest are kept, and nothing is lost of the others. */
static void test_reader_bounds(void **state)
{
	const struct dlp_device *device;
	uint64_t reads = 0, bytes = 0, wait = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		read_by(5, 512, 2 * i * MS + MS, MS);
		read_by(100 + i, 4096, 2 * i * MS + 2 * MS, MS);
	}
	device = &model->devices[0];
	assert_int_equal(device->reader_cnt, DLP_MODEL_READERS_MAX);
	assert_int_equal(reader(5)->reads, 1000);
	for (uint32_t i = 1000 - (DLP_MODEL_READERS_MAX - 1); i < 1000; i++)
		assert_int_equal(reader(100 + i)->reads, 1);
	for (size_t i = 0; i < device->reader_cnt; i++) {
		reads += device->reader[i].reads;
		bytes += device->reader[i].read_bytes;
		wait += device->reader[i].wait_ns;
	}
	assert_int_equal(reads + device->other_readers.reads, 2000);
	assert_int_equal(bytes + device->other_readers.read_bytes, 1000 * (512 + 4096));
	assert_int_equal(wait + device->other_readers.wait_ns, 2000 * MS);
	assert_int_equal(device->other_readers.pid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_window, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_readers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reader_bounds, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
