/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of the model (model*.c) share and nobody else sees: the lookup tables, the index
 * pipes, and the bookkeeping behind the public structs.
 */
#ifndef DLP_MODEL_PRIV_H
#define DLP_MODEL_PRIV_H

#include "map.h"
#include "model.h"
#include "msg.h"

/* An index message on its pipe. */
struct dlp_ask {
	int64_t index;
	uint64_t bytes;
	uint64_t asked_ns;
	uint64_t taken_ns; /* 0 = not yet */
};

/* A pipe the trainer sends index messages on, read by one worker. */
struct dlp_pipe {
	uint64_t inode;
	uint32_t worker_pid; /* 0 = not known yet */
	uint32_t iterator;   /* 0 = not known yet */
	int64_t first_index, last_index; /* asked in this epoch; -1 = none */
	uint64_t first_ns;		 /* when first_index was asked */
	int stride;	/* between its first two indices: the number of workers; 0 = not known */
	bool final;	/* told its worker to end */
	/*
	 * FIFO of what was asked: `taken` at the front are read by the worker but wait for the
	 * iterator to be known; then come those it has not read.
	 */
	struct dlp_ask *ask;
	size_t head, cnt, room; /* room: power of two or 0 */
	size_t taken;
};

/* Asked and not taken on one pipe; a worker's share of the largest sane prefetch. */
#define DLP_PIPE_ASK_MAX 1024
/* On all pipes: 2 MB, for queues that look like a DataLoader's but are not. */
#define DLP_ASK_TOTAL_MAX 65536

/* What an iterator needs besides its public part. */
struct dlp_iterator_state {
	uint32_t label;
	bool bound;	/* label, tid and loader are known: it has been used */
	bool fresh;	/* its workers were born under our eyes: it starts at batch 0 */
	bool resuming;	/* told its workers that another epoch starts, */
	uint64_t resume_ns; /* at this time */
	bool shards;	/* an iterable dataset: a worker has sent an end mark */
	bool in_order;	/* proven to deliver in order */
	uint32_t recv_tid; /* thread that reads its results; 0 = not seen */
	int64_t max_index; /* asked so far in this epoch; -1 = none */
	uint64_t reset_ns; /* when its epoch began; 0 = before we looked */
	uint64_t calls;	   /* GetNext calls since then */
	bool over;	   /* the newest of them ended the epoch */
	uint64_t ask_min, ask_max; /* bytes of its first index messages; 0 = none seen */
	uint64_t settling; /* calls by which in_flight_max was measured */
	uint64_t final_ns; /* newest final signal to its workers */
	uint64_t finals_ns; /* first one of those sent in a row */
	uint64_t gone_ns;   /* its last worker ended */
	bool closing;	    /* ending its workers may have taken time outside GetNext */
	uint64_t ended_ns; /* when `ended` became true */
	uint32_t pipe_cnt, final_cnt;
	uint32_t alive_cnt; /* workers */
	uint32_t barren_cnt; /* workers that ended without a batch before the loader was known */
	uint32_t successor; /* iterator used after it on its thread the last time; 0 = itself */
	int64_t last_recv_index; /* newest result read by recv_tid */
	uint64_t last_recv_ns;
};

/* A wait for a batch whose production is not known to have ended yet; by the worker's thread. */
struct dlp_owed {
	uint32_t loader; /* 0 = nothing owed */
	int64_t index;
	uint64_t from_ns, sent_ns; /* waited between these, */
	uint64_t wait_ns;	   /* blocked for so long of it */
	uint64_t ready_ns;	   /* when a later batch stood ready; UINT64_MAX = none did */
};

/* A thread makes an iterator: semaphores, processes, then threads that ask for batches. */
struct dlp_init {
	uint64_t start_ns, last_ns; /* first and newest thing seen of it */
	uint64_t forked_ns;	    /* newest process; 0 = none */
	bool queues;		    /* began with semaphores */
};
/* More than are made before the first of them is called. */
#define DLP_INITS_MAX 8

/* A result that a thread read. */
struct dlp_recv {
	uint32_t iterator;
	int64_t index;
	uint64_t ts_ns;
	bool end;		/* not data: the end of a shard */
	struct dlp_clock clock; /* the thread's, then */
};

