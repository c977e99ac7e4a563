/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fdlimit.h"
#include "session_priv.h"

void dlp_session_refuse(struct dlp_session *session, enum dlp_feature feature, const char *format,
			...)
{
	va_list args;

	session->wanted &= ~(1u << feature);
	/* the first reason is the cause, later ones its consequences */
	if (session->refused[feature][0])
		return;
	va_start(args, format);
	vsnprintf(session->refused[feature], sizeof(session->refused[feature]), format, args);
	va_end(args);
}

static int deliver(void *ctx, void *data, size_t bytes)
{
	struct dlp_session *session = ctx;

	session->sink_err = session->sink(session->sink_ctx, data, bytes);
	return session->sink_err;
}

const struct dlp_probe *dlp_session_find_probe(const struct dlp_target *target, enum dlp_probe_id id)
{
	for (size_t i = 0; i < target->probe_cnt; i++) {
		if (target->probe[i].id == id)
			return &target->probe[i];
	}
	return NULL;
}

/* The features to try for, from what the target offers and what was left out on purpose. */
static uint32_t features_to_try(const struct dlp_session_opts *opts)
{
	uint32_t wanted = ((1u << DLP_FEATURE_MAX) - 1) & ~opts->without;

	if (!dlp_session_find_probe(opts->target, DLP_PROBE_QUEUE_SEND) ||
	    !dlp_session_find_probe(opts->target, DLP_PROBE_QUEUE_RECV))
		wanted &= ~DLP_FEATURE_BIT(QUEUE_UPROBE);
	/* the clocks' programs send the waits */
	if (!(wanted & DLP_FEATURE_BIT(CLOCKS)))
		wanted &= ~DLP_FEATURE_BIT(WAITS);
	return wanted;
}

/* Nothing that another kernel would change. */
static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

static void explain_btf(int err, struct dlp_session_failure *failure)
{
	failure->unsupported = !is_shortage(err);
	snprintf(failure->text, sizeof(failure->text),
		 failure->unsupported ?
			 "the kernel has no type information (/sys/kernel/btf/vmlinux: %s); it must be "
			 "built with CONFIG_DEBUG_INFO_BTF" :
			 "the kernel's type information (/sys/kernel/btf/vmlinux) cannot be read: %s",
		 strerror(-err));
}

static void explain_load(int err, struct dlp_session_failure *failure)
{
	failure->unsupported = !is_shortage(err);
	if (err == -EPERM)
		snprintf(failure->text, sizeof(failure->text),
			 "no permission to load BPF programs: " DLP_KERNEL_PERMISSION);
	else if (is_shortage(err))
		snprintf(failure->text, sizeof(failure->text), "the BPF programs cannot be loaded: %s",
			 strerror(-err));
	else
		snprintf(failure->text, sizeof(failure->text),
			 "the kernel does not load the BPF programs (%s); it must have "
			 "CONFIG_BPF_SYSCALL, CONFIG_DEBUG_INFO_BTF and CONFIG_UPROBE_EVENTS; "
			 "DLPROF_DEBUG=1 shows its own words", strerror(-err));
}

int dlp_session_open(const struct dlp_session_opts *opts, struct dlp_session **ret,
		     struct dlp_session_failure *failure)
{
	struct dlp_kernel_facts facts;
	struct dlp_session *session;
	int err;

