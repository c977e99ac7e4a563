/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of a recording being written: header, blocks, slots, gaps. Calls the given functions
 * to write, and waits as long as they take; record.c keeps that away from the event loop.
 */
#ifndef DLP_RECORD_FILE_H
#define DLP_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/record.h"

/* Where it goes. Both return 0 or -errno. */
struct dlp_record_io {
	/* All of it, or fails; what was there before may be damaged then. */
	int (*write_at)(void *ctx, const void *data, size_t bytes, uint64_t offset);
	int (*truncate)(void *ctx, uint64_t bytes);
	void *ctx;
};

/* Name of a block device ("nvme0n1") into buf, or NULL. */
typedef const char *(*dlp_device_name_fn)(uint32_t dev, char *buf, size_t size);

/*
 * A flight recording's file is cut into so many slots, the oldest of which is overwritten: seven of
 * eight parts are always there. Each must hold the largest block and all that is repeated.
 */
#define DLP_REC_SLOTS 8
#define DLP_REC_MAX_LEAST (8u << 20)
#define DLP_REC_MAX_MOST (16ull << 30) /* twelve days of 4 workers and 100 batches/s */

struct dlp_record_file;

/* Frames of one block. */
struct dlp_rec_batch {
	const void *frames;
	size_t bytes;
	uint32_t items;
	uint64_t first_ns, last_ns;
};

/*
 * Writes the header; of `header` the texts, times, boot id and pid are used. max_bytes: 0 = all is
 * kept, else the newest (DLP_REC_MAX_LEAST to DLP_REC_MAX_MOST). 0, -ENOMEM or the error of io.
 */
int dlp_record_file_new(const struct dlp_record_io *io, const struct dlp_rec_header *header,
			uint64_t max_bytes, dlp_device_name_fn device_name,
			struct dlp_record_file **ret);
void dlp_record_file_free(struct dlp_record_file *file);
/*
 * Each of these writes a block: 0 or -errno. Events that cannot be written are counted, and the
 * next block that can be is preceded by a DLP_REC_GAP.
 */
int dlp_record_file_info(struct dlp_record_file *file, const struct dlp_rec_info *info);
int dlp_record_file_events(struct dlp_record_file *file, const struct dlp_rec_batch *batch);
/* Events that were dropped elsewhere, between those before and those after. */
void dlp_record_file_lost(struct dlp_record_file *file, const struct dlp_rec_gap *gap);
/* Takes the incomplete mark away. 0 or -errno. */
int dlp_record_file_close(struct dlp_record_file *file);

#endif /* DLP_RECORD_FILE_H */
