/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's workers: birth, death, clocks, and how long each batch took to produce. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "model_priv.h"
#include "util.h"

/* Time stamps of different CPUs may be swapped by this much, generously. */
#define CLOCK_SKEW_NS 1000000
#define LISTED_MAX DLP_ARRAY_SIZE(((struct dlp_iterator *)0)->worker_pid)

struct dlp_worker *dlp_worker_find(struct dlp_model *model, uint32_t pid)
{
	uint32_t at = dlp_map_get(&model->priv->by_pid, pid);

	return at == DLP_MAP_NONE ? NULL : &model->workers[at];
}

const struct dlp_worker *dlp_model_worker(const struct dlp_model *model, uint32_t pid)
{
	return dlp_worker_find((struct dlp_model *)model, pid);
}

static void fold(struct dlp_folded *sum, const struct dlp_worker *worker)
{
	sum->worker_cnt++;
	sum->worker_batch_cnt += worker->batch_cnt;
	dlp_hist_merge(&sum->produce, &worker->produce);
	dlp_clock_add(&sum->worker_clock, &worker->clock);
	sum->worker_window_ns += worker->window_ns;
	sum->worker_cpu_ns += worker->cpu_ns;
}

/* The older half of the dead ones goes into the sums: one pass for many births. */
static void fold_dead(struct dlp_model *model)
{
	struct dlp_model_priv *priv = model->priv;
	size_t goal = priv->dead_worker_cnt / 2 + 1, kept = 0;

	for (size_t i = 0; i < model->worker_cnt; i++) {
		struct dlp_worker *worker = &model->workers[i];

		if (worker->died_ns && goal) {
			goal--;
			priv->dead_worker_cnt--;
			if (model->watch)
				model->watch->folded(model->watch_ctx, worker);
			fold(&model->folded, worker);
			if (dlp_map_get(&priv->by_pid, worker->pid) == i)
				dlp_map_del(&priv->by_pid, worker->pid);
			continue;
		}
		if (kept != i) {
			/* an older one with a reused pid is not the one in the table */
			if (dlp_map_get(&priv->by_pid, worker->pid) == i)
				(void)dlp_map_put(&priv->by_pid, worker->pid, (uint32_t)kept);
			model->workers[kept] = *worker;
		}
		kept++;
	}
	model->worker_cnt = kept;
}

static void link_by_brood(struct dlp_model *model, struct dlp_worker *worker)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_iterator *it;
	size_t at = worker->brood % DLP_BROODS_MAX;

	if (worker->iterator || !worker->brood || priv->broods[at].brood != worker->brood)
		return;
	it = dlp_iterator_find(model, priv->broods[at].iterator);
	if (it && !it->ended)
		dlp_worker_link(model, worker, it);
}

struct dlp_worker *dlp_worker_get(struct dlp_model *model, uint32_t pid, uint64_t ts_ns, int *err)
{
	struct dlp_model_priv *priv = model->priv;
	const struct dlp_thread *thread;
	struct dlp_worker *worker;

	*err = 0;
	worker = dlp_worker_find(model, pid);
	/* nobody acts after death: the number was given to a new process whose birth is lost */
	if (worker && worker->died_ns && ts_ns > worker->died_ns + CLOCK_SKEW_NS) {
		dlp_map_del(&priv->by_pid, pid);
		worker = NULL;
	}
	if (worker)
		return worker;
	if (priv->dead_worker_cnt >= DLP_MODEL_DEAD_WORKERS_MAX ||
	    (model->worker_cnt >= DLP_MODEL_WORKERS_MAX && priv->dead_worker_cnt))
		fold_dead(model);
	if (model->worker_cnt >= DLP_MODEL_WORKERS_MAX) {
		model->dropped_cnt++;
		return NULL;
	}
	*err = dlp_grow(&model->workers, &priv->worker_room, model->worker_cnt, sizeof(*worker));
	if (!*err)
		*err = dlp_map_put(&priv->by_pid, pid, (uint32_t)model->worker_cnt);
	if (*err)
		return NULL;
	worker = &model->workers[model->worker_cnt++];
	memset(worker, 0, sizeof(*worker));
	worker->pid = pid;
	thread = dlp_thread_find(model, pid);
	if (!thread || (thread->dead && ts_ns > thread->read_ns + CLOCK_SKEW_NS))
		return worker;
	worker->born_ns = thread->born_ns;
	worker->brood = thread->brood;
	if (thread->base_set)
		dlp_worker_read(model, worker, thread);
	if (thread->state_priv)
		worker->pipe = thread->state_priv->pipe;
	link_by_brood(model, worker);
	if (thread->dead)
		dlp_worker_died(model, worker, dlp_max(ts_ns, thread->read_ns), DLP_EXIT_UNKNOWN);
	return worker;
}

