/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A machine whose wall clock is set and that sleeps, for one process, which is started with this in
 * LD_PRELOAD: CLOCK_REALTIME goes back by an hour and forth again, every tenth of a second, and
 * CLOCK_BOOTTIME gains a minute each time.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS 100000000ull
#define HOUR_S 3600
#define MINUTE_S 60

static int read_clock(clockid_t id, struct timespec *ret)
{
	return (int)syscall(SYS_clock_gettime, id, ret);
}

static uint64_t steps(void)
{
	static uint64_t begin;
	struct timespec ts;
	uint64_t now;

	(void)read_clock(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	begin = begin ? begin : now;
	return (now - begin) / STEP_NS;
}

/* The C library names the parameters otherwise. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *ret)
{
	int err = read_clock(id, ret);

	if (err)
		return err;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ret->tv_sec -= steps() & 1 ? HOUR_S : 0;
	if (id == CLOCK_BOOTTIME)
		ret->tv_sec += (time_t)(steps() + 1) * MINUTE_S;
	return 0;
}

int gettimeofday(struct timeval *ret, void *zone)
{
	struct timespec ts;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	*ret = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
