/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "observe.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "observe_priv.h"
#include "procfs.h"
#include "util.h"

static int add_fd(struct dlp_loop *loop, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Where there is no terminal for it, lines it is. The terminal of a command is the command's. */
static int open_screen(struct dlp_loop *loop)
{
	const struct dlp_observation *ob = loop->ob;
	const struct dlp_screen_job job = { .model = ob->model,
					    .facts = ob->facts,
					    .pid = (uint32_t)ob->target->pid,
					    .name = "",
					    .number = -1 };
	int err;

	if (ob->launch || ob->options->quiet || ob->options->lines ||
	    dlp_screen_open(fileno(ob->out), &loop->screen))
		return 0;
	err = dlp_screen_add(loop->screen, &job);
	return err ? err : add_fd(loop, dlp_screen_fd(loop->screen));
}

static void close_screen(struct dlp_loop *loop)
{
	dlp_screen_close(loop->screen);
	loop->screen = NULL;
}

/* Signals become readable; they interrupt nothing. */
static int open_signals(struct dlp_loop *loop)
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

/* From here on its end is seen. Until now another process may have been given its number. */
static int open_target(struct dlp_loop *loop)
{
	const struct dlp_target *target = loop->ob->target;
	struct dlp_proc_stat stat;
	int err;

	loop->target_fd = (int)syscall(SYS_pidfd_open, target->pid, 0);
	if (loop->target_fd < 0)
		return -errno;
	err = dlp_proc_stat("", target->pid, &stat);
	if (!err && stat.start_ticks != target->start_ticks)
		err = -ESRCH;
	if (err)
		return err;
	/* best effort: without it, what the process becomes is not told from what it was */
	if (dlp_proc_exe("", target->pid, loop->exe, sizeof(loop->exe)))
		loop->exe[0] = '\0';
	return add_fd(loop, loop->target_fd);
}

static int open_fds(struct dlp_loop *loop)
{
	const struct dlp_launch *launch = loop->ob->launch;
	int err;

	/* a reader that goes away must not take the summary with it */
	signal(SIGPIPE, SIG_IGN);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	err = open_target(loop);
	/* what happens to all of several ranks is for whoever observes them */
	if (!err && !loop->ob->rank)
		err = launch ? add_fd(loop, launch->signal_fd) : open_signals(loop);
	if (!err && !loop->ob->rank && launch)
		err = add_fd(loop, launch->pid_fd);
	if (!err)
		err = add_fd(loop, dlp_session_fd(loop->session));
	return err;
}

int dlp_loop_wait(struct dlp_loop *loop, uint64_t deadline_ns)
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

/* From the first call on it is certain that no other process is to be observed instead. */
static int settle(struct dlp_loop *loop)
{
	if (loop->settled || loop->ob->other || !loop->ob->model->getnext_cnt)
		return 0;
	loop->settled = true;
	return loop->ob->settle(loop->ob);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int run(struct dlp_loop *loop)
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
		err = dlp_loop_wait(loop, min_u64(min_u64(next, end), now + DLP_LOOP_PERIOD_NS));
		if (err)
			return err;
		err = dlp_loop_read(loop);
		if (!err)
			err = settle(loop);
		if (err)
			return err;
		now = dlp_now_ns();
		if (loop->screen)
			dlp_screen_tick(loop->screen, now);
		if (now < next || loop->stop || now >= end)
			continue;
		err = dlp_loop_end_interval(loop);
		if (err)
			return err;
		if (loop->screen)
			dlp_screen_tick(loop->screen, dlp_now_ns());
		/* after a pause (suspended machine) go on from now, do not catch up */
		next += options->interval_ns;
		if (next <= now)
			next = now + options->interval_ns;
	}
	return dlp_loop_close_window(loop);
}

/*
 * Loading takes 0.14 s of CPU time, and the job may be using every CPU: meanwhile it goes first.
 * A third of one CPU's share keeps attaching within half a second even so.
 */
#define LOADING_NICE 5

static enum dlp_exit start(struct dlp_loop *loop, char *error, size_t error_size)
{
	enum dlp_exit ret = dlp_loop_load(loop, error, error_size);
	int err;

	if (ret != DLP_EXIT_OK)
		return ret;
	err = open_fds(loop);
	return err ? dlp_loop_failed(loop, err, error, error_size) :
		     dlp_loop_attach(loop, error, error_size);
}

enum dlp_exit dlp_loop_start(struct dlp_loop *loop, char *error, size_t error_size)
{
	int priority = getpriority(PRIO_PROCESS, 0);
	enum dlp_exit ret;

	/*
	 * Best effort: without the right to go back (CAP_SYS_NICE) we stay polite. Not while a command
	 * of ours imports torch: it does not train yet, and we must be there when it does.
	 */
	if (!loop->ob->launch)
		(void)setpriority(PRIO_PROCESS, 0, priority + LOADING_NICE);
	ret = start(loop, error, error_size);
	(void)setpriority(PRIO_PROCESS, 0, priority);
	return ret;
}

static enum dlp_exit observe(struct dlp_loop *loop, char *error, size_t error_size)
{
	enum dlp_exit ret = dlp_loop_start(loop, error, error_size);
	int err;

	if (ret != DLP_EXIT_OK)
		return ret;
	err = open_screen(loop);
	if (!err)
		err = run(loop);
	/* the report is next */
	close_screen(loop);
	if (err)
		return dlp_loop_failed(loop, err, error, error_size);
	return loop->ob->other ? DLP_EXIT_OK : loop->ob->finish(loop->ob);
}

void dlp_loop_init(struct dlp_loop *loop, struct dlp_observation *observation)
{
	*loop = (struct dlp_loop){
		.ob = observation, .epoll_fd = -1, .signal_fd = -1, .target_fd = -1
	};
}

enum dlp_exit dlp_observe(struct dlp_observation *observation, char *error, size_t error_size)
{
	struct dlp_loop loop;
	enum dlp_exit ret;

	dlp_loop_init(&loop, observation);
	ret = observe(&loop, error, error_size);
	dlp_loop_fini(&loop);
	return ret;
}