/* The first scope of which a thread's end was seen, its begin having come before the window. */
struct dlp_begun {
	bool held; /* not known yet whether it was a GetNext */
	uint64_t start_ns, end_ns;
	struct dlp_clock split, clock;
	uint32_t turn; /* as in dlp_ev_scope */
	uint32_t after_label;	   /* of the scope right behind it, */
	bool after_known;	   /* if that was seen, */
	bool after_call;	   /* and is a GetNext */
	uint32_t call_label, call_turn; /* of the first whole GetNext; label 0 = none yet */
};

/* Bookkeeping of threads that run GetNext or produce batches. */
#define DLP_RECENT_MAX 64

struct dlp_thread_state {
	/* GetNext: ends of the newest outermost calls, to compare with the kernel's count */
	uint64_t recent[DLP_RECENT_MAX];
	uint64_t recent_cnt; /* ever; the ring holds the newest */
	uint64_t seen_cnt;   /* those that ended after the base reading */
	struct dlp_clock base_now; /* getnext_now at the base reading */
	uint64_t last_end_ns; /* newest GetNext end, any depth */
	uint32_t last_iterator;
	struct dlp_recv recv;	    /* newest result it read; iterator 0 = none, or used up */
	struct dlp_recv recv_first; /* first one since its last GetNext; ts_ns 0 = none */
	struct dlp_begun begun;
	/* semaphores made in a row, no process started meanwhile */
	uint64_t sem_first_ns, sem_last_ns;
	unsigned int sem_cnt;
	/* iter(loader) as it seems, of loaders not called yet; init_cnt of them, oldest first */
	struct dlp_init init[DLP_INITS_MAX];
	size_t init_cnt;
	uint64_t down_until_ns; /* teardown is accounted for up to here */
	/* a worker's main thread: its first batch of the window, when it was born in it */
	uint64_t first_taken_ns;
	int64_t first_index;
	struct dlp_clock first_clock;
	struct dlp_usage first_usage;
	uint64_t idle_ns;    /* idle time that its loader has been told of, */
	bool idle_set;	     /* if so */
	struct dlp_owed owed;
	/* producing a batch (worker's main thread) */
	int64_t index; /* -1 = none */
	uint64_t taken_ns;
	uint64_t taken_idle_ns; /* its clock's idle then */
	int64_t done_index; /* produced, but its result not seen yet; -1 = none */
	uint64_t done_taken_ns, done_ns;
	bool foreign;	/* another batch was sent meanwhile: its start was not seen */
	uint64_t pipe;	/* inode of the index pipe it reads; 0 = unknown */
};

struct dlp_label {
	uint32_t id;
	uint32_t flags;
	char text[DLP_LABEL_MAX + 1];
};

/* Iterators whose workers may still be silent; more than can be starting up at once. */
#define DLP_BROODS_MAX 64

/* More than are sent behind the start of the call that looks at them. */
#define DLP_SENDS_MAX 64
#define DLP_CLOSING_MAX 16

/* A worker was idle. */
struct dlp_idle {
	uint32_t pid;
	uint64_t from_ns, to_ns;
};
/* Idle times that wait for the end of the call in which they ended; with more the oldest goes. */
#define DLP_IDLE_MAX 256

/* Calls of one loader that followed each other, and how long they took of that time. */
struct dlp_called {
	uint64_t from_ns, to_ns, in_ns;
};
/* The newest are kept one by one, older ones together: an idle time can span a whole epoch. */
#define DLP_CALLED_MAX 64

struct dlp_calls {
	struct dlp_called called[DLP_CALLED_MAX]; /* cnt of them, oldest first */
	size_t cnt;
};

/* What tells a loader from another one of the same kind, see model_identity.c. */
struct dlp_identity {
	uint64_t ask_min, ask_max;     /* bytes of the first index messages; 0 = not known */
	uint64_t epoch_min, epoch_max; /* batches of its whole epochs; 0 = there was none yet */
	uint64_t reached;  /* most batches of an epoch, cut short or not, before the newest one; */
	uint64_t reaching; /* the same of that one */
	bool varies;	   /* the lengths of its epochs say nothing */
	uint32_t next;	   /* loader that came after it the last time; 0 = none did yet */
	uint32_t prior;	   /* and before it */
	uint64_t turn;	   /* when it was bound last; grows; 0 = never */
	uint32_t iterator; /* that was bound last; 0 = it has gone to another loader */
	/* the account, the sizes and the turn as they were before that */
	struct dlp_loader *before; /* owned; NULL = none */
	uint64_t old_ask_min, old_ask_max, old_turn;
};

