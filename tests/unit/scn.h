/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A small simulator of a training job: a trainer that iterates DataLoaders and workers with known
 * production times, in virtual time. It follows torch's _MultiProcessingDataLoaderIter, keeps the
 * truth (what each call returned, how long each batch took), and writes the wire events that the
 * BPF programs would have sent. Knows nothing of the model.
 */
#ifndef DLP_TEST_SCN_H
#define DLP_TEST_SCN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/event.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

#define SCN_TRAINER 1000u /* pid and training thread */
#define SCN_WORKERS_MAX 16

struct scn;
struct scn_iter;

struct scn_conf {
	int workers;  /* 0 = _SingleProcessDataLoaderIter */
	int prefetch; /* per worker; 0 = 2 */
	int batches;  /* map-style: in an epoch */
	bool unordered;
	bool pin;
	bool iterable;
	int shard[SCN_WORKERS_MAX]; /* iterable: batches each worker has */
	uint64_t (*produce)(int64_t index, int worker); /* NULL = 10 ms */
	uint64_t bytes;	 /* of a result; 0 = 500 */
	uint64_t (*ask)(int64_t index); /* bytes of an index message; NULL = about 100 */
	uint32_t label;
	uint32_t group; /* ids of its workers: 2000 + 100 * group + number */
	bool (*error)(int64_t index, int worker); /* an exception in place of the batch; NULL = never */
	/* Means of times that vary by half; 0 = none, or as little as is usual. */
	uint64_t boot;	   /* a worker, from birth to its first read */
	uint64_t pickle;   /* its feeder thread, from made to sent */
	uint64_t hand;	   /* whoever reads a batch, blocked behind its message, */
	uint64_t unpickle; /* and on a CPU */
	uint64_t sampler;  /* the trainer, whenever it asks for a batch */
	uint64_t lack;	   /* without a CPU, whenever it has waited for one, */
	uint64_t gil;	   /* and without the interpreter's lock */
	uint64_t sem;	   /* making a semaphore; 0 = none are seen */
	uint64_t fork;	   /* making a process */
	uint64_t exit;	   /* a worker, to end */
};

/* What a call was spent on, in ns; 0 without workers. */
struct scn_spent {
	uint64_t boot_ns, produce_ns, transfer_ns, handover_ns; /* blocked, as in scn_conf */
	uint64_t held_ns;   /* part of produce_ns in which a batch of a higher number was sent */
	uint64_t behind_ns; /* on a CPU since it read a message, or all when it had none to read */
	uint64_t own_ns;    /* on a CPU otherwise */
	uint64_t lack_ns, gil_ns;
	uint64_t closing_ns; /* ending the workers */
};

/* What one GetNext call was. */
struct scn_call {
	uint32_t iter;	    /* scn_iter's number, from 1 */
	uint32_t tid;
	uint64_t start_ns, end_ns;
	bool data;	    /* false: StopIteration */
	int64_t index;	    /* -1 when there are no messages */
	uint32_t worker_pid;
	struct scn_spent spent;
};

/* Outside GetNext: iter(loader), or an iterator's end. */
struct scn_outside {
	uint32_t iter;
	bool teardown;
	uint64_t start_ns, end_ns;
};

/* What one production was. */
struct scn_made {
	uint32_t iter, pid;
	int64_t index;
	uint64_t taken_ns, done_ns;
};

struct scn *scn_new(unsigned int seed);
void scn_free(struct scn *scn);
uint64_t scn_now(const struct scn *scn);
/* 0 to below - 1, the same for the same seed. */
uint64_t scn_random(struct scn *scn, uint64_t below);
/* The trainer computes. */
void scn_step(struct scn *scn, uint64_t ns);
/* The same inside a record_function scope. */
void scn_scope(struct scn *scn, uint32_t label, uint64_t ns);
/* iter(loader): forks the workers and primes the queues. */
struct scn_iter *scn_iter(struct scn *scn, const struct scn_conf *conf);
/* Persistent workers: iter(loader) again. */
void scn_again(struct scn *scn, struct scn_iter *it);
/* next(it): false at the end of the epoch. `persistent` workers survive it. */
bool scn_next(struct scn *scn, struct scn_iter *it, bool persistent);
/* The iterator is deleted: its workers end. */
void scn_close(struct scn *scn, struct scn_iter *it);
uint32_t scn_iter_pid(const struct scn_iter *it, int worker);
/* The worker dies at once; its exit status is a wait status. */
void scn_kill(struct scn *scn, struct scn_iter *it, int worker, uint32_t exit_code);
/* A wire event of the test's own making. */
void scn_event(struct scn *scn, const void *event, size_t bytes);

size_t scn_calls(const struct scn *scn, const struct scn_call **ret);
size_t scn_made(const struct scn *scn, const struct scn_made **ret);
size_t scn_outside(const struct scn *scn, const struct scn_outside **ret);
/* Time a thread spent in a state, between two times. */
uint64_t scn_state_ns(const struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from_ns,
		      uint64_t to_ns);

/* How long all workers lived between these, summed up. */
uint64_t scn_lives(const struct scn *scn, uint64_t from_ns, uint64_t to_ns);

/* Idle times of workers, while their iterators were called and while they were not. */
struct scn_idle {
	uint64_t wait_ns, full_ns;
};

/* Of the workers of these iterators (bit n - 1 = number n), from their first batches on. */
void scn_idle(struct scn *scn, uint64_t iters, uint64_t from_ns, uint64_t to_ns,
	      struct scn_idle *ret);

struct scn_view {
	uint64_t start_ns, end_ns; /* of the window; 0 = all */
	uint64_t interval_ns;	   /* 0 = 1 s */
	uint64_t jitter_ns;	   /* arrival is out of order by up to this */
	uint64_t late_ns; /* a trainer's scope is told by so much after its end, or with the next one */
	bool uprobe;		   /* RECV carries no inode */
	bool no_clocks;		   /* no task iterator */
	bool no_states;		   /* no state clocks in scopes and messages */
	bool no_forks;
	/* true: this event is lost (kinds of user space and clocks never are) */
	bool (*lose)(const struct dlp_ev_hdr *hdr, void *ctx);
	void *ctx;
};

/* Feeds the events of the window in order of arrival; stops at the first error it gets. */
int scn_feed(struct scn *scn, const struct scn_view *view,
	     int (*sink)(void *ctx, const void *event, size_t bytes), void *ctx);

#endif /* DLP_TEST_SCN_H */
