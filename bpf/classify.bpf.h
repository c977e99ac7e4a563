/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a thread is off the CPU: from the system call it is in, the file that call is on, and
 * in_iowait. Shared by the scheduler programs and the task iterator.
 */
#ifndef DLP_CLASSIFY_BPF_H
#define DLP_CLASSIFY_BPF_H

#include "compat.bpf.h"
#include "file.bpf.h"
#include "logic.bpf.h"

/* Task states (include/linux/sched.h), fixed since 2.6. */
#define DLP_TASK_STOPPED 0x4
#define DLP_TASK_TRACED	 0x8

#define DLP_AF_UNIX 1

/*
 * An index pipe is one the trainer was seen writing batch indices into. Until the first such
 * message a worker's poll with the DataLoader's own timeout (MP_STATUS_CHECK_INTERVAL, 5 s) on a
 * single pipe is taken for it.
 */
static __always_inline bool waits_for_index(struct dlp_thread *thread, u64 inode, bool like_loader)
{
	if (!(thread->flags & DLP_THREAD_MAIN) || thread->tgid == thread->trainer)
		return false;
	if (inode == thread->idle_pipe)
		return true;
	if (bpf_map_lookup_elem(&dlp_pipes, &inode)) {
		thread->idle_pipe = inode;
		return true;
	}
	return !thread->idle_pipe && like_loader;
}

static __always_inline void blocked_on_file(struct dlp_thread *thread, struct file *file, bool iowait,
					    bool sync, bool like_loader, struct dlp_blocked *ret)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u32 mode = BPF_CORE_READ(inode, i_mode), type = mode & DLP_S_IFMT;
	int af_local = 0;

	ret->object = BPF_CORE_READ(inode, i_ino);
	if (type == DLP_S_IFSOCK) {
		struct socket *sock = BPF_CORE_READ(file, private_data);

		af_local = BPF_CORE_READ(sock, sk, __sk_common.skc_family) == DLP_AF_UNIX;
	} else if (type != DLP_S_IFIFO) {
		struct super_block *sb = BPF_CORE_READ(inode, i_sb);

		ret->dev = BPF_CORE_READ(sb, s_dev);
		ret->fs_magic = (u32)BPF_CORE_READ(sb, s_magic);
	}
	ret->state = dlp_state_of_file(mode, ret->fs_magic, iowait, sync, af_local);
	if (ret->state == DLP_ST_PIPE && type == DLP_S_IFIFO &&
	    waits_for_index(thread, ret->object, like_loader))
		ret->state = DLP_ST_IDLE;
}

/* The file an epoll tree node watches. */
static __always_inline struct file *epoll_node_file(struct rb_node *node)
{
	/* rbn is the first member (fs/eventpoll.c: it shares a union with the rcu head) */
	return BPF_CORE_READ((struct epitem *)node, ffd.file);
}

/*
 * An epoll waits for whatever it watches; a socket that leaves the machine among the first few
 * files decides, since event loops also watch a local wake-up socket.
 */
static __always_inline void blocked_on_epoll(struct dlp_thread *thread, struct file *epoll,
					     struct dlp_blocked *ret)
{
	struct eventpoll *ep = BPF_CORE_READ(epoll, private_data);
	struct rb_node *root = BPF_CORE_READ(ep, rbr.rb_root.rb_node);
	struct rb_node *node[3] = {};

	ret->state = DLP_ST_OTHER;
	if (!root)
		return;
	node[0] = root;
	node[1] = BPF_CORE_READ(root, rb_left);
	node[2] = BPF_CORE_READ(root, rb_right);
	for (int i = 0; i < 3; i++) {
		struct file *file;

		if (!node[i])
			continue;
		file = epoll_node_file(node[i]);
		if (file)
			blocked_on_file(thread, file, false, false, false, ret);
		if (ret->state == DLP_ST_NET)
			return;
	}
}

/*
 * Futexes inside the interpreter's runtime structure are its global lock. User space may find
 * the structure only after the thread was born: then it is taken from the job table.
 */
