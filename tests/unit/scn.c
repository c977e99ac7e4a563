/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulation: trainer, workers and queues in virtual time. */
#include "scn_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint64_t scn_chance(struct scn *scn, uint64_t below)
{
	scn->seed = scn->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (scn->seed >> 33) % below;
}

static void push(struct scn *scn, const void *event, size_t bytes)
{
	struct record *rec = PUSH(scn->rec, scn->rec_cnt, scn->rec_room);

	assert(bytes <= sizeof(rec->data));
	memcpy(&rec->data, event, bytes);
	rec->bytes = bytes;
	rec->seq = scn->rec_cnt;
	rec->ts_ns = ((const struct dlp_ev_hdr *)event)->ts_ns;
}

void scn_event(struct scn *scn, const void *event, size_t bytes)
{
	push(scn, event, bytes);
}

void scn_seg(struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from, uint64_t to)
{
	struct seg *s;

	if (to <= from)
		return;
	s = PUSH(scn->seg, scn->seg_cnt, scn->seg_room);
	*s = (struct seg){ tid, state, from, to };
}

struct dlp_clock scn_clock(const struct scn *scn, uint32_t tid, uint64_t from, uint64_t to)
{
	struct dlp_clock clock = { 0 };

	for (size_t i = 0; i < scn->seg_cnt; i++) {
		const struct seg *s = &scn->seg[i];
		uint64_t a = s->from_ns > from ? s->from_ns : from;
		uint64_t b = s->to_ns < to ? s->to_ns : to;

		if (s->tid == tid && b > a)
			clock.ns[s->state] += b - a;
	}
	return clock;
}

uint64_t scn_state_ns(const struct scn *scn, uint32_t tid, enum dlp_state state, uint64_t from_ns,
		      uint64_t to_ns)
{
	return scn_clock(scn, tid, from_ns, to_ns).ns[state];
}

void scn_trainer_until(struct scn *scn, uint64_t to, enum dlp_state state)
{
	scn_seg(scn, SCN_TRAINER, state, scn->now, to);
	if (to > scn->now)
		scn->now = to;
}

struct scn *scn_new(unsigned int seed)
{
	struct scn *scn = calloc(1, sizeof(*scn));
	struct proc *trainer;

	assert(scn);
	scn->now = 100 * SEC;
	scn->seed = seed;
	trainer = PUSH(scn->proc, scn->proc_cnt, scn->proc_room);
	trainer->pid = SCN_TRAINER;
	trainer->born_ns = 50 * SEC;
	return scn;
}

void scn_free(struct scn *scn)
{
	for (size_t i = 0; i < scn->iter_cnt; i++) {
		free(scn->iter[i]->results);
		free(scn->iter[i]->tasks);
		free(scn->iter[i]);
	}
	free(scn->iter);
	free(scn->rec);
	free(scn->seg);
	free(scn->call);
	free(scn->made);
	free(scn->proc);
	free(scn);
}

uint64_t scn_now(const struct scn *scn)
{
	return scn->now;
}

void scn_step(struct scn *scn, uint64_t ns)
{
	scn_trainer_until(scn, scn->now + ns, DLP_ST_RUN);
}

static uint8_t pickle_index(uint8_t *out, int64_t index, bool end)
{
	static const char module[] = "torch.utils.data._utils.worker";
	uint8_t len = 0;

	memcpy(out, "\x80\x04\x95\x40\0\0\0\0\0\0\0", 11);
	len = 11;
	if (index < 0) {
		/* _ResumeIteration */
	} else if (index < 256) {
		out[len++] = 'K';
		out[len++] = (uint8_t)index;
	} else if (index < 65536) {
		out[len++] = 'M';
		out[len++] = (uint8_t)index;
		out[len++] = (uint8_t)(index >> 8);
	} else {
		out[len++] = 'J';
		for (int i = 0; i < 4; i++)
			out[len++] = (uint8_t)(index >> (8 * i));
	}
	if (end || index < 0) {
		out[len++] = 0x8c;
		out[len++] = sizeof(module) - 1;
		memcpy(out + len, module, sizeof(module) - 1);
		len = (uint8_t)(len + sizeof(module) - 1);
		out[len++] = 0x94;
		if (len < DLP_MSG_PREFIX)
			out[len++] = 0x8c;
		if (len < DLP_MSG_PREFIX)
			out[len++] = index < 0 ? 16 : 29;
		return len;
	}
	memcpy(out + len, "]\x94(K\x01K\x02", 7);
	return (uint8_t)(len + 7);
}

