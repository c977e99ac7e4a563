/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The recording format: what is written is read back to the byte, and nothing else is believed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "record_check.h"
#include "record_code.h"
#include "record_make.h"

static void assert_same(const struct event_list *got, const struct event_list *wanted)
{
	assert_int_equal(got->cnt, wanted->cnt);
	assert_int_equal(got->bytes, wanted->bytes);
	assert_memory_equal(got->data, wanted->data, wanted->bytes);
}

/* The events are the first ones of the list, to the byte. */
static void assert_begin_of(const struct event_list *got, const struct event_list *all)
{
	assert_true(got->bytes <= all->bytes);
	if (got->bytes)
		assert_memory_equal(got->data, all->data, got->bytes);
}

static void round_trip(const struct event_list *list, uint32_t per_block)
{
	struct event_list got = { 0 };
	struct dlp_rec_ending ending;
	struct memory memory = { 0 };

	recording_make(&memory, list, per_block, 0, false);
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_equal(ending.how, DLP_REC_END_WHOLE);
	assert_int_equal(ending.lost_events, 0);
	assert_false(ending.from_middle);
	assert_same(&got, list);
	events_free(&got);
	memory_free(&memory);
}

static void test_round_trip(void **unused)
{
	(void)unused;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct event_list list = { 0 };

		events_make(&list, 60 * seed, seed);
		round_trip(&list, 200);
		round_trip(&list, 1);
		events_free(&list);
	}
}

/* What no program sends: cut, longer than it says, unknown, larger than any mask, not aligned. */
static void test_odd_events(void **unused)
{
	static const struct {
		uint16_t size, kind;
		size_t bytes;
	} odd[] = {
		{ 248, DLP_EV_SCOPE, 248 }, { 248, DLP_EV_SCOPE, 200 }, { 24, 999, 24 },
		{ 200, DLP_EV_SCOPE, 248 }, { 0, 0, 0 },		{ 3, 3, 3 },
		{ 24, DLP_EV_CLOCK, 24 },   { 512, 7, 512 },		{ 520, 7, 520 },
		{ 65535, 7, 65535 },	    { 25, 7, 25 },		{ 120, DLP_EV_SCOPE, 120 },
		{ 504, DLP_EV_CLOCK, 504 }, { 248, DLP_EV_SCOPE, 248 }, { 24, 0xffff, 24 },
	};
	struct event_list list = { 0 };
	uint8_t bytes[65536];

	(void)unused;
	for (int again = 0; again < 3; again++) {
		for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
			struct dlp_ev_hdr hdr = { .size = odd[i].size, .kind = odd[i].kind,
						  .ts_ns = 7 * i, .tid = 5 };

			memset(bytes, 0x80 + again, sizeof(bytes));
			memcpy(bytes, &hdr, sizeof(hdr));
			events_add(&list, bytes, odd[i].bytes);
		}
	}
	round_trip(&list, 15);
	round_trip(&list, 1);
	events_free(&list);
}

/* More series and threads than a block has tables for. */
static void test_many_threads(void **unused)
{
	struct event_list list = { 0 };

	(void)unused;
	for (uint32_t i = 0; i < 6000; i++) {
		struct dlp_ev_hdr hdr = { .size = sizeof(hdr), .kind = 300 + i % 2, .ts_ns = i * 1000,
					  .tgid = 1, .tid = i % 3000 };

		events_add(&list, &hdr, sizeof(hdr));
	}
	round_trip(&list, DLP_REC_RAW_MAX / 32);
	events_free(&list);
}

/* Regular jobs make regular numbers: that is what the coding is for. */
static void test_small(void **unused)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };

	(void)unused;
	for (uint64_t i = 0; i < 1000; i++) {
		struct dlp_ev_scope scope = {
			.hdr = { .size = sizeof(scope), .kind = DLP_EV_SCOPE, .tid = 5, .tgid = 5,
				 .ts_ns = 1000000 + i * 10000000 },
			.start_ns = 1000000 + i * 10000000 - 4000000,
			.label = 1,
		};

		scope.split.ns[DLP_ST_RUN] = 4000000;
		scope.clock.ns[DLP_ST_RUN] = scope.hdr.ts_ns;
		events_add(&list, &scope, sizeof(scope));
	}
	recording_make(&memory, &list, 1000, 0, false);
	assert_true(memory.bytes < 4 * list.cnt);
	memory_free(&memory);
	events_free(&list);
}

