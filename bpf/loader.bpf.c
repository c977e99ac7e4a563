/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * record_function scopes: GetNext, optimizer steps, the job's own labels. Entry and exit are
 * paired here, on a stack per thread, and one event is sent per scope, when it ends.
 *
 * Entry probes only: the functions can throw, and a C++ exception that unwinds through a return
 * probe aborts the target. Which functions these are on which torch: user/probes.c.
 */
#include "compat.bpf.h"
#include "logic.bpf.h"
#include "scope.bpf.h"

struct label_key {
	char text[DLP_LABEL_MAX];
} __attribute__((aligned(8)));

struct label_value {
	u32 id;
	u32 flags; /* DLP_SCOPE_GETNEXT, DLP_SCOPE_NAMED */
	u32 told;  /* user space has its text */
	u32 rsvd;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_LABELS_MAX);
	__type(key, struct label_key);
	__type(value, struct label_value);
} dlp_labels SEC(".maps");

/* Ids given so far. The map hands each out once, whoever asks at the same time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_LABELS_MAX);
	__type(key, u32);
	__type(value, u32);
} dlp_label_ids SEC(".maps");

/* Which scopes of a label are sent, by its id: set by user space. Ids begin at 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DLP_LABELS_MAX + 1);
	__type(key, u32);
	__type(value, struct dlp_label_control);
} dlp_controls SEC(".maps");

/* Where to look for the next free id: a hint, so it needs no lock. */
static u32 label_hint = 1;

/* Threads that may meet the same new id at once; more give up and count the label as lost. */
#define LABEL_ID_TRIES 16

/* Rung op: the enter operator's Symbol in this torch, learned from a label that is known; 0 = not yet */
static u32 op_enter_symbol;

/* Not variables: the compiler folds them away, and BTF would still name them. */
#define GETNEXT_PREFIX "enumerate(DataLoader)#"
#define STEP_PREFIX "Optimizer."

static __always_inline bool has_prefix(const char *text, const char *prefix, u32 len)
{
	for (u32 i = 0; i < len; i++) {
		if (text[i] != prefix[i])
			return false;
	}
	return true;
}

/* Out of line: it is asked once a label. */
static __noinline bool is_named(const struct label_key *key)
{
	return dlp_glob_match(&dlp_cfg.getnext, key->text);
}

static __always_inline u32 label_flags(const struct label_key *key)
{
	if (has_prefix(key->text, GETNEXT_PREFIX, sizeof(GETNEXT_PREFIX) - 1))
		return DLP_SCOPE_GETNEXT;
	return dlp_cfg.getnext.start && is_named(key) ? DLP_SCOPE_GETNEXT | DLP_SCOPE_NAMED : 0;
}

static __always_inline u32 new_label_id(void)
{
	u32 hint = label_hint, one = 1;

	for (u32 i = 0; i < LABEL_ID_TRIES; i++) {
		u32 id = hint + i;

		if (!bpf_map_update_elem(&dlp_label_ids, &id, &one, BPF_NOEXIST)) {
			label_hint = id + 1;
			return id;
		}
	}
	return 0;
}

/* Tells user space the text of a label; false when the ring is full: it is told again next time. */
static __noinline bool tell_label(const struct label_key *key, const struct label_value *label,
				       u64 now)
{
	struct dlp_ev_label *event;

	event = dlp_reserve(dlp_ev_label, DLP_EV_LABEL, dlp_current_tgid(), dlp_current_tid(), now);
	if (!event)
		return false;
	event->label = label->id;
	event->flags = label->flags;
	__builtin_memcpy(event->text, key->text, sizeof(event->text));
	dlp_submit(event);
	return true;
}

/* First sight of a label: gives it an id, 0 when the table is full. */
static __always_inline struct label_value *add_label(const struct label_key *key)
{
	struct label_value label = { .id = new_label_id(), .flags = label_flags(key) };

	/* another thread may have been faster: then its entry counts */
	if (!label.id || (bpf_map_update_elem(&dlp_labels, key, &label, BPF_NOEXIST) &&
			  !bpf_map_lookup_elem(&dlp_labels, key)))
		dlp_count(DLP_CNT_LABELS_FULL);
	return bpf_map_lookup_elem(&dlp_labels, key);
}

/*
 * FNV-1a over 64-bit words instead of bytes, never 0. Two labels of one thread that share all 64
 * bits would be taken for one: not by chance, and on purpose it only mislabels their author's job.
 */
