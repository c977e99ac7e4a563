/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "observe.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "decode.h"
#include "diagnose.h"
#include "govern.h"
#include "jobs.h"
#include "labels.h"
#include "proc_role.h"
#include "screen.h"
#include "sysfacts.h"
#include "sysfs.h"
#include "text.h"
#include "util.h"
#include "version.h"

/*
 * The ring is read this often although nothing wakes us: rare enough to cost nothing, often
 * enough that a verdict is fresh. When it fills up sooner, the programs wake us.
 */
#define RING_PERIOD_NS (100 * DLP_NS_PER_MS)
/* The kernel's program statistics are on for the first of so many intervals (about 50 ns a run). */
#define SAMPLE_EVERY 10

/*
 * The verdict of an interval's line is that interval's own. Where it has seen fewer calls than
 * this, it looks back further, but not beyond LIVE_NS: then it would lag behind the job.
 */
#define LIVE_CALLS 3
#define LIVE_NS (3 * DLP_NS_PER_S)

struct loop {
	struct dlp_observation *ob;
	struct dlp_session *session;
	struct dlp_session_info info;
	struct dlp_jobs *jobs;
	struct dlp_sysfacts *sysfacts;
	struct dlp_labels *labels;
	struct dlp_govern govern;
	struct dlp_screen *screen; /* instead of the lines; NULL = none */
	struct rusage usage_start;
	uint64_t interval_cnt;
	struct dlp_sums *sums; /* at the ends of the newest intervals; ring of sums_room */
	size_t sums_cnt, sums_room;
	uint64_t end_ns; /* the window's end, once it is known: what came later is left out */
	uint32_t nested_tgid; /* a worker that iterates a DataLoader of its own */
	int epoll_fd, signal_fd, target_fd;
	bool stop;
};

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * DLP_NS_PER_S + (uint64_t)tv->tv_usec * DLP_NS_PER_US;
}

/* Is it another process than the target that trains? */
static void look_for_other(struct loop *loop, const struct dlp_ev_hdr *hdr)
{
	const struct dlp_target *target = loop->ob->target;
	pid_t trainer;

	if (hdr->kind != DLP_EV_SCOPE || !(hdr->flags & DLP_SCOPE_GETNEXT) ||
	    hdr->tgid == (uint32_t)target->pid || hdr->tgid == loop->nested_tgid ||
	    loop->ob->model->getnext_cnt || loop->stop)
		return;
	if (dlp_proc_trainer_of("", (pid_t)hdr->tgid, dlp_version_at_least(&target->torch, 2, 5),
				&trainer))
		return;
	if (trainer) {
		loop->nested_tgid = hdr->tgid;
		return;
	}
	loop->ob->other = (pid_t)hdr->tgid;
	loop->stop = true;
}

/* Every event, whoever made it, goes through here; a recording gets what the model gets. */
static int take(void *ctx, const void *data, size_t bytes)
{
	struct loop *loop = ctx;
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;
	int err;

	if (!dlp_event_check(data, bytes, &room, &hdr)) {
		if (loop->end_ns && hdr->ts_ns > loop->end_ns)
			return 0;
		if (!dlp_labels_apply(loop->labels, hdr))
			return 0;
		dlp_jobs_apply(loop->jobs, hdr);
		look_for_other(loop, hdr);
		if (loop->ob->events)
			dlp_event_print(loop->ob->events, hdr);
	}
	if (loop->ob->record)
		dlp_record_event(loop->ob->record, data, bytes);
	err = dlp_model_apply(loop->ob->model, data, bytes);
	/* malformed and unknown events are counted by the model; only memory ends the run */
	return err == -ENOMEM ? err : 0;
}

static int add_process(void *ctx, pid_t pid, uint64_t gil_lo, uint64_t gil_hi)
{
	struct loop *loop = ctx;

	/* a full table is counted by the programs as well; the others are still observed */
	(void)dlp_session_add(loop->session, pid, gil_lo, gil_hi);
	return 0;
}

static int limit_label(void *ctx, uint32_t label, uint32_t every)
{
	struct loop *loop = ctx;

	return dlp_session_label(loop->session, label, every);
}

