/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "scene.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch.h"
#include "message.h"
#include "scene_priv.h"

#define SPIN_NS	 (100 * BT_MS)
#define LOADER_POLL_MS 5000 /* MP_STATUS_CHECK_INTERVAL of the DataLoader */

/* A futex must be the same for trainer and worker, so it lives where both see it. */
struct shared_sync {
	int futex;
	sem_t sem;
};

char bt_gil[BT_GIL_BYTES] __attribute__((aligned(64)));

static struct shared_sync *sync_area;
/* Made by the trainer for one scene: [0] for the worker to wait on, [1] for the trainer. */
static int ends[2] = { -1, -1 };

void bt_scene_setup(void)
{
	bt_truth = bt_shared(sizeof(*bt_truth));
	sync_area = bt_shared(sizeof(*sync_area));
	sem_init(&sync_area->sem, 1, 0);
	scene_disk_setup();
}

static void close_ends(void)
{
	for (int i = 0; i < 2; i++) {
		if (ends[i] >= 0)
			close(ends[i]);
		ends[i] = -1;
	}
}

/* ---- on the CPU, or waiting for one ---- */

static void spin(void)
{
	scene_begin();
	while (bt_cpu_ns() - bt_truth->live_cpu_ns < SPIN_NS)
		;
	scene_end();
}

/* Runs until told to stop, and tells how long it has run: for looking at it meanwhile. */
static void spin_live(void)
{
	scene_begin();
	while (!__atomic_load_n(&bt_truth->released, __ATOMIC_ACQUIRE))
		__atomic_store_n(&bt_truth->live_cpu_ns, bt_cpu_ns(), __ATOMIC_RELEASE);
	scene_end();
}

/* Nothing takes the CPU from it but the kernel's own threads of that class. */
static void spin_fifo(void)
{
	struct sched_param param = { .sched_priority = 1 };

	bt_pin(1);
	scene_check(!sched_setscheduler(0, SCHED_FIFO, &param), "sched_setscheduler");
	spin_live();
}

static void hog(void *arg)
{
	bt_pin(0);
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
	for (;;)
		;
}

/* Two more want the same CPU, so it gets a third of it. */
static void crowded(void)
{
	uint64_t until;
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = bt_fork(hog, &bt_truth->released);
	bt_pin(0);
	while (!__atomic_load_n(&bt_truth->released, __ATOMIC_ACQUIRE))
		sched_yield();
	scene_begin();
	until = dlp_now_ns() + 300 * BT_MS;
	while (dlp_now_ns() < until)
		;
	scene_end();
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		bt_reap(pid[i]);
	}
}

/* It sleeps most of the time, but when it wakes up the CPU is taken, and it may not preempt. */
static void crowded_wakeups(void)
{
	const struct sched_param param = { 0 };
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = bt_fork(hog, &bt_truth->released);
	bt_pin(0);
	scene_check(!sched_setscheduler(0, SCHED_BATCH, &param), "sched_setscheduler");
	while (!__atomic_load_n(&bt_truth->released, __ATOMIC_ACQUIRE))
		bt_sleep_ns(BT_MS);
	scene_begin();
	for (int i = 0; i < 20; i++)
		bt_sleep_ns(200 * DLP_NS_PER_US);
	scene_end();
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		bt_reap(pid[i]);
	}
}

/* ---- sleeps ---- */

static void nap(void)
{
	scene_begin();
	bt_sleep_ns(100 * BT_MS);
	scene_end();
}

static void empty_poll(void)
{
	scene_begin();
	poll(NULL, 0, 100);
	scene_end();
}

static void empty_select(void)
{
	struct timeval timeout = { .tv_usec = 100 * 1000 };

	scene_begin();
	select(0, NULL, NULL, NULL, &timeout);
	scene_end();
}