static __always_inline u64 hash_label(const struct label_key *key)
{
	u64 hash = 0xcbf29ce484222325ull;

	for (u32 i = 0; i < DLP_LABEL_MAX; i += sizeof(u64))
		hash = (hash ^ *(const u64 *)(key->text + i)) * 0x100000001b3ull;
	return (hash ^ hash >> 32) | 1;
}

/* Reads a label (NUL-terminated, in the target) and finds its id. */
static __always_inline int find_label(struct dlp_thread *thread, const void *user_text, u64 now,
				      struct label_key *key, struct label_value *ret)
{
	struct dlp_label_cache *cached;
	struct label_value *known;
	long len;
	u64 hash;

	__builtin_memset(key, 0, sizeof(*key));
	len = bpf_probe_read_user_str(key->text, sizeof(key->text), user_text);
	/* 0 is an empty one on 5.10, which later kernels count as 1, its NUL */
	if (len < 0) {
		dlp_count(DLP_CNT_LABEL_FAULT);
		return -1;
	}
	hash = hash_label(key);
	cached = &thread->label[hash >> 1 & (DLP_LABEL_CACHE - 1)];
	if (cached->hash == hash) {
		ret->id = cached->id;
		ret->flags = cached->flags;
		return 0;
	}
	known = bpf_map_lookup_elem(&dlp_labels, key);
	if (!known)
		known = add_label(key);
	if (!known) {
		/* it stays a GetNext even without a name */
		ret->flags = label_flags(key);
		return 0;
	}
	ret->id = known->id;
	ret->flags = known->flags;
	if (!known->told)
		known->told = tell_label(key, ret, now);
	/* once it is cached nobody looks at the table again */
	if (known->told) {
		cached->hash = hash;
		cached->id = ret->id;
		cached->flags = ret->flags;
	}
	return 0;
}

/*
 * How many scopes of its label this one stands for, 0 when it is not to be sent; GetNext is always
 * sent. Counted without a lock: threads on several CPUs can count the same scope, so that somewhat
 * fewer than one in `every` are sent.
 */
static __always_inline u32 label_weight(const struct label_value *label)
{
	struct dlp_label_control *control;
	u32 id = label->id, every, seen;

	if (label->flags & DLP_SCOPE_GETNEXT)
		return 1;
	control = bpf_map_lookup_elem(&dlp_controls, &id);
	every = control ? control->every : 0;
	if (every <= 1)
		return 1;
	if (every == DLP_LABEL_NONE)
		return 0;
	seen = control->seen + 1;
	control->seen = seen < every ? seen : 0;
	return seen < every ? 0 : every;
}

/*
 * The interpreter calls the __next__ of a Python class's object (slot_tp_iternext). For a DataLoader's
 * iterator that is where GetNext begins: record_function comes some 100 us of Python later (measured:
 * 60 to 190 us in the median, with a cold CPU). Only threads that have run a GetNext are looked at.
 */
SEC("uprobe")
int dlp_next(struct pt_regs *ctx __attribute__((unused)))
{
	struct dlp_thread *thread = dlp_thread_here();

	if (!thread || !(thread->flags & DLP_THREAD_GETNEXT))
		return 0;
	dlp_scope_settle(thread, dlp_current_tid());
	thread->next_ns = bpf_ktime_get_ns();
	dlp_clock_read(thread, thread->next_ns, &thread->next_clock);
	return 0;
}

/* CPU time from there to record_function; what needed more was another object's __next__. */
#define NEXT_REACH_NS 1000000

/*
 * The GetNext that was just entered began with its __next__, unless the thread waited since. Out of
 * line: before 6.13, which has private stacks, the frames of a program and of what it calls must
 * fit into 512 bytes together, and a clock takes 104 of them.
 */
static __noinline int begin_with_next(struct dlp_thread *thread, u32 flags)
{
	u32 at = (thread->depth - 1) & (DLP_SCOPE_DEPTH - 1);
	struct dlp_frame *frame = &thread->frame[at];
	struct dlp_clock spent = frame->clock;
	u64 next_ns = thread->next_ns, waited_ns = 0;

	thread->next_ns = 0;
	/* what the user names need not be inside a __next__ */
	if (!next_ns || next_ns > frame->start_ns || flags & DLP_SCOPE_NAMED)
		return 0;
	/* called by its name, inside a scope of the job's own: that __next__ was another's */
	if (at && next_ns < thread->frame[(at - 1) & (DLP_SCOPE_DEPTH - 1)].start_ns)
		return 0;
	/* where no clock tells what it did since, all of it may have been waiting */
	if (dlp_throttle.clocks_off && frame->start_ns - next_ns > NEXT_REACH_NS)
		return 0;
	dlp_clock_sub(&spent, &thread->next_clock);
	for (int i = 0; i < DLP_ST_MAX; i++)
		waited_ns += i == DLP_ST_RUN || i == DLP_ST_RUNQ || i == DLP_ST_GIL ? 0 : spent.ns[i];
	if (waited_ns || spent.ns[DLP_ST_RUN] > NEXT_REACH_NS)
		return 0;
	if (thread->getnext_since_ns == frame->start_ns)
		thread->getnext_since_ns = next_ns;
	frame->start_ns = next_ns;
	frame->clock = thread->next_clock;
	return 0;
}

