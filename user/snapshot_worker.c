/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The screen's rows of threads: what each has done lately, and what it does now. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsname.h"
#include "snapshot_priv.h"
#include "split.h"
#include "syscalls.h"
#include "util.h"

/* A little less than a second: intervals are never exactly as long as asked for. */
#define READING_NS (900 * DLP_NS_PER_MS)

static struct dlp_past *past_of(struct dlp_snapshots *snapshots, uint32_t pid)
{
	struct dlp_past *free_past = NULL;

	for (size_t i = 1; i < DLP_ARRAY_SIZE(snapshots->past); i++) {
		if (snapshots->past[i].pid == pid)
			return &snapshots->past[i];
		if (!snapshots->past[i].pid && !free_past)
			free_past = &snapshots->past[i];
	}
	if (free_past)
		*free_past = (struct dlp_past){ .pid = pid };
	return free_past;
}

/* Keeps `now` when the newest reading is old enough; returns the oldest kept, NULL = no other. */
static const struct dlp_reading *compare_with(struct dlp_past *past, const struct dlp_reading *now)
{
	const struct dlp_reading *newest;

	past->seen = true;
	newest = past->cnt ? &past->reading[(past->cnt - 1) % DLP_SNAP_PAST] : NULL;
	if (!newest || now->at_ns >= newest->at_ns + READING_NS) {
		past->reading[past->cnt % DLP_SNAP_PAST] = *now;
		past->cnt++;
	}
	if (past->cnt < 2)
		return NULL;
	return &past->reading[past->cnt > DLP_SNAP_PAST ? past->cnt % DLP_SNAP_PAST : 0];
}

static struct dlp_clock clock_since(const struct dlp_clock *now, const struct dlp_clock *then)
{
	struct dlp_clock ret = { 0 };

	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		ret.ns[i] = now->ns[i] > then->ns[i] ? now->ns[i] - then->ns[i] : 0;
	return ret;
}

/* Figures of the last seconds, or of the window while it is younger than that. */
static void lately(struct dlp_past *past, const struct dlp_reading *now, uint64_t start_ns,
		   struct dlp_snap_worker *row)
{
	const struct dlp_reading *then = past ? compare_with(past, now) : NULL;
	double seconds;

	if (!row)
		return;
	if (then) {
		row->recent = clock_since(&now->clock, &then->clock);
		start_ns = then->at_ns;
	} else {
		row->recent = now->clock;
	}
	seconds = now->at_ns > start_ns ? (double)(now->at_ns - start_ns) / 1e9 : NAN;
	row->rate = (double)(now->batch_cnt - (then ? then->batch_cnt : 0)) / seconds;
}

/* A system call that a running thread was in before says nothing. */
static bool blocked(uint32_t state)
{
	return state != DLP_ST_RUN && state != DLP_ST_RUNQ;
}

static void waits_for(const struct dlp_thread *thread, const struct dlp_snap_names *names,
		      struct dlp_snap_worker *row)
{
	char fs[24];
	const char *text;

	(void)snprintf(row->call, sizeof(row->call), "%s", dlp_syscall_name(thread->syscall));
	text = dlp_fsname(thread->fs_magic, fs, sizeof(fs));
	if (text && thread->dev)
		(void)snprintf(row->fs, sizeof(row->fs), "%s", text);
	text = NULL;
	if (names->object)
		text = names->object(names->ctx, thread, row->object, sizeof(row->object),
				     &row->is_path);
	if (!text && thread->dev && names->device)
		text = names->device(thread->dev, row->object, sizeof(row->object));
	/* a futex: its address tells whether two threads wait for the same lock */
	if (!text && thread->state == DLP_ST_LOCK && thread->object && !thread->dev) {
		(void)snprintf(row->object, sizeof(row->object), "0x%llx",
			       (unsigned long long)thread->object);
		return;
	}
	if (!text)
		row->object[0] = '\0';
}

static void now_doing(const struct dlp_model *model, const struct dlp_thread *thread,
		      const struct dlp_snap_names *names, struct dlp_snap_worker *row)
{
	uint64_t at_ns = thread->read_ns ? thread->read_ns : model->end_ns;

	row->known = thread->state < DLP_ST_MAX;
	row->state = thread->state;
	row->state_ns = thread->since_ns && at_ns > thread->since_ns ? at_ns - thread->since_ns : 0;
	row->threads = thread->threads;
	if (row->known && blocked(thread->state))
		waits_for(thread, names, row);
}

