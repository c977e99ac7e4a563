/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages of multiprocessing queues, on both rungs: probes on the interpreter's functions, and
 * the exit of every system call. Real pipes, the framing of Lib/multiprocessing/connection.py.
 */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"

#define BIG	(200u * 1024)
#define CHUNK	(64u * 1024)
#define CALLS	50
#define SMALL	40u

static struct bt_job job;

static struct shared {
	uint64_t inode;
	uint64_t before_ns[CALLS], after_ns[CALLS];
	pid_t child;
} *shared;

static int open_probes(void **state)
{
	const struct bt_setup setup = { .probes = BT_PROBE_QUEUE };

	(void)state;
	memset(shared, 0, sizeof(*shared));
	bt_job_prepare(&job, &setup);
	return 0;
}

static int open_syscalls(void **state)
{
	const struct bt_setup setup = { .without = DLP_FEATURE_BIT(QUEUE_UPROBE) };

	(void)state;
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

static void make_pipe(int fd[2])
{
	struct stat st;

	if (pipe(fd) || fstat(fd[0], &st))
		abort();
	shared->inode = st.st_ino;
}

/* The nth message is as given; an inode of 0 is one the rung does not know. */
static void check_message(size_t nth, pid_t tid, enum dlp_msg_dir dir, uint8_t index, size_t bytes,
			  uint64_t inode)
{
	struct bt_event *event = bt_find(&job, DLP_EV_MSG, 0, nth);
	uint8_t pickle[DLP_MSG_PREFIX] = { 0 }, *whole;

	if (!event) {
		fail_msg("there is no message number %zu", nth);
		return;
	}
	assert_int_equal(event->msg.dir, dir);
	assert_int_equal(event->hdr.tid, tid);
	assert_int_equal(event->msg.bytes, bytes);
	assert_int_equal(event->msg.inode, inode);
	assert_int_equal(event->msg.prefix_len, bytes < DLP_MSG_PREFIX ? bytes : DLP_MSG_PREFIX);
	whole = malloc(bytes);
	assert_non_null(whole);
	bt_pickle(whole, index, bytes);
	memcpy(pickle, whole, event->msg.prefix_len);
	free(whole);
	assert_memory_equal(event->msg.prefix, pickle, DLP_MSG_PREFIX);
}

static void check_counts(uint64_t sent, uint64_t received)
{
	const struct dlp_ev_clock *clock;

	bt_sweep(&job);
	clock = bt_last_clock(&job, job.trainer);
	assert_int_equal(clock->counts.send_cnt, sent);
	assert_int_equal(clock->counts.recv_cnt, received);
	assert_int_equal(bt_counter(&job, DLP_CNT_MSG_FAULT), 0);
}

/* ---- sending: the same on both rungs ---- */

static uint8_t *framed(uint8_t index, size_t bytes)
{
	uint8_t *buf = malloc(BT_LENGTH_WORD + bytes);

	if (!buf)
		abort();
	bt_message(buf, index, bytes);
	return buf;
}

static void swallow(int fd, size_t bytes)
{
	static char sink[1u << 16];

	while (bytes) {
		size_t part = bytes < sizeof(sink) ? bytes : sizeof(sink);

		bt_read(fd, sink, part);
		bytes -= part;
	}
}

struct pipe_end {
	int fd;
	size_t bytes;
};

static void drain_pipe(void *arg)
{
	const struct pipe_end *end = arg;

	swallow(end->fd, end->bytes);
}

/* Up to 16384 bytes in one write, more in two: the length word, then the body. */
static void send_all_sizes(void *arg)
{
	static const size_t sizes[] = { 16, SMALL, DLP_MSG_PREFIX, DLP_MSG_PREFIX + 1, 16384 };
	struct pipe_end end;
	uint8_t *buf;
	int fd[2];
	pid_t reader;

	(void)arg;
	make_pipe(fd);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(sizes); i++) {
		buf = framed((uint8_t)i, sizes[i]);
		bt_send(fd[1], buf, BT_LENGTH_WORD + sizes[i]);
		free(buf);
		swallow(fd[0], BT_LENGTH_WORD + sizes[i]);
	}
	end = (struct pipe_end){ fd[0], BT_LENGTH_WORD + BIG };
	reader = bt_fork(drain_pipe, &end);
	buf = framed(99, BIG);
	bt_send(fd[1], buf, BT_LENGTH_WORD);
	bt_send(fd[1], buf + BT_LENGTH_WORD, BIG);
	free(buf);
	bt_reap(reader);
	close(fd[0]);
	close(fd[1]);
}

