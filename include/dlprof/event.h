/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire format: what the BPF programs put into the ring buffer and the task iterator's
 * stream, and what every later stage (decode, recording, replay) reads. Native byte order,
 * fixed-width fields only, no implicit padding; every record is zeroed before it is filled.
 * Records grow at the tail only: a reader requires the minimum size and ignores the rest.
 */
#ifndef DLPROF_EVENT_H
#define DLPROF_EVENT_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <linux/types.h>
#endif

#define DLP_WIRE_VERSION 1

/*
 * What a thread is doing. Exactly one at any moment; the state clock (struct dlp_clock) has one
 * counter of nanoseconds for each. The order is part of the wire format.
 */
enum dlp_state {
	DLP_ST_RUN = 0,	  /* on a CPU */
	DLP_ST_RUNQ = 1,  /* runnable, waiting for a CPU (throttling included) */
	DLP_ST_DISK = 2,  /* a system call waits for a block device */
	DLP_ST_FAULT = 3, /* a page fault waits for a block device */
	DLP_ST_FS = 4,	  /* inside a network or user-space file system */
	DLP_ST_NET = 5,	  /* on a socket that leaves the machine (AF_INET and the like) */
	DLP_ST_LOCK = 6,  /* file lock, mutex, semaphore, the process's memory map lock */
	DLP_ST_GIL = 7,	  /* futex inside _PyRuntime: Python's global interpreter lock */
	DLP_ST_PIPE = 8,  /* pipe, socketpair or child of the job */
	DLP_ST_SLEEP = 9, /* deliberate sleep */
	DLP_ST_IDLE = 10, /* a worker waits on its index pipe: it has nothing to do */
	DLP_ST_OTHER = 11,
	DLP_ST_MAX = 12,
};

/*
 * All event kinds: number, NAME, struct. Numbers are never reused; families: 1-19 loader,
 * 20-39 block, 40-59 sched, 60-79 process, 240-254 made by user space.
 */
#define DLP_EVENT_KINDS(X)                                                                         \
	X(1, SCOPE, dlp_ev_scope)                                                                  \
	X(2, LABEL, dlp_ev_label)                                                                  \
	X(3, MSG, dlp_ev_msg)                                                                      \
	X(4, SEM, dlp_ev_sem)                                                                      \
	X(20, BLOCK, dlp_ev_block)                                                                 \
	X(40, WAIT, dlp_ev_wait)                                                                   \
	X(41, CLOCK, dlp_ev_clock)                                                                 \
	X(60, FORK, dlp_ev_fork)                                                                   \
	X(61, EXEC, dlp_ev_exec)                                                                   \
	X(62, EXIT, dlp_ev_exit)                                                                   \
	X(240, WINDOW, dlp_ev_window)                                                              \
	X(241, COUNTERS, dlp_ev_counters)                                                          \
	X(242, PROC, dlp_ev_proc)                                                                  \
	X(243, SYSTEM, dlp_ev_system)                                                              \
	X(244, OTHER, dlp_ev_other)                                                                \
	X(245, GC, dlp_ev_gc)                                                                      \
	X(246, GOVERN, dlp_ev_govern)

enum dlp_ev_kind {
#define X(number, NAME, type) DLP_EV_##NAME = number,
	DLP_EVENT_KINDS(X)
#undef X
};

struct dlp_ev_hdr {
	__u16 size; /* bytes, this header included */
	__u16 kind; /* enum dlp_ev_kind */
	__u16 flags;
	__u16 cpu;
	__u64 ts_ns; /* CLOCK_MONOTONIC, when the thing happened (for intervals: when it ended) */
	__u32 tgid;  /* process, as the observer's pid namespace numbers it */
	__u32 tid;
};

/* Nanoseconds a thread has spent in each state since it is traced. */
struct dlp_clock {
	__u64 ns[DLP_ST_MAX];
};

/*
 * One record_function scope that ended: hdr.ts_ns is its end. Entry and exit are paired in the
 * kernel (LIFO per thread), so that a lost record cannot unpair the ones after it.
 */
