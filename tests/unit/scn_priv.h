/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the simulation (scn.c) and the writing of its events (scn_feed.c). */
#ifndef DLP_TEST_SCN_PRIV_H
#define DLP_TEST_SCN_PRIV_H

#include "decode.h"
#include "scn.h"

#define INODE_INDEX 50000u
#define INODE_RESULT 90000u
#define PIN_TID 1500u
#define FEEDER_TID 1100u

struct seg {
	uint32_t tid;
	enum dlp_state state;
	uint64_t from_ns, to_ns;
};

struct record {
	uint64_t ts_ns, key;
	size_t seq, bytes;
	union dlp_event_room data;
};

struct proc {
	uint32_t pid, exit_code;
	uint64_t born_ns, died_ns;
};

struct result {
	int64_t index;
	int worker;
	uint64_t sent_ns;
	bool end, ack;
};

/* torch: _task_info */
struct task {
	int worker;
	bool exists, has_data;
};

struct worker {
	uint32_t pid;
	uint64_t inode, free_ns, idle_ns, asked_ns, sent_ns;
	bool active, iteration_end, told;
	int made, tasks;
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
	uint64_t run_from;
	struct record *rec;
	size_t rec_cnt, rec_room;
	struct seg *seg;
	size_t seg_cnt, seg_room;
	struct scn_call *call;
	size_t call_cnt, call_room;
	struct scn_made *made;
	size_t made_cnt, made_room;
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

uint64_t scn_chance(struct scn *scn, uint64_t below);
void scn_seg(struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from, uint64_t to);
struct dlp_clock scn_clock(const struct scn *scn, uint32_t tid, uint64_t from, uint64_t to);
void scn_trainer_until(struct scn *scn, uint64_t to, enum dlp_state state);

#endif /* DLP_TEST_SCN_PRIV_H */
