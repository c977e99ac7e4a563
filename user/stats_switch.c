/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stats_switch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "privileges.h"
#include "util.h"

struct dlp_stats_switch {
	pid_t pid;
	int fd;
};

/* Switching takes microseconds; a process that was stopped must not hold us up. */
#define ANSWER_MS 200

/* Where the one end of the pair is in the child; nothing else stays open there. */
#define CHILD_FD 0

static void __attribute__((noreturn)) serve(void)
{
	int stats = -1;
	char byte;

	while (read(CHILD_FD, &byte, 1) == 1) {
		/* the statistics are on for as long as somebody has this descriptor */
		dlp_cleanup_close(&stats);
		stats = byte ? bpf_enable_stats(BPF_STATS_RUN_TIME) : -1;
		byte = stats >= 0;
		if (send(CHILD_FD, &byte, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	_exit(0);
}

static void __attribute__((noreturn)) be_child(int fd)
{
	sigset_t all;

	/* Ctrl-C is for the other: this one ends when the other has, and not before */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "dlprof-stats");
	/* no descriptor of ours may keep a probe or somebody's pipe alive */
	if (dup2(fd, CHILD_FD) < 0 || syscall(SYS_close_range, CHILD_FD + 1, ~0u, 0))
		_exit(1);
	if (dlp_privileges_lower() || dlp_privileges_only(DLP_CAP_BIT(CAP_SYS_ADMIN)) ||
	    prctl(PR_SET_DUMPABLE, 0))
		_exit(1);
	serve();
}

static bool may_switch(void)
{
	uint64_t caps;

	return !dlp_privileges_effective(&caps) && caps & DLP_CAP_BIT(CAP_SYS_ADMIN);
}

int dlp_stats_switch_new(struct dlp_stats_switch **ret)
{
	const struct timeval patience = { .tv_usec = ANSWER_MS * 1000 };
	struct dlp_stats_switch *stats;
	int fds[2], err;

	if (!may_switch())
		return -EPERM;
	stats = calloc(1, sizeof(*stats));
	if (!stats)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		err = -errno;
		free(stats);
		return err;
	}
	stats->fd = fds[0];
	stats->pid = fork();
	if (!stats->pid)
		be_child(fds[1]);
	err = stats->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (!err && setsockopt(stats->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		err = -errno;
	if (err) {
		dlp_stats_switch_free(stats);
		return err;
	}
	*ret = stats;
	return 0;
}

bool dlp_stats_switch_set(struct dlp_stats_switch *stats, bool on)
{
	char byte = on, late;

	/* an answer that came after our patience had ended is about something else */
	while (recv(stats->fd, &late, 1, MSG_DONTWAIT) == 1)
		;
	if (send(stats->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return false;
	return recv(stats->fd, &byte, 1, 0) == 1 && byte;
}

void dlp_stats_switch_free(struct dlp_stats_switch *stats)
{
	if (!stats)
		return;
	/* it sees the end of the connection */
	close(stats->fd);
	while (stats->pid > 0 && waitpid(stats->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(stats);
}
