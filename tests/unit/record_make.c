/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "record_code.h"

static void *grown(void *data, size_t *room, size_t need)
{
	if (need <= *room)
		return data;
	*room = 2 * need;
	data = realloc(data, *room);
	if (!data)
		abort();
	return data;
}

static int memory_write(void *ctx, const void *data, size_t bytes, uint64_t offset)
{
	struct memory *memory = ctx;
	size_t end = (size_t)offset + bytes;

	if (memory->broken)
		return -EIO;
	/* like a disk: what fits is written */
	if (memory->full && end > memory->full)
		end = memory->full > offset ? memory->full : (size_t)offset;
	if (end > memory->bytes) {
		memory->data = grown(memory->data, &memory->room, end);
		memset(memory->data + memory->bytes, 0, end - memory->bytes);
		memory->bytes = end;
	}
	memcpy(memory->data + offset, data, end - (size_t)offset);
	return end - offset == bytes ? 0 : -ENOSPC;
}

static int memory_truncate(void *ctx, uint64_t bytes)
{
	struct memory *memory = ctx;

	if (bytes < memory->bytes)
		memory->bytes = (size_t)bytes;
	return 0;
}

struct dlp_record_io memory_io(struct memory *memory)
{
	return (struct dlp_record_io){ memory_write, memory_truncate, memory };
}

static int memory_read(void *ctx, void *buf, size_t bytes, uint64_t offset)
{
	const struct memory *memory = ctx;

	if (offset > memory->bytes || bytes > memory->bytes - offset)
		abort(); /* the reader's promise */
	if (bytes)
		memcpy(buf, memory->data + offset, bytes);
	return 0;
}

struct dlp_record_source memory_source(const struct memory *memory)
{
	return (struct dlp_record_source){ memory_read, (void *)memory, memory->bytes };
}

void memory_free(struct memory *memory)
{
	free(memory->data);
	memset(memory, 0, sizeof(*memory));
}

void events_add(struct event_list *list, const void *event, size_t bytes)
{
	uint32_t length = (uint32_t)bytes;

	list->data = grown(list->data, &list->room, list->bytes + sizeof(length) + bytes);
	memcpy(list->data + list->bytes, &length, sizeof(length));
	memcpy(list->data + list->bytes + sizeof(length), event, bytes);
	list->bytes += sizeof(length) + bytes;
	list->cnt++;
}

