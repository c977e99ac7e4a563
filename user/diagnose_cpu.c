/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runnable without a CPU: a quota, a mask, neighbours and thread pools all look the same to the
 * scheduler. What tells them apart: throttled periods, then the masks' sizes, then who ran
 * instead.
 */
#include <math.h>

#include "diagnose_priv.h"
#include "system.h"

static double wanted_ns(const struct dlp_clock *clock)
{
	return (double)(clock->ns[DLP_ST_RUN] + clock->ns[DLP_ST_RUNQ]);
}

/* Of the worker that may use fewest; 0 when most of them may use all there are. */
static uint32_t fewest_cpus(const struct dlp_model *model, uint32_t online)
{
	size_t known = 0, narrow = 0;
	uint32_t ret = 0;

	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];
		uint32_t cpus = worker->proc_last.cpus;

		if (!cpus || !dlp_split_seen(worker) || !dlp_split_counts(model, worker))
			continue;
		known++;
		narrow += cpus < online;
		if (!ret || cpus < ret)
			ret = cpus;
	}
	return (double)narrow >= LIMIT(NARROW) * (double)known ? ret : 0;
}

static bool others_take(const struct dlp_facts *facts)
{
	const struct dlp_cpu_facts *cpu = &facts->cpu;
	const struct dlp_sums *sums = facts->sums;
	double lack_s = (double)(facts->made.ns[DLP_ST_RUNQ] + sums->inside.ns[DLP_ST_RUNQ] +
				 sums->outside.ns[DLP_ST_RUNQ] + sums->pool.ns[DLP_ST_RUNQ]) / 1e9;
	double others_s = cpu->others_cpus * facts->window_s;

	/* NAN compares false: what is not known convicts nobody */
	return cpu->steal >= LIMIT(STEAL) ||
	       (cpu->cpus && cpu->others_cpus >= LIMIT(OTHERS_CPUS) * cpu->cpus &&
		others_s >= LIMIT(OTHERS_LACK) * lack_s);
}

static enum dlp_cause lack_of_cpus(const struct dlp_facts *facts)
{
	const struct dlp_cpu_facts *cpu = &facts->cpu;
	uint32_t usable = cpu->cpus_worker ? cpu->cpus_worker : cpu->cpus_allowed;

	if (cpu->throttled >= LIMIT(THROTTLED))
		return DLP_CAUSE_CPU_QUOTA;
	/* a mask that is wide enough for the job is innocent when others are there to blame */
	if (usable && usable < cpu->cpus && (cpu->runnable > usable || !others_take(facts)))
		return DLP_CAUSE_CPU_AFFINITY;
	if (others_take(facts))
		return DLP_CAUSE_CPU_CONTENTION;
	if (cpu->cpus && cpu->runnable >= LIMIT(RUNNABLE) * cpu->cpus &&
	    cpu->pool >= LIMIT(POOL_SHARE) * cpu->runnable)
		return DLP_CAUSE_CPU_OVERSUBSCRIPTION;
	/* the workers themselves fill the CPUs: less work is what helps */
	return facts->main_makes ? DLP_CAUSE_MAIN_PROCESS : DLP_CAUSE_WORKER_CPU;
}

void dlp_gather_cpu(struct dlp_facts *facts)
{
	const struct dlp_sums *sums = facts->sums;
	struct dlp_cpu_facts *cpu = &facts->cpu;
	double window_ns = facts->window_s * 1e9;

	cpu->cpus = sums->system_to.cpus;
	cpu->cpus_allowed = sums->system_to.cpus_allowed;
	if (!facts->main_makes)
		cpu->cpus_worker = fewest_cpus(facts->model, cpu->cpus);
	cpu->quota_cpus = dlp_system_quota_cpus(&sums->system_to);
	cpu->throttled = dlp_system_throttled(&sums->system_from, &sums->system_to);
	cpu->steal = dlp_system_steal(&sums->system_from, &sums->system_to);
	cpu->others_cpus = sums->others_valid ? (double)sums->others_ns / window_ns : NAN;
	cpu->pool = wanted_ns(&sums->pool) / window_ns;
	cpu->runnable = cpu->pool + (wanted_ns(&facts->made) + wanted_ns(&sums->outside) +
				     (facts->main_makes ? 0 : wanted_ns(&sums->inside))) /
					    window_ns;
	cpu->lack = lack_of_cpus(facts);
}
