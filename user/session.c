/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "dlprof/config.h"
#include "kernel.h"
#include "syscalls.h"
#include "util.h"

#include "dlprof.skel.h"

/*
 * Program -> the feature it serves. `optional` ones are left out without giving the feature up:
 * what they add exists on some kernels only.
 */
static const struct program {
	const char *name;
	enum dlp_feature feature;
	bool optional;
} programs[] = {
	{ "dlp_scope_enter", DLP_FEATURE_SCOPES, false },
	{ "dlp_scope_exit", DLP_FEATURE_SCOPES, false },
	{ "dlp_scope_op", DLP_FEATURE_SCOPES, false },
	{ "dlp_switch", DLP_FEATURE_CLOCKS, false },
	{ "dlp_wakeup", DLP_FEATURE_CLOCKS, false },
	{ "dlp_wakeup_new", DLP_FEATURE_CLOCKS, false },
	{ "dlp_sweep_tasks", DLP_FEATURE_CLOCK_ITER, false },
	{ "dlp_queue_send", DLP_FEATURE_QUEUE_UPROBE, false },
	{ "dlp_queue_recv", DLP_FEATURE_QUEUE_UPROBE, false },
	{ "dlp_queue_exit", DLP_FEATURE_QUEUE_SYSCALL, false },
	{ "dlp_fork", DLP_FEATURE_PROCESS, false },
	{ "dlp_exec", DLP_FEATURE_PROCESS, false },
	{ "dlp_exit", DLP_FEATURE_PROCESS, false },
	{ "dlp_io_start", DLP_FEATURE_BLOCK, true },
	{ "dlp_rq_issue", DLP_FEATURE_BLOCK, false },
	{ "dlp_rq_done", DLP_FEATURE_BLOCK, false },
};

#define PROGRAM_CNT DLP_ARRAY_SIZE(programs)
/* One per program; the scope exit has a probe in each of two libraries. */
#define LINKS_MAX (PROGRAM_CNT + DLP_PROBES_MAX)

/*
 * The syscall rung costs about 0.1 us a call (measured: getppid 226 ns without, 308 to 363 ns with
 * it), so at this rate 1 % of a CPU. Above it, it is attached for one interval in so many.
 */
#define CALLS_PER_S_MAX 100000
#define BURST_EVERY 10

/* About 150 clock records: one read() for an ordinary job. */
#define SWEEP_BUFFER (64 * 1024)

struct dlp_session {
	struct dlprof_bpf *skel;
	struct dlp_session_opts opts;
	struct bpf_program *program[PROGRAM_CNT];
	uint32_t wanted; /* features still hoped for */
	uint32_t active;
	char refused[DLP_FEATURE_MAX][120];
	size_t scope_probe_cnt;
	struct bpf_link *link[LINKS_MAX];
	size_t link_cnt;
	struct bpf_link *sweep_link;
	struct bpf_link *calls_link; /* syscall rung; NULL while it pauses */
	uint64_t calls_seen, calls_ns; /* as of the last interval */
	uint64_t paused_cnt;	       /* intervals it has paused */
	unsigned int pause_left;       /* intervals until the next burst */
	struct ring_buffer *ring;
	int cpus;
	int stats_fd; /* holds the statistics on; -1 = off */
	uint64_t sample_start_ns, sampled_ns;
	uint64_t sample_cnt_base, sample_ns_base, sample_cnt, sample_ns;
	dlp_sink_fn sink;
	void *sink_ctx;
	int sink_err;
	char sweep[SWEEP_BUFFER];
};

