/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the parts of the simulation (scn*.c). */
#ifndef DLP_TEST_SCN_PRIV_H
#define DLP_TEST_SCN_PRIV_H

#include "decode.h"
#include "scn.h"

#define INODE_INDEX 50000u
#define INODE_RESULT 90000u
#define PIN_TID 1500u
#define FEEDER_TID 1100u

struct seg {
	enum dlp_state state;
	uint64_t from_ns, to_ns;
	struct dlp_clock before; /* what the thread had spent when it began */
};

/* What one thread did. */
struct track {
	uint32_t tid;
	struct seg *seg;
	size_t cnt, room;
};

enum what { MSG_INDEX, MSG_END, MSG_RESUME, MSG_FINAL, MSG_ERROR };

struct scn_msg {
	uint64_t ts_ns;
	uint32_t tgid, tid;
	uint8_t dir;
	uint64_t inode, bytes;
	enum what what;
	int64_t index;
};

struct record {
	uint64_t ts_ns, key;
	size_t seq, bytes;
	union dlp_event_room data;
};

struct proc {
	uint32_t pid, exit_code;
	uint64_t born_ns, died_ns;
	uint64_t first_ns; /* took its first index; 0 = has not */
};

struct result {
	int64_t index;
	int worker;
	enum what what;
	bool first; /* that its worker made */
	uint64_t taken_ns, done_ns, sent_ns, read_ns;
};

/* torch: _task_info */
struct task {
	int worker;
	bool exists, has_data;
	struct result res;
};

struct worker {
	uint32_t pid;
	uint64_t inode, free_ns, asked_ns, sent_ns;
	bool active, iteration_end, told, dead, fruitful;
	int made, tasks;
};

/* A call under way. */
struct next {
	struct scn_call call;
	struct result got;
	uint64_t read_ns;    /* of the first message it read; 0 = none */
	uint64_t closing_ns; /* began to end the iterator; 0 = did not */
};

struct scn_iter {
	uint32_t id;
	struct scn_conf conf;
	uint64_t pipe, pin_free_ns;
	struct worker w[SCN_WORKERS_MAX];
	int cycle;
	int64_t send, rcvd, sampled;
	int outstanding;
	struct result *results;
	size_t result_cnt, result_room;
	struct task *tasks;
	size_t task_room;
	bool closed;
};

struct scn {
	uint64_t now, seed;
	uint32_t turn; /* outermost scopes of the trainer so far */
	struct record *rec;
	size_t rec_cnt, rec_room;
	struct track *track;
	size_t track_cnt, track_room;
	struct scn_call *call;
	size_t call_cnt, call_room;
	struct scn_made *made;
	size_t made_cnt, made_room;
	struct scn_outside *outside;
	size_t outside_cnt, outside_room;
	struct proc *proc;
	size_t proc_cnt, proc_room;
	struct scn_iter **iter;
	size_t iter_cnt, iter_room;
	uint64_t inodes;
};

#define PUSH(array, cnt, room)                                                                     \
	({                                                                                         \
		if ((cnt) == (room)) {                                                             \
			(room) = (room) * 2 + 16;                                                  \
			(array) = realloc((array), (room) * sizeof(*(array)));                     \
			assert(array);                                                             \
		}                                                                                  \
		memset(&(array)[cnt], 0, sizeof(*(array)));                                        \
		&(array)[(cnt)++];                                                                 \
	})

#define HDR(NAME, type, ts, pid, thread)                                                           \
	{ .size = sizeof(struct type), .kind = DLP_EV_##NAME, .ts_ns = (ts), .tgid = (pid),        \
	  .tid = (thread) }

/* scn.c */
uint64_t scn_about(struct scn *scn, uint64_t ns); /* half of it to one and a half */
void scn_seg(struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from, uint64_t to);
void scn_track_cut(struct scn *scn, uint32_t tid, uint64_t at);
const struct track *scn_track(const struct scn *scn, uint32_t tid);
/* The segment the thread is in, or the one before; NULL = none. */
const struct seg *scn_seg_at(const struct track *track, uint64_t ts);
struct dlp_clock scn_clock(const struct scn *scn, uint32_t tid, uint64_t from, uint64_t to);
void scn_trainer_until(struct scn *scn, uint64_t to, enum dlp_state state);
void scn_trainer(struct scn *scn, uint64_t ns, enum dlp_state state);
struct proc *scn_proc(struct scn *scn, uint32_t pid); /* the newest with this number */
void scn_born(struct scn *scn, uint32_t pid);
void scn_died(struct scn *scn, uint32_t pid, uint64_t ts, uint32_t exit_code);

/* scn_msg.c */
void scn_message(struct scn *scn, const struct scn_msg *msg);

/* scn_worker.c */
uint64_t scn_produce_ns(const struct scn_iter *it, int64_t index, int worker);
uint64_t scn_result_bytes(const struct scn_iter *it, const struct result *res);
void scn_start_worker(struct scn *scn, struct scn_iter *it, int number);
void scn_put(struct scn *scn, struct scn_iter *it, int number, int64_t index, enum what what);
/* Returns when it has ended. */
uint64_t scn_end_worker(struct scn *scn, struct scn_iter *it, int number);

/* scn_spent.c */
void scn_spend(const struct scn *scn, const struct scn_iter *it, struct next *next);

#endif /* DLP_TEST_SCN_PRIV_H */