	memset(failure, 0, sizeof(*failure));
	dlp_fdlimit_raise();
	if (dlp_fdlimit_check(failure->text, sizeof(failure->text)))
		return -1;
	dlp_kernel_quiet_libbpf();
	session = calloc(1, sizeof(*session));
	if (!session) {
		snprintf(failure->text, sizeof(failure->text), "out of memory");
		return -1;
	}
	session->opts = *opts;
	session->stats_fd = -1;
	session->wanted = features_to_try(opts);
	session->cpus = libbpf_num_possible_cpus();
	if (session->wanted & DLP_FEATURE_BIT(ITERATORS) &&
	    !dlp_session_find_probe(opts->target, DLP_PROBE_SEM_OPEN))
		dlp_session_refuse(session, DLP_FEATURE_ITERATORS, "%.100s",
				   opts->target->iterator_note);
	err = dlp_kernel_facts(&facts);
	if (err) {
		explain_btf(err, failure);
		goto fail;
	}
	if (session->wanted & DLP_FEATURE_BIT(TASK_STORAGE) &&
	    libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) != 1)
		dlp_session_refuse(session, DLP_FEATURE_TASK_STORAGE, "the kernel has no task storage");
	err = dlp_session_load(session, &facts);
	if (err) {
		explain_load(err, failure);
		goto fail;
	}
	session->ring = ring_buffer__new(bpf_map__fd(session->skel->maps.dlp_ring), deliver, session,
					 NULL);
	if (!session->ring) {
		snprintf(failure->text, sizeof(failure->text), "cannot map the ring buffer: %s",
			 strerror(errno));
		goto fail;
	}
	*ret = session;
	return 0;
fail:
	dlp_session_free(session);
	return -1;
}

int dlp_session_add(struct dlp_session *session, pid_t tgid, const struct dlp_interpreter *python)
{
	struct dlp_job job = {
		.trainer = (uint32_t)session->opts.target->pid,
		.gil_lo = python->gil_lo,
		.gil_hi = python->gil_hi,
		.gc_known = dlp_session_knows_gc(session, python),
		.gc_bias = python->bias,
	};
	uint32_t key = (uint32_t)tgid;

	return bpf_map__update_elem(session->skel->maps.dlp_job, &key, sizeof(key), &job, sizeof(job),
				    BPF_ANY);
}

void dlp_session_remove(struct dlp_session *session, pid_t tgid)
{
	uint32_t key = (uint32_t)tgid;

	/* it may have ended where the programs saw it */
	(void)bpf_map__delete_elem(session->skel->maps.dlp_job, &key, sizeof(key), 0);
}

int dlp_session_label(struct dlp_session *session, uint32_t label, uint32_t every)
{
	const struct dlp_label_control control = { .every = every };

	if (!label || label > DLP_LABELS_MAX)
		return -EINVAL;
	return bpf_map__update_elem(session->skel->maps.dlp_controls, &label, sizeof(label), &control,
				    sizeof(control), BPF_ANY);
}

void dlp_session_info(const struct dlp_session *session, struct dlp_session_info *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->active = session->active;
	ret->scope_probe_cnt = session->scope_probe_cnt;
	memcpy(ret->refused, session->refused, sizeof(ret->refused));
}

int dlp_session_fd(const struct dlp_session *session)
{
	return ring_buffer__epoll_fd(session->ring);
}

int dlp_session_consume(struct dlp_session *session, dlp_sink_fn sink, void *ctx)
{
	int n;

	session->sink = sink;
	session->sink_ctx = ctx;
	session->sink_err = 0;
	n = ring_buffer__consume(session->ring);
	return session->sink_err ? session->sink_err : n;
}

int dlp_session_sweep(struct dlp_session *session, dlp_sink_fn sink, void *ctx)
{
	size_t kept = 0;
	_cleanup_close_ int fd = -1;

	if (!session->sweep_link)
		return -EOPNOTSUPP;
	fd = bpf_iter_create(bpf_link__fd(session->sweep_link));
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, session->sweep + kept, sizeof(session->sweep) - kept);
		size_t at = 0;

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return 0;
		kept += (size_t)n;
		for (; kept - at >= sizeof(struct dlp_ev_clock); at += sizeof(struct dlp_ev_clock)) {
			int err = sink(ctx, session->sweep + at, sizeof(struct dlp_ev_clock));

			if (err)
				return err;
		}
		/* a record may be cut by the kernel's page-sized chunks */
		kept -= at;
		memmove(session->sweep, session->sweep + at, kept);
	}
}

