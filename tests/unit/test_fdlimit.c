/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The limit of open files: raised for us, not for a command, and said to be too low beforehand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fdlimit.h"

#define NONE ((rlim_t)-1)

static rlim_t soft_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ? NONE : limit.rlim_cur;
}

static bool set_limit(rlim_t soft, rlim_t hard)
{
	const struct rlimit limit = { .rlim_cur = soft, .rlim_max = hard };

	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* In a process of its own, since a hard limit cannot be raised again. */
static void in_child(bool (*holds)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(holds() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool raises_and_restores(void)
{
	if (!set_limit(40, 300))
		return false;
	dlp_fdlimit_raise();
	if (soft_limit() != 300)
		return false;
	/* what it was is what the first call has seen */
	dlp_fdlimit_raise();
	dlp_fdlimit_restore();
	return soft_limit() == 40;
}

static void test_raise(void **state)
{
	(void)state;
	in_child(raises_and_restores);
}

static bool check_says(const char *part)
{
	char error[512] = "";

	return dlp_fdlimit_check(error, sizeof(error)) == -EMFILE && strstr(error, part) &&
	       strstr(error, "ulimit -n") && !strchr(error, '\n');
}

static bool tells_low_limits(void)
{
	return set_limit(64, 64) && check_says("the limit is 64,") && set_limit(20, 20) &&
	       check_says("the limit is 20,") && set_limit(3, 3) && check_says("3 are open");
}

static void test_low(void **state)
{
	(void)state;
	in_child(tells_low_limits);
}

/* What is open already takes room, too. */
static bool counts_open_files(void)
{
	rlim_t wanted = 60;
	char error[512];
	int fd;

	while (set_limit(wanted, 4096) && dlp_fdlimit_check(error, sizeof(error)))
		wanted++;
	if (wanted < 100 || wanted >= 4096)
		return false;
	fd = open("/dev/null", O_RDONLY);
	return fd >= 0 && dlp_fdlimit_check(error, sizeof(error)) == -EMFILE &&
	       set_limit(wanted + 1, 4096) && !dlp_fdlimit_check(error, sizeof(error));
}

static void test_open_files(void **state)
{
	(void)state;
	in_child(counts_open_files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raise),
		cmocka_unit_test(test_low),
		cmocka_unit_test(test_open_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
