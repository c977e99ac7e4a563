/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space tells the BPF programs before they are loaded (struct dlp_config, read-only
 * data), the per-job table, the limits of the kernel-side tables, and the counters by which the
 * programs report what they could not do. Not part of the wire format.
 */
#ifndef DLPROF_CONFIG_H
#define DLPROF_CONFIG_H

#include "dlprof/event.h"

/* Processes of one job alive at once: ranks x (workers + helpers); 8 ranks of 64 workers fit. */
#define DLP_JOB_MAX 4096
/* Threads, only where task storage is refused: workers carry thread pools of their own. */
#define DLP_THREADS_MAX 8192
/* Distinct record_function labels; what comes later is counted and reported as label 0. */
#define DLP_LABELS_MAX 1024
/* dlp_label_control.every of labels whose scopes are not sent. */
#define DLP_LABEL_NONE 0xffffffffu
/* record_function scopes nested in one thread; deeper ones are paired but not reported. */
#define DLP_SCOPE_DEPTH 8
/* Index pipes of workers alive at once, and those of past epochs until they are evicted. */
#define DLP_PIPES_MAX 4096
/* Processes outside the job that have used a CPU. */
#define DLP_OTHERS_MAX 4096
/* Functions of an interpreter that run only while it collects garbage, neighbours merged: about 120. */
#define DLP_GC_RANGES_MAX 512
/* Threads that are sampled in an interval: main threads and those that iterate a DataLoader. */
#define DLP_GC_THREADS_MAX 4096
/* Block requests in flight; 128 per hardware queue is a usual device limit. */
#define DLP_REQS_MAX 8192

/* Why something is missing. Totals over all CPUs; shown by name when not zero. */
#define DLP_COUNTERS(X)                                                                            \
	X(RING_FULL, "ring_full", "events that found the ring buffer full")                        \
	X(RING_BYTES, "ring_bytes", "bytes of those events")                                       \
	X(STORAGE, "thread_storage", "threads that could not be given a clock")                    \
	X(JOB_FULL, "job_full", "processes that did not fit the job table")                        \
	X(LABELS_FULL, "labels_full", "scopes whose label did not fit the label table")            \
	X(LABEL_FAULT, "label_fault", "scopes whose label could not be read")                      \
	X(SCOPE_DEEP, "scope_deep", "scopes nested too deep to be reported")                       \
	X(SCOPE_UNPAIRED, "scope_unpaired", "scope exits without an entry (entered before attaching)") \
	X(MSG_FAULT, "message_fault", "queue messages that could not be read")                     \
	X(REQS_FULL, "requests_full", "block requests that did not fit the table")                 \
	X(PIPES_FULL, "pipes_full", "index pipes that did not fit the table")                      \
	X(SYSCALL_SEEN, "syscalls_seen", "system calls the syscall rung was shown (not a loss)") \
	X(MSG_PAUSED, "messages_paused",                                                           \
	  "intervals without batch messages, to spare the job's system calls")                     \
	X(CLASSIFY_FAULT, "classify_fault", "blocked intervals whose reason could not be read")    \
	X(RECORDING_LOST, "recording_lost", "events that are not in the recording")

enum dlp_counter {
#define X(NAME, id, text) DLP_CNT_##NAME,
	DLP_COUNTERS(X)
#undef X
	DLP_CNT_MAX,
};

_Static_assert(DLP_CNT_MAX <= DLP_COUNTERS_MAX, "more counters than the wire event carries");

/* Pid namespaces nested in each other, as far as they are looked into; the kernel allows 33. */
#define DLP_PID_LEVELS 8

/* How the record_function edges are seen: selects code in the loader programs. */
enum dlp_scope_rung {
	DLP_SCOPE_RUNG_STRING = 0, /* pair A and C: the second argument is a std::string */
	DLP_SCOPE_RUNG_OP = 1,	   /* B: torch.ops dispatch, a Python tuple of arguments */
};

/*
 * What a blocked system call can wait for: decides which of its arguments is looked at. Filled by
 * user space per architecture (syscalls.c), so that no program knows a system call's number.
 */
enum dlp_syscall_class {
	DLP_SC_OTHER = 0,
	DLP_SC_FD,     /* on the file of argument 0 */
	DLP_SC_FD1,    /* on the file of argument 1 (sendfile reads from it) */
	DLP_SC_SYNC,   /* argument 0 is being written to its device; in_iowait is often not set */
	DLP_SC_AIO,    /* on a block device, file not known */
	DLP_SC_FUTEX,  /* argument 0 is the address */
	DLP_SC_POLL,   /* argument 0: struct pollfd *, argument 1: how many, argument 2: ms */
	DLP_SC_PPOLL,  /* the same; argument 2: struct timespec * (all there is on arm64) */
	DLP_SC_SELECT, /* argument 0: highest descriptor + 1, arguments 1 and 2: read, write sets */
	DLP_SC_EPOLL,  /* argument 0 is the epoll descriptor */
	DLP_SC_SLEEP,
	DLP_SC_PATH,   /* looks up a path: no file yet */
	DLP_SC_LOCK,   /* file lock, semaphore, the memory map lock */
	DLP_SC_FCNTL,  /* argument 1 is the command; locks wait, others are on the file */
	DLP_SC_CHILD,  /* on a child process */
};

