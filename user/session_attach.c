/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "session_priv.h"

/*
 * The syscall rung costs about 0.1 us a call (measured: getppid 226 ns without, 308 to 363 ns with
 * it), so at this rate 1 % of a CPU. Above it, it is attached for one interval in so many.
 */
#define CALLS_PER_S_MAX 100000
#define BURST_EVERY 10
/*
 * A breakpoint is charged to the memory of each process it is set in. Where one of them is just being
 * killed for taking all its control group has, the kernel says ENOMEM to the whole probe.
 */
#define ATTACH_TRIES 20
#define ATTACH_PAUSE_NS (50 * DLP_NS_PER_MS)

/* Keeps a link; false when libbpf could not attach. */
static bool keep(struct dlp_session *session, struct bpf_link *link)
{
	if (!link)
		return false;
	session->link[session->link_cnt++] = link;
	return true;
}

/* NULL and errno when it cannot be attached. */
static struct bpf_link *attach_uprobe(struct bpf_program *program, pid_t pid,
				      const struct dlp_probe *probe)
{
	const struct timespec pause = { .tv_nsec = ATTACH_PAUSE_NS };
	LIBBPF_OPTS(bpf_uprobe_opts, opts);
	struct bpf_link *link = NULL;

	for (int i = 0; i < ATTACH_TRIES; i++) {
		link = bpf_program__attach_uprobe_opts(program, pid, probe->path, probe->offset, &opts);
		if (link || errno != ENOMEM)
			break;
		(void)nanosleep(&pause, NULL);
		errno = ENOMEM;
	}
	return link;
}

static bool attach_probe(struct dlp_session *session, const struct dlp_probe *probe)
{
	static const struct {
		enum dlp_probe_id id;
		const char *program;
	} handlers[] = {
		{ DLP_PROBE_SCOPE_ENTER, "dlp_scope_enter" }, { DLP_PROBE_SCOPE_EXIT, "dlp_scope_exit" },
		{ DLP_PROBE_NEXT, "dlp_next" },		      { DLP_PROBE_SCOPE_OP, "dlp_scope_op" },
		{ DLP_PROBE_QUEUE_SEND, "dlp_queue_send" },
		{ DLP_PROBE_QUEUE_RECV, "dlp_queue_recv" }, { DLP_PROBE_SEM_OPEN, "dlp_sem_open" },
	};
	/*
	 * -1: a probe bound to one process does not follow fork; the programs filter. But the C
	 * library is in every process of the machine, and datasets call many a __next__: there only
	 * the trainer's copy gets a probe.
	 */
	bool alone = probe->id == DLP_PROBE_SEM_OPEN || probe->id == DLP_PROBE_NEXT;
	pid_t pid = alone ? session->opts.target->pid : -1;

	for (size_t i = 0; i < DLP_ARRAY_SIZE(handlers); i++) {
		struct bpf_program *program;

		if (handlers[i].id != probe->id)
			continue;
		program = bpf_object__find_program_by_name(session->skel->obj, handlers[i].program);
		return keep(session, attach_uprobe(program, pid, probe));
	}
	return false;
}

static enum dlp_feature feature_of(enum dlp_probe_id id)
{
	switch (id) {
	case DLP_PROBE_QUEUE_SEND:
	case DLP_PROBE_QUEUE_RECV:
		return DLP_FEATURE_QUEUE_UPROBE;
	case DLP_PROBE_SEM_OPEN:
		return DLP_FEATURE_ITERATORS;
	default:
		return DLP_FEATURE_SCOPES;
	}
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
		enum dlp_feature feature = feature_of(probe->id);
		bool attached;

		if (!(session->wanted & (1u << feature)) ||
		    entries != (probe->id == DLP_PROBE_SCOPE_ENTER))
			continue;
		attached = attach_probe(session, probe);
		if (attached && feature == DLP_FEATURE_QUEUE_UPROBE)
			session->queue_link[session->queue_link_cnt++] =
				session->link[--session->link_cnt];
		/* without it calls begin a little late */
		if (probe->id == DLP_PROBE_NEXT)
			continue;
		if (!attached)
			dlp_session_refuse(session, feature, "no probe on %.50s: %s%s", probe->symbol,
					   strerror(errno),
					   errno == EACCES ? " (needs CAP_SYS_ADMIN)" : "");
		else if (feature == DLP_FEATURE_SCOPES)
			session->scope_probe_cnt++;
	}
}