static void unlink_worker(struct dlp_model *model, const struct dlp_worker *worker)
{
	struct dlp_iterator *it = dlp_iterator_find(model, worker->iterator);
	uint32_t listed;

	if (!it)
		return;
	listed = it->worker_cnt < LISTED_MAX ? it->worker_cnt : LISTED_MAX;
	for (uint32_t i = 0; i < listed; i++) {
		if (it->worker_pid[i] != worker->pid)
			continue;
		memmove(&it->worker_pid[i], &it->worker_pid[i + 1],
			(listed - i - 1) * sizeof(it->worker_pid[0]));
		break;
	}
	it->worker_cnt--;
	if (!worker->died_ns && it->state->alive_cnt)
		it->state->alive_cnt--;
}

void dlp_worker_bind(struct dlp_worker *worker, struct dlp_loader *loader)
{
	/* what it made before that was known */
	if (!worker->loader) {
		loader->sums.made_cnt += worker->produce.cnt;
		loader->sums.made_ns += worker->produce.sum_ns;
	}
	worker->loader = loader->id;
}

void dlp_worker_link(struct dlp_model *model, struct dlp_worker *worker, struct dlp_iterator *it)
{
	struct dlp_model_priv *priv = model->priv;
	struct dlp_loader *loader = dlp_loader_find(model, it->loader);
	size_t at = worker->brood % DLP_BROODS_MAX;

	if (worker->iterator == it->id)
		return;
	unlink_worker(model, worker);
	worker->iterator = it->id;
	if (loader)
		dlp_worker_bind(worker, loader);
	if (it->worker_cnt < LISTED_MAX)
		it->worker_pid[it->worker_cnt] = worker->pid;
	it->worker_cnt++;
	if (!worker->died_ns)
		it->state->alive_cnt++;
	dlp_iterator_workers(model, it, 0);
	if (!worker->brood || priv->broods[at].brood == worker->brood)
		return;
	/* its brothers that have sent nothing yet serve the same iterator */
	priv->broods[at].brood = worker->brood;
	priv->broods[at].iterator = it->id;
	for (size_t i = 0; i < model->worker_cnt; i++) {
		if (model->workers[i].brood == worker->brood)
			link_by_brood(model, &model->workers[i]);
	}
}

int dlp_worker_proc(struct dlp_model *model, const struct dlp_ev_proc *ev)
{
	struct dlp_worker *worker;
	struct dlp_thread *thread;
	uint32_t pid = ev->hdr.tgid;
	int err;

	if (ev->role == DLP_ROLE_TRAINER && !model->trainer_pid)
		model->trainer_pid = pid;
	worker = dlp_worker_find(model, pid);
	if (!worker && ev->role == DLP_ROLE_WORKER && !ev->ended && pid != model->trainer_pid) {
		worker = dlp_worker_get(model, pid, ev->hdr.ts_ns, &err);
		if (err)
			return err;
	}
	if (!worker)
		return 0;
	thread = dlp_thread_find(model, pid);
	if (thread && !ev->ended) {
		/* forks and exits are counted from here on */
		thread->threads = ev->threads;
		if (ev->threads > thread->threads_max)
			thread->threads_max = ev->threads;
	}
	if (ev->threads > worker->threads_max)
		worker->threads_max = ev->threads;
	if (!worker->born_ns)
		worker->born_ns = ev->born_ns;
	if (!worker->proc_first.hdr.size)
		worker->proc_first = *ev;
	worker->proc_last = *ev;
	if (ev->ended && !worker->died_ns)
		dlp_worker_died(model, worker, ev->hdr.ts_ns, DLP_EXIT_UNKNOWN);
	return 0;
}

static struct dlp_usage usage_less(const struct dlp_usage *a, const struct dlp_usage *b)
{
	return (struct dlp_usage){
		.minflt = dlp_less(a->minflt, b->minflt),
		.utime_ns = dlp_less(a->utime_ns, b->utime_ns),
		.stime_ns = dlp_less(a->stime_ns, b->stime_ns),
	};
}

static void usage_add(struct dlp_usage *to, const struct dlp_usage *what)
{
	to->minflt += what->minflt;
	to->utime_ns += what->utime_ns;
	to->stime_ns += what->stime_ns;
}

/*
 * What the worker did goes to its loader's account: making batches, from the first one on, and
 * getting ready for that.
 */
