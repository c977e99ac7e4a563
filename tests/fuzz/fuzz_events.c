/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libFuzzer target: events one behind the other, as the ring delivers them, through labels, model,
 * diagnosis, summary and text. What a recording's coding can't say comes in here as well.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "diagnose.h"
#include "labels.h"
#include "model.h"
#include "summary.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void events_apply(struct dlp_model *model, struct dlp_labels *labels, FILE *out,
			 const void *data, size_t bytes)
{
	union dlp_event_room room;
	const struct dlp_ev_hdr *hdr;
	int err;

	if (!dlp_event_check(data, bytes, &room, &hdr)) {
		dlp_event_print(out, hdr);
		if (!dlp_labels_apply(labels, hdr))
			return;
	}
	err = dlp_model_apply(model, data, bytes);
	if (err && err != -EBADMSG && err != -ENOENT)
		abort();
}

static void events_report(const struct dlp_model *model, FILE *out)
{
	struct dlp_target target = { .pid = 10 };
	const struct dlp_summary_facts facts = { .version = "0", .target = &target };
	struct dlp_verdict verdict;
	char *json = NULL;

	dlp_diagnose(model, NULL, &verdict);
	if (dlp_summary_format(model, &verdict, &facts, &json))
		abort();
	free(json);
	dlp_text_interval(out, model, &verdict);
	dlp_text_summary(out, model, &verdict, &facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct dlp_labels *labels;
	struct dlp_model *model;
	FILE *out = fopen("/dev/null", "w");

	if (!out || dlp_model_new(&model) || dlp_labels_new(NULL, 0, NULL, NULL, &labels))
		abort();
	while (bytes) {
		/* the first two bytes of an event are its size; the ring gives it as well */
		size_t size = bytes < 2 ? bytes : (size_t)(data[0] | data[1] << 8);

		if (!size || size > bytes)
			size = bytes;
		events_apply(model, labels, out, data, size);
		data += size;
		bytes -= size;
	}
	events_report(model, out);
	dlp_labels_free(labels);
	dlp_model_free(model);
	(void)fclose(out);
	return 0;
}