enum what { MSG_INDEX, MSG_END, MSG_RESUME, MSG_FINAL };

static void message(struct scn *scn, uint64_t ts, uint32_t tgid, uint32_t tid, uint8_t dir,
		    uint64_t inode, uint64_t bytes, enum what what, int64_t index,
		    const struct dlp_clock *clock)
{
	struct dlp_ev_msg ev = {
		.hdr = HDR(MSG, dlp_ev_msg, ts, tgid, tid),
		.inode = inode,
		.bytes = bytes,
		.dir = dir,
	};

	if (what == MSG_FINAL) {
		memcpy(ev.prefix, "\x80\x04N.", 4);
		ev.prefix_len = 4;
		ev.bytes = 4;
	} else {
		ev.prefix_len = pickle_index(ev.prefix, what == MSG_RESUME ? -1 : index,
					     what == MSG_END);
	}
	if (clock)
		ev.clock = *clock;
	push(scn, &ev, sizeof(ev));
}

static void born(struct scn *scn, uint32_t pid)
{
	struct dlp_ev_fork ev = { .hdr = HDR(FORK, dlp_ev_fork, scn->now, SCN_TRAINER, SCN_TRAINER),
				  .child_tgid = pid, .child_tid = pid };
	struct proc *proc = PUSH(scn->proc, scn->proc_cnt, scn->proc_room);

	proc->pid = pid;
	proc->born_ns = scn->now;
	push(scn, &ev, sizeof(ev));
}

static void died(struct scn *scn, uint32_t pid, uint64_t ts, uint32_t exit_code)
{
	for (size_t i = scn->proc_cnt; i-- > 0;) {
		if (scn->proc[i].pid != pid)
			continue;
		scn->proc[i].died_ns = ts;
		scn->proc[i].exit_code = exit_code;
		return;
	}
}

static uint64_t produce_ns(const struct scn_iter *it, int64_t index, int worker)
{
	return it->conf.produce ? it->conf.produce(index, worker) : 10 * MS;
}

static void add_result(struct scn_iter *it, int worker, int64_t index, uint64_t sent, bool end,
		       bool ack)
{
	struct result *res = PUSH(it->results, it->result_cnt, it->result_room);

	*res = (struct result){ index, worker, sent, end, ack };
}

/* The worker's loop, for one message it gets. */
static void worker_gets(struct scn *scn, struct scn_iter *it, int number, int64_t index,
			enum what what, uint64_t asked)
{
	struct worker *w = &it->w[number];
	uint64_t taken = asked + 20 * US > w->free_ns ? asked + 20 * US : w->free_ns + 30 * US;
	struct dlp_clock clock = { 0 };
	uint64_t done, sent;

	scn_seg(scn, w->pid, DLP_ST_IDLE, w->free_ns, taken);
	w->idle_ns += taken - w->free_ns;
	w->free_ns = taken;
	clock.ns[DLP_ST_IDLE] = w->idle_ns;
	message(scn, taken, w->pid, w->pid, DLP_MSG_RECV, w->inode, 100 + (uint64_t)index % 7, what,
		index, &clock);
	if (what == MSG_RESUME) {
		w->iteration_end = false;
		message(scn, taken + 40 * US, w->pid, w->pid + 50, DLP_MSG_SEND, it->pipe, 90,
			MSG_RESUME, -1, NULL);
		add_result(it, number, -1, taken + 40 * US, false, true);
		w->made = 0;
		return;
	}
	if (what == MSG_FINAL || w->iteration_end)
		return;
	if (it->conf.iterable && w->made == it->conf.shard[number]) {
		sent = w->sent_ns = taken + 60 * US;
		scn_seg(scn, w->pid, DLP_ST_RUN, taken, taken + 30 * US);
		w->free_ns = taken + 30 * US;
		w->iteration_end = true;
		message(scn, sent, w->pid, w->pid + 50, DLP_MSG_SEND, it->pipe, 104, MSG_END, index,
			NULL);
		add_result(it, number, index, sent, true, false);
		return;
	}
	w->made++;
	done = taken + produce_ns(it, index, number);
	scn_seg(scn, w->pid, DLP_ST_RUN, taken, done);
	w->free_ns = done;
	sent = done + 15 * US + scn_chance(scn, 30) * US;
	if (sent < w->sent_ns + 5 * US)
		sent = w->sent_ns + 5 * US;
	w->sent_ns = sent;
	message(scn, sent, w->pid, w->pid + 50, DLP_MSG_SEND, it->pipe,
		it->conf.bytes ? it->conf.bytes : 500, MSG_INDEX, index, NULL);
	add_result(it, number, index, sent, false, false);
	*PUSH(scn->made, scn->made_cnt, scn->made_room) =
		(struct scn_made){ it->id, w->pid, index, taken, done };
}