struct dlp_ev_scope {
	struct dlp_ev_hdr hdr;
	__u64 start_ns;
	__u32 label; /* id, text in an earlier DLP_EV_LABEL; 0 = the label table was full */
	__u16 depth; /* scopes of this thread around this one; 0 = outermost */
	__u16 rsvd;
	struct dlp_clock split; /* how the scope's time splits on its thread */
	__u64 child_ns;		/* part of it inside scopes nested in this one */
	__u32 weight;		/* scopes of this label it stands for: they may be sampled */
	__u32 turn; /* how many outermost scopes of the thread have ended, this one included */
	struct dlp_clock clock; /* of the thread, when the scope ended */
};

/* hdr.flags of DLP_EV_SCOPE */
#define DLP_SCOPE_GETNEXT (1u << 0) /* label is a DataLoader iterator's __next__ */
#define DLP_SCOPE_OUTER	  (1u << 1) /* and no other GetNext is around it */
/*
 * Of the trainer, and had begun before its thread was traced: label and nested scopes are unknown,
 * start_ns is since when it is traced. No other flag is set.
 */
#define DLP_SCOPE_BEGUN (1u << 2)
#define DLP_SCOPE_NAMED	  (1u << 3) /* a GetNext because the user said so: not torch's own loader */

/*
 * Longest label seen: "enumerate(DataLoader)#_StatefulMultiProcessingDataLoaderIter.__next__" (69);
 * longer ones are cut, which may merge two labels that differ only after that.
 */
#define DLP_LABEL_MAX 96

struct dlp_ev_label {
	struct dlp_ev_hdr hdr;
	__u32 label;
	__u32 flags; /* DLP_SCOPE_GETNEXT, DLP_SCOPE_NAMED */
	char text[DLP_LABEL_MAX]; /* NUL-padded; untrusted */
};

enum dlp_msg_dir {
	DLP_MSG_SEND = 0, /* at the start of the write */
	DLP_MSG_RECV = 1, /* the message is read and about to be unpickled */
};

/*
 * Enough for the 4-byte length, the pickle's frame header, a batch index of any width, and the
 * start of the second member, which tells an end-of-shard mark from data.
 */
#define DLP_MSG_PREFIX 48

/* One message of a multiprocessing queue (index or result). */
struct dlp_ev_msg {
	struct dlp_ev_hdr hdr;
	__u64 inode; /* of the pipe; 0 = not known on this rung */
	__u64 bytes; /* pickle, without the length word */
	__u8 dir;    /* enum dlp_msg_dir */
	__u8 prefix_len;
	__u16 rsvd;
	__u32 rsvd2;
	__u8 prefix[DLP_MSG_PREFIX]; /* first bytes of the pickle; untrusted */
	struct dlp_clock clock;	     /* of the thread that sends or receives */
	__u64 minflt;		     /* of that thread, these three as in dlp_ev_clock */
	__u64 utime_ns;
	__u64 stime_ns;
};

/*
 * A process of the job makes a named semaphore: multiprocessing does so for each queue, and a
 * DataLoader with workers begins iter() with its queues.
 */
struct dlp_ev_sem {
	struct dlp_ev_hdr hdr;
	struct dlp_clock clock; /* of the thread */
};

/* A blocked interval longer than the threshold; hdr.ts_ns = back on a CPU. */
struct dlp_ev_wait {
	struct dlp_ev_hdr hdr;
	__u64 start_ns; /* left the CPU */
	__u64 wake_ns;	/* made runnable */
	__u64 object;	/* inode, futex address or 0 */
	__s32 syscall;	/* number on this architecture; -1 = page fault or exception */
	__u32 state;	/* enum dlp_state */
	__u32 dev;	/* of the file's super block, kernel's dev_t; 0 = no file, pipe, socket */
	__u32 fs_magic; /* likewise */
	__u32 waker_tid; /* ran on the CPU that woke it, on its own behalf or interrupted; 0 = idle */
	__u32 rsvd;
};