/* ---- locks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *hold_mutex(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	pthread_barrier_wait(&barrier);
	bt_sleep_ns(100 * BT_MS);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void held_mutex(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	scene_check(!pthread_create(&thread, NULL, hold_mutex, NULL), "pthread_create");
	pthread_barrier_wait(&barrier);
	scene_begin();
	pthread_mutex_lock(&mutex);
	scene_end();
	pthread_join(thread, NULL);
}

static void semaphore(void)
{
	scene_begin();
	while (sem_wait(&sync_area->sem))
		;
	scene_end();
}

static void post_semaphore(void)
{
	sem_post(&sync_area->sem);
}

/* Nobody wakes it: a futex with a timeout, inside what is taken for the interpreter's lock. */
static void gil_futex(void)
{
	struct timespec timeout = { .tv_nsec = 100 * 1000 * 1000 };

	scene_begin();
	syscall(SYS_futex, bt_gil, FUTEX_WAIT, 0, &timeout, NULL, 0);
	scene_end();
}

/* The word behind the range is an ordinary lock. */
static void near_gil_futex(void)
{
	static int words[1 + BT_GIL_BYTES / sizeof(int)];
	struct timespec timeout = { .tv_nsec = 100 * 1000 * 1000 };

	scene_begin();
	syscall(SYS_futex, words, FUTEX_WAIT, 0, &timeout, NULL, 0);
	scene_end();
}

static int lock_fd = -1;

static void open_lock_file(void)
{
	char path[] = "/tmp/dlprof-bt-XXXXXX";

	if (lock_fd >= 0)
		close(lock_fd);
	lock_fd = mkostemp(path, O_CLOEXEC);
	scene_check(lock_fd >= 0, "mkostemp");
	/* a second open file: flock() locks belong to one */
	ends[0] = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
}

static void take_flock(void)
{
	close_ends();
	open_lock_file();
	scene_check(!flock(lock_fd, LOCK_EX), "flock");
}

static void wait_flock(void)
{
	scene_begin();
	scene_check(!flock(ends[0], LOCK_EX), "flock");
	scene_end();
}

static void drop_flock(void)
{
	flock(lock_fd, LOCK_UN);
}

static void set_lock(int fd, int command, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

	scene_check(!fcntl(fd, command, &lock), "fcntl");
}

static void take_posix_lock(void)
{
	close_ends();
	open_lock_file();
	set_lock(lock_fd, F_SETLK, F_WRLCK);
}

static void wait_posix_lock(void)
{
	scene_begin();
	set_lock(ends[0], F_SETLKW, F_WRLCK);
	scene_end();
}

static void drop_posix_lock(void)
{
	set_lock(lock_fd, F_SETLK, F_UNLCK);
}

static void take_ofd_lock(void)
{
	close_ends();
	open_lock_file();
	set_lock(lock_fd, F_OFD_SETLK, F_WRLCK);
}

static void wait_ofd_lock(void)
{
	scene_begin();
	set_lock(ends[0], F_OFD_SETLKW, F_WRLCK);
	scene_end();
}

static void drop_ofd_lock(void)
{
	set_lock(lock_fd, F_OFD_SETLK, F_UNLCK);
}

/* ---- sockets, pipes, children ---- */

static void make_pipe(void)
{
	close_ends();
	scene_check(!pipe2(ends, O_CLOEXEC), "pipe");
	bt_truth->object = scene_inode_of(ends[0]);
}

static void make_local_socket(void)
{
	close_ends();
	scene_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socketpair");
	bt_truth->object = scene_inode_of(ends[0]);
}

static struct sockaddr_in address;
static int listener = -1;

static void make_listener(void)
{
	socklen_t len = sizeof(address);

	close_ends();
	if (listener >= 0)
		close(listener);
	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	scene_check(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 1) &&
	      !getsockname(listener, (struct sockaddr *)&address, &len), "listen");
	bt_truth->object = scene_inode_of(listener);
}

static void connect_to_listener(void)
{
	ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	scene_check(!connect(ends[1], (struct sockaddr *)&address, sizeof(address)), "connect");
}

