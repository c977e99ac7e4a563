/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation's trainer: iter(loader), next(iterator) and the iterator's end. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* torch: _try_put_index */
static void try_put(struct scn *scn, struct scn_iter *it)
{
	int number = -1, active = 0;

	if (!it->conf.iterable && it->sampled >= it->conf.batches)
		return;
	scn_trainer(scn, scn_about(scn, it->conf.sampler), DLP_ST_RUN);
	it->sampled++;
	for (int i = 0; i < it->conf.workers; i++)
		active += it->w[i].active;
	for (int i = 0; i < it->conf.workers; i++) {
		int next = it->cycle++ % it->conf.workers;

		if (!it->w[next].active)
			continue;
		if (it->conf.unordered &&
		    it->w[next].tasks >= it->conf.prefetch * it->conf.workers / active)
			continue;
		number = next;
		break;
	}
	if (number < 0)
		return;
	while ((size_t)it->send >= it->task_room) {
		it->task_room = it->task_room * 2 + 64;
		it->tasks = realloc(it->tasks, it->task_room * sizeof(*it->tasks));
		assert(it->tasks);
	}
	it->tasks[it->send] = (struct task){ .worker = number, .exists = true };
	it->w[number].tasks++;
	it->outstanding++;
	scn_put(scn, it, number, it->send++, MSG_INDEX);
}

static void prime(struct scn *scn, struct scn_iter *it)
{
	it->send = it->rcvd = it->sampled = 0;
	it->outstanding = 0;
	it->cycle = 0;
	for (int i = 0; i < it->conf.workers; i++) {
		it->w[i].active = true;
		it->w[i].tasks = 0;
	}
	for (int i = 0; i < it->conf.prefetch * it->conf.workers; i++)
		try_put(scn, it);
}

/* multiprocessing: a queue is made of 3, an event of 5. */
static void semaphores(struct scn *scn, const struct scn_iter *it, int cnt)
{
	for (int i = 0; i < cnt && it->conf.sem; i++) {
		struct dlp_ev_sem ev = { .hdr = HDR(SEM, dlp_ev_sem, scn->now, SCN_TRAINER,
						    SCN_TRAINER) };

		scn_event(scn, &ev, sizeof(ev));
		scn_trainer(scn, scn_about(scn, it->conf.sem), DLP_ST_RUN);
	}
}

static void outside(struct scn *scn, const struct scn_iter *it, bool teardown, uint64_t start)
{
	*PUSH(scn->outside, scn->outside_cnt, scn->outside_room) =
		(struct scn_outside){ it->id, teardown, start, scn->now };
}

struct scn_iter *scn_iter(struct scn *scn, const struct scn_conf *conf)
{
	struct scn_iter *it = calloc(1, sizeof(*it));
	uint64_t start = scn->now;

	assert(it);
	*PUSH(scn->iter, scn->iter_cnt, scn->iter_room) = it;
	it->id = (uint32_t)scn->iter_cnt;
	it->conf = *conf;
	if (!it->conf.prefetch)
		it->conf.prefetch = 2;
	if (!conf->workers)
		return it;
	it->pipe = INODE_RESULT + ++scn->inodes;
	semaphores(scn, it, 3 + 5);
	for (int i = 0; i < conf->workers; i++) {
		semaphores(scn, it, 3);
		scn_start_worker(scn, it, i);
		scn_trainer(scn, conf->fork ? scn_about(scn, conf->fork) : 300 * US, DLP_ST_RUN);
	}
	/* the first message on each queue starts its feeder thread */
	for (int i = 0; i < conf->workers; i++) {
		struct dlp_ev_fork ev = {
			.hdr = HDR(FORK, dlp_ev_fork, scn->now, SCN_TRAINER, SCN_TRAINER),
			.child_tgid = SCN_TRAINER, .child_tid = FEEDER_TID + it->w[i].pid };

		ev.hdr.flags = DLP_FORK_THREAD;
		scn_event(scn, &ev, sizeof(ev));
		scn_trainer(scn, 20 * US, DLP_ST_RUN);
	}
	prime(scn, it);
	outside(scn, it, false, start);
	return it;
}

static struct result *earliest(struct scn_iter *it)
{
	struct result *best = NULL;

	for (size_t i = 0; i < it->result_cnt; i++) {
		if (!best || it->results[i].sent_ns < best->sent_ns)
			best = &it->results[i];
	}
	return best;
}

/* The trainer itself reads and unpickles. */
static void read_self(struct scn *scn, const struct scn_iter *it, struct result *res)
{
	bool data = res->what == MSG_INDEX;

	if (res->sent_ns + 10 * US > scn->now) {
		scn_trainer_until(scn, res->sent_ns + 10 * US, DLP_ST_PIPE);
		scn_trainer(scn, scn_about(scn, it->conf.lack), DLP_ST_RUNQ);
		scn_trainer(scn, scn_about(scn, it->conf.gil), DLP_ST_GIL);
	}
	scn_trainer(scn, 15 * US, DLP_ST_RUN);
	res->read_ns = scn->now;
	scn_message(scn, &(struct scn_msg){ scn->now, SCN_TRAINER, SCN_TRAINER, DLP_MSG_RECV,
					    it->pipe, scn_result_bytes(it, res), res->what,
					    res->index });
	scn_trainer(scn, data ? scn_about(scn, it->conf.hand) : 0, DLP_ST_NET);
	scn_trainer(scn, data ? scn_about(scn, it->conf.unpickle) : 0, DLP_ST_RUN);
}