static void refuse(struct dlp_session *session, enum dlp_feature feature, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(struct dlp_session *session, enum dlp_feature feature, const char *format, ...)
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

static bool wants(const struct dlp_session *session, size_t i)
{
	return session->wanted & (1u << programs[i].feature);
}

static void configure(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	const struct dlp_target *target = session->opts.target;
	struct dlp_config *cfg = (struct dlp_config *)&session->skel->rodata->dlp_cfg;
	bool storage = session->wanted & DLP_FEATURE_BIT(TASK_STORAGE);
	bool rung_op = target->scope_kind == DLP_SCOPE_KIND_B;

	cfg->wire_version = DLP_WIRE_VERSION;
	cfg->use_task_storage = storage;
	cfg->has_prev_state = facts->sched_switch_args >= 4;
	cfg->has_pt_regs = facts->pt_regs;
	cfg->has_rq_single_arg = facts->rq_issue_args == 1;
	cfg->has_block_io = facts->block_io;
	cfg->has_wait_events = !!(session->wanted & DLP_FEATURE_BIT(WAITS));
	cfg->op_args_param = target->op_args_param;
	cfg->op_exit_delta = target->op_exit_delta;
	cfg->str_data_off = target->str_data_off;
	cfg->long_wait_ns = session->opts.long_wait_ns;
	/* half full: time enough to be scheduled and read before it overflows */
	cfg->ring_wakeup_bytes = session->opts.ring_bytes / 2;
	dlp_syscalls_configure(cfg);

	bpf_map__set_max_entries(session->skel->maps.dlp_ring, session->opts.ring_bytes);
	bpf_map__set_autocreate(session->skel->maps.dlp_storage, storage);
	bpf_map__set_autocreate(session->skel->maps.dlp_threads, !storage);
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		bool load = wants(session, i);

		session->program[i] = bpf_object__find_program_by_name(session->skel->obj,
								       programs[i].name);
		if (session->program[i] == session->skel->progs.dlp_io_start)
			load = load && facts->block_io;
		if (programs[i].feature == DLP_FEATURE_SCOPES)
			load = load &&
			       rung_op == (session->program[i] == session->skel->progs.dlp_scope_op);
		bpf_program__set_autoload(session->program[i], load);
	}
}

static int open_skeleton(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	session->skel = dlprof_bpf__open();
	if (!session->skel)
		return -errno;
	configure(session, facts);
	return 0;
}

/* Whether the kernel takes program i when it is loaded alone: 0 or -errno. */
static int try_alone(struct dlp_session *session, const struct dlp_kernel_facts *facts, size_t i)
{
	int err;

	err = open_skeleton(session, facts);
	if (err)
		return err;
	for (size_t other = 0; other < PROGRAM_CNT; other++) {
		if (other != i)
			bpf_program__set_autoload(session->program[other], false);
	}
	err = bpf_program__autoload(session->program[i]) ? dlprof_bpf__load(session->skel) : 0;
	dlprof_bpf__destroy(session->skel);
	session->skel = NULL;
	return err;
}

/*
 * One load for all; only when the kernel refuses that, each program is tried alone and those it
 * refuses are left out.
 */
static int load(struct dlp_session *session, const struct dlp_kernel_facts *facts)
{
	int err;

	err = open_skeleton(session, facts);
	if (err)
		return err;
	err = dlprof_bpf__load(session->skel);
	if (!err)
		return 0;
	dlprof_bpf__destroy(session->skel);
	session->skel = NULL;
	/* no privileges: then it is no single program's fault (the verifier says EACCES or EINVAL) */
	if (err == -EPERM)
		return err;
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		int alone = wants(session, i) ? try_alone(session, facts, i) : 0;

		if (alone)
			refuse(session, programs[i].feature, "the kernel refuses %s: %s",
			       programs[i].name, strerror(-alone));
	}
	err = open_skeleton(session, facts);
	return err ? err : dlprof_bpf__load(session->skel);
}

static int deliver(void *ctx, void *data, size_t bytes)
{
	struct dlp_session *session = ctx;

	session->sink_err = session->sink(session->sink_ctx, data, bytes);
	return session->sink_err;
}

static const struct dlp_probe *find_probe(const struct dlp_target *target, enum dlp_probe_id id)
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

	if (!find_probe(opts->target, DLP_PROBE_QUEUE_SEND) ||
	    !find_probe(opts->target, DLP_PROBE_QUEUE_RECV))
		wanted &= ~DLP_FEATURE_BIT(QUEUE_UPROBE);
	/* the clocks' programs send the waits */
	if (!(wanted & DLP_FEATURE_BIT(CLOCKS)))
		wanted &= ~DLP_FEATURE_BIT(WAITS);
	return wanted;
}

static void explain_load(int err, struct dlp_session_failure *failure)
{
	failure->unsupported = true;
	if (err == -EPERM)
		snprintf(failure->text, sizeof(failure->text),
			 "no permission to load BPF programs: run as root (sudo), in the host's own "
			 "user namespace");
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
	err = dlp_kernel_facts(&facts);
	if (err) {
		failure->unsupported = true;
		snprintf(failure->text, sizeof(failure->text),
			 "the kernel has no type information (/sys/kernel/btf/vmlinux: %s); it must be "
			 "built with CONFIG_DEBUG_INFO_BTF", strerror(-err));
		goto fail;
	}
	if (session->wanted & DLP_FEATURE_BIT(TASK_STORAGE) &&
	    libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) != 1)
		refuse(session, DLP_FEATURE_TASK_STORAGE, "the kernel has no task storage");
	err = load(session, &facts);
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

