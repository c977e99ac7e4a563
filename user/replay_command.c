/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "replay_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "profile_priv.h"
#include "replay.h"
#include "util.h"

static int read_at(void *ctx, void *buf, size_t bytes, uint64_t offset)
{
	const int *fd = ctx;
	char *to = buf;

	while (bytes) {
		ssize_t done = pread(*fd, to, bytes, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		/* shorter than it was: somebody truncates it while we read */
		if (done <= 0)
			return done ? -errno : -EIO;
		to += done;
		bytes -= (size_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

/* summary.h asks for names without saying for whom; one recording is replayed at a time. */
static const struct dlp_replay *current;

static const char *device_name(uint32_t dev, char *buf, size_t size)
{
	return dlp_replay_device(current, dev, buf, size);
}

static int open_source(const char *path, int *fd, struct dlp_record_source *ret, char *error,
		       size_t error_size)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0 || fstat(*fd, &st)) {
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(errno));
		return -EIO;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)snprintf(error, error_size, "not a regular file");
		return -EINVAL;
	}
	*ret = (struct dlp_record_source){ read_at, fd, (uint64_t)st.st_size };
	return 0;
}

static enum dlp_exit report(struct dlp_replay *replay, const struct dlp_options *options)
{
	struct dlp_observation observation = {
		.options = options,
		.model = replay->model,
		.facts = &replay->facts.facts,
		.out = stdout,
	};

	current = replay;
	replay->facts.facts.version = DLP_VERSION;
	replay->facts.facts.target = &replay->facts.target;
	replay->facts.facts.device_name = device_name;
	return dlp_run_report(&observation);
}

static enum dlp_exit run(struct dlp_replay *replay, struct dlp_reader *reader,
			 const struct dlp_options *options, const char *shown)
{
	char text[300];
	int err;

	err = dlp_replay_run(replay, reader);
	if (err) {
		dlp_complain("'%s' cannot be replayed: %s", shown, strerror(-err));
		return DLP_EXIT_FAILURE;
	}
	dlp_replay_say(replay, dlp_reader_header(reader), text, sizeof(text));
	if (*text)
		dlp_complain("'%s' %s", shown, text);
	return replay->event_cnt ? report(replay, options) : DLP_EXIT_FAILURE;
}

int dlp_replay_command(const struct dlp_options *options)
{
	_cleanup_free_ struct dlp_replay *replay = calloc(1, sizeof(*replay));
	_cleanup_fclose_ FILE *events = NULL;
	struct dlp_reader *reader = NULL;
	struct dlp_record_source source;
	_cleanup_close_ int fd = -1;
	char shown[256], error[200];
	enum dlp_exit ret;

	dlp_sanitise(shown, sizeof(shown), options->replay, strlen(options->replay));
	if (open_source(options->replay, &fd, &source, error, sizeof(error)) ||
	    dlp_reader_open(&source, &reader, error, sizeof(error))) {
		dlp_complain("'%s': %s", shown, error);
		return DLP_EXIT_FAILURE;
	}
	ret = DLP_EXIT_FAILURE;
	if (!replay || dlp_model_new(&replay->model)) {
		dlp_complain("out of memory");
	} else if (!dlp_run_open_events(options, &events)) {
		replay->events_out = events;
		ret = run(replay, reader, options, shown);
	}
	if (replay)
		dlp_model_free(replay->model);
	dlp_reader_free(reader);
	return (int)ret;
}
