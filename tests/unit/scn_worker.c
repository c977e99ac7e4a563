/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation's workers: torch's _worker_loop, and the feeder threads of its queues. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Waits on its index pipe are told when they are as long as the tool's threshold. */
#define WAIT_NS MS

uint64_t scn_produce_ns(const struct scn_iter *it, int64_t index, int worker)
{
	return it->conf.produce ? it->conf.produce(index, worker) : 10 * MS;
}

static bool fails(const struct scn_iter *it, int64_t index, int worker)
{
	return it->conf.error && it->conf.error(index, worker);
}

uint64_t scn_result_bytes(const struct scn_iter *it, const struct result *res)
{
	if (res->what == MSG_RESUME)
		return 90;
	if (res->what == MSG_END)
		return 104;
	return it->conf.bytes ? it->conf.bytes : 500;
}

static uint64_t ask_bytes(const struct scn_iter *it, int64_t index, enum what what)
{
	if (what == MSG_INDEX && it->conf.ask)
		return it->conf.ask(index);
	return 100 + (uint64_t)index % 7;
}

/* Its feeder thread sends the result on the way that all workers share. */
static void answer(struct scn *scn, struct scn_iter *it, int number, struct result res)
{
	struct worker *w = &it->w[number];

	if (res.sent_ns < w->sent_ns + 5 * US)
		res.sent_ns = w->sent_ns + 5 * US;
	w->sent_ns = res.sent_ns;
	res.worker = number;
	scn_message(scn, &(struct scn_msg){ res.sent_ns, w->pid, w->pid + 50, DLP_MSG_SEND,
					    it->pipe, scn_result_bytes(it, &res), res.what,
					    res.index });
	*PUSH(it->results, it->result_cnt, it->result_room) = res;
}

static void idle_until(struct scn *scn, struct worker *w, uint64_t until)
{
	struct dlp_ev_wait ev = {
		.hdr = HDR(WAIT, dlp_ev_wait, until, w->pid, w->pid),
		.start_ns = w->free_ns,
		.wake_ns = until,
		.object = w->inode,
		.state = DLP_ST_IDLE,
	};

	scn_seg(scn, w->pid, DLP_ST_IDLE, w->free_ns, until);
	if (until >= w->free_ns + WAIT_NS)
		scn_event(scn, &ev, sizeof(ev));
	w->free_ns = until;
}

static void produce(struct scn *scn, struct scn_iter *it, int number, int64_t index)
{
	struct worker *w = &it->w[number];
	uint64_t taken = w->free_ns, done = taken + scn_produce_ns(it, index, number);
	struct result res = { .index = index, .taken_ns = taken, .done_ns = done,
			      .first = !w->fruitful };
	uint64_t feeder = done > w->sent_ns ? done : w->sent_ns;

	w->made++;
	w->fruitful = true;
	scn_seg(scn, w->pid, DLP_ST_RUN, taken, done);
	w->free_ns = done;
	res.what = fails(it, index, number) ? MSG_ERROR : MSG_INDEX;
	if (it->conf.pickle)
		res.sent_ns = feeder + scn_about(scn, it->conf.pickle);
	else
		res.sent_ns = done + 15 * US + scn_random(scn, 30) * US;
	answer(scn, it, number, res);
	*PUSH(scn->made, scn->made_cnt, scn->made_room) =
		(struct scn_made){ it->id, w->pid, index, taken, done };
}

/* The worker's loop, for one message it gets. */
static void gets(struct scn *scn, struct scn_iter *it, int number, int64_t index, enum what what,
		 uint64_t asked)
{
	struct worker *w = &it->w[number];
	uint64_t taken = asked + 20 * US > w->free_ns ? asked + 20 * US : w->free_ns + 30 * US;

	idle_until(scn, w, taken);
	scn_message(scn, &(struct scn_msg){ taken, w->pid, w->pid, DLP_MSG_RECV, w->inode,
					    ask_bytes(it, index, what), what, index });
	if (what == MSG_INDEX && !scn_proc(scn, w->pid)->first_ns)
		scn_proc(scn, w->pid)->first_ns = taken;
	if (what == MSG_RESUME) {
		w->iteration_end = false;
		w->made = 0;
		answer(scn, it, number,
		       (struct result){ .index = -1, .what = MSG_RESUME,
					.sent_ns = taken + 40 * US });
		return;
	}
	if (what == MSG_FINAL || w->iteration_end)
		return;
	if (!it->conf.iterable || w->made < it->conf.shard[number]) {
		produce(scn, it, number, index);
		return;
	}
	scn_seg(scn, w->pid, DLP_ST_RUN, taken, taken + 30 * US);
	w->free_ns = taken + 30 * US;
	w->iteration_end = true;
	answer(scn, it, number,
	       (struct result){ .index = index, .what = MSG_END, .sent_ns = taken + 60 * US });
}

void scn_put(struct scn *scn, struct scn_iter *it, int number, int64_t index, enum what what)
{
	uint64_t asked = scn->now + 10 * US + scn_random(scn, 60) * US;
	struct worker *w = &it->w[number];

	/* one feeder thread per pipe: messages keep their order */
	if (asked < w->asked_ns + 5 * US)
		asked = w->asked_ns + 5 * US;
	w->asked_ns = asked;
	scn_message(scn, &(struct scn_msg){ asked, SCN_TRAINER, FEEDER_TID + w->pid, DLP_MSG_SEND,
					    w->inode, ask_bytes(it, index, what), what, index });
	gets(scn, it, number, index, what, asked);
}

void scn_start_worker(struct scn *scn, struct scn_iter *it, int number)
{
	struct worker *w = &it->w[number];

	w->pid = 2000 + 100 * it->conf.group + (uint32_t)number;
	w->inode = INODE_INDEX + ++scn->inodes;
	scn_born(scn, w->pid);
	w->free_ns = scn->now + scn_about(scn, it->conf.boot);
	scn_seg(scn, w->pid, DLP_ST_RUN, scn->now, w->free_ns);
}

uint64_t scn_end_worker(struct scn *scn, struct scn_iter *it, int number)
{
	struct worker *w = &it->w[number];
	uint64_t end = w->free_ns + (it->conf.exit ? scn_about(scn, it->conf.exit) : 200 * US);

	scn_seg(scn, w->pid, DLP_ST_RUN, w->free_ns, end);
	scn_died(scn, w->pid, end, 0);
	return end;
}

/* What it would have done later does not happen. */
void scn_kill(struct scn *scn, struct scn_iter *it, int worker, uint32_t exit_code)
{
	struct worker *w = &it->w[worker];
	size_t kept = 0;

	if (w->free_ns < scn->now)
		idle_until(scn, w, scn->now);
	scn_track_cut(scn, w->pid, scn->now);
	scn_died(scn, w->pid, scn->now, exit_code);
	for (size_t i = 0; i < scn->rec_cnt; i++) {
		if (scn->rec[i].data.hdr.tgid != w->pid || scn->rec[i].ts_ns <= scn->now)
			scn->rec[kept++] = scn->rec[i];
	}
	scn->rec_cnt = kept;
	kept = 0;
	for (size_t i = 0; i < it->result_cnt; i++) {
		if (it->results[i].worker != worker || it->results[i].sent_ns <= scn->now)
			it->results[kept++] = it->results[i];
	}
	it->result_cnt = kept;
	w->free_ns = scn->now;
	w->dead = true;
}

uint32_t scn_iter_pid(const struct scn_iter *it, int worker)
{
	return it->w[worker].pid;
}