int dlp_session_add(struct dlp_session *session, pid_t tgid, uint64_t gil_lo, uint64_t gil_hi)
{
	struct dlp_job job = {
		.trainer = (uint32_t)session->opts.target->pid,
		.gil_lo = gil_lo,
		.gil_hi = gil_hi,
	};
	uint32_t key = (uint32_t)tgid;

	return bpf_map__update_elem(session->skel->maps.dlp_job, &key, sizeof(key), &job, sizeof(job),
				    BPF_ANY);
}

/* Keeps a link; false when libbpf could not attach. */
static bool keep(struct dlp_session *session, struct bpf_link *link)
{
	if (!link)
		return false;
	session->link[session->link_cnt++] = link;
	return true;
}

static bool attach_probe(struct dlp_session *session, const struct dlp_probe *probe)
{
	static const struct {
		enum dlp_probe_id id;
		const char *program;
	} handlers[] = {
		{ DLP_PROBE_SCOPE_ENTER, "dlp_scope_enter" }, { DLP_PROBE_SCOPE_EXIT, "dlp_scope_exit" },
		{ DLP_PROBE_SCOPE_OP, "dlp_scope_op" },	      { DLP_PROBE_QUEUE_SEND, "dlp_queue_send" },
		{ DLP_PROBE_QUEUE_RECV, "dlp_queue_recv" },
	};
	LIBBPF_OPTS(bpf_uprobe_opts, opts);

	for (size_t i = 0; i < DLP_ARRAY_SIZE(handlers); i++) {
		struct bpf_program *program;

		if (handlers[i].id != probe->id)
			continue;
		program = bpf_object__find_program_by_name(session->skel->obj, handlers[i].program);
		/* pid -1: a probe bound to one process does not follow fork; the programs filter */
		return keep(session, bpf_program__attach_uprobe_opts(program, -1, probe->path,
								     probe->offset, &opts));
	}
	return false;
}

/*
 * Exits before entries: entries that are seen while their exits are not would stay on their
 * thread's stack for good.
 */
static void attach_probes(struct dlp_session *session, bool entries)
{
	const struct dlp_target *target = session->opts.target;

	for (size_t i = 0; i < target->probe_cnt; i++) {
		const struct dlp_probe *probe = &target->probe[i];
		bool queue = probe->id == DLP_PROBE_QUEUE_SEND || probe->id == DLP_PROBE_QUEUE_RECV;
		enum dlp_feature feature = queue ? DLP_FEATURE_QUEUE_UPROBE : DLP_FEATURE_SCOPES;

		if (!(session->wanted & (1u << feature)) ||
		    entries != (probe->id == DLP_PROBE_SCOPE_ENTER))
			continue;
		if (!attach_probe(session, probe))
			refuse(session, feature, "no probe on %.60s: %s", probe->symbol, strerror(errno));
		else if (!queue)
			session->scope_probe_cnt++;
	}
}

/* Everything but uprobes, the iterator and the syscall rung. */
static void attach_tracepoints(struct dlp_session *session)
{
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		enum dlp_feature feature = programs[i].feature;

		if (!wants(session, i) || !bpf_program__autoload(session->program[i]) ||
		    feature == DLP_FEATURE_SCOPES || feature == DLP_FEATURE_QUEUE_UPROBE ||
		    feature == DLP_FEATURE_CLOCK_ITER || feature == DLP_FEATURE_QUEUE_SYSCALL)
			continue;
		if (!keep(session, bpf_program__attach(session->program[i])) && !programs[i].optional)
			refuse(session, feature, "cannot attach %s: %s", programs[i].name,
			       strerror(errno));
	}
}

/* One way to see batch messages is enough, and this one taxes every system call. */
static void attach_syscall_rung(struct dlp_session *session)
{
	if (session->wanted & DLP_FEATURE_BIT(QUEUE_UPROBE)) {
		session->wanted &= ~DLP_FEATURE_BIT(QUEUE_SYSCALL);
		return;
	}
	if (!(session->wanted & DLP_FEATURE_BIT(QUEUE_SYSCALL)))
		return;
	session->calls_link = bpf_program__attach(session->skel->progs.dlp_queue_exit);
	if (!session->calls_link)
		refuse(session, DLP_FEATURE_QUEUE_SYSCALL, "cannot attach to raw_syscalls/sys_exit: %s",
		       strerror(errno));
}

