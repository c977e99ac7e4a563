/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Block requests of the job: size, latency, device, who asked. A page that several workers share
 * is read once, for whoever asked first: attribution is approximate by nature.
 */
#include "compat.bpf.h"

#define DLP_REQ_OP_MASK 0xff /* REQ_OP_MASK, include/linux/blk_types.h, unchanged since 4.10 */

struct request_info {
	u64 queued_ns;
	u64 issued_ns;
	u32 tgid;
	u32 tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DLP_REQS_MAX);
	__type(key, u64); /* struct request * */
	__type(value, struct request_info);
} dlp_reqs SEC(".maps");

static __always_inline int follow(u64 rq, bool issued)
{
	struct dlp_thread *thread = dlp_thread_current();
	struct request_info info = {};

	if (!thread)
		return 0;
	info.queued_ns = bpf_ktime_get_ns();
	info.issued_ns = issued ? info.queued_ns : 0;
	info.tgid = dlp_current_tgid();
	info.tid = dlp_current_tid();
	if (bpf_map_update_elem(&dlp_reqs, &rq, &info, BPF_ANY))
		dlp_count(DLP_CNT_REQS_FULL);
	return 0;
}

/* In the submitting task (since 6.5, 5a80bd075f3b). */
SEC("tp_btf/block_io_start")
int dlp_io_start(u64 *ctx)
{
	return follow(ctx[0], false);
}

SEC("tp_btf/block_rq_issue")
int dlp_rq_issue(u64 *ctx)
{
	/* (rq) since 5.11 (a54895fa057c) and in 5.10.y, (q, rq) before */
	u64 rq = dlp_cfg.has_rq_single_arg ? ctx[0] : ctx[1];
	struct request_info *info = bpf_map_lookup_elem(&dlp_reqs, &rq);

	if (info) {
		info->issued_ns = bpf_ktime_get_ns();
		return 0;
	}
	/* without block_io_start the issuer is taken for the submitter: mostly it is */
	return dlp_cfg.has_block_io ? 0 : follow(rq, true);
}

SEC("tp_btf/block_rq_complete")
int dlp_rq_done(u64 *ctx)
{
	/* (rq, error, nr_bytes); fires for each part of a request that completes */
	struct request *rq = (void *)ctx[0];
	u64 key = ctx[0];
	u32 part = (u32)ctx[2], left;
	struct request_info *info = bpf_map_lookup_elem(&dlp_reqs, &key);
	struct dlp_ev_block *event;

	if (!info)
		return 0;
	left = BPF_CORE_READ(rq, __data_len);
	event = dlp_reserve(dlp_ev_block, DLP_EV_BLOCK, info->tgid, info->tid, bpf_ktime_get_ns());
	if (event) {
		event->queued_ns = info->queued_ns;
		event->issued_ns = info->issued_ns;
		event->sector = BPF_CORE_READ(rq, __sector);
		event->bytes = part;
		event->dev = dlp_rq_dev(rq);
		event->op = BPF_CORE_READ(rq, cmd_flags) & DLP_REQ_OP_MASK;
		event->error = (u32)ctx[1] & 0xff;
		dlp_submit(event);
	}
	/* the length is what was left before this part */
	if (part >= left)
		bpf_map_delete_elem(&dlp_reqs, &key);
	return 0;
}
