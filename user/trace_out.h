/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes events of the Trace Event Format (JSON, as chrome://tracing, Perfetto and SageMaker's
 * Debugger read it) one by one to a stream. Times are given in nanoseconds and written in
 * microseconds with three decimals, so that nothing is rounded. Knows nothing of what is told.
 *
 * An event is begun, gets its fields and then its arguments, and is ended. Write errors stay in the
 * stream: ferror() once at the end.
 */
#ifndef DLP_TRACE_OUT_H
#define DLP_TRACE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct dlp_trace_out {
	FILE *file;
	int64_t zero_ns;    /* time that is written as 0 */
	uint64_t event_cnt; /* begun so far */
	bool in_args;
};

/* A JSON string of untrusted text, which is sanitised; `bytes` bounds it. */
void dlp_trace_text(FILE *file, const char *text, size_t bytes);
/* Microseconds of a difference of nanoseconds, as a JSON number. */
void dlp_trace_us(FILE *file, int64_t ns);

/* `phase` is the format's letter; `name` untrusted. */
void dlp_trace_begin(struct dlp_trace_out *out, char phase, const char *name, uint32_t pid,
		     uint32_t tid);
void dlp_trace_at(struct dlp_trace_out *out, uint64_t ts_ns);
void dlp_trace_lasts(struct dlp_trace_out *out, uint64_t ns);
void dlp_trace_category(struct dlp_trace_out *out, const char *category); /* trusted */
void dlp_trace_id(struct dlp_trace_out *out, uint64_t id);
/* Arguments; `key` is trusted. */
void dlp_trace_arg_text(struct dlp_trace_out *out, const char *key, const char *text);
void dlp_trace_arg_count(struct dlp_trace_out *out, const char *key, uint64_t value);
void dlp_trace_arg_int(struct dlp_trace_out *out, const char *key, int64_t value);
void dlp_trace_arg_us(struct dlp_trace_out *out, const char *key, int64_t ns);
void dlp_trace_arg_real(struct dlp_trace_out *out, const char *key, double value);
void dlp_trace_arg_bool(struct dlp_trace_out *out, const char *key, bool value);
void dlp_trace_end(struct dlp_trace_out *out);

#endif /* DLP_TRACE_OUT_H */
