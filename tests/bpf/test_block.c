/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Block requests of the job: number, bytes, device, times and thread, against what was read. */
#include "harness.h"
#include "scene.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READS	   100
#define BLOCK	   4096u
#define LARGE	   (256u * 1024)
#define LARGE_READS 20
#define FILE_BYTES (16u << 20)
#define OP_READ	   0
#define OP_WRITE   1

static struct bt_job job;
static int direct_fd = -1;
static struct stat file_stat;
static struct statfs file_fs;
static char why[120];

static struct shared {
	uint64_t before_ns[READS], after_ns[READS];
	pid_t pid;
} *shared;

/* Opened again without the page cache: what is read comes from the device. */
static int make_file(void **state)
{
	int fd = bt_block_file(why, FILE_BYTES);
	char path[64];

	(void)state;
	shared = bt_shared(sizeof(*shared));
	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (direct_fd < 0 || fstat(fd, &file_stat) || fstatfs(fd, &file_fs))
		snprintf(why, sizeof(why), "the file system takes no O_DIRECT");
	return 0;
}

static int close_job(void **state)
{
	(void)state;
	bt_job_close(&job);
	return 0;
}

static void need_file(void)
{
	if (direct_fd < 0)
		bt_skip("%s", why);
}

static void read_at(uint64_t i, size_t bytes)
{
	char *buf = aligned_alloc(BLOCK, bytes);

	if (!buf || pread(direct_fd, buf, bytes, (off_t)(i * 2 * bytes % FILE_BYTES)) !=
			    (ssize_t)bytes)
		abort();
	free(buf);
}

/* A single block is never split or merged: one read, one request. */
static void read_blocks(void *arg)
{
	(void)arg;
	shared->pid = getpid();
	for (uint64_t i = 0; i < READS; i++) {
		shared->before_ns[i] = dlp_now_ns();
		read_at(i * 7, BLOCK);
		shared->after_ns[i] = dlp_now_ns();
	}
}

static void fork_reader(void *arg)
{
	bt_reap(bt_fork(read_blocks, arg));
}

static void check_requests(pid_t pid)
{
	struct bt_event *event;
	size_t cnt = 0;

	assert_int_equal(bt_count(&job, DLP_EV_BLOCK, pid), READS);
	for (size_t i = 0; (event = bt_find(&job, DLP_EV_BLOCK, pid, i)); i++, cnt++) {
		const struct dlp_ev_block *block = &event->block;

		assert_int_equal(block->hdr.tgid, pid);
		assert_int_equal(block->bytes, BLOCK);
		assert_int_equal(block->op, OP_READ);
		assert_int_equal(block->error, 0);
		/* of the whole disk; the file is on it or on one of its partitions */
		assert_int_equal(block->dev >> 20, major(file_stat.st_dev));
		assert_in_range(block->queued_ns, shared->before_ns[i], block->issued_ns);
		assert_in_range(block->issued_ns, block->queued_ns, block->hdr.ts_ns);
		assert_true(block->hdr.ts_ns > block->queued_ns);
		assert_true(block->hdr.ts_ns <= shared->after_ns[i]);
	}
	assert_int_equal(bt_counter(&job, DLP_CNT_REQS_FULL), 0);
}

static void blocks_of_a_worker(void **state)
{
	const struct bt_setup setup = { .probes = 0 };

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	bt_call(&job, fork_reader, NULL);
	bt_drain(&job);
	check_requests(shared->pid);
}

static void blocks_with_hash(void **state)
{
	const struct bt_setup setup = { .without = DLP_FEATURE_BIT(TASK_STORAGE) };

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	bt_call(&job, read_blocks, NULL);
	bt_drain(&job);
	check_requests(job.trainer);
}

static void read_large(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < LARGE_READS; i++)
		read_at(i, LARGE);
}

/* Requests may be split at extents and device limits, bytes may not be lost or counted twice. */
static void bytes_of_large_reads(void **state)
{
	const struct bt_setup setup = { .probes = 0 };
	struct bt_event *event;
	uint64_t bytes = 0;

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	bt_call(&job, read_large, NULL);
	bt_drain(&job);
	for (size_t i = 0; (event = bt_find(&job, DLP_EV_BLOCK, job.trainer, i)); i++)
		bytes += event->block.bytes;
	assert_int_equal(bytes, (uint64_t)LARGE * LARGE_READS);
	assert_in_range(bt_count(&job, DLP_EV_BLOCK, job.trainer), LARGE_READS, 8 * LARGE_READS);
}

static void write_blocks(void *arg)
{
	char *buf = aligned_alloc(BLOCK, BLOCK);

	(void)arg;
	if (!buf)
		abort();
	memset(buf, 'y', BLOCK);
	for (off_t i = 0; i < 10; i++) {
		if (pwrite(direct_fd, buf, BLOCK, i * 16 * (off_t)BLOCK) != BLOCK)
			abort();
	}
	free(buf);
}

static void writes(void **state)
{
	const struct bt_setup setup = { .probes = 0 };
	struct bt_event *event;
	uint64_t bytes = 0;

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	bt_call(&job, write_blocks, NULL);
	bt_drain(&job);
	for (size_t i = 0; (event = bt_find(&job, DLP_EV_BLOCK, job.trainer, i)); i++) {
		if (event->block.op == OP_WRITE)
			bytes += event->block.bytes;
	}
	assert_int_equal(bytes, 10 * BLOCK);
}

static void strangers(void **state)
{
	const struct bt_setup setup = { .probes = 0 };

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	read_blocks(NULL);
	bt_drain(&job);
	assert_int_equal(bt_count(&job, DLP_EV_BLOCK, 0), 0);
}

/* With a threshold of nothing every read is a blocked interval of its own, with its file. */
static void waits_name_the_file(void **state)
{
	const struct bt_setup setup = { .probes = 0, .long_wait_ns = 1 };
	struct bt_event *event;
	size_t found = 0;

	(void)state;
	need_file();
	bt_job_open(&job, &setup);
	bt_call(&job, fork_reader, NULL);
	bt_drain(&job);
	for (size_t i = 0; (event = bt_find(&job, DLP_EV_WAIT, shared->pid, i)); i++) {
		const struct dlp_ev_wait *wait = &event->wait;

		if (wait->syscall != SYS_pread64 || wait->state != DLP_ST_DISK)
			continue;
		assert_int_equal(wait->object, file_stat.st_ino);
		assert_int_equal(wait->fs_magic, (uint32_t)file_fs.f_type);
		assert_int_equal(wait->dev, major(file_stat.st_dev) << 20 | minor(file_stat.st_dev));
		assert_in_range(wait->start_ns, shared->before_ns[0], wait->wake_ns);
		assert_in_range(wait->wake_ns, wait->start_ns, wait->hdr.ts_ns);
		found++;
	}
	/* a fast device may answer before the thread has gone to sleep */
	assert_in_range(found, READS / 4, READS * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(blocks_of_a_worker, close_job),
		cmocka_unit_test_teardown(blocks_with_hash, close_job),
		cmocka_unit_test_teardown(bytes_of_large_reads, close_job),
		cmocka_unit_test_teardown(writes, close_job),
		cmocka_unit_test_teardown(strangers, close_job),
		cmocka_unit_test_teardown(waits_name_the_file, close_job),
	};

	return cmocka_run_group_tests_name("block", tests, make_file, NULL);
}