static void make_connection(void)
{
	make_listener();
	connect_to_listener();
	ends[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	scene_check(ends[0] >= 0, "accept");
	bt_truth->object = scene_inode_of(ends[0]);
}

static void write_byte(void)
{
	scene_check(write(ends[1], "x", 1) == 1, "write");
}

static void read_byte(void)
{
	char byte;

	scene_begin();
	scene_check(read(ends[0], &byte, 1) == 1, "read");
	scene_end();
}

static void recv_byte(void)
{
	char byte;

	scene_begin();
	scene_check(recv(ends[0], &byte, 1, 0) == 1, "recv");
	scene_end();
}

static void wait_accept(void)
{
	scene_begin();
	scene_check(accept(listener, NULL, NULL) >= 0, "accept");
	scene_end();
}

static void poll_end(int timeout_ms)
{
	struct pollfd pollfd = { .fd = ends[0], .events = POLLIN };

	scene_begin();
	scene_check(poll(&pollfd, 1, timeout_ms) == 1, "poll");
	scene_end();
}

static void poll_forever(void)
{
	poll_end(-1);
}

static void poll_like_loader(void)
{
	poll_end(LOADER_POLL_MS);
}

static void ppoll_like_loader(void)
{
	const struct timespec timeout = { .tv_sec = LOADER_POLL_MS / 1000 };
	struct pollfd pollfd = { .fd = ends[0], .events = POLLIN };

	scene_begin();
	scene_check(ppoll(&pollfd, 1, &timeout, NULL) == 1, "ppoll");
	scene_end();
}

static void select_end(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	scene_begin();
	scene_check(select(ends[0] + 1, &set, NULL, NULL, NULL) == 1, "select");
	scene_end();
}

static void epoll_end(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	scene_check(fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &event), "epoll_ctl");
	scene_begin();
	scene_check(epoll_wait(fd, &event, 1, -1) == 1, "epoll_wait");
	scene_end();
}

static void child_naps(void *arg)
{
	(void)arg;
	bt_sleep_ns(100 * BT_MS);
}

static void wait_child(void)
{
	pid_t pid = bt_fork(child_naps, NULL);

	scene_begin();
	scene_check(waitpid(pid, NULL, 0) == pid, "waitpid");
	scene_end();
}

/* ---- index pipes: what the trainer has written a batch index into ---- */

static void send_index(void)
{
	uint8_t buf[64];

	bt_send(ends[1], buf, bt_message(buf, 1, 32));
}

static void make_index_pipe(void)
{
	make_pipe();
	send_index();
}

static void take_index(void)
{
	uint8_t buf[64];

	bt_read(ends[0], buf, BT_LENGTH_WORD);
	bt_read(ends[0], buf, 32);
}

static void index_poll(void)
{
	take_index();
	poll_forever();
}

static void index_read(void)
{
	uint8_t buf[BT_LENGTH_WORD];

	take_index();
	scene_begin();
	scene_check(read(ends[0], buf, sizeof(buf)) == sizeof(buf), "read");
	scene_end();
}

static void index_select(void)
{
	take_index();
	select_end();
}

static void index_epoll(void)
{
	take_index();
	epoll_end();
}

/* ---- stopped from outside ---- */

static void stopped(void)
{
	scene_begin();
	while (!__atomic_load_n(&bt_truth->released, __ATOMIC_ACQUIRE))
		;
	scene_end();
}

static void stop_and_continue(void)
{
	kill(bt_truth->pid, SIGSTOP);
	scene_check(waitpid(bt_truth->pid, NULL, WUNTRACED) == bt_truth->pid, "waitpid");
	bt_sleep_ns(400 * BT_MS);
	__atomic_store_n(&bt_truth->released, 1, __ATOMIC_RELEASE);
	kill(bt_truth->pid, SIGCONT);
}

#define NONE BT_NO_SYSCALL

/* These end when bt_truth->released says so. */
const struct bt_scene bt_scene_spin_live = { "spin-live", DLP_ST_RUN, NONE, NULL, spin_live, NULL };
const struct bt_scene bt_scene_spin_fifo = { "spin-fifo", DLP_ST_RUN, NONE, NULL, spin_fifo, NULL };

