/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes the seeds of fuzz_replay into the folder given: small recordings of made-up events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_check.h"
#include "record_make.h"

static const char *folder;

static void save(const char *name, const struct memory *memory)
{
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file || fwrite(memory->data, 1, memory->bytes, file) != memory->bytes || fclose(file)) {
		perror(path);
		exit(1);
	}
}

static void make(const char *name, uint32_t events, uint32_t per_block, bool open)
{
	struct event_list list = { 0 };
	struct memory memory = { 0 };

	events_make(&list, events, events);
	recording_make(&memory, &list, per_block, 0, open);
	save(name, &memory);
	memory_free(&memory);
	events_free(&list);
}

static void make_full(void)
{
	struct event_list list = { 0 };
	struct memory memory = { .full = 4500 };

	events_make(&list, 60, 7);
	recording_make(&memory, &list, 10, 0, false);
	save("full-disk", &memory);
	memory_free(&memory);
	events_free(&list);
}

/* A flight recording's slots are large; here the blocks of a plain one lie in small ones. */
static void make_flight(void)
{
	enum { SLOT = 2048, SLOTS = 3 };
	struct event_list list = { 0 };
	struct memory memory = { 0 }, flight = { 0 };
	struct dlp_rec_header header;
	struct dlp_rec_block block;
	size_t at = sizeof(header), slot = 0, used = 0;

	events_make(&list, 60, 3);
	recording_make(&memory, &list, 10, 0, false);
	flight.bytes = sizeof(header) + SLOT * SLOTS;
	flight.data = calloc(1, flight.bytes);
	if (!flight.data)
		abort();
	memcpy(&header, memory.data, sizeof(header));
	header.slot_cnt = SLOTS;
	header.slot_bytes = SLOT;
	header.crc = dlp_record_header_crc(&header);
	memcpy(flight.data, &header, sizeof(header));
	while (at + sizeof(block) <= memory.bytes) {
		size_t bytes;

		memcpy(&block, memory.data + at, sizeof(block));
		bytes = (sizeof(block) + block.stored_bytes + 7) & ~(size_t)7;
		if (used + bytes > SLOT) {
			slot = (slot + 1) % SLOTS;
			used = 0;
		}
		memcpy(flight.data + sizeof(header) + slot * SLOT + used, memory.data + at, bytes);
		used += bytes;
		at += bytes;
	}
	save("flight", &flight);
	memory_free(&memory);
	memory_free(&flight);
	events_free(&list);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		(void)fprintf(stderr, "usage: make_corpus FOLDER\n");
		return 2;
	}
	folder = argv[1];
	make("one-block", 12, 20, false);
	make("blocks", 30, 6, false);
	make("not-closed", 15, 5, true);
	make("empty", 0, 1, false);
	make_full();
	make_flight();
	return 0;
}
