/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of what each system call can wait for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "syscalls.h"

static struct dlp_config cfg;

static int configure(void **state)
{
	(void)state;
	dlp_syscalls_configure(&cfg);
	return 0;
}

static void classes(void **state)
{
	static const struct {
		int number;
		enum dlp_syscall_class class;
	} cases[] = {
		{ SYS_read, DLP_SC_FD },	    { SYS_pread64, DLP_SC_FD },
		{ SYS_write, DLP_SC_FD },	    { SYS_recvfrom, DLP_SC_FD },
		{ SYS_sendfile, DLP_SC_FD1 },	    { SYS_fsync, DLP_SC_SYNC },
		{ SYS_fdatasync, DLP_SC_SYNC },	    { SYS_futex, DLP_SC_FUTEX },
		{ SYS_ppoll, DLP_SC_PPOLL },	    { SYS_pselect6, DLP_SC_SELECT },
		{ SYS_epoll_pwait, DLP_SC_EPOLL },  { SYS_clock_nanosleep, DLP_SC_SLEEP },
		{ SYS_openat, DLP_SC_PATH },	    { SYS_flock, DLP_SC_LOCK },
		{ SYS_fcntl, DLP_SC_FCNTL },	    { SYS_munmap, DLP_SC_LOCK },
		{ SYS_wait4, DLP_SC_CHILD },	    { SYS_io_uring_enter, DLP_SC_AIO },
		/* what never waits for anything */
		{ SYS_getpid, DLP_SC_OTHER },	    { SYS_gettid, DLP_SC_OTHER },
		{ SYS_exit_group, DLP_SC_OTHER },
#ifdef SYS_poll
		{ SYS_poll, DLP_SC_POLL },	    { SYS_select, DLP_SC_SELECT },
		{ SYS_epoll_wait, DLP_SC_EPOLL },   { SYS_pause, DLP_SC_SLEEP },
		{ SYS_open, DLP_SC_PATH },	    { SYS_stat, DLP_SC_PATH },
#endif
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cfg.syscall_class[cases[i].number] != cases[i].class)
			fail_msg("call %d has class %u", cases[i].number,
				 cfg.syscall_class[cases[i].number]);
	}
}

static void numbers_of_the_syscall_rung(void **state)
{
	(void)state;
	assert_int_equal(cfg.nr_read, SYS_read);
	assert_int_equal(cfg.nr_write, SYS_write);
}

/* A class and no name, or a name and no class, would be one table out of step with itself. */
static void names_and_classes_agree(void **state)
{
	size_t named = 0;

	(void)state;
	for (int i = 0; i < DLP_SYSCALL_MAX; i++) {
		const char *name = dlp_syscall_name(i);

		assert_non_null(name);
		if ((cfg.syscall_class[i] != DLP_SC_OTHER) != (name[0] != '\0'))
			fail_msg("call %d, class %u, is named '%s'", i, cfg.syscall_class[i], name);
		for (int k = 0; k < i && name[0]; k++)
			assert_string_not_equal(name, dlp_syscall_name(k));
		named += name[0] != '\0';
	}
	assert_true(named > 60);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(dlp_syscall_name(SYS_read), "read");
	assert_string_equal(dlp_syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
	assert_string_equal(dlp_syscall_name(-1), "page fault");
	assert_string_equal(dlp_syscall_name(-1000), "page fault");
	assert_string_equal(dlp_syscall_name(DLP_SYSCALL_MAX), "");
	assert_string_equal(dlp_syscall_name(1 << 30), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),
		cmocka_unit_test(numbers_of_the_syscall_rung),
		cmocka_unit_test(names_and_classes_agree),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests_name("syscalls", tests, configure, NULL);
}
