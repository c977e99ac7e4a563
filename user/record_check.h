/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checksums and bounds of a recording that its writer and its reader must agree on. */
#ifndef DLP_RECORD_CHECK_H
#define DLP_RECORD_CHECK_H

#include <stdint.h>

#include "dlprof/record.h"

/* Whole flight recordings stay far from where positions end. */
#define DLP_REC_SLOT_MAX (1u << 31)

/* Each with the crc field taken as 0; the payload has block->stored_bytes. */
uint32_t dlp_record_block_crc(const struct dlp_rec_block *block, const void *payload);
uint32_t dlp_record_closing_crc(const struct dlp_rec_closing *closing);
uint32_t dlp_record_header_crc(const struct dlp_rec_header *header);
/* Fills in all that is not the caller's; the closing is zeroed. */
void dlp_record_seal_header(struct dlp_rec_header *header, uint32_t slot_cnt, uint32_t slot_bytes);

#endif /* DLP_RECORD_CHECK_H */
