/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "fdlimit.h"
#include "invoker.h"
#include "util.h"

/*
 * What people and job schedulers send to end a job, or to have it save its state. SIGTSTP is left
 * alone: the terminal stops us and the command together, and SIGCONT lets both go on.
 */
static const int relayed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

/* How the child fails before it is the command. */
struct trouble {
	bool is_user; /* could not become the invoking user */
	int err;
};

/* What we were given, for the command to be given the same. */
struct inherited {
	sigset_t mask;
	struct sigaction child_action;
};

static void take_signals(struct inherited *ret)
{
	struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(relayed); i++)
		sigaddset(&signals, relayed[i]);
	sigprocmask(SIG_BLOCK, &signals, &ret->mask);
	/* where it is ignored, exit statuses are lost */
	sigaction(SIGCHLD, &standard, &ret->child_action);
}

static void give_back_signals(const struct inherited *inherited)
{
	sigaction(SIGCHLD, &inherited->child_action, NULL);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

static void __attribute__((noreturn))
become_command(char *const *command, const struct inherited *inherited, int trouble_fd)
{
	struct trouble trouble = { 0 };
	struct dlp_invoker invoker;

	if (dlp_invoker_get(&invoker))
		trouble.err = -dlp_invoker_become(&invoker);
	trouble.is_user = trouble.err;
	if (!trouble.err) {
		give_back_signals(inherited);
		dlp_fdlimit_restore();
		(void)execvp(command[0], command);
		trouble.err = errno;
	}
	/* smaller than PIPE_BUF: whole or not at all, and the parent can do without */
	if (write(trouble_fd, &trouble, sizeof(trouble)) < 0)
		_exit(DLP_EXIT_FAILURE);
	_exit(DLP_LAUNCH_CANNOT_RUN);
}

static int explain(const char *command, const struct trouble *trouble, char *error,
		   size_t error_size)
{
	/* where a folder of PATH may not be read, not finding it is "permission denied" */
	bool searched = !strchr(command, '/') && (trouble->err == ENOENT || trouble->err == EACCES);
	char shown[256];

	dlp_sanitise(shown, sizeof(shown), command, strlen(command));
	if (trouble->is_user)
		(void)snprintf(error, error_size, "cannot become the user %s to run '%s': %s",
			       getenv("SUDO_UID"), shown, strerror(trouble->err));
	else if (searched && getenv("SUDO_UID"))
		(void)snprintf(
			error, error_size,
			"cannot run '%s': %s; sudo sets a PATH of its own: give the whole path, "
			"as \"$(which %s)\" does",
			shown, strerror(trouble->err), shown);
	else
		(void)snprintf(error, error_size, "cannot run '%s': %s", shown,
			       strerror(trouble->err));
	return !trouble->is_user && trouble->err == ENOENT ? DLP_LAUNCH_NOT_FOUND :
							     DLP_LAUNCH_CANNOT_RUN;
}

static int open_fds(struct dlp_launch *launch)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(relayed); i++)
		sigaddset(&signals, relayed[i]);
	launch->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	/* our own child: its number cannot go to another before we have waited for it */
	launch->pid_fd = (int)syscall(SYS_pidfd_open, launch->pid, 0);
	return launch->signal_fd < 0 || launch->pid_fd < 0 ? -errno : 0;
}

static ssize_t read_trouble(int fd, struct trouble *ret)
{
	ssize_t got;

	do {
		got = read(fd, ret, sizeof(*ret));
	} while (got < 0 && errno == EINTR);
	return got;
}

int dlp_launch_start(char *const *command, struct dlp_launch *ret, char *error, size_t error_size)
{
	struct inherited inherited;
	struct trouble trouble;
	int fds[2], err;

	*ret = (struct dlp_launch){ .pid_fd = -1, .signal_fd = -1 };
	/* the end that is closed by exec tells that there was one */
	if (pipe2(fds, O_CLOEXEC)) {
		(void)snprintf(error, error_size, "cannot make a pipe: %s", strerror(errno));
		return DLP_EXIT_FAILURE;
	}
	take_signals(&inherited);
	/* what is buffered would be written by both */
	(void)fflush(NULL);
	ret->launched_ns = dlp_now_ns();
	ret->pid = fork();
	if (!ret->pid)
		become_command(command, &inherited, fds[1]);
	err = ret->pid < 0 ? -errno : 0;
	(void)close(fds[1]);
	if (!err && read_trouble(fds[0], &trouble) == (ssize_t)sizeof(trouble)) {
		(void)close(fds[0]);
		(void)waitpid(ret->pid, NULL, 0);
		return explain(command[0], &trouble, error, error_size);
	}
	(void)close(fds[0]);
	if (!err)
		err = open_fds(ret);
	if (err) {
		(void)snprintf(error, error_size, "cannot start a process: %s", strerror(-err));
		return DLP_EXIT_FAILURE;
	}
	return 0;
}

void dlp_launch_relay(const struct dlp_launch *launch)
{
	struct signalfd_siginfo info;

	while (read(launch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		/* a command that has left our group has not got the terminal's signal */
		if (info.ssi_code == SI_KERNEL && getpgid(launch->pid) == getpgrp())
			continue;
		/* fails when the command has ended: nothing is left to be told */
		(void)syscall(SYS_pidfd_send_signal, launch->pid_fd, (int)info.ssi_signo, NULL, 0);
	}
}

bool dlp_launch_ended(const struct dlp_launch *launch, int timeout_ms)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX :
					dlp_now_ns() + (uint64_t)timeout_ms * DLP_NS_PER_MS;
	struct pollfd fds[] = {
		{ .fd = launch->pid_fd, .events = POLLIN },
		{ .fd = launch->signal_fd, .events = POLLIN },
	};

	for (;;) {
		uint64_t now = dlp_now_ns();
		int left = timeout_ms < 0 ? -1 :
			   end > now	  ? (int)((end - now) / DLP_NS_PER_MS + 1) :
					    0;

		if (poll(fds, DLP_ARRAY_SIZE(fds), left) < 0 && errno != EINTR)
			return false;
		dlp_launch_relay(launch);
		if (fds[0].revents)
			return true;
		if (dlp_now_ns() >= end)
			return false;
	}
}

int dlp_launch_finish(struct dlp_launch *launch)
{
	int status = 0;

	(void)dlp_launch_ended(launch, -1);
	while (waitpid(launch->pid, &status, 0) < 0 && errno == EINTR)
		;
	dlp_cleanup_close(&launch->pid_fd);
	dlp_cleanup_close(&launch->signal_fd);
	launch->pid_fd = -1;
	launch->signal_fd = -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
