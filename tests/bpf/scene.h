/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Scenes: a worker of the made-up trainer spends a known time in one known way, measured by its
 * own clocks and the scheduler's own account, never by what is under test.
 */
#ifndef BT_SCENE_H
#define BT_SCENE_H

#include "harness.h"

struct bt_scene {
	const char *name;
	enum dlp_state state; /* where the time belongs */
	int syscall;	      /* of the DLP_EV_WAITs; BT_NO_SYSCALL = not one long wait */
	void (*prepare)(void); /* in the trainer, before the worker is forked; may be NULL */
	void (*work)(void);    /* in the worker; calls scene_begin() and scene_end() */
	void (*wake)(void);    /* in the trainer, some time after the worker began; may be NULL */
};

#define BT_NO_SYSCALL (-1000)

/* Known about one run, in memory shared by all. */
struct bt_truth {
	pid_t pid;	 /* the worker */
	int begun;	 /* the worker is about to wait */
	int released;	 /* the trainer has done its part */
	uint64_t fork_ns, born_ns, ended_ns, reaped_ns; /* brackets of its life */
	uint64_t outer_begin_ns, outer_end_ns;		/* around the scope... */
	uint64_t begin_ns, end_ns;			/* ...and inside: the measured part */
	uint64_t cpu_ns, delay_ns; /* the thread's own use of the CPU, and waiting for one, in it */
	uint64_t outer_delay_ns;   /* the same, from just before its scope to just after */
	uint64_t waits; /* times it left the CPU of its own accord */
	uint64_t object;    /* inode it waits on; 0 = not said */
	uint64_t live_cpu_ns; /* CLOCK_THREAD_CPUTIME_ID, kept up to date by spinning scenes */
	char skipped[120];    /* why it could not be run */
};

extern struct bt_truth *bt_truth;
extern const struct bt_scene bt_scenes[];
extern const size_t bt_scene_cnt;
extern const struct bt_scene bt_scene_spin_live, bt_scene_spin_fifo;

/* Range in which a futex counts as the interpreter's lock. */
#define BT_GIL_BYTES 64
extern char bt_gil[BT_GIL_BYTES];

/* Before the trainer is started: shared memory and a file on a block device. */
void bt_scene_setup(void);
/* Runs a scene (arg) to its end; for bt_call(). */
void bt_scene_run(void *arg);
const struct bt_scene *bt_scene_find(const char *name);

/* For scenes: open and close the measured part. */
void scene_begin(void);
void scene_end(void);
/* Whether the thread has been blocked for so long since scene_begin(). */
bool scene_blocked_enough(uint64_t ns);

/* Time the thread was off the CPU and not waiting for one: its own account. */
uint64_t bt_truth_blocked_ns(const struct bt_truth *truth);
/* What should be found in the scene's state. */
uint64_t bt_truth_known_ns(const struct bt_scene *scene, const struct bt_truth *truth);

/* A file of so many bytes on a block device, its pages on disk; -1 and a reason otherwise. */
#define BT_FILE_BYTES (32u << 20)
int bt_block_file(char *ret_why, size_t bytes);

#endif /* BT_SCENE_H */
