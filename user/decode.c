/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "dlprof/config.h"
#include "msg.h"
#include "util.h"

static const struct {
	const char *name;
	size_t size;
} kinds[] = {
#define X(number, NAME, type) [number] = { #NAME, sizeof(struct type) },
	DLP_EVENT_KINDS(X)
#undef X
};

static const char *const states[] = {
	[DLP_ST_RUN] = "run",	[DLP_ST_RUNQ] = "runq",	  [DLP_ST_DISK] = "disk",
	[DLP_ST_FAULT] = "fault", [DLP_ST_FS] = "fs",	  [DLP_ST_NET] = "net",
	[DLP_ST_LOCK] = "lock", [DLP_ST_GIL] = "gil",	  [DLP_ST_PIPE] = "pipe",
	[DLP_ST_SLEEP] = "sleep", [DLP_ST_IDLE] = "idle", [DLP_ST_OTHER] = "other",
};

_Static_assert(DLP_ARRAY_SIZE(states) == DLP_ST_MAX, "a state has no name");

static const char *const counters[] = {
#define X(NAME, id, text) [DLP_CNT_##NAME] = id,
	DLP_COUNTERS(X)
#undef X
};

const char *dlp_event_kind_name(unsigned int kind)
{
	return kind < DLP_ARRAY_SIZE(kinds) ? kinds[kind].name : NULL;
}

size_t dlp_event_kind_size(unsigned int kind)
{
	return kind < DLP_ARRAY_SIZE(kinds) ? kinds[kind].size : 0;
}

const char *dlp_state_name(unsigned int state)
{
	return state < DLP_ARRAY_SIZE(states) ? states[state] : NULL;
}

int dlp_event_check(const void *data, size_t bytes, union dlp_event_room *room,
		    const struct dlp_ev_hdr **ret_hdr)
{
	const struct dlp_ev_hdr *hdr = data;
	size_t least;

	*ret_hdr = NULL;
	if (bytes < sizeof(*hdr))
		return -EBADMSG;
	if ((uintptr_t)data % _Alignof(union dlp_event_room)) {
		memcpy(room, data, bytes < sizeof(*room) ? bytes : sizeof(*room));
		hdr = &room->hdr;
	}
	if (hdr->size < sizeof(*hdr) || hdr->size > bytes)
		return -EBADMSG;
	least = dlp_event_kind_size(hdr->kind);
	if (least && hdr->size < least)
		return -EBADMSG;
	*ret_hdr = hdr;
	return least ? 0 : -ENOENT;
}

static void print_text(FILE *out, const char *key, const char *text, size_t bytes)
{
	char clean[2 * DLP_LABEL_MAX];

	fprintf(out, "\t%s=%s", key, dlp_sanitise(clean, sizeof(clean), text, bytes));
}

static void print_clock(FILE *out, const char *key, const struct dlp_clock *clock)
{
	fprintf(out, "\t%s=", key);
	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		fprintf(out, "%s%s=%" PRIu64, i ? "," : "", states[i], (uint64_t)clock->ns[i]);
}

static void print_number(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "\t%s=%" PRIu64, key, value);
}

static void print_state(FILE *out, unsigned int state)
{
	const char *name = dlp_state_name(state);

	if (name)
		fprintf(out, "\tstate=%s", name);
	else
		print_number(out, "state", state);
}

static void print_wait_place(FILE *out, int syscall, uint64_t object, uint32_t dev, uint32_t magic)
{
	fprintf(out, "\tsyscall=%d\tobject=%#" PRIx64 "\tdev=%" PRIu32 ":%" PRIu32 "\tfs=%#" PRIx32,
		syscall, object, dev >> 20, dev & 0xfffff, magic);
}

static void print_usage(FILE *out, uint64_t minflt, uint64_t utime_ns, uint64_t stime_ns)
{
	print_number(out, "minflt", minflt);
	print_number(out, "utime", utime_ns);
	print_number(out, "stime", stime_ns);
}

