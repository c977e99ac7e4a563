/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a run in memory, which reports, pictures and exports read: every GetNext call and
 * every production as it was, where the model keeps distributions only. Filled from wire events
 * and the model's callbacks, so that a replay and a live run make the same one. Pure.
 *
 * Times are CLOCK_MONOTONIC nanoseconds; 0 = not seen, unless said otherwise. Texts are the job's:
 * sanitise before printing. The arrays are in order of time once dlp_history_finish has run.
 * Readers may read all structs; only history*.c writes them.
 *
 * What lasts (calls, productions, samples, waits, scopes, blocks, requests, intervals) has its start
 * and end as its first two members: see spans.h.
 */
#ifndef DLP_HISTORY_H
#define DLP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose.h"
#include "model.h"
#include "summary.h"

/*
 * Bounds. An hour of training at 100 batches a second with 4 workers, sampled each second, is
 * 360,000 calls and productions, 22,000 samples: it fits. Everything full is 200 MB (asserted in
 * history.c); memory is used as entries come. What does not fit is left out and counted: the run's
 * begin is kept.
 */
#define DLP_HISTORY_CALLS_MAX (1u << 19)       /* 105 MB */
#define DLP_HISTORY_PRODUCTIONS_MAX (1u << 19) /* 21 MB */
#define DLP_HISTORY_SAMPLES_MAX (1u << 17)     /* 18 MB */
#define DLP_HISTORY_WAITS_MAX (1u << 18)       /* 17 MB */
#define DLP_HISTORY_SCOPES_MAX (1u << 18)      /* 13 MB */
#define DLP_HISTORY_ITERATORS_MAX (1u << 14)
#define DLP_HISTORY_WORKERS_MAX (1u << 15)
#define DLP_HISTORY_BLOCKS_MAX (1u << 16)      /* intervals x devices */
#define DLP_HISTORY_REQUESTS_MAX (1u << 16)
#define DLP_HISTORY_SYSTEM_MAX (1u << 14)
#define DLP_HISTORY_OTHERS_MAX (1u << 17)
#define DLP_HISTORY_INTERVALS_MAX (1u << 16)
#define DLP_HISTORY_LABELS_MAX 4096

/* Block requests at least this slow are kept one by one. */
#define DLP_HISTORY_SLOW_REQUEST_NS 5000000u

/* dlp_history_call.flags */
#define DLP_CALL_OUTER	(1u << 0) /* not nested in another GetNext: its time is exposed */
#define DLP_CALL_DATA	(1u << 1) /* returned a batch; without workers: or ended the epoch */
#define DLP_CALL_FIRST	(1u << 2) /* the first one seen of its epoch */
#define DLP_CALL_WINDOW (1u << 3) /* ended in the window: statistics are about these */
#define DLP_CALL_BATCH	(1u << 4) /* which batch it returned, and so its stations, is known */

/* One call of _BaseDataLoaderIter.__next__ that ended, in the trainer. */
struct dlp_history_call {
	uint64_t start_ns, end_ns;
	uint32_t loader;   /* dlp_loader.id */
	uint32_t iterator; /* dlp_iterator.id */
	uint32_t epoch;	   /* of this loader, 1, 2, ...; 0 = cannot be told (no workers) */
	uint32_t tid;
	uint32_t flags;	     /* DLP_CALL_* */
	uint32_t worker_pid; /* that made the batch; 0 = unknown, or none */
	int64_t index;	     /* of the batch within its epoch; -1 = unknown or none */
	int32_t ready;	     /* batches that stood ready, in order, when it began; -1 = unknown */
	int32_t in_flight;   /* asked for and not returned yet when it began; -1 */
	/* the batch's stations, as in struct dlp_batch */
	uint64_t asked_ns, taken_ns, produced_ns, sent_ns, received_ns;
	uint64_t message_bytes; /* 0 = unknown */
	struct dlp_clock split; /* of the call's time, on its thread; sum = its duration */
};

/* A worker's making of one batch: taken from the index queue until its main thread was done. */
struct dlp_history_production {
	uint64_t taken_ns, done_ns;
	int64_t index;
	uint32_t pid;
	uint32_t loader, iterator; /* 0 = unknown */
	bool in_window;		   /* ended in the window */
};

/* One _BaseDataLoaderIter, folded ones of the model included. */
struct dlp_history_iterator {
	uint32_t id, loader;
	uint64_t init_start_ns, init_end_ns; /* iter(loader); both 0 = not seen whole */
	uint64_t first_call_ns;		     /* start of its first call seen, */
	uint64_t last_call_ns;		     /* and end of the last one */
	uint64_t call_cnt, epoch_cnt;
	uint64_t init_cnt; /* initialisations seen: restarts of persistent workers are none */
	bool plain; /* without messages (no workers): stands for all iterators of its loader */
};

/* A worker process; those of an iterator are found by worker->iterator. */
struct dlp_history_worker {
	uint32_t pid;
	uint32_t loader, iterator; /* 0 = unknown */
	uint64_t born_ns;	   /* may lie before the window; 0 = unknown */
	uint64_t died_ns;	   /* 0 = alive at the end */
	uint32_t exit_code;	   /* wait status when dead; DLP_EXIT_UNKNOWN */
	bool unexpected;	   /* died by a signal or an error, nobody having told it to end */
	bool proven;		   /* a message of it was seen; else it looked like a worker */
	bool clock_valid;	   /* false: the next two are unknown */
	uint64_t window_ns;	   /* lifetime in the window, */
	struct dlp_clock clock;	   /* and its main thread's split of it */
	uint64_t batch_cnt;
};

enum dlp_lane {
	DLP_LANE_TRAINER, /* a thread of the trainer that runs GetNext */
	DLP_LANE_WORKER,  /* a worker's main thread */
	DLP_LANE_POOL,	  /* all other threads of one process of the job; tid 0 */
};

