/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Scenes that wait for a block device. */
#include "scene_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
/* Of waiting for the disk, however fast it is and whoever takes the CPU meanwhile... */
#define DISK_NS	 (12 * BT_MS)
/* ...which is looked at only so often, and not for ever: everything may be cached below us. */
#define DISK_BATCH 8
#define DISK_OPS_MAX (BT_FILE_BYTES / PAGE)

static int block_fd = -1;
static char block_why[120];

void scene_disk_setup(void)
{
	block_fd = bt_block_file(block_why, BT_FILE_BYTES);
}

void scene_disk_prepare(void)
{
	if (block_fd < 0) {
		memcpy(bt_truth->skipped, block_why, sizeof(block_why));
		return;
	}
	posix_fadvise(block_fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(block_fd, 0, 0, POSIX_FADV_RANDOM);
	bt_truth->object = scene_inode_of(block_fd);
}

static off_t page_at(unsigned int i)
{
	/* an odd stride over a power of two visits every page once */
	return (off_t)(i * 1237u % (BT_FILE_BYTES / PAGE)) * PAGE;
}

/* The next page to work on; false when there has been enough waiting. */
static bool next_page(unsigned int *i)
{
	return ++*i < DISK_OPS_MAX && (*i % DISK_BATCH || !scene_blocked_enough(DISK_NS));
}

static void read_pages(int fd, size_t bytes)
{
	char *buf = aligned_alloc(PAGE, bytes);
	unsigned int i = 0;

	memset(buf, 0, bytes);
	scene_begin();
	while (next_page(&i))
		scene_check(pread(fd, buf, bytes, page_at(i)) > 0, "pread");
	scene_end();
	free(buf);
}

void scene_cold_pread(void)
{
	read_pages(block_fd, PAGE);
}

void scene_direct_pread(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", block_fd);
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	scene_check(fd >= 0, "open O_DIRECT");
	read_pages(fd, 4 * PAGE);
	close(fd);
}

void scene_fsync(void)
{
	static char buf[PAGE];
	unsigned int i = 0;

	scene_begin();
	while (next_page(&i)) {
		scene_check(pwrite(block_fd, buf, sizeof(buf), page_at(i)) > 0, "pwrite");
		scene_check(!fsync(block_fd), "fsync");
	}
	scene_end();
}

static volatile char *map_cold(void)
{
	char *map = mmap(NULL, BT_FILE_BYTES, PROT_READ, MAP_SHARED, block_fd, 0);

	scene_check(map != MAP_FAILED, "mmap");
	scene_check(!madvise(map, BT_FILE_BYTES, MADV_RANDOM), "madvise");
	return map;
}

void scene_cold_fault(void)
{
	volatile char *map = map_cold();
	unsigned int i = 0;

	scene_begin();
	while (next_page(&i))
		(void)map[page_at(i)];
	scene_end();
}

/* The kernel takes the fault inside write(), whose descriptor is a pipe. */
void scene_fault_in_write(void)
{
	volatile char *map = map_cold();
	char sink[PAGE];
	unsigned int i = 0;
	int fd[2];

	scene_check(!pipe(fd), "pipe");
	scene_begin();
	while (next_page(&i)) {
		scene_check(write(fd[1], (const char *)map + page_at(i), 64) == 64, "write");
		scene_check(read(fd[0], sink, 64) == 64, "read");
	}
	scene_end();
}
