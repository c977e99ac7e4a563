/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small helpers every module may use: scope-bound cleanup, strict parsing, safe text. */
#ifndef DLP_UTIL_H
#define DLP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DLP_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define DLP_NS_PER_S 1000000000ull
#define DLP_NS_PER_MS 1000000ull
#define DLP_NS_PER_US 1000ull

static inline void dlp_cleanup_free(void *ptr)
{
	free(*(void **)ptr);
}

static inline void dlp_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void dlp_cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_free_ __attribute__((cleanup(dlp_cleanup_free)))
#define _cleanup_close_ __attribute__((cleanup(dlp_cleanup_close)))
#define _cleanup_fclose_ __attribute__((cleanup(dlp_cleanup_fclose)))

/* Whole decimal number and nothing else; 0, -EINVAL or -ERANGE. */
int dlp_parse_u64(const char *text, uint64_t *ret);
/* "2", "0.5", "90s", "250ms", "10m", "1h" to nanoseconds (a bare number is seconds); > 0. */
int dlp_parse_duration_ns(const char *text, uint64_t *ret);

/*
 * Copies untrusted text for people: control characters (C0, DEL, C1), invalid UTF-8 and bidirectional
 * overrides become '?'. At most size - 1 bytes, cut at a character; always terminated. `bytes`
 * bounds the source, which need not be terminated. Returns dst.
 */
char *dlp_sanitise(char *dst, size_t size, const char *src, size_t bytes);

/* Current CLOCK_MONOTONIC and CLOCK_REALTIME, nanoseconds. */
uint64_t dlp_now_ns(void);
uint64_t dlp_realtime_ns(void);

/* Physical memory this process uses; 0 = not known. */
uint64_t dlp_resident_bytes(void);

#endif /* DLP_UTIL_H */