void events_free(struct event_list *list)
{
	free(list->data);
	memset(list, 0, sizeof(*list));
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* A clock of `ts` in all, as a thread's is. */
static void fill_clock(struct dlp_clock *clock, uint64_t ts, uint64_t *state)
{
	uint64_t left = ts;

	for (size_t i = 1; i < DLP_ST_MAX; i++) {
		clock->ns[i] = i % 3 ? ts / 16 + next(state) % 1000 : 0;
		left -= clock->ns[i];
	}
	clock->ns[DLP_ST_RUN] = left;
}

static const size_t sizes[] = {
#define X(number, NAME, type) sizeof(struct type),
	DLP_EVENT_KINDS(X)
#undef X
};

static const uint16_t numbers[] = {
#define X(number, NAME, type) number,
	DLP_EVENT_KINDS(X)
#undef X
};

void events_make(struct event_list *list, uint32_t rounds, uint32_t seed)
{
	uint64_t state = seed, ts = 1000000000000ull;

	for (uint32_t i = 0; i < rounds; i++) {
		union dlp_event_room room = { 0 };
		size_t kind = next(&state) % (sizeof(sizes) / sizeof(sizes[0]));
		uint8_t *bytes = (void *)&room;

		for (size_t k = sizeof(room.hdr); k < sizes[kind]; k += 1 + next(&state) % 24)
			bytes[k] = (uint8_t)next(&state);
		ts += next(&state) % 3000000;
		room.hdr.size = (uint16_t)sizes[kind];
		room.hdr.kind = numbers[kind];
		room.hdr.cpu = next(&state) % 4;
		room.hdr.ts_ns = ts;
		room.hdr.tgid = 100 + (uint32_t)(next(&state) % 3);
		room.hdr.tid = room.hdr.tgid;
		if (numbers[kind] == DLP_EV_SCOPE) {
			room.dlp_ev_scope.start_ns = ts - 5000000;
			fill_clock(&room.dlp_ev_scope.split, 5000000, &state);
			fill_clock(&room.dlp_ev_scope.clock, ts - 7, &state);
		} else if (numbers[kind] == DLP_EV_WAIT) {
			room.dlp_ev_wait.start_ns = ts - 2000000;
			room.dlp_ev_wait.wake_ns = ts - 4000;
			room.dlp_ev_wait.state = (uint32_t)(next(&state) % DLP_ST_MAX);
		} else if (numbers[kind] == DLP_EV_MSG) {
			fill_clock(&room.dlp_ev_msg.clock, ts - 7, &state);
		} else if (numbers[kind] == DLP_EV_LABEL) {
			room.dlp_ev_label.label = (uint32_t)(next(&state) % 5);
		}
		events_add(list, &room, sizes[kind]);
	}
}

size_t frames_make(const uint8_t *events, size_t bytes, uint8_t *frames, uint32_t *ret_items)
{
	const uint8_t *end = events + bytes;
	size_t at = 0;

	*ret_items = 0;
	while (events < end) {
		struct dlp_rec_frame frame = { 0 };

		memcpy(&frame.bytes, events, sizeof(frame.bytes));
		memset(frames + at, 0, dlp_frame_bytes(frame.bytes));
		memcpy(frames + at, &frame, sizeof(frame));
		memcpy(frames + at + sizeof(frame), events + 4, frame.bytes);
		at += dlp_frame_bytes(frame.bytes);
		events += 4 + frame.bytes;
		++*ret_items;
	}
	return at;
}

static const char *name_of(uint32_t dev, char *buf, size_t size)
{
	(void)snprintf(buf, size, "disk%u", dev);
	return dev ? buf : NULL;
}

/* The list's next events, `cnt` at most; returns where they end. */
static size_t part(const struct event_list *list, size_t from, uint32_t cnt)
{
	while (cnt-- && from < list->bytes) {
		uint32_t length;

		memcpy(&length, list->data + from, sizeof(length));
		from += 4 + length;
	}
	return from;
}

void recording_make(struct memory *memory, const struct event_list *list, uint32_t per_block,
		    uint64_t max_bytes, bool open)
{
	const struct dlp_rec_header header = { .monotonic_ns = 1, .realtime_ns = 2, .pid = 100,
					       .tool = "test", .kernel = "6.1" };
	const struct dlp_rec_info info = { .pid = 100, .cpus = 4, .cmdline = "python train.py",
					   .missing_cnt = 1, .missing = { { "a", 1 } } };
	const struct dlp_record_io io = memory_io(memory);
	uint8_t *frames = aligned_alloc(8, DLP_REC_RAW_MAX);
	struct dlp_record_file *file;
	size_t at = 0;

	if (!frames || dlp_record_file_new(&io, &header, max_bytes, name_of, &file))
		abort();
	(void)dlp_record_file_info(file, &info);
	while (at < list->bytes) {
		struct dlp_rec_batch batch = { .frames = frames, .first_ns = 5, .last_ns = 6 };
		size_t end = part(list, at, per_block);

		batch.bytes = frames_make(list->data + at, end - at, frames, &batch.items);
		(void)dlp_record_file_events(file, &batch);
		at = end;
	}
	if (!open)
		(void)dlp_record_file_close(file);
	dlp_record_file_free(file);
	free(frames);
}

int recording_read(const struct memory *memory, struct event_list *ret,
		   struct dlp_rec_ending *ending)
{
	const struct dlp_record_source source = memory_source(memory);
	struct dlp_reader *reader;
	struct dlp_rec_view view;
	char error[200];
	int err;

	err = dlp_reader_open(&source, &reader, error, sizeof(error));
	if (err)
		return err;
	while (dlp_reader_next(reader, &view) == 1) {
		const uint8_t *at = view.data, *end = at + view.bytes;

		while (view.kind == DLP_REC_EVENTS && at < end) {
			const struct dlp_rec_frame *frame = (const void *)at;

			events_add(ret, frame + 1, frame->bytes);
			at += dlp_frame_bytes(frame->bytes);
		}
	}
	dlp_reader_ending(reader, ending);
	dlp_reader_free(reader);
	return 0;
}