static void put(struct scn *scn, struct scn_iter *it, int number, int64_t index, enum what what)
{
	uint64_t asked = scn->now + 10 * US + scn_chance(scn, 60) * US;

	/* one feeder thread per pipe: messages keep their order */
	if (asked < it->w[number].asked_ns + 5 * US)
		asked = it->w[number].asked_ns + 5 * US;
	it->w[number].asked_ns = asked;

	message(scn, asked, SCN_TRAINER, FEEDER_TID + it->w[number].pid, DLP_MSG_SEND,
		it->w[number].inode, 100 + (uint64_t)index % 7, what, index, NULL);
	worker_gets(scn, it, number, index, what, asked);
}

/* torch: _try_put_index */
static void try_put(struct scn *scn, struct scn_iter *it)
{
	int number = -1, active = 0;

	if (!it->conf.iterable && it->sampled >= it->conf.batches)
		return;
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
	while ((size_t)it->send >= it->task_room)
		it->task_room = it->task_room * 2 + 64,
		it->tasks = realloc(it->tasks, it->task_room * sizeof(*it->tasks));
	it->tasks[it->send] = (struct task){ .worker = number, .exists = true };
	it->w[number].tasks++;
	it->outstanding++;
	put(scn, it, number, it->send++, MSG_INDEX);
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

struct scn_iter *scn_iter(struct scn *scn, const struct scn_conf *conf)
{
	struct scn_iter *it = calloc(1, sizeof(*it));

	assert(it);
	*PUSH(scn->iter, scn->iter_cnt, scn->iter_room) = it;
	it->id = (uint32_t)scn->iter_cnt;
	it->conf = *conf;
	if (!it->conf.prefetch)
		it->conf.prefetch = 2;
	if (!conf->workers)
		return it;
	it->pipe = INODE_RESULT + ++scn->inodes;
	for (int i = 0; i < conf->workers; i++) {
		it->w[i].pid = 2000 + 100 * conf->group + (uint32_t)i;
		it->w[i].inode = INODE_INDEX + ++scn->inodes;
		born(scn, it->w[i].pid);
		it->w[i].free_ns = scn->now;
		scn_trainer_until(scn, scn->now + 300 * US, DLP_ST_RUN);
	}
	/* the first message on each queue starts its feeder thread */
	for (int i = 0; i < conf->workers; i++) {
		struct dlp_ev_fork ev = {
			.hdr = HDR(FORK, dlp_ev_fork, scn->now, SCN_TRAINER, SCN_TRAINER),
			.child_tgid = SCN_TRAINER, .child_tid = FEEDER_TID + it->w[i].pid };

		ev.hdr.flags = DLP_FORK_THREAD;
		push(scn, &ev, sizeof(ev));
		scn_trainer_until(scn, scn->now + 20 * US, DLP_ST_RUN);
	}
	prime(scn, it);
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

/* torch: _get_data; the trainer waits for the next result, whatever it is */
static struct result get_data(struct scn *scn, struct scn_iter *it)
{
	struct result *first = earliest(it), res;
	uint32_t tid = it->conf.pin ? PIN_TID + it->id : SCN_TRAINER;
	uint64_t at;

	assert(first);
	res = *first;
	*first = it->results[--it->result_cnt];
	if (it->conf.pin) {
		at = res.sent_ns > it->pin_free_ns ? res.sent_ns : it->pin_free_ns;
		it->pin_free_ns = at += 25 * US;
		scn_trainer_until(scn, at + 10 * US, DLP_ST_LOCK);
	} else {
		scn_trainer_until(scn, res.sent_ns + 10 * US, DLP_ST_PIPE);
		scn_trainer_until(scn, scn->now + 15 * US, DLP_ST_RUN);
		at = scn->now;
	}
	message(scn, at, SCN_TRAINER, tid, DLP_MSG_RECV, it->pipe,
		res.ack ? 90 : res.end ? 104 : it->conf.bytes ? it->conf.bytes : 500,
		res.ack ? MSG_RESUME : res.end ? MSG_END : MSG_INDEX, res.index, NULL);
	return res;
}

void scn_again(struct scn *scn, struct scn_iter *it)
{
	int acks = it->conf.workers;

	for (int i = 0; i < it->conf.workers; i++)
		put(scn, it, i, -1, MSG_RESUME);
	while (acks)
		acks -= get_data(scn, it).ack;
	prime(scn, it);
}

void scn_close(struct scn *scn, struct scn_iter *it)
{
	if (it->closed)
		return;
	it->closed = true;
	for (int i = 0; i < it->conf.workers; i++) {
		struct worker *w = &it->w[i];
		uint64_t end;

		if (!w->told)
			put(scn, it, i, 0, MSG_FINAL);
		end = w->free_ns + 200 * US;
		scn_seg(scn, w->pid, DLP_ST_RUN, w->free_ns, end);
		scn_trainer_until(scn, end + 50 * US, DLP_ST_PIPE);
		died(scn, w->pid, end, 0);
	}
}

void scn_kill(struct scn *scn, struct scn_iter *it, int worker, uint32_t exit_code)
{
	scn_seg(scn, it->w[worker].pid, DLP_ST_IDLE, it->w[worker].free_ns, scn->now);
	died(scn, it->w[worker].pid, scn->now, exit_code);
}

uint32_t scn_iter_pid(const struct scn_iter *it, int worker)
{
	return it->w[worker].pid;
}

/* torch: _process_data */
static void process(struct scn *scn, struct scn_iter *it, struct scn_call *call, int64_t index,
		    int worker)
{
	it->w[worker].tasks--;
	try_put(scn, it);
	call->data = true;
	call->index = index;
	call->worker_pid = it->w[worker].pid;
}

/* torch: _MultiProcessingDataLoaderIter._next_data */
static void next_data(struct scn *scn, struct scn_iter *it, struct scn_call *call, bool persistent)
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
			if (!persistent)
				scn_close(scn, it);
			return;
		}
		if (task->has_data) {
			task->exists = false;
			process(scn, it, call, it->rcvd++, task->worker);
			return;
		}
		res = get_data(scn, it);
		it->outstanding--;
		if (res.end) {
			it->w[res.worker].active = false;
			if (!persistent) {
				it->w[res.worker].told = true;
				put(scn, it, res.worker, 0, MSG_FINAL);
			}
			try_put(scn, it);
			continue;
		}
		task = &it->tasks[res.index];
		if (res.index != it->rcvd && !it->conf.unordered) {
			task->has_data = true;
			continue;
		}
		task->exists = false;
		it->rcvd += res.index == it->rcvd;
		process(scn, it, call, res.index, res.worker);
		return;
	}
}

