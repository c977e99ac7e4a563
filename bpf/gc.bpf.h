/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of its CPU time a thread of the job spends in Python's garbage collector: where its user
 * code stands when a sample is taken, in the kernel on its behalf (page faults) included.
 */
#ifndef DLP_GC_BPF_H
#define DLP_GC_BPF_H

#include "compat.bpf.h"
#include "logic.bpf.h"

/* Filled by user space before the sampler is attached. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dlp_gc_code);
} dlp_gc_code SEC(".maps");

/* Emptied by user space at every interval, so that it holds no dead threads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_GC_THREADS_MAX);
	__type(key, u32); /* tid */
	__type(value, struct dlp_gc_use);
} dlp_gc_use SEC(".maps");

static __always_inline void dlp_gc_sample(u32 tgid, const struct dlp_job *job)
{
	struct dlp_thread *thread = dlp_thread_current();
	u32 tid = dlp_current_tid(), zero = 0, gc, inside;
	struct dlp_gc_code *code;
	struct dlp_gc_use *use;

	if (!job->gc_known || !thread || !(thread->flags & (DLP_THREAD_MAIN | DLP_THREAD_GETNEXT)))
		return;
	code = bpf_map_lookup_elem(&dlp_gc_code, &zero);
	if (!code)
		return;
	gc = dlp_gc_has(code, dlp_task_ip(dlp_task_current()) - job->gc_bias);
	inside = thread->getnext_since_ns && !thread->exit_ns;
	use = bpf_map_lookup_elem(&dlp_gc_use, &tid);
	if (!use) {
		struct dlp_gc_use first = { .tgid = tgid };

		/* full: the thread stays without a figure in this interval */
		bpf_map_update_elem(&dlp_gc_use, &tid, &first, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&dlp_gc_use, &tid);
		if (!use)
			return;
	}
	/* a thread runs on one CPU at a time */
	use->samples++;
	use->gc_samples += gc;
	use->inside += inside;
	use->gc_inside += gc & inside;
}

#endif /* DLP_GC_BPF_H */
