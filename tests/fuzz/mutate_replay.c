/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Recordings are guarded by checksums and compressed: a changed byte would never get behind the
 * first check. So one block at a time is taken apart, changed inside, and put together again; and
 * all checksums are made right whatever was changed.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "fuzz_replay.h"
#include "record_check.h"

#define ROOM (DLP_REC_RAW_MAX + 64)

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* The block at `at`, if one that ends inside the data begins there. */
static int block_at(const uint8_t *data, size_t bytes, size_t at, struct dlp_rec_block *ret)
{
	if (at > bytes || bytes - at < sizeof(*ret))
		return 0;
	memcpy(ret, data + at, sizeof(*ret));
	return ret->magic == DLP_REC_BLOCK_MAGIC &&
	       ret->stored_bytes <= bytes - at - sizeof(*ret);
}

static void seal(uint8_t *data, size_t bytes)
{
	struct dlp_rec_header header;
	struct dlp_rec_block block;

	if (bytes < sizeof(header))
		return;
	memcpy(&header, data, sizeof(header));
	header.crc = dlp_record_header_crc(&header);
	header.closing.crc = dlp_record_closing_crc(&header.closing);
	memcpy(data, &header, sizeof(header));
	/* blocks lie at multiples of 8, wherever slots begin */
	for (size_t at = sizeof(header); at + sizeof(block) <= bytes; at += 8) {
		if (!block_at(data, bytes, at, &block))
			continue;
		block.crc = dlp_record_block_crc(&block, data + at + sizeof(block));
		memcpy(data + at, &block, sizeof(block));
		at += padded(sizeof(block) + block.stored_bytes) - 8;
	}
}

/* One of the block's streams, changed; returns the payload's new length, 0 = not possible. */
static size_t change_stream(const uint8_t *payload, size_t bytes, unsigned int which, uint8_t *out,
			    size_t out_room)
{
	static uint8_t raw[ROOM];
	struct dlp_rec_streams head;
	size_t from = sizeof(head), to = sizeof(head);

	if (bytes < sizeof(head) || out_room < sizeof(head))
		return 0;
	memcpy(&head, payload, sizeof(head));
	for (unsigned int i = 0; i < DLP_REC_STREAMS; i++) {
		size_t stored = head.stored_bytes[i], done;

		if (stored > bytes - from)
			return 0;
		if (i == which) {
			done = ZSTD_decompress(raw, DLP_REC_RAW_MAX, payload + from, stored);
			if (ZSTD_isError(done))
				return 0;
			done = LLVMFuzzerMutate(raw, done, DLP_REC_RAW_MAX);
			head.raw_bytes[i] = (uint32_t)done;
			done = ZSTD_compress(out + to, out_room - to, raw, done, 1);
			if (ZSTD_isError(done))
				return 0;
			head.stored_bytes[i] = (uint32_t)done;
		} else {
			if (stored > out_room - to)
				return 0;
			memcpy(out + to, payload + from, stored);
		}
		from += stored;
		to += head.stored_bytes[i];
	}
	memcpy(out, &head, sizeof(head));
	return to;
}

/* Replaces a block's payload by one of another length. Returns the new length of it all. */
static size_t replace(uint8_t *data, size_t bytes, size_t max_bytes, size_t at,
		      struct dlp_rec_block *block, const uint8_t *payload, size_t payload_bytes)
{
	size_t old_end = at + padded(sizeof(*block) + block->stored_bytes);
	size_t new_end = at + padded(sizeof(*block) + payload_bytes);

	if (old_end > bytes)
		old_end = bytes;
	if (new_end + (bytes - old_end) > max_bytes)
		return 0;
	memmove(data + new_end, data + old_end, bytes - old_end);
	memset(data + at, 0, new_end - at);
	block->stored_bytes = (uint32_t)payload_bytes;
	memcpy(data + at, block, sizeof(*block));
	memcpy(data + at + sizeof(*block), payload, payload_bytes);
	return new_end + (bytes - old_end);
}

/* Changes the inside of an EVENTS block; 0 = there was none, or it did not work out. */
static size_t change_inside(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed)
{
	static uint8_t payload[DLP_REC_STORED_MAX];
	size_t found[64], cnt = 0, at, changed;
	struct dlp_rec_block block;

	for (at = sizeof(struct dlp_rec_header); at < bytes && cnt < 64; at += 8) {
		if (block_at(data, bytes, at, &block) && block.kind == DLP_REC_EVENTS)
			found[cnt++] = at;
	}
	if (!cnt)
		return 0;
	at = found[seed % cnt];
	(void)block_at(data, bytes, at, &block);
	changed = change_stream(data + at + sizeof(block), block.stored_bytes,
				seed / 64 % DLP_REC_STREAMS, payload, sizeof(payload));
	if (!changed)
		return 0;
	/* often a bit more or less decodes: let the sizes have a chance to fit */
	if (seed & 1u << 20)
		block.items = (seed >> 21) % 64;
	return replace(data, bytes, max_bytes, at, &block, payload, changed);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed)
{
	size_t changed = 0;

	srand(seed);
	seed = (unsigned int)rand() ^ (unsigned int)rand() << 16;
	if (seed % 4)
		changed = change_inside(data, bytes, max_bytes, seed / 4);
	if (!changed)
		changed = LLVMFuzzerMutate(data, bytes, max_bytes);
	seal(data, changed);
	return changed;
}
