/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bounded readers of /proc. Every function takes `root`, a path put before /proc: "" is the real
 * system, tests give a made-up tree. A process that is gone, or goes while it is read, is -ESRCH;
 * one that may not be looked at is -EACCES. Names read here are untrusted.
 */
#ifndef DLP_PROCFS_H
#define DLP_PROCFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* PF_EXITING and PF_KTHREAD of the kernel's task flags; the same bits since 2.6.27. */
#define DLP_PF_EXITING 0x00000004u
#define DLP_PF_KTHREAD 0x00200000u

struct dlp_proc_stat {
	char comm[17]; /* 15 bytes on today's kernels; kernel threads may show more, cut */
	char state;
	pid_t ppid;
	uint32_t flags;
	uint64_t minflt, majflt;
	uint64_t utime_ns, stime_ns;
	uint32_t threads;
	uint64_t start_ticks; /* since boot */
};

int dlp_proc_stat(const char *root, pid_t pid, struct dlp_proc_stat *ret);

struct dlp_proc_status {
	pid_t tgid;    /* differs from the pid asked for: that is a thread of tgid */
	uid_t uid;     /* real */
	uint32_t cpus; /* that its main thread may use; 0 = unknown */
	pid_t inside;  /* its number in its own pid namespace: another than ours in a container */
};

int dlp_proc_status(const char *root, pid_t pid, struct dlp_proc_status *ret);

/* Is /proc mounted, and does it show the processes by the numbers that our pid namespace has? */
bool dlp_proc_is_ours(const char *root);

/* Arguments as they are, each ended by NUL. 0 bytes for kernel threads and zombies. */
int dlp_proc_cmdline(const char *root, pid_t pid, char *buf, size_t size, size_t *ret_bytes);
/* "NAME=value" as the process was started with, each ended by NUL; the last may be cut at `size`. */
int dlp_proc_environ(const char *root, pid_t pid, char *buf, size_t size, size_t *ret_bytes);
/* The executable as the target's own mount namespace names it; "(deleted)" is cut off. */
int dlp_proc_exe(const char *root, pid_t pid, char *buf, size_t size);
/* Bytes it had read from block devices. */
int dlp_proc_read_bytes(const char *root, pid_t pid, uint64_t *ret);
/* Id of its container from the cgroup path; "" when there is none. */
int dlp_proc_container(const char *root, pid_t pid, char *buf, size_t size);
/* Length of the ticks in which /proc counts CPU time. */
uint64_t dlp_proc_tick_ns(void);
/* Field 22 of stat as CLOCK_MONOTONIC, to a tick (10 ms); 0 when it was born before that began. */
uint64_t dlp_proc_born_ns(uint64_t start_ticks);

struct dlp_proc_map {
	uint64_t start, end;
	uint64_t offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool is_exec;
	bool is_deleted;
	const char *path; /* as the target names it, owned by the list */
};

/* Mappings of files; the others (heap, stacks, devices without a path) are left out. */
struct dlp_proc_maps {
	struct dlp_proc_map *map;
	size_t cnt;
	char **path;
	size_t path_cnt;
};

int dlp_proc_maps_read(const char *root, pid_t pid, struct dlp_proc_maps *ret);
void dlp_proc_maps_fini(struct dlp_proc_maps *maps);

#define _cleanup_maps_ __attribute__((cleanup(dlp_proc_maps_fini)))

/*
 * Every process below `pid`, at any depth, `pid` itself left out, parents before children.
 * -ENOSPC: there are more than `max`; *ret_cnt = max of them are given.
 */
int dlp_proc_descendants(const char *root, pid_t pid, pid_t *ret, size_t max, size_t *ret_cnt);
/*
 * The same, cheap enough to be asked many times a second: the kernel's own lists of children are
 * read where it has them (CONFIG_PROC_CHILDREN), not the state of every process. A process that is
 * born or dies meanwhile may be left out: ask again.
 */
int dlp_proc_family(const char *root, pid_t pid, pid_t *ret, size_t max, size_t *ret_cnt);

#endif /* DLP_PROCFS_H */
