/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* No progress: workers that sleep on something that never comes, workers that died. */
#include <signal.h>
#include <math.h>

#include "diagnose_priv.h"

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

/* Has this thread neither run nor moved from one wait to the next lately? */
static bool is_asleep(const struct dlp_model *model, const struct dlp_thread *thread)
{
	if (thread->dead || thread->state == DLP_ST_IDLE)
		return true;
	if (thread->state == DLP_ST_RUN || thread->state == DLP_ST_RUNQ)
		return false;
	return thread->since_ns && seconds(thread->since_ns, model->end_ns) >= LIMIT(ASLEEP_S);
}

static bool workers_asleep(const struct dlp_model *model)
{
	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];
		const struct dlp_thread *thread = dlp_split_thread(model, worker->pid);

		if (worker->died_ns || !dlp_split_counts(model, worker))
			continue;
		/* unknown is not asleep: silence is better than a false alarm */
		if (!thread || !is_asleep(model, thread))
			return false;
	}
	return true;
}

/*
 * A call that began before attaching is not known to the kernel side. It shows as a main thread
 * that did nothing but wait for the workers' pipe for the whole window.
 */
static bool waited_throughout(const struct dlp_model *model, const struct dlp_thread *thread)
{
	struct dlp_clock spent = thread->clock;
	double total;

	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		spent.ns[i] -= thread->base.ns[i] < spent.ns[i] ? thread->base.ns[i] : spent.ns[i];
	total = (double)dlp_split_sum(&spent);
	return model->worker_cnt && thread->state == DLP_ST_PIPE && total > 0 &&
	       (double)(spent.ns[DLP_ST_RUN] + spent.ns[DLP_ST_RUNQ]) < LIMIT(ASLEEP_RUN) * total &&
	       (double)spent.ns[DLP_ST_PIPE] > (1 - LIMIT(ASLEEP_RUN)) * total;
}

static void look_for_sleep(struct dlp_facts *facts, const struct dlp_thread *thread)
{
	const struct dlp_model *model = facts->model;

	if (!thread || thread->dead)
		return;
	if (thread->getnext_since_ns) {
		facts->stuck_s = seconds(thread->getnext_since_ns, model->end_ns);
	} else if (!model->getnext_cnt && waited_throughout(model, thread)) {
		facts->stuck_s = seconds(model->start_ns, model->end_ns);
		facts->exposed = 1;
	}
	if (!facts->stuck_s)
		return;
	if (facts->main_makes || (!model->worker_cnt && thread->state != DLP_ST_PIPE))
		facts->asleep = is_asleep(model, thread);
	else
		facts->asleep = model->worker_cnt && workers_asleep(model);
}

/* The whole job was killed, by hand or by its launcher: no worker's fault. */
static bool killed_with_job(const struct dlp_thread *trainer, const struct dlp_worker *worker)
{
	return trainer && trainer->dead && trainer->exit_code & 0x7f &&
	       seconds(worker->died_ns, trainer->read_ns) < LIMIT(GROUP_DEATH_S);
}

static void look_for_death(struct dlp_facts *facts)
{
	const struct dlp_model *model = facts->model;
	const struct dlp_thread *trainer = dlp_split_thread(model, model->trainer_pid);

	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (!worker->unexpected || killed_with_job(trainer, worker) ||
		    model->last_delivery_ns > worker->died_ns + (uint64_t)(LIMIT(AFTER_DEATH_S) * 1e9))
			continue;
		/* the first one is the cause, others follow it */
		if (!facts->dead || worker->died_ns < facts->dead->died_ns)
			facts->dead = worker;
	}
	facts->failed = model->error_ns && model->error_ns + (uint64_t)(LIMIT(AFTER_DEATH_S) * 1e9) >
						   model->last_delivery_ns &&
			trainer && trainer->dead && trainer->exit_code;
}

const struct dlp_thread *dlp_stall_thread(const struct dlp_model *model)
{
	return dlp_split_thread(model, model->main_tid ? model->main_tid : model->trainer_pid);
}

void dlp_gather_stall(struct dlp_facts *facts)
{
	look_for_sleep(facts, dlp_stall_thread(facts->model));
	look_for_death(facts);
}

bool dlp_is_stalled(const struct dlp_facts *facts)
{
	/* the call may have begun just before or after the window did */
	bool whole = facts->window_s >= LIMIT(STALL_WINDOW_S) &&
		     facts->stuck_s >= facts->window_s * (1 - LIMIT(ASLEEP_RUN));

	return facts->dead || facts->failed ||
	       (facts->asleep && (whole || facts->stuck_s >= LIMIT(STALL_S)));
}

static bool shm_was_low(const struct dlp_model *model)
{
	return model->shm_total &&
	       (double)model->shm_least < LIMIT(SHM_LOW) * (double)model->shm_total;
}

enum dlp_cause dlp_name_stall(const struct dlp_facts *facts)
{
	bool bus = facts->dead && (facts->dead->exit_code & 0x7f) == SIGBUS;

	if ((bus || facts->failed || !facts->dead) && shm_was_low(facts->model))
		return DLP_CAUSE_SHM_EXHAUSTED;
	return facts->dead || facts->failed ? DLP_CAUSE_WORKER_DIED : DLP_CAUSE_WORKER_STUCK;
}
