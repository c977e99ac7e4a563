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
 * Completes the facts of a recording that was replayed with what the summary asks of a live run.
 * One recording at a time: the names of devices are looked up in the newest.
 */
void dlp_replay_file_facts(struct dlp_replay *replay);

#endif /* DLP_REPLAY_FILE_H */
