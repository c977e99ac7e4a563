/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t start_of(const struct dlp_spans *spans, size_t at)
{
	uint64_t ret;

	memcpy(&ret, spans->base + at * spans->item_bytes, sizeof(ret));
	return ret;
}

static uint64_t end_of(const struct dlp_spans *spans, size_t at)
{
	uint64_t ret;

	memcpy(&ret, spans->base + at * spans->item_bytes + sizeof(ret), sizeof(ret));
	return ret;
}

int dlp_spans_init(struct dlp_spans *spans, const void *array, size_t cnt, size_t item_bytes)
{
	uint64_t latest = 0;

	*spans = (struct dlp_spans){ .base = array, .cnt = cnt, .item_bytes = item_bytes };
	if (!cnt)
		return 0;
	spans->reach = malloc(cnt * sizeof(*spans->reach));
	if (!spans->reach)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		uint64_t end = end_of(spans, i);

		latest = end > latest ? end : latest;
		spans->reach[i] = latest;
	}
	return 0;
}

void dlp_spans_fini(struct dlp_spans *spans)
{
	free(spans->reach);
	memset(spans, 0, sizeof(*spans));
}

/* Items before it have all ended before from_ns. */
static size_t seek(const struct dlp_spans *spans, uint64_t from_ns)
{
	size_t low = 0, high = spans->cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (spans->reach[mid] < from_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

size_t dlp_spans_next(const struct dlp_spans *spans, size_t at, uint64_t from_ns, uint64_t to_ns)
{
	if (!at)
		at = seek(spans, from_ns);
	for (; at < spans->cnt; at++) {
		uint64_t start = start_of(spans, at);

		if (start >= to_ns)
			return spans->cnt;
		if (end_of(spans, at) > from_ns || start >= from_ns)
			return at;
	}
	return spans->cnt;
}