struct dlp_model_priv {
	bool open;
	uint64_t sweep_ns; /* earliest base reading: threads traced since are born later */
	struct dlp_map by_tid;	  /* -> position in threads */
	struct dlp_map by_pid;	  /* -> position in workers, newest with this pid */
	struct dlp_map by_result; /* inode -> id of an iterator */
	struct dlp_map by_index;  /* inode -> position in pipes */
	struct dlp_map by_label;  /* -> position in labels */
	struct dlp_map by_stage;  /* known labels, see model_stage.c -> position in stages */
	struct dlp_pipe *pipes;
	size_t pipe_cnt, pipe_room;
	size_t ask_cnt; /* over all pipes */
	struct dlp_label *labels;
	size_t label_cnt, label_room;
	size_t loader_room, iterator_room, worker_room, thread_room, device_room, stage_room;
	size_t dead_thread_cnt, dead_worker_cnt;
	uint32_t iterator_ids; /* given so far */
	/* iterators that may still be used, newest used first, by id */
	uint32_t recent_iterator[DLP_MODEL_ITERATORS_MAX];
	size_t recent_iterator_cnt;
	/* broods of processes and the iterator that a member of theirs turned out to serve */
	uint64_t last_call_ns; /* newest GetNext end of the trainer */
	uint32_t brood_ids;
	bool brood_open;
	struct {
		uint32_t brood, iterator;
	} broods[DLP_BROODS_MAX]; /* ring by brood number */
	uint64_t sends_ns[DLP_SENDS_MAX]; /* newest index messages of the trainer; ring */
	size_t send_cnt;
	uint32_t closing[DLP_CLOSING_MAX]; /* iterators being ended */
	size_t closing_cnt;
	struct dlp_idle idle[DLP_IDLE_MAX]; /* idle times not set against GetNext calls yet */
	size_t idle_cnt;
	struct dlp_calls calls[DLP_MODEL_LOADERS_MAX]; /* by position of the loader */
	struct dlp_identity identity[DLP_MODEL_LOADERS_MAX]; /* likewise */
	uint64_t turns; /* given so far */
	struct dlp_interval_stats now; /* of the interval that runs */
	uint64_t exposed_before;       /* exposed_ns when it began */
};

/* A GetNext that ended. */
struct dlp_call {
	uint64_t start_ns, end_ns;
	uint32_t tid, label;
	bool counts; /* ended in the window */
	bool outer;
	bool named; /* a GetNext because the user said so */
	bool cut; /* it began earlier: start_ns is since when its thread is traced */
	const struct dlp_clock *split;
	const struct dlp_clock *clock; /* the thread's, when it ended */
};

static inline uint64_t dlp_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline uint64_t dlp_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void dlp_clock_add(struct dlp_clock *to, const struct dlp_clock *what);
static inline uint64_t dlp_clock_sum(const struct dlp_clock *clock)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DLP_ST_MAX; i++)
		sum += clock->ns[i];
	return sum;
}

/* Per state, not below 0. */
struct dlp_clock dlp_clock_less(const struct dlp_clock *a, const struct dlp_clock *b);

static inline bool dlp_within(const struct dlp_call *call, uint64_t ts_ns)
{
	return ts_ns >= call->start_ns && ts_ns <= call->end_ns;
}

bool dlp_in_window(const struct dlp_model *model, uint64_t ts_ns);

/* Whoever is not the trainer works for it. */
static inline bool dlp_in_worker(const struct dlp_model *model, uint32_t tgid)
{
	return model->trainer_pid && tgid != model->trainer_pid;
}

/* model_thread.c */
struct dlp_thread *dlp_thread_find(struct dlp_model *model, uint32_t tid);
/* Found or made; NULL when full or out of memory (*err says which: 0 or -ENOMEM). */
struct dlp_thread *dlp_thread_get(struct dlp_model *model, uint32_t tgid, uint32_t tid, int *err);
struct dlp_thread_state *dlp_thread_state_get(struct dlp_thread *thread);
/* An event's thread, which has its state then; NULL as dlp_thread_get(), or without memory for that. */
struct dlp_thread *dlp_thread_of(struct dlp_model *model, const struct dlp_ev_hdr *hdr, int *err);
/* Since the base reading: outermost GetNext time, the unfinished call included. */
uint64_t dlp_thread_exposed(const struct dlp_thread *thread);
void dlp_thread_scope(struct dlp_model *model, struct dlp_thread *thread,
		      const struct dlp_call *call);
