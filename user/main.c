/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Command line in, exit status out; the work is in profile.c and what it calls. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "diff_command.h"
#include "doctor_command.h"
#include "fdlimit.h"
#include "log.h"
#include "outfile.h"
#include "privileges.h"
#include "procfs.h"
#include "profile.h"
#include "replay_command.h"
#include "report_command.h"

static int run(int argc, char **argv)
{
	struct dlp_options options;
	char error[512];

	if (!dlp_privileges_start_ok()) {
		dlp_complain("made set-user-ID or set-group-ID, which is not supported: use sudo, or give "
			     "the program capabilities");
		return DLP_EXIT_UNSUPPORTED;
	}
	if (argc > 1 && !strcmp(argv[1], "report"))
		return dlp_report_command(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "diff"))
		return dlp_diff_command(argc - 1, argv + 1);
	if (dlp_cli_parse(argc, argv, &options, error, sizeof(error))) {
		dlp_complain("%s", error);
		return DLP_EXIT_USAGE;
	}
	if (options.help) {
		dlp_cli_help(stdout);
		return DLP_EXIT_OK;
	}
	if (options.version) {
		printf("dlprof-bpf %s\n", DLP_VERSION);
		return DLP_EXIT_OK;
	}
	if (options.replay)
		return dlp_replay_command(&options);
	if (!dlp_proc_is_ours("")) {
		dlp_complain("/proc is not mounted, or is that of another pid namespace than ours: mount "
			     "our own there (nsenter takes --mount with --pid, unshare --mount-proc)");
		return DLP_EXIT_UNSUPPORTED;
	}
	if (options.list)
		return dlp_profile_list();
	dlp_fdlimit_raise();
	if (dlp_fdlimit_check(error, sizeof(error))) {
		dlp_complain("%s", error);
		return DLP_EXIT_FAILURE;
	}
	if (options.doctor)
		return dlp_doctor_command(&options);
	return options.command ? dlp_profile_command(&options) : dlp_profile_process(&options);
}

/* Whoever reads the other end sees that it has ended; a file is looked at later. */
static bool is_read_elsewhere(int fd)
{
	struct stat st;

	return isatty(fd) || (!fstat(fd, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)));
}

int main(int argc, char **argv)
{
	int ret = run(argc, argv);
	int err = dlp_outfile_close(stdout);

	if (!err || ret || is_read_elsewhere(STDOUT_FILENO))
		return ret;
	dlp_complain("cannot write to stdout: %s", strerror(-err));
	return DLP_EXIT_FAILURE;
}