static void sends_of_all_sizes(void **state)
{
	static const size_t sizes[] = { 16, SMALL, DLP_MSG_PREFIX, DLP_MSG_PREFIX + 1, 16384, BIG };
	size_t at = 0;

	(void)state;
	bt_run(&job, send_all_sizes);
	for (size_t i = 0; i < bt_count(&job, DLP_EV_MSG, 0); i++) {
		/* the syscall rung sees its own reads too: test_queue_recv below */
		if (bt_find(&job, DLP_EV_MSG, 0, i)->msg.dir == DLP_MSG_RECV)
			continue;
		assert_true(at < DLP_ARRAY_SIZE(sizes));
		check_message(i, job.trainer, DLP_MSG_SEND, sizes[at] == BIG ? 99 : (uint8_t)at,
			      sizes[at], shared->inode);
		at++;
	}
	assert_int_equal(at, DLP_ARRAY_SIZE(sizes));
	bt_sweep(&job);
	assert_int_equal(bt_last_clock(&job, job.trainer)->counts.send_cnt, DLP_ARRAY_SIZE(sizes));
	assert_int_equal(bt_counter(&job, DLP_CNT_MSG_FAULT), 0);
}

/* Tensors go over AF_UNIX with the same framing; files and bytes that are no pickle do not count. */
static void send_elsewhere(void *arg)
{
	uint8_t *buf = framed(1, SMALL), small[8] = { 0, 0, 0, 4, 'a', 'b', 'c', 'd' };
	int sock[2], fd[2], file = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	(void)arg;
	make_pipe(fd);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sock))
		abort();
	bt_send(sock[0], buf, BT_LENGTH_WORD + SMALL);
	if (file >= 0)
		bt_send(file, buf, BT_LENGTH_WORD + SMALL);
	/* framed, but no pickle; a pickle, but not framed; shorter than a length word */
	bt_send(fd[1], small, sizeof(small));
	bt_send(fd[1], buf + BT_LENGTH_WORD, SMALL);
	bt_send(fd[1], buf, 3);
	/* a length word, then something else than what it announced */
	bt_send(fd[1], buf, BT_LENGTH_WORD);
	bt_send(fd[1], small, 5);
	/* and only this one is a message */
	bt_send(fd[1], buf, BT_LENGTH_WORD + SMALL);
	swallow(fd[0], sizeof(small) + SMALL + 3 + BT_LENGTH_WORD + 5);
	swallow(fd[0], BT_LENGTH_WORD + SMALL);
	free(buf);
}

static void what_is_no_message(void **state)
{
	(void)state;
	bt_run(&job, send_elsewhere);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), 1);
	check_message(0, job.trainer, DLP_MSG_SEND, 1, SMALL, shared->inode);
	check_counts(1, 0);
}

static void send_often(void *arg)
{
	uint8_t buf[BT_LENGTH_WORD + SMALL];
	int fd[2];

	(void)arg;
	make_pipe(fd);
	for (int i = 0; i < CALLS; i++) {
		bt_message(buf, (uint8_t)i, SMALL);
		shared->before_ns[i] = dlp_now_ns();
		bt_send(fd[1], buf, sizeof(buf));
		shared->after_ns[i] = dlp_now_ns();
		swallow(fd[0], sizeof(buf));
	}
}