bool dlp_thread_in_pool(const struct dlp_model *model, const struct dlp_thread *thread);
void dlp_main_update(struct dlp_model *model);
int dlp_thread_clock(struct dlp_model *model, const struct dlp_ev_clock *ev);
int dlp_thread_fork(struct dlp_model *model, const struct dlp_ev_fork *ev);
int dlp_thread_exit(struct dlp_model *model, const struct dlp_ev_exit *ev);
int dlp_thread_exec(struct dlp_model *model, const struct dlp_ev_exec *ev);
void dlp_threads_fini(struct dlp_model *model);

/* model_worker.c */
struct dlp_worker *dlp_worker_find(struct dlp_model *model, uint32_t pid); /* alive or dead */
struct dlp_worker *dlp_worker_get(struct dlp_model *model, uint32_t pid, uint64_t ts_ns, int *err);
int dlp_worker_proc(struct dlp_model *model, const struct dlp_ev_proc *ev);
/* Its main thread's clock was read. */
void dlp_worker_read(struct dlp_model *model, struct dlp_worker *worker,
		     const struct dlp_thread *thread);
/* Its main thread's clock and usage, of a reading or a message, go to its loader's account. */
void dlp_worker_charge(struct dlp_model *model, struct dlp_worker *worker,
		       const struct dlp_thread *thread, const struct dlp_clock *clock,
		       const struct dlp_usage *usage);
/* Its iterator has turned out to be this loader's. */
void dlp_worker_bind(struct dlp_worker *worker, struct dlp_loader *loader);
void dlp_worker_link(struct dlp_model *model, struct dlp_worker *worker, struct dlp_iterator *it);
void dlp_worker_died(struct dlp_model *model, struct dlp_worker *worker, uint64_t ts_ns,
		     uint32_t exit_code);
/*
 * The end of a worker as the kernel tells it. /proc may have told of it a moment earlier, without
 * when and how: then that is made good.
 */
void dlp_worker_exit(struct dlp_model *model, struct dlp_worker *worker,
		     const struct dlp_thread *thread, const struct dlp_ev_exit *ev);
/* Production on a worker's main thread: begun, ended at a clock value, ended at a time. */
void dlp_produce_begin(struct dlp_thread *thread, int64_t index, uint64_t ts_ns,
		       const struct dlp_clock *clock);
void dlp_produce_end(struct dlp_model *model, struct dlp_thread *thread, uint64_t ts_ns,
		     const struct dlp_clock *clock);
/* The worker's result was sent. */
void dlp_produce_sent(struct dlp_model *model, uint32_t pid, struct dlp_batch *batch);
void dlp_produce_end_at(struct dlp_model *model, struct dlp_thread *thread, uint64_t ts_ns);

/* model_pipe.c */
struct dlp_pipe *dlp_pipe_find(struct dlp_model *model, uint64_t inode);
/* Found or made; NULL when full or out of memory (*err). */
struct dlp_pipe *dlp_pipe_get(struct dlp_model *model, uint64_t inode, int *err);
void dlp_pipe_reset(struct dlp_model *model, struct dlp_pipe *pipe);
struct dlp_ask *dlp_ask_at(const struct dlp_pipe *pipe, size_t at);
int dlp_ask_push(struct dlp_model *model, struct dlp_pipe *pipe, const struct dlp_ask *ask);
void dlp_ask_pop(struct dlp_model *model, struct dlp_pipe *pipe, size_t cnt);

/* model_queue.c */
int dlp_queue_msg(struct dlp_model *model, const struct dlp_ev_msg *ev);
void dlp_queues_fini(struct dlp_model *model);

/* model_iterator.c */
struct dlp_iterator *dlp_iterator_find(struct dlp_model *model, uint32_t id);
struct dlp_iterator *dlp_iterator_new(struct dlp_model *model, uint64_t pipe, uint64_t ts_ns,
				      int *err);
void dlp_iterator_used(struct dlp_model *model, uint32_t id); /* to the front of the recent ones */
void dlp_iterator_end(struct dlp_iterator *it, uint64_t ts_ns);
void dlp_iterator_reset(struct dlp_iterator *it, uint64_t ts_ns); /* numbering starts again */
void dlp_iterator_workers(struct dlp_model *model, struct dlp_iterator *it, int stride);
void dlp_iterators_fini(struct dlp_model *model);
struct dlp_batch *dlp_batch_find(const struct dlp_iterator *it, int64_t index);
/* Found or made; NULL when out of memory (*err). When full the lowest index makes room. */
struct dlp_batch *dlp_batch_get(struct dlp_model *model, struct dlp_iterator *it, int64_t index,
				int *err);