/* hdr.flags of DLP_EV_CLOCK, DLP_EV_EXIT */
#define DLP_THREAD_MAIN	   (1u << 0) /* the process's main thread */
#define DLP_THREAD_GETNEXT (1u << 1) /* has run a GetNext */
#define DLP_THREAD_DEAD	   (1u << 2) /* its EXIT has been sent; only inside the kernel */

/* Per-thread counts that stay right even when the ring is full. */
struct dlp_thread_counts {
	__u64 getnext_cnt; /* outermost GetNext calls that ended */
	__u64 getnext_ns;
	struct dlp_clock getnext_split;
	__u64 send_cnt; /* queue messages */
	__u64 recv_cnt;
	__u64 switch_cnt; /* times it left the CPU */
};

/* A live thread's clock, read by the task iterator; hdr.ts_ns = when it was read. */
struct dlp_ev_clock {
	struct dlp_ev_hdr hdr;
	struct dlp_clock clock; /* the current state's share up to hdr.ts_ns included */
	struct dlp_thread_counts counts;
	__u64 traced_ns; /* since when the clock runs */
	__u64 since_ns;	 /* in the current state since */
	__u64 getnext_since_ns; /* inside an outermost GetNext since; 0 = outside */
	struct dlp_clock getnext_now; /* split of that unfinished call so far */
	__u64 object;		      /* as in dlp_ev_wait, when blocked */
	__u64 cpu_ns;		      /* the scheduler's CPU time of the thread (sum_exec_runtime) */
	__u32 state;
	__s32 syscall; /* when blocked */
	__u32 dev;
	__u32 fs_magic;
	char comm[16]; /* untrusted */
	__u64 minflt;  /* page faults of the thread since its birth: without and with a read */
	__u64 majflt;
	__u64 utime_ns; /* its CPU time by timer ticks: for the ratio of the two only */
	__u64 stime_ns;
};

struct dlp_ev_block {
	struct dlp_ev_hdr hdr; /* ts_ns: completed; tgid, tid: who submitted, 0 = unknown */
	__u64 queued_ns;       /* submitted by the thread (or issued, where that is not seen) */
	__u64 issued_ns;       /* given to the device */
	__u64 sector;
	__u32 bytes;
	__u32 dev;   /* kernel's dev_t */
	__u32 op;    /* REQ_OP_*: 0 read, 1 write */
	__u32 error; /* 0 = none */
};

/* hdr.flags of DLP_EV_FORK */
#define DLP_FORK_THREAD (1u << 0) /* a thread, not a process */

struct dlp_ev_fork {
	struct dlp_ev_hdr hdr; /* tgid, tid: the parent */
	__u32 child_tgid;
	__u32 child_tid;
};

struct dlp_ev_exec {
	struct dlp_ev_hdr hdr;
	char comm[16];
};

struct dlp_ev_exit {
	struct dlp_ev_hdr hdr;
	struct dlp_clock clock; /* final */
	struct dlp_thread_counts counts;
	__u64 traced_ns;
	__u64 cpu_ns;
	__u32 exit_code; /* wait status */
	__u32 rsvd;
	__u64 minflt; /* these three as in dlp_ev_clock */
	__u64 utime_ns;
	__u64 stime_ns;
};

/* Made by user space: the observed window opens (phase 0), passes an interval (1), closes (2). */
struct dlp_ev_window {
	struct dlp_ev_hdr hdr;
	__u64 realtime_ns; /* CLOCK_REALTIME at hdr.ts_ns */
	__u32 phase;
	__u32 rsvd;
};

/* Made by user space: totals since the window opened. */
#define DLP_COUNTERS_MAX 32

