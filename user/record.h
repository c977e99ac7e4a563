/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Recording to a file without ever waiting for it: events are copied into blocks in memory, and a
 * thread of its own compresses and writes them, since a write() to a regular file can take seconds.
 * What does not fit the bounded memory, or the disk, is dropped in whole blocks and counted.
 */
#ifndef DLP_RECORD_H
#define DLP_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "record_file.h"
#include "summary.h"

struct dlp_record;

/*
 * Creates `path`, or empties it; must be a regular file. max_bytes: 0 = all, else the newest are
 * kept. 0, or -errno with one line for people in `error`.
 */
int dlp_record_open(const char *path, pid_t pid, const char *version, uint64_t max_bytes,
		    struct dlp_record **ret, char *error, size_t error_size);
/* The same for an open sink, which must outlive the recording. */
int dlp_record_start(const struct dlp_record_io *io, const struct dlp_rec_header *header,
		     uint64_t max_bytes, dlp_device_name_fn device_name, struct dlp_record **ret);

/* What a replay needs besides the events; copied. The newest counts. */
void dlp_record_facts(struct dlp_record *record, const struct dlp_summary_facts *facts);
/* Never waits, never fails: what cannot be kept is counted. */
void dlp_record_event(struct dlp_record *record, const void *event, size_t bytes);
/* The writing thread gives up its capabilities, which are each thread's own. */
void dlp_record_settle(struct dlp_record *record);
/* Events that are not in the file and will not be. */
uint64_t dlp_record_lost(struct dlp_record *record);
/*
 * Writes what is left, marks the file as complete and frees the recording; waits limit_ns for the
 * disk at most. 0 when every event is in the file, else -errno (-ETIMEDOUT: the disk did not take
 * the rest in time) with one line for people in `error`. NULL is fine.
 */
int dlp_record_close(struct dlp_record *record, uint64_t limit_ns, char *error, size_t error_size);

#endif /* DLP_RECORD_H */
