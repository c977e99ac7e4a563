/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model's view of the DataLoader's queues: which pipe serves which worker and iterator, and
 * the stations of each batch up to "received".
 */
#include <errno.h>

#include "model_priv.h"

/* Index messages that may be missing (lost events) between two that a worker took. */
#define LOOK_AHEAD 8
/* Workers write under the queue's lock, so only clocks of different CPUs can swap two results. */
#define SKEW_NS 100000
/* Iterators considered for a result whose pipe is not known; more are never in use at once. */
#define LOOK_BACK 32
/* Newest pipes considered for a worker's first message. */
#define LOOK_PIPES 512

static void progress(struct dlp_model *model, uint64_t ts_ns)
{
	if (ts_ns > model->last_progress_ns)
		model->last_progress_ns = ts_ns;
}

/* Writes what an index message tells about its batch into the iterator. */
static int note_ask(struct dlp_model *model, struct dlp_iterator *it, uint32_t worker_pid,
		    const struct dlp_ask *ask)
{
	struct dlp_batch *batch;
	int err;

	if (ask->index > it->state->max_index)
		it->state->max_index = ask->index;
	dlp_identity_ask(it, ask->bytes);
	/* delivered before its pipe was known to belong here */
	if (ask->index < it->next_index && !it->unordered && !dlp_batch_find(it, ask->index))
		return 0;
	batch = dlp_batch_get(model, it, ask->index, &err);
	if (!batch)
		return err;
	batch->asked_ns = ask->asked_ns;
	if (ask->taken_ns)
		batch->taken_ns = ask->taken_ns;
	if (worker_pid)
		batch->worker_pid = worker_pid;
	it->end_ns = dlp_max(it->end_ns, ask->asked_ns);
	return 0;
}

/* Persistent workers were told that another epoch starts, or answer that. */
static void resume(struct dlp_iterator *it, uint64_t ts_ns)
{
	if (!it)
		return;
	it->state->resuming = true;
	it->state->resume_ns = ts_ns;
}

static struct dlp_iterator *result_owner(struct dlp_model *model, uint64_t inode)
{
	uint32_t id = dlp_map_get(&model->priv->by_result, inode);

	return id == DLP_MAP_NONE ? NULL : dlp_iterator_find(model, id);
}

/* The same iterator's next epoch: its workers' shards begin again. */
static void restart(struct dlp_model *model, struct dlp_iterator *it, uint64_t ts_ns)
{
	dlp_iterator_reset(it, ts_ns);
	for (size_t i = 0; i < model->worker_cnt; i++) {
		if (model->workers[i].iterator == it->id)
			model->workers[i].shard_ended = false;
	}
}

/* Now it is known which iterator the pipe's batches belong to. */
static int pipe_link(struct dlp_model *model, struct dlp_pipe *pipe, struct dlp_iterator *it)
{
	struct dlp_iterator_state *state = it->state;
	bool first_round;
	int err;

	if (pipe->iterator == it->id)
		return 0;
	pipe->iterator = it->id;
	state->pipe_cnt++;
	if (state->resuming && pipe->first_ns > state->resume_ns)
		restart(model, it, pipe->first_ns);
	/* the first round of indices was seen: nothing has been delivered before */
	first_round = pipe->first_index == 0 || pipe->first_index < pipe->stride;
	if (first_round && it->next_index < 0 && !state->calls)
		it->next_index = 0;
	if (pipe->first_index >= 0 && pipe->first_ns) {
		if (pipe->first_ns < it->start_ns)
			it->start_ns = pipe->first_ns;
		/* one found late, in an epoch that we came into, does not tell when that began */
		if (it->next_index >= 0 && (state->reset_ns ? pipe->first_ns < state->reset_ns :
							      first_round || !state->calls))
			state->reset_ns = pipe->first_ns;
	}
	if (pipe->stride && pipe->first_index < pipe->stride)
		dlp_iterator_workers(model, it, pipe->stride);
	for (size_t i = 0; i < pipe->cnt; i++) {
		err = note_ask(model, it, pipe->worker_pid, dlp_ask_at(pipe, i));
		if (err)
			return err;
	}
	dlp_ask_pop(model, pipe, pipe->taken);
	return 0;
}

