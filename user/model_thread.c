/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's threads: their clocks since the window opened, and the training thread's figures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_priv.h"

/* Dead threads are swept out together, so that a job that forks all day pays little for each. */
#define DEAD_THREADS_MAX 256

struct dlp_thread *dlp_thread_find(struct dlp_model *model, uint32_t tid)
{
	uint32_t at = dlp_map_get(&model->priv->by_tid, tid);

	return at == DLP_MAP_NONE ? NULL : &model->threads[at];
}

const struct dlp_thread *dlp_model_thread(const struct dlp_model *model, uint32_t tid)
{
	return dlp_thread_find((struct dlp_model *)model, tid);
}

/* Threads of workers, their main threads left out. */
bool dlp_thread_in_pool(const struct dlp_model *model, const struct dlp_thread *thread)
{
	return !thread->main && thread->tgid != model->trainer_pid && thread->base_set;
}

static void fold_pool(struct dlp_model *model, const struct dlp_thread *thread)
{
	struct dlp_clock spent = dlp_clock_less(&thread->clock, &thread->base);

	if (dlp_thread_in_pool(model, thread))
		dlp_clock_add(&model->folded.pool, &spent);
}

/* What waits to learn when its worker was done with a batch will not learn it any more. */
static void drop_state(struct dlp_model *model, struct dlp_thread *thread)
{
	if (thread->state_priv && thread->state_priv->owed.loader)
		dlp_exposed_settle(model, thread->state_priv, 0);
	free(thread->state_priv);
}

static void purge_dead(struct dlp_model *model)
{
	struct dlp_model_priv *priv = model->priv;
	size_t kept = 0;

	priv->dead_thread_cnt = 0;
	for (size_t i = 0; i < model->thread_cnt; i++) {
		struct dlp_thread *thread = &model->threads[i];

		if (thread->dead && thread->tid != model->main_tid) {
			fold_pool(model, thread);
			dlp_map_del(&priv->by_tid, thread->tid);
			drop_state(model, thread);
			continue;
		}
		priv->dead_thread_cnt += thread->dead;
		if (kept != i) {
			model->threads[kept] = *thread;
			/* replaces an entry, so it needs no memory */
			(void)dlp_map_put(&priv->by_tid, thread->tid, (uint32_t)kept);
		}
		kept++;
	}
	model->thread_cnt = kept;
}

static void thread_init(struct dlp_thread *thread, uint32_t tgid, uint32_t tid)
{
	memset(thread, 0, sizeof(*thread));
	thread->tid = tid;
	thread->tgid = tgid;
	thread->main = tid == tgid;
	thread->threads = thread->threads_max = thread->main;
}

struct dlp_thread *dlp_thread_get(struct dlp_model *model, uint32_t tgid, uint32_t tid, int *err)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_thread *thread;

	*err = 0;
	thread = dlp_thread_find(model, tid);
	if (thread)
		return thread;
	if (priv->dead_thread_cnt > DEAD_THREADS_MAX ||
	    (model->thread_cnt >= DLP_MODEL_THREADS_MAX && priv->dead_thread_cnt))
		purge_dead(model);
	if (model->thread_cnt >= DLP_MODEL_THREADS_MAX) {
		model->dropped_cnt++;
		return NULL;
	}
	*err = dlp_grow(&model->threads, &priv->thread_room, model->thread_cnt, sizeof(*thread));
	if (!*err)
		*err = dlp_map_put(&priv->by_tid, tid, (uint32_t)model->thread_cnt);
	if (*err)
		return NULL;
	thread = &model->threads[model->thread_cnt++];
	thread_init(thread, tgid, tid);
	return thread;
}

struct dlp_thread_state *dlp_thread_state_get(struct dlp_thread *thread)
{
	if (!thread->state_priv) {
		thread->state_priv = calloc(1, sizeof(*thread->state_priv));
		if (thread->state_priv)
			thread->state_priv->index = thread->state_priv->done_index = -1;
	}
	return thread->state_priv;
}

struct dlp_thread *dlp_thread_of(struct dlp_model *model, const struct dlp_ev_hdr *hdr, int *err)
{
	struct dlp_thread *thread = dlp_thread_get(model, hdr->tgid, hdr->tid, err);

	if (!thread || dlp_thread_state_get(thread))
		return thread;
	*err = -ENOMEM;
	return NULL;
}

void dlp_threads_fini(struct dlp_model *model)
{
	for (size_t i = 0; i < model->thread_cnt; i++)
		free(model->threads[i].state_priv);
	free(model->threads);
	dlp_map_fini(&model->priv->by_tid);
}

