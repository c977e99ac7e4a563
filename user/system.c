/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "system.h"

#include <math.h>

double dlp_system_growth(const struct dlp_ev_system *from, const struct dlp_ev_system *to,
			 uint32_t known, uint64_t before, uint64_t after)
{
	/* no event has no known bits */
	if ((from->known & to->known & known) != known || after < before)
		return NAN;
	return (double)(after - before);
}

double dlp_system_quota_cpus(const struct dlp_ev_system *at)
{
	if (!(at->known & DLP_SYS_QUOTA) || !at->quota_us || !at->period_us)
		return NAN;
	return (double)at->quota_us / (double)at->period_us;
}

double dlp_system_throttled(const struct dlp_ev_system *from, const struct dlp_ev_system *to)
{
	double periods = dlp_system_growth(from, to, DLP_SYS_QUOTA, from->periods, to->periods);
	double throttled = dlp_system_growth(from, to, DLP_SYS_QUOTA, from->throttled_periods,
					     to->throttled_periods);

	if (!(periods > 0))
		return NAN;
	/* a period may be counted a moment after the throttling in it; NAN stays NAN */
	return throttled > periods ? 1 : throttled / periods;
}

struct cpu_growth {
	double busy, idle, steal;
};

/* False when nothing is known or no tick has passed. */
static bool cpu_growth(const struct dlp_ev_system *from, const struct dlp_ev_system *to,
		       struct cpu_growth *ret)
{
	ret->busy = dlp_system_growth(from, to, DLP_SYS_CPU, from->busy_ns, to->busy_ns);
	ret->steal = dlp_system_growth(from, to, DLP_SYS_CPU, from->steal_ns, to->steal_ns);
	/* the kernel's idle and iowait may go back a little (proc(5)): then there was next to none */
	ret->idle = to->idle_ns > from->idle_ns ? (double)(to->idle_ns - from->idle_ns) : 0;
	return ret->busy + ret->steal + ret->idle > 0;
}

double dlp_system_idle(const struct dlp_ev_system *from, const struct dlp_ev_system *to)
{
	struct cpu_growth cpu;

	return cpu_growth(from, to, &cpu) ? cpu.idle / (cpu.busy + cpu.idle + cpu.steal) : NAN;
}

double dlp_system_steal(const struct dlp_ev_system *from, const struct dlp_ev_system *to)
{
	struct cpu_growth cpu;

	return cpu_growth(from, to, &cpu) ? cpu.steal / (cpu.busy + cpu.idle + cpu.steal) : NAN;
}

double dlp_system_others_cpus(const struct dlp_model *model)
{
	const struct dlp_system_facts *system = &model->system;

	if (!system->others_ns || system->others_ns <= model->start_ns)
		return NAN;
	return (double)system->others_all.used_ns / (double)(system->others_ns - model->start_ns);
}

double dlp_system_others_recent_cpus(const struct dlp_model *model)
{
	const struct dlp_system_facts *system = &model->system;

	if (!system->others_recent_wall_ns)
		return NAN;
	return (double)system->others_recent_ns / (double)system->others_recent_wall_ns;
}

size_t dlp_system_others_rank(const struct dlp_model *model,
			      const struct dlp_other *ret[DLP_MODEL_OTHERS_MAX])
{
	size_t cnt = 0;

	for (size_t i = 0; i < model->system.other_cnt; i++) {
		const struct dlp_other *other = &model->system.others[i];
		size_t at = cnt;

		if (!other->used_ns)
			continue;
		for (; at && ret[at - 1]->used_ns < other->used_ns; at--)
			ret[at] = ret[at - 1];
		ret[at] = other;
		cnt++;
	}
	return cnt;
}
