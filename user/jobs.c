/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "jobs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dlprof/config.h"
#include "proc_role.h"
#include "procfs.h"
#include "util.h"

/* As many as the kernel side's job table holds. */
#define PROCS_MAX DLP_JOB_MAX
/*
 * Reports during which a young process is looked at again: a worker takes its name and a spawned
 * one loads its interpreter some time after its birth.
 */
#define YOUNG_REPORTS 30

/* /proc tells a start in ticks, of 10 ms where they are longest, an event in nanoseconds. */
#define START_SLACK_NS (20 * DLP_NS_PER_MS)

struct proc {
	struct dlp_ev_proc event; /* newest figures; hdr.size 0 = none read yet */
	uint64_t start_ticks; /* 0 = not read yet */
	unsigned int reports;
	bool needs_lock; /* its interpreter was not there yet */
	bool ended;
};

struct dlp_jobs {
	const char *root;
	pid_t trainer;
	struct proc *proc;
	size_t cnt, room;
	uint64_t cpu_ns; /* see dlp_jobs_cpu_ns */
};

int dlp_jobs_new(const char *root, pid_t trainer, struct dlp_jobs **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->root = root;
	(*ret)->trainer = trainer;
	return 0;
}

void dlp_jobs_free(struct dlp_jobs *jobs)
{
	if (!jobs)
		return;
	free(jobs->proc);
	free(jobs);
}

static struct proc *find(const struct dlp_jobs *jobs, uint32_t pid)
{
	for (size_t i = 0; i < jobs->cnt; i++) {
		if (jobs->proc[i].event.hdr.tgid == pid && !jobs->proc[i].ended)
			return &jobs->proc[i];
	}
	return NULL;
}

/* Thousands of short-lived ones between two reports: of those that are gone nothing can be read. */
static void forget_unread(struct dlp_jobs *jobs)
{
	size_t kept = 0;

	for (size_t i = 0; i < jobs->cnt; i++) {
		if (!jobs->proc[i].ended || jobs->proc[i].reports)
			jobs->proc[kept++] = jobs->proc[i];
	}
	jobs->cnt = kept;
}

/* A new entry, or NULL when there is no room: its figures will be missing, nothing else. */
static struct proc *append(struct dlp_jobs *jobs, uint32_t pid)
{
	struct proc *proc;

	if (jobs->cnt >= PROCS_MAX)
		forget_unread(jobs);
	if (jobs->cnt == jobs->room) {
		size_t room = jobs->room ? jobs->room * 2 : 16;

		if (jobs->cnt >= PROCS_MAX)
			return NULL;
		proc = realloc(jobs->proc, room * sizeof(*proc));
		if (!proc)
			return NULL;
		jobs->proc = proc;
		jobs->room = room;
	}
	proc = &jobs->proc[jobs->cnt++];
	memset(proc, 0, sizeof(*proc));
	proc->event.hdr.tgid = pid;
	proc->event.hdr.tid = pid;
	return proc;
}

/*
 * Is it still the process of the entry, not another of its number? What is computed from the start
 * is never too late: the machine may have been suspended since.
 */
static bool is_same(struct proc *proc, uint64_t start_ticks)
{
	if (proc->start_ticks)
		return start_ticks == proc->start_ticks;
	if (proc->event.born_ns &&
	    dlp_proc_born_ns(start_ticks) > proc->event.born_ns + START_SLACK_NS)
		return false;
	proc->start_ticks = start_ticks;
	return true;
}

static bool read_stat(const struct dlp_jobs *jobs, struct proc *proc, struct dlp_proc_stat *ret)
{
	return !dlp_proc_stat(jobs->root, (pid_t)proc->event.hdr.tgid, ret) &&
	       is_same(proc, ret->start_ticks);
}

void dlp_jobs_leave_out_gone(struct dlp_jobs *jobs, dlp_jobs_gone_fn gone, void *ctx)
{
	struct dlp_proc_stat stat;

	for (size_t i = 0; i < jobs->cnt; i++) {
		struct proc *proc = &jobs->proc[i];

		if (proc->ended || read_stat(jobs, proc, &stat))
			continue;
		proc->ended = true;
		gone(ctx, (pid_t)proc->event.hdr.tgid);
	}
}

int dlp_jobs_scan(struct dlp_jobs *jobs, dlp_jobs_add_fn add, void *ctx)
{
	_cleanup_free_ pid_t *pids = calloc(PROCS_MAX, sizeof(*pids));
	size_t cnt = 0;
	int err;

	if (!pids)
		return -ENOMEM;
	pids[0] = jobs->trainer;
	err = dlp_proc_descendants(jobs->root, jobs->trainer, pids + 1, PROCS_MAX - 1, &cnt);
	if (err && err != -ENOSPC)
		return err;
	for (size_t i = 0; i <= cnt; i++) {
		struct dlp_interpreter python = { 0 };
		struct dlp_proc_stat stat;
		struct proc *proc;

		if (find(jobs, (uint32_t)pids[i]))
			continue;
		proc = append(jobs, (uint32_t)pids[i]);
		if (proc) {
			(void)read_stat(jobs, proc, &stat);
			proc->needs_lock =
				dlp_target_interpreter(jobs->root, pids[i], &python) != 0;
		}
		err = add(ctx, pids[i], &python);
		if (err)
			return err;
	}
	return 0;
}

