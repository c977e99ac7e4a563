/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_check.h"
#include "record_code.h"

#define SLOTS_MAX 64
/* The header may grow, but not to where it would hide the blocks. */
#define HEADER_MAX 4096

struct dlp_reader {
	struct dlp_record_source source;
	struct dlp_rec_header header;
	struct dlp_decoder *decoder;
	uint8_t *payload; /* DLP_REC_STORED_MAX */
	uint8_t *frames;  /* DLP_REC_RAW_MAX */
	bool closed;	  /* header.closing counts */
	uint64_t at, end; /* next block; end of the file or slot */
	uint64_t number;  /* of the next block */
	bool begun;	  /* something that was not repeated has been read */
	uint64_t slot_number[SLOTS_MAX]; /* of its first block; UINT64_MAX = none, or read */
	struct dlp_rec_ending ending;
};

__attribute__((format(printf, 4, 5))) static int refuse(char *error, size_t size, int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error, size, format, args);
	va_end(args);
	return err;
}

static int read_at(const struct dlp_reader *reader, void *buf, size_t bytes, uint64_t offset)
{
	return reader->source.read_at(reader->source.ctx, buf, bytes, offset);
}

static int check_header(const struct dlp_rec_header *header, uint64_t size, char *error,
			size_t error_size)
{
	if (!size)
		return refuse(error, error_size, -EINVAL, "is empty");
	if (size < sizeof(header->magic) ||
	    memcmp(header->magic, DLP_REC_MAGIC, sizeof(header->magic)))
		return refuse(error, error_size, -EINVAL, "not a recording of dlprof-bpf");
	if (size < sizeof(*header))
		return refuse(error, error_size, -EINVAL, "cut inside its header, at byte %llu",
			      (unsigned long long)size);
	if (header->byte_order != DLP_REC_BYTE_ORDER)
		return refuse(error, error_size, -EINVAL,
			      "made on a machine with another byte order");
	if (header->major > DLP_REC_MAJOR || header->wire_version > DLP_WIRE_VERSION)
		return refuse(error, error_size, -EINVAL,
			      "made by a newer version of dlprof-bpf (format %u.%u, events %u)",
			      header->major, header->minor, header->wire_version);
	if (header->major != DLP_REC_MAJOR || header->wire_version != DLP_WIRE_VERSION)
		return refuse(error, error_size, -EINVAL,
			      "made by an older version of dlprof-bpf (format %u.%u, events %u)",
			      header->major, header->minor, header->wire_version);
	if (header->crc != dlp_record_header_crc(header) ||
	    header->header_bytes < sizeof(*header) || header->header_bytes > HEADER_MAX ||
	    header->header_bytes % 8 || header->slot_cnt > SLOTS_MAX ||
	    header->slot_bytes > DLP_REC_SLOT_MAX || header->slot_bytes % 8)
		return refuse(error, error_size, -EINVAL, "its header is damaged");
	return 0;
}

static int read_header(struct dlp_reader *reader, char *error, size_t error_size)
{
	struct dlp_rec_header *header = &reader->header;
	uint64_t size = reader->source.size;
	int err;

	err = read_at(reader, header, size < sizeof(*header) ? size : sizeof(*header), 0);
	if (err)
		return refuse(error, error_size, err, "cannot be read: %s", strerror(-err));
	err = check_header(header, size, error, error_size);
	if (err)
		return err;
	header->tool[sizeof(header->tool) - 1] = '\0';
	header->kernel[sizeof(header->kernel) - 1] = '\0';
	reader->closed = header->closing.complete == 1 &&
			 header->closing.crc == dlp_record_closing_crc(&header->closing);
	return 0;
}

static int reader_init(struct dlp_reader *reader)
{
	int err;

	err = dlp_decoder_new(&reader->decoder);
	if (err)
		return err;
	reader->payload = malloc(DLP_REC_STORED_MAX);
	reader->frames = malloc(DLP_REC_RAW_MAX);
	return reader->payload && reader->frames ? 0 : -ENOMEM;
}

static uint64_t slot_begin(const struct dlp_reader *reader, uint32_t slot)
{
	return reader->header.header_bytes + (uint64_t)slot * reader->header.slot_bytes;
}

/* Payload lengths that each kind may have. */
static bool sizes_fit(const struct dlp_rec_block *block)
{
	if (block->stored_bytes > DLP_REC_STORED_MAX)
		return false;
	switch (block->kind) {
	case DLP_REC_EVENTS:
		return block->raw_bytes <= DLP_REC_RAW_MAX;
	case DLP_REC_DEVICES:
		return block->items <= DLP_REC_DEVICES_MAX &&
		       block->stored_bytes == block->items * sizeof(struct dlp_rec_device);
	case DLP_REC_GAP:
		return block->stored_bytes >= sizeof(struct dlp_rec_gap);
	default:
		return true;
	}
}

/*
 * The block at this position, payload and checksum included: 1, 0 when there is none that is
 * right (*ret_cut: because the file ends in it), -errno.
 */
static int read_block(struct dlp_reader *reader, uint64_t at, uint64_t end,
		      struct dlp_rec_block *block, bool *ret_cut)
{
	int err;

	*ret_cut = end - at < sizeof(*block);
	if (*ret_cut)
		return 0;
	err = read_at(reader, block, sizeof(*block), at);
	if (err)
		return err;
	if (block->magic != DLP_REC_BLOCK_MAGIC || !sizes_fit(block))
		return 0;
	*ret_cut = end - at - sizeof(*block) < block->stored_bytes;
	if (*ret_cut)
		return 0;
	err = read_at(reader, reader->payload, block->stored_bytes, at + sizeof(*block));
	if (err)
		return err;
	return dlp_record_block_crc(block, reader->payload) == block->crc;
}

