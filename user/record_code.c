/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "record_predict.h"
#include "util.h"

/* Higher ones take several times as long for some percent: what zstd gets is dense already. */
#define ZSTD_LEVEL 3

struct stream {
	uint8_t *data;
	size_t bytes;
};

struct dlp_encoder {
	ZSTD_CCtx *zstd;
	struct stream stream[DLP_REC_STREAMS];
	uint16_t series_slot[DLP_BLOCK_SLOTS]; /* series number + 1; 0 = free */
	struct dlp_context ctx;
};

int dlp_encoder_new(struct dlp_encoder **ret)
{
	struct dlp_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return -ENOMEM;
	encoder->zstd = ZSTD_createCCtx();
	for (size_t i = 0; i < DLP_REC_STREAMS; i++)
		encoder->stream[i].data = malloc(DLP_STREAM_MAX);
	for (size_t i = 0; i < DLP_REC_STREAMS; i++) {
		if (encoder->zstd && encoder->stream[i].data)
			continue;
		dlp_encoder_free(encoder);
		return -ENOMEM;
	}
	*ret = encoder;
	return 0;
}

void dlp_encoder_free(struct dlp_encoder *encoder)
{
	if (!encoder)
		return;
	ZSTD_freeCCtx(encoder->zstd);
	for (size_t i = 0; i < DLP_REC_STREAMS; i++)
		free(encoder->stream[i].data);
	free(encoder);
}

static void put(struct stream *stream, const void *data, size_t bytes)
{
	memcpy(stream->data + stream->bytes, data, bytes);
	stream->bytes += bytes;
}

static void put_token(struct dlp_encoder *encoder, size_t value)
{
	uint16_t token = (uint16_t)value;

	put(&encoder->stream[DLP_REC_TOKENS], &token, sizeof(token));
}

static bool same_series(const uint64_t *a, const uint64_t *b, const struct dlp_rule *rule)
{
	if (dlp_words_size(a) != dlp_words_size(b) || dlp_words_kind(a) != dlp_words_kind(b) ||
	    a[DLP_W_THREAD] != b[DLP_W_THREAD])
		return false;
	/* key 0 is no key: the first word of both holds flags and the CPU, which change */
	for (size_t i = 0; i < DLP_ARRAY_SIZE(rule->key); i++) {
		if (rule->key[i] && a[rule->key[i]] != b[rule->key[i]])
			return false;
	}
	return true;
}

/* Found, or a new one with *ret_new set. */
static struct dlp_series *series_of(struct dlp_encoder *encoder, const uint64_t *event, size_t words,
				bool *ret_new)
{
	const struct dlp_rule *rule = dlp_rule_of(dlp_words_kind(event), words);
	struct dlp_context *ctx = &encoder->ctx;
	uint64_t mix = event[DLP_W_THREAD] + dlp_words_kind(event);
	struct dlp_series *series;
	uint32_t slot;

	for (size_t i = 0; i < DLP_ARRAY_SIZE(rule->key); i++)
		mix = mix * 31 + (rule->key[i] ? event[rule->key[i]] : 0);
	*ret_new = false;
	for (slot = dlp_slot_of(mix); encoder->series_slot[slot]; slot = (slot + 1) & (DLP_BLOCK_SLOTS - 1)) {
		series = &ctx->series[encoder->series_slot[slot] - 1];
		if (same_series(dlp_event_at(ctx, series->last), event, rule))
			return series;
	}
	*ret_new = true;
	series = dlp_series_new(ctx, dlp_words_kind(event), words, event[DLP_W_THREAD]);
	encoder->series_slot[slot] = (uint16_t)ctx->series_cnt;
	return series;
}

static uint64_t zigzag(uint64_t value)
{
	return value << 1 ^ -(value >> 63);
}