static struct dlp_thread_counts counts_less(const struct dlp_thread_counts *a,
					    const struct dlp_thread_counts *b)
{
	return (struct dlp_thread_counts){
		.getnext_cnt = dlp_less(a->getnext_cnt, b->getnext_cnt),
		.getnext_ns = dlp_less(a->getnext_ns, b->getnext_ns),
		.getnext_split = dlp_clock_less(&a->getnext_split, &b->getnext_split),
		.send_cnt = dlp_less(a->send_cnt, b->send_cnt),
		.recv_cnt = dlp_less(a->recv_cnt, b->recv_cnt),
		.switch_cnt = dlp_less(a->switch_cnt, b->switch_cnt),
	};
}

static uint64_t recent_after(const struct dlp_thread_state *state, uint64_t ts_ns)
{
	uint64_t held = state->recent_cnt < DLP_RECENT_MAX ? state->recent_cnt : DLP_RECENT_MAX;
	uint64_t cnt = 0;

	for (uint64_t i = 0; i < held; i++)
		cnt += state->recent[i] > ts_ns;
	return cnt;
}

/* One reading of a clock, by the iterator or at the thread's end. */
struct reading {
	const struct dlp_clock *clock;
	const struct dlp_thread_counts *counts;
	uint64_t ts_ns, traced_ns, cpu_ns;
	uint64_t getnext_since_ns; /* 0 = in none */
	const struct dlp_clock *getnext_now;
};

static int set_base(struct dlp_model *model, struct dlp_thread *thread, const struct reading *read)
{
	struct dlp_model_priv *priv = model->priv;
	uint64_t opened_ns = priv->sweep_ns ? priv->sweep_ns : model->start_ns;
	struct dlp_thread_state *state;

	thread->base_set = true;
	if (priv->open && (thread->born_ns || read->traced_ns >= opened_ns)) {
		/* born in the window: its clock started at 0 with it */
		thread->base_ns = read->traced_ns ? read->traced_ns : thread->born_ns;
		return 0;
	}
	if (!priv->open && (!priv->sweep_ns || read->ts_ns < priv->sweep_ns))
		priv->sweep_ns = read->ts_ns;
	thread->base = *read->clock;
	thread->base_ns = read->ts_ns;
	thread->base_cpu_ns = read->cpu_ns;
	thread->base_counts = *read->counts;
	thread->getnext_base_ns =
		read->getnext_since_ns ? dlp_less(read->ts_ns, read->getnext_since_ns) : 0;
	if (!read->getnext_since_ns && !thread->state_priv)
		return 0;
	state = dlp_thread_state_get(thread);
	if (!state)
		return -ENOMEM;
	memset(&state->base_now, 0, sizeof(state->base_now));
	if (read->getnext_since_ns)
		state->base_now = *read->getnext_now;
	state->seen_cnt = recent_after(state, read->ts_ns);
	return 0;
}

static int take_reading(struct dlp_model *model, struct dlp_thread *thread,
			const struct reading *read)
{
	int err;

	if (thread->base_set && read->ts_ns < thread->read_ns)
		return 0;
	if (!thread->base_set || !model->priv->open) {
		err = set_base(model, thread, read);
		if (err)
			return err;
	}
	thread->clock = *read->clock;
	thread->read_ns = read->ts_ns;
	thread->cpu_ns = read->cpu_ns;
	thread->counts = counts_less(read->counts, &thread->base_counts);
	thread->getnext_since_ns = read->getnext_since_ns;
	if (read->getnext_since_ns)
		thread->getnext_now = *read->getnext_now;
	else
		memset(&thread->getnext_now, 0, sizeof(thread->getnext_now));
	return 0;
}

uint64_t dlp_thread_exposed(const struct dlp_thread *thread)
{
	uint64_t ns = thread->counts.getnext_ns;

	if (thread->getnext_since_ns)
		ns += dlp_less(thread->read_ns, thread->getnext_since_ns);
	return dlp_less(ns, thread->getnext_base_ns) + thread->begun_ns;
}

static uint64_t getnext_time(const struct dlp_thread *thread)
{
	return dlp_max(dlp_thread_exposed(thread), thread->scope_ns + thread->begun_ns);
}

static void consider_main(struct dlp_model *model, const struct dlp_thread *thread)
{
	const struct dlp_thread *now;

	if (!thread->getnext || thread->tid == model->main_tid ||
	    (model->trainer_pid && thread->tgid != model->trainer_pid))
		return;
	now = dlp_thread_find(model, model->main_tid);
	if (!now || getnext_time(thread) > getnext_time(now))
		model->main_tid = thread->tid;
}

