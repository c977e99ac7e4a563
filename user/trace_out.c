/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trace_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "util.h"

/* Longer than any label or path that is written; the rest is cut. */
#define TEXT_MAX 512

void dlp_trace_text(FILE *file, const char *text, size_t bytes)
{
	char clean[TEXT_MAX];

	dlp_sanitise(clean, sizeof(clean), text, bytes);
	putc('"', file);
	for (const char *at = clean; *at; at++) {
		if (*at == '"' || *at == '\\')
			putc('\\', file);
		putc(*at, file);
	}
	putc('"', file);
}

void dlp_trace_us(FILE *file, int64_t ns)
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	fprintf(file, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", (uint64_t)(size / DLP_NS_PER_US),
		(unsigned int)(size % DLP_NS_PER_US));
}

void dlp_trace_begin(struct dlp_trace_out *out, char phase, const char *name, uint32_t pid,
		     uint32_t tid)
{
	fprintf(out->file, "%s{\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":",
		out->event_cnt++ ? ",\n" : "", phase, pid, tid);
	dlp_trace_text(out->file, name, strlen(name));
	out->in_args = false;
}

void dlp_trace_at(struct dlp_trace_out *out, uint64_t ts_ns)
{
	fputs(",\"ts\":", out->file);
	dlp_trace_us(out->file, (int64_t)(ts_ns - (uint64_t)out->zero_ns));
}

void dlp_trace_lasts(struct dlp_trace_out *out, uint64_t ns)
{
	fputs(",\"dur\":", out->file);
	dlp_trace_us(out->file, (int64_t)ns);
}

void dlp_trace_category(struct dlp_trace_out *out, const char *category)
{
	fprintf(out->file, ",\"cat\":\"%s\"", category);
}

void dlp_trace_id(struct dlp_trace_out *out, uint64_t id)
{
	/* as text: a number beyond 2^53 is not safe with every reader */
	fprintf(out->file, ",\"id\":\"0x%" PRIx64 "\"", id);
}

static void key_of(struct dlp_trace_out *out, const char *key)
{
	fprintf(out->file, "%s\"%s\":", out->in_args ? "," : ",\"args\":{", key);
	out->in_args = true;
}

void dlp_trace_arg_text(struct dlp_trace_out *out, const char *key, const char *text)
{
	key_of(out, key);
	dlp_trace_text(out->file, text, strlen(text));
}

void dlp_trace_arg_count(struct dlp_trace_out *out, const char *key, uint64_t value)
{
	key_of(out, key);
	fprintf(out->file, "%" PRIu64, value);
}

void dlp_trace_arg_int(struct dlp_trace_out *out, const char *key, int64_t value)
{
	key_of(out, key);
	fprintf(out->file, "%" PRId64, value);
}

void dlp_trace_arg_us(struct dlp_trace_out *out, const char *key, int64_t ns)
{
	key_of(out, key);
	dlp_trace_us(out->file, ns);
}

void dlp_trace_arg_real(struct dlp_trace_out *out, const char *key, double value)
{
	key_of(out, key);
	if (isfinite(value))
		fprintf(out->file, "%.6f", value);
	else
		fputs("null", out->file);
}

void dlp_trace_arg_bool(struct dlp_trace_out *out, const char *key, bool value)
{
	key_of(out, key);
	fputs(value ? "true" : "false", out->file);
}

void dlp_trace_end(struct dlp_trace_out *out)
{
	fputs(out->in_args ? "}}" : "}", out->file);
}
