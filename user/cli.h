/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command line: one table of options, from which it is parsed and --help is printed. */
#ifndef DLP_CLI_H
#define DLP_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "dlprof/config.h"
#include "feature.h"
#include "gate.h"
#include "pids.h"

enum dlp_exit {
	DLP_EXIT_OK = 0,
	DLP_EXIT_FAILURE = 1,
	DLP_EXIT_USAGE = 2,
	DLP_EXIT_UNSUPPORTED = 3, /* kernel or permission does not allow it */
	DLP_EXIT_GATE = 4, /* a condition of --fail-if holds */
};

/* More than anybody types. */
#define DLP_LABEL_GLOBS_MAX 16

struct dlp_options {
	pid_t pid;	/* the first of `pids`; 0 = none: a command is given */
	struct dlp_pids pids;
	char **command; /* argv of the command to start, ends with NULL; borrowed; NULL = none */
	uint64_t duration_ns; /* 0 = until the target ends or a signal comes */
	uint64_t interval_ns;
	uint64_t window_ns; /* the live verdict looks back so far at most */
	uint64_t long_wait_ns;
	uint32_t ring_bytes; /* power of two, whole pages */
	uint32_t max_overhead_ppm; /* of the job's CPU time, for the probes */
	uint32_t without;    /* enum dlp_without */
	const char *summary; /* borrowed from argv; NULL = none */
	const char *events;
	const char *labels[DLP_LABEL_GLOBS_MAX]; /* label_cnt patterns; none = all labels */
	size_t label_cnt;
	struct dlp_gate gate[DLP_GATES_MAX]; /* gate_cnt of them */
	size_t gate_cnt;
	struct dlp_glob getnext; /* labels that are GetNext besides torch's own */
	const char *record;
	uint64_t record_max; /* bytes; 0 = keep all */
	const char *replay; /* the recording to read instead of watching; NULL = watch */
	bool doctor; /* say what can be seen, of `pid` if given */
	bool json;
	bool quiet, lines, list, help, version;
};

/*
 * 0, or -EINVAL with one line in `error` that names what is wrong. What follows --list, --help or
 * --version is not looked at. Never prints, never exits.
 */
int dlp_cli_parse(int argc, char **argv, struct dlp_options *ret, char *error, size_t error_size);
void dlp_cli_help(FILE *out);

#endif /* DLP_CLI_H */
