/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A trace as a viewer reads it: parsed, with times in nanoseconds again. */
#ifndef DLP_TEST_TRACE_READ_H
#define DLP_TEST_TRACE_READ_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"

/* What one event says, in nanoseconds. */
struct trace_event {
	char ph;
	const char *name;
	uint32_t pid, tid;
	uint64_t start_ns, end_ns;
	uint64_t id;
	const json_t *args;
};

struct trace_read {
	json_t *root;
	struct trace_event *event; /* event_cnt of them, as in the file */
	size_t event_cnt;
};

/* Writes the trace and parses it. */
struct trace_read trace_read(const struct dlp_history *history);
void trace_read_free(struct trace_read *picture);
/* A whole number among the event's arguments; -1 = there is none. */
int64_t trace_read_arg(const struct trace_event *event, const char *key);
/* The innermost slice of this row that is under way at that time; NULL. */
const struct trace_event *trace_read_slice(const struct trace_read *picture, uint32_t pid,
					   uint32_t tid, uint64_t ts_ns);
/* The first event of this kind and name that begins then; NULL. */
const struct trace_event *trace_read_find(const struct trace_read *picture, char ph,
					  const char *name, uint32_t pid, uint64_t start_ns);

#endif /* DLP_TEST_TRACE_READ_H */