static void note_index(struct dlp_model *model, struct dlp_pipe *pipe, struct dlp_iterator *it,
		       int64_t index, uint64_t ts_ns)
{
	bool again = pipe->last_index >= 0 && index <= pipe->last_index;

	/* the message that resumes may be lost, but the numbers start at 0 again all the same */
	if (it && (it->state->resuming || (again && index == 0 && it->next_index > 0)))
		restart(model, it, ts_ns);
	if (pipe->first_index < 0 || again) {
		pipe->first_index = index;
		pipe->first_ns = ts_ns;
	} else if (!pipe->stride && pipe->first_index == pipe->last_index &&
		   index - pipe->first_index < DLP_JOB_MAX &&
		   model->priv->last_call_ns < pipe->first_ns) {
		/* only before the first call do indices go round all workers for certain */
		pipe->stride = (int)(index - pipe->first_index);
		if (it && pipe->first_index < pipe->stride)
			dlp_iterator_workers(model, it, pipe->stride);
	}
	pipe->last_index = index;
}

/* The trainer sends on an index pipe. */
static int asked(struct dlp_model *model, const struct dlp_ev_msg *ev, enum dlp_msg_type type,
		 int64_t index)
{
	struct dlp_ask ask = { .index = index, .bytes = ev->bytes, .asked_ns = ev->hdr.ts_ns };
	struct dlp_pipe *pipe = dlp_pipe_find(model, ev->inode);
	struct dlp_iterator *it;
	int err;

	if (!ev->inode)
		return 0;
	model->priv->brood_open = false;
	if (!pipe && type == DLP_MSG_INDEX) {
		pipe = dlp_pipe_get(model, ev->inode, &err);
		if (err)
			return err;
	}
	if (!pipe)
		return 0;
	it = dlp_iterator_find(model, pipe->iterator);
	switch (type) {
	case DLP_MSG_FINAL:
		if (it) {
			dlp_startup_final(model, it, ev->hdr.ts_ns);
			it->state->final_cnt += !pipe->final;
			if (it->num_workers > 0 &&
			    it->state->final_cnt >= (uint32_t)it->num_workers && !it->ended)
				dlp_iterator_end(it, ev->hdr.ts_ns);
		}
		pipe->final = true;
		return 0;
	case DLP_MSG_RESUME:
		resume(it, ev->hdr.ts_ns);
		return 0;
	case DLP_MSG_INDEX:
		break;
	default:
		return 0;
	}
	if (pipe->final || (it && it->ended)) {
		/* the kernel has used the inode's number again */
		dlp_pipe_reset(model, pipe);
		it = NULL;
	}
	dlp_startup_send(model, ev->hdr.ts_ns);
	note_index(model, pipe, it, index, ev->hdr.ts_ns);
	err = dlp_ask_push(model, pipe, &ask);
	if (err || !it)
		return err;
	progress(model, ev->hdr.ts_ns);
	return note_ask(model, it, pipe->worker_pid, &ask);
}

/* Index in the FIFO of the untaken message that this one is, or pipe->cnt. */
static size_t match_ask(const struct dlp_pipe *pipe, const struct dlp_ev_msg *ev, int64_t index,
			size_t look_ahead)
{
	for (size_t i = pipe->taken; i < pipe->cnt && i < pipe->taken + look_ahead; i++) {
		const struct dlp_ask *ask = dlp_ask_at(pipe, i);

		/* user code unpickles pairs that begin with a number, too: size tells them apart */
		if (ask->index == index && ask->bytes == ev->bytes)
			return i;
	}
	return pipe->cnt;
}

/* The index pipe a worker reads, by its first message of which we saw the sending. */
static struct dlp_pipe *pipe_by_message(struct dlp_model *model, const struct dlp_thread *thread,
					const struct dlp_ev_msg *ev, int64_t index)
{
	struct dlp_model_priv *priv = model->priv;
	size_t i = priv->pipe_cnt > LOOK_PIPES ? priv->pipe_cnt - LOOK_PIPES : 0;

	for (; i < priv->pipe_cnt; i++) {
		struct dlp_pipe *pipe = &priv->pipes[i];

		if (pipe->worker_pid)
			continue;
		/* an iterator starts its workers before it asks them for anything */
		if (pipe->first_ns > thread->born_ns && match_ask(pipe, ev, index, 1) < pipe->cnt)
			return pipe;
	}
	return NULL;
}

static struct dlp_pipe *pipe_of_worker(struct dlp_model *model, struct dlp_thread *thread,
				       const struct dlp_ev_msg *ev, int64_t index)
{
	struct dlp_pipe *pipe;

	if (ev->inode)
		return dlp_pipe_find(model, ev->inode);
	pipe = thread->state_priv ? dlp_pipe_find(model, thread->state_priv->pipe) : NULL;
	return pipe ? pipe : pipe_by_message(model, thread, ev, index);
}