/* To the slot with the lowest number from here on: 1, 0 = there is none. */
static int next_slot(struct dlp_reader *reader)
{
	uint64_t lowest = UINT64_MAX;
	uint32_t slot = 0;

	for (uint32_t i = 0; i < reader->header.slot_cnt; i++) {
		if (reader->slot_number[i] >= lowest || reader->slot_number[i] < reader->number)
			continue;
		lowest = reader->slot_number[i];
		slot = i;
	}
	if (lowest == UINT64_MAX)
		return 0;
	if (reader->begun)
		reader->ending.holes += lowest - reader->number;
	reader->number = lowest;
	reader->slot_number[slot] = UINT64_MAX;
	reader->at = slot_begin(reader, slot);
	reader->end = reader->at + reader->header.slot_bytes;
	if (reader->end > reader->source.size)
		reader->end = reader->source.size;
	return 1;
}

static int find_slots(struct dlp_reader *reader)
{
	for (uint32_t i = 0; i < reader->header.slot_cnt; i++) {
		uint64_t at = slot_begin(reader, i);
		struct dlp_rec_block block;
		bool cut;
		int ret = 0;

		if (at < reader->source.size)
			ret = read_block(reader, at, reader->source.size, &block, &cut);
		if (ret < 0)
			return ret;
		reader->slot_number[i] = ret ? block.number : UINT64_MAX;
	}
	if (next_slot(reader))
		reader->ending.from_middle = reader->number != 0;
	return 0;
}

int dlp_reader_open(const struct dlp_record_source *source, struct dlp_reader **ret, char *error,
		    size_t error_size)
{
	struct dlp_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return refuse(error, error_size, -ENOMEM, "out of memory");
	reader->source = *source;
	err = read_header(reader, error, error_size);
	if (!err) {
		err = reader_init(reader);
		if (err)
			refuse(error, error_size, err, "out of memory");
	}
	if (!err && reader->header.slot_cnt) {
		err = find_slots(reader);
		if (err)
			refuse(error, error_size, err, "cannot be read: %s", strerror(-err));
	} else if (!err) {
		reader->at = reader->header.header_bytes;
		reader->end = source->size > reader->at ? source->size : reader->at;
	}
	if (err) {
		dlp_reader_free(reader);
		return err;
	}
	*ret = reader;
	return 0;
}

void dlp_reader_free(struct dlp_reader *reader)
{
	if (!reader)
		return;
	dlp_decoder_free(reader->decoder);
	free(reader->payload);
	free(reader->frames);
	free(reader);
}

const struct dlp_rec_header *dlp_reader_header(const struct dlp_reader *reader)
{
	return &reader->header;
}

/* No block here: is that the end that was meant? */
static void end_here(struct dlp_reader *reader, bool cut)
{
	struct dlp_rec_ending *ending = &reader->ending;
	bool at_end = reader->at >= reader->source.size;

	ending->offset = reader->at;
	if (reader->closed && reader->number == reader->header.closing.blocks && !ending->holes)
		ending->how = DLP_REC_END_WHOLE;
	else if (ending->holes || (!cut && !at_end && !reader->header.slot_cnt))
		ending->how = DLP_REC_END_DAMAGED;
	else if (cut && !at_end && !reader->header.slot_cnt)
		ending->how = DLP_REC_END_CUT;
	else
		ending->how = reader->closed ? DLP_REC_END_CUT : DLP_REC_END_OPEN;
}

static void note_gap(struct dlp_reader *reader)
{
	struct dlp_rec_gap gap;

	memcpy(&gap, reader->payload, sizeof(gap));
	/* no sum of what was ever seen comes near: an absurd one must not wrap around */
	if (gap.events < UINT64_MAX - reader->ending.lost_events)
		reader->ending.lost_events += gap.events;
}

static bool unpack(struct dlp_reader *reader, const struct dlp_rec_block *block,
		   struct dlp_rec_view *ret)
{
	ret->kind = block->kind;
	ret->items = block->items;
	ret->data = reader->payload;
	ret->bytes = block->stored_bytes;
	if (block->kind == DLP_REC_GAP)
		note_gap(reader);
	if (block->kind != DLP_REC_EVENTS)
		return true;
	ret->data = reader->frames;
	ret->bytes = block->raw_bytes;
	return !dlp_decode(reader->decoder, reader->payload, block->stored_bytes, block->items,
			   reader->frames, block->raw_bytes);
}

int dlp_reader_next(struct dlp_reader *reader, struct dlp_rec_view *ret)
{
	struct dlp_rec_block block;
	bool cut;

	for (;;) {
		bool repeated;
		int got;

		got = read_block(reader, reader->at, reader->end, &block, &cut);
		if (got < 0)
			return got;
		repeated = got && block.flags & DLP_REC_REPEATED && reader->begun;
		if (!got || block.number != reader->number ||
		    (!repeated && !unpack(reader, &block, ret))) {
			if (next_slot(reader))
				continue;
			end_here(reader, cut);
			return 0;
		}
		reader->at += (sizeof(block) + block.stored_bytes + 7) & ~7ull;
		if (reader->at > reader->end)
			reader->at = reader->end;
		reader->number++;
		reader->ending.blocks++;
		if (repeated)
			continue;
		reader->begun = reader->begun || !(block.flags & DLP_REC_REPEATED);
		return 1;
	}
}

void dlp_reader_ending(const struct dlp_reader *reader, struct dlp_rec_ending *ret)
{
	const struct dlp_rec_closing *closing = &reader->header.closing;

	*ret = reader->ending;
	/* what was lost at the very end has no gap block on a full disk; the closing knows */
	if (reader->closed && !ret->from_middle && closing->lost_events > ret->lost_events)
		ret->lost_events = closing->lost_events;
}
