/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "replay_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
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

static int open_source(struct dlp_replay_file *file, const char *path, char *error, size_t size)
{
	struct stat st;

	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &st)) {
		(void)snprintf(error, size, "cannot be read: %s", strerror(errno));
		return -EIO;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)snprintf(error, size, "not a regular file");
		return -EINVAL;
	}
	file->source = (struct dlp_record_source){ read_at, &file->fd, (uint64_t)st.st_size };
	return 0;
}

int dlp_replay_file_open(struct dlp_replay_file *file, const char *path, char *error, size_t size)
{
	int err;

	*file = (struct dlp_replay_file){ .fd = -1 };
	err = open_source(file, path, error, size);
	if (!err)
		err = dlp_reader_open(&file->source, &file->reader, error, size);
	if (err)
		dlp_replay_file_close(file);
	return err;
}

void dlp_replay_file_close(struct dlp_replay_file *file)
{
	dlp_reader_free(file->reader);
	dlp_cleanup_close(&file->fd);
	*file = (struct dlp_replay_file){ .fd = -1 };
}

int dlp_replay_file_load(struct dlp_replay_file *file, struct dlp_replay *replay, const char *shown)
{
	char text[300];
	int err;

	err = dlp_replay_run(replay, file->reader);
	if (err) {
		dlp_complain("'%s' cannot be replayed: %s", shown, strerror(-err));
		return -1;
	}
	dlp_replay_say(replay, dlp_reader_header(file->reader), text, sizeof(text));
	if (*text)
		dlp_complain("'%s' %s", shown, text);
	/* that is what was said, then */
	if (!replay->event_cnt)
		return -1;
	current = replay;
	replay->facts.facts.version = DLP_VERSION;
	replay->facts.facts.target = &replay->facts.target;
	replay->facts.facts.device_name = device_name;
	return *text != '\0';
}