/* A worker's main thread has read a message: until then it was busy, and last of all idle. */
static void note_clock(struct dlp_model *model, const struct dlp_thread *thread,
		       const struct dlp_ev_msg *ev)
{
	const struct dlp_usage usage = { ev->minflt, ev->utime_ns, ev->stime_ns };
	struct dlp_worker *worker = dlp_worker_find(model, thread->tid);

	if (worker && !worker->died_ns)
		dlp_worker_charge(model, worker, thread, &ev->clock, &usage);
	dlp_idle_note(model, thread, ev->hdr.ts_ns, &ev->clock);
}

/* A worker's main thread has read a message that is not a batch index. */
static void taken_other(struct dlp_model *model, const struct dlp_ev_msg *ev,
			struct dlp_thread *thread, enum dlp_msg_type type)
{
	const struct dlp_pipe *pipe;

	if (!thread->state_priv)
		return;
	pipe = dlp_pipe_find(model, thread->state_priv->pipe);
	if (!pipe || (ev->inode && ev->inode != pipe->inode))
		return;
	/* None can be a user's pickle as well: believed only when the trainer has sent one */
	if (type != DLP_MSG_RESUME && (type != DLP_MSG_FINAL || !pipe->final))
		return;
	dlp_produce_end(model, thread, ev->hdr.ts_ns, &ev->clock);
	note_clock(model, thread, ev);
}

/* The first batch it was asked for: until then it was getting ready. */
static void note_first(const struct dlp_thread *thread, const struct dlp_ev_msg *ev, int64_t index)
{
	struct dlp_thread_state *state = thread->state_priv;

	if (!thread->born_ns || state->first_taken_ns)
		return;
	state->first_taken_ns = ev->hdr.ts_ns;
	state->first_index = index;
	state->first_clock = ev->clock;
	state->first_usage = (struct dlp_usage){ ev->minflt, ev->utime_ns, ev->stime_ns };
}

/* A worker reads from its index pipe. */
static int taken(struct dlp_model *model, const struct dlp_ev_msg *ev, enum dlp_msg_type type,
		 int64_t index)
{
	struct dlp_thread *thread;
	struct dlp_iterator *it;
	struct dlp_worker *worker;
	struct dlp_batch *batch;
	struct dlp_pipe *pipe;
	size_t at;
	int err;

	/* torch's worker loop runs on the process's main thread */
	if (ev->hdr.tid != ev->hdr.tgid)
		return 0;
	thread = dlp_thread_get(model, ev->hdr.tgid, ev->hdr.tid, &err);
	if (!thread)
		return err;
	if (type != DLP_MSG_INDEX) {
		taken_other(model, ev, thread, type);
		return 0;
	}
	pipe = pipe_of_worker(model, thread, ev, index);
	if (!pipe || (pipe->worker_pid && pipe->worker_pid != ev->hdr.tgid))
		return 0;
	at = match_ask(pipe, ev, index, LOOK_AHEAD);
	if (at == pipe->cnt)
		return 0;
	if (!dlp_thread_state_get(thread))
		return -ENOMEM;
	thread->state_priv->pipe = pipe->inode;
	pipe->worker_pid = ev->hdr.tgid;
	/*
	 * Forked by the trainer and asked by it: a worker, though it may never send anything and end before
	 * /proc was looked at. The ends of its production need its batches, so tie all together first.
	 */
	err = 0;
	worker = thread->brood ? dlp_worker_get(model, ev->hdr.tgid, ev->hdr.ts_ns, &err) :
				 dlp_worker_find(model, ev->hdr.tgid);
	if (err)
		return err;
	if (worker) {
		worker->pipe = pipe->inode;
		it = worker->proven ? dlp_iterator_find(model, worker->iterator) : NULL;
		if (it) {
			err = pipe_link(model, pipe, it);
			if (err)
				return err;
		}
	}
	dlp_produce_end(model, thread, ev->hdr.ts_ns, &ev->clock);
	note_first(thread, ev, index);
	note_clock(model, thread, ev);
	dlp_produce_begin(thread, index, ev->hdr.ts_ns, &ev->clock);
	dlp_ask_at(pipe, at)->taken_ns = ev->hdr.ts_ns;
	pipe->taken = at + 1;
	progress(model, ev->hdr.ts_ns);
	it = dlp_iterator_find(model, pipe->iterator);
	if (!it)
		return 0;
	batch = dlp_batch_find(it, index);
	if (batch) {
		batch->taken_ns = ev->hdr.ts_ns;
		batch->worker_pid = ev->hdr.tgid;
	}
	dlp_ask_pop(model, pipe, pipe->taken);
	return 0;
}

