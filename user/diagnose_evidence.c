/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The numbers behind a verdict, the most telling first. */
#include "diagnose_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "summary.h"
#include "system.h"
#include "util.h"

#define PCT(ratio) (dlp_percent(ratio).text)
/* Of many workers that tell the same so many do, and there is room for other evidence. */
#define ALIKE_MAX 4

__attribute__((format(printf, 5, 6))) static void evidence(struct dlp_verdict *verdict,
							   const char *metric, double value,
							   const char *unit, const char *format,
							   ...)
{
	struct dlp_evidence *entry;
	va_list args;

	if (verdict->evidence_cnt == DLP_EVIDENCE_MAX || !isfinite(value))
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

static void of_waiting(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader *loader = facts->loader;

	if (!isnan(facts->exposed))
		evidence(verdict, "exposed_wait_ratio", facts->exposed, "ratio",
			 "the training thread was inside GetNext for %.2f s of %.1f s, in %llu "
			 "calls",
			 facts->exposed * facts->window_s, facts->window_s,
			 (unsigned long long)facts->calls);
	if (loader && loader->getnext.cnt) {
		double median = (double)dlp_hist_quantile(&loader->getnext, 0.5) / 1e3;
		double p99 = (double)dlp_hist_quantile(&loader->getnext, 0.99) / 1e3;

		evidence(verdict, "getnext_median_us", median, "us",
			 "GetNext takes %.2f ms in the median and %.2f ms in the slowest hundredth",
			 median / 1e3, p99 / 1e3);
	}
}

/* What the training thread does when it does not wait for data. */
static void of_training(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	struct dlp_share share[DLP_ST_MAX];
	size_t cnt = dlp_split_rank(&facts->sums->outside, false, share);

	if (!cnt || !facts->sums->main_valid)
		return;
	if (cnt > 1 && share[1].share >= LIMIT(EXPOSED_LOW))
		evidence(verdict, "training_share", share[0].share, "ratio",
			 "outside GetNext the training thread spent %s of its time %s, %s %s",
			 PCT(share[0].share), dlp_state_doing(share[0].state), PCT(share[1].share),
			 dlp_state_doing(share[1].state));
	else
		evidence(verdict, "training_share", share[0].share, "ratio",
			 "outside GetNext the training thread spent %s of its time %s",
			 PCT(share[0].share), dlp_state_doing(share[0].state));
}

static void of_startup(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader_sums *all = &facts->both;
	double boot_ms = (double)(all->boot_ns + all->closing_ns) / 1e6;

	if (facts->startup * facts->window_s < 1e-3)
		return;
	evidence(verdict, "startup_ratio", facts->startup, "ratio",
		 "%llu times workers were started (%.2f s in iter()) and ended (%.2f s) outside "
		 "GetNext; %.0f ms inside it",
		 (unsigned long long)all->init_cnt, (double)all->init_ns / 1e9,
		 (double)all->teardown_ns / 1e9, boot_ms);
}

static void of_queue(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader_sums *all = &facts->all;
	const struct dlp_loader *loader = facts->loader;
	double held = all->produce_ns ? (double)all->held_ns / (double)all->produce_ns : NAN;

	if (loader && loader->ready_cnt && !facts->main_makes)
		evidence(verdict, "empty_fraction",
			 (double)loader->empty_cnt / (double)loader->ready_cnt, "ratio",
			 "%s of the calls found no batch ready; %.1f were on average",
			 PCT((double)loader->empty_cnt / (double)loader->ready_cnt),
			 (double)loader->ready_sum / (double)loader->ready_cnt);
	if (held >= LIMIT(CANDIDATE))
		evidence(verdict, "held_share", held, "ratio",
			 "%s of the waiting for batches passed while a later one stood ready",
			 PCT(held));
}

static void of_transfer(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader_sums *all = &facts->all;
	double batches = (double)all->batches * 1e6;

	/* its cause may be the other kind's, or a wait for a pipe of the job's own */
	if (!all->batches || !(all->transfer_ns + all->handover_ns + all->behind_ns) ||
	    dlp_cost_share(facts, DLP_CAUSE_BATCH_TRANSFER) < LIMIT(CANDIDATE))
		return;
	evidence(verdict, "transfer_ms_per_batch", (double)all->transfer_ns / batches, "ms",
		 "a finished batch takes %.2f ms to be read; then %.2f ms of waiting for its parts "
		 "and %.2f ms of CPU, for %.1f kB",
		 (double)all->transfer_ns / batches, (double)all->handover_ns / batches,
		 (double)all->behind_ns / batches,
		 (double)all->message_bytes / 1e3 / (double)all->batches);
}

static void of_production(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loader_sums *all = &facts->all;
	const char *whose = facts->main_makes ? "GetNext's time" : "the workers' production time";

	for (size_t i = 0; i < facts->share_cnt && i < 3; i++) {
		const struct dlp_share *entry = &facts->share[i];

		/* below a twentieth it explains nothing */
		if (i && entry->share < 0.05)
			break;
		evidence(verdict, share_metric(entry->state), entry->share, "ratio",
			 "%s of %s is spent %s", PCT(entry->share), whose,
			 dlp_state_doing(entry->state));
	}
	if (!isnan(facts->idle) && !facts->main_makes)
		evidence(verdict, "workers_idle_share", facts->idle, "ratio",
			 "%zu worker%s waited for something to do %s of the time", facts->workers,
			 facts->workers == 1 ? "" : "s", PCT(facts->idle));
	if (all->made_cnt)
		evidence(verdict, "produce_mean_us",
			 (double)all->made_ns / 1e3 / (double)all->made_cnt, "us",
			 "making a batch takes a worker %.2f ms on average, over %llu batches",
			 (double)all->made_ns / 1e6 / (double)all->made_cnt,
			 (unsigned long long)all->made_cnt);
}

static void of_gc_share(struct dlp_verdict *verdict, const struct dlp_gc_share *gc,
			const char *metric, const char *whose)
{
	/* what any program has says nothing */
	if (gc->share >= LIMIT(GC_LEAST))
		evidence(verdict, metric, gc->share, "ratio",
			 "Python's garbage collector had %s of the CPU time of %s, by %llu samples "
			 "(error: %s)",
			 PCT(gc->share), whose, (unsigned long long)gc->samples, PCT(gc->error));
}

static void of_gc(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (!facts->main_makes)
		of_gc_share(verdict, &facts->gc_made, "gc_share.workers", "the workers");
	if (facts->main_makes || dlp_gc_is_mains(facts))
		of_gc_share(verdict, &facts->gc_inside, "gc_share.inside",
			    "the training thread inside GetNext");
	if (verdict->bottleneck == DLP_BN_NOT_DATA_LOADING)
		of_gc_share(verdict, &facts->gc_outside, "gc_share.outside",
			    "the training thread outside GetNext");
}

static void of_cpus(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_cpu_facts *cpu = &facts->cpu;

	if (cpu->throttled >= LIMIT(THROTTLED) / 10) {
		evidence(verdict, "throttled_periods_share", cpu->throttled, "ratio",
			 "the control group's CPU quota stopped the job in %s of its periods",
			 PCT(cpu->throttled));
		evidence(verdict, "quota_cpus", cpu->quota_cpus, "CPUs",
			 "the control group's quota is %.4g CPUs", cpu->quota_cpus);
	}
	if (cpu->cpus && cpu->runnable > cpu->cpus)
		evidence(verdict, "runnable_threads", cpu->runnable, "threads",
			 "%.1f threads of the job ran or wanted to at a time, %.1f of them other "
			 "threads of the workers; there are %u CPUs",
			 cpu->runnable, cpu->pool, cpu->cpus);
	if (cpu->cpus && cpu->others_cpus >= LIMIT(OTHERS_CPUS) * cpu->cpus)
		evidence(verdict, "others_cpus", cpu->others_cpus, "CPUs",
			 "processes outside the job used %.2f of %u CPUs", cpu->others_cpus,
			 cpu->cpus);
	if (cpu->steal >= LIMIT(STEAL) / 2)
		evidence(verdict, "hypervisor_steal_share", cpu->steal, "ratio",
			 "the hypervisor took %s of the CPUs' time", PCT(cpu->steal));
	if (cpu->cpus_worker && cpu->cpus_worker < cpu->cpus)
		evidence(verdict, "worker_cpus", cpu->cpus_worker, "CPUs",
			 "a worker may run on %u of %u CPUs", cpu->cpus_worker, cpu->cpus);
}

static void of_memory(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	if (facts->memory_stall >= LIMIT(RECLAIM) / 2)
		evidence(verdict, "memory_stall_share", facts->memory_stall, "ratio",
			 "during %s of the time some process waited for memory to be freed",
			 PCT(facts->memory_stall));
	if (facts->system_time >= LIMIT(SYSTEM_TIME) / 2 &&
	    facts->faults_per_ms >= LIMIT(FAULTS_PER_MS))
		evidence(verdict, "faults_per_cpu_ms", facts->faults_per_ms, "1/ms",
			 "%.0f page faults per ms of the workers' CPU time, %s of which passes in the "
			 "kernel",
			 facts->faults_per_ms, PCT(facts->system_time));
}

static void of_devices(const struct dlp_facts *facts, struct dlp_verdict *verdict)
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

/* False where it is not known since when it waits. */
static bool of_sleeper(const struct dlp_facts *facts, struct dlp_verdict *verdict,
		       const struct dlp_thread *thread, const char *metric, const char *who)
{
	const struct dlp_model *model = facts->model;
	double since;

	if (!thread || !thread->since_ns || thread->since_ns > model->end_ns)
		return false;
	since = (double)(model->end_ns - thread->since_ns) / 1e9;
	if (thread->syscall >= 0)
		evidence(verdict, metric, since, "s",
			 "%s %u has been %s for %.1f s (system call %d, object %#llx)", who,
			 thread->tid, dlp_state_doing(thread->state), since, thread->syscall,
			 (unsigned long long)thread->object);
	else
		evidence(verdict, metric, since, "s", "%s %u has been %s for %.1f s", who,
			 thread->tid, dlp_state_doing(thread->state), since);
	return true;
}

static void of_sleepers(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;
	size_t said = 0;

	evidence(verdict, "stuck_s", facts->stuck_s, "s", "one GetNext has not ended for %.1f s",
		 facts->stuck_s);
	if (facts->main_makes) {
		(void)of_sleeper(facts, verdict, dlp_stall_thread(model), "main_wait_s",
				 "the training thread");
		return;
	}
	for (size_t i = 0; i < model->worker_cnt && said < ALIKE_MAX; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (!worker->died_ns && dlp_split_counts(model, worker))
			said += of_sleeper(facts, verdict, dlp_split_thread(model, worker->pid),
					   "worker_wait_s", "the main thread of worker");
	}
}

static void of_death(struct dlp_verdict *verdict, const struct dlp_worker *worker)
{
	char end[40];

	evidence(verdict, "worker_exit", worker->exit_code, "wait status",
		 "worker %u ended unexpectedly: %s", worker->pid,
		 dlp_summary_exit(worker->exit_code, end, sizeof(end)));
}

static void of_deaths(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_model *model = facts->model;
	double kills = dlp_system_growth(&facts->sums->system_from, &facts->sums->system_to,
					 DLP_SYS_VM, facts->sums->system_from.oom_kills,
					 facts->sums->system_to.oom_kills);
	size_t said = 0;

	/* the first one that the others followed */
	if (facts->dead)
		of_death(verdict, facts->dead);
	for (size_t i = 0; i < model->worker_cnt && said < ALIKE_MAX; i++) {
		const struct dlp_worker *worker = &model->workers[i];

		if (!worker->unexpected || worker == facts->dead)
			continue;
		of_death(verdict, worker);
		said++;
	}
	if (kills > 0)
		evidence(verdict, "oom_kills", kills, "count",
			 "the kernel killed %.0f process%s for want of memory", kills,
			 kills > 1 ? "es" : "");
	if (model->error_ns)
		evidence(verdict, "worker_error_pid", model->error_pid, "pid",
			 "worker %u sent an exception in place of a batch", model->error_pid);
	if (model->shm_total && (double)model->shm_least < LIMIT(SHM_LOW) * (double)model->shm_total)
		evidence(verdict, "shm_least_free_bytes", (double)model->shm_least, "bytes",
			 "/dev/shm had at least once only %.1f of %.1f MB left",
			 (double)model->shm_least / (1 << 20), (double)model->shm_total / (1 << 20));
}

static void of_loss(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	const struct dlp_loss *loss = &facts->loss;

	if (loss->complete || !loss->reason_cnt)
		return;
	evidence(verdict, "events_lost", (double)loss->events, "count",
		 "not everything was seen (%s: %llu): some figures may be short",
		 loss->reason[loss->most].id, (unsigned long long)loss->reason[loss->most].count);
}

void dlp_say_evidence(const struct dlp_facts *facts, struct dlp_verdict *verdict)
{
	bool stalled = verdict->bottleneck == DLP_BN_STALLED;

	of_deaths(facts, verdict);
	if (stalled && !facts->dead && !facts->failed)
		of_sleepers(facts, verdict);
	of_waiting(facts, verdict);
	of_startup(facts, verdict);
	if (verdict->bottleneck == DLP_BN_NOT_DATA_LOADING)
		of_training(facts, verdict);
	if (!stalled) {
		of_production(facts, verdict);
		of_gc(facts, verdict);
		of_cpus(facts, verdict);
		of_memory(facts, verdict);
		of_queue(facts, verdict);
		of_transfer(facts, verdict);
	}
	if (verdict->cause == DLP_CAUSE_DISK_READ || verdict->cause == DLP_CAUSE_PAGE_FAULT_READ)
		of_devices(facts, verdict);
	of_loss(facts, verdict);
}
