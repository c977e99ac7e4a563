/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What encoder and decoder of a recording's events share: the predictions. An event is a row of
 * 64-bit words, and most of them can be told from what came before: from the last event of the
 * same kind, thread and label (its series), from the thread's clock, and from each other, since
 * clocks add up to the time that has passed. What is left is small numbers, which go to streams:
 *
 *   tokens   which series: 16 bits an event
 *   masks    which words are not as predicted: a bit a word
 *   lengths  how many bytes the difference of such a word takes
 *   bytes    these differences, zigzag, low byte first
 *   text     differences of words that hold characters, 8 bytes each: a message that was sent and
 *            received comes twice, which zstd sees here
 *
 * Plain zstd of the events takes twice as much space, and longer to decode: most bytes of an event
 * never pass through the decompressor here. Both directions must predict the same, so all of this
 * is part of the format.
 */
#ifndef DLP_RECORD_PREDICT_H
#define DLP_RECORD_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlprof/record.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are taken apart, and written, low byte first"
#endif

#define DLP_WORDS_MAX 64 /* a mask is one 64-bit number; the largest event has 57 */
#define DLP_WORDS_MIN (sizeof(struct dlp_ev_hdr) / 8)
/* The smallest frame holds an event that is just a header. */
#define DLP_BLOCK_EVENTS_MAX \
	(DLP_REC_RAW_MAX / (sizeof(struct dlp_rec_frame) + sizeof(struct dlp_ev_hdr)))
/* Threads that get a clock of their own in one block; the others share one, and compress worse. */
#define DLP_BLOCK_THREADS_MAX 1024
#define DLP_BLOCK_SLOTS (2 * DLP_BLOCK_EVENTS_MAX) /* of a hash table; power of two */
/* No stream is longer: at most 8 bytes for each 8 of an event. */
#define DLP_STREAM_MAX DLP_REC_RAW_MAX

/* Tokens: an event not made of words, a new series, else a series' number plus the last of these. */
enum { DLP_TOKEN_ODD = 0, DLP_TOKEN_NEW = 1, DLP_TOKEN_SERIES = 2 };

/* Positions of the header's words. */
enum { DLP_W_HEAD = 0, DLP_W_TS = 1, DLP_W_THREAD = 2 };

#define DLP_CLOCK_WORDS (sizeof(struct dlp_clock) / 8)

/* What is known of a kind's words; a position of 0 = it has no such word. */
struct dlp_rule {
	uint8_t key[2];	 /* words in which events of one series are the same */
	uint8_t clock;	 /* struct dlp_clock of the thread at ts */
	uint8_t split;	 /* struct dlp_clock that adds up to ts - start */
	uint8_t start;	 /* a time before ts */
	uint8_t later;	 /* another one */
	uint8_t text, text_words; /* characters, not numbers */
	bool wait;	 /* a DLP_EV_WAIT: moves the thread's clock */
	uint8_t words;	 /* least length for which all this holds */
};

/* A thread as the events so far tell it. */
struct dlp_rec_thread {
	uint64_t id; /* DLP_W_THREAD */
	uint64_t last_ns;
	uint64_t offset; /* sum of its clock less the time it was read: stays the same */
	uint64_t ns[DLP_CLOCK_WORDS];
	bool known; /* offset and ns are */
};

struct dlp_series {
	uint32_t last;	 /* position of its newest event among the frames */
	uint16_t words;
	uint16_t thread; /* number */
	const struct dlp_rule *rule;
};

/* What both directions know at any event of a block. */
struct dlp_context {
	const uint8_t *frames;
	uint64_t last_ns; /* of the event before, whoever's */
	uint32_t series_cnt, thread_cnt;
	uint32_t kind_last[256]; /* position of the newest event by kind; 0 = none */
	uint16_t thread_slot[DLP_BLOCK_SLOTS]; /* thread number + 1; 0 = free */
	struct dlp_series series[DLP_BLOCK_EVENTS_MAX];
	struct dlp_rec_thread thread[DLP_BLOCK_THREADS_MAX];
};

void dlp_context_start(struct dlp_context *ctx, const void *frames);

static inline const uint64_t *dlp_event_at(const struct dlp_context *ctx, uint32_t position)
{
	return (const uint64_t *)(const void *)(ctx->frames + position);
}

static inline unsigned int dlp_words_size(const uint64_t *event)
{
	return event[DLP_W_HEAD] & 0xffff;
}

static inline unsigned int dlp_words_kind(const uint64_t *event)
{
	return event[DLP_W_HEAD] >> 16 & 0xffff;
}

/* An event that is what its header says, and no longer than a mask. */
static inline bool dlp_is_regular(const uint64_t *event, size_t bytes)
{
	return bytes % 8 == 0 && bytes / 8 >= DLP_WORDS_MIN && bytes / 8 <= DLP_WORDS_MAX &&
	       dlp_words_size(event) == bytes;
}

static inline uint32_t dlp_slot_of(uint64_t value)
{
	return (uint32_t)((value * 0x9e3779b97f4a7c15ull) >> 40) & (DLP_BLOCK_SLOTS - 1);
}

/* Adds a series; there is room for one an event. */
struct dlp_series *dlp_series_new(struct dlp_context *ctx, unsigned int kind, size_t words,
				  uint64_t thread_id);
const struct dlp_rule *dlp_rule_of(unsigned int kind, size_t words);
/* The newest event of this kind, if it is as long: what a new series starts from. NULL = none. */
const uint64_t *dlp_kin(const struct dlp_context *ctx, unsigned int kind, size_t words);
/*
 * What the words of the series' next event are expected to be, before anything of it is known.
 * `before`: the newest event of the series, or its kin, or NULL.
 */
void dlp_predict(const struct dlp_context *ctx, const struct dlp_series *series,
		 const uint64_t *before, uint64_t *ret);
/* Takes out of each word of an event what the others tell of it; and the other way round. */
void dlp_relate(const struct dlp_context *ctx, const struct dlp_series *series, uint64_t *words);
void dlp_unrelate(const struct dlp_context *ctx, const struct dlp_series *series, uint64_t *words);
/* The series' newest event is complete, at this position among the frames. */
void dlp_note(struct dlp_context *ctx, struct dlp_series *series, uint32_t position);

#endif /* DLP_RECORD_PREDICT_H */