/* The iterator that owns a result pipe, made if need be. */
static struct dlp_iterator *result_iterator(struct dlp_model *model, uint64_t inode,
					    const struct dlp_worker *worker, uint64_t ts_ns,
					    int *err)
{
	struct dlp_iterator *it = result_owner(model, inode);

	*err = 0;
	/* a worker born later, on the pipe of a dead iterator: the kernel reused the number */
	if (it && it->ended && worker->iterator != it->id &&
	    worker->born_ns > it->state->ended_ns)
		it = NULL;
	if (it && it->ended && !worker->died_ns &&
	    (it->num_workers < 0 || it->state->final_cnt < (uint32_t)it->num_workers)) {
		/* the workers known so far had died, but here is another one */
		it->ended = false;
		dlp_iterator_used(model, it->id);
	}
	if (it)
		return it;
	it = dlp_iterator_new(model, inode, ts_ns, err);
	if (!it)
		return NULL;
	if (dlp_in_window(model, worker->born_ns)) {
		it->state->fresh = true;
		it->next_index = 0;
		it->state->reset_ns = ts_ns;
	}
	return it;
}

/* A worker answers in order: what it was asked before has been sent, though that was lost. */
static void infer_sent(struct dlp_iterator *it, uint32_t pid, int64_t index, uint64_t ts_ns)
{
	for (size_t i = 0; i < it->batch_cnt && it->batches[i].index < index; i++) {
		if (it->batches[i].worker_pid == pid && !it->batches[i].sent_ns)
			it->batches[i].sent_ns = ts_ns;
	}
}

/* The pipe keeps order: what was clearly sent before has been received, though that was lost. */
static void infer_received(struct dlp_iterator *it, uint64_t sent_ns, uint64_t ts_ns)
{
	for (size_t i = 0; i < it->batch_cnt; i++) {
		struct dlp_batch *batch = &it->batches[i];

		if (batch->sent_ns && !batch->received_ns && batch->sent_ns + SKEW_NS < sent_ns)
			batch->received_ns = ts_ns;
	}
}

/* A process that is not the trainer sends on a result pipe. */
static int result(struct dlp_model *model, const struct dlp_ev_msg *ev, enum dlp_msg_type type,
		  int64_t index)
{
	struct dlp_worker *worker;
	struct dlp_iterator *it;
	struct dlp_batch *batch;
	struct dlp_pipe *pipe;
	int err;

	if (!ev->inode)
		return 0;
	if (type == DLP_MSG_RESUME)
		resume(result_owner(model, ev->inode), ev->hdr.ts_ns);
	if (type != DLP_MSG_INDEX && type != DLP_MSG_END)
		return 0;
	worker = dlp_worker_get(model, ev->hdr.tgid, ev->hdr.ts_ns, &err);
	if (!worker)
		return err;
	it = result_iterator(model, ev->inode, worker, ev->hdr.ts_ns, &err);
	if (!it)
		return err;
	/* what was concluded from its brothers gives way to its own message */
	if (!worker->proven || !worker->iterator)
		dlp_worker_link(model, worker, it);
	worker->proven = true;
	pipe = dlp_pipe_find(model, worker->pipe);
	if (pipe && worker->iterator == it->id) {
		err = pipe_link(model, pipe, it);
		if (err)
			return err;
	}
	if (type == DLP_MSG_END)
		worker->shard_ended = it->state->shards = true;
	else if (dlp_in_window(model, ev->hdr.ts_ns))
		worker->batch_cnt++;
	it->end_ns = dlp_max(it->end_ns, ev->hdr.ts_ns);
	progress(model, ev->hdr.ts_ns);
	batch = dlp_batch_get(model, it, index, &err);
	if (!batch)
		return err;
	infer_sent(it, ev->hdr.tgid, index, ev->hdr.ts_ns);
	batch->sent_ns = ev->hdr.ts_ns;
	batch->bytes = ev->bytes;
	batch->worker_pid = ev->hdr.tgid;
	batch->end_mark = type == DLP_MSG_END;
	if (index > it->state->max_index)
		it->state->max_index = index;
	dlp_produce_sent(model, ev->hdr.tgid, batch);
	return 0;
}

