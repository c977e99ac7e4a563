/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_check.h"

#include <stddef.h>
#include <string.h>
#include <zlib.h>

static uint32_t crc_of(uint32_t crc, const void *data, size_t bytes)
{
	return (uint32_t)crc32_z(crc, data, bytes);
}

uint32_t dlp_record_block_crc(const struct dlp_rec_block *block, const void *payload)
{
	struct dlp_rec_block copy = *block;

	copy.crc = 0;
	return crc_of(crc_of(0, &copy, sizeof(copy)), payload, block->stored_bytes);
}

uint32_t dlp_record_closing_crc(const struct dlp_rec_closing *closing)
{
	struct dlp_rec_closing copy = *closing;

	copy.crc = 0;
	return crc_of(0, &copy, sizeof(copy));
}

uint32_t dlp_record_header_crc(const struct dlp_rec_header *header)
{
	return crc_of(0, header, offsetof(struct dlp_rec_header, crc));
}

void dlp_record_seal_header(struct dlp_rec_header *header, uint32_t slot_cnt, uint32_t slot_bytes)
{
	memcpy(header->magic, DLP_REC_MAGIC, sizeof(header->magic));
	header->byte_order = DLP_REC_BYTE_ORDER;
	header->major = DLP_REC_MAJOR;
	header->minor = DLP_REC_MINOR;
	header->header_bytes = sizeof(*header);
	header->wire_version = DLP_WIRE_VERSION;
	header->slot_cnt = slot_cnt;
	header->slot_bytes = slot_bytes;
	header->rsvd = header->rsvd2 = 0;
	memset(&header->closing, 0, sizeof(header->closing));
	header->crc = dlp_record_header_crc(header);
}
