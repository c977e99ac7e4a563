/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "doctor_try.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "doctor_read.h"
#include "jobs.h"
#include "procfs.h"
#include "trainers.h"
#include "util.h"

/* Whole pages of any size: nothing but our own switches is put into it. */
#define TRIAL_RING_BYTES (64u << 10)
/* Our own thread leaves the CPU meanwhile, so that there is a clock to read. */
#define NAP_NS (20 * DLP_NS_PER_MS)

/* Never called: a place for uprobes, so that the kernel can be asked whether it takes them. */
static void __attribute__((noinline, used)) probe_here(void)
{
	__asm__ volatile("");
}

/* Our own process, as if it were a job: every probe point there can be, on one function. */
static int make_stand_in(struct dlp_target *ret)
{
	static const enum dlp_probe_id points[] = {
		DLP_PROBE_SCOPE_ENTER, DLP_PROBE_SCOPE_EXIT, DLP_PROBE_QUEUE_SEND,
		DLP_PROBE_QUEUE_RECV,  DLP_PROBE_SEM_OPEN,
	};
	_cleanup_maps_ struct dlp_proc_maps maps = { 0 };
	uint64_t address = (uint64_t)(uintptr_t)probe_here;
	int err;

	*ret = (struct dlp_target){ .pid = getpid(), .scope_kind = DLP_SCOPE_KIND_A };
	err = dlp_proc_maps_read("", ret->pid, &maps);
	if (err)
		return err;
	for (size_t i = 0; i < maps.cnt; i++) {
		const struct dlp_proc_map *map = &maps.map[i];

		if (!map->is_exec || address < map->start || address >= map->end)
			continue;
		for (size_t k = 0; k < DLP_ARRAY_SIZE(points); k++) {
			struct dlp_probe *probe = &ret->probe[ret->probe_cnt++];

			probe->id = points[k];
			probe->offset = address - map->start + map->offset;
			(void)snprintf(probe->path, sizeof(probe->path), "/proc/self/exe");
			(void)snprintf(probe->symbol, sizeof(probe->symbol), "a function of ours");
		}
		return 0;
	}
	return -ENOENT;
}

static int find_own_clock(void *ctx, const void *data, size_t bytes)
{
	const struct dlp_ev_hdr *hdr = data;
	bool *found = ctx;

	if (bytes >= sizeof(struct dlp_ev_clock) && hdr->kind == DLP_EV_CLOCK &&
	    hdr->tgid == (uint32_t)getpid())
		*found = true;
	return 0;
}

/* Do events of our own process come, and under the number that it has here? */
static enum dlp_doctor_answer watch_ourselves(struct dlp_session *session)
{
	const struct timespec nap = { .tv_nsec = (long)NAP_NS };
	bool found = false;

	(void)nanosleep(&nap, NULL);
	if (dlp_session_sweep(session, find_own_clock, &found))
		return DLP_DOCTOR_UNKNOWN;
	return found ? DLP_DOCTOR_YES : DLP_DOCTOR_NO;
}

/* Opens, attaches, and lets go again; `ret_seen` NULL = nothing to look for. */
static void try_session(const struct dlp_target *target, uint32_t without,
			struct dlp_doctor_trial *ret, enum dlp_doctor_answer *ret_seen)
{
	const struct dlp_session_opts opts = {
		.target = target,
		.without = without,
		.long_wait_ns = DLP_NS_PER_S,
		.ring_bytes = TRIAL_RING_BYTES,
	};
	const struct dlp_interpreter unknown = { 0 };
	struct dlp_session_failure failure;
	struct dlp_session *session;

	ret->tried = true;
	if (dlp_session_open(&opts, &session, &failure)) {
		(void)snprintf(ret->failure, sizeof(ret->failure), "%s", failure.text);
		return;
	}
	ret->opened = true;
	if (ret_seen && dlp_session_add(session, target->pid, &unknown))
		ret_seen = NULL;
	if (dlp_session_attach(session, &failure))
		(void)snprintf(ret->failure, sizeof(ret->failure), "%s", failure.text);
	dlp_session_info(session, &ret->info);
	if (ret_seen && ret->info.active & DLP_FEATURE_BIT(CLOCKS) &&
	    ret->info.active & DLP_FEATURE_BIT(CLOCK_ITER))
		*ret_seen = watch_ourselves(session);
	dlp_session_free(session);
}

static int ignore_process(void *ctx, pid_t pid, const struct dlp_interpreter *python)
{
	(void)ctx, (void)pid, (void)python;
	return 0;
}

static int ignore_event(void *ctx, const void *event, size_t bytes)
{
	(void)ctx, (void)event, (void)bytes;
	return 0;
}

static size_t count_workers(pid_t pid)
{
	struct dlp_jobs *jobs;
	size_t cnt;

	if (dlp_jobs_new("", pid, &jobs))
		return 0;
	/* what each process is is found out for the report */
	(void)dlp_jobs_scan(jobs, ignore_process, NULL);
	(void)dlp_jobs_report(jobs, dlp_now_ns(), ignore_event, ignore_process, NULL);
	cnt = dlp_jobs_workers(jobs);
	dlp_jobs_free(jobs);
	return cnt;
}

static void try_job(pid_t pid, struct dlp_doctor_facts *ret)
{
	char several[128];
	pid_t meant;

	ret->pid = pid;
	ret->target_failed = dlp_target_open("", pid, &ret->target, &ret->target_failure);
	if (ret->target_failed && (ret->target_failure.err == DLP_TARGET_NO_TORCH ||
				   ret->target_failure.err == DLP_TARGET_NOT_PYTHON)) {
		/* a shell or a launcher, as --pid takes them */
		meant = dlp_trainers_meant("", pid, several, sizeof(several));
		if (meant)
			ret->target_failed =
				dlp_target_open("", meant, &ret->target, &ret->target_failure);
	}
	if (ret->target_failed)
		return;
	ret->workers = count_workers(ret->target.pid);
	if (ret->may_load)
		try_session(&ret->target, 0, &ret->job, NULL);
}

void dlp_doctor_try(pid_t pid, struct dlp_doctor_facts *ret)
{
	const uint32_t all = (1u << DLP_FEATURE_MAX) - 1;
	struct dlp_target stand_in;

	memset(ret, 0, sizeof(*ret));
	dlp_kernel_quiet_libbpf();
	ret->may_load = dlp_kernel_permits();
	ret->btf_err = dlp_kernel_facts(&ret->kernel);
	ret->has_ring = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1;
	if (ret->may_load && !ret->btf_err && !make_stand_in(&stand_in)) {
		try_session(&stand_in, 0, &ret->own, &ret->own_seen);
		try_session(&stand_in, all & ~DLP_FEATURE_BIT(QUEUE_SYSCALL), &ret->rung, NULL);
	}
	if (pid)
		try_job(pid, ret);
	dlp_doctor_read("", pid && !ret->target_failed ? ret->target.pid : 0, ret);
}