static int emit_window(struct loop *loop, uint32_t phase, uint64_t now_ns)
{
	struct dlp_ev_window event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_WINDOW, .ts_ns = now_ns,
			 .tgid = (uint32_t)loop->ob->target->pid },
		.realtime_ns = dlp_realtime_ns(),
		.phase = phase,
	};

	return take(loop, &event, sizeof(event));
}

static uint64_t resident_bytes(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int emit_counters(struct loop *loop)
{
	struct dlp_ev_counters event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_COUNTERS, .ts_ns = dlp_now_ns(),
			 .tgid = (uint32_t)loop->ob->target->pid },
	};
	struct rusage usage;

	dlp_session_counters(loop->session, &event);
	if (!getrusage(RUSAGE_SELF, &usage))
		event.daemon_cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime) -
				      timeval_ns(&loop->usage_start.ru_utime) -
				      timeval_ns(&loop->usage_start.ru_stime);
	event.daemon_rss_bytes = resident_bytes();
	if (loop->ob->record)
		event.value[DLP_CNT_RECORDING_LOST] = dlp_record_lost(loop->ob->record);
	return take(loop, &event, sizeof(event));
}

static int emit_system(struct loop *loop)
{
	struct dlp_ev_system event;

	dlp_sysfacts_read(loop->sysfacts, dlp_now_ns(), &event);
	loop->ob->facts->cpus_allowed = event.cpus_allowed;
	return take(loop, &event, sizeof(event));
}

/* Reads everything there is to read now. */
static int gather(struct loop *loop)
{
	int err;

	err = dlp_session_consume(loop->session, take, loop);
	if (err < 0)
		return err;
	err = dlp_jobs_report(loop->jobs, dlp_now_ns(), take, add_process, loop);
	if (err)
		return err;
	err = emit_system(loop);
	if (err)
		return err;
	err = emit_counters(loop);
	if (err)
		return err;
	err = dlp_session_others(loop->session, take, loop);
	if (err == -ENOMEM)
		return err;
	err = dlp_session_sweep(loop->session, take, loop);
	return err == -ENOMEM ? err : 0;
}

/* The sums as of the moment the live verdict looks back to; NULL = the window's start. */
static const struct dlp_sums *lately(const struct loop *loop)
{
	const struct dlp_sums *ret = NULL;

	for (size_t back = 1; back <= loop->sums_room; back++) {
		if (back > loop->sums_cnt)
			return NULL;
		ret = &loop->sums[(loop->sums_cnt - back) % loop->sums_room];
		if (loop->ob->model->getnext_cnt >= ret->calls + LIVE_CALLS)
			break;
	}
	return ret;
}

static void say_interval(struct loop *loop)
{
	struct dlp_verdict verdict;

	if (loop->ob->options->quiet)
		return;
	dlp_diagnose(loop->ob->model, lately(loop), &verdict);
	if (loop->screen) {
		dlp_screen_interval(loop->screen, &verdict);
	} else {
		dlp_text_interval(loop->ob->out, loop->ob->model, &verdict);
		fflush(loop->ob->out);
	}
	dlp_sums_take(loop->ob->model, &loop->sums[loop->sums_cnt++ % loop->sums_room]);
}

static int end_interval(struct loop *loop)
{
	int err;

	err = gather(loop);
	if (!err)
		err = dlp_govern_interval(&loop->govern, take, loop);
	if (!err)
		err = emit_window(loop, 1, dlp_now_ns());
	if (err)
		return err;
	loop->interval_cnt++;
	dlp_session_sample(loop->session, loop->interval_cnt % SAMPLE_EVERY == 0 ||
						  dlp_governor_alert(&loop->govern.governor));
	dlp_session_pace(loop->session);
	say_interval(loop);
	return 0;
}