/* Which of the iterators in use has this result on its way; NULL = none. */
static struct dlp_iterator *iterator_by_result(struct dlp_model *model,
					       const struct dlp_thread *thread,
					       const struct dlp_ev_msg *ev, int64_t index)
{
	struct dlp_model_priv *priv = model->priv;
	const struct dlp_iterator *last = NULL;
	struct dlp_iterator *best = NULL;
	uint32_t predicted = 0;
	int best_score = -1;

	if (thread && thread->state_priv)
		last = dlp_iterator_find(model, thread->state_priv->last_iterator);
	if (last)
		predicted = last->state->successor ? last->state->successor : last->id;
	for (size_t i = 0; i < priv->recent_iterator_cnt && i < LOOK_BACK; i++) {
		struct dlp_iterator *it = dlp_iterator_find(model, priv->recent_iterator[i]);
		const struct dlp_batch *batch = it ? dlp_batch_find(it, index) : NULL;
		int score;

		if (!batch || !batch->sent_ns || batch->received_ns || batch->bytes != ev->bytes)
			continue;
		score = 4 * (it->state->recv_tid == ev->hdr.tid) +
			2 * (it->next_index == index) + (it->id == predicted);
		if (score > best_score) {
			best = it;
			best_score = score;
		}
	}
	return best;
}

/* The trainer reads from a result pipe. */
static int received(struct dlp_model *model, const struct dlp_ev_msg *ev, enum dlp_msg_type type,
		    int64_t index)
{
	struct dlp_thread_state *state;
	struct dlp_thread *thread;
	struct dlp_iterator *it;
	struct dlp_batch *batch;
	int err;

	if (type != DLP_MSG_INDEX && type != DLP_MSG_END)
		return 0;
	thread = dlp_thread_find(model, ev->hdr.tid);
	if (ev->inode)
		it = result_owner(model, ev->inode);
	else
		it = iterator_by_result(model, thread, ev, index);
	if (!it)
		return 0;
	batch = dlp_batch_find(it, index);
	if (!batch) {
		batch = dlp_batch_get(model, it, index, &err);
		if (!batch)
			return err;
		batch->bytes = ev->bytes;
		batch->end_mark = type == DLP_MSG_END;
	}
	infer_received(it, batch->sent_ns, ev->hdr.ts_ns);
	batch->received_ns = ev->hdr.ts_ns;
	it->end_ns = dlp_max(it->end_ns, ev->hdr.ts_ns);
	it->state->recv_tid = ev->hdr.tid;
	it->state->last_recv_index = index;
	it->state->last_recv_ns = ev->hdr.ts_ns;
	progress(model, ev->hdr.ts_ns);
	thread = dlp_thread_of(model, &ev->hdr, &err);
	if (!thread)
		return err;
	state = thread->state_priv;
	state->recv = (struct dlp_recv){
		.iterator = it->id,
		.index = index,
		.ts_ns = ev->hdr.ts_ns,
		.end = type == DLP_MSG_END,
		.clock = ev->clock,
	};
	if (!state->recv_first.ts_ns)
		state->recv_first = state->recv;
	return 0;
}

int dlp_queue_msg(struct dlp_model *model, const struct dlp_ev_msg *ev)
{
	bool trainer = ev->hdr.tgid == model->trainer_pid;
	enum dlp_msg_type type;
	int64_t index;

	if (!model->trainer_pid)
		return 0;
	type = dlp_msg_parse(ev->prefix,
			     ev->prefix_len < DLP_MSG_PREFIX ? ev->prefix_len : DLP_MSG_PREFIX,
			     &index);
	if (type == DLP_MSG_OTHER)
		return 0;
	/* it takes a batch's place in every respect */
	if (type == DLP_MSG_ERROR) {
		if (!trainer && ev->dir == DLP_MSG_SEND && dlp_in_window(model, ev->hdr.ts_ns)) {
			model->error_ns = ev->hdr.ts_ns;
			model->error_pid = ev->hdr.tgid;
		}
		type = DLP_MSG_INDEX;
	}
	if (ev->dir == DLP_MSG_SEND)
		return trainer ? asked(model, ev, type, index) : result(model, ev, type, index);
	if (ev->dir == DLP_MSG_RECV)
		return trainer ? received(model, ev, type, index) :
				 taken(model, ev, type, index);
	return 0;
}
