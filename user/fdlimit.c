/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fdlimit.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * 81 are open while a job of two processes is recorded, all probes being there; loading and writing
 * take some more for a moment. A CPU's sampler has an event and a link.
 */
#define FDS_FIXED 120
#define FDS_PER_CPU 2

static struct rlimit given;
static bool given_known;

void dlp_fdlimit_raise(void)
{
	struct rlimit limit;

	if (given_known || getrlimit(RLIMIT_NOFILE, &given))
		return;
	given_known = true;
	limit = given;
	limit.rlim_cur = limit.rlim_max;
	/* refused: dlp_fdlimit_check() says whether that matters */
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

void dlp_fdlimit_restore(void)
{
	if (given_known)
		(void)setrlimit(RLIMIT_NOFILE, &given);
}

/* -errno when that cannot be told. */
static long open_cnt(void)
{
	DIR *dir = opendir("/proc/self/fd");
	long cnt = 0;

	if (!dir)
		return -errno;
	while (readdir(dir))
		cnt++;
	closedir(dir);
	/* ".", ".." and the folder itself */
	return cnt - 3;
}

int dlp_fdlimit_check(char *error, size_t error_size)
{
	unsigned long wanted = FDS_FIXED + FDS_PER_CPU * (unsigned long)sysconf(_SC_NPROCESSORS_CONF);
	long used = open_cnt();
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	if (used == -EMFILE)
		used = (long)limit.rlim_cur;
	/* without /proc nothing is observed anyway, and others say so */
	if (used < 0 || (unsigned long)used + wanted <= limit.rlim_cur)
		return 0;
	(void)snprintf(error, error_size,
		       "too few open files are allowed: the limit is %lu, %ld are open, observing takes "
		       "%lu more; raise it, for instance with 'ulimit -n 4096'",
		       (unsigned long)limit.rlim_cur, used, wanted);
	return -EMFILE;
}