static void print_counts(FILE *out, const struct dlp_thread_counts *counts)
{
	print_number(out, "getnext_cnt", counts->getnext_cnt);
	print_number(out, "getnext_ns", counts->getnext_ns);
	print_clock(out, "getnext_split", &counts->getnext_split);
	print_number(out, "send_cnt", counts->send_cnt);
	print_number(out, "recv_cnt", counts->recv_cnt);
	print_number(out, "switch_cnt", counts->switch_cnt);
}

static void print_scope(FILE *out, const struct dlp_ev_scope *ev)
{
	print_number(out, "start", ev->start_ns);
	print_number(out, "label", ev->label);
	print_number(out, "depth", ev->depth);
	print_number(out, "getnext", !!(ev->hdr.flags & DLP_SCOPE_GETNEXT));
	print_number(out, "outer", !!(ev->hdr.flags & DLP_SCOPE_OUTER));
	print_number(out, "begun", !!(ev->hdr.flags & DLP_SCOPE_BEGUN));
	print_number(out, "child", ev->child_ns);
	print_number(out, "weight", ev->weight);
	print_number(out, "turn", ev->turn);
	print_clock(out, "split", &ev->split);
	print_clock(out, "clock", &ev->clock);
}

static void print_label(FILE *out, const struct dlp_ev_label *ev)
{
	print_number(out, "label", ev->label);
	print_number(out, "getnext", !!(ev->flags & DLP_SCOPE_GETNEXT));
	print_text(out, "text", ev->text, sizeof(ev->text));
}

static void print_msg(FILE *out, const struct dlp_ev_msg *ev)
{
	static const char *const types[] = {
		[DLP_MSG_OTHER] = "other", [DLP_MSG_INDEX] = "index",	[DLP_MSG_END] = "end",
		[DLP_MSG_ERROR] = "error", [DLP_MSG_FINAL] = "final", [DLP_MSG_RESUME] = "resume",
	};
	size_t len = ev->prefix_len < DLP_MSG_PREFIX ? ev->prefix_len : DLP_MSG_PREFIX;
	enum dlp_msg_type type;
	int64_t index;

	type = dlp_msg_parse(ev->prefix, len, &index);
	fprintf(out, "\tdir=%s", ev->dir == DLP_MSG_SEND   ? "send" :
				 ev->dir == DLP_MSG_RECV ? "recv" :
							     "?");
	print_number(out, "inode", ev->inode);
	print_number(out, "bytes", ev->bytes);
	fprintf(out, "\ttype=%s\tidx=%" PRId64, types[type], index);
	if (type == DLP_MSG_OTHER) {
		fputs("\tprefix=", out);
		for (size_t i = 0; i < len; i++)
			fprintf(out, "%02x", ev->prefix[i]);
	}
	print_clock(out, "clock", &ev->clock);
	print_usage(out, ev->minflt, ev->utime_ns, ev->stime_ns);
}

static void print_wait(FILE *out, const struct dlp_ev_wait *ev)
{
	print_number(out, "start", ev->start_ns);
	print_number(out, "wake", ev->wake_ns);
	print_state(out, ev->state);
	print_wait_place(out, ev->syscall, ev->object, ev->dev, ev->fs_magic);
	print_number(out, "waker", ev->waker_tid);
}

static void print_clock_event(FILE *out, const struct dlp_ev_clock *ev)
{
	print_text(out, "comm", ev->comm, sizeof(ev->comm));
	print_number(out, "main", !!(ev->hdr.flags & DLP_THREAD_MAIN));
	print_number(out, "traced", ev->traced_ns);
	print_state(out, ev->state);
	print_number(out, "since", ev->since_ns);
	print_wait_place(out, ev->syscall, ev->object, ev->dev, ev->fs_magic);
	print_clock(out, "clock", &ev->clock);
	print_number(out, "cpu_time", ev->cpu_ns);
	print_counts(out, &ev->counts);
	print_number(out, "getnext_since", ev->getnext_since_ns);
	print_clock(out, "getnext_now", &ev->getnext_now);
	print_usage(out, ev->minflt, ev->utime_ns, ev->stime_ns);
	print_number(out, "majflt", ev->majflt);
}