static void put_words(struct dlp_encoder *encoder, const struct dlp_rule *rule, const uint64_t *event,
		      const uint64_t *expected, size_t words)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < words; i++) {
		uint64_t value = zigzag(event[i] - expected[i]);
		uint8_t length;

		if (!value)
			continue;
		mask |= 1ull << i;
		if (i - rule->text < rule->text_words) {
			value = event[i] - expected[i];
			put(&encoder->stream[DLP_REC_TEXT], &value, 8);
			continue;
		}
		length = (uint8_t)(8 - __builtin_clzll(value) / 8);
		put(&encoder->stream[DLP_REC_LENGTHS], &length, 1);
		put(&encoder->stream[DLP_REC_BYTES], &value, length);
	}
	put(&encoder->stream[DLP_REC_MASKS], &mask, (words + 7) / 8);
}

static void encode_regular(struct dlp_encoder *encoder, const uint64_t *event, size_t words)
{
	uint64_t expected[DLP_WORDS_MAX], related[DLP_WORDS_MAX];
	struct dlp_context *ctx = &encoder->ctx;
	const uint64_t *before;
	struct dlp_series *series;
	bool is_new;

	series = series_of(encoder, event, words, &is_new);
	if (is_new) {
		put_token(encoder, DLP_TOKEN_NEW);
		put_token(encoder, dlp_words_kind(event));
		put_token(encoder, words);
		put(&encoder->stream[DLP_REC_BYTES], &event[DLP_W_THREAD], 8);
		before = dlp_kin(ctx, dlp_words_kind(event), words);
	} else {
		put_token(encoder, (size_t)(series - ctx->series) + DLP_TOKEN_SERIES);
		before = dlp_event_at(ctx, series->last);
	}
	dlp_predict(ctx, series, before, expected);
	expected[DLP_W_THREAD] = event[DLP_W_THREAD];
	memcpy(related, event, words * 8);
	dlp_relate(ctx, series, related);
	put_words(encoder, series->rule, related, expected, words);
	dlp_note(ctx, series, (uint32_t)((const uint8_t *)event - ctx->frames));
}

/* What no prediction is tried for: an event that is not what its header says. */
static void encode_odd(struct dlp_encoder *encoder, const void *event, size_t bytes)
{
	put_token(encoder, DLP_TOKEN_ODD);
	put_token(encoder, bytes);
	put(&encoder->stream[DLP_REC_BYTES], event, bytes);
}

static int compress_streams(struct dlp_encoder *encoder, uint8_t *out)
{
	struct dlp_rec_streams head = { 0 };
	size_t at = sizeof(head);

	for (size_t i = 0; i < DLP_REC_STREAMS; i++) {
		const struct stream *stream = &encoder->stream[i];
		size_t done = ZSTD_compressCCtx(encoder->zstd, out + at, DLP_REC_STORED_MAX - at,
						stream->data, stream->bytes, ZSTD_LEVEL);

		if (ZSTD_isError(done))
			return ZSTD_getErrorCode(done) == ZSTD_error_dstSize_tooSmall ? -ENOSPC :
											-EIO;
		head.raw_bytes[i] = (uint32_t)stream->bytes;
		head.stored_bytes[i] = (uint32_t)done;
		at += done;
	}
	memcpy(out, &head, sizeof(head));
	return (int)at;
}

int dlp_encode(struct dlp_encoder *encoder, const void *frames, size_t bytes, void *out)
{
	const uint8_t *at = frames, *end = at + bytes;

	dlp_context_start(&encoder->ctx, frames);
	memset(encoder->series_slot, 0, sizeof(encoder->series_slot));
	for (size_t i = 0; i < DLP_REC_STREAMS; i++)
		encoder->stream[i].bytes = 0;
	while (at < end) {
		const struct dlp_rec_frame *frame = (const void *)at;
		const uint64_t *event = (const void *)(at + sizeof(*frame));

		if (dlp_is_regular(event, frame->bytes))
			encode_regular(encoder, event, frame->bytes / 8);
		else
			encode_odd(encoder, event, frame->bytes);
		at += dlp_frame_bytes(frame->bytes);
	}
	return compress_streams(encoder, out);
}