static void attach_tracepoints(struct dlp_session *session)
{
	for (size_t i = 0; i < DLP_PROGRAM_CNT; i++) {
		enum dlp_feature feature = dlp_programs[i].feature;

		if (dlp_programs[i].attach != DLP_ATTACH_SECTION || !dlp_session_wants(session, i) ||
		    !bpf_program__autoload(session->program[i]))
			continue;
		if (!keep(session, bpf_program__attach(session->program[i])) && !dlp_programs[i].optional)
			dlp_session_refuse(session, feature, "cannot attach %s: %s", dlp_programs[i].name,
			       strerror(errno));
	}
}

static struct bpf_link *attach_calls(struct dlp_session *session)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = session->calls_tracepoint,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	struct bpf_link *link;

	if (fd < 0)
		return NULL;
	/* the link owns the event then; of any CPU, BPF programs run on all */
	link = bpf_program__attach_perf_event(session->skel->progs.dlp_queue_exit, fd);
	if (!link)
		close(fd);
	return link;
}

/* One way to see batch messages is enough, and this one taxes every system call. */
static void attach_syscall_rung(struct dlp_session *session)
{
	int err;

	if (session->wanted & DLP_FEATURE_BIT(QUEUE_UPROBE)) {
		session->wanted &= ~DLP_FEATURE_BIT(QUEUE_SYSCALL);
		return;
	}
	if (!(session->wanted & DLP_FEATURE_BIT(QUEUE_SYSCALL)))
		return;
	err = dlp_kernel_tracepoint("", "raw_syscalls/sys_exit", &session->calls_tracepoint);
	if (err)
		errno = -err;
	else
		session->calls_link = attach_calls(session);
	if (!session->calls_link)
		dlp_session_refuse(session, DLP_FEATURE_QUEUE_SYSCALL, "cannot attach to raw_syscalls/sys_exit: %s",
		       strerror(errno));
}

int dlp_session_attach(struct dlp_session *session, struct dlp_session_failure *failure)
{
	/* births first, so that no process falls between the list of the job and its followers */
	attach_tracepoints(session);
	/* before there is a thread: a clock that nothing stops would say that it runs all the time */
	session->skel->bss->dlp_throttle.clocks_off = !(session->wanted & DLP_FEATURE_BIT(CLOCKS));
	if (session->wanted & DLP_FEATURE_BIT(CLOCK_ITER)) {
		session->sweep_link = bpf_program__attach_iter(session->skel->progs.dlp_sweep_tasks, NULL);
		if (!session->sweep_link)
			dlp_session_refuse(session, DLP_FEATURE_CLOCK_ITER, "cannot attach the task iterator: %s",
			       strerror(errno));
	}
	attach_probes(session, false);
	attach_probes(session, true);
	attach_syscall_rung(session);
	dlp_session_attach_sampler(session);
	if (session->wanted & DLP_FEATURE_BIT(SCOPES) && !session->scope_probe_cnt)
		dlp_session_refuse(session, DLP_FEATURE_SCOPES, "no probe point");
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

void dlp_session_pace(struct dlp_session *session)
{
	_cleanup_free_ uint64_t *room = calloc((size_t)session->cpus, sizeof(*room));
	uint64_t now = dlp_now_ns(), seen, last_ns = session->calls_ns;
	double rate;

	if (!(session->active & DLP_FEATURE_BIT(QUEUE_SYSCALL)) || !room || session->messages_off)
		return;
	if (!session->calls_link) {
		session->paused_cnt++;
		if (--session->pause_left)
			return;
		session->calls_link = attach_calls(session);
		session->calls_seen = dlp_session_counter(session, DLP_CNT_SYSCALL_SEEN, room);
		session->calls_ns = dlp_now_ns();
		/* cannot attach any more: try again in the next interval */
		session->pause_left = session->calls_link ? 0 : 1;
		return;
	}
	seen = dlp_session_counter(session, DLP_CNT_SYSCALL_SEEN, room);
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

void dlp_session_messages(struct dlp_session *session, bool on)
{
	const struct dlp_target *target = session->opts.target;

	if (on == !session->messages_off)
		return;
	session->messages_off = !on;
	/* the syscall rung comes back with dlp_session_pace */
	session->pause_left = 1;
	bpf_link__destroy(session->calls_link);
	session->calls_link = NULL;
	while (session->queue_link_cnt)
		bpf_link__destroy(session->queue_link[--session->queue_link_cnt]);
	if (!on || !(session->active & DLP_FEATURE_BIT(QUEUE_UPROBE)))
		return;
	/* one that cannot be attached any more was refused by the kernel: the other goes on alone */
	for (size_t i = 0; i < target->probe_cnt; i++) {
		if (feature_of(target->probe[i].id) == DLP_FEATURE_QUEUE_UPROBE &&
		    attach_probe(session, &target->probe[i]))
			session->queue_link[session->queue_link_cnt++] =
				session->link[--session->link_cnt];
	}
}
