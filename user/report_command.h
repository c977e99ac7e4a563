/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `dlprof-bpf report`: the post-mortem of a recording. */
#ifndef DLP_REPORT_COMMAND_H
#define DLP_REPORT_COMMAND_H

/* argv[0] is "report". Returns the exit status; complains. */
int dlp_report_command(int argc, char **argv);

#endif /* DLP_REPORT_COMMAND_H */
