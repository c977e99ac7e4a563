/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the exposed total is made of. Time the training thread spent itself has its cause at once;
 * time it waited for a batch to be made goes to what keeps whoever makes batches from making more:
 * the split of their production time, whatever the trainer did meanwhile.
 */
#include <math.h>

#include "diagnose_priv.h"

double dlp_cost_share(const struct dlp_facts *facts, enum dlp_cause cause)
{
	return facts->cost_ns > 0 ? facts->cost[cause] / facts->cost_ns : 0;
}

bool dlp_gil_is_mains(const struct dlp_facts *facts)
{
	return 2 * (double)facts->all.gil_ns > facts->cost[DLP_CAUSE_GIL_CONTENTION];
}

/*
 * Blocked inside a DataLoader a thread waits for its workers. Inside a scope that the user has named
 * it may as well wait for something of its own; other waits may be for whoever makes the batches.
 */
static uint64_t waited_itself(const struct dlp_facts *facts, unsigned int state)
{
	bool own = state == DLP_ST_DISK || state == DLP_ST_FAULT || state == DLP_ST_FS ||
		   state == DLP_ST_NET || state == DLP_ST_SLEEP;

	return own ? facts->inside_named.ns[state] : 0;
}

bool dlp_wait_is_mains(const struct dlp_facts *facts, enum dlp_cause cause)
{
	return 2 * (double)waited_itself(facts, dlp_cause_info(cause)->state) > facts->cost[cause];
}

static void charge(struct dlp_facts *facts, enum dlp_cause cause, double ns)
{
	facts->cost[cause] += ns;
}

/*
 * What the workers' other threads did while main threads waited for them: they run, or lack a CPU,
 * or read. Their own waits for each other say nothing.
 */
static double pool_work(const struct dlp_clock *pool, struct dlp_clock *ret)
{
	static const enum dlp_state work[] = { DLP_ST_RUN,   DLP_ST_RUNQ, DLP_ST_DISK,
					       DLP_ST_FAULT, DLP_ST_FS,	  DLP_ST_NET };

	*ret = (struct dlp_clock){ 0 };
	for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++)
		ret->ns[work[i]] = pool->ns[work[i]];
	return (double)dlp_split_sum(ret);
}

/* The workers' CPU time goes into page faults: copy-on-write of what they share, or new memory. */
static bool copies_memory(const struct dlp_facts *facts)
{
	return !facts->main_makes && facts->system_time >= LIMIT(SYSTEM_TIME) &&
	       facts->faults_per_ms >= LIMIT(FAULTS_PER_MS);
}

/* Work on a CPU: the collector's part, and what the job itself computes. */
static void charge_work(struct dlp_facts *facts, enum dlp_cause cause, double ns)
{
	double gc_ns = ns * dlp_gc_charged(&facts->gc_made);

	charge(facts, DLP_CAUSE_GC_PAUSE, gc_ns);
	if (facts->main_makes)
		facts->gc_main_ns += gc_ns;
	charge(facts, cause, ns - gc_ns);
}

static void charge_state(struct dlp_facts *facts, unsigned int state, double ns)
{
	enum dlp_cause cause = dlp_cause_of_state(state, facts->main_makes);

	if (state == DLP_ST_RUNQ) {
		/* the job's own work fills the CPUs */
		if (facts->cpu.lack == dlp_cause_of_state(DLP_ST_RUN, facts->main_makes))
			charge_work(facts, facts->cpu.lack, ns);
		else
			charge(facts, facts->cpu.lack, ns);
		return;
	}
	if (state == DLP_ST_RUN && copies_memory(facts)) {
		charge(facts, DLP_CAUSE_MEMORY_PRESSURE, ns * facts->system_time);
		ns *= 1 - facts->system_time;
	}
	if (state == DLP_ST_RUN)
		charge_work(facts, cause, ns);
	else
		charge(facts, cause, ns);
}

/* Waits of main threads for other threads of their process are what those do. */
static void charge_lock(struct dlp_facts *facts, double ns)
{
	struct dlp_clock work;
	double work_ns = pool_work(&facts->sums->pool, &work);

	if (work_ns < LIMIT(POOL_WORK) * (double)facts->made.ns[DLP_ST_LOCK] || work_ns <= 0) {
		charge(facts, DLP_CAUSE_LOCK_WAIT, ns);
		return;
	}
	facts->helpers = work;
	for (unsigned int state = 0; state < DLP_ST_MAX; state++) {
		if (work.ns[state])
			charge_state(facts, state, ns * (double)work.ns[state] / work_ns);
	}
}