struct dlp_ev_counters {
	struct dlp_ev_hdr hdr;
	__u64 value[DLP_COUNTERS_MAX]; /* indexed by enum dlp_counter, see config.h */
	__u64 recursion_misses;	       /* summed over all programs */
	__u64 prog_run_cnt;	       /* BPF program runs while the kernel's statistics were on, */
	__u64 prog_run_ns;	       /* their time, */
	__u64 prog_sampled_ns;	       /* and how long they were on: a sample of the window */
	__u64 daemon_cpu_ns;
	__u64 daemon_rss_bytes;
};

/* Made by user space from /proc: what a process of the job is. */
enum dlp_proc_role {
	DLP_ROLE_OTHER = 0, /* resource tracker, fork server, helper program */
	DLP_ROLE_TRAINER = 1,
	DLP_ROLE_WORKER = 2, /* looks like a DataLoader worker */
};

struct dlp_ev_proc {
	struct dlp_ev_hdr hdr; /* tgid = tid = the process */
	__u64 born_ns;	       /* CLOCK_MONOTONIC */
	__u32 role;	       /* enum dlp_proc_role */
	__u32 ppid;
	__u32 cpus; /* CPUs its main thread may use; 0 = unknown */
	__u32 rsvd;
	__u64 read_bytes;  /* from block devices, /proc/PID/io */
	__u64 majflt;
	__u64 utime_ns;
	__u64 stime_ns;
	__u32 threads;
	__u32 ended; /* 1: gone, the other figures are the last that were read */
	__u64 minflt; /* page faults without a read */
};

/*
 * Made by user space: the machine and the target's control group, at every interval. Counters
 * grow since boot, and those of throttling since attaching: a target that is moved to another
 * group goes on counting there. A figure whose bit is not in `known` is 0.
 */
#define DLP_SYS_QUOTA	 (1u << 0) /* period_us, quota_us (0 = no limit) and the three after */
#define DLP_SYS_CPU	 (1u << 1) /* busy_ns, idle_ns, steal_ns */
#define DLP_SYS_MEM	 (1u << 2) /* mem_total, mem_available, swap_total, swap_free */
#define DLP_SYS_VM	 (1u << 3) /* reclaim_pages, swap_in_pages, oom_kills */
#define DLP_SYS_GROUPMEM (1u << 4) /* group_limit (0 = none), group_used */
#define DLP_SYS_PSI	 (1u << 5) /* psi_* */
#define DLP_SYS_SHM	 (1u << 6) /* shm_total, shm_free */

struct dlp_ev_system {
	struct dlp_ev_hdr hdr;
	__u32 known;	    /* DLP_SYS_* */
	__u32 cpus;	    /* online */
	__u32 cpus_allowed; /* of the trainer's main thread; 0 = unknown */
	__u32 rsvd;
	__u64 quota_us; /* CPU time per period the tightest group above the target allows */
	__u64 period_us;
	__u64 periods; /* elapsed with the group's processes runnable, */
	__u64 throttled_periods;
	__u64 throttled_ns;
	__u64 busy_ns; /* all CPUs together, by timer ticks */
	__u64 idle_ns;
	__u64 steal_ns; /* taken by the hypervisor */
	__u64 mem_total, mem_available, swap_total, swap_free; /* bytes */
	__u64 reclaim_pages; /* scanned by processes that had to wait for memory */
	__u64 swap_in_pages;
	__u64 oom_kills;
	__u64 group_limit, group_used; /* memory of the control group, bytes */
	__u64 psi_cpu_us, psi_io_us, psi_memory_us; /* some task stalled, /proc/pressure */
	__u64 shm_total, shm_free; /* bytes of the target's /dev/shm */
};

/*
 * Made by user space: CPU time a process outside the job has used since attaching, estimated by
 * sampling. tgid 0 = all processes outside the job together.
 */
struct dlp_ev_other {
	struct dlp_ev_hdr hdr;
	__u64 cpu_ns;
	__u64 samples;
	char comm[16]; /* untrusted */
};

/*
 * Made by user space: how often a thread of the job (hdr.tid) was found on a CPU since its last such
 * event, and how often in Python's garbage collector. No event: not on a CPU, or not known.
 */
