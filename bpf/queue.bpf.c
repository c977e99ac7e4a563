/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batch messages on the index and result pipes of multiprocessing queues. Two rungs:
 *
 *  - uprobes where the interpreter itself handles a message: _Py_write() when it is sent,
 *    _pickle.loads() when it has been read. Only messages pay, about 1 us each.
 *  - the exit of every system call of the machine, which needs nothing from the interpreter but
 *    taxes every system call (50 to 130 ns each, measured): for targets without those symbols.
 *
 * Wire format: Lib/multiprocessing/connection.py: 4 bytes of big-endian length, then the pickle;
 * more than 16384 bytes go out as two writes. The same from Python 3.8 to 3.14. Tensors travel
 * over AF_UNIX sockets with the same framing, so only FIFOs count.
 */
#include "compat.bpf.h"
#include "file.bpf.h"
#include "logic.bpf.h"

/* Lengths from 2 GB up use another form (-1, then 8 bytes): no queue message is that long. */
#define MSG_BYTES_MAX 0x7fffffff
/* A pickle shorter than this holds no batch index: MARK, frame and index need 13 bytes. */
#define MSG_BYTES_MIN 4
#define LENGTH_WORD 4
/*
 * A thread whose first writes are all something else never sends: queue messages come from the
 * queue's feeder thread, which does nothing else. Of 16 writes per batch of two tensors 14 are
 * handshakes of the threads that pass their descriptors on.
 */
#define SEND_MISSES_MAX 64

struct message {
	u64 inode;
	u32 bytes;
	u8 dir;
	u8 prefix_len;
	u8 prefix[DLP_MSG_PREFIX] __attribute__((aligned(8)));
};

/* Inode of a descriptor of the current task if it is a FIFO, else 0. */
static __always_inline u64 fifo_inode(u32 fd)
{
	struct file *file = dlp_task_file(dlp_task_current(), fd);
	struct inode *inode;

	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & DLP_S_IFMT) != DLP_S_IFIFO)
		return 0;
	return BPF_CORE_READ(inode, i_ino);
}

/* The first bytes of a pickle of the given length; false when they cannot be read. */
static __always_inline bool read_prefix(u64 user, u32 bytes, u8 *prefix, u8 *ret_len)
{
	u32 len = bytes < DLP_MSG_PREFIX ? bytes : DLP_MSG_PREFIX;

	barrier_var(len);
	if (len > DLP_MSG_PREFIX)
		return false;
	if (bpf_probe_read_user(prefix, len, (void *)user)) {
		dlp_count(DLP_CNT_MSG_FAULT);
		return false;
	}
	*ret_len = len;
	return true;
}

static __noinline int send_message(struct dlp_thread *thread, const struct message *msg)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task;
	struct dlp_ev_msg *event;
	u64 inode = msg->inode;
	u32 one = 1;

	if (msg->dir == DLP_MSG_SEND) {
		thread->send_cnt++;
		if (thread->tgid == thread->trainer && dlp_pickle_is_indexed(msg->prefix) &&
		    !bpf_map_lookup_elem(&dlp_pipes, &inode) &&
		    bpf_map_update_elem(&dlp_pipes, &inode, &one, BPF_ANY))
			dlp_count(DLP_CNT_PIPES_FULL);
	} else {
		thread->recv_cnt++;
	}
	event = dlp_reserve(dlp_ev_msg, DLP_EV_MSG, dlp_current_tgid(), dlp_current_tid(), now);
	if (!event)
		return 0;
	event->inode = inode;
	event->bytes = msg->bytes;
	event->dir = msg->dir;
	event->prefix_len = msg->prefix_len;
	__builtin_memcpy(event->prefix, msg->prefix, sizeof(event->prefix));
	dlp_clock_read(thread, now, &event->clock);
	task = (struct task_struct *)bpf_get_current_task();
	event->minflt = BPF_CORE_READ(task, min_flt);
	event->utime_ns = BPF_CORE_READ(task, utime);
	event->stime_ns = BPF_CORE_READ(task, stime);
	dlp_submit(event);
	return 0;
}

/*
 * One write of n bytes at `user` by the current thread: a whole message, the length word alone
 * (its body follows), or such a body. Fills msg and returns true when a pickle begins here.
 * Most writes seen are something else, above all the handshakes by which tensors' descriptors
 * change hands: one read of user memory must do to dismiss them.
 */
static __always_inline bool frame_write(struct dlp_thread *thread, u64 user, u64 n, struct message *msg)
{
	struct {
		u8 align[LENGTH_WORD]; /* so that the pickle can be copied by words */
		u8 word[LENGTH_WORD];
		u8 pickle[DLP_MSG_PREFIX];
	} __attribute__((aligned(8))) start = {};
	u32 expected = thread->send_expect, len = sizeof(start.word) + sizeof(start.pickle);

	if (n < LENGTH_WORD || n > MSG_BYTES_MAX)
		return false;
	if (expected) {
		thread->send_expect = 0;
		if (n == expected) {
			msg->bytes = n;
			return read_prefix(user, n, msg->prefix, &msg->prefix_len);
		}
	}
	if (n < len)
		len = n;
	barrier_var(len);
	if (len > sizeof(start.word) + sizeof(start.pickle) ||
	    bpf_probe_read_user(start.word, len, (void *)user)) {
		dlp_count(DLP_CNT_MSG_FAULT);
		return false;
	}
	msg->bytes = dlp_be32(start.word);
	if (msg->bytes < MSG_BYTES_MIN || msg->bytes > MSG_BYTES_MAX)
		return false;
	if (n == LENGTH_WORD) {
		thread->send_expect = msg->bytes;
		return false;
	}
	if (msg->bytes != n - LENGTH_WORD)
		return false;
	msg->prefix_len = len - LENGTH_WORD;
	__builtin_memcpy(msg->prefix, start.pickle, sizeof(msg->prefix));
	return true;
}

