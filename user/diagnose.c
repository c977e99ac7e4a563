/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules: facts from the model, then bottleneck, severity, cause, confidence and candidates.
 * Wording is diagnose_say.c's, causes and advice are diagnose_table.c's.
 */
#include "diagnose.h"

#include <math.h>
#include <string.h>

#include "diagnose_priv.h"
#include "util.h"

/* Every threshold of the diagnosis: NAME, value, and why it is that. */
#define THRESHOLDS(X)                                                                              \
	X(EXPOSED_LOW, 0.05, "contract: from here on it is the bottleneck")                        \
	X(EXPOSED_MODERATE, 0.10, "contract")                                                      \
	X(EXPOSED_HIGH, 0.20, "contract")                                                          \
	X(EXPOSED_NEAR, 0.20, "a few calls more would turn the verdict")                           \
	X(CALLS_MIN, 5, "these may all be the first of an epoch and prefetched ones")              \
	X(CALLS_SURE, 20, "one odd call in 20 moves the ratio by a twentieth")                     \
	X(WINDOW_MIN_S, 1, "in shorter ones scheduling noise decides")                             \
	X(WINDOW_SURE_S, 3, "several rounds over all workers at 5 batches/s")                      \
	X(MAJORITY, 0.60, "more than all others together, with room for error")                    \
	X(PLURALITY, 0.40, "below, most time stays when the cause is gone")                        \
	X(RIVAL, 0.50, "a second state so large may be first next time")                           \
	X(RIVAL_EQUAL, 0.80, "the two largest cannot be told apart")                               \
	X(RUNQ_LACK, 0.25, "work this often without a CPU may be slow for that")                   \
	X(IDLE_SOME, 0.25, "busy workers are idle only between two batches")                       \
	X(IDLE_MUCH, 0.50, "workers idle half the time are not what limits the rate")              \
	X(MAIN_BUSY, 0.50, "more of the wait is own work than waiting")                            \
	X(BIRTHS, 2, "a second generation of workers in one window")                               \
	X(CANDIDATE, 0.03, "smaller ones are within the error at the edges")                       \
	X(STALL_S, 10, "contract: stuck workers are noticed within 10 s")                          \
	X(STALL_WINDOW_S, 5, "a whole window; torch itself polls every 5 s")                       \
	X(ASLEEP_S, 2, "no wait of a worker at work is so long")                                   \
	X(ASLEEP_RUN, 0.02, "poll loops of a waiting process run less")

enum threshold {
#define X(NAME, value, reason) NAME,
	THRESHOLDS(X)
#undef X
};

static const double limit[] = {
#define X(NAME, value, reason) [NAME] = value,
	THRESHOLDS(X)
#undef X
};

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static const struct dlp_loader *main_loader(const struct dlp_model *model)
{
	const struct dlp_loader *best = NULL;
	bool best_is_main = false;

	for (size_t i = 0; i < model->loader_cnt; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		bool is_main = loader->tid == model->main_tid;

		if (!best || is_main > best_is_main ||
		    (is_main == best_is_main && loader->getnext.sum_ns > best->getnext.sum_ns)) {
			best = loader;
			best_is_main = is_main;
		}
	}
	return best;
}

/* Has this thread neither run nor moved from one wait to the next lately? */
static bool is_asleep(const struct dlp_model *model, const struct dlp_thread *thread)
{
	if (thread->dead || thread->state == DLP_ST_IDLE)
		return true;
	if (thread->state == DLP_ST_RUN || thread->state == DLP_ST_RUNQ)
		return false;
	return thread->since_ns && seconds(thread->since_ns, model->end_ns) >= limit[ASLEEP_S];
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
	       (double)(spent.ns[DLP_ST_RUN] + spent.ns[DLP_ST_RUNQ]) < limit[ASLEEP_RUN] * total &&
	       (double)spent.ns[DLP_ST_PIPE] > (1 - limit[ASLEEP_RUN]) * total;
}

static void look_for_stall(struct dlp_facts *facts)
{
	const struct dlp_model *model = facts->model;
	uint32_t tid = model->main_tid ? model->main_tid : model->trainer_pid;
	const struct dlp_thread *thread = dlp_split_thread(model, tid);

	if (!thread || thread->dead)
		return;
	if (thread->getnext_since_ns)
		facts->stuck_s = seconds(thread->getnext_since_ns, model->end_ns);
	else if (!facts->calls && waited_throughout(model, thread))
		facts->stuck_s = facts->window_s;
	if (!facts->stuck_s)
		return;
	if (facts->main_makes || (!model->worker_cnt && thread->state != DLP_ST_PIPE))
		facts->asleep = is_asleep(model, thread);
	else
		facts->asleep = model->worker_cnt && workers_asleep(model);
}