static void test_cut_everywhere(void **unused)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };
	size_t last_events = 0;

	(void)unused;
	events_make(&list, 100, 3);
	recording_make(&memory, &list, 10, 0, false);
	for (size_t cut = 0; cut < memory.bytes; cut++) {
		struct event_list got = { 0 };
		struct dlp_rec_ending ending;
		/* exactly as long as it says, so that ASan sees a read beyond */
		struct memory part = { .data = malloc(cut ? cut : 1), .bytes = cut };
		int err;

		assert_non_null(part.data);
		memcpy(part.data, memory.data, cut);
		err = recording_read(&part, &got, &ending);
		assert_int_equal(err, cut < sizeof(struct dlp_rec_header) ? -EINVAL : 0);
		if (!err) {
			/* but for the padding behind the last payload */
			if (memory.bytes - cut > 7)
				assert_int_equal(ending.how, DLP_REC_END_CUT);
			assert_true(ending.offset <= cut);
			assert_begin_of(&got, &list);
			assert_true(got.bytes >= last_events);
			last_events = got.bytes;
		}
		events_free(&got);
		free(part.data);
	}
	assert_true(last_events > list.bytes / 2);
	memory_free(&memory);
	events_free(&list);
}

/* Whatever byte changes: fewer events, or none, but never others. */
static void test_flip_everywhere(void **unused)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };
	size_t noticed = 0;

	(void)unused;
	events_make(&list, 40, 9);
	recording_make(&memory, &list, 10, 0, false);
	for (size_t at = 0; at < memory.bytes; at++) {
		struct event_list got = { 0 };
		struct dlp_rec_ending ending = { 0 };

		memory.data[at] ^= 0x41;
		if (recording_read(&memory, &got, &ending) || ending.how != DLP_REC_END_WHOLE)
			noticed++;
		else
			assert_same(&got, &list);
		assert_begin_of(&got, &list);
		memory.data[at] ^= 0x41;
		events_free(&got);
	}
	/* all but the padding */
	assert_true(noticed > memory.bytes - 6 * 8);
	memory_free(&memory);
	events_free(&list);
}

static void test_not_closed(void **unused)
{
	struct event_list list = { 0 }, got = { 0 };
	struct dlp_rec_ending ending;
	struct memory memory = { 0 };

	(void)unused;
	events_make(&list, 50, 4);
	recording_make(&memory, &list, 10, 0, true);
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_equal(ending.how, DLP_REC_END_OPEN);
	assert_same(&got, &list);
	events_free(&got);
	memory_free(&memory);
	events_free(&list);
}

static void refused(struct memory *memory, const char *why)
{
	const struct dlp_record_source source = memory_source(memory);
	struct dlp_reader *reader = NULL;
	char error[200] = "";

	assert_int_equal(dlp_reader_open(&source, &reader, error, sizeof(error)), -EINVAL);
	assert_null(reader);
	assert_non_null(strstr(error, why));
}

static void test_wrong_header(void **unused)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };
	struct dlp_rec_header header, good;

	(void)unused;
	refused(&memory, "is empty");
	events_make(&list, 5, 4);
	recording_make(&memory, &list, 10, 0, false);
	memcpy(&good, memory.data, sizeof(good));
#define WITH(change, why)                                                                          \
	do {                                                                                       \
		header = good;                                                                     \
		change;                                                                            \
		header.crc = dlp_record_header_crc(&header);                                       \
		memcpy(memory.data, &header, sizeof(header));                                      \
		refused(&memory, why);                                                             \
	} while (0)
	WITH(header.magic[0] = 'x', "not a recording");
	WITH(header.byte_order = 0x04030201, "byte order");
	WITH(header.major = 2, "newer version of dlprof-bpf (format 2.0");
	WITH(header.major = 0, "older version");
	WITH(header.wire_version = 2, "newer version");
	WITH(header.header_bytes = 8, "damaged");
	WITH(header.header_bytes = 1 << 30, "damaged");
	WITH(header.slot_cnt = 65, "damaged");
	WITH(header.slot_bytes = UINT32_MAX, "damaged");
#undef WITH
	header = good;
	header.pid++;
	memcpy(memory.data, &header, sizeof(header));
	refused(&memory, "damaged");
	memory_free(&memory);
	events_free(&list);
}

/* The first EVENTS block, its checksum made right again after `change`. */
static void changed_block(void (*change)(struct dlp_rec_block *, struct dlp_rec_streams *))
{
	struct event_list list = { 0 }, got = { 0 };
	struct dlp_rec_ending ending;
	struct memory memory = { 0 };
	struct dlp_rec_streams streams;
	struct dlp_rec_block block;
	size_t at = sizeof(struct dlp_rec_header);

	events_make(&list, 5, 4);
	recording_make(&memory, &list, 10, 0, false);
	for (;;) {
		memcpy(&block, memory.data + at, sizeof(block));
		if (block.kind == DLP_REC_EVENTS)
			break;
		at += (sizeof(block) + block.stored_bytes + 7) & ~7u;
	}
	memcpy(&streams, memory.data + at + sizeof(block), sizeof(streams));
	change(&block, &streams);
	memcpy(memory.data + at + sizeof(block), &streams, sizeof(streams));
	if (block.stored_bytes <= memory.bytes - at - sizeof(block))
		block.crc = dlp_record_block_crc(&block, memory.data + at + sizeof(block));
	memcpy(memory.data + at, &block, sizeof(block));
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_not_equal(ending.how, DLP_REC_END_WHOLE);
	assert_int_equal(got.cnt, 0);
	assert_int_equal(ending.offset, at);
	events_free(&got);
	memory_free(&memory);
	events_free(&list);
}

