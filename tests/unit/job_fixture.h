/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A model of a plausible job, built by hand: one loader, its workers, 12 s of window. Tests turn
 * the knobs and then look at what the readers of the model make of it.
 */
#ifndef JOB_FIXTURE_H
#define JOB_FIXTURE_H

#include <string.h>

#include "model.h"
#include "target.h"
#include "util.h"

#define JOB_START_NS 1000000000000ull
#define JOB_WORKERS 2
#define JOB_PID 4711
#define SECOND DLP_NS_PER_S

struct job {
	struct dlp_model model;
	struct dlp_loader loader[2];
	struct dlp_iterator iterator[2];
	struct dlp_worker worker[JOB_WORKERS];
	struct dlp_thread thread[JOB_WORKERS + 1];
	struct dlp_device device[1];
	struct dlp_target target;
};

static inline uint64_t job_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

/* Seconds of one worker in a state, the same for each. */
static inline void job_workers_spend(struct job *job, unsigned int state, double seconds)
{
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job->worker[i].clock.ns[state] = job_ns(seconds);
	job->loader[0].sums.made.ns[state] = JOB_WORKERS * job_ns(seconds);
}

/* The training thread's time inside GetNext, all of it in one state: waits are for batches. */
static inline void job_waits(struct job *job, double seconds, unsigned int state)
{
	struct dlp_loader_sums *sums = &job->loader[0].sums;
	struct dlp_model *model = &job->model;
	uint64_t ns = job_ns(seconds);

	memset(&model->main_inside, 0, sizeof(model->main_inside));
	model->exposed_ns = ns;
	model->main_inside.ns[state] = ns;
	model->main_outside.ns[DLP_ST_RUN] =
		ns < model->end_ns - model->start_ns ? model->end_ns - model->start_ns - ns : 0;
	sums->getnext_ns = ns;
	sums->inside = model->main_inside;
	sums->own_ns = state == DLP_ST_RUN ? ns : 0;
	sums->lack_ns = state == DLP_ST_RUNQ ? ns : 0;
	sums->gil_ns = state == DLP_ST_GIL ? ns : 0;
	sums->produce_ns = ns - sums->own_ns - sums->lack_ns - sums->gil_ns;
}

/* Part of the waits for batches goes into something else: another member of the loader's sums. */
static inline void job_instead(struct job *job, uint64_t *member, double seconds)
{
	*member += job_ns(seconds);
	job->loader[0].sums.produce_ns -= job_ns(seconds);
}

/* Snapshots of an idle machine of 4 CPUs around the window, nothing of which limits the job. */
static inline void job_machine(struct job *job)
{
	struct dlp_ev_system *first = &job->model.system.first, *last = &job->model.system.last;

	*first = (struct dlp_ev_system){
		.hdr = { .size = sizeof(*first), .kind = DLP_EV_SYSTEM, .ts_ns = JOB_START_NS },
		.known = DLP_SYS_QUOTA | DLP_SYS_CPU | DLP_SYS_VM | DLP_SYS_PSI | DLP_SYS_SHM,
		.cpus = 4,
		.cpus_allowed = 4,
		.period_us = 100000,
		.shm_total = 1 << 26,
		.shm_free = 1 << 26,
	};
	*last = *first;
	last->hdr.ts_ns += 12 * SECOND;
	last->busy_ns += 24 * SECOND;
	last->idle_ns += 24 * SECOND;
	job->model.system.others_ns = JOB_START_NS + 12 * SECOND;
}

static inline void job_workers(struct job *job)
{
	for (uint32_t i = 0; i < JOB_WORKERS; i++) {
		struct dlp_worker *worker = &job->worker[i];

		worker->pid = JOB_PID + 1 + i;
		worker->iterator = 1;
		worker->loader = 1;
		worker->born_ns = JOB_START_NS - 5 * SECOND;
		worker->proven = true;
		worker->batch_cnt = 75;
		worker->clock_valid = true;
		worker->window_ns = 12 * SECOND;
		worker->cpu_ns = 10 * SECOND;
		worker->threads_max = 3;
		worker->proc_first.hdr.size = sizeof(worker->proc_first);
		worker->proc_last = worker->proc_first;
		worker->proc_last.cpus = 4;
		worker->proc_last.majflt = 7;
		worker->proc_last.read_bytes = 4096;
		worker->proc_last.utime_ns = 9 * SECOND;
		for (uint64_t j = 0; j < 75; j++)
			dlp_hist_add(&worker->produce, (140 + j % 5) * DLP_NS_PER_MS);
		job->iterator[0].worker_pid[i] = worker->pid;
		job->thread[i + 1] = (struct dlp_thread){
			.tid = worker->pid,
			.tgid = worker->pid,
			.main = true,
			.state = DLP_ST_RUN,
			.since_ns = job->model.end_ns - DLP_NS_PER_MS,
		};
	}
	/* the loader is charged with what its workers did */
	job->loader[0].sums.usage.utime_ns = 18 * SECOND;
	job->loader[0].sums.usage.stime_ns = 2 * SECOND;
	job->loader[0].sums.usage.minflt = 40000;
	job->loader[0].sums.made_cnt = 150;
	job->loader[0].sums.made_ns = 150 * 142 * DLP_NS_PER_MS;
	job_workers_spend(job, DLP_ST_RUN, 10.2);
	job_workers_spend(job, DLP_ST_FAULT, 0.6);
	job_workers_spend(job, DLP_ST_RUNQ, 0.4);
	job_workers_spend(job, DLP_ST_OTHER, 0.2);
	job_workers_spend(job, DLP_ST_IDLE, 0.6);
}