const struct bt_scene bt_scenes[] = {
	{ "spin", DLP_ST_RUN, NONE, NULL, spin, NULL },
	{ "crowded-cpu", DLP_ST_RUNQ, NONE, NULL, crowded, NULL },
	{ "crowded-wakeups", DLP_ST_RUNQ, NONE, NULL, crowded_wakeups, NULL },
	{ "nanosleep", DLP_ST_SLEEP, SYS_clock_nanosleep, NULL, nap, NULL },
	{ "poll-nothing", DLP_ST_SLEEP, DLP_ARCH_SYS_POLL, NULL, empty_poll, NULL },
	{ "select-nothing", DLP_ST_SLEEP, NONE, NULL, empty_select, NULL },
	{ "cold-pread", DLP_ST_DISK, NONE, scene_disk_prepare, scene_cold_pread, NULL },
	{ "direct-pread", DLP_ST_DISK, NONE, scene_disk_prepare, scene_direct_pread, NULL },
	{ "fsync", DLP_ST_DISK, NONE, scene_disk_prepare, scene_fsync, NULL },
	{ "cold-fault", DLP_ST_FAULT, NONE, scene_disk_prepare, scene_cold_fault, NULL },
	{ "fault-in-write", DLP_ST_FAULT, NONE, scene_disk_prepare, scene_fault_in_write, NULL },
	{ "mutex", DLP_ST_LOCK, SYS_futex, NULL, held_mutex, NULL },
	{ "semaphore", DLP_ST_LOCK, SYS_futex, NULL, semaphore, post_semaphore },
	{ "futex-elsewhere", DLP_ST_LOCK, SYS_futex, NULL, near_gil_futex, NULL },
	{ "gil-futex", DLP_ST_GIL, SYS_futex, NULL, gil_futex, NULL },
	{ "flock", DLP_ST_LOCK, SYS_flock, take_flock, wait_flock, drop_flock },
	{ "fcntl-lock", DLP_ST_LOCK, SYS_fcntl, take_posix_lock, wait_posix_lock, drop_posix_lock },
	{ "ofd-lock", DLP_ST_LOCK, SYS_fcntl, take_ofd_lock, wait_ofd_lock, drop_ofd_lock },
	{ "tcp-recv", DLP_ST_NET, SYS_recvfrom, make_connection, recv_byte, write_byte },
	{ "tcp-read", DLP_ST_NET, SYS_read, make_connection, read_byte, write_byte },
	{ "tcp-poll", DLP_ST_NET, DLP_ARCH_SYS_POLL, make_connection, poll_forever, write_byte },
	{ "tcp-epoll", DLP_ST_NET, NONE, make_connection, epoll_end, write_byte },
	{ "tcp-accept", DLP_ST_NET, SYS_accept, make_listener, wait_accept, connect_to_listener },
	{ "unix-socket", DLP_ST_PIPE, SYS_read, make_local_socket, read_byte, write_byte },
	{ "unknown-pipe", DLP_ST_PIPE, SYS_read, make_pipe, read_byte, write_byte },
	{ "unknown-pipe-poll", DLP_ST_PIPE, DLP_ARCH_SYS_POLL, make_pipe, poll_forever, write_byte },
	{ "unknown-pipe-select", DLP_ST_PIPE, NONE, make_pipe, select_end, write_byte },
	{ "unknown-pipe-epoll", DLP_ST_PIPE, NONE, make_pipe, epoll_end, write_byte },
	{ "child", DLP_ST_PIPE, SYS_wait4, NULL, wait_child, NULL },
	{ "loader-poll", DLP_ST_IDLE, DLP_ARCH_SYS_POLL, make_pipe, poll_like_loader, write_byte },
	{ "loader-ppoll", DLP_ST_IDLE, SYS_ppoll, make_pipe, ppoll_like_loader, write_byte },
	{ "index-pipe-poll", DLP_ST_IDLE, DLP_ARCH_SYS_POLL, make_index_pipe, index_poll, send_index },
	{ "index-pipe-read", DLP_ST_IDLE, SYS_read, make_index_pipe, index_read, send_index },
	{ "index-pipe-select", DLP_ST_IDLE, NONE, make_index_pipe, index_select, send_index },
	{ "index-pipe-epoll", DLP_ST_IDLE, NONE, make_index_pipe, index_epoll, send_index },
	{ "stopped", DLP_ST_OTHER, NONE, NULL, stopped, stop_and_continue },
};

const size_t bt_scene_cnt = DLP_ARRAY_SIZE(bt_scenes);