static void charge_production(struct dlp_facts *facts, double ns)
{
	if (facts->memory_stall >= LIMIT(RECLAIM)) {
		charge(facts, DLP_CAUSE_MEMORY_PRESSURE, ns * facts->memory_stall);
		ns *= 1 - facts->memory_stall;
	}
	for (size_t i = 0; i < facts->share_cnt; i++) {
		double part = ns * facts->share[i].share;

		if (facts->share[i].state == DLP_ST_LOCK && !facts->main_makes)
			charge_lock(facts, part);
		else
			charge_state(facts, facts->share[i].state, part);
	}
}

/* Returns what is left of the waits. */
static double charge_itself(struct dlp_facts *facts, double ns)
{
	for (unsigned int state = 0; state < DLP_ST_MAX; state++) {
		double part = fmin(ns, (double)waited_itself(facts, state));

		charge_state(facts, state, part);
		ns -= part;
	}
	return ns;
}

/* Waited for batches: for their order, for workers that make none, for how they are made. */
static void charge_waits(struct dlp_facts *facts, double ns)
{
	const struct dlp_loader_sums *all = &facts->all;
	double held = (double)all->held_ns, all_workers = (double)(facts->fruitful + facts->barren);
	double barren = all_workers > 0 ? (double)facts->barren / all_workers : 0;

	if (held >= LIMIT(HELD) * ns && facts->idle > 1 - LIMIT(HELD_BUSY)) {
		held = fmin(held, ns);
		charge(facts, DLP_CAUSE_SLOW_BATCH, held);
		ns -= held;
	}
	if (barren >= LIMIT(BARREN)) {
		charge(facts, DLP_CAUSE_IDLE_WORKERS, ns * barren);
		ns *= 1 - barren;
	}
	charge_production(facts, ns);
}

/* On a CPU behind a batch's message: unpickling it costs by the byte, the rest is the sampler's. */
static void charge_behind(struct dlp_facts *facts)
{
	const struct dlp_loader_sums *all = &facts->all;
	double behind = (double)all->behind_ns, handover = (double)all->handover_ns;
	double unpickle = (double)all->message_bytes * LIMIT(UNPICKLE_NS) +
			  (double)all->batches * LIMIT(UNPICKLE_BATCH_NS);
	double busy = facts->idle >= 0 ? 1 - facts->idle : 0;
	double transfer = (double)all->transfer_ns;
	double held = transfer * busy * dlp_gc_charged(&facts->gc_made);
	double own, gc = (behind + (double)all->own_ns) * dlp_gc_charged(&facts->gc_inside);

	if (handover >= LIMIT(HANDED_OVER) * (handover + behind))
		unpickle = behind;
	unpickle = fmin(behind, unpickle);
	own = behind - unpickle + (double)all->own_ns;
	/* more than that: new objects set it off while they are unpickled */
	charge(facts, DLP_CAUSE_GC_PAUSE, gc);
	facts->gc_main_ns += gc;
	unpickle -= fmax(0, gc - own);
	own = fmax(0, own - gc);
	/* a worker's collector does not give the interpreter to the thread that sends batches */
	charge(facts, DLP_CAUSE_GC_PAUSE, held);
	/* parts are handed over by a thread that needs the interpreter a busy worker holds */
	charge_production(facts, handover * busy);
	charge(facts, DLP_CAUSE_BATCH_TRANSFER,
	       handover * (1 - busy) + unpickle + transfer - held);
	charge(facts, DLP_CAUSE_MAIN_PROCESS, own);
}

void dlp_gather_cost(struct dlp_facts *facts)
{
	const struct dlp_loader_sums *all = &facts->all;
	double start_ns = (double)(all->init_ns + all->teardown_ns);

	facts->cost_ns = (double)all->getnext_ns + facts->unfinished_ns + start_ns;
	charge(facts, DLP_CAUSE_WORKER_STARTUP, start_ns);
	/* a process whose pages are copied one by one takes as long to begin and to end */
	charge(facts, copies_memory(facts) ? DLP_CAUSE_MEMORY_PRESSURE : DLP_CAUSE_WORKER_STARTUP,
	       (double)(all->boot_ns + all->closing_ns));
	if (facts->main_makes) {
		charge_production(facts, facts->cost_ns - start_ns);
		return;
	}
	charge_behind(facts);
	charge(facts, facts->cpu.lack, (double)all->lack_ns);
	charge(facts, DLP_CAUSE_GIL_CONTENTION, (double)all->gil_ns);
	/* a call that has not ended yet is a wait for a batch as well */
	charge_waits(facts, charge_itself(facts, (double)all->produce_ns + facts->unfinished_ns));
}