static int add_fd(struct loop *loop, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Where there is no terminal for it, lines it is. The terminal of a command is the command's. */
static int open_screen(struct loop *loop)
{
	const struct dlp_observation *ob = loop->ob;

	if (ob->launch || ob->options->quiet || ob->options->lines ||
	    dlp_screen_open(fileno(ob->out), ob->model, ob->facts, &loop->screen))
		return 0;
	return add_fd(loop, dlp_screen_fd(loop->screen));
}

static void close_screen(struct loop *loop)
{
	dlp_screen_close(loop->screen);
	loop->screen = NULL;
}

/*
 * The window ends at a moment after which the ring is read once more, so that every call that
 * ended before it is counted, and none that ended after.
 */
static int close_window(struct loop *loop)
{
	const struct dlp_interval_stats *last = &loop->ob->model->interval;
	int err;

	err = gather(loop);
	if (err)
		return err;
	loop->end_ns = dlp_now_ns();
	err = dlp_session_consume(loop->session, take, loop);
	if (err < 0)
		return err;
	err = emit_window(loop, 2, loop->end_ns);
	/* the figures of the unfinished interval say something only when it was long enough */
	if (!err && !loop->screen &&
	    last->end_ns - last->start_ns >= loop->ob->options->interval_ns / 2)
		say_interval(loop);
	/* the report is next */
	close_screen(loop);
	/* once more: some facts change while we watch */
	if (loop->ob->record)
		dlp_record_facts(loop->ob->record, loop->ob->facts);
	return err;
}

/* Signals become readable; they interrupt nothing. */
static int open_signals(struct loop *loop)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	loop->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return loop->signal_fd < 0 ? -errno : add_fd(loop, loop->signal_fd);
}

static int open_fds(struct loop *loop)
{
	const struct dlp_launch *launch = loop->ob->launch;
	int err;

	/* a reader that goes away must not take the summary with it */
	signal(SIGPIPE, SIG_IGN);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->target_fd = (int)syscall(SYS_pidfd_open, loop->ob->target->pid, 0);
	if (loop->epoll_fd < 0 || loop->target_fd < 0)
		return -errno;
	err = launch ? add_fd(loop, launch->signal_fd) : open_signals(loop);
	if (!err && launch)
		err = add_fd(loop, launch->pid_fd);
	if (!err)
		err = add_fd(loop, loop->target_fd);
	if (!err)
		err = add_fd(loop, dlp_session_fd(loop->session));
	return err;
}

/* A process that has lost its memory already may take a moment until it counts as ended. */
#define ENDING_MS 500

static bool target_gone(const struct loop *loop)
{
	struct pollfd target = { .fd = loop->target_fd, .events = POLLIN };

	return poll(&target, 1, ENDING_MS) == 1;
}