static void gather(const struct dlp_model *model, struct dlp_facts *facts)
{
	const struct dlp_loader *loader = main_loader(model);
	uint64_t total;

	memset(facts, 0, sizeof(*facts));
	facts->model = model;
	facts->window_s = seconds(model->start_ns, model->end_ns);
	facts->exposed = NAN;
	facts->idle = NAN;
	facts->loader = loader;
	facts->calls = model->getnext_cnt;
	if (model->main_valid && facts->window_s > 0) {
		/* edges of the window are read at slightly different times */
		facts->exposed = fmin(1, (double)model->exposed_ns / 1e9 / facts->window_s);
	}
	facts->workers = dlp_split_workers(model, &facts->made);
	total = dlp_split_sum(&facts->made);
	if (facts->workers && total)
		facts->idle = (double)facts->made.ns[DLP_ST_IDLE] / (double)total;
	facts->main_makes = loader ? loader->num_workers == 0 ||
					     (loader->num_workers < 0 &&
					      strstr(loader->type, "SingleProcess")) :
				     false;
	if (facts->main_makes)
		facts->made = model->main_inside;
	facts->idle_much = !facts->main_makes && facts->idle >= limit[IDLE_MUCH];
	facts->share_cnt = dlp_split_rank(&facts->made, true, facts->share);
	facts->births = loader && loader->num_workers > 0 && loader->iterator_cnt > 1 &&
			(double)facts->workers >= limit[BIRTHS] * loader->num_workers;
	dlp_loss_get(model, &facts->loss);
	look_for_stall(facts);
}

static bool enough(const struct dlp_facts *facts)
{
	if (isnan(facts->exposed) || facts->window_s < limit[WINDOW_MIN_S])
		return false;
	return (double)facts->calls >= limit[CALLS_MIN] || facts->stuck_s >= limit[STALL_WINDOW_S];
}

static bool stalled(const struct dlp_facts *facts)
{
	/* the call may have begun just before or after the window did */
	bool whole = facts->window_s >= limit[STALL_WINDOW_S] &&
		     facts->stuck_s >= facts->window_s * (1 - limit[ASLEEP_RUN]);

	return facts->asleep && (whole || facts->stuck_s >= limit[STALL_S]);
}

static enum dlp_severity severity_of(double exposed)
{
	/* NAN compares false throughout: nothing measured, nothing claimed */
	return (exposed >= limit[EXPOSED_LOW]) + (exposed >= limit[EXPOSED_MODERATE]) +
	       (exposed >= limit[EXPOSED_HIGH]);
}

static enum dlp_confidence at_most(enum dlp_confidence confidence, enum dlp_confidence bound)
{
	return confidence < bound ? confidence : bound;
}

/* How sure it is whether data loading is the bottleneck. */
static enum dlp_confidence sure_whether(const struct dlp_facts *facts)
{
	double distance = fabs(facts->exposed - limit[EXPOSED_LOW]);
	enum dlp_confidence confidence = DLP_CONF_HIGH;

	if ((double)facts->calls < limit[CALLS_SURE] || facts->window_s < limit[WINDOW_SURE_S] ||
	    !facts->loss.complete)
		confidence = DLP_CONF_MEDIUM;
	if (distance < limit[EXPOSED_NEAR] * limit[EXPOSED_LOW])
		confidence = at_most(confidence, DLP_CONF_MEDIUM);
	if ((double)facts->calls < limit[CALLS_MIN])
		confidence = DLP_CONF_LOW;
	return confidence;
}

/* How sure it is that the largest state is the cause. */
static enum dlp_confidence sure_which(const struct dlp_facts *facts, unsigned int state,
				      double share, double rival)
{
	enum dlp_confidence confidence = DLP_CONF_HIGH;

	if (share < limit[MAJORITY] || rival > limit[RIVAL] * share)
		confidence = DLP_CONF_MEDIUM;
	if (share < limit[PLURALITY] || rival > limit[RIVAL_EQUAL] * share || facts->births)
		return DLP_CONF_LOW;
	if (state == DLP_ST_RUN) {
		for (size_t i = 0; i < facts->share_cnt; i++) {
			if (facts->share[i].state == DLP_ST_RUNQ &&
			    facts->share[i].share >= limit[RUNQ_LACK])
				return DLP_CONF_LOW;
		}
	}
	if (facts->idle_much)
		return DLP_CONF_LOW;
	if (!facts->main_makes && facts->idle >= limit[IDLE_SOME])
		confidence = at_most(confidence, DLP_CONF_MEDIUM);
	return confidence;
}

/* Each state's part of the exposed total; what the workers idle away is nobody's here. */
static void rank_candidates(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	double bound = facts->main_makes ? 1 : 1 - facts->idle;

	for (size_t i = 0; i < facts->share_cnt; i++) {
		enum dlp_cause cause = dlp_cause_of_state(facts->share[i].state, facts->main_makes);
		double share = facts->share[i].share * bound;

		if (cause == DLP_CAUSE_NONE || share < limit[CANDIDATE])
			continue;
		verdict->candidate[verdict->candidate_cnt++] =
			(struct dlp_candidate){ .cause = cause, .share = share };
	}
}

