/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "governor.h"

#include <string.h>

#include "util.h"

/* One interval can be an accident: cold caches after attaching, a job that pauses. */
#define OVER_SAMPLES 2
/* A job that used less CPU time in an interval is not slowed down by anything of ours. */
#define JOB_LEAST_NS (20 * DLP_NS_PER_MS)
/*
 * A step is taken back when the cost has been below half of the limit for so long. Each one that
 * has to be taken again doubles that: a job that needs it does not change its mind every minute.
 */
#define PATIENCE_FIRST_NS (60 * DLP_NS_PER_S)
#define PATIENCE_MOST_NS (3600 * DLP_NS_PER_S)
/* A step whose programs take less than this part of what is too much would not help. */
#define HELPS_PART 10
/* One that was taken and has not saved that much was no help: it is taken back at once. */

static const enum dlp_cost_part saves[DLP_GOV_MAX] = {
	[DLP_GOV_LABELS_FEW] = DLP_COST_SCOPES,	   [DLP_GOV_LABELS_OFF] = DLP_COST_SCOPES,
	[DLP_GOV_LONG_WAITS] = DLP_COST_CLOCKS,	   [DLP_GOV_MESSAGES] = DLP_COST_MESSAGES,
	[DLP_GOV_WORKER_SCOPES] = DLP_COST_SCOPES,
};

void dlp_governor_init(struct dlp_governor *governor, uint32_t limit_ppm, uint32_t possible,
		       uint32_t final)
{
	memset(governor, 0, sizeof(*governor));
	governor->limit_ppm = limit_ppm;
	governor->possible = possible;
	governor->final = final;
	governor->measured_ppm = DLP_GOV_UNKNOWN;
	governor->patience_ns = PATIENCE_FIRST_NS;
}

uint32_t dlp_governor_active(const struct dlp_governor *governor)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < governor->taken_cnt; i++)
		bits |= 1u << governor->taken[i];
	return bits;
}

bool dlp_governor_alert(const struct dlp_governor *governor)
{
	return governor->settling || (governor->over && !governor->unmet);
}

static uint32_t ppm_of(uint64_t part_ns, uint64_t whole_ns)
{
	double ppm = (double)part_ns * 1e6 / (double)whole_ns;

	return ppm < 1e9 ? (uint32_t)ppm : (uint32_t)1e9;
}

/* Ends the newest step's trial: false when it has not helped, and is taken back. */
static bool has_helped(struct dlp_governor *governor, const struct dlp_cost_sample *sample)
{
	uint32_t newest = governor->taken[governor->taken_cnt - 1];
	uint32_t ppm = ppm_of(sample->part_ns[saves[newest]], sample->job_ns);

	governor->on_trial = false;
	if (!governor->over || governor->final & 1u << newest || ppm + governor->trial_excess_ppm / HELPS_PART < governor->trial_ppm)
		return true;
	governor->useless |= 1u << newest;
	governor->taken_cnt--;
	governor->settling = true;
	return false;
}

/* The next step that would help; false when there is none. */
static bool step(struct dlp_governor *governor, const struct dlp_cost_sample *sample,
		 uint64_t excess_ns)
{
	uint32_t left = governor->possible & ~governor->useless & ~dlp_governor_active(governor);

	for (uint32_t i = 0; i < DLP_GOV_MAX; i++) {
		if (!(left & 1u << i) || sample->part_ns[saves[i]] * HELPS_PART < excess_ns)
			continue;
		governor->taken[governor->taken_cnt++] = i;
		governor->on_trial = true;
		governor->trial_ppm = ppm_of(sample->part_ns[saves[i]], sample->job_ns);
		governor->trial_excess_ppm = ppm_of(excess_ns, sample->job_ns);
		if (governor->undone & 1u << i && governor->patience_ns < PATIENCE_MOST_NS)
			governor->patience_ns *= 2;
		return true;
	}
	return false;
}

