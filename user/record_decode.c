/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The other direction of record_code.c. The payload is untrusted. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "record_code.h"
#include "record_predict.h"

struct source {
	uint8_t *data;
	const uint8_t *at, *end;
};

struct dlp_decoder {
	ZSTD_DCtx *zstd;
	struct source source[DLP_REC_STREAMS];
	struct dlp_context ctx;
};

int dlp_decoder_new(struct dlp_decoder **ret)
{
	struct dlp_decoder *decoder = calloc(1, sizeof(*decoder));
	bool failed;

	if (!decoder)
		return -ENOMEM;
	decoder->zstd = ZSTD_createDCtx();
	failed = !decoder->zstd;
	for (size_t i = 0; i < DLP_REC_STREAMS; i++) {
		/* a word is loaded at once, wherever it ends */
		decoder->source[i].data = malloc(DLP_STREAM_MAX + 8);
		failed = failed || !decoder->source[i].data;
	}
	if (failed) {
		dlp_decoder_free(decoder);
		return -ENOMEM;
	}
	*ret = decoder;
	return 0;
}

void dlp_decoder_free(struct dlp_decoder *decoder)
{
	if (!decoder)
		return;
	ZSTD_freeDCtx(decoder->zstd);
	for (size_t i = 0; i < DLP_REC_STREAMS; i++)
		free(decoder->source[i].data);
	free(decoder);
}

/* Fills the streams: no more than they have room for, whatever the payload says. */
static int decompress_streams(struct dlp_decoder *decoder, const uint8_t *payload, size_t bytes)
{
	struct dlp_rec_streams head;

	if (bytes < sizeof(head))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	payload += sizeof(head);
	bytes -= sizeof(head);
	for (size_t i = 0; i < DLP_REC_STREAMS; i++) {
		struct source *source = &decoder->source[i];
		size_t done;

		if (head.stored_bytes[i] > bytes || head.raw_bytes[i] > DLP_STREAM_MAX)
			return -EBADMSG;
		done = ZSTD_decompressDCtx(decoder->zstd, source->data, head.raw_bytes[i], payload,
					   head.stored_bytes[i]);
		if (ZSTD_isError(done) || done != head.raw_bytes[i])
			return -EBADMSG;
		memset(source->data + done, 0, 8);
		source->at = source->data;
		source->end = source->data + done;
		payload += head.stored_bytes[i];
		bytes -= head.stored_bytes[i];
	}
	return bytes ? -EBADMSG : 0;
}

static size_t left(const struct source *source)
{
	return (size_t)(source->end - source->at);
}

static bool get_token(struct source *source, uint16_t *ret)
{
	if (left(source) < sizeof(*ret))
		return false;
	memcpy(ret, source->at, sizeof(*ret));
	source->at += sizeof(*ret);
	return true;
}

static uint64_t load(const uint8_t *from, size_t bytes)
{
	uint64_t value;

	memcpy(&value, from, 8);
	return value & (UINT64_MAX >> (64 - 8 * bytes));
}

static bool get_number(struct dlp_decoder *decoder, uint64_t *word)
{
	struct source *lengths = &decoder->source[DLP_REC_LENGTHS];
	struct source *bytes = &decoder->source[DLP_REC_BYTES];
	uint64_t value;
	uint8_t length;

	if (!left(lengths))
		return false;
	length = *lengths->at++;
	if (length < 1 || length > 8 || left(bytes) < length)
		return false;
	value = load(bytes->at, length);
	bytes->at += length;
	*word += value >> 1 ^ -(value & 1);
	return true;
}

static bool get_text(struct dlp_decoder *decoder, uint64_t *word)
{
	struct source *text = &decoder->source[DLP_REC_TEXT];

	if (left(text) < 8)
		return false;
	*word += load(text->at, 8);
	text->at += 8;
	return true;
}

/* Adds the differences to what was expected. */
static bool get_words(struct dlp_decoder *decoder, const struct dlp_rule *rule, uint64_t *event,
		      size_t words)
{
	struct source *masks = &decoder->source[DLP_REC_MASKS];
	uint64_t mask;

	if (left(masks) < (words + 7) / 8)
		return false;
	mask = load(masks->at, (words + 7) / 8);
	masks->at += (words + 7) / 8;
	if (words < DLP_WORDS_MAX && mask >> words)
		return false;
	for (; mask; mask &= mask - 1) {
		size_t i = (size_t)__builtin_ctzll(mask);

		if (i - rule->text < rule->text_words ? !get_text(decoder, &event[i]) :
							!get_number(decoder, &event[i]))
			return false;
	}
	return true;
}