static __always_inline void blocked_on_futex(struct dlp_thread *thread, u64 address,
					     struct dlp_blocked *ret)
{
	ret->object = address;
	if (!thread->gil_hi) {
		u32 tgid = thread->tgid;
		struct dlp_job *job = bpf_map_lookup_elem(&dlp_job, &tgid);

		if (job) {
			thread->gil_lo = job->gil_lo;
			thread->gil_hi = job->gil_hi;
		}
	}
	ret->state = address >= thread->gil_lo && address < thread->gil_hi ? DLP_ST_GIL : DLP_ST_LOCK;
}

/* First descriptor of a select()'s sets: the read set, else the write set; -1 when both are empty. */
static __always_inline int select_first(u64 read_set, u64 write_set)
{
	u64 set = read_set ? read_set : write_set;
	u64 word = 0;

	if (!set || bpf_probe_read_user(&word, sizeof(word), (void *)set))
		return -1;
	for (int i = 0; i < 64; i++) {
		if (word & 1)
			return i;
		word >>= 1;
	}
	return -1;
}

/* How a blocked task is met. */
enum dlp_meeting {
	DLP_BLOCKING,	 /* it is current and leaves the CPU: its memory can be read */
	DLP_IS_BLOCKED,	 /* it left before it was traced */
	DLP_WAS_BLOCKED, /* it has been woken since: in_iowait is gone, its registers are not */
};

/* What a blocked system call waits on, when that is a file. */
struct dlp_awaited {
	u64 fd;
	bool sync;	  /* it is being written to its device */
	bool like_loader; /* polled as the DataLoader polls its index pipe */
};

/* A system call that waits for no file, or for none yet: true, and ret says why. */
static __always_inline bool blocked_without_file(struct dlp_thread *thread, u32 class,
						 const struct dlp_call *call, bool iowait,
						 struct dlp_blocked *ret)
{
	switch (class) {
	case DLP_SC_FUTEX:
		if (iowait)
			ret->state = DLP_ST_FAULT;
		else
			blocked_on_futex(thread, call->arg[0], ret);
		return true;
	case DLP_SC_SLEEP:
		ret->state = DLP_ST_SLEEP;
		return true;
	case DLP_SC_AIO:
		ret->state = DLP_ST_DISK;
		return true;
	case DLP_SC_PATH:
		ret->state = iowait ? DLP_ST_DISK : DLP_ST_FS;
		return true;
	case DLP_SC_LOCK:
		ret->state = iowait ? DLP_ST_FAULT : DLP_ST_LOCK;
		return true;
	case DLP_SC_CHILD:
		ret->state = DLP_ST_PIPE;
		return true;
	case DLP_SC_OTHER:
		if (iowait)
			ret->state = DLP_ST_FAULT;
		return true;
	}
	return false;
}

/* One descriptor, for MP_STATUS_CHECK_INTERVAL (5 s) or what is left of it. */
static __always_inline bool polls_like_loader(u32 class, const struct dlp_call *call)
{
	struct __kernel_timespec left = {};
	s32 ms = (s32)call->arg[2];

	if (call->arg[1] != 1)
		return false;
	if (class == DLP_SC_POLL)
		return ms > 0 && ms <= 5000;
	if (!call->arg[2] || bpf_probe_read_user(&left, sizeof(left), (void *)call->arg[2]))
		return false;
	return (left.tv_sec || left.tv_nsec) &&
	       (left.tv_sec < 5 || (left.tv_sec == 5 && !left.tv_nsec));
}

/* poll(): the first descriptor; false when there is none to look at, and ret says why. */
static __always_inline bool polled_file(struct dlp_thread *thread, u32 class,
					const struct dlp_call *call, enum dlp_meeting met,
					struct dlp_awaited *awaited, struct dlp_blocked *ret)
{
	struct pollfd pollfd = { .fd = -1 };