/* Of one that is known, its number is used again (its end got lost), or it was found before. */
static void note_birth(struct dlp_jobs *jobs, uint32_t pid, uint64_t ts_ns)
{
	struct proc *proc = find(jobs, pid);

	if (proc && (!proc->start_ticks ||
		     dlp_proc_born_ns(proc->start_ticks) + START_SLACK_NS >= ts_ns))
		return;
	if (proc)
		proc->ended = true;
	proc = append(jobs, pid);
	if (proc)
		proc->event.born_ns = ts_ns;
}

void dlp_jobs_apply(struct dlp_jobs *jobs, const struct dlp_ev_hdr *hdr)
{
	const struct dlp_ev_fork *fork = (const void *)hdr;
	struct proc *proc;

	switch (hdr->kind) {
	case DLP_EV_FORK:
		if (!(hdr->flags & DLP_FORK_THREAD))
			note_birth(jobs, fork->child_tgid, hdr->ts_ns);
		break;
	case DLP_EV_EXEC:
		proc = find(jobs, hdr->tgid);
		if (proc) {
			proc->needs_lock = true;
			proc->reports = 0;
		}
		break;
	case DLP_EV_EXIT:
		/* other threads may live on for a moment, but the process is over with its main one */
		proc = hdr->tgid == hdr->tid ? find(jobs, hdr->tgid) : NULL;
		if (proc)
			proc->ended = true;
		break;
	}
}

/* Reads what /proc says of a process; false when it has gone. What is not readable stays as it was. */
static bool read_figures(const struct dlp_jobs *jobs, struct proc *proc)
{
	pid_t pid = (pid_t)proc->event.hdr.tgid;
	struct dlp_proc_status status;
	struct dlp_proc_stat stat;
	enum dlp_proc_role role;
	uint64_t bytes;

	if (!read_stat(jobs, proc, &stat))
		return false;
	proc->event.ppid = (uint32_t)stat.ppid;
	proc->event.minflt = stat.minflt;
	proc->event.majflt = stat.majflt;
	proc->event.utime_ns = stat.utime_ns;
	proc->event.stime_ns = stat.stime_ns;
	proc->event.threads = stat.threads;
	/* the fork event is exact, the tick count is not */
	if (!proc->event.born_ns)
		proc->event.born_ns = dlp_proc_born_ns(stat.start_ticks);
	if (!dlp_proc_status(jobs->root, pid, &status))
		proc->event.cpus = status.cpus;
	if (!dlp_proc_read_bytes(jobs->root, pid, &bytes))
		proc->event.read_bytes = bytes;
	if (proc->reports < YOUNG_REPORTS && !dlp_proc_role(jobs->root, jobs->trainer, pid, &role))
		proc->event.role = pid == jobs->trainer ? DLP_ROLE_TRAINER : role;
	return true;
}

/* The same, and its growth of CPU time goes to the job's. */
static bool account(struct dlp_jobs *jobs, struct proc *proc)
{
	bool from_birth = !proc->reports && proc->event.born_ns;
	uint64_t before_ns = proc->event.utime_ns + proc->event.stime_ns, now_ns;

	if (!read_figures(jobs, proc))
		return false;
	now_ns = proc->event.utime_ns + proc->event.stime_ns;
	if ((proc->reports || from_birth) && now_ns > before_ns)
		jobs->cpu_ns += now_ns - before_ns;
	return true;
}

static void forget_ended(struct dlp_jobs *jobs)
{
	size_t kept = 0;

	for (size_t i = 0; i < jobs->cnt; i++) {
		if (!jobs->proc[i].ended)
			jobs->proc[kept++] = jobs->proc[i];
	}
	jobs->cnt = kept;
}

int dlp_jobs_report(struct dlp_jobs *jobs, uint64_t now_ns, dlp_jobs_event_fn emit,
		    dlp_jobs_add_fn add, void *ctx)
{
	for (size_t i = 0; i < jobs->cnt; i++) {
		struct proc *proc = &jobs->proc[i];
		struct dlp_interpreter python;
		int err;

		if (!proc->ended && !account(jobs, proc))
			proc->ended = true;
		if (!proc->ended && proc->needs_lock && proc->reports < YOUNG_REPORTS &&
		    !dlp_target_interpreter(jobs->root, (pid_t)proc->event.hdr.tgid, &python)) {
			proc->needs_lock = false;
			err = add(ctx, (pid_t)proc->event.hdr.tgid, &python);
			if (err)
				return err;
		}
		proc->reports++;
		proc->event.hdr.size = sizeof(proc->event);
		proc->event.hdr.kind = DLP_EV_PROC;
		proc->event.hdr.ts_ns = now_ns;
		proc->event.ended = proc->ended;
		err = emit(ctx, &proc->event, sizeof(proc->event));
		if (err)
			return err;
	}
	forget_ended(jobs);
	return 0;
}

size_t dlp_jobs_workers(const struct dlp_jobs *jobs)
{
	size_t workers = 0;

	for (size_t i = 0; i < jobs->cnt; i++)
		workers += !jobs->proc[i].ended && jobs->proc[i].event.role == DLP_ROLE_WORKER;
	return workers;
}

uint64_t dlp_jobs_cpu_ns(const struct dlp_jobs *jobs)
{
	return jobs->cpu_ns;
}
