/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A recording's file, opened for the commands that read one. */
#ifndef DLP_REPLAY_FILE_H
#define DLP_REPLAY_FILE_H

#include <stddef.h>

#include "record_read.h"
#include "replay.h"

struct dlp_replay_file {
	int fd;
	struct dlp_record_source source; /* points to fd: do not move it */
	struct dlp_reader *reader;
};

/* 0, or a negative errno with one line for people in `error` and nothing to close. */
int dlp_replay_file_open(struct dlp_replay_file *file, const char *path, char *error, size_t size);
void dlp_replay_file_close(struct dlp_replay_file *file);

/*
 * Reads all of it into replay->model and ->history (see replay.h), and completes the facts with what
 * the summary asks of a live run: of one recording at a time, the names of devices are looked up in
 * the newest. Complains, as `shown`, of what is wrong, and of what the recording lacks. 0, 1 when that
 * is an end or a block (what it holds is there; the command shows it, and fails in the end), or -1.
 */
int dlp_replay_file_load(struct dlp_replay_file *file, struct dlp_replay *replay,
			 const char *shown);

#endif /* DLP_REPLAY_FILE_H */