#define CHANGE(name, statement)                                                                    \
	static void name(struct dlp_rec_block *block, struct dlp_rec_streams *streams)             \
	{                                                                                          \
		(void)block, (void)streams;                                                        \
		statement;                                                                         \
	}
CHANGE(huge_payload, block->stored_bytes = UINT32_MAX)
CHANGE(huge_block, block->raw_bytes = UINT32_MAX)
CHANGE(longer_block, block->raw_bytes += 8)
CHANGE(odd_block, block->raw_bytes -= 1)
CHANGE(no_block, block->raw_bytes = 0)
CHANGE(many_items, block->items = UINT32_MAX)
CHANGE(fewer_items, block->items--)
CHANGE(other_number, block->number++)
CHANGE(huge_stream, streams->raw_bytes[DLP_REC_BYTES] = UINT32_MAX)
CHANGE(longer_stream, streams->raw_bytes[DLP_REC_BYTES]++)
CHANGE(empty_stream, streams->raw_bytes[DLP_REC_TOKENS] = 0)
CHANGE(huge_frame, streams->stored_bytes[DLP_REC_TOKENS] = UINT32_MAX)
CHANGE(shifted_frame, streams->stored_bytes[DLP_REC_TOKENS]--)

static void test_absurd_lengths(void **unused)
{
	(void)unused;
	changed_block(huge_payload);
	changed_block(huge_block);
	changed_block(longer_block);
	changed_block(odd_block);
	changed_block(no_block);
	changed_block(many_items);
	changed_block(fewer_items);
	changed_block(other_number);
	changed_block(huge_stream);
	changed_block(longer_stream);
	changed_block(empty_stream);
	changed_block(huge_frame);
	changed_block(shifted_frame);
}

/* A frame of some bytes that decompresses to 1 GB must not cost more than a block's memory. */
static void test_bomb(void **unused)
{
	/* zstd: magic, single segment with 4 bytes of size (1 GB), one RLE block, the last */
	static const uint8_t bomb[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40,
					0x03, 0,    0x10, 0x41 };
	_Alignas(8) uint8_t payload[sizeof(struct dlp_rec_streams) + sizeof(bomb)];
	uint8_t *frames = aligned_alloc(8, DLP_REC_RAW_MAX);
	struct dlp_rec_streams head = { .raw_bytes = { DLP_REC_RAW_MAX },
					.stored_bytes = { sizeof(bomb) } };
	struct dlp_decoder *decoder;

	(void)unused;
	assert_non_null(frames);
	memcpy(payload, &head, sizeof(head));
	memcpy(payload + sizeof(head), bomb, sizeof(bomb));
	assert_int_equal(dlp_decoder_new(&decoder), 0);
	assert_int_equal(dlp_decode(decoder, payload, sizeof(payload), 1, frames, DLP_REC_RAW_MAX),
			 -EBADMSG);
	dlp_decoder_free(decoder);
	free(frames);
}

/* Much more than fits: the newest is there, in order, and begins with the labels. */
static void test_flight_recorder(void **unused)
{
	struct event_list list = { 0 }, got = { 0 };
	struct dlp_rec_ending ending;
	struct memory memory = { 0 };
	uint32_t labels = 0;

	(void)unused;
	events_make(&list, 250000, 11);
	recording_make(&memory, &list, 500, DLP_REC_MAX_LEAST, false);
	assert_true(memory.bytes <= DLP_REC_MAX_LEAST);
	assert_true(memory.bytes > DLP_REC_MAX_LEAST / 2);
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_equal(ending.how, DLP_REC_END_WHOLE);
	assert_true(ending.from_middle);
	assert_int_equal(ending.holes, 0);
	/* the labels, all five of them, then the list's end */
	for (size_t at = 0; labels < 5; labels++) {
		struct dlp_ev_label label;

		memcpy(&label, got.data + at + 4, sizeof(label));
		assert_int_equal(label.hdr.kind, DLP_EV_LABEL);
		at += 4 + label.hdr.size;
		got.cnt--;
		if (labels == 4) {
			assert_true(got.bytes - at > list.bytes / 20);
			assert_memory_equal(got.data + at,
					    list.data + list.bytes - (got.bytes - at),
					    got.bytes - at);
		}
	}
	events_free(&got);
	memory_free(&memory);
	events_free(&list);
}

