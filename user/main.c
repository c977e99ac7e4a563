/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Command line in, exit status out; the work is in observe.c and what it calls. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "diagnose.h"
#include "model.h"
#include "observe.h"
#include "summary.h"
#include "target.h"
#include "text.h"
#include "util.h"

#ifndef DLP_VERSION
#error "the Makefile defines DLP_VERSION"
#endif

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...)
{
	va_list args;

	fputs("dlprof-bpf: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static enum dlp_exit target_exit(const struct dlp_target_failure *failure)
{
	return failure->err == DLP_TARGET_DENIED ? DLP_EXIT_UNSUPPORTED : DLP_EXIT_FAILURE;
}

static enum dlp_exit finish(struct dlp_observation *observation)
{
	const struct dlp_options *options = observation->options;
	enum dlp_exit ret = DLP_EXIT_OK;
	struct dlp_verdict verdict;
	char error[512];

	dlp_diagnose(observation->model, NULL, &verdict);
	/* the file first: whoever reads the screen may be gone */
	if (options->summary &&
	    dlp_summary_write(options->summary, observation->model, &verdict, observation->facts, error,
			      sizeof(error))) {
		complain("%s", error);
		ret = DLP_EXIT_FAILURE;
	}
	dlp_text_summary(stdout, observation->model, &verdict, observation->facts);
	fflush(stdout);
	return ret;
}

static enum dlp_exit profile(const struct dlp_options *options)
{
	struct dlp_summary_facts facts = { .version = DLP_VERSION };
	struct dlp_observation observation = {
		.options = options, .facts = &facts, .out = stdout, .finish = finish,
	};
	_cleanup_fclose_ FILE *events = NULL;
	struct dlp_target_failure failure;
	struct dlp_target target;
	struct dlp_model *model;
	char error[512] = "";
	enum dlp_exit ret;

	if (dlp_target_open("", options->pid, &target, &failure)) {
		complain("%s", failure.text);
		return target_exit(&failure);
	}
	if (options->events) {
		events = fopen(options->events, "we");
		if (!events) {
			complain("cannot write '%s': %s", options->events, strerror(errno));
			return DLP_EXIT_FAILURE;
		}
	}
	if (dlp_model_new(&model)) {
		complain("out of memory");
		return DLP_EXIT_FAILURE;
	}
	observation.target = &target;
	observation.model = model;
	observation.events = events;
	ret = dlp_observe(&observation, error, sizeof(error));
	if (*error)
		complain("%s", error);
	dlp_model_free(model);
	return ret;
}

int main(int argc, char **argv)
{
	struct dlp_options options;
	char error[256];

	if (dlp_cli_parse(argc, argv, &options, error, sizeof(error))) {
		complain("%s", error);
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
	return (int)profile(&options);
}
