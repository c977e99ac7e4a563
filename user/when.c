/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Moments of a run as people give them. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "report_options.h"
#include "util.h"

/* Two digits below `limit`, then `behind`; *text moves on. */
static int take_two(const char **text, int limit, char behind, int *ret)
{
	const char *at = *text;

	if (at[0] < '0' || at[0] > '9' || at[1] < '0' || at[1] > '9' ||
	    (behind && at[2] != behind))
		return -EINVAL;
	*ret = (at[0] - '0') * 10 + at[1] - '0';
	*text = at + 2 + (behind != '\0');
	return *ret < limit ? 0 : -EINVAL;
}

/* "HH:MM:SS[.fraction]" and nothing behind it. */
static int take_clock(const char *text, struct tm *tm, uint64_t *ret_ns)
{
	uint64_t unit = DLP_NS_PER_S / 10;

	/* a leap second may be given, and is the next minute's first one */
	if (take_two(&text, 24, ':', &tm->tm_hour) || take_two(&text, 60, ':', &tm->tm_min) ||
	    take_two(&text, 61, '\0', &tm->tm_sec))
		return -EINVAL;
	*ret_ns = 0;
	if (!*text)
		return 0;
	if (*text++ != '.' || !*text)
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++, unit /= 10)
		*ret_ns += unit * (uint64_t)(*text - '0');
	return *text ? -EINVAL : 0;
}

static int parse_date(const char *text, struct dlp_when *ret)
{
	struct tm tm = { .tm_isdst = -1 };
	uint64_t fraction;
	int century, year;
	time_t seconds;

	if (take_two(&text, 100, '\0', &century) || take_two(&text, 100, '-', &year) ||
	    take_two(&text, 13, '-', &tm.tm_mon) || take_two(&text, 32, '\0', &tm.tm_mday) ||
	    (*text != ' ' && *text != 'T') || !tm.tm_mon || !tm.tm_mday ||
	    take_clock(text + 1, &tm, &fraction))
		return -EINVAL;
	tm.tm_year = century * 100 + year - 1900;
	tm.tm_mon--;
	seconds = mktime(&tm);
	if (seconds < 0)
		return -EINVAL;
	ret->kind = DLP_WHEN_DATE;
	ret->ns = (uint64_t)seconds * DLP_NS_PER_S + fraction;
	return 0;
}

int dlp_when_parse(const char *text, struct dlp_when *ret)
{
	size_t len = strlen(text);
	struct tm tm = { 0 };
	uint64_t fraction;
	char digits[24];

	if (len > 2 && len < sizeof(digits) && !strcmp(text + len - 2, "ns")) {
		memcpy(digits, text, len - 2);
		digits[len - 2] = '\0';
		ret->kind = DLP_WHEN_MONOTONIC;
		return dlp_parse_u64(digits, &ret->ns) ? -EINVAL : 0;
	}
	if (len > 4 && text[4] == '-')
		return parse_date(text, ret);
	if (strchr(text, ':')) {
		if (take_clock(text, &tm, &fraction))
			return -EINVAL;
		ret->kind = DLP_WHEN_TIME_OF_DAY;
		ret->ns = (uint64_t)(tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec) *
				  DLP_NS_PER_S +
			  fraction;
		return 0;
	}
	ret->kind = DLP_WHEN_ELAPSED;
	/* a duration is above 0, a moment need not be */
	if (len && strspn(text, "0.") == len && text[0] == '0') {
		ret->ns = 0;
		return 0;
	}
	return dlp_parse_duration_ns(text, &ret->ns) ? -EINVAL : 0;
}

/* That time of day on the day the run began, or on the next day when it is before the start. */
static int of_day(uint64_t ns, uint64_t realtime_ns, uint64_t *ret_ns)
{
	time_t start = (time_t)(realtime_ns / DLP_NS_PER_S);
	struct tm tm;

	if (!localtime_r(&start, &tm))
		return -EINVAL;
	tm.tm_hour = (int)(ns / DLP_NS_PER_S / 3600);
	tm.tm_min = (int)(ns / DLP_NS_PER_S / 60 % 60);
	tm.tm_sec = (int)(ns / DLP_NS_PER_S % 60);
	tm.tm_isdst = -1;
	*ret_ns = (uint64_t)mktime(&tm) * DLP_NS_PER_S + ns % DLP_NS_PER_S;
	/* whoever gives the start itself, cut to the second, means it */
	if (*ret_ns + DLP_NS_PER_S <= realtime_ns) {
		tm.tm_mday++;
		tm.tm_isdst = -1;
		*ret_ns = (uint64_t)mktime(&tm) * DLP_NS_PER_S + ns % DLP_NS_PER_S;
	}
	return 0;
}

int dlp_when_resolve(const struct dlp_when *when, uint64_t start_ns, uint64_t realtime_ns,
		     uint64_t *ret_ns)
{
	uint64_t ns = when->ns;
	int err = 0;

	switch (when->kind) {
	case DLP_WHEN_NOT:
		return -EINVAL;
	case DLP_WHEN_MONOTONIC:
		*ret_ns = ns;
		return 0;
	case DLP_WHEN_ELAPSED:
		*ret_ns = start_ns + ns < ns ? UINT64_MAX : start_ns + ns;
		return 0;
	case DLP_WHEN_TIME_OF_DAY:
		err = realtime_ns ? of_day(ns, realtime_ns, &ns) : -EINVAL;
		break;
	case DLP_WHEN_DATE:
		err = realtime_ns ? 0 : -EINVAL;
		break;
	}
	if (err)
		return err;
	/* before the run is at its start: CLOCK_MONOTONIC does not reach back for ever */
	*ret_ns = ns > realtime_ns ? start_ns + (ns - realtime_ns) : start_ns;
	return 0;
}