/* A thread of the trainer has read, unpickled and pinned it, in its own time. */
static void read_pinned(struct scn *scn, struct scn_iter *it, struct result *res)
{
	bool data = res->what == MSG_INDEX;
	uint64_t at = res->sent_ns > it->pin_free_ns ? res->sent_ns : it->pin_free_ns;
	uint64_t start = scn->now;

	res->read_ns = at += 25 * US;
	scn_message(scn, &(struct scn_msg){ at, SCN_TRAINER, PIN_TID + it->id, DLP_MSG_RECV,
					    it->pipe, scn_result_bytes(it, res), res->what,
					    res->index });
	if (data)
		at += scn_about(scn, it->conf.hand) + scn_about(scn, it->conf.unpickle);
	it->pin_free_ns = at;
	scn_trainer_until(scn, at + 10 * US, DLP_ST_LOCK);
	if (scn->now == start)
		return;
	scn_trainer(scn, scn_about(scn, it->conf.lack), DLP_ST_RUNQ);
	scn_trainer(scn, scn_about(scn, it->conf.gil), DLP_ST_GIL);
}

/* torch: _get_data; the trainer waits for the next result, whatever it is */
static struct result get_data(struct scn *scn, struct scn_iter *it)
{
	struct result *first = earliest(it), res;

	assert(first);
	res = *first;
	*first = it->results[--it->result_cnt];
	if (it->conf.pin)
		read_pinned(scn, it, &res);
	else
		read_self(scn, it, &res);
	return res;
}

void scn_again(struct scn *scn, struct scn_iter *it)
{
	int acks = it->conf.workers;

	for (int i = 0; i < it->conf.workers; i++)
		scn_put(scn, it, i, -1, MSG_RESUME);
	while (acks)
		acks -= get_data(scn, it).what == MSG_RESUME;
	prime(scn, it);
}

/* torch: _shutdown_workers; all are told before the first one is waited for */
static void shut_down(struct scn *scn, struct scn_iter *it)
{
	it->closed = true;
	for (int i = 0; i < it->conf.workers; i++) {
		if (!it->w[i].told && !it->w[i].dead)
			scn_put(scn, it, i, 0, MSG_FINAL);
	}
	for (int i = 0; i < it->conf.workers; i++) {
		if (!it->w[i].dead)
			scn_trainer_until(scn, scn_end_worker(scn, it, i) + 50 * US, DLP_ST_PIPE);
	}
}

void scn_close(struct scn *scn, struct scn_iter *it)
{
	uint64_t start = scn->now;

	if (it->closed)
		return;
	shut_down(scn, it);
	outside(scn, it, true, start);
}

/* torch: _process_data */
static void process(struct scn *scn, struct scn_iter *it, struct next *next,
		    const struct result *res)
{
	it->w[res->worker].tasks--;
	try_put(scn, it);
	next->call.data = true;
	next->call.index = res->index;
	next->call.worker_pid = it->w[res->worker].pid;
	next->got = *res;
}

/* The shard of the worker has ended. */
static void shard_ended(struct scn *scn, struct scn_iter *it, int worker, bool persistent)
{
	it->w[worker].active = false;
	if (!persistent) {
		it->w[worker].told = true;
		scn_put(scn, it, worker, 0, MSG_FINAL);
	}
	try_put(scn, it);
}

/* torch: _MultiProcessingDataLoaderIter._next_data */
static void next_data(struct scn *scn, struct scn_iter *it, struct next *next, bool persistent)
{
	for (;;) {
		struct result res;
		struct task *task = NULL;

		for (; it->rcvd < it->send; it->rcvd++) {
			task = &it->tasks[it->rcvd];
			if (task->exists && (task->has_data || it->w[task->worker].active))
				break;
		}
		if (it->rcvd >= it->send) {
			next->closing_ns = scn->now;
			if (!persistent && !it->closed)
				shut_down(scn, it);
			return;
		}
		if (task->has_data) {
			task->exists = false;
			res = task->res;
			it->rcvd++;
			process(scn, it, next, &res);
			return;
		}
		res = get_data(scn, it);
		it->outstanding--;
		if (!next->read_ns)
			next->read_ns = res.read_ns;
		if (res.what == MSG_END) {
			shard_ended(scn, it, res.worker, persistent);
			continue;
		}
		task = &it->tasks[res.index];
		if (res.index != it->rcvd && !it->conf.unordered) {
			task->has_data = true;
			task->res = res;
			continue;
		}
		task->exists = false;
		it->rcvd += res.index == it->rcvd;
		process(scn, it, next, &res);
		return;
	}
}

bool scn_next(struct scn *scn, struct scn_iter *it, bool persistent)
{
	struct next next = { .call = { .iter = it->id, .tid = SCN_TRAINER, .start_ns = scn->now,
				       .index = -1 } };
	struct dlp_ev_scope ev;

	scn_trainer(scn, 8 * US, DLP_ST_RUN);
	if (it->conf.workers) {
		next_data(scn, it, &next, persistent);
	} else if (it->sampled < it->conf.batches) {
		scn_trainer(scn, scn_produce_ns(it, it->sampled++, 0), DLP_ST_RUN);
		next.call.data = true;
	} else {
		it->sampled = 0;
	}
	scn_trainer(scn, 12 * US, DLP_ST_RUN);
	next.call.end_ns = scn->now;
	if (it->conf.workers)
		scn_spend(scn, it, &next);
	*PUSH(scn->call, scn->call_cnt, scn->call_room) = next.call;
	ev = (struct dlp_ev_scope){
		.hdr = HDR(SCOPE, dlp_ev_scope, next.call.end_ns, SCN_TRAINER, SCN_TRAINER),
		.start_ns = next.call.start_ns,
		.label = it->conf.label,
		.turn = ++scn->turn,
		.split = scn_clock(scn, SCN_TRAINER, next.call.start_ns, next.call.end_ns),
	};
	ev.hdr.flags = DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER;
	scn_event(scn, &ev, sizeof(ev));
	return next.call.data;
}