/*
 * Tells by one word of its label that a scope is no GetNext: the cheapest look there is. An
 * unreadable word ends before GetNext's prefix does.
 */
static __always_inline bool is_other_scope(const void *user_text)
{
	u64 want, start = 0;

	if (!dlp_throttle.labels_off || dlp_cfg.getnext.start)
		return false;
	__builtin_memcpy(&want, GETNEXT_PREFIX, sizeof(want));
	bpf_probe_read_user(&start, sizeof(start), user_text);
	return start != want;
}

/*
 * Such a scope is paired and nothing else: no clock is read for it. A __next__ before it was not
 * the one of a GetNext that follows.
 */
static __always_inline void push_other(struct dlp_thread *thread)
{
	u32 at = thread->depth++;

	thread->next_ns = 0;
	if (at >= DLP_SCOPE_DEPTH)
		return;
	thread->frame[at].flags = DLP_FRAME_BARE;
	thread->frame[at].weight = 0;
}

/* Ends it, if that is what the innermost scope is. */
static __always_inline bool pop_other(struct dlp_thread *thread)
{
	u32 at = thread->depth - 1;

	if (!thread->depth || at >= DLP_SCOPE_DEPTH ||
	    !(thread->frame[at & (DLP_SCOPE_DEPTH - 1)].flags & DLP_FRAME_BARE))
		return false;
	thread->depth = at;
	thread->turn += !at;
	return true;
}

/* What the thread has open is forgotten: the exits that follow find nothing. */
static __always_inline bool is_left_out(struct dlp_thread *thread)
{
	if (!dlp_throttle.worker_scopes_off || thread->tgid == thread->trainer)
		return false;
	thread->depth = 0;
	thread->getnext_depth = 0;
	thread->getnext_since_ns = 0;
	thread->exit_ns = 0;
	return true;
}

/*
 * Entry of a function that returns an object and whose first argument in the source is a
 * `const std::string &`: its first word is a `char *` in both ABIs.
 */
