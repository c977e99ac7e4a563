/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "replay_command.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "profile_priv.h"
#include "replay.h"
#include "replay_file.h"
#include "util.h"

static enum dlp_exit report(struct dlp_replay *replay, const struct dlp_options *options)
{
	struct dlp_observation observation = {
		.options = options,
		.model = replay->model,
		.facts = &replay->facts.facts,
		.out = stdout,
		.summary_fd = -1,
	};
	enum dlp_exit ret;

	ret = dlp_run_report(&observation);
	return ret ? ret : observation.gated;
}

int dlp_replay_command(const struct dlp_options *options)
{
	_cleanup_free_ struct dlp_replay *replay = calloc(1, sizeof(*replay));
	struct dlp_replay_file file;
	char shown[256], error[200];
	enum dlp_exit ret, closed;
	FILE *events = NULL;
	int part;

	dlp_sanitise(shown, sizeof(shown), options->replay, strlen(options->replay));
	if (dlp_replay_file_open(&file, options->replay, error, sizeof(error))) {
		dlp_complain("'%s': %s", shown, error);
		return DLP_EXIT_FAILURE;
	}
	ret = DLP_EXIT_FAILURE;
	if (!replay || dlp_model_new(&replay->model)) {
		dlp_complain("out of memory");
	} else if (!dlp_run_open_events(options, &events)) {
		replay->events_out = events;
		part = dlp_replay_file_load(&file, replay, shown);
		if (part >= 0)
			ret = report(replay, options);
		closed = dlp_run_close_events(options, events);
		if (ret == DLP_EXIT_OK)
			ret = part > 0 ? DLP_EXIT_FAILURE : closed;
	}
	if (replay)
		dlp_model_free(replay->model);
	dlp_replay_file_close(&file);
	return (int)ret;
}
