/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a pid to what can be probed: the Python and torch it runs, the files that hold them in
 * the target's own mount namespace, and for every probe the file offset, checked against the
 * bytes there. Reads only /proc and ELF files; attaches nothing, stops nothing.
 */
#ifndef DLP_TARGET_H
#define DLP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dlprof/config.h"

struct dlp_version {
	int major, minor, micro; /* major 0 = unknown */
	char text[48];		 /* as the package says it, "2.13.0+cpu"; "" = unknown */
};

enum dlp_probe_id {
	DLP_PROBE_SCOPE_ENTER = 0, /* rung string: A and C */
	DLP_PROBE_SCOPE_EXIT,
	DLP_PROBE_NEXT,		/* slot_tp_iternext(self) of the interpreter */
	DLP_PROBE_SCOPE_OP,	/* rung op: B, both edges */
	DLP_PROBE_QUEUE_SEND,	/* _Py_write(fd, buf, n) */
	DLP_PROBE_QUEUE_RECV,	/* _pickle.loads(module, args, nargs, kwnames) */
	DLP_PROBE_SEM_OPEN,	/* sem_open(name, flags, mode, value) of the C library */
	DLP_PROBE_MAX,
};

struct dlp_probe {
	enum dlp_probe_id id;
	char path[512];	  /* opens the very file the target has mapped, from our namespace */
	char shown[256];  /* the target's own name for it; untrusted */
	uint64_t offset;  /* in the file, of the instruction to probe */
	uint8_t insn;	  /* its first byte */
	bool slow;	  /* not a push or nop: costs 10 to 20 times as much a hit */
	char symbol[160];
};

/* libtorch_python and libtorch_cpu (exit: both), Python, _pickle and the C library: 8 is ample. */
#define DLP_PROBES_MAX 8

enum dlp_scope_kind { DLP_SCOPE_KIND_NONE = 0, DLP_SCOPE_KIND_A, DLP_SCOPE_KIND_B, DLP_SCOPE_KIND_C };

/* A mapped file, as /proc/PID/maps tells it; inode 0 = none. */
struct dlp_file_id {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
};

/* The interpreter in a process's memory; 0 = not known. */
struct dlp_interpreter {
	uint64_t gil_lo, gil_hi; /* _PyRuntime */
	uint64_t bias;		 /* from addresses in its file to those in memory */
	struct dlp_file_id file;
};

struct dlp_target {
	pid_t pid;
	pid_t inside;		/* its number in its own pid namespace; 0 = not known, or the same */
	char comm[16];		/* untrusted, like cmdline */
	char cmdline[1024];	/* arguments joined by spaces */
	uint64_t start_ticks;	/* /proc/PID/stat field 22: tells a reused pid */
	struct dlp_version python, torch;
	char container[80];	/* id from its cgroup path; "" = none */
	uint64_t gil_lo, gil_hi; /* _PyRuntime in its memory; 0 = not found */
	struct dlp_file_id python_file; /* the interpreter's */
	struct dlp_gc_code gc;		/* its garbage collector; cnt 0 = not found */
	enum dlp_scope_kind scope_kind;
	uint32_t op_args_param;	/* B: 4 = rcx, 5 = r8 */
	uint32_t op_exit_delta;	/* B: 1 or 2 */
	uint32_t str_data_off;	/* B: 48, from Python 3.12 on 40 */
	uint32_t tuple_item_off; /* B: 24, from Python 3.14 on 32 */
	struct dlp_probe probe[DLP_PROBES_MAX];
	size_t probe_cnt;
	/* When a probe point was not found: one line why, "" = it was. */
	char queue_note[200];
	char iterator_note[200];
	char gc_note[200];
};

enum dlp_target_err {
	DLP_TARGET_OK = 0,
	DLP_TARGET_NO_PROCESS,	/* no such pid */
	DLP_TARGET_DENIED,	/* may not look at it */
	DLP_TARGET_NOT_PYTHON,
	DLP_TARGET_NO_TORCH,	/* not loaded (yet) */
	DLP_TARGET_TORCH_OLD,	/* no record_function in its loader (before 1.8) */
	DLP_TARGET_NO_PROBE,	/* a torch without a usable probe point */
	DLP_TARGET_IS_WORKER,	/* a DataLoader worker; trainer_pid says whose; 0: their server */
	DLP_TARGET_KERNEL_THREAD,
	DLP_TARGET_IO,		/* something could not be read; text says what */
};

struct dlp_target_failure {
	enum dlp_target_err err;
	pid_t trainer_pid; /* DLP_TARGET_IS_WORKER */
	char text[400];	   /* one line for a person: what is wrong and what to do */
};

/*
 * Fills *ret. Returns 0, or -1 with *failure filled. `root` is "" for the real system, else a
 * folder that holds a made-up /proc (tests).
 */
int dlp_target_open(const char *root, pid_t pid, struct dlp_target *ret,
		    struct dlp_target_failure *failure);

/*
 * Where the interpreter and its runtime structure (_PyRuntime, which holds the global lock) lie in
 * the memory of a process: 0, -ENOENT when it has none (yet), or as procfs.h says.
 */
int dlp_target_interpreter(const char *root, pid_t pid, struct dlp_interpreter *ret);

#endif /* DLP_TARGET_H */
