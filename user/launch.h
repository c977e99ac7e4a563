/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command that we start ourselves: as the invoking user, with the streams, environment and
 * signal settings we were given, in our own process group. Signals meant for it pass through us.
 * It is never stopped or killed by us, and lives on when we end first.
 */
#ifndef DLP_LAUNCH_H
#define DLP_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dlp_launch {
	pid_t pid;
	int pid_fd;	      /* readable once it has ended */
	int signal_fd;	      /* readable when dlp_launch_relay() has something to do */
	uint64_t launched_ns; /* when it was started */
};

/* What a shell's exit status says of a command that could not be run. */
#define DLP_LAUNCH_NOT_FOUND 127
#define DLP_LAUNCH_CANNOT_RUN 126

/*
 * Starts command[0], looked for as a shell would, and returns when exec has succeeded: 0. Otherwise
 * the exit status that says so (one of the two above, or DLP_EXIT_FAILURE), with one line in
 * `error`. From here on the signals that are relayed are blocked in this process.
 */
int dlp_launch_start(char *const *command, struct dlp_launch *ret, char *error, size_t error_size);
/*
 * Passes on the signals that have come. One that a terminal has sent (Ctrl-C) went to every process
 * of the foreground group, so the command has it already and does not get it twice; one that
 * somebody sends to the whole group with kill(2) does come twice: that cannot be told from one
 * sent to us alone.
 */
void dlp_launch_relay(const struct dlp_launch *launch);
/* Has it ended? Waits up to timeout_ms for that (-1: as long as it takes), relaying signals. */
bool dlp_launch_ended(const struct dlp_launch *launch, int timeout_ms);
/* Waits for its end; its exit status, 128 + N when signal N has killed it. Closes everything. */
int dlp_launch_finish(struct dlp_launch *launch);

#endif /* DLP_LAUNCH_H */