void dlp_worker_charge(struct dlp_model *model, struct dlp_worker *worker,
		       const struct dlp_thread *thread, const struct dlp_clock *clock,
		       const struct dlp_usage *usage)
{
	const struct dlp_thread_state *state = thread->state_priv;
	struct dlp_loader *loader = dlp_loader_find(model, worker->loader);
	struct dlp_usage used;
	struct dlp_clock made, delta;

	if (!loader || !model->priv->open || model->closed)
		return;
	if (thread->born_ns) {
		if (!state || !state->first_taken_ns)
			return;
		made = dlp_clock_less(clock, &state->first_clock);
		if (!worker->charged)
			dlp_clock_add(&loader->sums.boot, &state->first_clock);
	} else if (thread->base_set) {
		made = dlp_clock_less(clock, &thread->base);
	} else {
		return;
	}
	worker->charged = true;
	/* a reading may be older than the message before it */
	if (dlp_clock_sum(&made) <= dlp_clock_sum(&worker->made))
		return;
	delta = dlp_clock_less(&made, &worker->made);
	dlp_clock_add(&loader->sums.made, &delta);
	worker->made = made;
	used = usage_less(usage, thread->born_ns ? &state->first_usage : &thread->base_usage);
	used = usage_less(&used, &worker->usage);
	usage_add(&loader->sums.usage, &used);
	usage_add(&worker->usage, &used);
}

void dlp_worker_read(struct dlp_model *model, struct dlp_worker *worker,
		     const struct dlp_thread *thread)
{
	struct dlp_clock now, delta;

	if (worker->died_ns)
		return;
	if (thread->threads_max > worker->threads_max)
		worker->threads_max = thread->threads_max;
	if (!model->priv->open)
		return;
	now = dlp_clock_less(&thread->clock, &thread->base);
	delta = dlp_clock_less(&now, &worker->clock);
	dlp_clock_add(&model->priv->now.workers, &delta);
	dlp_worker_charge(model, worker, thread, &thread->clock, &thread->usage);
	worker->clock = now;
	worker->clock_valid = thread->read_ns > thread->base_ns;
	worker->window_ns = dlp_less(thread->read_ns, thread->base_ns);
	worker->cpu_ns = dlp_less(thread->cpu_ns, thread->base_cpu_ns);
}

/* Nobody sends these to a process that is to end in an orderly way. */
static bool is_fatal(unsigned int sig)
{
	return sig == SIGKILL || sig == SIGBUS || sig == SIGSEGV || sig == SIGABRT ||
	       sig == SIGILL || sig == SIGFPE;
}

static void judge_end(struct dlp_model *model, struct dlp_worker *worker)
{
	const struct dlp_thread *trainer = dlp_thread_find(model, model->trainer_pid);
	const struct dlp_pipe *pipe = dlp_pipe_find(model, worker->pipe);

	if (worker->exit_code == DLP_EXIT_UNKNOWN || (pipe && pipe->final) ||
	    (trainer && trainer->dead))
		return;
	worker->unexpected = is_fatal(worker->exit_code & 0x7f) || worker->exit_code >> 8 & 0xff;
}

static void note_end(struct dlp_model *model, struct dlp_worker *worker)
{
	struct dlp_loader *loader = dlp_loader_find(model, worker->loader);
	struct dlp_iterator *it = dlp_iterator_find(model, worker->iterator);
	bool barren = !worker->batch_cnt && worker->shard_ended &&
		      dlp_in_window(model, worker->born_ns);

	if (loader) {
		loader->sums.fruitful_cnt += worker->batch_cnt > 0;
		loader->sums.barren_cnt += barren;
	} else if (it) {
		/* an empty shard ends before the iterator's first call does */
		it->state->barren_cnt += barren;
	}
}

void dlp_worker_died(struct dlp_model *model, struct dlp_worker *worker, uint64_t ts_ns,
		     uint32_t exit_code)
{
	struct dlp_iterator *it = dlp_iterator_find(model, worker->iterator);

	/* 0 means alive */
	worker->died_ns = dlp_max(ts_ns, 1);
	worker->exit_code = exit_code;
	model->priv->dead_worker_cnt++;
	note_end(model, worker);
	judge_end(model, worker);
	if (!it)
		return;
	it->state->gone_ns = worker->died_ns;
	if (it->state->alive_cnt)
		it->state->alive_cnt--;
	/* some may not have been heard of yet, unless all that could be were told to end */
	if (!it->state->alive_cnt && ((int)it->worker_cnt >= it->num_workers ||
				      it->state->final_cnt >= it->state->pipe_cnt))
		dlp_iterator_end(it, ts_ns);
}

void dlp_worker_exit(struct dlp_model *model, struct dlp_worker *worker,
		     const struct dlp_thread *thread, const struct dlp_ev_exit *ev)
{
	bool known = worker->died_ns;

	if (known && (worker->exit_code != DLP_EXIT_UNKNOWN || ev->hdr.ts_ns > worker->died_ns))
		return;
	worker->died_ns = 0;
	dlp_worker_read(model, worker, thread);
	dlp_idle_note(model, thread, ev->hdr.ts_ns, &ev->clock);
	if (!known) {
		dlp_worker_died(model, worker, ev->hdr.ts_ns, ev->exit_code);
		return;
	}
	worker->died_ns = dlp_max(ev->hdr.ts_ns, 1);
	worker->exit_code = ev->exit_code;
	judge_end(model, worker);
}