/* How a thread spent the time between two readings of its clock. */
struct dlp_history_sample {
	uint64_t start_ns, end_ns;
	uint32_t pid, tid;
	enum dlp_lane lane;
	struct dlp_clock split; /* of a pool: the sum over its threads */
};

/* A blocked interval longer than the threshold (1 ms). */
struct dlp_history_wait {
	uint64_t start_ns, end_ns; /* left the CPU, back on a CPU */
	uint64_t wake_ns;	   /* made runnable */
	uint64_t object;	   /* inode, futex address or 0 */
	uint32_t pid, tid;
	uint32_t state; /* enum dlp_state */
	int32_t syscall;
	uint32_t dev, fs_magic;
	uint32_t waker_tid;
};

/* A record_function scope of the job's own, or of its libraries; without GetNext. */
struct dlp_history_scope {
	uint64_t start_ns, end_ns;
	uint64_t child_ns; /* inside scopes nested in it */
	uint32_t pid, tid;
	uint32_t label; /* position in labels */
	uint16_t depth;
	uint16_t rsvd;
	uint32_t weight; /* scopes it stands for */
};

/* Completed block requests of one device in one interval. */
struct dlp_history_block {
	uint64_t start_ns, end_ns; /* of the interval */
	uint32_t dev;
	uint64_t reads, read_bytes, writes, write_bytes;
	uint64_t read_wait_ns, read_max_ns; /* from submission to completion */
};

/* A slow one. */
struct dlp_history_request {
	uint64_t queued_ns, done_ns; /* queued as in struct dlp_ev_block */
	uint64_t issued_ns;
	uint32_t dev, op, bytes; /* op: 0 read, 1 write */
	uint32_t pid, tid;	 /* who submitted it; 0 = unknown */
};

/* CPU time of a process outside the job, since attaching. pid 0 = all of them together. */
struct dlp_history_other {
	uint64_t ts_ns, cpu_ns;
	uint32_t pid;
	char comm[16]; /* not terminated when full */
};

/* From one reading of the clocks to the next, a second or so. */
struct dlp_history_interval {
	uint64_t start_ns, end_ns;
	uint64_t calls, batches; /* that ended in it */
	uint64_t exposed_ns;	 /* of it inside outermost GetNext, unfinished calls included */
};

struct dlp_history_lost {
	uint64_t calls, productions, samples, waits, scopes, iterators, workers, blocks, requests,
		system, others, intervals, labels;
};

struct dlp_history {
	/* The model at the end, what is known besides, and what follows from both. Borrowed. */
	const struct dlp_model *model;
	const struct dlp_summary_facts *facts; /* NULL = nothing is known besides */
	struct dlp_verdict verdict;
	uint64_t start_ns, end_ns; /* window; as in the model */
	/* CLOCK_REALTIME at start_ns; 0 = unknown */
	uint64_t realtime_start_ns;

	struct dlp_history_call *calls; /* call_cnt of them, by start_ns */
	size_t call_cnt;
	struct dlp_history_production *productions; /* by taken_ns */
	size_t production_cnt;
	struct dlp_history_iterator *iterators; /* by id */
	size_t iterator_cnt;
	struct dlp_history_worker *workers; /* by born_ns */
	size_t worker_cnt;
	struct dlp_history_sample *samples; /* by start_ns, like all below */
	size_t sample_cnt;
	struct dlp_history_wait *waits;
	size_t wait_cnt;
	struct dlp_history_scope *scopes;
	size_t scope_cnt;
	struct dlp_history_block *blocks;
	size_t block_cnt;
	struct dlp_history_request *requests;
	size_t request_cnt;
	struct dlp_ev_system *system; /* by hdr.ts_ns: counters and states as they were then */
	size_t system_cnt;
	struct dlp_history_other *others;
	size_t other_cnt;
	struct dlp_history_interval *intervals;
	size_t interval_cnt;
	char (*labels)[DLP_LABEL_MAX + 1]; /* untrusted; "" = was not recorded */
	size_t label_cnt;
	struct dlp_history_lost lost; /* what did not fit */
	bool finished;

	struct dlp_history_priv *priv; /* history*.c only */
};

/*
 * Watches this model: takes its callbacks until the history is freed, which must be before the
 * model. 0 or -ENOMEM.
 */
int dlp_history_new(struct dlp_history **ret, struct dlp_model *model);
void dlp_history_free(struct dlp_history *history);
/* Notes an event that the model has just been given. 0 or -ENOMEM; malformed ones are skipped. */
int dlp_history_apply(struct dlp_history *history, const void *event, size_t bytes);
/*
 * The window is closed: puts all in order, takes over what the model knows, and diagnoses.
 * `facts` (may be NULL) is borrowed. 0 or -ENOMEM. Nothing may be applied afterwards.
 */
int dlp_history_finish(struct dlp_history *history, const struct dlp_summary_facts *facts);

/*
 * Since when the training thread was in the call that was under way when the window closed, in which a
 * stalled job waits; the window's start for one that hung before, its end when in none.
 */
uint64_t dlp_history_unfinished(const struct dlp_history *history);

const struct dlp_history_iterator *dlp_history_iterator(const struct dlp_history *history,
							uint32_t id);
/* The worker with this pid that lived at ts_ns (0 = the newest one with this pid); NULL. */
const struct dlp_history_worker *dlp_history_worker(const struct dlp_history *history,
						    uint32_t pid, uint64_t ts_ns);
/* CLOCK_REALTIME for a time of this history; 0 = unknown. */
uint64_t dlp_history_realtime(const struct dlp_history *history, uint64_t ts_ns);

#endif /* DLP_HISTORY_H */
