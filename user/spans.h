/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What of an array lasted during a given time. For structs whose first two members are start and
 * end (nanoseconds), ordered by start. Pure.
 */
#ifndef DLP_SPANS_H
#define DLP_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct dlp_spans {
	const char *base;
	size_t cnt, item_bytes;
	uint64_t *reach; /* of each item: the latest end up to it */
};

/* Borrows the array. 0 or -ENOMEM. */
int dlp_spans_init(struct dlp_spans *spans, const void *array, size_t cnt, size_t item_bytes);
void dlp_spans_fini(struct dlp_spans *spans);
/*
 * Position of the first item from `at` on that overlaps [from, to); cnt = none. Those of no length
 * lie within when they begin there.
 */
size_t dlp_spans_next(const struct dlp_spans *spans, size_t at, uint64_t from_ns, uint64_t to_ns);

/* Time that both have in common. */
static inline uint64_t dlp_overlap(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to)
{
	uint64_t from = a_from > b_from ? a_from : b_from, to = a_to < b_to ? a_to : b_to;

	return to > from ? to - from : 0;
}

#endif /* DLP_SPANS_H */