static bool too_much(struct dlp_governor *governor, const struct dlp_cost_sample *sample)
{
	uint64_t allowed_ns = (uint64_t)((double)governor->job_ns * governor->limit_ppm / 1e6);

	governor->calm_ns = 0;
	if (++governor->over_cnt < OVER_SAMPLES)
		return false;
	if (step(governor, sample, governor->probe_ns - allowed_ns)) {
		governor->over_cnt = 0;
		governor->settling = true;
		governor->unmet = false;
		return true;
	}
	if (governor->unmet)
		return false;
	governor->unmet = true;
	return true;
}

/* The newest step that can be taken back; false when there is none. */
static bool take_back(struct dlp_governor *governor)
{
	size_t at = governor->taken_cnt;

	while (at && governor->final & 1u << governor->taken[at - 1])
		at--;
	if (!at)
		return false;
	governor->undone |= 1u << governor->taken[at - 1];
	for (governor->taken_cnt--; at <= governor->taken_cnt; at++)
		governor->taken[at - 1] = governor->taken[at];
	return true;
}

static bool within_limit(struct dlp_governor *governor, uint64_t now_ns)
{
	bool changed = governor->unmet;

	governor->over_cnt = 0;
	governor->unmet = false;
	if (governor->measured_ppm > governor->limit_ppm / 2) {
		governor->calm_ns = 0;
		return changed;
	}
	if (!governor->calm_ns)
		governor->calm_ns = now_ns;
	if (now_ns - governor->calm_ns < governor->patience_ns)
		return changed;
	governor->useless = 0;
	if (!take_back(governor))
		return changed;
	governor->calm_ns = 0;
	governor->settling = true;
	return true;
}

bool dlp_governor_measured(struct dlp_governor *governor, const struct dlp_cost_sample *sample)
{
	uint64_t probe_ns = 0;

	/* what is measured there is mostly noise */
	if (sample->job_ns < JOB_LEAST_NS)
		return false;
	for (size_t i = 0; i < DLP_COST_PARTS; i++)
		probe_ns += sample->part_ns[i];
	governor->probe_ns = probe_ns;
	governor->job_ns = sample->job_ns;
	governor->measured_ppm = ppm_of(probe_ns, sample->job_ns);
	governor->over = governor->measured_ppm > governor->limit_ppm;
	if (governor->settling) {
		governor->settling = false;
		return false;
	}
	if (governor->on_trial && !has_helped(governor, sample))
		return true;
	if (governor->over)
		return too_much(governor, sample);
	return within_limit(governor, sample->now_ns);
}

void dlp_governor_event(const struct dlp_governor *governor, uint64_t now_ns,
			struct dlp_ev_govern *ret)
{
	*ret = (struct dlp_ev_govern){
		.hdr = { .size = sizeof(*ret), .kind = DLP_EV_GOVERN, .ts_ns = now_ns },
		.limit_ppm = governor->limit_ppm,
		.measured_ppm = governor->measured_ppm,
		.active = dlp_governor_active(governor),
		.unmet = governor->unmet,
		.probe_ns = governor->probe_ns,
		.job_ns = governor->job_ns,
	};
}

static const struct {
	const char *id, *text;
} steps[DLP_GOV_MAX] = {
	[DLP_GOV_LABELS_FEW] = { "labels_few", "with a smaller sample of record_function labels" },
	[DLP_GOV_LABELS_OFF] = { "labels_off", "without record_function labels" },
	[DLP_GOV_LONG_WAITS] = { "long_waits", "without single waits of less than 100 ms" },
	[DLP_GOV_MESSAGES] = { "messages_off", "without batch messages" },
	[DLP_GOV_WORKER_SCOPES] = { "worker_scopes_off",
				    "without record_function scopes of workers" },
};

const char *dlp_governor_step_id(uint32_t step)
{
	return step < DLP_GOV_MAX ? steps[step].id : NULL;
}

const char *dlp_governor_step_text(uint32_t step)
{
	return step < DLP_GOV_MAX ? steps[step].text : NULL;
}