static __always_inline void sent(struct dlp_thread *thread, u32 fd, u64 user, u64 n)
{
	struct message msg = { .dir = DLP_MSG_SEND };

	if (thread->send_misses >= SEND_MISSES_MAX && !thread->send_cnt)
		return;
	thread->send_misses++;
	if (!frame_write(thread, user, n, &msg) || msg.prefix[0] != DLP_PICKLE_PROTO)
		return;
	msg.inode = fifo_inode(fd);
	if (msg.inode)
		send_message(thread, &msg);
}

/* _Py_write(int fd, const void *buf, size_t n) */
SEC("uprobe")
int dlp_queue_send(struct pt_regs *ctx)
{
	struct dlp_thread *thread = dlp_thread_here();

	if (thread)
		sent(thread, (u32)PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	return 0;
}

/* PyBytesObject up to its data (Include/cpython/bytesobject.h, 3.8 to 3.14, default builds). */
struct py_bytes {
	u64 refcnt;
	u64 type;
	u64 size;
	u64 hash;
};

/*
 * _pickle.loads(module, args, nargs, kwnames): the message is the first argument. Pickles that
 * are no queue message are left out by their first bytes here, and by matching what was sent in
 * the model.
 */
SEC("uprobe")
int dlp_queue_recv(struct pt_regs *ctx)
{
	struct dlp_thread *thread = dlp_thread_here();
	struct message msg = { .dir = DLP_MSG_RECV };
	struct py_bytes bytes;
	u64 object = 0;

	if (!thread || PT_REGS_PARM3(ctx) < 1)
		return 0;
	if (bpf_probe_read_user(&object, sizeof(object), (void *)PT_REGS_PARM2(ctx)) ||
	    bpf_probe_read_user(&bytes, sizeof(bytes), (void *)object)) {
		dlp_count(DLP_CNT_MSG_FAULT);
		return 0;
	}
	/* also rejects what is no bytes object: its third word is no such length */
	if (bytes.size < MSG_BYTES_MIN || bytes.size > MSG_BYTES_MAX)
		return 0;
	msg.bytes = bytes.size;
	if (read_prefix(object + sizeof(bytes), msg.bytes, msg.prefix, &msg.prefix_len) &&
	    dlp_pickle_is_indexed(msg.prefix))
		send_message(thread, &msg);
	return 0;
}

/* One read of `got` bytes: the length word, or a part of the body it announced. */
static __always_inline void received(struct dlp_thread *thread, u32 fd, u64 user, u64 got)
{
	struct message msg = { .dir = DLP_MSG_RECV };
	u8 word[LENGTH_WORD];

	if (!thread->recv_expect) {
		if (got != LENGTH_WORD || bpf_probe_read_user(word, sizeof(word), (void *)user))
			return;
		msg.bytes = dlp_be32(word);
		if (msg.bytes < MSG_BYTES_MIN || msg.bytes > MSG_BYTES_MAX)
			return;
		thread->recv_inode = fifo_inode(fd);
		if (!thread->recv_inode)
			return;
		thread->recv_expect = msg.bytes;
		thread->recv_bytes = msg.bytes;
		thread->recv_prefix_len = 0;
		return;
	}
	/* read from elsewhere between a length word and its body, by a signal handler */
	if (fifo_inode(fd) != thread->recv_inode)
		return;
	if (got > thread->recv_expect) {
		/* not the message that was announced */
		thread->recv_expect = 0;
		return;
	}
	if (thread->recv_expect == thread->recv_bytes &&
	    !read_prefix(user, got, thread->recv_prefix, &thread->recv_prefix_len)) {
		thread->recv_expect = 0;
		return;
	}
	thread->recv_expect -= got;
	if (thread->recv_expect || thread->recv_prefix[0] != DLP_PICKLE_PROTO)
		return;
	msg.inode = thread->recv_inode;
	msg.bytes = thread->recv_bytes;
	msg.prefix_len = thread->recv_prefix_len;
	__builtin_memcpy(msg.prefix, thread->recv_prefix, sizeof(msg.prefix));
	send_message(thread, &msg);
}

/*
 * Not tp_btf: on 7.x kernels programs on preemptible paths are silently skipped there, but not
 * here. The cheapest test first: almost all calls are of no interest.
 */
SEC("tp/raw_syscalls/sys_exit")
int dlp_queue_exit(struct trace_event_raw_sys_exit *ctx)
{
	struct dlp_thread *thread;
	long nr = ctx->id, got = ctx->ret;
	struct dlp_call call;

	dlp_count(DLP_CNT_SYSCALL_SEEN);
	if (nr != dlp_cfg.nr_read && nr != dlp_cfg.nr_write)
		return 0;
	if (got < LENGTH_WORD)
		return 0;
	thread = dlp_thread_current();
	if (!thread)
		return 0;
	dlp_task_call(dlp_task_current(), &call);
	if (nr == dlp_cfg.nr_read)
		received(thread, (u32)call.arg[0], call.arg[1], got);
	else
		sent(thread, (u32)call.arg[0], call.arg[1], got);
	return 0;
}
