/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Runs scenes; what they do is in scene_list.c. */
#include "scene_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* How long a worker is left waiting. */
#define WAIT_NS (100 * BT_MS)

struct bt_truth *bt_truth;

static uint64_t begin_cpu_ns, begin_delay_ns, begin_outer_ns, begin_waits;

static uint64_t thread_waits(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : (uint64_t)usage.ru_nvcsw;
}

void scene_check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

uint64_t scene_inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void scene_begin(void)
{
	begin_waits = thread_waits();
	begin_outer_ns = bt_delay_ns();
	bt_truth->outer_begin_ns = dlp_now_ns();
	bt_enter("scene");
	begin_delay_ns = bt_delay_ns();
	begin_cpu_ns = bt_cpu_ns();
	bt_truth->begin_ns = dlp_now_ns();
	__atomic_store_n(&bt_truth->begun, 1, __ATOMIC_RELEASE);
}

bool scene_blocked_enough(uint64_t ns)
{
	uint64_t not_blocked = bt_cpu_ns() - begin_cpu_ns + bt_delay_ns() - begin_delay_ns;

	return dlp_now_ns() - bt_truth->begin_ns >= ns + not_blocked;
}

void scene_end(void)
{
	bt_truth->end_ns = dlp_now_ns();
	bt_truth->cpu_ns = bt_cpu_ns() - begin_cpu_ns;
	bt_truth->delay_ns = bt_delay_ns() - begin_delay_ns;
	bt_exit();
	bt_truth->outer_end_ns = dlp_now_ns();
	bt_truth->outer_delay_ns = bt_delay_ns() - begin_outer_ns;
	bt_truth->waits = thread_waits() - begin_waits;
}

static void worker(void *arg)
{
	const struct bt_scene *scene = arg;

	bt_truth->born_ns = dlp_now_ns();
	bt_truth->pid = getpid();
	scene->work();
	bt_truth->ended_ns = dlp_now_ns();
}

void bt_scene_run(void *arg)
{
	const struct bt_scene *scene = arg;
	pid_t pid;

	memset(bt_truth, 0, sizeof(*bt_truth));
	if (scene->prepare)
		scene->prepare();
	if (bt_truth->skipped[0])
		return;
	bt_truth->fork_ns = dlp_now_ns();
	pid = bt_fork(worker, arg);
	if (scene->wake) {
		while (!__atomic_load_n(&bt_truth->begun, __ATOMIC_ACQUIRE))
			bt_sleep_ns(BT_MS);
		/* not to synchronise: this is the time that is looked for afterwards */
		bt_sleep_ns(WAIT_NS);
		scene->wake();
	}
	bt_reap(pid);
	bt_truth->reaped_ns = dlp_now_ns();
}

const struct bt_scene *bt_scene_find(const char *name)
{
	for (size_t i = 0; i < bt_scene_cnt; i++) {
		if (!strcmp(bt_scenes[i].name, name))
			return &bt_scenes[i];
	}
	fail_msg("no scene '%s'", name);
	return NULL;
}

uint64_t bt_truth_blocked_ns(const struct bt_truth *truth)
{
	uint64_t wall = truth->end_ns - truth->begin_ns, not_blocked = truth->cpu_ns + truth->delay_ns;

	return wall > not_blocked ? wall - not_blocked : 0;
}

uint64_t bt_truth_known_ns(const struct bt_scene *scene, const struct bt_truth *truth)
{
	if (scene->state == DLP_ST_RUN)
		return truth->cpu_ns;
	if (scene->state == DLP_ST_RUNQ)
		return truth->delay_ns;
	return bt_truth_blocked_ns(truth);
}

int bt_block_file(char *ret_why, size_t bytes)
{
	static const char *const folders[] = { "/var/tmp", "/tmp", "." };
	static char block[1u << 20];

	memset(block, 'x', sizeof(block));
	for (size_t i = 0; i < DLP_ARRAY_SIZE(folders); i++) {
		int fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		struct stat st;

		if (fd < 0)
			continue;
		/* memory, overlay and network file systems have no device number of their own */
		if (!fstat(fd, &st) && major(st.st_dev)) {
			size_t done = 0;

			while (done < bytes && write(fd, block, sizeof(block)) == sizeof(block))
				done += sizeof(block);
			if (done >= bytes && !fsync(fd))
				return fd;
		}
		close(fd);
	}
	snprintf(ret_why, 120, "neither /var/tmp nor /tmp nor . is on a block device with room");
	return -1;
}
