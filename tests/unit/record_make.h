/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Recordings in memory, of made-up events; for unit tests and for the fuzzer's corpus. */
#ifndef DLP_RECORD_MAKE_H
#define DLP_RECORD_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record_file.h"
#include "record_read.h"

/* A file in memory. Its writes fail from byte `full` on, and while `broken`. */
struct memory {
	uint8_t *data;
	size_t bytes, room;
	size_t full; /* 0 = never */
	bool broken;
};

struct dlp_record_io memory_io(struct memory *memory);
struct dlp_record_source memory_source(const struct memory *memory);
void memory_free(struct memory *memory);

/* Events one behind the other, as the ring delivers them. */
struct event_list {
	uint8_t *data;
	size_t bytes, room;
	uint32_t cnt;
};

void events_add(struct event_list *list, const void *event, size_t bytes);
/* Every kind, several threads; clocks that add up, and numbers from a fixed seed. */
void events_make(struct event_list *list, uint32_t rounds, uint32_t seed);
void events_free(struct event_list *list);

/* As a block's frames, into 8-aligned memory of the caller's; returns the bytes. */
size_t frames_make(const uint8_t *events, size_t bytes, uint8_t *frames, uint32_t *ret_items);

/* A whole recording of the events: `per_block` in a block. Closed unless `open`. */
void recording_make(struct memory *memory, const struct event_list *list, uint32_t per_block,
		    uint64_t max_bytes, bool open);
/* All events that can be read back. */
int recording_read(const struct memory *memory, struct event_list *ret,
		   struct dlp_rec_ending *ending);

#endif /* DLP_RECORD_MAKE_H */