static inline void job_loader(struct job *job)
{
	struct dlp_loader *loader = &job->loader[0];

	*loader = (struct dlp_loader){
		.id = 1,
		.label = 1,
		.tid = JOB_PID,
		.type = "_MultiProcessingDataLoaderIter",
		.num_workers = JOB_WORKERS,
		.pin_memory = -1,
		.prefetch = 4,
		.iterator_cnt = 1,
		.batch_cnt = 150,
		.ready_sum = 30,
		.ready_cnt = 150,
		.empty_cnt = 120,
		.sums = { .calls = 150, .batches = 150, .message_bytes = 150 * 2000 },
	};
	for (uint64_t i = 0; i < 150; i++) {
		uint64_t at = JOB_START_NS + i * 80 * DLP_NS_PER_MS;
		uint64_t took = (i % 50 ? 50 + i % 3 : 200) * DLP_NS_PER_MS;

		dlp_hist_add(&loader->getnext, took);
		dlp_longest_add(&loader->getnext_longest,
				&(struct dlp_interval){ at, at + took, (int64_t)i, JOB_PID + 1 });
		dlp_hist_add(&loader->batch_time, 80 * DLP_NS_PER_MS);
	}
	loader->getnext_split.ns[DLP_ST_PIPE] = 7 * SECOND;
	loader->getnext_split.ns[DLP_ST_RUN] = SECOND / 2;
	job->iterator[0].id = 1;
	job->iterator[0].loader = 1;
	job->iterator[0].start_ns = JOB_START_NS;
	job->iterator[0].end_ns = job->model.end_ns;
	job->iterator[0].worker_cnt = JOB_WORKERS;
	job->iterator[0].getnext_cnt = 150;
	job->iterator[0].getnext_ns = 7560 * DLP_NS_PER_MS;
}

/* Two workers busy on the CPU, training waits 63 % of the time: a plain worker_cpu. */
static inline void job_init(struct job *job)
{
	struct dlp_model *model = &job->model;

	memset(job, 0, sizeof(*job));
	model->trainer_pid = JOB_PID;
	model->main_tid = JOB_PID;
	model->start_ns = JOB_START_NS;
	model->end_ns = JOB_START_NS + 12 * SECOND;
	model->realtime_start_ns = 1700000000 * SECOND;
	model->closed = true;
	model->main_valid = true;
	model->getnext_cnt = 150;
	model->loaders = job->loader;
	model->loader_cnt = 1;
	model->iterators = job->iterator;
	model->iterator_cnt = 1;
	model->workers = job->worker;
	model->worker_cnt = JOB_WORKERS;
	model->threads = job->thread;
	model->thread_cnt = JOB_WORKERS + 1;
	model->devices = job->device;
	job->thread[0] = (struct dlp_thread){
		.tid = JOB_PID,
		.tgid = JOB_PID,
		.main = true,
		.getnext = true,
		.state = DLP_ST_RUN,
		.since_ns = model->end_ns - DLP_NS_PER_MS,
	};
	job_loader(job);
	job_workers(job);
	job_waits(job, 7.56, DLP_ST_PIPE);
	model->counters.hdr.size = sizeof(model->counters);
	model->counters.daemon_cpu_ns = 60 * DLP_NS_PER_MS;
	model->counters.daemon_rss_bytes = 14 << 20;
	model->interval = (struct dlp_interval_stats){
		.start_ns = model->end_ns - SECOND,
		.end_ns = model->end_ns,
		.batches = 12,
		.getnext_cnt = 12,
		.exposed_ns = 631 * DLP_NS_PER_MS,
		.workers = job->worker[0].clock,
	};
	for (uint64_t i = 0; i < 12; i++)
		dlp_hist_add(&model->interval.getnext, (50 + i % 3) * DLP_NS_PER_MS);
	job->target.pid = JOB_PID;
	strcpy(job->target.comm, "python");
	strcpy(job->target.cmdline, "python train.py --epochs 3");
	strcpy(job->target.python.text, "3.11.7");
	strcpy(job->target.torch.text, "2.13.0+cpu");
}

/* The same job with num_workers=0: the training thread makes the batches. */
static inline void job_without_workers(struct job *job)
{
	job->model.worker_cnt = 0;
	job->model.thread_cnt = 1;
	job->loader[0].num_workers = 0;
	job->loader[0].prefetch = 0;
	strcpy(job->loader[0].type, "_SingleProcessDataLoaderIter");
	job->iterator[0].worker_cnt = 0;
	memset(&job->loader[0].sums.made, 0, sizeof(job->loader[0].sums.made));
	job->loader[0].sums.usage.utime_ns = job->loader[0].sums.usage.stime_ns = 0;
	job->loader[0].sums.usage.minflt = job->loader[0].sums.made_cnt = 0;
}

#endif /* JOB_FIXTURE_H */