void dlp_batch_del(struct dlp_iterator *it, struct dlp_batch *batch);
/* Did the call wait for this batch while it could have had another one? Then order matters. */
bool dlp_batch_waited(const struct dlp_iterator *it, const struct dlp_batch *batch,
		      const struct dlp_call *call);

/* model_loader.c */
/* Ties the iterator to the loader it belongs to; 0, -ENOMEM, -ENOSPC. */
int dlp_loader_bind(struct dlp_model *model, struct dlp_iterator *it, uint32_t tid, uint32_t label);
struct dlp_loader *dlp_loader_find(struct dlp_model *model, uint32_t id);
/* Another one of the same kind; NULL: *err = -ENOMEM, -ENOSPC. Moves the array of loaders. */
struct dlp_loader *dlp_loader_like(struct dlp_model *model, const struct dlp_loader *like,
				   int *err);
/* Has another iterator that is in use: then this one belongs to a different DataLoader. */
bool dlp_loader_occupied(const struct dlp_model *model, const struct dlp_loader *loader,
			 const struct dlp_iterator *it);
/* The iterator without messages of this label and thread; made if need be. */
struct dlp_iterator *dlp_loader_plain(struct dlp_model *model, const struct dlp_call *call,
				      int *err);
void dlp_loader_label(struct dlp_model *model, const struct dlp_label *label);
/* Class of the iterator that a label names; length in *ret_len, 0 = not such a label. */
const char *dlp_label_type(const char *text, size_t *ret_len);
bool dlp_label_single(const struct dlp_model *model, uint32_t label);
/* The label is known, and of a scope that the user has named as a GetNext. */
bool dlp_label_named(const struct dlp_model *model, uint32_t label);

/* model_identity.c */
/* An index message for this iterator, so large. */
void dlp_identity_ask(struct dlp_iterator *it, uint64_t bytes);
/* Can the iterator be this loader's, by the size of its batches? */
bool dlp_identity_fits(const struct dlp_model *model, const struct dlp_loader *loader,
		       const struct dlp_iterator *it);
/* Of two that it can be, is it rather a's than b's? */
bool dlp_identity_rather(const struct dlp_model *model, const struct dlp_iterator *it,
			 const struct dlp_loader *a, const struct dlp_loader *b);
/* Before the iterator adds anything to the loader's account. 0 or -ENOMEM. */
int dlp_identity_bind(struct dlp_model *model, const struct dlp_iterator *it,
		      struct dlp_loader *loader);
/*
 * A call returned the batch (-1 = which one is not known), or ended the epoch and its workers. May
 * find that the iterator is another loader's, and moves the array of loaders then. 0 or -ENOMEM.
 */
int dlp_identity_call(struct dlp_model *model, struct dlp_iterator *it, bool over, int64_t index);
void dlp_identities_fini(struct dlp_model *model);

/* model_gc.c */
void dlp_gc(struct dlp_model *model, const struct dlp_ev_gc *ev);

/* model_system.c */
void dlp_system_apply(struct dlp_model *model, const struct dlp_ev_system *ev);
void dlp_system_other(struct dlp_model *model, const struct dlp_ev_other *ev);

/* model_exposed.c: where the time of a GetNext went */
/* A call that returned a batch (NULL = which one is not known), before the batch is taken out. */
void dlp_exposed_batch(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call,
		       const struct dlp_batch *batch);
/* A call that returned none: the epoch is over. */
void dlp_exposed_end(struct dlp_model *model, struct dlp_iterator *it, const struct dlp_call *call);
/* The worker's main thread was done with the batch at produced_ns (0 = when is not known). */
void dlp_exposed_settle(struct dlp_model *model, struct dlp_thread_state *state,
			uint64_t produced_ns);

/* model_idle.c: the idle times of workers, set against the calls of their loader */
/* A worker's main thread was idle last before this time, as its clock then tells. */
void dlp_idle_note(struct dlp_model *model, const struct dlp_thread *thread, uint64_t ts_ns,
		   const struct dlp_clock *clock);
/* A call of this loader ended: the idle times before it are set against it. */
void dlp_idle_call(struct dlp_model *model, uint32_t loader, const struct dlp_call *call);
void dlp_idle_close(struct dlp_model *model); /* no further call will end */

