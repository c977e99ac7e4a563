/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verdict in words: one sentence with the number that justifies it, and the advice. */
#include "diagnose_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "summary.h"
#include "system.h"
#include "util.h"

struct dlp_percent dlp_percent(double ratio)
{
	struct dlp_percent ret;
	double value = ratio * 100;

	(void)snprintf(ret.text, sizeof(ret.text), value < 9.95 ? "%.1f %%" : "%.0f %%", value);
	return ret;
}

/* Short for the many places below. */
#define PCT(ratio) (dlp_percent(ratio).text)
#define SAY(buf, ...) (void)snprintf((buf)->text, sizeof((buf)->text), __VA_ARGS__)

/* A part of the sentence. */
struct words {
	char text[240];
};

/* Steps of the training, as far as torch marks them. */
static uint64_t optimizer_steps(const struct dlp_model *model)
{
	static const char label[] = "Optimizer.step#";
	uint64_t cnt = 0;

	for (size_t i = 0; i < model->stage_cnt; i++) {
		const struct dlp_stage *stage = &model->stages[i];

		if (!stage->worker && !strncmp(stage->label, label, sizeof(label) - 1))
			cnt += stage->sum.cnt;
	}
	return cnt;
}

/* It trains, and no loader that we know gives it batches. */
static bool is_fed_elsewhere(const struct dlp_facts *facts)
{
	return !facts->loader && !facts->calls &&
	       (double)optimizer_steps(facts->model) >= LIMIT(STEPS_UNFED);
}

static void say_insufficient(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (isnan(facts->exposed) && facts->calls)
		SAY(verdict,
		    "The training thread's time could not be measured in these %.1f s (%llu "
		    "GetNext calls seen): no verdict.",
		    facts->window_s, (unsigned long long)facts->calls);
	else if (is_fed_elsewhere(facts))
		SAY(verdict,
		    "The optimizer made %llu steps without a batch from a PyTorch DataLoader: name a "
		    "scope around the job's own loader with --getnext.",
		    (unsigned long long)optimizer_steps(facts->model));
	else if (!facts->calls)
		SAY(verdict, "No batch came out of a DataLoader in %.1f s: nothing to judge yet.",
		    facts->window_s);
	else
		SAY(verdict,
		    "Only %llu batch%s came out of a DataLoader in %.1f s: too little to judge.",
		    (unsigned long long)facts->calls, facts->calls == 1 ? "" : "es",
		    facts->window_s);
}

/* It waits for data, but nothing says for what. */
static void say_unnamed(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (!facts->share_cnt)
		SAY(verdict,
		    "Training waits %s of the time for data, but the time of whoever makes the "
		    "batches could not be measured: no cause can be named.",
		    PCT(facts->total));
	else
		SAY(verdict,
		    "Training waits %s of the time for data, but whoever makes the batches is %s "
		    "most of the time: no cause can be named.",
		    PCT(facts->total), dlp_state_doing(facts->share[0].state));
}

static bool is_candidate(const struct dlp_verdict *verdict, enum dlp_cause cause)
{
	for (size_t i = 0; i < verdict->candidate_cnt; i++) {
		if (verdict->candidate[i].cause == cause)
			return true;
	}
	return false;
}

static void say_none(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	struct words gc = { "" };

	if (is_candidate(verdict, DLP_CAUSE_GC_PAUSE))
		SAY(&gc, ", but Python's garbage collector holds the training thread up for %s of it",
		    PCT(dlp_gc_of_wall(facts)));
	if (isnan(facts->idle) || facts->main_makes)
		SAY(verdict,
		    "Training waits only %s of the time for data: data loading is not the "
		    "bottleneck%s.",
		    PCT(facts->total), gc.text);
	else
		SAY(verdict,
		    "Training waits only %s of the time for data, and the workers are idle %s of "
		    "theirs: data loading is not the bottleneck%s.",
		    PCT(facts->total), PCT(facts->idle), gc.text);
}

static double share_of(const struct dlp_facts *facts, unsigned int state)
{
	for (size_t i = 0; i < facts->share_cnt; i++) {
		if (facts->share[i].state == state)
			return facts->share[i].share;
	}
	return 0;
}

static double per_batch_ms(const struct dlp_facts *facts, double ns)
{
	return facts->all.batches ? ns / 1e6 / (double)facts->all.batches : 0;
}

/* " and 12 % waiting for one" behind "on a CPU", where that is the same cause. */
static struct words cpu_wait(const struct dlp_facts *facts, unsigned int state)
{
	double share = share_of(facts, DLP_ST_RUNQ);
	struct words ret = { "" };

	/* less is not worth the words */
	if (state == DLP_ST_RUN && share >= 0.1 &&
	    facts->cpu.lack == dlp_cause_of_state(state, facts->main_makes))
		SAY(&ret, " and %s waiting for one", PCT(share));
	return ret;
}

