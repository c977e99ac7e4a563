/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trace_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "trace.h"

static uint64_t ns_of(const json_t *us)
{
	return us ? (uint64_t)llround(json_number_value(us) * 1000) : 0;
}

struct trace_read trace_read(const struct dlp_history *history)
{
	struct trace_read picture = { 0 };
	json_error_t error;
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);
	json_t *events;

	assert_non_null(file);
	assert_int_equal(dlp_trace_write(file, history), 0);
	fclose(file);
	picture.root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!picture.root)
		fail_msg("line %d: %s", error.line, error.text);
	free(text);
	events = json_object_get(picture.root, "traceEvents");
	picture.event_cnt = json_array_size(events);
	picture.event = calloc(picture.event_cnt + 1, sizeof(*picture.event));
	assert_non_null(picture.event);
	for (size_t i = 0; i < picture.event_cnt; i++) {
		const json_t *json = json_array_get(events, i);
		struct trace_event *event = &picture.event[i];
		const char *id = json_string_value(json_object_get(json, "id"));

		event->ph = *json_string_value(json_object_get(json, "ph"));
		event->name = json_string_value(json_object_get(json, "name"));
		event->pid = (uint32_t)json_integer_value(json_object_get(json, "pid"));
		event->tid = (uint32_t)json_integer_value(json_object_get(json, "tid"));
		event->start_ns = ns_of(json_object_get(json, "ts"));
		event->end_ns = event->start_ns + ns_of(json_object_get(json, "dur"));
		event->id = id ? strtoull(id, NULL, 16) : 0;
		event->args = json_object_get(json, "args");
		assert_non_null(event->name);
	}
	return picture;
}

void trace_read_free(struct trace_read *picture)
{
	json_decref(picture->root);
	free(picture->event);
}

int64_t trace_read_arg(const struct trace_event *event, const char *key)
{
	const json_t *value = json_object_get(event->args, key);

	return value ? json_integer_value(value) : -1;
}

/* The innermost slice of this row that is under way at that time; NULL. */
const struct trace_event *trace_read_slice(const struct trace_read *picture, uint32_t pid,
					   uint32_t tid, uint64_t ts_ns)
{
	const struct trace_event *found = NULL;

	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *event = &picture->event[i];

		if (event->ph == 'X' && event->pid == pid && event->tid == tid &&
		    event->start_ns <= ts_ns && ts_ns < event->end_ns &&
		    (!found || event->start_ns >= found->start_ns))
			found = event;
	}
	return found;
}

const struct trace_event *trace_read_find(const struct trace_read *picture, char ph,
					  const char *name, uint32_t pid, uint64_t start_ns)
{
	for (size_t i = 0; i < picture->event_cnt; i++) {
		const struct trace_event *event = &picture->event[i];

		if (event->ph == ph && event->pid == pid && event->start_ns == start_ns &&
		    !strcmp(event->name, name))
			return event;
	}
	return NULL;
}
