/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a recording, block by block, in constant memory. The file is untrusted: every length is
 * checked, and nothing is decoded before its checksum is right.
 */
#ifndef DLP_RECORD_READ_H
#define DLP_RECORD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/record.h"

struct dlp_record_source {
	/* All of it, which lies inside `size`: 0 or -errno. */
	int (*read_at)(void *ctx, void *buf, size_t bytes, uint64_t offset);
	void *ctx;
	uint64_t size;
};

struct dlp_reader;

struct dlp_rec_view {
	unsigned int kind; /* enum dlp_rec_kind; EVENTS are decoded */
	const void *data;  /* aligned to 8; valid until the next call */
	size_t bytes;
	uint32_t items;
};

enum dlp_rec_end {
	DLP_REC_END_WHOLE = 0, /* closed, and all there */
	DLP_REC_END_OPEN,      /* never closed: its writer was killed, or still runs */
	DLP_REC_END_CUT,       /* something is missing at the end */
	DLP_REC_END_DAMAGED,   /* what follows is no block, or not as it was written */
};

struct dlp_rec_ending {
	enum dlp_rec_end how;
	uint64_t offset;     /* where the first byte that was not used is */
	uint64_t blocks;     /* read */
	bool from_middle;    /* a flight recording whose begin has been overwritten */
	uint64_t holes;	     /* blocks missing in between, or damaged (flight recordings) */
	uint64_t lost_events; /* the writer could not write */
};

/*
 * Checks the header. 0, or -errno with one line for people in `error`: not a recording, made by
 * another version, cannot be read. The source must outlive the reader.
 */
int dlp_reader_open(const struct dlp_record_source *source, struct dlp_reader **ret, char *error,
		    size_t error_size);
void dlp_reader_free(struct dlp_reader *reader);
const struct dlp_rec_header *dlp_reader_header(const struct dlp_reader *reader);
/* The next block: 1; 0 = no more; -errno when the source fails. */
int dlp_reader_next(struct dlp_reader *reader, struct dlp_rec_view *ret);
/* After the last one. */
void dlp_reader_ending(const struct dlp_reader *reader, struct dlp_rec_ending *ret);

#endif /* DLP_RECORD_READ_H */