/* "the workers spend 83 % of their production time on a CPU" */
static struct words production(const struct dlp_facts *facts, unsigned int state)
{
	double waited = share_of(facts, DLP_ST_LOCK), helped = 0;
	uint64_t work_ns = dlp_split_sum(&facts->helpers);
	struct words ret;

	if (work_ns)
		helped = (double)facts->helpers.ns[state] / (double)work_ns;
	if (facts->main_makes)
		SAY(&ret, "it makes them itself (num_workers=0) and spends %s of that %s%s",
		    PCT(share_of(facts, state)), dlp_state_doing(state),
		    cpu_wait(facts, state).text);
	else if (waited * helped > share_of(facts, state))
		SAY(&ret,
		    "the workers wait %s of their production time for other threads of theirs, which "
		    "spend %s of what they work %s",
		    PCT(waited), PCT(helped), dlp_state_doing(state));
	else
		SAY(&ret, "the workers spend %s of their production time %s%s",
		    PCT(share_of(facts, state)), dlp_state_doing(state),
		    cpu_wait(facts, state).text);
	return ret;
}

/* Appended where it says that the workers are not what limits the rate. */
static struct words idle_too(const struct dlp_facts *facts)
{
	struct words ret = { "" };

	if (!isnan(facts->idle))
		SAY(&ret, ", and the workers are idle %s of their time", PCT(facts->idle));
	return ret;
}

/* "processes outside the job use 1.4 of 2 CPUs (most of it: python, pid 123)" */
static struct words neighbours(const struct dlp_facts *facts)
{
	const struct dlp_other *rank[DLP_MODEL_OTHERS_MAX];
	const struct dlp_cpu_facts *cpu = &facts->cpu;
	size_t cnt = dlp_system_others_rank(facts->model, rank);
	struct words ret;
	char comm[24];

	if (cpu->steal >= LIMIT(STEAL) && !(cpu->others_cpus >= LIMIT(OTHERS_CPUS) * cpu->cpus)) {
		SAY(&ret, "the hypervisor takes %s of the CPUs' time", PCT(cpu->steal));
		return ret;
	}
	if (!cnt) {
		SAY(&ret, "processes outside the job use %.1f of %u CPUs", cpu->others_cpus,
		    cpu->cpus);
		return ret;
	}
	SAY(&ret, "processes outside the job use %.1f of %u CPUs (first of them %s, pid %u)",
	    cpu->others_cpus, cpu->cpus,
	    dlp_sanitise(comm, sizeof(comm), rank[0]->comm, sizeof(rank[0]->comm)), rank[0]->pid);
	return ret;
}

/* Why CPUs are lacking. */
static struct words lack(const struct dlp_facts *facts, enum dlp_cause cause)
{
	const struct dlp_cpu_facts *cpu = &facts->cpu;
	struct words ret;

	switch (cause) {
	case DLP_CAUSE_CPU_QUOTA:
		/* it may have been lifted since */
		if (isnan(cpu->quota_cpus))
			SAY(&ret, "the control group's CPU quota stopped the job in %s of its periods",
			    PCT(cpu->throttled));
		else
			SAY(&ret, "the control group's quota of %.4g CPUs stopped the job in %s of its "
				  "periods",
			    cpu->quota_cpus, PCT(cpu->throttled));
		break;
	case DLP_CAUSE_CPU_AFFINITY:
		if (cpu->cpus_worker && cpu->cpus_allowed > cpu->cpus_worker)
			SAY(&ret, "the workers may run on %u of %u CPUs only, the trainer on %u",
			    cpu->cpus_worker, cpu->cpus, cpu->cpus_allowed);
		else
			SAY(&ret, "the whole job may run on %u of %u CPUs only",
			    cpu->cpus_worker ? cpu->cpus_worker : cpu->cpus_allowed, cpu->cpus);
		break;
	case DLP_CAUSE_CPU_CONTENTION:
		ret = neighbours(facts);
		break;
	default:
		SAY(&ret,
		    "%.1f threads of the job want to run at a time, %.1f of them in thread pools of "
		    "the workers, on %u CPUs",
		    cpu->runnable, cpu->pool, cpu->cpus);
		break;
	}
	return ret;
}

static struct words startup(const struct dlp_facts *facts)
{
	const struct dlp_loader_sums *all = &facts->both;
	double ns = facts->cost[DLP_CAUSE_WORKER_STARTUP];
	struct words ret;

	if (all->init_cnt)
		SAY(&ret,
		    "%s of that goes into starting and ending workers, %.0f ms for each of %llu "
		    "iterators",
		    PCT(ns / facts->cost_ns), ns / 1e6 / (double)all->init_cnt,
		    (unsigned long long)all->init_cnt);
	else
		SAY(&ret, "%s of that goes into starting and ending workers",
		    PCT(ns / facts->cost_ns));
	return ret;
}