int dlp_session_attach(struct dlp_session *session, struct dlp_session_failure *failure)
{
	/* births first, so that no process falls between the list of the job and its followers */
	attach_tracepoints(session);
	if (session->wanted & DLP_FEATURE_BIT(CLOCK_ITER)) {
		session->sweep_link = bpf_program__attach_iter(session->skel->progs.dlp_sweep_tasks, NULL);
		if (!session->sweep_link)
			refuse(session, DLP_FEATURE_CLOCK_ITER, "cannot attach the task iterator: %s",
			       strerror(errno));
	}
	attach_probes(session, false);
	attach_probes(session, true);
	attach_syscall_rung(session);
	if (session->wanted & DLP_FEATURE_BIT(SCOPES) && !session->scope_probe_cnt)
		refuse(session, DLP_FEATURE_SCOPES, "no probe point");
	session->active = session->wanted;
	if (!(session->opts.without & DLP_FEATURE_BIT(SCOPES)) &&
	    !(session->active & DLP_FEATURE_BIT(SCOPES))) {
		failure->unsupported = true;
		snprintf(failure->text, sizeof(failure->text),
			 "GetNext cannot be seen: %s", session->refused[DLP_FEATURE_SCOPES]);
		return -1;
	}
	return 0;
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
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
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

void dlp_session_sample(struct dlp_session *session, bool on)
{
	uint64_t cnt, ns, misses;

	if (on == (session->stats_fd >= 0))
		return;
	program_stats(session, &cnt, &ns, &misses);
	if (on) {
		session->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		session->sample_start_ns = dlp_now_ns();
		session->sample_cnt_base = cnt;
		session->sample_ns_base = ns;
		return;
	}
	close(session->stats_fd);
	session->stats_fd = -1;
	session->sampled_ns += dlp_now_ns() - session->sample_start_ns;
	session->sample_cnt += cnt - session->sample_cnt_base;
	session->sample_ns += ns - session->sample_ns_base;
}

/* Sum of a counter over all CPUs; `room` holds a value for each. */
static uint64_t read_counter(const struct dlp_session *session, uint32_t counter, uint64_t *room)
{
	uint64_t sum = 0;

	if (bpf_map__lookup_elem(session->skel->maps.dlp_counters, &counter, sizeof(counter), room,
				 (size_t)session->cpus * sizeof(*room), 0))
		return 0;
	for (int cpu = 0; cpu < session->cpus; cpu++)
		sum += room[cpu];
	return sum;
}

void dlp_session_pace(struct dlp_session *session)
{
	_cleanup_free_ uint64_t *room = calloc((size_t)session->cpus, sizeof(*room));
	uint64_t now = dlp_now_ns(), seen, last_ns = session->calls_ns;
	double rate;

	if (!(session->active & DLP_FEATURE_BIT(QUEUE_SYSCALL)) || !room)
		return;
	if (!session->calls_link) {
		session->paused_cnt++;
		if (--session->pause_left)
			return;
		session->calls_link = bpf_program__attach(session->skel->progs.dlp_queue_exit);
		session->calls_seen = read_counter(session, DLP_CNT_SYSCALL_SEEN, room);
		session->calls_ns = dlp_now_ns();
		/* cannot attach any more: try again in the next interval */
		session->pause_left = session->calls_link ? 0 : 1;
		return;
	}
	seen = read_counter(session, DLP_CNT_SYSCALL_SEEN, room);
	rate = last_ns && now > last_ns ? (double)(seen - session->calls_seen) * DLP_NS_PER_S /
						 (double)(now - last_ns) : 0;
	session->calls_seen = seen;
	session->calls_ns = now;
	if (rate <= CALLS_PER_S_MAX)
		return;
	bpf_link__destroy(session->calls_link);
	session->calls_link = NULL;
	session->pause_left = BURST_EVERY - 1;
}

void dlp_session_counters(struct dlp_session *session, struct dlp_ev_counters *ret)
{
	_cleanup_free_ uint64_t *room = calloc((size_t)session->cpus, sizeof(*room));
	uint64_t cnt, ns, misses;

	for (uint32_t i = 0; room && i < DLP_CNT_MAX; i++)
		ret->value[i] = read_counter(session, i, room);
	ret->value[DLP_CNT_MSG_PAUSED] = session->paused_cnt;
	program_stats(session, &cnt, &ns, &misses);
	ret->recursion_misses = misses;
	ret->prog_run_cnt = session->sample_cnt;
	ret->prog_run_ns = session->sample_ns;
	ret->prog_sampled_ns = session->sampled_ns;
	if (session->stats_fd >= 0) {
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
	bpf_link__destroy(session->sweep_link);
	bpf_link__destroy(session->calls_link);
	if (session->stats_fd >= 0)
		close(session->stats_fd);
	ring_buffer__free(session->ring);
	dlprof_bpf__destroy(session->skel);
	free(session);
}
