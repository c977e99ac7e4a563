/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules: facts from the model, then bottleneck, severity, cause, confidence and candidates.
 * What the exposed total is made of is diagnose_cost.c's, wording is diagnose_say.c's, causes and
 * advice are diagnose_table.c's, thresholds are diagnose_limits.h's.
 */
#include "diagnose.h"

#include <math.h>
#include <string.h>

#include "diagnose_priv.h"
#include "system.h"
#include "util.h"

const double dlp_limits[DLP_LIMIT_MAX] = {
#define X(NAME, value, reason) [DLP_LIMIT_##NAME] = value,
	DLP_LIMITS(X)
#undef X
};

static uint64_t cost_of(const struct dlp_loader_sums *sums)
{
	return sums->getnext_ns + sums->init_ns + sums->teardown_ns;
}

static bool makes_itself(const struct dlp_loader *loader)
{
	return loader->num_workers == 0 ||
	       (loader->num_workers < 0 && !loader->named && strstr(loader->type, "SingleProcess"));
}

/* The loader the training thread lost most time to. */
static const struct dlp_loader *dearest(const struct dlp_model *model, const struct dlp_sums *sums)
{
	const struct dlp_loader *best = NULL;

	for (size_t i = 0; i < sums->loader_cnt; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		bool is_main = loader->tid == model->main_tid;

		if (!best || is_main > (best->tid == model->main_tid) ||
		    (is_main == (best->tid == model->main_tid) &&
		     cost_of(&sums->loader[i]) > cost_of(&sums->loader[best->id - 1])))
			best = loader;
	}
	return best;
}

/*
 * Those like the dearest one that the same thread iterates are judged together with it: what is
 * said of it holds for them.
 */
static bool is_judged(const struct dlp_facts *facts, const struct dlp_loader *loader)
{
	if (facts->only)
		return loader == facts->only;
	return facts->loader && loader->tid == facts->loader->tid &&
	       makes_itself(loader) == facts->main_makes;
}

static void add_loaders(struct dlp_facts *facts)
{
	for (size_t i = 0; i < facts->sums->loader_cnt; i++) {
		if (!is_judged(facts, &facts->model->loaders[i]))
			continue;
		dlp_loader_sums_add(&facts->all, &facts->sums->loader[i]);
		if (facts->model->loaders[i].named)
			dlp_split_add(&facts->inside_named, &facts->sums->loader[i].inside);
	}
}

/* Workers that made a batch, and those that had every chance to and did not. */
static void count_barren(struct dlp_facts *facts)
{
	const struct dlp_model *model = facts->model;

	facts->fruitful = facts->all.fruitful_cnt;
	facts->barren = facts->all.barren_cnt;
	if ((double)facts->all.batches < LIMIT(BARREN_BATCHES))
		return;
	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (worker->died_ns || !worker->loader || worker->loader > model->loader_cnt ||
		    !is_judged(facts, &model->loaders[worker->loader - 1]))
			continue;
		if (worker->batch_cnt)
			facts->fruitful++;
		else if ((double)worker->window_ns / 1e9 >= LIMIT(BARREN_S))
			facts->barren++;
	}
}

static void gather_made(struct dlp_facts *facts)
{
	const struct dlp_loader_sums *all = &facts->all;
	uint64_t total, cpu_ns = all->usage.utime_ns + all->usage.stime_ns;

	facts->made = all->made;
	/* workers whose loader is not known: all there are, over the whole window */
	if (!dlp_split_sum(&facts->made) && !facts->only) {
		facts->workers = dlp_split_workers(facts->model, &facts->made);
	} else {
		for (size_t i = 0; i < facts->model->worker_cnt; i++)
			facts->workers += facts->model->workers[i].clock_valid &&
					  dlp_split_counts(facts->model, &facts->model->workers[i]);
	}
	total = dlp_split_sum(&facts->made);
	if (total)
		facts->idle = (double)facts->made.ns[DLP_ST_IDLE] / (double)total;
	if (cpu_ns) {
		facts->system_time = (double)all->usage.stime_ns / (double)cpu_ns;
		facts->faults_per_ms = (double)all->usage.minflt * 1e6 / (double)cpu_ns;
	}
	if (facts->main_makes)
		facts->made = all->inside;
	facts->share_cnt = dlp_split_rank(&facts->made, true, facts->share);
}