static struct words because(const struct dlp_facts *facts, enum dlp_cause cause)
{
	const struct dlp_cause_info *info = dlp_cause_info(cause);
	struct dlp_percent share = dlp_percent(dlp_cost_share(facts, cause));
	struct words ret;

	switch (cause) {
	case DLP_CAUSE_CPU_QUOTA:
	case DLP_CAUSE_CPU_AFFINITY:
	case DLP_CAUSE_CPU_CONTENTION:
	case DLP_CAUSE_CPU_OVERSUBSCRIPTION:
		SAY(&ret, "%s of that for want of a CPU: %s", share.text, lack(facts, cause).text);
		return ret;
	case DLP_CAUSE_WORKER_STARTUP:
		return startup(facts);
	case DLP_CAUSE_BATCH_TRANSFER:
		SAY(&ret,
		    "%s of that goes into moving finished batches to it and unpickling them, %.1f ms "
		    "a batch", share.text, per_batch_ms(facts, facts->cost[cause]));
		return ret;
	case DLP_CAUSE_SLOW_BATCH:
		SAY(&ret,
		    "%s of that passes while later batches stand ready behind a slow one%s",
		    share.text, idle_too(facts).text);
		return ret;
	case DLP_CAUSE_IDLE_WORKERS:
		SAY(&ret, "only %llu of %llu workers made a batch at all",
		    (unsigned long long)facts->fruitful,
		    (unsigned long long)(facts->fruitful + facts->barren));
		return ret;
	case DLP_CAUSE_MEMORY_PRESSURE:
		if (facts->memory_stall >= LIMIT(RECLAIM)) {
			SAY(&ret, "memory is short: during %s of the time some process waited for it",
			    PCT(facts->memory_stall));
			return ret;
		}
		SAY(&ret,
		    "the workers spend %s of their CPU time in the kernel, on %.0f page faults per "
		    "ms: they copy or clear memory", PCT(facts->system_time), facts->faults_per_ms);
		return ret;
	case DLP_CAUSE_MAIN_PROCESS:
		if (facts->main_makes)
			return production(facts, DLP_ST_RUN);
		SAY(&ret,
		    "%s of that it computes itself inside GetNext (sampler, collate), %.1f ms a "
		    "batch%s",
		    share.text, per_batch_ms(facts, facts->cost[cause]), idle_too(facts).text);
		return ret;
	case DLP_CAUSE_GC_PAUSE:
		if (isnan(dlp_gc_named(facts)->share))
			break;
		SAY(&ret,
		    "%s of that goes into Python's garbage collector: it takes %s of the CPU time of %s",
		    share.text, PCT(dlp_gc_named(facts)->share),
		    dlp_gc_is_mains(facts) ? "the training thread inside GetNext" : "the workers");
		return ret;
	case DLP_CAUSE_GIL_CONTENTION:
		if (!dlp_gil_is_mains(facts))
			return production(facts, DLP_ST_GIL);
		SAY(&ret,
		    "%s of that it waits for Python's global interpreter lock, which another of its "
		    "threads holds, %.1f ms a batch",
		    share.text, per_batch_ms(facts, facts->cost[cause]));
		return ret;
	default:
		break;
	}
	if (dlp_wait_is_mains(facts, cause)) {
		SAY(&ret, "%s of that the training thread itself is %s", share.text,
		    dlp_state_doing(info->state));
		return ret;
	}
	if (info->state < DLP_ST_MAX)
		return production(facts, info->state);
	SAY(&ret, "%s of that is %s", share.text, dlp_cause_id(cause));
	return ret;
}

static void say_data_loading(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	struct words why = because(facts, verdict->cause);

	if (facts->startup >= LIMIT(EXPOSED_LOW) && verdict->cause != DLP_CAUSE_WORKER_STARTUP)
		SAY(verdict,
		    "Training waits %s of the time for data (%s of it while iterators start and "
		    "end); %s.", PCT(facts->total), PCT(facts->startup / facts->total), why.text);
	else
		SAY(verdict, "Training waits %s of the time for data; %s.", PCT(facts->total),
		    why.text);
}

/* Before the end of the observation; what is told of late may come after it. */
static double seconds_left(const struct dlp_facts *facts, uint64_t ns)
{
	return facts->model->end_ns > ns ? (double)(facts->model->end_ns - ns) / 1e9 : 0;
}

/* ", and /dev/shm had 1.6 % of 64 MB left" where that is the cause. */
static struct words shm_left(const struct dlp_facts *facts, enum dlp_cause cause)
{
	const struct dlp_model *model = facts->model;
	struct words ret = { "" };

