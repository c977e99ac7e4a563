/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* libFuzzer target: a command line, its words parted by NUL. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CLI_WORDS_MAX 64

/* What the rest of the tool relies on. */
static void cli_check(const struct dlp_options *options, char *const *argv, int argc)
{
	bool stands_alone = options->list || options->help || options->version;

	if (options->pid < 0 || options->label_cnt > DLP_LABEL_GLOBS_MAX)
		abort();
	if (options->ring_bytes & (options->ring_bytes - 1) || !options->ring_bytes)
		abort();
	if (options->interval_ns < 100 * DLP_NS_PER_MS)
		abort();
	if (options->without >> DLP_FEATURE_MAX)
		abort();
	for (size_t i = 0; i < options->label_cnt; i++) {
		if (!*options->labels[i])
			abort();
	}
	if (options->gate_cnt > DLP_GATES_MAX)
		abort();
	for (size_t i = 0; i < options->gate_cnt; i++) {
		const struct dlp_gate *gate = &options->gate[i];

		if (!dlp_gate_figure_name(gate->figure) || !gate->text)
			abort();
		if (!isfinite(gate->limit) || gate->limit < 0)
			abort();
	}
	if (stands_alone || options->replay || options->doctor)
		return;
	if (options->record_max && !options->record)
		abort();
	/* one of them, and the command is the end of what was given */
	if (!options->pid == !options->command)
		abort();
	if (options->command && (options->command <= argv || options->command >= argv + argc))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	_cleanup_free_ char *words = malloc(bytes + 1);
	char *argv[CLI_WORDS_MAX + 2] = { "dlprof-bpf" };
	struct dlp_options options;
	char error[64];
	int argc = 1;

	if (!words)
		abort();
	if (bytes)
		memcpy(words, data, bytes);
	words[bytes] = '\0';
	for (size_t at = 0; at < bytes && argc <= CLI_WORDS_MAX; at += strlen(words + at) + 1)
		argv[argc++] = words + at;
	if (!dlp_cli_parse(argc, argv, &options, error, sizeof(error)))
		cli_check(&options, argv, argc);
	else if (!*error || !memchr(error, '\0', sizeof(error)))
		abort();
	return 0;
}