/* What the loaders judged cost and why; needs all, main_makes and unfinished_ns. */
static void gather_causes(struct dlp_facts *facts)
{
	const struct dlp_ev_system *from = &facts->sums->system_from;
	const struct dlp_ev_system *to = &facts->sums->system_to;

	gather_made(facts);
	count_barren(facts);
	facts->memory_stall = dlp_system_growth(from, to, DLP_SYS_PSI, from->psi_memory_us,
						to->psi_memory_us) / 1e6 / facts->window_s;
	dlp_gather_cpu(facts);
	dlp_gather_gc(facts);
	dlp_gather_cost(facts);
}

/*
 * The same thread's loaders of the other kind, with workers or without, have causes of their own:
 * those are added to what the loaders judged cost, and the wording stays theirs.
 */
static void add_other_kind(struct dlp_facts *facts)
{
	struct dlp_facts other = {
		.model = facts->model,
		.sums = facts->sums,
		.window_s = facts->window_s,
		.loader = facts->loader,
		.main_makes = !facts->main_makes,
		.idle = NAN,
		.system_time = NAN,
		.faults_per_ms = NAN,
	};

	add_loaders(&other);
	if (!cost_of(&other.all))
		return;
	gather_causes(&other);
	facts->cost_ns += other.cost_ns;
	for (unsigned int cause = 0; cause < DLP_CAUSE_MAX; cause++)
		facts->cost[cause] += other.cost[cause];
	facts->gc_main_ns += other.gc_main_ns;
	dlp_split_add(&facts->inside_named, &other.inside_named);
	dlp_loader_sums_add(&facts->both, &other.all);
	facts->startup += (double)(other.all.init_ns + other.all.teardown_ns) / 1e9 /
			  facts->window_s;
}

/* Time of the training thread in a GetNext that has not ended: what no loader was charged with. */
static double unfinished(const struct dlp_facts *facts)
{
	uint64_t known = 0;

	for (size_t i = 0; i < facts->sums->loader_cnt; i++) {
		if (facts->model->loaders[i].tid == facts->loader->tid)
			known += facts->sums->loader[i].getnext_ns;
	}
	return fmax(0, (double)facts->sums->exposed_ns - (double)known);
}

static bool is_enough(const struct dlp_facts *facts)
{
	if (isnan(facts->exposed) || facts->window_s < LIMIT(WINDOW_MIN_S))
		return false;
	return (double)facts->calls >= (facts->brief ? LIMIT(CALLS_LIVE) : LIMIT(CALLS_MIN)) ||
	       facts->stuck_s >= LIMIT(STALL_WINDOW_S) ||
	       facts->startup * facts->window_s >= LIMIT(STARTUP_MIN_S);
}

static void gather(struct dlp_facts *facts, const struct dlp_model *model,
		   const struct dlp_sums *sums, const struct dlp_loader *only)
{
	memset(facts, 0, sizeof(*facts));
	facts->model = model;
	facts->sums = sums;
	facts->exposed = facts->startup = facts->idle = NAN;
	facts->system_time = facts->faults_per_ms = NAN;
	facts->window_s = sums->to_ns > sums->from_ns ? (double)(sums->to_ns - sums->from_ns) / 1e9 :
							0;
	facts->brief = sums->from_ns > model->start_ns;
	facts->only = only;
	facts->loader = only ? only : dearest(model, sums);
	facts->main_makes = facts->loader && makes_itself(facts->loader);
	add_loaders(facts);
	facts->calls = only ? facts->all.calls : sums->calls;
	/* edges of the window are read at slightly different times */
	if (only && facts->window_s > 0)
		facts->exposed = fmin(1, (double)facts->all.getnext_ns / 1e9 / facts->window_s);
	else if (sums->main_valid && facts->window_s > 0)
		facts->exposed = fmin(1, (double)sums->exposed_ns / 1e9 / facts->window_s);
	if (facts->loader && facts->window_s > 0)
		facts->startup = (double)(facts->all.init_ns + facts->all.teardown_ns) / 1e9 /
				 facts->window_s;
	facts->both = facts->all;
	if (!only)
		facts->unfinished_ns = unfinished(facts);
	gather_causes(facts);
	if (!only && facts->loader && facts->window_s > 0)
		add_other_kind(facts);
	dlp_loss_get(model, &facts->loss);
	if (!only)
		dlp_gather_stall(facts);
	/* fmin(1, NAN) is 1 */
	facts->total = facts->exposed + (isnan(facts->startup) ? 0 : facts->startup);
	if (facts->total > 1)
		facts->total = 1;
	facts->enough = is_enough(facts);
}