void dlp_main_update(struct dlp_model *model)
{
	const struct dlp_thread *thread = dlp_thread_find(model, model->main_tid);
	const struct dlp_thread_state *state;
	struct dlp_clock all;
	uint64_t seen = 0;

	if (!thread)
		return;
	state = thread->state_priv;
	model->main_valid = thread->base_set && thread->read_ns > thread->base_ns;
	if (!model->main_valid) {
		model->exposed_ns = thread->scope_ns + thread->begun_ns;
		model->getnext_cnt = thread->scope_cnt + thread->begun_cnt;
		model->main_inside = thread->scope_split;
		dlp_clock_add(&model->main_inside, &thread->begun_split);
		memset(&model->main_outside, 0, sizeof(model->main_outside));
		return;
	}
	if (state)
		seen = dlp_less(state->seen_cnt, recent_after(state, thread->read_ns));
	model->getnext_lost = dlp_less(thread->counts.getnext_cnt, seen);
	model->getnext_cnt = thread->scope_cnt + thread->begun_cnt + model->getnext_lost;
	model->exposed_ns = dlp_thread_exposed(thread);
	model->main_inside = thread->counts.getnext_split;
	dlp_clock_add(&model->main_inside, &thread->getnext_now);
	if (state)
		model->main_inside = dlp_clock_less(&model->main_inside, &state->base_now);
	dlp_clock_add(&model->main_inside, &thread->begun_split);
	all = dlp_clock_less(&thread->clock, &thread->base);
	model->main_outside = dlp_clock_less(&all, &model->main_inside);
}

/* An outermost GetNext ended. */
void dlp_thread_scope(struct dlp_model *model, struct dlp_thread *thread,
		      const struct dlp_call *call)
{
	struct dlp_thread_state *state = thread->state_priv;

	thread->getnext = true;
	state->recent[state->recent_cnt++ % DLP_RECENT_MAX] = call->end_ns;
	if (!thread->base_set || call->end_ns > thread->base_ns)
		state->seen_cnt++;
	if (call->counts) {
		thread->scope_cnt++;
		thread->scope_ns +=
			dlp_less(call->end_ns, dlp_max(call->start_ns, model->start_ns));
		dlp_clock_add(&thread->scope_split, call->split);
	}
	consider_main(model, thread);
	if (thread->tid == model->main_tid && !model->main_valid)
		dlp_main_update(model);
}

static void take_usage(const struct dlp_model *model, struct dlp_thread *thread,
		       const struct dlp_usage *usage)
{
	thread->usage = *usage;
	if (!model->priv->open)
		thread->base_usage = *usage;
}

int dlp_thread_clock(struct dlp_model *model, const struct dlp_ev_clock *ev)
{
	struct reading read = {
		.clock = &ev->clock,
		.counts = &ev->counts,
		.ts_ns = ev->hdr.ts_ns,
		.traced_ns = ev->traced_ns,
		.cpu_ns = ev->cpu_ns,
		.getnext_since_ns = ev->getnext_since_ns,
		.getnext_now = &ev->getnext_now,
	};
	struct dlp_usage usage = { ev->minflt, ev->utime_ns, ev->stime_ns };
	struct dlp_thread *thread;
	struct dlp_worker *worker;
	int err;

	thread = dlp_thread_get(model, ev->hdr.tgid, ev->hdr.tid, &err);
	if (!thread)
		return err;
	err = take_reading(model, thread, &read);
	if (err)
		return err;
	thread->main |= !!(ev->hdr.flags & DLP_THREAD_MAIN);
	thread->getnext |= !!(ev->hdr.flags & DLP_THREAD_GETNEXT);
	thread->state = ev->state;
	thread->syscall = ev->syscall;
	thread->since_ns = ev->since_ns;
	thread->object = ev->object;
	thread->dev = ev->dev;
	thread->fs_magic = ev->fs_magic;
	memcpy(thread->comm, ev->comm, sizeof(thread->comm));
	take_usage(model, thread, &usage);
	if (thread->getnext) {
		consider_main(model, thread);
		if (thread->tid == model->main_tid)
			dlp_main_update(model);
	}
	if (ev->hdr.tid != ev->hdr.tgid)
		return 0;
	if (ev->state == DLP_ST_IDLE)
		dlp_produce_end(model, thread, ev->hdr.ts_ns, &ev->clock);
	worker = dlp_worker_find(model, ev->hdr.tgid);
	if (worker)
		dlp_worker_read(model, worker, thread);
	if (ev->state == DLP_ST_IDLE)
		dlp_idle_note(model, thread, ev->hdr.ts_ns, &ev->clock);
	return 0;
}

