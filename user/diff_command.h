/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command `diff A B [--json]`: two runs compared, by their summaries or recordings. */
#ifndef DLP_DIFF_COMMAND_H
#define DLP_DIFF_COMMAND_H

/*
 * argv[0] is "diff". Exit status: 0 whatever has changed, 1 when a file is neither, 2 usage.
 * Complains on stderr.
 */
int dlp_diff_command(int argc, char **argv);

#endif /* DLP_DIFF_COMMAND_H */
