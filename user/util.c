/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "util.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

int dlp_parse_u64(const char *text, uint64_t *ret)
{
	unsigned long long value;
	char *end;

	/* strtoull takes signs and leading blanks; a number given to us has neither */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno == ERANGE)
		return -ERANGE;
	if (*end)
		return -EINVAL;
	*ret = value;
	return 0;
}

int dlp_parse_duration_ns(const char *text, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		double ns;
	} units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "m", 60e9 }, { "h", 3600e9 },
	};
	double value;
	char *end;

	if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno == ERANGE)
		return -ERANGE;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].suffix))
			continue;
		value *= units[i].ns;
		/* a year is longer than anybody observes, and far from overflow */
		if (!isfinite(value) || value > 3.2e16)
			return -ERANGE;
		if (value < 1)
			return -EINVAL;
		*ret = (uint64_t)value;
		return 0;
	}
	return -EINVAL;
}

/*
 * Length of the valid UTF-8 character at src, its code point in *ret_point; 0 when invalid
 * (overlong forms and surrogates included, RFC 3629).
 */
static size_t utf8_char(const unsigned char *src, size_t bytes, uint32_t *ret_point)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t point;
	size_t len;

	if (src[0] < 0x80) {
		*ret_point = src[0];
		return 1;
	}
	if (src[0] >= 0xc2 && src[0] <= 0xdf)
		len = 2;
	else if ((src[0] & 0xf0) == 0xe0)
		len = 3;
	else if (src[0] >= 0xf0 && src[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > bytes)
		return 0;
	point = src[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((src[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (src[i] & 0x3f);
	}
	if (point < smallest[len] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return len;
}

static bool harmful(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
	       (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
	       point == 0x200e || point == 0x200f || point == 0x2028 || point == 0x2029;
}

char *dlp_sanitise(char *dst, size_t size, const char *src, size_t bytes)
{
	const unsigned char *in = (const unsigned char *)src;
	size_t out = 0;

	while (bytes && *in) {
		uint32_t point;
		size_t len = utf8_char(in, bytes, &point);

		if (!len || harmful(point)) {
			if (out + 1 >= size)
				break;
			dst[out++] = '?';
			len = len ? len : 1;
		} else {
			if (out + len >= size)
				break;
			memcpy(dst + out, in, len);
			out += len;
		}
		in += len;
		bytes -= len;
	}
	if (size)
		dst[out] = '\0';
	return dst;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	/* cannot fail for the clocks asked for here */
	(void)clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * DLP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t dlp_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t dlp_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t dlp_resident_bytes(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