static void print_block(FILE *out, const struct dlp_ev_block *ev)
{
	print_number(out, "queued", ev->queued_ns);
	print_number(out, "issued", ev->issued_ns);
	print_number(out, "sector", ev->sector);
	print_number(out, "bytes", ev->bytes);
	fprintf(out, "\tdev=%u:%u", ev->dev >> 20, ev->dev & 0xfffff);
	print_number(out, "op", ev->op);
	print_number(out, "error", ev->error);
}

static void print_exit(FILE *out, const struct dlp_ev_exit *ev)
{
	print_number(out, "main", !!(ev->hdr.flags & DLP_THREAD_MAIN));
	print_number(out, "exit_code", ev->exit_code);
	print_number(out, "traced", ev->traced_ns);
	print_clock(out, "clock", &ev->clock);
	print_number(out, "cpu_time", ev->cpu_ns);
	print_counts(out, &ev->counts);
	print_usage(out, ev->minflt, ev->utime_ns, ev->stime_ns);
}

static void print_counters(FILE *out, const struct dlp_ev_counters *ev)
{
	for (size_t i = 0; i < DLP_ARRAY_SIZE(counters); i++)
		print_number(out, counters[i], ev->value[i]);
	print_number(out, "recursion_misses", ev->recursion_misses);
	print_number(out, "prog_run_cnt", ev->prog_run_cnt);
	print_number(out, "prog_run_ns", ev->prog_run_ns);
	print_number(out, "prog_sampled_ns", ev->prog_sampled_ns);
	print_number(out, "daemon_cpu_ns", ev->daemon_cpu_ns);
	print_number(out, "daemon_rss_bytes", ev->daemon_rss_bytes);
}

static void print_proc(FILE *out, const struct dlp_ev_proc *ev)
{
	print_number(out, "born", ev->born_ns);
	print_number(out, "role", ev->role);
	print_number(out, "ppid", ev->ppid);
	print_number(out, "cpus", ev->cpus);
	print_number(out, "read_bytes", ev->read_bytes);
	print_number(out, "majflt", ev->majflt);
	print_number(out, "utime", ev->utime_ns);
	print_number(out, "stime", ev->stime_ns);
	print_number(out, "threads", ev->threads);
	print_number(out, "ended", ev->ended);
	print_number(out, "minflt", ev->minflt);
}

static void print_sem(FILE *out, const struct dlp_ev_sem *ev)
{
	print_clock(out, "clock", &ev->clock);
}

static void print_system(FILE *out, const struct dlp_ev_system *ev)
{
	fprintf(out, "\tknown=%#x", ev->known);
	print_number(out, "cpus", ev->cpus);
	print_number(out, "cpus_allowed", ev->cpus_allowed);
	print_number(out, "quota_us", ev->quota_us);
	print_number(out, "period_us", ev->period_us);
	print_number(out, "periods", ev->periods);
	print_number(out, "throttled_periods", ev->throttled_periods);
	print_number(out, "throttled_ns", ev->throttled_ns);
	print_number(out, "busy_ns", ev->busy_ns);
	print_number(out, "idle_ns", ev->idle_ns);
	print_number(out, "steal_ns", ev->steal_ns);
	print_number(out, "mem_total", ev->mem_total);
	print_number(out, "mem_available", ev->mem_available);
	print_number(out, "swap_total", ev->swap_total);
	print_number(out, "swap_free", ev->swap_free);
	print_number(out, "reclaim_pages", ev->reclaim_pages);
	print_number(out, "swap_in_pages", ev->swap_in_pages);
	print_number(out, "oom_kills", ev->oom_kills);
	print_number(out, "group_limit", ev->group_limit);
	print_number(out, "group_used", ev->group_used);
	print_number(out, "psi_cpu_us", ev->psi_cpu_us);
	print_number(out, "psi_io_us", ev->psi_io_us);
	print_number(out, "psi_memory_us", ev->psi_memory_us);
	print_number(out, "shm_total", ev->shm_total);
	print_number(out, "shm_free", ev->shm_free);
}