SEC("uprobe")
int dlp_scope_enter(struct pt_regs *ctx)
{
	struct dlp_thread *thread = dlp_thread_here();
	struct label_value label = {};
	struct label_key key;
	void *text = NULL;
	u64 now;

	if (!thread || is_left_out(thread))
		return 0;
	if (thread->exit_ns)
		dlp_scope_settle(thread, dlp_current_tid());
	if (bpf_probe_read_user(&text, sizeof(text), (void *)DLP_OBJECT_PARM2(ctx))) {
		dlp_count(DLP_CNT_LABEL_FAULT);
	} else if (is_other_scope(text)) {
		push_other(thread);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (text)
		find_label(thread, text, now, &key, &label);
	/* also without a label: its exit will come */
	dlp_scope_push(thread, label.id, label.flags, label_weight(&label), now);
	if (label.flags & DLP_SCOPE_GETNEXT && thread->depth <= DLP_SCOPE_DEPTH)
		begin_with_next(thread, label.flags);
	return 0;
}

SEC("uprobe")
int dlp_scope_exit(struct pt_regs *ctx __attribute__((unused)))
{
	struct dlp_thread *thread = dlp_thread_here();

	if (!thread || is_left_out(thread))
		return 0;
	if (thread->exit_ns)
		dlp_scope_settle(thread, dlp_current_tid());
	if (!pop_other(thread))
		thread->exit_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * sem_open() of the C library: iter() of a DataLoader with workers first makes its queues, each of
 * which has named semaphores, long before the first __next__.
 */
SEC("uprobe")
int dlp_sem_open(struct pt_regs *ctx __attribute__((unused)))
{
	struct dlp_thread *thread = dlp_thread_here();
	struct dlp_ev_sem *event;
	u64 now;

	if (!thread || thread->tgid != thread->trainer)
		return 0;
	/* a call that ended before must not be told after what follows it */
	dlp_scope_settle(thread, dlp_current_tid());
	now = bpf_ktime_get_ns();
	event = dlp_reserve(dlp_ev_sem, DLP_EV_SEM, dlp_current_tgid(), dlp_current_tid(), now);
	if (!event)
		return 0;
	dlp_clock_read(thread, now, &event->clock);
	dlp_submit(event);
	return 0;
}

/* The parts of Python's objects that the rung op looks at (CPython 3.8 to 3.14). */
struct py_tuple {
	u64 refcnt;
	u64 type;
	u64 size; /* from 3.14 on a hash follows, then the items */
};

struct py_str {
	u64 refcnt;
	u64 type;
	u64 length;
	u64 hash;
	u32 state; /* bit 5: compact, bit 6: ASCII (Include/cpython/unicodeobject.h) */
};

/*
 * torch.ops dispatch (rung op): record_function's operators are told from others by their
 * Symbol, the exit operator's is a fixed distance from the enter operator's. Modes (default
 * device, fake tensors) make the same call twice, nested: only the outer one is reported.
 */
static __always_inline void op_enter(struct dlp_thread *thread, u32 symbol, u64 item, u64 now)
{
	struct label_value label = {};
	struct label_key key;
	struct py_str str;
	u32 silent = 0;

	if (op_enter_symbol && symbol != op_enter_symbol)
		return;
	if (bpf_probe_read_user(&str, sizeof(str), (void *)item) || (str.state >> 5 & 3) != 3)
		return;
	if (!op_enter_symbol) {
		char start[sizeof(GETNEXT_PREFIX)] = {};

		bpf_probe_read_user_str(start, sizeof(start), (void *)item + dlp_cfg.str_data_off);
		if (!has_prefix(start, GETNEXT_PREFIX, sizeof(GETNEXT_PREFIX) - 1) &&
		    !has_prefix(start, STEP_PREFIX, sizeof(STEP_PREFIX) - 1))
			return;
		op_enter_symbol = symbol;
	}
	if (is_other_scope((void *)item + dlp_cfg.str_data_off)) {
		push_other(thread);
		return;
	}
	if (find_label(thread, (void *)item + dlp_cfg.str_data_off, now, &key, &label))
		return;
	for (u32 i = 0; i < DLP_SCOPE_DEPTH; i++) {
		if (i < thread->depth && label.id && thread->frame[i].label == label.id)
			silent = DLP_FRAME_SILENT;
	}
	dlp_scope_push(thread, label.id, label.flags | silent, silent ? 0 : label_weight(&label), now);
	if (!silent && label.flags & DLP_SCOPE_GETNEXT && thread->depth <= DLP_SCOPE_DEPTH)
		begin_with_next(thread, label.flags);
}

SEC("uprobe")
int dlp_scope_op(struct pt_regs *ctx)
{
	struct dlp_thread *thread = dlp_thread_here();
	u64 third = DLP_OBJECT_PARM3(ctx), fourth = DLP_OBJECT_PARM4(ctx);
	u64 fifth = DLP_OBJECT_PARM5(ctx), args, tuple_at = 0, item;
	struct py_tuple tuple;
	u32 symbol;
	u64 now;

	if (!thread || is_left_out(thread))
		return 0;
	now = bpf_ktime_get_ns();
	/*
	 * All are read before one is chosen: given a choice of context fields clang moves the
	 * context pointer, which the verifier refuses.
	 */
	barrier_var(third);
	barrier_var(fourth);
	barrier_var(fifth);
	args = dlp_cfg.op_args_param == 4 ? fourth : fifth;
	/* the Symbol is the argument before the tuple: a struct of 4 bytes passed by value */
	symbol = (u32)(dlp_cfg.op_args_param == 4 ? third : fourth);
	if (bpf_probe_read_user(&tuple_at, sizeof(tuple_at), (void *)args) ||
	    bpf_probe_read_user(&tuple, sizeof(tuple), (void *)tuple_at))
		return 0;
	dlp_scope_settle(thread, dlp_current_tid());
	if (tuple.size == 2 &&
	    !bpf_probe_read_user(&item, sizeof(item), (void *)tuple_at + dlp_cfg.tuple_item_off))
		op_enter(thread, symbol, item, now);
	else if (tuple.size == 1 && op_enter_symbol &&
		 symbol == op_enter_symbol + dlp_cfg.op_exit_delta)
		thread->exit_ns = pop_other(thread) ? 0 : now;
	return 0;
}