static enum dlp_severity severity_of(double exposed)
{
	/* NAN compares false throughout: nothing measured, nothing claimed */
	return (exposed >= LIMIT(EXPOSED_LOW)) + (exposed >= LIMIT(EXPOSED_MODERATE)) +
	       (exposed >= LIMIT(EXPOSED_HIGH));
}

static enum dlp_confidence at_most(enum dlp_confidence confidence, enum dlp_confidence bound)
{
	return confidence < bound ? confidence : bound;
}

/* How sure it is whether data loading is the bottleneck. */
static enum dlp_confidence sure_whether(const struct dlp_facts *facts)
{
	double distance = fabs(facts->total - LIMIT(EXPOSED_LOW));
	bool long_start = facts->startup * facts->window_s >= LIMIT(STARTUP_MIN_S);
	enum dlp_confidence confidence = DLP_CONF_HIGH;

	if (((double)facts->calls < LIMIT(CALLS_SURE) && !long_start) ||
	    facts->window_s < LIMIT(WINDOW_SURE_S) || !facts->loss.complete)
		confidence = DLP_CONF_MEDIUM;
	if (distance < LIMIT(EXPOSED_NEAR) * LIMIT(EXPOSED_LOW))
		confidence = at_most(confidence, DLP_CONF_MEDIUM);
	if ((double)facts->calls < LIMIT(CALLS_MIN) && !long_start)
		confidence = DLP_CONF_LOW;
	return confidence;
}

/* How sure it is that the dearest cause is the one to name. */
static enum dlp_confidence sure_which(double share, double rival)
{
	if (share < LIMIT(PLURALITY) || rival > LIMIT(RIVAL_EQUAL) * share)
		return DLP_CONF_LOW;
	if (share < LIMIT(MAJORITY) || rival > LIMIT(RIVAL) * share)
		return DLP_CONF_MEDIUM;
	return DLP_CONF_HIGH;
}

static void rank_candidates(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	for (unsigned int cause = 1; cause < DLP_CAUSE_MAX; cause++) {
		struct dlp_candidate entry = { cause, dlp_cost_share(facts, cause) };
		size_t at = verdict->candidate_cnt;

		if (entry.share < LIMIT(CANDIDATE))
			continue;
		for (; at && verdict->candidate[at - 1].share < entry.share; at--)
			verdict->candidate[at] = verdict->candidate[at - 1];
		verdict->candidate[at] = entry;
		verdict->candidate_cnt++;
	}
}

static enum dlp_where where_of(const struct dlp_facts *facts, enum dlp_cause cause)
{
	enum dlp_where where = dlp_cause_info(cause)->where;

	if (where == DLP_WHERE_WORKERS &&
	    (facts->main_makes || dlp_wait_is_mains(facts, cause) ||
	     (cause == DLP_CAUSE_GIL_CONTENTION && dlp_gil_is_mains(facts)) ||
	     (cause == DLP_CAUSE_GC_PAUSE && dlp_gc_is_mains(facts))))
		return DLP_WHERE_MAIN;
	return where;
}