/* model_startup.c: time spent on making and ending iterators, outside GetNext */
int dlp_startup_sem(struct dlp_model *model, const struct dlp_ev_sem *ev);
int dlp_startup_fork(struct dlp_model *model, const struct dlp_ev_fork *ev);
void dlp_startup_send(struct dlp_model *model, uint64_t ts_ns);
void dlp_startup_final(struct dlp_model *model, struct dlp_iterator *it, uint64_t ts_ns);
/* Before the call is noted in thread and iterator. */
void dlp_startup_call(struct dlp_model *model, struct dlp_thread_state *state,
		      struct dlp_iterator *it, const struct dlp_call *call);

/* model_phase.c */
void dlp_phase_birth(struct dlp_model *model, const struct dlp_loader *loader,
		     const struct dlp_interval *init);
/* The loader's epoch is over, though its end was not seen. */
void dlp_phase_close(struct dlp_model *model, struct dlp_loader *loader);
/* The iterator's phases, of the loader's account as of `before` on, are another loader's. */
void dlp_phase_move(struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_loader *before, const struct dlp_loader *to);
/* Before the call is noted in its iterator. */
void dlp_phase_call(struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_call *call, bool data);

/* model_flight.c: batches between asked and delivered */
/* Will never come: its worker's shard ended before it. */
bool dlp_batch_skipped(struct dlp_model *model, const struct dlp_batch *batch);
/* Of those received by then; NULL = none. */
struct dlp_batch *dlp_batch_oldest(const struct dlp_iterator *it, uint64_t end_ns);
/*
 * torch never has more than prefetch x workers in flight. Once that number is settled, more than
 * that means that deliveries were lost: catch up.
 */
void dlp_flight_note(struct dlp_model *model, struct dlp_iterator *it,
		     const struct dlp_call *call);
/*
 * Ready = sent when the call began; in order, so only an unbroken row counts. -1 = not known. Notes
 * it in the loader's statistics, too.
 */
int32_t dlp_flight_ready(struct dlp_model *model, struct dlp_iterator *it,
			 struct dlp_loader *loader, const struct dlp_call *call);
/*
 * In flight when the call that returned `batch` (NULL = not known which) began. A thread of its own
 * sends what iter() and the call before have asked for, and may not have come to it yet; this call
 * asks for nothing before it has read its batch. But for the end of a shard: that is answered at
 * once.
 */
int32_t dlp_flight_count(const struct dlp_iterator *it, const struct dlp_call *call,
			 const struct dlp_batch *batch);

/* model_choose.c */
/* Moves next_index over what will never come; NULL = not known which is due, or not asked for. */
struct dlp_batch *dlp_batch_due(struct dlp_model *model, struct dlp_iterator *it);
/* Has nothing left to return: its next call ends the epoch. */
bool dlp_iterator_exhausted(struct dlp_model *model, const struct dlp_iterator *it);
/* The iterator that a call which ended was on; NULL = none that is known. */
struct dlp_iterator *dlp_iterator_choose(struct dlp_model *model,
					 const struct dlp_thread_state *state,
					 const struct dlp_call *call);

/* model_getnext.c */
bool dlp_lossy(const struct dlp_model *model); /* were events lost, as far as told yet? */
int dlp_getnext(struct dlp_model *model, const struct dlp_ev_scope *ev);
/* A call whose thread has been told of it: finds its iterator, what it returned, and counts it. */
int dlp_getnext_call(struct dlp_model *model, struct dlp_thread_state *state,
		     const struct dlp_call *call);

/* model_begun.c: the GetNext in which the tool attached */
/* To be told of every scope, before the rest of the model is. */
int dlp_begun_scope(struct dlp_model *model, const struct dlp_ev_scope *ev);

/* model_watch.c */
/* The call is accounted for, but not noted in its iterator; model->watch is set. */
void dlp_watch_call(const struct dlp_model *model, const struct dlp_iterator *it,
		    const struct dlp_call *call, bool data);

/* model_stage.c */
int dlp_stage_scope(struct dlp_model *model, const struct dlp_ev_scope *ev);
void dlp_stages_fini(struct dlp_model *model);

/* model_block.c */
int dlp_block(struct dlp_model *model, const struct dlp_ev_block *ev);

/* model_govern.c */
void dlp_govern_note(struct dlp_model *model, const struct dlp_ev_govern *ev);

/* model_wait.c */
void dlp_wait(struct dlp_model *model, const struct dlp_ev_wait *ev);

#endif /* DLP_MODEL_PRIV_H */