/*
 * Workers that mostly idle do not limit the rate. If the training thread then computes inside
 * GetNext (the sampler, unpickling), that is the lead; which of these it is, later rules tell.
 */
static bool main_is_busy(const struct dlp_facts *facts)
{
	const struct dlp_clock *inside = &facts->model->main_inside;
	uint64_t total = dlp_split_sum(inside);

	return facts->idle_much && total &&
	       (double)inside->ns[DLP_ST_RUN] >= limit[MAIN_BUSY] * (double)total;
}

static void name_cause(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_clock *inside = &facts->model->main_inside;
	double share = 0, rival = 0;
	unsigned int state = DLP_ST_MAX;

	if (main_is_busy(facts)) {
		verdict->cause = DLP_CAUSE_MAIN_PROCESS;
		verdict->where = DLP_WHERE_MAIN;
		verdict->confidence = DLP_CONF_LOW;
		verdict->candidate[verdict->candidate_cnt++] = (struct dlp_candidate){
			.cause = DLP_CAUSE_MAIN_PROCESS,
			.share = (double)inside->ns[DLP_ST_RUN] / (double)dlp_split_sum(inside),
		};
		return;
	}
	/* the largest state that has a name; an unnamed one that is larger stays its rival */
	for (size_t i = 0; i < facts->share_cnt; i++) {
		const struct dlp_share *entry = &facts->share[i];

		if (state == DLP_ST_MAX &&
		    dlp_cause_of_state(entry->state, facts->main_makes) != DLP_CAUSE_NONE) {
			state = entry->state;
			share = entry->share;
		} else if (entry->share > rival) {
			rival = entry->share;
		}
	}
	verdict->cause = dlp_cause_of_state(state, facts->main_makes);
	verdict->where = facts->main_makes ? DLP_WHERE_MAIN : DLP_WHERE_WORKERS;
	verdict->confidence = at_most(verdict->confidence, sure_which(facts, state, share, rival));
	if (!dlp_cause_info(verdict->cause)->plain)
		verdict->confidence = DLP_CONF_LOW;
	rank_candidates(facts, verdict);
}

/* What most of those asleep wait for right now; the window's sums may be of better times. */
static void name_stall(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;
	struct dlp_clock waits = { 0 };
	struct dlp_share share[DLP_ST_MAX];
	const struct dlp_thread *thread = dlp_split_thread(model, model->main_tid);

	verdict->where = facts->main_makes ? DLP_WHERE_MAIN : DLP_WHERE_WORKERS;
	if (facts->main_makes && thread && thread->state < DLP_ST_MAX)
		waits.ns[thread->state]++;
	for (size_t i = 0; !facts->main_makes && i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		thread = dlp_split_thread(model, worker->pid);
		if (thread && !worker->died_ns && dlp_split_counts(model, worker) &&
		    thread->state < DLP_ST_MAX)
			waits.ns[thread->state]++;
	}
	verdict->cause = DLP_CAUSE_WORKER_STUCK;
	if (dlp_split_rank(&waits, true, share) &&
	    dlp_cause_of_state(share[0].state, facts->main_makes) != DLP_CAUSE_NONE)
		verdict->cause = dlp_cause_of_state(share[0].state, facts->main_makes);
	verdict->confidence = DLP_CONF_LOW;
	verdict->candidate[verdict->candidate_cnt++] =
		(struct dlp_candidate){ .cause = verdict->cause, .share = 1 };
}

void dlp_diagnose(const struct dlp_model *model, struct dlp_verdict *ret)
{
	struct dlp_facts facts;

	gather(model, &facts);
	memset(ret, 0, sizeof(*ret));
	ret->exposed_wait_ratio = facts.exposed;
	/* iterator start-up is not measured yet: the exposed total is the exposed wait alone */
	ret->startup_ratio = NAN;
	ret->severity = severity_of(facts.exposed);
	ret->cause = DLP_CAUSE_NONE;
	ret->confidence = DLP_CONF_LOW;
	if (stalled(&facts)) {
		ret->bottleneck = DLP_BN_STALLED;
		name_stall(&facts, ret);
	} else if (!enough(&facts)) {
		ret->bottleneck = DLP_BN_INSUFFICIENT;
	} else if (facts.exposed < limit[EXPOSED_LOW]) {
		ret->bottleneck = DLP_BN_NOT_DATA_LOADING;
		ret->where = DLP_WHERE_MAIN;
		ret->confidence = sure_whether(&facts);
	} else if (!facts.share_cnt) {
		/* it waits, but whoever makes the batches has no clock: no cause can be named */
		ret->bottleneck = DLP_BN_INSUFFICIENT;
	} else {
		ret->bottleneck = DLP_BN_DATA_LOADING;
		ret->confidence = sure_whether(&facts);
		name_cause(&facts, ret);
	}
	dlp_say_verdict(&facts, ret);
}