	if (!call->arg[1]) {
		ret->state = DLP_ST_SLEEP;
		return false;
	}
	if (met != DLP_BLOCKING) {
		/* its memory is out of reach: right again at its next switch */
		ret->state = waits_for_index(thread, 0, true) ? DLP_ST_IDLE : DLP_ST_PIPE;
		return false;
	}
	if (bpf_probe_read_user(&pollfd, sizeof(pollfd), (void *)call->arg[0])) {
		dlp_count(DLP_CNT_CLASSIFY_FAULT);
		return false;
	}
	awaited->fd = (u32)pollfd.fd;
	awaited->like_loader = polls_like_loader(class, call);
	return true;
}

/* The same for select(). */
static __always_inline bool selected_file(const struct dlp_call *call, enum dlp_meeting met,
					  struct dlp_awaited *awaited, struct dlp_blocked *ret)
{
	if (!call->arg[0]) {
		ret->state = DLP_ST_SLEEP;
		return false;
	}
	if (met != DLP_BLOCKING) {
		ret->state = DLP_ST_PIPE;
		return false;
	}
	awaited->fd = (u32)select_first(call->arg[1], call->arg[2]);
	return true;
}

/* The file a system call waits on; false when ret says all there is to say. */
static __always_inline bool blocked_with_file(struct dlp_thread *thread, u32 class,
					      const struct dlp_call *call, enum dlp_meeting met,
					      struct dlp_awaited *awaited, struct dlp_blocked *ret)
{
	awaited->fd = (u32)call->arg[0];
	switch (class) {
	case DLP_SC_FD1:
		awaited->fd = (u32)call->arg[1];
		return true;
	case DLP_SC_SYNC:
		awaited->sync = true;
		return true;
	case DLP_SC_FCNTL:
		if (!dlp_fcntl_locks(call->arg[1]))
			return true;
		ret->state = DLP_ST_LOCK;
		return false;
	case DLP_SC_POLL:
	case DLP_SC_PPOLL:
		return polled_file(thread, class, call, met, awaited, ret);
	case DLP_SC_SELECT:
		return selected_file(call, met, awaited, ret);
	}
	return true;
}

/*
 * Why a task is, or was, off the CPU. Out of line: two places use it, and code that is not run is
 * cold.
 */
static __noinline int classify(struct task_struct *task, struct dlp_thread *thread, u32 task_state,
			       enum dlp_meeting met, struct dlp_blocked *ret)
{
	bool iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	struct dlp_awaited awaited = {};
	struct dlp_call call;
	struct file *file;
	u32 class;

	ret->object = 0;
	ret->dev = 0;
	ret->fs_magic = 0;
	ret->state = DLP_ST_OTHER;
	dlp_task_call(task, &call);
	ret->syscall = call.nr;
	if (task_state & (DLP_TASK_STOPPED | DLP_TASK_TRACED))
		return 0;
	if (call.nr < 0) {
		/* without in_iowait: most likely the memory map's lock, held by another thread */
		ret->state = iowait || met == DLP_WAS_BLOCKED ? DLP_ST_FAULT : DLP_ST_LOCK;
		return 0;
	}
	if (call.nr >= DLP_SYSCALL_MAX)
		return 0;
	class = dlp_cfg.syscall_class[call.nr];
	if (blocked_without_file(thread, class, &call, iowait, ret) ||
	    !blocked_with_file(thread, class, &call, met, &awaited, ret))
		return 0;
	file = dlp_task_file(task, awaited.fd);
	if (!file) {
		/* close() has already taken the file away; on a remote file system it still waits */
		if (iowait)
			ret->state = DLP_ST_DISK;
		return 0;
	}
	if (class == DLP_SC_EPOLL)
		blocked_on_epoll(thread, file, ret);
	else
		/* what was read from a disk and is over can only be taken for that */
		blocked_on_file(thread, file, iowait, awaited.sync || met == DLP_WAS_BLOCKED,
				awaited.like_loader, ret);
	return 0;
}

#endif /* DLP_CLASSIFY_BPF_H */
