/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs cost, by what they are for, and how they are made to cost less. */
#include "session_priv.h"

/* Long enough that an ordinary job has few of them, short enough for those that are trouble. */
#define VERY_LONG_WAIT_NS (100 * DLP_NS_PER_MS)

static enum dlp_cost_part part_of(enum dlp_feature feature)
{
	switch (feature) {
	case DLP_FEATURE_SCOPES:
		return DLP_COST_SCOPES;
	case DLP_FEATURE_CLOCKS:
		return DLP_COST_CLOCKS;
	case DLP_FEATURE_QUEUE_UPROBE:
	case DLP_FEATURE_QUEUE_SYSCALL:
		return DLP_COST_MESSAGES;
	default:
		return DLP_COST_REST;
	}
}

void dlp_session_parts(const struct dlp_session *session, uint64_t ret_ns[DLP_COST_PARTS])
{
	memset(ret_ns, 0, DLP_COST_PARTS * sizeof(*ret_ns));
	for (size_t i = 0; i < DLP_PROGRAM_CNT; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int fd = bpf_program__fd(session->program[i]);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len))
			ret_ns[part_of(dlp_programs[i].feature)] += info.run_time_ns;
	}
}

bool dlp_session_cost(struct dlp_session *session, uint64_t ret_ns[DLP_COST_PARTS])
{
	uint64_t seen[DLP_COST_PARTS];

	if (!session->stats_on)
		return false;
	dlp_session_parts(session, seen);
	for (size_t i = 0; i < DLP_COST_PARTS; i++)
		ret_ns[i] = seen[i] - session->part_base[i];
	memcpy(session->part_base, seen, sizeof(seen));
	return true;
}

void dlp_session_throttle(struct dlp_session *session, uint32_t steps)
{
	struct dlp_throttle *throttle = &session->skel->bss->dlp_throttle;

	throttle->labels_off = !!(steps & 1u << DLP_GOV_LABELS_OFF);
	throttle->worker_scopes_off = !!(steps & 1u << DLP_GOV_WORKER_SCOPES);
	throttle->long_wait_ns = steps & 1u << DLP_GOV_LONG_WAITS ? VERY_LONG_WAIT_NS : 0;
	dlp_session_messages(session, !(steps & 1u << DLP_GOV_MESSAGES));
}