/* A slot whose first block is half written (SIGKILL, power cut) costs that slot and no more. */
static void test_flight_cut(void **unused)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };
	struct dlp_rec_header header;

	(void)unused;
	events_make(&list, 250000, 11);
	recording_make(&memory, &list, 500, DLP_REC_MAX_LEAST, true);
	memcpy(&header, memory.data, sizeof(header));
	for (uint32_t i = 0; i < header.slot_cnt; i++) {
		size_t at = sizeof(header) + (size_t)i * header.slot_bytes + 40;
		struct event_list got = { 0 };
		struct dlp_rec_ending ending;

		memory.data[at] ^= 1;
		assert_int_equal(recording_read(&memory, &got, &ending), 0);
		assert_true(got.cnt > 1000);
		assert_true(ending.from_middle);
		/* in the middle of the row it is a hole, at its ends it is not */
		assert_true(ending.how == DLP_REC_END_OPEN ||
			    (ending.how == DLP_REC_END_DAMAGED && ending.holes));
		memory.data[at] ^= 1;
		events_free(&got);
	}
	memory_free(&memory);
	events_free(&list);
}

/* Before the file is full a flight recording is like any other. */
static void test_flight_short(void **unused)
{
	struct event_list list = { 0 }, got = { 0 };
	struct dlp_rec_ending ending;
	struct memory memory = { 0 };

	(void)unused;
	events_make(&list, 1000, 2);
	recording_make(&memory, &list, 100, DLP_REC_MAX_LEAST, false);
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_equal(ending.how, DLP_REC_END_WHOLE);
	assert_false(ending.from_middle);
	assert_same(&got, &list);
	events_free(&got);
	memory_free(&memory);
	events_free(&list);
}

/* Full at every byte: what is in the file can be replayed, and the rest is counted. */
static void test_full_disk(void **unused)
{
	struct event_list list = { 0 };
	struct memory whole = { 0 };

	(void)unused;
	events_make(&list, 60, 5);
	recording_make(&whole, &list, 10, 0, false);
	for (size_t full = sizeof(struct dlp_rec_header); full < whole.bytes; full++) {
		struct memory memory = { .full = full };
		struct event_list got = { 0 };
		struct dlp_rec_ending ending;

		recording_make(&memory, &list, 10, 0, false);
		assert_true(memory.bytes <= full);
		assert_int_equal(recording_read(&memory, &got, &ending), 0);
		assert_int_equal(ending.how, DLP_REC_END_WHOLE);
		assert_int_equal(ending.lost_events, list.cnt - got.cnt);
		assert_true(ending.lost_events > 0 || full + 8 > whole.bytes);
		events_free(&got);
		memory_free(&memory);
	}
	memory_free(&whole);
	events_free(&list);
}

/* Room again after a while: a gap in the middle, told as such. */
static void test_gap(void **unused)
{
	const struct dlp_rec_header header = { .pid = 1 };
	uint8_t *frames = aligned_alloc(8, DLP_REC_RAW_MAX);
	struct event_list list = { 0 }, got = { 0 };
	struct dlp_rec_batch batch = { .frames = frames };
	struct memory memory = { 0 };
	const struct dlp_record_io io = memory_io(&memory);
	struct dlp_record_file *file;
	struct dlp_rec_ending ending;

	(void)unused;
	assert_non_null(frames);
	events_make(&list, 10, 5);
	batch.bytes = frames_make(list.data, list.bytes, frames, &batch.items);
	assert_int_equal(dlp_record_file_new(&io, &header, 0, NULL, &file), 0);
	assert_int_equal(dlp_record_file_events(file, &batch), 0);
	memory.broken = true;
	assert_int_equal(dlp_record_file_events(file, &batch), -EIO);
	assert_int_equal(dlp_record_file_events(file, &batch), -EIO);
	memory.broken = false;
	assert_int_equal(dlp_record_file_events(file, &batch), 0);
	/* not closed: only the gap block can tell */
	dlp_record_file_free(file);
	assert_int_equal(recording_read(&memory, &got, &ending), 0);
	assert_int_equal(got.cnt, 20);
	assert_int_equal(ending.lost_events, 20);
	assert_int_equal(ending.how, DLP_REC_END_OPEN);
	memory.broken = true;
	assert_int_equal(dlp_record_file_new(&io, &header, 0, NULL, &file), -EIO);
	events_free(&got);
	events_free(&list);
	memory_free(&memory);
	free(frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_odd_events),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_flip_everywhere),
		cmocka_unit_test(test_not_closed),
		cmocka_unit_test(test_wrong_header),
		cmocka_unit_test(test_absurd_lengths),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_flight_recorder),
		cmocka_unit_test(test_flight_cut),
		cmocka_unit_test(test_flight_short),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
