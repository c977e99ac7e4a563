/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who else uses the CPUs: a sample of what runs on each of them, some 47 times a second. Processes
 * of the job have exact clocks, and the observer reports its own cost; all others are counted here.
 * Of the job's own threads the same samples tell whether they collect garbage (gc.bpf.h).
 */
#include "gc.bpf.h"

/* LRU: on a machine with very many processes those that have not run for long go first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DLP_OTHERS_MAX);
	__type(key, u32); /* tgid */
	__type(value, struct dlp_other_use);
} dlp_others SEC(".maps");

/* All of them together, whatever the table had to forget. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dlp_other_use);
} dlp_others_sum SEC(".maps");

static __always_inline void count_process(u32 tgid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct dlp_other_use first = { .samples = 1 };
	struct dlp_other_use *other = bpf_map_lookup_elem(&dlp_others, &tgid);

	if (other) {
		/* its threads run on several CPUs */
		__sync_fetch_and_add(&other->samples, 1);
		return;
	}
	/* of the process: a thread may have a name of its own */
	BPF_CORE_READ_INTO(&first.comm, task, group_leader, comm);
	/* another CPU may have been faster: then one sample is missing here, not in the sum */
	bpf_map_update_elem(&dlp_others, &tgid, &first, BPF_NOEXIST);
}

SEC("perf_event")
int dlp_sample(void *ctx __attribute__((unused)))
{
	u32 tgid = dlp_current_tgid(), zero = 0;
	struct dlp_other_use *sum;
	struct dlp_job *job;

	/* the idle task */
	if (!(bpf_get_current_pid_tgid() >> 32) || tgid == dlp_cfg.own_tgid)
		return 0;
	job = bpf_map_lookup_elem(&dlp_job, &tgid);
	if (job) {
		dlp_gc_sample(tgid, job);
		return 0;
	}
	sum = bpf_map_lookup_elem(&dlp_others_sum, &zero);
	if (sum)
		sum->samples++;
	/* what has no number here has no name here either */
	if (tgid)
		count_process(tgid);
	return 0;
}