/* Sum over all loaded programs. */
static void program_stats(const struct dlp_session *session, uint64_t *ret_cnt, uint64_t *ret_ns,
			  uint64_t *ret_misses)
{
	*ret_cnt = *ret_ns = *ret_misses = 0;
	for (size_t i = 0; i < DLP_PROGRAM_CNT; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int fd = bpf_program__fd(session->program[i]);

		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
			continue;
		*ret_cnt += info.run_cnt;
		*ret_ns += info.run_time_ns;
		*ret_misses += info.recursion_misses;
	}
}

/* False: they are off. */
static bool switch_stats(struct dlp_session *session, bool on)
{
	if (session->opts.stats) {
		session->stats_on = dlp_stats_switch_set(session->opts.stats, on);
	} else {
		dlp_cleanup_close(&session->stats_fd);
		session->stats_fd = on ? bpf_enable_stats(BPF_STATS_RUN_TIME) : -1;
		session->stats_on = session->stats_fd >= 0;
	}
	return session->stats_on;
}

void dlp_session_sample(struct dlp_session *session, bool on)
{
	uint64_t cnt, ns, misses;

	if (on == session->stats_on)
		return;
	program_stats(session, &cnt, &ns, &misses);
	if (on) {
		if (!switch_stats(session, true))
			return;
		session->sample_start_ns = dlp_now_ns();
		session->sample_cnt_base = cnt;
		session->sample_ns_base = ns;
		dlp_session_parts(session, session->part_base);
		return;
	}
	(void)switch_stats(session, false);
	session->sampled_ns += dlp_now_ns() - session->sample_start_ns;
	session->sample_cnt += cnt - session->sample_cnt_base;
	session->sample_ns += ns - session->sample_ns_base;
}

/* Sum of a counter over all CPUs; `room` holds a value for each. */
uint64_t dlp_session_counter(const struct dlp_session *session, uint32_t counter, uint64_t *room)
{
	uint64_t sum = 0;

	if (bpf_map__lookup_elem(session->skel->maps.dlp_counters, &counter, sizeof(counter), room,
				 (size_t)session->cpus * sizeof(*room), 0))
		return 0;
	for (int cpu = 0; cpu < session->cpus; cpu++)
		sum += room[cpu];
	return sum;
}

void dlp_session_counters(struct dlp_session *session, struct dlp_ev_counters *ret)
{
	_cleanup_free_ uint64_t *room = calloc((size_t)session->cpus, sizeof(*room));
	uint64_t cnt, ns, misses;

	for (uint32_t i = 0; room && i < DLP_CNT_MAX; i++)
		ret->value[i] = dlp_session_counter(session, i, room);
	ret->value[DLP_CNT_MSG_PAUSED] = session->paused_cnt;
	program_stats(session, &cnt, &ns, &misses);
	ret->recursion_misses = misses;
	ret->prog_run_cnt = session->sample_cnt;
	ret->prog_run_ns = session->sample_ns;
	ret->prog_sampled_ns = session->sampled_ns;
	if (session->stats_on) {
		ret->prog_run_cnt += cnt - session->sample_cnt_base;
		ret->prog_run_ns += ns - session->sample_ns_base;
		ret->prog_sampled_ns += dlp_now_ns() - session->sample_start_ns;
	}
}

void dlp_session_free(struct dlp_session *session)
{
	if (!session)
		return;
	/* probes first: nothing of ours may run in the target while the rest goes away */
	while (session->link_cnt)
		bpf_link__destroy(session->link[--session->link_cnt]);
	dlp_session_messages(session, false);
	dlp_session_free_sampler(session);
	bpf_link__destroy(session->sweep_link);
	bpf_link__destroy(session->calls_link);
	(void)switch_stats(session, false);
	ring_buffer__free(session->ring);
	dlprof_bpf__destroy(session->skel);
	free(session);
}