static int wait_until(struct loop *loop, uint64_t deadline_ns)
{
	const struct dlp_launch *launch = loop->ob->launch;
	uint64_t now = dlp_now_ns();
	/* rounded up: waking a moment early would only mean waiting twice */
	int timeout = deadline_ns > now ? (int)((deadline_ns - now) / DLP_NS_PER_MS + 1) : 0;
	struct epoll_event event;
	int n;

	n = epoll_wait(loop->epoll_fd, &event, 1, timeout);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (!n)
		return 0;
	if (launch && event.data.fd == launch->signal_fd)
		dlp_launch_relay(launch);
	else if (loop->screen && event.data.fd == dlp_screen_fd(loop->screen))
		loop->stop |= dlp_screen_input(loop->screen);
	else if (event.data.fd != dlp_session_fd(loop->session))
		loop->stop = true;
	return 0;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int run(struct loop *loop)
{
	const struct dlp_options *options = loop->ob->options;
	uint64_t start = dlp_now_ns();
	uint64_t end = options->duration_ns ? start + options->duration_ns : UINT64_MAX;
	uint64_t next = start + options->interval_ns;
	int err;

	while (!loop->stop) {
		uint64_t now = dlp_now_ns();

		if (now >= end)
			break;
		err = wait_until(loop, min_u64(min_u64(next, end), now + RING_PERIOD_NS));
		if (err)
			return err;
		err = dlp_session_consume(loop->session, take, loop);
		if (err < 0)
			return err;
		if (!loop->stop && dlp_sysfacts_shm_falls(loop->sysfacts)) {
			err = emit_system(loop);
			if (err)
				return err;
		}
		now = dlp_now_ns();
		if (loop->screen)
			dlp_screen_tick(loop->screen, now);
		if (now < next || loop->stop || now >= end)
			continue;
		err = end_interval(loop);
		if (err)
			return err;
		if (loop->screen)
			dlp_screen_tick(loop->screen, dlp_now_ns());
		/* after a pause (suspended machine) go on from now, do not catch up */
		next += options->interval_ns;
		if (next <= now)
			next = now + options->interval_ns;
	}
	return close_window(loop);
}

/* The figures of the summary depend on these; without the others only detail is missing. */
static bool figures_need(enum dlp_feature feature)
{
	return feature == DLP_FEATURE_SCOPES || feature == DLP_FEATURE_CLOCKS ||
	       feature == DLP_FEATURE_CLOCK_ITER || feature == DLP_FEATURE_PROCESS;
}

static void describe(struct loop *loop)
{
	static const char *const scope_rungs[] = {
		[DLP_SCOPE_KIND_NONE] = NULL,
		[DLP_SCOPE_KIND_A] = "pair A",
		[DLP_SCOPE_KIND_B] = "operator dispatch (B)",
		[DLP_SCOPE_KIND_C] = "pair C",
	};
	struct dlp_summary_facts *facts = loop->ob->facts;
	uint32_t active;

	dlp_session_info(loop->session, &loop->info);
	active = loop->info.active;
	facts->target = loop->ob->target;
	facts->scope_probe_cnt = loop->info.scope_probe_cnt;
	if (active & DLP_FEATURE_BIT(SCOPES))
		facts->scope_rung = scope_rungs[loop->ob->target->scope_kind];
	if (active & DLP_FEATURE_BIT(QUEUE_UPROBE))
		facts->queue_rung = "uprobes";
	else if (active & DLP_FEATURE_BIT(QUEUE_SYSCALL))
		facts->queue_rung = "system calls";
	if (active & DLP_FEATURE_BIT(CLOCKS))
		facts->clock_rung = active & DLP_FEATURE_BIT(TASK_STORAGE) ? "task storage" : "hash";
	facts->block_seen = active & DLP_FEATURE_BIT(BLOCK);
	facts->waits_seen = active & DLP_FEATURE_BIT(WAITS);
	facts->process_seen = active & DLP_FEATURE_BIT(PROCESS);
	facts->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	facts->device_name = dlp_sysfs_block_name;
	for (int i = 0; i < DLP_FEATURE_MAX; i++) {
		bool left_out = loop->ob->options->without & (1u << i);

		/* the second rung is missed only when the first is missing too */
		if (i == DLP_FEATURE_QUEUE_SYSCALL && active & DLP_FEATURE_BIT(QUEUE_UPROBE))
			continue;
		if (active & (1u << i) || (!left_out && !loop->info.refused[i][0]))
			continue;
		loop->ob->missing[facts->missing_cnt].name = dlp_feature_name(i);
		loop->ob->missing[facts->missing_cnt].figures = figures_need(i);
		facts->missing_cnt++;
	}
	facts->missing = loop->ob->missing;
}

/* Everything up to the opening of the window. */
static int open_window(struct loop *loop)
{
	int err;

	/* once more: a process born before the fork program was attached is not lost */
	err = dlp_jobs_scan(loop->jobs, add_process, loop);
	if (err)
		return err;
	getrusage(RUSAGE_SELF, &loop->usage_start);
	/* the first sweep gives every thread its clock, later ones read it */
	err = gather(loop);
	if (err)
		return err;
	dlp_session_sample(loop->session, true);
	err = emit_window(loop, 0, dlp_now_ns());
	loop->govern.session = loop->session;
	loop->govern.labels = loop->labels;
	loop->govern.jobs = loop->jobs;
	return err ? err : dlp_govern_open(&loop->govern, loop->ob->options->max_overhead_ppm, take, loop);
}

/*
 * Loading takes 0.14 s of CPU time, and the job may be using every CPU: meanwhile it goes first.
 * A third of one CPU's share keeps attaching within half a second even so.
 */
#define LOADING_NICE 5

/* Loads and attaches everything; DLP_EXIT_OK, or why not, with a line in `error`, or err < 0. */
static enum dlp_exit attach(struct loop *loop, int *ret_err, char *error, size_t error_size)
{
	const struct dlp_options *options = loop->ob->options;
	struct dlp_session_opts opts = {
		.target = loop->ob->target,
		.without = options->without,
		.long_wait_ns = options->long_wait_ns,
		.getnext = &options->getnext,
		.ring_bytes = options->ring_bytes,
	};
	struct dlp_session_failure failure;

	if (dlp_session_open(&opts, &loop->session, &failure)) {
		snprintf(error, error_size, "%s", failure.text);
		return failure.unsupported ? DLP_EXIT_UNSUPPORTED : DLP_EXIT_FAILURE;
	}
	/* loading leaves megabytes of type information behind */
	malloc_trim(0);
	*ret_err = open_fds(loop);
	if (!*ret_err)
		*ret_err = dlp_jobs_scan(loop->jobs, add_process, loop);
	if (*ret_err)
		return DLP_EXIT_FAILURE;
	if (dlp_session_attach(loop->session, &failure)) {
		/* without the target's mappings there is nothing to probe: that is not the kernel's fault */
		if (target_gone(loop)) {
			*ret_err = -ESRCH;
			return DLP_EXIT_FAILURE;
		}
		snprintf(error, error_size, "%s", failure.text);
		return failure.unsupported ? DLP_EXIT_UNSUPPORTED : DLP_EXIT_FAILURE;
	}
	return DLP_EXIT_OK;
}

static enum dlp_exit observe(struct loop *loop, char *error, size_t error_size)
{
	int priority = getpriority(PRIO_PROCESS, 0);
	enum dlp_exit ret;
	int err;

	/* rounded up: at least the newest interval */
	loop->sums_room = (size_t)((LIVE_NS - 1) / loop->ob->options->interval_ns) + 1;
	loop->sums = calloc(loop->sums_room, sizeof(*loop->sums));
	if (!loop->sums) {
		err = -ENOMEM;
		goto fail;
	}
	err = dlp_jobs_new("", loop->ob->target->pid, &loop->jobs);
	if (!err)
		err = dlp_sysfacts_new("", loop->ob->target->pid, &loop->sysfacts);
	if (!err)
		err = dlp_labels_new(loop->ob->options->labels, loop->ob->options->label_cnt,
				     limit_label, loop, &loop->labels);
	if (err)
		goto fail;
	/*
	 * Best effort: without the right to go back (CAP_SYS_NICE) we stay polite. Not while a command
	 * of ours imports torch: it does not train yet, and we must be there when it does.
	 */
	if (!loop->ob->launch)
		(void)setpriority(PRIO_PROCESS, 0, priority + LOADING_NICE);
	ret = attach(loop, &err, error, error_size);
	(void)setpriority(PRIO_PROCESS, 0, priority);
	if (err)
		goto fail;
	if (ret != DLP_EXIT_OK)
		return ret;
	describe(loop);
	if (loop->ob->record)
		dlp_record_facts(loop->ob->record, loop->ob->facts);
	err = open_window(loop);
	if (err)
		goto fail;
	dlp_text_attached(loop->ob->out, loop->ob->facts, dlp_jobs_workers(loop->jobs));
	fflush(loop->ob->out);
	err = open_screen(loop);
	if (!err)
		err = run(loop);
	if (!err)
		return loop->ob->other ? DLP_EXIT_OK : loop->ob->finish(loop->ob);
fail:
	loop->ob->gone = err == -ESRCH;
	if (err == -ESRCH)
		snprintf(error, error_size, "process %d is gone", loop->ob->target->pid);
	else
		snprintf(error, error_size, "observation failed: %s", strerror(-err));
	return DLP_EXIT_FAILURE;
}

enum dlp_exit dlp_observe(struct dlp_observation *observation, char *error, size_t error_size)
{
	struct loop loop = { .ob = observation, .epoll_fd = -1, .signal_fd = -1, .target_fd = -1 };
	enum dlp_exit ret = observe(&loop, error, error_size);

	close_screen(&loop);
	/* probes first: the target is not ours */
	dlp_session_free(loop.session);
	dlp_jobs_free(loop.jobs);
	free(loop.sums);
	dlp_sysfacts_free(loop.sysfacts);
	dlp_labels_free(loop.labels);
	dlp_cleanup_close(&loop.epoll_fd);
	dlp_cleanup_close(&loop.signal_fd);
	dlp_cleanup_close(&loop.target_fd);
	return ret;
}