void dlp_produce_begin(struct dlp_thread *thread, int64_t index, uint64_t ts_ns,
		       const struct dlp_clock *clock)
{
	struct dlp_thread_state *state = thread->state_priv;

	state->index = index;
	state->taken_ns = ts_ns;
	state->taken_idle_ns = clock->ns[DLP_ST_IDLE];
	state->foreign = false;
}

static void count_production(struct dlp_model *model, uint32_t pid, int64_t index,
			     uint64_t taken_ns, uint64_t ns)
{
	struct dlp_worker *worker = dlp_worker_find(model, pid);
	struct dlp_loader *loader;
	struct dlp_interval interval = {
		.start_ns = taken_ns,
		.end_ns = taken_ns + ns,
		.batch = index,
		.worker_pid = pid,
	};

	if (worker && model->watch)
		model->watch->production(model->watch_ctx, &interval);
	if (!worker || !dlp_in_window(model, interval.end_ns))
		return;
	loader = dlp_loader_find(model, worker->loader);
	if (loader) {
		loader->sums.made_cnt++;
		loader->sums.made_ns += ns;
	}
	dlp_hist_add(&worker->produce, ns);
	dlp_longest_add(&worker->produce_longest, &interval);
}

/*
 * The main thread is done with a batch; its feeder thread may send the result later, and only
 * that says whether it was data or the end of the shard.
 */
static void produced(struct dlp_model *model, struct dlp_thread *thread, uint64_t ns)
{
	struct dlp_thread_state *state = thread->state_priv;
	struct dlp_worker *worker = dlp_worker_find(model, thread->tid);
	struct dlp_iterator *it =
		worker && worker->proven ? dlp_iterator_find(model, worker->iterator) : NULL;
	struct dlp_batch *batch = it ? dlp_batch_find(it, state->index) : NULL;
	int64_t index = state->index;

	state->index = -1;
	if (state->owed.loader && state->owed.index == index)
		dlp_exposed_settle(model, state, state->taken_ns + ns);
	if (worker && worker->shard_ended)
		return;
	if (batch && batch->worker_pid == thread->tid)
		batch->produced_ns = state->taken_ns + ns;
	/* no longer in flight: delivered, so it was data */
	if (it && (!batch || batch->sent_ns)) {
		count_production(model, thread->tid, index, state->taken_ns, ns);
		return;
	}
	/* two behind: it is data, or no further index would have been taken */
	if (state->done_index >= 0)
		count_production(model, thread->tid, state->done_index, state->done_taken_ns,
				 state->done_ns);
	/* what a worker's death cuts off is never sent */
	state->done_index = thread->dead ? -1 : index;
	state->done_taken_ns = state->taken_ns;
	state->done_ns = ns;
}

void dlp_produce_sent(struct dlp_model *model, uint32_t pid, struct dlp_batch *batch)
{
	struct dlp_thread *thread = dlp_thread_find(model, pid);
	struct dlp_thread_state *state = thread ? thread->state_priv : NULL;

	if (!state)
		return;
	if (state->done_index == batch->index) {
		batch->produced_ns = state->done_taken_ns + state->done_ns;
		if (!batch->end_mark)
			count_production(model, pid, batch->index, state->done_taken_ns,
					 state->done_ns);
		state->done_index = -1;
	} else if (state->index == batch->index) {
		if (batch->end_mark)
			state->index = -1;
	} else if (state->index >= 0 && !batch->taken_ns) {
		state->foreign = true;
	}
}

void dlp_produce_end(struct dlp_model *model, struct dlp_thread *thread, uint64_t ts_ns,
		     const struct dlp_clock *clock)
{
	struct dlp_thread_state *state = thread->state_priv;
	uint64_t idle_ns;

	if (!state || state->index < 0 || ts_ns < state->taken_ns)
		return;
	if (state->foreign) {
		state->index = -1;
		return;
	}
	idle_ns = dlp_less(clock->ns[DLP_ST_IDLE], state->taken_idle_ns);
	produced(model, thread, dlp_less(ts_ns - state->taken_ns, idle_ns));
}

void dlp_produce_end_at(struct dlp_model *model, struct dlp_thread *thread, uint64_t ts_ns)
{
	struct dlp_thread_state *state = thread->state_priv;

	if (!state || state->index < 0 || ts_ns < state->taken_ns)
		return;
	if (state->foreign) {
		state->index = -1;
		return;
	}
	produced(model, thread, ts_ns - state->taken_ns);
}
