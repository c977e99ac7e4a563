/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes the seeds of all fuzz targets below the folder given; here those of fuzz_replay. */
#include "make_corpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../unit/record_make.h"
#include "record_check.h"

static const char *folder;

void corpus_save(const char *target, const char *name, const void *data, size_t bytes)
{
	char path[512];
	FILE *file = NULL;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, target);
	if (!mkdir(path, 0777) || errno == EEXIST) {
		(void)snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
		file = fopen(path, "w");
	}
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		exit(1);
	}
}

static void save(const char *name, const struct memory *memory)
{
	corpus_save("replay", name, memory->data, memory->bytes);
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
	make_elf_seeds();
	make_text_seeds();
	make_word_seeds();
	make_event_seeds();
	return 0;
}
