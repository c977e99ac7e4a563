/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recording format (.dlp): the wire events as they came, in compressed and checksummed blocks.
 * Native byte order with a marker, fixed-width fields only, no implicit padding.
 *
 *   file   = dlp_rec_header, block...
 *   block  = dlp_rec_block, `stored_bytes` of payload, zeros up to a multiple of 8
 *
 * A flight recording (slot_cnt != 0) keeps the newest blocks only: behind the header, the file is
 * slot_cnt slots of slot_bytes. Blocks fill a slot from its begin, then the next slot; the oldest is
 * overwritten. Each slot begins with what a reader needs that starts there: INFO, DEVICES and the
 * labels, marked DLP_REC_REPEATED.
 *
 * The block numbers tell where a recording ends: they grow by one from block to block.
 *
 * Checksums are zlib's CRC-32. The checksum in zstd's frames would cover less (no block header) and
 * be known too late: nothing here is believed, or given to the decompressor, before it is checked.
 */
#ifndef DLPROF_RECORD_H
#define DLPROF_RECORD_H

#include "dlprof/event.h"

/* The end of line is broken by whoever copies the file as text. */
#define DLP_REC_MAGIC "dlprec\r\n"
#define DLP_REC_BYTE_ORDER 0x01020304u
/* A reader takes its own major version only; a minor one adds what older readers may skip. */
#define DLP_REC_MAJOR 1
#define DLP_REC_MINOR 0

/* Written last; all zero = incomplete. Overwrites zeros of the same length: needs no disk space. */
struct dlp_rec_closing {
	__u32 complete; /* 1 */
	__u32 crc;	/* of this struct, with crc 0 */
	__u64 end_ns;	/* CLOCK_MONOTONIC, newest event */
	__u64 blocks;	/* written: the last one's number + 1 */
	__u64 events;	/* in these blocks, repeated ones left out */
	__u64 lost_events; /* not in any block: the disk was full or too slow */
	__u64 lost_bytes;
};

struct dlp_rec_header {
	char magic[8];
	__u32 byte_order;
	__u16 major;
	__u16 minor;
	__u32 header_bytes; /* of this struct: the first block begins there */
	__u32 wire_version;
	__u64 monotonic_ns; /* CLOCK_MONOTONIC and */
	__u64 realtime_ns;  /* CLOCK_REALTIME at the same moment, when the file was made */
	__u8 boot_id[16];
	__u32 pid; /* target */
	__u32 slot_cnt;
	__u32 slot_bytes;
	__u32 rsvd;
	char tool[40];	 /* "0.1.0"; NUL-terminated like kernel */
	char kernel[72]; /* release */
	__u32 rsvd2;
	__u32 crc; /* of all before */
	struct dlp_rec_closing closing;
};

#define DLP_REC_BLOCK_MAGIC 0x42504c44u /* "DLPB" */

enum dlp_rec_kind {
	DLP_REC_EVENTS = 1,  /* encoded by record_code.c; raw_bytes = decoded, in frames */
	DLP_REC_INFO = 2,    /* struct dlp_rec_info, as it is */
	DLP_REC_DEVICES = 3, /* struct dlp_rec_device[items], as they are */
	DLP_REC_GAP = 4,     /* struct dlp_rec_gap, as it is */
};

/* dlp_rec_block.flags */
#define DLP_REC_REPEATED (1u << 0) /* told before: only for a reader that starts in this slot */

struct dlp_rec_block {
	__u32 magic;
	__u16 kind; /* enum dlp_rec_kind; unknown ones are skipped */
	__u16 flags;
	__u32 stored_bytes; /* of the payload */
	__u32 raw_bytes;
	__u64 number;
	__u32 items; /* events, devices; else 1 */
	__u32 crc;   /* of this struct with crc 0, and of the payload */
};

/*
 * A block is written when so many bytes of events have come, or when it gets old. Large enough to
 * compress well, small enough to lose little and to decode inside a CPU's cache.
 */
#define DLP_REC_RAW_MAX (256u << 10)
/* Encoding adds at most 1 bit in 8 for masks, 1 byte in 8 for lengths, and a token an event. */
#define DLP_REC_STORED_MAX (DLP_REC_RAW_MAX + DLP_REC_RAW_MAX / 2)

/* In a decoded block each event, padded with zeros to a multiple of 8, follows one of these. */
struct dlp_rec_frame {
	__u32 bytes; /* of the event, as the ring said; its own header may disagree */
	__u32 rsvd;
};

/*
 * EVENTS payload: this, then the streams one after the other, each a zstd frame of its own; see
 * record_code.c for what is in them.
 */
enum dlp_rec_stream {
	DLP_REC_TOKENS = 0,
	DLP_REC_MASKS = 1,
	DLP_REC_LENGTHS = 2,
	DLP_REC_BYTES = 3,
	DLP_REC_TEXT = 4,
	DLP_REC_STREAMS = 5,
};

struct dlp_rec_streams {
	__u32 raw_bytes[DLP_REC_STREAMS];
	__u32 stored_bytes[DLP_REC_STREAMS];
};

/* What was lost between the block before and the one after: the writer could not keep up. */
struct dlp_rec_gap {
	__u64 events;
	__u64 bytes;
	__u64 first_ns, last_ns; /* time stamps of the first and the last event lost */
};

/* Name of a block device that events mention. */
struct dlp_rec_device {
	__u32 dev; /* kernel's dev_t */
	char name[60]; /* NUL-terminated; untrusted when read */
};

#define DLP_REC_DEVICES_MAX 64 /* as many as the model keeps */

#define DLP_REC_MISSING_MAX 16

struct dlp_rec_missing {
	char name[28]; /* NUL-terminated, like all texts here */
	__u32 figures; /* 1: figures of the summary are short without it */
};

/*
 * What the summary says and no event tells. Grows at the tail: what a shorter one lacks is zero.
 * "" = not known or not in use.
 */
struct dlp_rec_info {
	__u32 pid;
	__u32 cpus;
	__u32 cpus_allowed;
	__u32 scope_probe_cnt;
	__u32 block_seen;
	__u32 process_seen;
	__u32 missing_cnt;
	__u32 waits_seen;
	__u64 launched_ns; /* when the command was started; 0 = it ran already */
	char comm[16];
	char cmdline[1024];
	char python[48];
	char torch[48];
	char container[80];
	char scope_rung[32];
	char queue_rung[32];
	char clock_rung[32];
	struct dlp_rec_missing missing[DLP_REC_MISSING_MAX];
};

DLP_ASSERT_SIZE(dlp_rec_closing, 48);
DLP_ASSERT_SIZE(dlp_rec_header, 240);
DLP_ASSERT_OFFSET(dlp_rec_header, byte_order, 8);
DLP_ASSERT_OFFSET(dlp_rec_header, boot_id, 40);
DLP_ASSERT_OFFSET(dlp_rec_header, crc, 188);
DLP_ASSERT_OFFSET(dlp_rec_header, closing, 192);
DLP_ASSERT_SIZE(dlp_rec_block, 32);
DLP_ASSERT_OFFSET(dlp_rec_block, number, 16);
DLP_ASSERT_SIZE(dlp_rec_frame, 8);
DLP_ASSERT_SIZE(dlp_rec_streams, 40);
DLP_ASSERT_SIZE(dlp_rec_gap, 32);
DLP_ASSERT_SIZE(dlp_rec_device, 64);
DLP_ASSERT_SIZE(dlp_rec_missing, 32);
DLP_ASSERT_SIZE(dlp_rec_info, 1864);

#endif /* DLPROF_RECORD_H */
