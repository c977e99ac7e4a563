/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verdict in words: one sentence with its number, the evidence, the advice. */
#include "diagnose_priv.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "util.h"

struct percent {
	char text[16];
};

/* One decimal below 10 %, where it matters; none above. */
static struct percent percent(double ratio)
{
	struct percent ret;
	double value = ratio * 100;

	(void)snprintf(ret.text, sizeof(ret.text), value < 9.95 ? "%.1f %%" : "%.0f %%", value);
	return ret;
}

__attribute__((format(printf, 5, 6))) static void evidence(struct dlp_verdict *verdict,
							   const char *metric, double value,
							   const char *unit, const char *format,
							   ...)
{
	struct dlp_evidence *entry;
	va_list args;

	if (verdict->evidence_cnt == DLP_EVIDENCE_MAX)
		return;
	entry = &verdict->evidence[verdict->evidence_cnt++];
	entry->metric = metric;
	entry->value = value;
	entry->unit = unit;
	va_start(args, format);
	(void)vsnprintf(entry->text, sizeof(entry->text), format, args);
	va_end(args);
}

static const char *share_metric(unsigned int state)
{
	static const char *const metrics[DLP_ST_MAX] = {
		[DLP_ST_RUN] = "production_share.run",	 [DLP_ST_RUNQ] = "production_share.runq",
		[DLP_ST_DISK] = "production_share.disk", [DLP_ST_FAULT] = "production_share.fault",
		[DLP_ST_FS] = "production_share.fs",	 [DLP_ST_NET] = "production_share.net",
		[DLP_ST_LOCK] = "production_share.lock", [DLP_ST_GIL] = "production_share.gil",
		[DLP_ST_PIPE] = "production_share.pipe", [DLP_ST_SLEEP] = "production_share.sleep",
		[DLP_ST_IDLE] = "production_share.idle", [DLP_ST_OTHER] = "production_share.other",
	};

	return metrics[state];
}

static double share_of(const struct dlp_facts *facts, unsigned int state)
{
	for (size_t i = 0; i < facts->share_cnt; i++) {
		if (facts->share[i].state == state)
			return facts->share[i].share;
	}
	return 0;
}

static void evidence_of_waiting(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader *loader = facts->loader;

	if (!isnan(facts->exposed))
		evidence(verdict, "exposed_wait_ratio", facts->exposed, "ratio",
			 "the training thread was inside GetNext for %.2f s of %.1f s, in %llu "
			 "calls",
			 (double)facts->model->exposed_ns / 1e9, facts->window_s,
			 (unsigned long long)facts->calls);
	if (loader && loader->getnext.cnt) {
		double median = (double)dlp_hist_quantile(&loader->getnext, 0.5) / 1e3;
		double p99 = (double)dlp_hist_quantile(&loader->getnext, 0.99) / 1e3;

		evidence(verdict, "getnext_median_us", median, "us",
			 "GetNext takes %.2f ms in the median and %.2f ms in the slowest hundredth",
			 median / 1e3, p99 / 1e3);
	}
}

static void evidence_of_production(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const char *whose = facts->main_makes ? "GetNext's time" : "the workers' production time";
	uint64_t batches = 0, made_ns = 0;

	for (size_t i = 0; i < facts->share_cnt && i < 3; i++) {
		const struct dlp_share *entry = &facts->share[i];

		/* below a twentieth it explains nothing */
		if (i && entry->share < 0.05)
			break;
		evidence(verdict, share_metric(entry->state), entry->share, "ratio",
			 "%s of %s is spent %s", percent(entry->share).text, whose,
			 dlp_state_doing(entry->state));
	}
	if (!isnan(facts->idle) && !facts->main_makes)
		evidence(verdict, "workers_idle_share", facts->idle, "ratio",
			 "%zu worker%s waited for something to do %s of the time", facts->workers,
			 facts->workers == 1 ? "" : "s", percent(facts->idle).text);
	for (size_t i = 0; i < facts->model->worker_cnt; i++) {
		batches += facts->model->workers[i].produce.cnt;
		made_ns += facts->model->workers[i].produce.sum_ns;
	}
	if (batches)
		evidence(verdict, "produce_mean_us", (double)made_ns / 1e3 / (double)batches, "us",
			 "making a batch takes a worker %.2f ms on average, over %llu batches",
			 (double)made_ns / 1e6 / (double)batches, (unsigned long long)batches);
}

static void evidence_of_devices(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;

	for (size_t i = 0; i < model->device_cnt; i++) {
		const struct dlp_device *device = &model->devices[i];
		double median = (double)dlp_hist_quantile(&device->latency, 0.5) / 1e3;

		if (!device->reads || !device->latency.cnt)
			continue;
		evidence(verdict, "block_read_latency_median_us", median, "us",
			 "device %u:%u served %llu reads of %.1f KiB on average, %.2f ms in the "
			 "median",
			 device->dev >> 20, device->dev & 0xfffff,
			 (unsigned long long)device->reads,
			 (double)device->read_bytes / 1024 / (double)device->reads, median / 1e3);
	}
}

static void evidence_of_stall(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;

	evidence(verdict, "stuck_s", facts->stuck_s, "s", "one GetNext has not ended for %.1f s",
		 facts->stuck_s);
	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_thread *thread = dlp_split_thread(model, model->workers[i].pid);
		double since;

		if (!thread || model->workers[i].died_ns || !thread->since_ns ||
		    thread->since_ns > model->end_ns)
			continue;
		since = (double)(model->end_ns - thread->since_ns) / 1e9;
		if (thread->syscall >= 0)
			evidence(verdict, "worker_wait_s", since, "s",
				 "worker %u has been %s for %.1f s (system call %d)", thread->tid,
				 dlp_state_doing(thread->state), since, thread->syscall);
		else
			evidence(verdict, "worker_wait_s", since, "s",
				 "worker %u has been %s for %.1f s", thread->tid,
				 dlp_state_doing(thread->state), since);
	}
}