/* Above every system call number of x86-64 and arm64 (about 470 now). */
#define DLP_SYSCALL_MAX 512

/*
 * Labels that are GetNext besides torch's own: patterns as an automaton whose state is a bit for
 * each place it can be at. A character moves the bits in `step` of it up by one; those in `loops`
 * stay as well (a star).
 */
struct dlp_glob {
	__u64 start;  /* 0 = there is none */
	__u64 accept; /* where a pattern ends */
	__u64 loops;
	__u64 step[256];
};

struct dlp_config {
	__u32 wire_version;	/* DLP_WIRE_VERSION, compared when loading */
	__u32 use_task_storage; /* 0: hash keyed by thread id */
	__u32 has_prev_state;	/* sched_switch has prev_state as 4th argument */
	__u32 has_pt_regs;	/* bpf_task_pt_regs exists */
	__u32 has_task_btf;	/* bpf_get_current_task_btf exists */
	__u32 has_rq_single_arg; /* block_rq_issue(rq) instead of (q, rq) */
	__u32 op_exit_delta;	/* B: Symbol of the exit operator minus that of the enter one */
	__u32 op_args_param;	/* B: which argument points to the tuple: 4 = rcx, 5 = r8 */
	__u32 str_data_off;	/* B: offset of a compact ASCII str's data: 48, from 3.12 on 40 */
	__u32 tuple_item_off;	/* B: offset of a tuple's first item: 24, from 3.14 on 32 */
	__u32 ring_wakeup_bytes; /* wake the reader early when so much is unread */
	__u32 has_block_io;	/* block_io_start exists: requests are followed from submission */
	__u32 has_wait_events;	/* 0: long blocked intervals are not sent one by one */
	__u32 own_tgid;		/* the observer's: no part of what it observes */
	__s32 nr_read;		/* system call numbers for the syscall rung */
	__s32 nr_write;
	__u32 pid_ns;		/* inode of the observer's pid namespace; 0 = the kernel's first one */
	__u8 syscall_class[DLP_SYSCALL_MAX]; /* enum dlp_syscall_class */
	__u64 long_wait_ns;	/* report blocked intervals at least so long */
	struct dlp_glob getnext;
};

/* What user space sets while the programs run, mostly to make them cheaper; all zero at first. */
struct dlp_throttle {
	__u32 clocks_off; /* no switch is seen: clocks stand still at zero, instead of running on */
	__u32 labels_off; /* scopes that are no GetNext are paired, and nothing else */
	__u32 worker_scopes_off; /* no scopes but the trainer's */
	__u32 rsvd;
	__u64 long_wait_ns; /* instead of dlp_config's, when longer */
};

/* Value of the job table, keyed by tgid. */
struct dlp_job {
	__u32 trainer;	/* tgid of the trainer this process belongs to */
	__u32 gc_known; /* it runs the interpreter that struct dlp_gc_code is of */
	__u64 gil_lo;	/* [gil_lo, gil_hi): _PyRuntime in this process; 0 = unknown */
	__u64 gil_hi;
	__u64 gc_bias; /* from that interpreter's addresses in its file to those in memory */
};

/* Where the interpreter's garbage collector lies: ascending, apart from each other. */
struct dlp_gc_code {
	__u32 cnt;
	__u32 rsvd;
	struct dlp_gc_range {
		__u32 lo, hi; /* [lo, hi), addresses as in the file */
	} range[DLP_GC_RANGES_MAX];
};

/* How often a thread was found on a CPU since this was last read. */
struct dlp_gc_use {
	__u32 tgid;
	__u32 samples;	       /* all */
	__u32 gc_samples;      /* in the collector */
	__u32 inside;	       /* of samples: inside a GetNext */
	__u32 gc_inside;       /* of gc_samples: likewise */
};

/* Which scopes of a label are sent: value of the control table, indexed by the label's id. */
struct dlp_label_control {
	__u32 every; /* 0, 1: all; DLP_LABEL_NONE: none; n: one in n */
	__u32 seen;  /* since the last one that was sent; kept by the programs */
};

/* A process outside the job, or all of them: how often it was found on a CPU. */
struct dlp_other_use {
	__u64 samples;
	char comm[16]; /* when it was first seen; untrusted */
};

#endif /* DLPROF_CONFIG_H */