static void of_worker(const struct dlp_model *model, const struct dlp_worker *worker,
		      struct dlp_snap_worker *row)
{
	row->pid = worker->pid;
	row->loader = worker->loader;
	row->batch_cnt = worker->batch_cnt;
	row->dead = worker->died_ns;
	row->exit_code = worker->exit_code;
	row->total = worker->clock;
	if (worker->born_ns && model->end_ns > worker->born_ns)
		row->age_ns = model->end_ns - worker->born_ns;
	if (worker->produce.cnt) {
		row->median_ns = dlp_hist_quantile(&worker->produce, 0.5);
		row->p99_ns = dlp_hist_quantile(&worker->produce, 0.99);
		row->max_ns = worker->produce.max_ns;
	}
	if (worker->proc_last.hdr.size) {
		row->proc_known = true;
		row->cpus = worker->proc_last.cpus;
		row->read_bytes = worker->proc_last.read_bytes - worker->proc_first.read_bytes;
		row->majflt = worker->proc_last.majflt - worker->proc_first.majflt;
	}
}

static void of_trainer(struct dlp_snapshots *snapshots, const struct dlp_model *model,
		       struct dlp_snapshot *ret)
{
	struct dlp_reading now = { .at_ns = model->end_ns,
				   .clock = model->main_inside,
				   .batch_cnt = model->getnext_cnt };
	struct dlp_snap_worker *row = NULL;

	dlp_split_add(&now.clock, &model->main_outside);
	if (ret) {
		row = &ret->worker[ret->worker_cnt++];
		*row = (struct dlp_snap_worker){ .pid = model->main_tid ? model->main_tid :
									  model->trainer_pid,
						 .trainer = true,
						 .total = now.clock };
	}
	lately(&snapshots->past[0], &now, model->start_ns, row);
}

/* Living ones, and those whose end is news. */
static bool worth_a_row(const struct dlp_model *model, const struct dlp_worker *worker)
{
	return dlp_split_seen(worker) && dlp_split_counts(model, worker) &&
	       (!worker->died_ns || worker->unexpected);
}

static int by_pid(const void *a, const void *b)
{
	const struct dlp_snap_worker *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* One pass over all threads: a job has up to thousands of them, and few are asked about. */
static void add_threads(const struct dlp_model *model, const struct dlp_snap_names *names,
			struct dlp_snapshot *ret)
{
	struct dlp_snap_worker *first = &ret->worker[1];
	size_t cnt = ret->worker_cnt - 1;

	qsort(first, cnt, sizeof(*first), by_pid);
	for (size_t i = 0; i < model->thread_cnt; i++) {
		const struct dlp_thread *thread = &model->threads[i];
		struct dlp_snap_worker *row, key = { .pid = thread->tid };

		if (thread->dead)
			continue;
		if (thread->tid == ret->worker[0].pid)
			row = &ret->worker[0];
		else
			row = thread->main ? bsearch(&key, first, cnt, sizeof(*first), by_pid) :
					     NULL;
		if (row && !row->dead)
			now_doing(model, thread, names, row);
	}
}

static void forget_unseen(struct dlp_snapshots *snapshots)
{
	for (size_t i = 1; i < DLP_ARRAY_SIZE(snapshots->past); i++) {
		if (!snapshots->past[i].seen)
			snapshots->past[i].pid = 0;
		snapshots->past[i].seen = false;
	}
}

void dlp_snapshot_workers(struct dlp_snapshots *snapshots, const struct dlp_model *model,
			  const struct dlp_snap_names *names, struct dlp_snapshot *ret)
{
	/* a worker's batches are told by its messages */
	bool no_messages = model->governing.active & 1u << DLP_GOV_MESSAGES;

	of_trainer(snapshots, model, ret);
	/* the newest first: of too many, those that are alive get rows */
	for (size_t i = model->worker_cnt; i-- > 0;) {
		const struct dlp_worker *worker = &model->workers[i];
		struct dlp_reading now = { model->end_ns, worker->batch_cnt, worker->clock };
		struct dlp_snap_worker *row = NULL;

		if (!worth_a_row(model, worker))
			continue;
		if (ret) {
			ret->workers_alive += !worker->died_ns;
			if (ret->worker_cnt == DLP_ARRAY_SIZE(ret->worker)) {
				ret->workers_unseen++;
				continue;
			}
			row = &ret->worker[ret->worker_cnt++];
			*row = (struct dlp_snap_worker){ 0 };
			of_worker(model, worker, row);
		}
		lately(worker->died_ns ? NULL : past_of(snapshots, worker->pid), &now,
		       worker->born_ns > model->start_ns ? worker->born_ns : model->start_ns, row);
		if (row && (!worker->proven || no_messages))
			row->rate = NAN;
	}
	forget_unseen(snapshots);
	if (ret)
		add_threads(model, names, ret);
}