static void evidence_of_deaths(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;

	for (size_t i = 0; i < model->worker_cnt; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (worker->died_ns && worker->exit_code != DLP_EXIT_UNKNOWN &&
		    (worker->exit_code & 0x7f))
			evidence(verdict, "worker_killed_signal", worker->exit_code & 0x7f,
				 "signal", "worker %u was killed by signal %u", worker->pid,
				 worker->exit_code & 0x7f);
	}
}

static void evidence_of_loss(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loss *loss = &facts->loss;

	if (loss->complete || !loss->reason_cnt)
		return;
	evidence(verdict, "events_lost", (double)loss->events, "count",
		 "not everything was seen (%s: %llu): some figures may be short",
		 loss->reason[0].id, (unsigned long long)loss->reason[0].count);
}

#define SAY(verdict, ...) (void)snprintf((verdict)->text, sizeof((verdict)->text), __VA_ARGS__)

static void say_insufficient(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (isnan(facts->exposed) && facts->calls)
		SAY(verdict,
		    "The training thread's time could not be measured in these %.1f s (%llu "
		    "GetNext calls seen): no verdict.",
		    facts->window_s, (unsigned long long)facts->calls);
	else if (!facts->calls)
		SAY(verdict, "No batch came out of a DataLoader in %.1f s: nothing to judge yet.",
		    facts->window_s);
	else if (verdict->severity != DLP_SEV_NONE && !facts->share_cnt)
		SAY(verdict,
		    "Training waits %s of the time for data, but the time of whoever makes the "
		    "batches could not be measured: no cause can be named.",
		    percent(facts->exposed).text);
	else
		SAY(verdict,
		    "Only %llu batch%s came out of a DataLoader in %.1f s: too little to judge.",
		    (unsigned long long)facts->calls, facts->calls == 1 ? "" : "es",
		    facts->window_s);
}

static void say_none(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (isnan(facts->idle) || facts->main_makes)
		SAY(verdict,
		    "Training waits only %s of the time for data: data loading is not the "
		    "bottleneck.",
		    percent(facts->exposed).text);
	else
		SAY(verdict,
		    "Training waits only %s of the time for data, and the workers are idle %s of "
		    "theirs: data loading is not the bottleneck.",
		    percent(facts->exposed).text, percent(facts->idle).text);
}

static void say_data_loading(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_cause_info *info = dlp_cause_info(verdict->cause);
	double share = info->state < DLP_ST_MAX ? share_of(facts, info->state) : 0;

	if (facts->main_makes)
		SAY(verdict,
		    "Training waits %s of the time for data, which it makes itself "
		    "(num_workers=0): %s of that is spent %s.",
		    percent(facts->exposed).text, percent(share).text, info->doing);
	else if (verdict->cause == DLP_CAUSE_MAIN_PROCESS)
		SAY(verdict,
		    "Training waits %s of the time for data although the workers are idle %s of "
		    "theirs: %s of that wait the training thread itself spends %s.",
		    percent(facts->exposed).text, percent(facts->idle).text,
		    percent(verdict->candidate[0].share).text, info->doing);
	else if (facts->idle_much)
		SAY(verdict,
		    "Training waits %s of the time for data although the workers are idle %s of "
		    "theirs; when they produce, they spend %s of it %s.",
		    percent(facts->exposed).text, percent(facts->idle).text, percent(share).text,
		    info->doing);
	else
		SAY(verdict,
		    "Training waits %s of the time for data; the workers spend %s of their "
		    "production time %s.",
		    percent(facts->exposed).text, percent(share).text, info->doing);
}

static void say_stalled(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_cause_info *info = dlp_cause_info(verdict->cause);
	const char *who = facts->main_makes ? "it" : "most workers";

	if (info->doing && verdict->cause != DLP_CAUSE_MAIN_PROCESS)
		SAY(verdict,
		    "No progress: the training thread has been inside one GetNext for %.1f s, and "
		    "%s %s %s.",
		    facts->stuck_s, who, facts->main_makes ? "is" : "are", info->doing);
	else
		SAY(verdict,
		    "No progress: the training thread has been inside one GetNext for %.1f s, and "
		    "nobody who could end it runs.",
		    facts->stuck_s);
}

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
		say_data_loading(facts, verdict);
		break;
	case DLP_BN_STALLED:
		say_stalled(facts, verdict);
		evidence_of_stall(facts, verdict);
		break;
	}
	evidence_of_waiting(facts, verdict);
	if (verdict->bottleneck != DLP_BN_STALLED)
		evidence_of_production(facts, verdict);
	if (verdict->cause == DLP_CAUSE_DISK_READ || verdict->cause == DLP_CAUSE_PAGE_FAULT_READ)
		evidence_of_devices(facts, verdict);
	evidence_of_deaths(facts, verdict);
	evidence_of_loss(facts, verdict);
	if (verdict->bottleneck == DLP_BN_INSUFFICIENT)
		return;
	for (size_t i = 0; i < DLP_ADVICE_MAX && info->advice[i].text; i++)
		verdict->advice[verdict->advice_cnt++] = info->advice[i];
}