static void name_cause(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	double share = verdict->candidate[0].share;
	double rival = verdict->candidate_cnt > 1 ? verdict->candidate[1].share : 0;
	double rest = 1, error;

	for (size_t i = 0; i < verdict->candidate_cnt; i++)
		rest -= verdict->candidate[i].share;
	verdict->cause = verdict->candidate[0].cause;
	verdict->where = where_of(facts, verdict->cause);
	/* told from samples: what their error leaves open may be the rival's */
	if (verdict->cause == DLP_CAUSE_GC_PAUSE) {
		const struct dlp_gc_share *gc = dlp_gc_named(facts);

		/* of loaders of the other kind: not known here how sure that is */
		error = gc->share > 0 ? share * gc->error / gc->share : share;
		share -= error;
		rival += error;
	}
	/* what has no name may be as large */
	verdict->confidence =
		at_most(verdict->confidence, sure_which(share, fmax(rival, rest)));
}

static void add_rival(struct dlp_verdict *verdict, enum dlp_cause cause, double share)
{
	size_t at = verdict->candidate_cnt++;

	for (; at && verdict->candidate[at - 1].share < share; at--)
		verdict->candidate[at] = verdict->candidate[at - 1];
	verdict->candidate[at] = (struct dlp_candidate){ cause, fmin(1, share) };
}

/*
 * Data loading is fine; but the training thread itself may lack a CPU, or collect garbage. Parts of
 * the wall time.
 */
static void name_rivals(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	double share = (double)facts->sums->outside.ns[DLP_ST_RUNQ] / 1e9 / facts->window_s;

	if (share >= LIMIT(TRAINING_LACK) && facts->sums->main_valid &&
	    dlp_cause_info(facts->cpu.lack)->where == DLP_WHERE_SYSTEM)
		add_rival(verdict, facts->cpu.lack, share);
	share = dlp_gc_of_wall(facts);
	if (share >= LIMIT(GC_TRAINING))
		add_rival(verdict, DLP_CAUSE_GC_PAUSE, share);
}

static void judge(const struct dlp_facts *facts, struct dlp_verdict *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->exposed_wait_ratio = facts->exposed;
	ret->startup_ratio = facts->startup;
	ret->severity = severity_of(facts->total);
	ret->cause = DLP_CAUSE_NONE;
	ret->confidence = DLP_CONF_LOW;
	ret->where = DLP_WHERE_MAIN;
	if (dlp_is_stalled(facts)) {
		ret->bottleneck = DLP_BN_STALLED;
		ret->cause = dlp_name_stall(facts);
		ret->where = where_of(facts, ret->cause);
		ret->confidence = facts->dead || facts->failed ? DLP_CONF_HIGH : DLP_CONF_MEDIUM;
		ret->candidate[ret->candidate_cnt++] = (struct dlp_candidate){ ret->cause, 1 };
	} else if (!facts->enough) {
		ret->bottleneck = DLP_BN_INSUFFICIENT;
	} else if (facts->total < LIMIT(EXPOSED_LOW)) {
		ret->bottleneck = DLP_BN_NOT_DATA_LOADING;
		ret->confidence = sure_whether(facts);
		name_rivals(facts, ret);
	} else {
		ret->confidence = sure_whether(facts);
		rank_candidates(facts, ret);
		ret->bottleneck = DLP_BN_DATA_LOADING;
		/* else it waits, but nothing says for what: no cause can be named */
		if (ret->candidate_cnt && ret->candidate[0].share >= LIMIT(NAMEABLE))
			name_cause(facts, ret);
		else
			ret->confidence = DLP_CONF_LOW;
	}
	dlp_say_verdict(facts, ret);
}

void dlp_diagnose(const struct dlp_model *model, const struct dlp_sums *since,
		  struct dlp_verdict *ret)
{
	struct dlp_sums sums;
	struct dlp_facts facts;

	dlp_sums_take(model, &sums);
	if (since)
		dlp_sums_since(&sums, since);
	gather(&facts, model, &sums, NULL);
	judge(&facts, ret);
}

void dlp_diagnose_loader(const struct dlp_model *model, const struct dlp_loader *loader,
			 struct dlp_verdict *ret)
{
	struct dlp_sums sums;
	struct dlp_facts facts;

	dlp_sums_take(model, &sums);
	gather(&facts, model, &sums, loader);
	judge(&facts, ret);
}
