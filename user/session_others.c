/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sampler of processes outside the job: its perf events, and what it has counted. */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>

#include "session_priv.h"

/*
 * 47 samples a second on each CPU: a share of a CPU of 10 % is known within a third after 2 s, and
 * within a tenth after 20 s. Prime, so that it does not beat with timers of round frequencies.
 */
#define SAMPLE_NS (DLP_NS_PER_S / 47)

/* Processes named one by one, those with most CPU time; the others are in the sum only. */
#define NAMED_MAX 16

static int open_clock(int cpu)
{
	/* an hrtimer: needs neither a performance counter nor, for each sample, a buffer */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = SAMPLE_NS,
		.exclude_idle = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

void dlp_session_attach_sampler(struct dlp_session *session)
{
	if (!(session->wanted & DLP_FEATURE_BIT(OTHERS)))
		return;
	dlp_session_put_gc(session);
	session->sampler = calloc((size_t)session->cpus, sizeof(struct bpf_link *));
	for (int cpu = 0; session->sampler && cpu < session->cpus; cpu++) {
		struct bpf_link *link;
		int fd = open_clock(cpu);

		/* not online; those that come later are not sampled */
		if (fd < 0 && (errno == ENODEV || errno == EINVAL))
			continue;
		link = fd < 0 ? NULL : bpf_program__attach_perf_event(session->skel->progs.dlp_sample, fd);
		if (!link) {
			dlp_session_refuse(session, DLP_FEATURE_OTHERS,
					   "cannot sample CPU %d: %s", cpu, strerror(errno));
			if (fd >= 0)
				close(fd);
			dlp_session_free_sampler(session);
			return;
		}
		/* the link owns the event now */
		session->sampler[session->sampler_cnt++] = link;
	}
	if (!session->sampler_cnt)
		dlp_session_refuse(session, DLP_FEATURE_OTHERS, "no CPU can be sampled");
}

void dlp_session_free_sampler(struct dlp_session *session)
{
	while (session->sampler_cnt)
		bpf_link__destroy(session->sampler[--session->sampler_cnt]);
	free(session->sampler);
	session->sampler = NULL;
}

static int deliver_other(uint32_t tgid, const struct dlp_other_use *other, uint64_t now_ns,
			 dlp_sink_fn sink, void *ctx)
{
	struct dlp_ev_other event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_OTHER, .ts_ns = now_ns,
			 .tgid = tgid, .tid = tgid },
		.cpu_ns = other->samples * SAMPLE_NS,
		.samples = other->samples,
	};

	memcpy(event.comm, other->comm, sizeof(event.comm));
	return sink(ctx, &event, sizeof(event));
}

void dlp_session_set_kin(struct dlp_session *session, dlp_kin_fn is_kin, void *ctx)
{
	session->is_kin = is_kin;
	session->kin_ctx = ctx;
}

/* Samples of kin, which go from the list. */
static uint64_t leave_out_kin(const struct dlp_session *session, uint32_t *tgid,
			      struct dlp_other_use *other, uint32_t *cnt)
{
	uint32_t kept = 0;
	uint64_t kin = 0;

	if (!session->is_kin)
		return 0;
	for (uint32_t i = 0; i < *cnt; i++) {
		if (session->is_kin(session->kin_ctx, tgid[i])) {
			kin += other[i].samples;
			continue;
		}
		tgid[kept] = tgid[i];
		other[kept++] = other[i];
	}
	*cnt = kept;
	return kin;
}

/* Of all samples so far, those of strangers: never fewer than before, whoever turns out to be kin. */
static uint64_t strangers(struct dlp_session *session, uint64_t all, uint64_t kin)
{
	uint64_t grown = all - session->samples_seen;
	uint64_t kin_grown = kin > session->kin_seen ? kin - session->kin_seen : 0;

	session->samples_seen = all;
	session->kin_seen = kin;
	session->strangers += grown > kin_grown ? grown - kin_grown : 0;
	return session->strangers;
}

static int deliver_sum(struct dlp_session *session, uint64_t kin, uint64_t now_ns, dlp_sink_fn sink,
		       void *ctx)
{
	_cleanup_free_ struct dlp_other_use *room = calloc((size_t)session->cpus, sizeof(*room));
	struct dlp_other_use sum = { 0 };
	uint32_t zero = 0;
	int err;

	if (!room)
		return -ENOMEM;
	err = bpf_map__lookup_elem(session->skel->maps.dlp_others_sum, &zero, sizeof(zero), room,
				   (size_t)session->cpus * sizeof(*room), 0);
	if (err)
		return err;
	for (int cpu = 0; cpu < session->cpus; cpu++)
		sum.samples += room[cpu].samples;
	sum.samples = strangers(session, sum.samples, kin);
	return deliver_other(0, &sum, now_ns, sink, ctx);
}

/* Moves the NAMED_MAX processes with most samples to the front; returns how many these are. */
static size_t select_largest(uint32_t *tgid, struct dlp_other_use *other, size_t cnt)
{
	size_t named = cnt < NAMED_MAX ? cnt : NAMED_MAX;

	for (size_t i = 0; i < named; i++) {
		struct dlp_other_use value;
		size_t largest = i;
		uint32_t key;

		for (size_t k = i + 1; k < cnt; k++) {
			if (other[k].samples > other[largest].samples)
				largest = k;
		}
		value = other[i];
		other[i] = other[largest];
		other[largest] = value;
		key = tgid[i];
		tgid[i] = tgid[largest];
		tgid[largest] = key;
	}
	return named;
}

int dlp_session_samples(struct dlp_session *session, dlp_sink_fn sink, void *ctx)
{
	_cleanup_free_ struct dlp_other_use *other = calloc(DLP_OTHERS_MAX, sizeof(*other));
	_cleanup_free_ uint32_t *tgid = calloc(DLP_OTHERS_MAX, sizeof(*tgid));
	uint32_t cnt = DLP_OTHERS_MAX, next;
	uint64_t now_ns = dlp_now_ns(), kin;
	size_t named;
	int err, unread;

	if (!(session->active & DLP_FEATURE_BIT(OTHERS)))
		return -EOPNOTSUPP;
	if (!other || !tgid)
		return -ENOMEM;
	/* -ENOENT: that was all of it */
	err = bpf_map_lookup_batch(bpf_map__fd(session->skel->maps.dlp_others), NULL, &next, tgid,
				   other, &cnt, NULL);
	unread = err == -ENOENT ? 0 : err;
	if (unread)
		cnt = 0;
	kin = leave_out_kin(session, tgid, other, &cnt);
	/* there is a sum even so */
	err = deliver_sum(session, kin, now_ns, sink, ctx);
	if (err)
		return err;
	named = select_largest(tgid, other, cnt);
	for (size_t i = 0; i < named; i++) {
		err = deliver_other(tgid[i], &other[i], now_ns, sink, ctx);
		if (err)
			return err;
	}
	err = dlp_session_gc(session, now_ns, sink, ctx);
	return err ? err : unread;
}
