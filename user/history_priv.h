/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the history (history*.c) share and nobody else sees. */
#ifndef DLP_HISTORY_PRIV_H
#define DLP_HISTORY_PRIV_H

#include "history.h"
#include "map.h"

/* Every array of the history: its name, its count, its bound. */
#define DLP_HISTORY_STORES(X)                                                                      \
	X(CALLS, calls, call_cnt)                                                                  \
	X(PRODUCTIONS, productions, production_cnt)                                                \
	X(ITERATORS, iterators, iterator_cnt)                                                      \
	X(WORKERS, workers, worker_cnt)                                                            \
	X(SAMPLES, samples, sample_cnt)                                                            \
	X(WAITS, waits, wait_cnt)                                                                  \
	X(SCOPES, scopes, scope_cnt)                                                               \
	X(BLOCKS, blocks, block_cnt)                                                               \
	X(REQUESTS, requests, request_cnt)                                                         \
	X(SYSTEM, system, system_cnt)                                                              \
	X(OTHERS, others, other_cnt)                                                               \
	X(INTERVALS, intervals, interval_cnt)                                                      \
	X(LABELS, labels, label_cnt)

enum dlp_history_store {
#define X(NAME, array, cnt) DLP_STORE_##NAME,
	DLP_HISTORY_STORES(X)
#undef X
	DLP_STORE_MAX,
};

/* The newest reading of a thread's clock. */
struct dlp_history_thread {
	uint32_t tid, tgid;
	uint64_t read_ns;
	struct dlp_clock clock;
};

/* What the other threads of a process did since the last interval's end. */
struct dlp_history_pool {
	uint32_t pid;
	uint64_t start_ns, end_ns; /* 0 = nothing was read */
	struct dlp_clock split;
};

struct dlp_history_priv {
	struct dlp_model *model; /* whose callbacks are ours */
	struct dlp_model_watch watch;
	size_t room[DLP_STORE_MAX];
	int err; /* -ENOMEM in a callback, which cannot return it */
	uint32_t epochs[DLP_MODEL_LOADERS_MAX]; /* so far, by loader id - 1 */
	struct dlp_map iterator_at; /* id -> position in iterators */
	struct dlp_map label_at;    /* id -> position in labels */
	uint32_t *label_id;	    /* of each position in labels */
	size_t label_room;
	/* what on_delivery told of the call that ends now */
	struct dlp_history_call delivery;
	bool delivered;
	struct dlp_map thread_at; /* tid -> position in threads */
	struct dlp_history_thread *threads;
	size_t thread_cnt, thread_room;
	struct dlp_map pool_at; /* pid -> position in pools */
	struct dlp_history_pool *pools;
	size_t pool_cnt, pool_room;
	size_t block_base; /* blocks before it are of earlier intervals */
	uint64_t interval_ns; /* when the interval that runs began */
};

/*
 * A new, zeroed entry of an array; NULL when it is full (counted) or, with priv->err set, when
 * memory is.
 */
void *dlp_history_add(struct dlp_history *history, enum dlp_history_store store);

/* history_model.c: what the model tells */
void dlp_history_watch(struct dlp_history *history);
void dlp_history_unwatch(struct dlp_history *history);
void dlp_history_take_worker(struct dlp_history *history, const struct dlp_worker *worker);

/* history_thread.c: samples of the threads' clocks */
void dlp_history_clock(struct dlp_history *history, const struct dlp_ev_clock *ev);
void dlp_history_exit(struct dlp_history *history, const struct dlp_ev_exit *ev);
/* An interval has ended: the pools' sums become samples. */
void dlp_history_pools(struct dlp_history *history);
void dlp_history_threads_fini(struct dlp_history_priv *priv);

#endif /* DLP_HISTORY_PRIV_H */