struct dlp_ev_gc {
	struct dlp_ev_hdr hdr;
	__u32 samples;
	__u32 gc_samples;
	__u32 inside;	 /* of samples: inside a GetNext */
	__u32 gc_inside; /* of gc_samples: likewise */
};

/*
 * Made by user space: what the probes cost, measured in an interval, and what is left out because
 * that was too much. Every event tells the whole state, so that any of them may be the first.
 */
enum dlp_govern_step {
	DLP_GOV_LABELS_FEW = 0, /* record_function labels: a smaller sample of each, */
	DLP_GOV_LABELS_OFF = 1, /* or none, GetNext excepted */
	DLP_GOV_LONG_WAITS = 2, /* only very long blocked intervals one by one */
	DLP_GOV_MESSAGES = 3,	/* no queue messages */
	DLP_GOV_WORKER_SCOPES = 4, /* no scopes in processes other than the trainer */
	DLP_GOV_MAX = 5,
};

#define DLP_GOV_UNKNOWN 0xffffffffu

struct dlp_ev_govern {
	struct dlp_ev_hdr hdr;
	__u32 limit_ppm; /* millionths of the job's CPU time that the probes may take */
	__u32 measured_ppm; /* that they took; DLP_GOV_UNKNOWN = not measured yet */
	__u32 active; /* bit for each enum dlp_govern_step that is taken from now on */
	__u32 unmet;  /* 1: too much, and no step is left that would help */
	__u64 probe_ns; /* time of the BPF programs in what was measured, */
	__u64 job_ns;	/* and CPU time of the job's processes, or of one CPU where that is more */
};

#define DLP_ASSERT_SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), #type " changed its size")
#define DLP_ASSERT_OFFSET(type, field, bytes) \
	_Static_assert(__builtin_offsetof(struct type, field) == (bytes), #type "." #field " moved")

DLP_ASSERT_SIZE(dlp_ev_hdr, 24);
DLP_ASSERT_OFFSET(dlp_ev_hdr, ts_ns, 8);
DLP_ASSERT_OFFSET(dlp_ev_hdr, tgid, 16);
DLP_ASSERT_SIZE(dlp_clock, 96);
DLP_ASSERT_SIZE(dlp_ev_scope, 248);
DLP_ASSERT_OFFSET(dlp_ev_scope, split, 40);
DLP_ASSERT_SIZE(dlp_ev_label, 128);
DLP_ASSERT_OFFSET(dlp_ev_label, text, 32);
DLP_ASSERT_SIZE(dlp_ev_msg, 216);
DLP_ASSERT_OFFSET(dlp_ev_msg, prefix, 48);
DLP_ASSERT_OFFSET(dlp_ev_msg, clock, 96);
DLP_ASSERT_SIZE(dlp_ev_sem, 120);
DLP_ASSERT_SIZE(dlp_ev_wait, 72);
DLP_ASSERT_SIZE(dlp_thread_counts, 136);
DLP_ASSERT_SIZE(dlp_ev_clock, 456);
DLP_ASSERT_OFFSET(dlp_ev_clock, state, 392);
DLP_ASSERT_SIZE(dlp_ev_block, 64);
DLP_ASSERT_SIZE(dlp_ev_fork, 32);
DLP_ASSERT_SIZE(dlp_ev_exec, 40);
DLP_ASSERT_SIZE(dlp_ev_exit, 304);
DLP_ASSERT_SIZE(dlp_ev_window, 40);
DLP_ASSERT_SIZE(dlp_ev_counters, 328);
DLP_ASSERT_SIZE(dlp_ev_proc, 96);
DLP_ASSERT_SIZE(dlp_ev_system, 216);
DLP_ASSERT_SIZE(dlp_ev_other, 56);
DLP_ASSERT_SIZE(dlp_ev_gc, 40);
DLP_ASSERT_SIZE(dlp_ev_govern, 56);

#endif /* DLPROF_EVENT_H */
