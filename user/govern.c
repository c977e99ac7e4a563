/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "govern.h"

#include <string.h>

#include "util.h"

static int emit_state(const struct dlp_govern *govern, dlp_sink_fn emit, void *ctx)
{
	struct dlp_ev_govern event;

	dlp_governor_event(&govern->governor, dlp_now_ns(), &event);
	return emit(ctx, &event, sizeof(event));
}

/* What is not there cannot be done without. */
static uint32_t possible_steps(const struct dlp_session *session)
{
	struct dlp_session_info info;
	uint32_t steps = 0;

	dlp_session_info(session, &info);
	if (info.active & DLP_FEATURE_BIT(SCOPES))
		steps |= 1u << DLP_GOV_LABELS_FEW | 1u << DLP_GOV_LABELS_OFF |
			 1u << DLP_GOV_WORKER_SCOPES;
	if (info.active & DLP_FEATURE_BIT(WAITS))
		steps |= 1u << DLP_GOV_LONG_WAITS;
	if (info.active & (DLP_FEATURE_BIT(QUEUE_UPROBE) | DLP_FEATURE_BIT(QUEUE_SYSCALL)))
		steps |= 1u << DLP_GOV_MESSAGES;
	return steps;
}

int dlp_govern_open(struct dlp_govern *govern, uint32_t limit_ppm, dlp_sink_fn emit, void *ctx)
{
	/* probes are not attached again: the right to do so may be given up meanwhile */
	dlp_governor_init(&govern->governor, limit_ppm, possible_steps(govern->session),
			  1u << DLP_GOV_MESSAGES);
	govern->cpu_ns = dlp_jobs_cpu_ns(govern->jobs);
	govern->last_ns = dlp_now_ns();
	govern->active = 0;
	return emit_state(govern, emit, ctx);
}

static void carry_out(struct dlp_govern *govern)
{
	uint32_t active = dlp_governor_active(&govern->governor), changed = active ^ govern->active;

	if (!changed)
		return;
	dlp_labels_throttle(govern->labels, active & 1u << DLP_GOV_LABELS_OFF ? DLP_LABELS_NONE :
					    active & 1u << DLP_GOV_LABELS_FEW ? DLP_LABELS_FEW :
										DLP_LABELS_ALL);
	dlp_session_throttle(govern->session, active);
	govern->active = active;
}

int dlp_govern_interval(struct dlp_govern *govern, dlp_sink_fn emit, void *ctx)
{
	struct dlp_cost_sample sample = { .now_ns = dlp_now_ns() };
	uint64_t cpu_ns = dlp_jobs_cpu_ns(govern->jobs);

	sample.job_ns = cpu_ns > govern->cpu_ns ? cpu_ns - govern->cpu_ns : 0;
	/* a job that mostly waits is not held up by more than its probes' share of one CPU */
	if (sample.job_ns < sample.now_ns - govern->last_ns)
		sample.job_ns = sample.now_ns - govern->last_ns;
	govern->last_ns = sample.now_ns;
	govern->cpu_ns = cpu_ns;
	if (!dlp_session_cost(govern->session, sample.part_ns))
		return 0;
	(void)dlp_governor_measured(&govern->governor, &sample);
	carry_out(govern);
	return emit_state(govern, emit, ctx);
}
