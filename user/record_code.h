/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The payload of a recording's EVENTS block: events to bytes and back, exactly. Each block stands
 * for itself. Knows the wire format; knows nothing of files.
 */
#ifndef DLP_RECORD_CODE_H
#define DLP_RECORD_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "dlprof/record.h"

/* Working memory of one direction, about 2 MB; used for any number of blocks. */
struct dlp_encoder;
struct dlp_decoder;

/* 0 or -ENOMEM. */
int dlp_encoder_new(struct dlp_encoder **ret);
void dlp_encoder_free(struct dlp_encoder *encoder);
int dlp_decoder_new(struct dlp_decoder **ret);
void dlp_decoder_free(struct dlp_decoder *decoder);

/* Bytes an event of this size takes in a decoded block, its frame included. */
static inline size_t dlp_frame_bytes(size_t event_bytes)
{
	return sizeof(struct dlp_rec_frame) + ((event_bytes + 7) & ~(size_t)7);
}

/*
 * Encodes frames (`bytes` of them, a multiple of 8 up to DLP_REC_RAW_MAX, aligned to 8, each at
 * least as long as its event says) into `out`, which has room for DLP_REC_STORED_MAX. Returns the
 * payload's length, or -ENOSPC should it not fit, -EIO when zstd fails.
 */
int dlp_encode(struct dlp_encoder *encoder, const void *frames, size_t bytes, void *out);

/*
 * Decodes an untrusted payload into `frames`, which has room for `raw_bytes` <= DLP_REC_RAW_MAX
 * and is aligned to 8. 0 when it holds exactly `items` events in exactly `raw_bytes`; -EBADMSG.
 */
int dlp_decode(struct dlp_decoder *decoder, const void *payload, size_t bytes, uint32_t items,
	       void *frames, size_t raw_bytes);

#endif /* DLP_RECORD_CODE_H */
