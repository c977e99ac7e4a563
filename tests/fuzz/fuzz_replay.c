/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libFuzzer target: bytes as a recording, through reader, decoder, model, diagnosis and summary.
 * mutate_replay.c makes the inputs pass the checksums. The unit tier runs the corpus through it.
 */
#include "fuzz_replay.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose.h"
#include "replay.h"
#include "summary.h"

struct input {
	const uint8_t *data;
	size_t bytes;
};

static int read_at(void *ctx, void *buf, size_t bytes, uint64_t offset)
{
	const struct input *input = ctx;

	/* the reader promises to stay inside */
	if (offset > input->bytes || bytes > input->bytes - offset)
		abort();
	if (bytes)
		memcpy(buf, input->data + offset, bytes);
	return 0;
}

static void summarise(struct dlp_replay *replay)
{
	struct dlp_verdict verdict;
	char *text = NULL;

	dlp_diagnose(replay->model, NULL, &verdict);
	if (!dlp_summary_format(replay->model, &verdict, &replay->facts.facts, &text) && !text)
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input input = { data, bytes };
	const struct dlp_record_source source = { read_at, &input, bytes };
	struct dlp_replay *replay;
	struct dlp_reader *reader;
	char text[300];

	if (dlp_reader_open(&source, &reader, text, sizeof(text)))
		return 0;
	replay = calloc(1, sizeof(*replay));
	if (!replay || dlp_model_new(&replay->model))
		abort();
	if (!dlp_replay_run(replay, reader)) {
		dlp_replay_say(replay, dlp_reader_header(reader), text, sizeof(text));
		summarise(replay);
	}
	dlp_model_free(replay->model);
	free(replay);
	dlp_reader_free(reader);
	return 0;
}