static void print_other(FILE *out, const struct dlp_ev_other *ev)
{
	print_text(out, "comm", ev->comm, sizeof(ev->comm));
	print_number(out, "cpu_time", ev->cpu_ns);
	print_number(out, "samples", ev->samples);
}

static void print_gc(FILE *out, const struct dlp_ev_gc *ev)
{
	print_number(out, "samples", ev->samples);
	print_number(out, "gc_samples", ev->gc_samples);
	print_number(out, "inside", ev->inside);
	print_number(out, "gc_inside", ev->gc_inside);
}

static void print_govern(FILE *out, const struct dlp_ev_govern *ev)
{
	print_number(out, "limit_ppm", ev->limit_ppm);
	print_number(out, "measured_ppm", ev->measured_ppm);
	fprintf(out, "\tactive=%#x", ev->active);
	print_number(out, "unmet", ev->unmet);
	print_number(out, "probe_ns", ev->probe_ns);
	print_number(out, "job_ns", ev->job_ns);
}

static void print_fork(FILE *out, const struct dlp_ev_fork *ev)
{
	print_number(out, "child_tgid", ev->child_tgid);
	print_number(out, "child_tid", ev->child_tid);
	print_number(out, "thread", !!(ev->hdr.flags & DLP_FORK_THREAD));
}

static void print_exec(FILE *out, const struct dlp_ev_exec *ev)
{
	print_text(out, "comm", ev->comm, sizeof(ev->comm));
}

static void print_window(FILE *out, const struct dlp_ev_window *ev)
{
	print_number(out, "phase", ev->phase);
	print_number(out, "realtime", ev->realtime_ns);
}

void dlp_event_print(FILE *out, const struct dlp_ev_hdr *hdr)
{
	const char *name = dlp_event_kind_name(hdr->kind);

	fprintf(out, "ts=%" PRIu64 "\tkind=%s", (uint64_t)hdr->ts_ns, name ? name : "UNKNOWN");
	if (!name)
		print_number(out, "number", hdr->kind);
	fprintf(out, "\ttgid=%u\ttid=%u\tcpu=%u", hdr->tgid, hdr->tid, hdr->cpu);
	switch (hdr->kind) {
	case DLP_EV_SCOPE:
		print_scope(out, (const void *)hdr);
		break;
	case DLP_EV_LABEL:
		print_label(out, (const void *)hdr);
		break;
	case DLP_EV_MSG:
		print_msg(out, (const void *)hdr);
		break;
	case DLP_EV_BLOCK:
		print_block(out, (const void *)hdr);
		break;
	case DLP_EV_WAIT:
		print_wait(out, (const void *)hdr);
		break;
	case DLP_EV_CLOCK:
		print_clock_event(out, (const void *)hdr);
		break;
	case DLP_EV_FORK:
		print_fork(out, (const void *)hdr);
		break;
	case DLP_EV_EXEC:
		print_exec(out, (const void *)hdr);
		break;
	case DLP_EV_EXIT:
		print_exit(out, (const void *)hdr);
		break;
	case DLP_EV_WINDOW:
		print_window(out, (const void *)hdr);
		break;
	case DLP_EV_COUNTERS:
		print_counters(out, (const void *)hdr);
		break;
	case DLP_EV_PROC:
		print_proc(out, (const void *)hdr);
		break;
	case DLP_EV_SEM:
		print_sem(out, (const void *)hdr);
		break;
	case DLP_EV_SYSTEM:
		print_system(out, (const void *)hdr);
		break;
	case DLP_EV_GOVERN:
		print_govern(out, (const void *)hdr);
		break;
	case DLP_EV_OTHER:
		print_other(out, (const void *)hdr);
		break;
	case DLP_EV_GC:
		print_gc(out, (const void *)hdr);
		break;
	default:
		break;
	}
	fputc('\n', out);
}