/* The process with this number is a new one: whatever was known of an older one is past. */
static void forget_process(struct dlp_model *model, uint32_t pid, uint64_t ts_ns)
{
	struct dlp_worker *worker = dlp_worker_find(model, pid);

	if (!worker)
		return;
	if (!worker->died_ns)
		dlp_worker_died(model, worker, ts_ns, DLP_EXIT_UNKNOWN);
	dlp_map_del(&model->priv->by_pid, pid);
}

int dlp_thread_fork(struct dlp_model *model, const struct dlp_ev_fork *ev)
{
	struct dlp_model_priv *priv = model->priv;
	bool is_thread = ev->hdr.flags & DLP_FORK_THREAD;
	struct dlp_thread *thread;
	int err;

	err = dlp_startup_fork(model, ev);
	if (err)
		return err;
	if (ev->hdr.tgid == model->trainer_pid) {
		if (!is_thread && !priv->brood_open)
			priv->brood_ids++;
		priv->brood_open = !is_thread;
	}
	if (!is_thread)
		forget_process(model, ev->child_tgid, ev->hdr.ts_ns);
	thread = dlp_thread_get(model, ev->child_tgid, ev->child_tid, &err);
	if (!thread)
		return err;
	priv->dead_thread_cnt -= thread->dead;
	fold_pool(model, thread);
	drop_state(model, thread);
	thread_init(thread, ev->child_tgid, ev->child_tid);
	thread->born_ns = ev->hdr.ts_ns;
	if (!is_thread) {
		if (ev->hdr.tgid == model->trainer_pid)
			thread->brood = priv->brood_ids;
		return 0;
	}
	thread = dlp_thread_find(model, ev->child_tgid);
	if (thread && ++thread->threads > thread->threads_max)
		thread->threads_max = thread->threads;
	return 0;
}

/* Died inside a GetNext? Then the kernel's count has not moved since it was in one. */
static void read_unfinished(const struct dlp_thread *thread, const struct dlp_ev_exit *ev,
			    struct reading *read, struct dlp_clock *room)
{
	struct dlp_clock since_read = dlp_clock_less(&ev->clock, &thread->clock);

	if (!thread->base_set || !thread->getnext_since_ns ||
	    dlp_less(ev->counts.getnext_cnt, thread->base_counts.getnext_cnt) !=
		    thread->counts.getnext_cnt)
		return;
	*room = thread->getnext_now;
	dlp_clock_add(room, &since_read);
	read->getnext_since_ns = thread->getnext_since_ns;
	read->getnext_now = room;
}

int dlp_thread_exit(struct dlp_model *model, const struct dlp_ev_exit *ev)
{
	struct reading read = {
		.clock = &ev->clock,
		.counts = &ev->counts,
		.ts_ns = ev->hdr.ts_ns,
		.traced_ns = ev->traced_ns,
		.cpu_ns = ev->cpu_ns,
	};
	struct dlp_usage usage = { ev->minflt, ev->utime_ns, ev->stime_ns };
	bool main = ev->hdr.tid == ev->hdr.tgid;
	struct dlp_thread *thread, *process;
	struct dlp_worker *worker;
	struct dlp_clock room;
	int err = 0;

	thread = dlp_thread_find(model, ev->hdr.tid);
	/* of those never seen only a process's main thread matters: it may be a worker's */
	if (!thread && main)
		thread = dlp_thread_get(model, ev->hdr.tgid, ev->hdr.tid, &err);
	if (!thread || thread->dead)
		return err;
	read_unfinished(thread, ev, &read, &room);
	err = take_reading(model, thread, &read);
	if (err)
		return err;
	take_usage(model, thread, &usage);
	thread->dead = true;
	thread->exit_code = ev->exit_code;
	model->priv->dead_thread_cnt++;
	if (thread->tid == model->main_tid)
		dlp_main_update(model);
	if (!main) {
		process = dlp_thread_find(model, ev->hdr.tgid);
		if (process && process->threads > 1)
			process->threads--;
		return 0;
	}
	dlp_produce_end(model, thread, ev->hdr.ts_ns, &ev->clock);
	worker = dlp_worker_find(model, ev->hdr.tgid);
	if (worker)
		dlp_worker_exit(model, worker, thread, ev);
	return 0;
}

int dlp_thread_exec(struct dlp_model *model, const struct dlp_ev_exec *ev)
{
	struct dlp_thread *thread = dlp_thread_find(model, ev->hdr.tid);

	if (thread)
		memcpy(thread->comm, ev->comm, sizeof(thread->comm));
	return 0;
}