bool scn_next(struct scn *scn, struct scn_iter *it, bool persistent)
{
	struct scn_call call = { .iter = it->id, .tid = SCN_TRAINER, .start_ns = scn->now,
				 .index = -1 };
	struct dlp_ev_scope ev;

	scn_trainer_until(scn, scn->now + 8 * US, DLP_ST_RUN);
	if (it->conf.workers) {
		next_data(scn, it, &call, persistent);
	} else if (it->sampled < it->conf.batches) {
		scn_trainer_until(scn, scn->now + produce_ns(it, it->sampled++, 0), DLP_ST_RUN);
		call.data = true;
	} else {
		it->sampled = 0;
	}
	scn_trainer_until(scn, scn->now + 12 * US, DLP_ST_RUN);
	call.end_ns = scn->now;
	*PUSH(scn->call, scn->call_cnt, scn->call_room) = call;
	ev = (struct dlp_ev_scope){
		.hdr = HDR(SCOPE, dlp_ev_scope, call.end_ns, SCN_TRAINER, SCN_TRAINER),
		.start_ns = call.start_ns,
		.label = it->conf.label,
		.split = scn_clock(scn, SCN_TRAINER, call.start_ns, call.end_ns),
	};
	ev.hdr.flags = DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER;
	push(scn, &ev, sizeof(ev));
	return call.data;
}

size_t scn_calls(const struct scn *scn, const struct scn_call **ret)
{
	*ret = scn->call;
	return scn->call_cnt;
}

size_t scn_made(const struct scn *scn, const struct scn_made **ret)
{
	*ret = scn->made;
	return scn->made_cnt;
}