	if (cause == DLP_CAUSE_SHM_EXHAUSTED)
		SAY(&ret, ", and /dev/shm had only %s of %.0f MB left",
		    PCT((double)model->shm_least / (double)model->shm_total),
		    (double)model->shm_total / (1 << 20));
	return ret;
}

static void say_dead(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;
	struct words shm = shm_left(facts, verdict->cause);
	char end[40];

	if (facts->dead)
		SAY(verdict,
		    "Worker %u died (%s) %.1f s before the end of the observation%s: no batch came "
		    "after that.",
		    facts->dead->pid, dlp_summary_exit(facts->dead->exit_code, end, sizeof(end)),
		    seconds_left(facts, facts->dead->died_ns), shm.text);
	else
		SAY(verdict,
		    "Worker %u sent an exception instead of a batch%s: training ended %.1f s later.",
		    model->error_pid, shm.text, seconds_left(facts, model->error_ns));
}

static void say_stuck(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;
	struct words shm = shm_left(facts, verdict->cause);
	const struct dlp_thread *self;
	const char *doing = NULL;
	size_t cnt = 0;

	/* what the first of those asleep waits for; the evidence has all of them */
	for (size_t i = 0; !facts->main_makes && i < model->worker_cnt; i++) {
		const struct dlp_thread *thread = dlp_split_thread(model, model->workers[i].pid);

		if (!thread || model->workers[i].died_ns || thread->state == DLP_ST_IDLE ||
		    !dlp_split_counts(model, &model->workers[i]))
			continue;
		doing = dlp_state_doing(thread->state);
		cnt++;
	}
	self = facts->main_makes ? dlp_stall_thread(model) : NULL;
	if (doing)
		SAY(verdict,
		    "No progress: the training thread has been inside one GetNext for %.1f s, and %zu "
		    "worker%s %s %s%s.",
		    facts->stuck_s, cnt, cnt == 1 ? "" : "s", cnt == 1 ? "is" : "are", doing,
		    shm.text);
	else if (self)
		SAY(verdict,
		    "No progress: the training thread has been inside one GetNext for %.1f s, %s%s.",
		    facts->stuck_s, dlp_state_doing(self->state), shm.text);
	else
		SAY(verdict,
		    "No progress: the training thread has been inside one GetNext for %.1f s, and "
		    "nobody who could end it runs%s.",
		    facts->stuck_s, shm.text);
}

/* Where nothing is known of whoever makes the batches. */
static const struct dlp_advice look_closer = {
	"Mark the parts of what makes the batches with record_function: each is shown as a stage.",
	"If no part takes as long as the wait, it passes outside the marked ones.",
};

/* Where num_workers may not be what the loader has, or has already. */
static const struct dlp_advice make_elsewhere = {
	"Let workers or threads of the loader do what the training thread does in its next(), so that "
	"it is done while training computes.",
	"If the time per step stays, there is no free CPU.",
};

static const struct dlp_advice name_scope = {
	"Put the next() of the job's own loader into a record_function scope, and give its label "
	"with --getnext.",
	"If batches/s then differs from the rate of steps, the scope is not around every batch.",
};

void dlp_say_verdict(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_cause_info *info = dlp_cause_info(verdict->cause);

	switch (verdict->bottleneck) {
	case DLP_BN_INSUFFICIENT:
		say_insufficient(facts, verdict);
		break;
	case DLP_BN_NOT_DATA_LOADING:
		say_none(facts, verdict);
		break;
	case DLP_BN_DATA_LOADING:
		if (verdict->cause == DLP_CAUSE_NONE)
			say_unnamed(facts, verdict);
		else
			say_data_loading(facts, verdict);
		break;
	case DLP_BN_STALLED:
		if (facts->dead || facts->failed)
			say_dead(facts, verdict);
		else
			say_stuck(facts, verdict);
		break;
	}
	dlp_say_evidence(facts, verdict);
	if (verdict->bottleneck == DLP_BN_INSUFFICIENT) {
		if (is_fed_elsewhere(facts))
			verdict->advice[verdict->advice_cnt++] = name_scope;
		return;
	}
	if (verdict->bottleneck == DLP_BN_DATA_LOADING && verdict->cause == DLP_CAUSE_NONE) {
		verdict->advice[verdict->advice_cnt++] = look_closer;
		return;
	}
	/* what can be done is about what slows the training itself */
	if (verdict->bottleneck == DLP_BN_NOT_DATA_LOADING && is_candidate(verdict, DLP_CAUSE_GC_PAUSE))
		info = dlp_cause_info(DLP_CAUSE_GC_PAUSE);
	for (size_t i = 0; i < DLP_ADVICE_MAX && info->advice[i].text; i++)
		verdict->advice[verdict->advice_cnt++] = info->advice[i];
	if (verdict->cause == DLP_CAUSE_MAIN_PROCESS && facts->loader->named)
		verdict->advice[0] = make_elsewhere;
}