static void count_time_and_clock(void **state)
{
	uint64_t last = 0;

	(void)state;
	bt_run(&job, send_often);
	for (size_t i = 0; i < CALLS; i++) {
		struct bt_event *event = bt_find(&job, DLP_EV_MSG, job.trainer, i);

		assert_non_null(event);
		check_message(i, job.trainer, DLP_MSG_SEND, (uint8_t)i, SMALL, shared->inode);
		assert_in_range(event->hdr.ts_ns, shared->before_ns[i], shared->after_ns[i]);
		/* the reading that goes with it only grows */
		assert_true(bt_sum(&event->msg.clock) > last);
		last = bt_sum(&event->msg.clock);
	}
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), CALLS);
	check_counts(CALLS, 0);
}

static void send_in_child(void *arg)
{
	shared->child = getpid();
	send_often(arg);
}

static void fork_sender(void *arg)
{
	bt_reap(bt_fork(send_in_child, arg));
}

static void workers_and_strangers(void **state)
{
	struct bt_event *life;

	(void)state;
	bt_job_need(&job);
	/* not of the job */
	fork_sender(NULL);
	bt_run(&job, fork_sender);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), CALLS);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, shared->child), CALLS);
	life = bt_find(&job, DLP_EV_EXIT, shared->child, 0);
	assert_non_null(life);
	assert_int_equal(life->exit.counts.send_cnt, CALLS);
}

/* ---- receiving, probes: pickle.loads() ---- */

static struct bt_bytes *bytes_object(uint8_t index, size_t bytes)
{
	struct bt_bytes *object = calloc(1, sizeof(*object) + bytes);

	if (!object)
		abort();
	object->refcnt = 1;
	object->size = bytes;
	bt_pickle(object->data, index, bytes);
	return object;
}

static void loads(const void *object)
{
	const void *args[1] = { object };

	bt_point_recv(NULL, args, 1, NULL);
}

static void load_pickles(void *arg)
{
	struct bt_bytes *object = bytes_object(7, SMALL);

	(void)arg;
	loads(object);
	/* neither a dictionary nor a protocol 1 pickle is a message */
	object->data[11] = 0x7d;
	loads(object);
	object->data[0] = 0x28;
	loads(object);
	/* no bytes object: a length that cannot be */
	object->size = 1ull << 40;
	loads(object);
	bt_point_recv(NULL, NULL, 0, NULL);
	free(object);
	object = bytes_object(8, BIG);
	loads(object);
	free(object);
}

static void received_by_loads(void **state)
{
	(void)state;
	bt_run(&job, load_pickles);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), 2);
	check_message(0, job.trainer, DLP_MSG_RECV, 7, SMALL, 0);
	check_message(1, job.trainer, DLP_MSG_RECV, 8, BIG, 0);
	check_counts(0, 2);
}

static void load_nothing(void *arg)
{
	(void)arg;
	loads((const void *)16);
}

static void unreadable_object(void **state)
{
	(void)state;
	bt_run(&job, load_nothing);
	assert_int_equal(bt_count(&job, DLP_EV_MSG, 0), 0);
	assert_int_equal(bt_counter(&job, DLP_CNT_MSG_FAULT), 1);
}

/* ---- receiving, system calls ---- */

static void fill_pipe(void *arg)
{
	const struct pipe_end *end = arg;
	uint8_t *buf = framed(5, end->bytes);

	bt_send(end->fd, buf, BT_LENGTH_WORD + end->bytes);
	free(buf);
}

/* Connection._recv(): the length word, then the rest in parts of at most 64 KiB. */
static void receive(int fd, size_t bytes)
{
	static uint8_t buf[CHUNK];

	bt_read(fd, buf, BT_LENGTH_WORD);
	while (bytes) {
		ssize_t got = read(fd, buf, bytes < CHUNK ? bytes : CHUNK);

		if (got <= 0)
			abort();
		bytes -= (size_t)got;
	}
}

