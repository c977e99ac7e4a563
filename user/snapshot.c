/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "governor.h"
#include "loss.h"
#include "snapshot_priv.h"
#include "stage.h"
#include "system.h"
#include "util.h"

int dlp_snapshots_new(struct dlp_snapshots **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

void dlp_snapshots_free(struct dlp_snapshots *snapshots)
{
	free(snapshots);
}

static double seconds_of(const struct dlp_sums *sums)
{
	return sums->to_ns > sums->from_ns ? (double)(sums->to_ns - sums->from_ns) / 1e9 : NAN;
}

/* What the trainer lost to data loading in the interval, as a share of it. */
static double exposed_of(const struct dlp_sums *since)
{
	double ns = (double)since->exposed_ns;

	if (!since->main_valid && !since->calls)
		return NAN;
	for (size_t i = 0; i < since->loader_cnt; i++)
		ns += (double)(since->loader[i].init_ns + since->loader[i].teardown_ns);
	return fmin(1, ns / 1e9 / seconds_of(since));
}

/* Readings of the interval that ends now. */
static void take_sums(struct dlp_snapshots *snapshots, const struct dlp_model *model)
{
	struct dlp_sums *since = &snapshots->since;

	dlp_sums_take(model, since);
	if (snapshots->sums_taken)
		dlp_sums_since(since, &snapshots->sums);
	dlp_sums_take(model, &snapshots->sums);
	snapshots->sums_taken = true;
	snapshots->history[snapshots->history_cnt++ % DLP_SNAP_HISTORY_MAX] =
		(float)exposed_of(since);
}

static void quantiles(const struct dlp_hist *hist, struct dlp_snap_times *ret)
{
	if (!hist->cnt)
		return;
	ret->median_ns = dlp_hist_quantile(hist, 0.5);
	ret->p99_ns = dlp_hist_quantile(hist, 0.99);
	ret->max_ns = hist->max_ns;
}

static void interval_means(const struct dlp_loader_sums *sums, double seconds,
			   struct dlp_snap_loader *ret)
{
	ret->rate = (double)sums->batches / seconds;
	if (sums->calls)
		ret->getnext.now_ns = sums->getnext_ns / sums->calls;
	if (sums->batches && !isnan(seconds))
		ret->step.now_ns = (uint64_t)(seconds * 1e9 / (double)sums->batches);
}

static void put_verdict(const struct dlp_verdict *verdict, struct dlp_snap_loader *ret)
{
	ret->bottleneck = verdict->bottleneck;
	ret->severity = verdict->severity;
	ret->cause = verdict->cause;
	ret->confidence = verdict->confidence;
	ret->exposed = verdict->exposed_wait_ratio;
	if (!isnan(verdict->startup_ratio))
		ret->exposed += verdict->startup_ratio;
	dlp_sanitise(ret->text, sizeof(ret->text), verdict->text, sizeof(verdict->text));
	ret->candidate_cnt = verdict->candidate_cnt;
	if (ret->candidate_cnt > DLP_ARRAY_SIZE(ret->candidate))
		ret->candidate_cnt = DLP_ARRAY_SIZE(ret->candidate);
	memcpy(ret->candidate, verdict->candidate, ret->candidate_cnt * sizeof(*ret->candidate));
	ret->advice = verdict->advice_cnt ? verdict->advice[0].text : NULL;
}

static void put_loader(const struct dlp_loader *loader, const struct dlp_loader_sums *sums,
		       double seconds, struct dlp_snap_loader *ret)
{
	*ret = (struct dlp_snap_loader){
		.id = loader->id,
		.num_workers = loader->num_workers,
		.prefetch = loader->prefetch,
		.batch_cnt = loader->batch_cnt,
		.ready = loader->ready_cnt ? (double)loader->ready_sum / (double)loader->ready_cnt :
					     NAN,
	};
	dlp_sanitise(ret->type, sizeof(ret->type), loader->type, sizeof(loader->type));
	quantiles(&loader->getnext, &ret->getnext);
	quantiles(&loader->batch_time, &ret->step);
	interval_means(sums, seconds, ret);
}

static void put_loaders(const struct dlp_snapshots *snapshots, const struct dlp_model *model,
			const struct dlp_verdict *lately, struct dlp_snapshot *ret)
{
	const struct dlp_sums *since = &snapshots->since;
	struct dlp_snap_loader *all = &ret->loader[0];
	struct dlp_hist getnext = { 0 }, step = { 0 };
	struct dlp_loader_sums sums = { 0 };
	struct dlp_verdict verdict;

	*all = (struct dlp_snap_loader){ .num_workers = -1, .ready = NAN };
	ret->loader_cnt = 1;
	for (size_t i = 0; i < model->loader_cnt && i < DLP_MODEL_LOADERS_MAX; i++) {
		const struct dlp_loader *loader = &model->loaders[i];
		struct dlp_snap_loader *one = &ret->loader[ret->loader_cnt++];

		put_loader(loader, &since->loader[i], seconds_of(since), one);
		dlp_hist_merge(&getnext, &loader->getnext);
		dlp_hist_merge(&step, &loader->batch_time);
		dlp_loader_sums_add(&sums, &since->loader[i]);
		all->batch_cnt += loader->batch_cnt;
		/* a single one is the same as all: nobody switches to it */
		if (model->loader_cnt > 1) {
			dlp_diagnose_loader(model, loader, &verdict);
			put_verdict(&verdict, one);
		} else {
			all->ready = one->ready;
			all->num_workers = one->num_workers;
			all->prefetch = one->prefetch;
		}
	}
	quantiles(&getnext, &all->getnext);
	quantiles(&step, &all->step);
	interval_means(&sums, seconds_of(since), all);
	put_verdict(lately, all);
}

static const struct dlp_device_past *device_before(const struct dlp_snapshots *snapshots,
						   uint32_t dev)
{
	for (size_t i = 0; i < snapshots->device_cnt; i++) {
		if (snapshots->device[i].dev == dev)
			return &snapshots->device[i];
	}
	return NULL;
}

static int busier_first(const void *a, const void *b)
{
	const struct dlp_snap_device *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void put_device(const struct dlp_snapshots *snapshots, const struct dlp_device *device,
		       const struct dlp_snap_names *names, struct dlp_snap_device *ret)
{
	const struct dlp_device_past *then = device_before(snapshots, device->dev);
	double seconds = seconds_of(&snapshots->since);
	struct dlp_device_past none = { 0 };

	/* one that was not there an interval ago has done all its reads since */
	if (!then)
		then = &none;
	*ret = (struct dlp_snap_device){
		.reads = (double)(device->reads - then->reads) / seconds,
		.bytes = (double)(device->read_bytes - then->bytes) / seconds,
	};
	if (device->latency.cnt) {
		ret->median_ns = dlp_hist_quantile(&device->latency, 0.5);
		ret->p99_ns = dlp_hist_quantile(&device->latency, 0.99);
	}
	if (!names->device || !names->device(device->dev, ret->name, sizeof(ret->name)))
		(void)snprintf(ret->name, sizeof(ret->name), "%u:%u", device->dev >> 20,
			       device->dev & 0xfffff);
}

static void put_devices(const struct dlp_snapshots *snapshots, const struct dlp_model *model,
			const struct dlp_snap_names *names, struct dlp_snapshot *ret)
{
	struct dlp_snap_device device[DLP_MODEL_DEVICES_MAX] = { 0 };
	size_t cnt = 0;

	for (size_t i = 0; i < model->device_cnt && i < DLP_MODEL_DEVICES_MAX; i++) {
		if (model->devices[i].reads)
			put_device(snapshots, &model->devices[i], names, &device[cnt++]);
	}
	if (cnt)
		qsort(device, cnt, sizeof(*device), busier_first);
	ret->device_cnt = cnt < DLP_SNAP_DEVICES_MAX ? cnt : DLP_SNAP_DEVICES_MAX;
	memcpy(ret->device, device, ret->device_cnt * sizeof(*device));
}

static void take_devices(struct dlp_snapshots *snapshots, const struct dlp_model *model)
{
	snapshots->device_cnt = 0;
	for (size_t i = 0; i < model->device_cnt && i < DLP_MODEL_DEVICES_MAX; i++)
		snapshots->device[snapshots->device_cnt++] = (struct dlp_device_past){
			.dev = model->devices[i].dev,
			.reads = model->devices[i].reads,
			.bytes = model->devices[i].read_bytes,
		};
}

static void put_stages(const struct dlp_model *model, struct dlp_snapshot *ret)
{
	struct dlp_stage_row row[DLP_STAGE_ROWS_MAX];
	size_t cnt = dlp_stage_rank(model, row);

	ret->stage_cnt = cnt < DLP_SNAP_STAGES_MAX ? cnt : DLP_SNAP_STAGES_MAX;
	for (size_t i = 0; i < ret->stage_cnt; i++) {
		const struct dlp_hist *duration = row[i].duration;
		struct dlp_snap_stage *stage = &ret->stage[i];
		const char *label = row[i].label ? row[i].label : "(label not recorded)";

		*stage = (struct dlp_snap_stage){
			.worker = row[i].worker,
			.sampled = row[i].sum->sampled,
			.cnt = row[i].sum->cnt,
			.max_ns = row[i].sum->max_ns,
			.share = row[i].share,
			.median_ns = duration && duration->cnt ? dlp_hist_quantile(duration, 0.5) :
								 0,
		};
		dlp_sanitise(stage->label, sizeof(stage->label), label, strlen(label));
	}
}

static void put_system(const struct dlp_model *model, struct dlp_snap_system *ret)
{
	const struct dlp_system_facts *facts = &model->system;
	const struct dlp_ev_system *from = &facts->before, *to = &facts->last;
	const struct dlp_other *rank[DLP_MODEL_OTHERS_MAX];
	char comm[20];

	*ret = (struct dlp_snap_system){
		.cpus = to->cpus,
		.busy = 1 - dlp_system_idle(from, to),
		.steal = dlp_system_steal(from, to),
		.others_cpus = dlp_system_others_recent_cpus(model),
		.quota_cpus = dlp_system_quota_cpus(to),
		.throttled = dlp_system_throttled(from, to),
		.mem_known = to->known & DLP_SYS_MEM,
		.mem_available = to->mem_available,
		.mem_total = to->mem_total,
		.swap_used = to->swap_total - to->swap_free,
		.group_known = to->known & DLP_SYS_GROUPMEM && to->group_limit,
		.group_used = to->group_used,
		.group_limit = to->group_limit,
		.shm_known = to->known & DLP_SYS_SHM,
		.shm_free = to->shm_free,
		.shm_total = to->shm_total,
	};
	if (dlp_system_others_rank(model, rank)) {
		dlp_sanitise(comm, sizeof(comm), rank[0]->comm, sizeof(rank[0]->comm));
		(void)snprintf(ret->other, sizeof(ret->other), "%s %u", comm, rank[0]->pid);
	}
}

/* The last step says most: they go from what is missed least to what is missed most. */
static void put_governed(const struct dlp_governing *governing, struct dlp_snapshot *ret)
{
	ret->governed = governing->active;
	ret->fewer[0] = '\0';
	for (uint32_t step = DLP_GOV_MAX; step-- > 0;) {
		if (!(governing->active & 1u << step))
			continue;
		(void)snprintf(ret->fewer, sizeof(ret->fewer), "%s (limit %.2f %%)",
			       dlp_governor_step_text(step),
			       (double)governing->limit_ppm / DLP_PPM_PER_PERCENT);
		return;
	}
}

/* Behind the folders of a path that is the first of these words. */
static const char *behind_folders(const char *words)
{
	const char *ret = words;

	for (; *words && *words != ' '; words++) {
		if (*words == '/')
			ret = words + 1;
	}
	return ret;
}

/*
 * A command as it fits a header: the program's name, options in front of the script, and from the
 * script's name on the rest; where both lie tells the report.
 */
static void put_command(const char *cmdline, char *buf, size_t size)
{
	const char *program = behind_folders(cmdline), *word = strchrnul(program, ' ');

	while (!strncmp(word, " -", 2))
		word = strchrnul(word + 1, ' ');
	(void)snprintf(buf, size, "%.*s", (int)(word - program), program);
	if (*word)
		(void)snprintf(buf + strlen(buf), size - strlen(buf), " %s",
			       behind_folders(word + 1));
}

static void put_header(const struct dlp_model *model, const struct dlp_summary_facts *facts,
		       struct dlp_snapshot *ret)
{
	double wall_ns = (double)ret->window_ns;
	struct dlp_own_cost cost;
	struct dlp_loss loss;

	dlp_summary_cost(model, &cost);
	ret->cost = cost.daemon_known || cost.probes_known ?
			    (double)(cost.daemon_cpu_ns + cost.probe_cpu_ns) / wall_ns :
			    NAN;
	ret->probe_cost = cost.probes_known ? (double)cost.probe_cpu_ns / wall_ns : NAN;
	ret->rss_bytes = cost.daemon_rss_bytes;
	dlp_loss_get(model, &loss);
	ret->complete = dlp_summary_complete(model, facts);
	put_governed(&model->governing, ret);
	ret->lost[0] = '\0';
	if (loss.reason_cnt)
		(void)snprintf(ret->lost, sizeof(ret->lost), "%llu %s",
			       (unsigned long long)loss.reason[loss.most].count,
			       loss.reason[loss.most].text);
	ret->missing_cnt = facts->missing_cnt;
	ret->pid = model->trainer_pid;
	ret->cmdline[0] = '\0';
	if (facts->target) {
		char command[sizeof(facts->target->cmdline)];

		put_command(facts->target->cmdline, command, sizeof(command));
		dlp_sanitise(ret->cmdline, sizeof(ret->cmdline), command, sizeof(command));
	}
}

void dlp_snapshots_take(struct dlp_snapshots *snapshots, const struct dlp_model *model,
			const struct dlp_verdict *lately, const struct dlp_summary_facts *facts,
			const struct dlp_snap_names *names, struct dlp_snapshot *ret)
{
	take_sums(snapshots, model);
	if (ret) {
		ret->window_ns = model->end_ns > model->start_ns ? model->end_ns - model->start_ns :
								   0;
		ret->interval_ns = snapshots->since.to_ns > snapshots->since.from_ns ?
					   snapshots->since.to_ns - snapshots->since.from_ns :
					   0;
		ret->worker_cnt = ret->workers_alive = ret->workers_unseen = 0;
		put_header(model, facts, ret);
		put_loaders(snapshots, model, lately, ret);
		put_devices(snapshots, model, names, ret);
		put_stages(model, ret);
		put_system(model, &ret->system);
		memcpy(ret->history, snapshots->history, sizeof(ret->history));
		ret->history_cnt = snapshots->history_cnt;
	}
	dlp_snapshot_workers(snapshots, model, names, ret);
	take_devices(snapshots, model);
}