/* Its kind, length and thread come first. */
static struct dlp_series *new_series(struct dlp_decoder *decoder, unsigned int *ret_kind,
				 uint64_t *ret_thread)
{
	struct source *tokens = &decoder->source[DLP_REC_TOKENS];
	struct source *bytes = &decoder->source[DLP_REC_BYTES];
	struct dlp_context *ctx = &decoder->ctx;
	uint16_t kind, words;

	if (!get_token(tokens, &kind) || !get_token(tokens, &words) || words < DLP_WORDS_MIN ||
	    words > DLP_WORDS_MAX || left(bytes) < 8 || ctx->series_cnt == DLP_BLOCK_EVENTS_MAX)
		return NULL;
	*ret_kind = kind;
	*ret_thread = load(bytes->at, 8);
	bytes->at += 8;
	return dlp_series_new(ctx, kind, words, *ret_thread);
}

/* Writes frame and event at `position`; returns the length of both, 0 when it cannot be. */
static size_t decode_regular(struct dlp_decoder *decoder, uint16_t token, uint8_t *frames,
			     size_t position, size_t room)
{
	struct dlp_context *ctx = &decoder->ctx;
	uint64_t *event = (void *)(frames + position + sizeof(struct dlp_rec_frame));
	struct dlp_rec_frame *frame = (void *)(frames + position);
	struct dlp_series *series;
	const uint64_t *before;
	uint64_t id;

	if (token == DLP_TOKEN_NEW) {
		unsigned int kind;

		series = new_series(decoder, &kind, &id);
		if (!series)
			return 0;
		before = dlp_kin(ctx, kind, series->words);
	} else {
		if ((size_t)token - DLP_TOKEN_SERIES >= ctx->series_cnt)
			return 0;
		series = &ctx->series[token - DLP_TOKEN_SERIES];
		before = dlp_event_at(ctx, series->last);
		id = before[DLP_W_THREAD];
	}
	if (room < sizeof(*frame) + series->words * 8u)
		return 0;
	dlp_predict(ctx, series, before, event);
	event[DLP_W_THREAD] = id;
	if (!get_words(decoder, series->rule, event, series->words))
		return 0;
	dlp_unrelate(ctx, series, event);
	frame->bytes = series->words * 8u;
	frame->rsvd = 0;
	/* what no encoder makes: the next events of the series rely on its length */
	if (!dlp_is_regular(event, frame->bytes))
		return 0;
	dlp_note(ctx, series, (uint32_t)(position + sizeof(*frame)));
	return dlp_frame_bytes(frame->bytes);
}

static size_t decode_odd(struct dlp_decoder *decoder, uint8_t *to, size_t room)
{
	struct source *bytes = &decoder->source[DLP_REC_BYTES];
	struct dlp_rec_frame frame = { 0 };
	uint16_t length;

	if (!get_token(&decoder->source[DLP_REC_TOKENS], &length) || left(bytes) < length ||
	    room < dlp_frame_bytes(length))
		return 0;
	frame.bytes = length;
	memset(to, 0, dlp_frame_bytes(length));
	memcpy(to, &frame, sizeof(frame));
	memcpy(to + sizeof(frame), bytes->at, length);
	bytes->at += length;
	return dlp_frame_bytes(length);
}

int dlp_decode(struct dlp_decoder *decoder, const void *payload, size_t bytes, uint32_t items,
	       void *frames, size_t raw_bytes)
{
	size_t at = 0;
	int err;

	err = decompress_streams(decoder, payload, bytes);
	if (err)
		return err;
	dlp_context_start(&decoder->ctx, frames);
	for (uint32_t i = 0; i < items; i++) {
		uint8_t *to = (uint8_t *)frames + at;
		uint16_t token;
		size_t done;

		if (!get_token(&decoder->source[DLP_REC_TOKENS], &token))
			return -EBADMSG;
		if (token == DLP_TOKEN_ODD)
			done = decode_odd(decoder, to, raw_bytes - at);
		else
			done = decode_regular(decoder, token, frames, at, raw_bytes - at);
		if (!done)
			return -EBADMSG;
		at += done;
	}
	for (size_t i = 0; i < DLP_REC_STREAMS; i++) {
		if (left(&decoder->source[i]))
			return -EBADMSG;
	}
	return at == raw_bytes ? 0 : -EBADMSG;
}