static void receive_all_sizes(void *arg)
{
	static const size_t sizes[] = { 16, SMALL, DLP_MSG_PREFIX + 1, 16384, BIG };
	int fd[2];

	(void)arg;
	make_pipe(fd);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(sizes); i++) {
		struct pipe_end end = { fd[1], sizes[i] };
		pid_t writer = bt_fork(fill_pipe, &end);

		receive(fd[0], sizes[i]);
		bt_reap(writer);
	}
}

static void received_by_read(void **state)
{
	static const size_t sizes[] = { 16, SMALL, DLP_MSG_PREFIX + 1, 16384, BIG };
	size_t at = 0;

	(void)state;
	bt_run(&job, receive_all_sizes);
	for (size_t i = 0; i < bt_count(&job, DLP_EV_MSG, 0); i++) {
		if (bt_find(&job, DLP_EV_MSG, 0, i)->msg.dir == DLP_MSG_SEND)
			continue;
		assert_true(at < DLP_ARRAY_SIZE(sizes));
		check_message(i, job.trainer, DLP_MSG_RECV, 5, sizes[at++], shared->inode);
	}
	assert_int_equal(at, DLP_ARRAY_SIZE(sizes));
	check_counts(0, DLP_ARRAY_SIZE(sizes));
}

/* Reads that are no part of a message, before, between and after messages. */
static void receive_among_others(void *arg)
{
	uint8_t buf[256], *message = framed(3, SMALL);
	int fd[2], sock[2], zero = open("/dev/zero", O_RDONLY);

	(void)arg;
	make_pipe(fd);
	if (zero < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sock))
		abort();
	/* a length word of 0, then one from a socket */
	bt_read(zero, buf, BT_LENGTH_WORD);
	bt_send(sock[1], message, BT_LENGTH_WORD + SMALL);
	receive(sock[0], SMALL);
	bt_send(fd[1], message, BT_LENGTH_WORD + SMALL);
	receive(fd[0], SMALL);
	bt_read(zero, buf, 64);
	bt_read(zero, buf, BT_LENGTH_WORD);
	bt_send(fd[1], message, BT_LENGTH_WORD + SMALL);
	receive(fd[0], SMALL);
	/* header, something else, body: what a signal handler may do */
	bt_send(fd[1], message, BT_LENGTH_WORD + SMALL);
	bt_read(fd[0], buf, BT_LENGTH_WORD);
	bt_read(zero, buf, 8);
	bt_read(zero, buf, 200);
	bt_read(fd[0], buf, SMALL);
	bt_send(fd[1], message, BT_LENGTH_WORD + SMALL);
	receive(fd[0], SMALL);
	free(message);
}

static void reads_in_between(void **state)
{
	size_t received = 0;

	(void)state;
	bt_run(&job, receive_among_others);
	for (size_t i = 0; i < bt_count(&job, DLP_EV_MSG, 0); i++) {
		if (bt_find(&job, DLP_EV_MSG, 0, i)->msg.dir == DLP_MSG_SEND)
			continue;
		check_message(i, job.trainer, DLP_MSG_RECV, 3, SMALL, shared->inode);
		received++;
	}
	assert_int_equal(received, 4);
	check_counts(4, 4);
}

#define PROBES(name)   { "probes: " #name, name, open_probes, close_job, NULL }
#define SYSCALLS(name) { "system calls: " #name, name, open_syscalls, close_job, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROBES(sends_of_all_sizes),
		PROBES(what_is_no_message),
		PROBES(count_time_and_clock),
		PROBES(workers_and_strangers),
		PROBES(received_by_loads),
		PROBES(unreadable_object),
		SYSCALLS(sends_of_all_sizes),
		SYSCALLS(what_is_no_message),
		SYSCALLS(count_time_and_clock),
		SYSCALLS(workers_and_strangers),
		SYSCALLS(received_by_read),
		SYSCALLS(reads_in_between),
	};

	shared = bt_shared(sizeof(*shared));
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
