/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Privileges that are given up, each time in a process made for it, and told by what the kernel
 * says of that process and by what it lets it do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "privileges.h"
#include "smallfile.h"
#include "stats_switch.h"
#include "tree.h"
#include "wholefile.h"

/* Everybody's "nobody". */
#define USER 65534
#define KEPT (DLP_CAP_BIT(CAP_BPF) | DLP_CAP_BIT(CAP_PERFMON) | DLP_CAP_BIT(CAP_CHECKPOINT_RESTORE))
#define OTHERS_JOB (DLP_CAP_BIT(CAP_SYS_PTRACE) | DLP_CAP_BIT(CAP_DAC_READ_SEARCH))

static struct tree tree;

/* In the child a failed expectation is an exit status, and the line where it is. */
#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #condition,    \
				      errno);                                                      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void in_child(void (*function)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		function();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void need_root(void)
{
	uint64_t caps;

	if (geteuid() || dlp_privileges_effective(&caps) || (caps & KEPT) != KEPT ||
	    (caps & OTHERS_JOB) != OTHERS_JOB) {
		print_message("needs root with its capabilities\n");
		skip();
	}
}

static uint64_t status_number(const char *key, int base)
{
	char text[4096];
	const char *at;

	EXPECT(!dlp_smallfile_read("/proc/thread-self/status", text, sizeof(text)));
	at = dlp_smallfile_value(text, key);
	EXPECT(at);
	return strtoull(at, NULL, base);
}

static void expect_caps(uint64_t permitted, uint64_t effective)
{
	uint64_t got;

	EXPECT(status_number("CapPrm", 16) == permitted);
	EXPECT(status_number("CapEff", 16) == effective);
	EXPECT(!dlp_privileges_effective(&got) && got == effective);
}

/* What exec could give, and what others may do to this process. */
static void expect_locked(void)
{
	EXPECT(!status_number("CapInh", 16) && !status_number("CapAmb", 16));
	EXPECT(!status_number("CapBnd", 16));
	EXPECT(status_number("NoNewPrivs", 10) == 1);
	EXPECT(prctl(PR_GET_DUMPABLE) == 0);
}

static void expect_user(uid_t wanted)
{
	uid_t real, effective, saved;
	gid_t groups[2];

	EXPECT(!getresuid(&real, &effective, &saved));
	EXPECT(real == wanted && effective == wanted && saved == wanted);
	EXPECT(!getresgid(&real, &effective, &saved));
	EXPECT(real == wanted && effective == wanted && saved == wanted);
	/* at most the user's own group: root's are gone */
	EXPECT(getgroups(2, groups) <= 1);
	EXPECT(setuid(0) && errno == EPERM);
}

static void set_invoker(void)
{
	char id[16];

	(void)snprintf(id, sizeof(id), "%d", USER);
	EXPECT(!setenv("SUDO_UID", id, 1) && !setenv("SUDO_GID", id, 1));
}

/* A process of that user that waits until it is killed, at the latest with its parent. */
static pid_t start_job(uid_t uid)
{
	int fds[2], life[2];
	pid_t pid;
	char byte;

	EXPECT(!pipe(fds) && !pipe(life));
	pid = fork();
	if (!pid) {
		(void)close(life[1]);
		if (setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1) ||
		    write(fds[1], "", 1) != 1)
			_exit(1);
		/* a signal for the parent's death would need the rights that the parent gives up */
		while (read(life[0], &byte, 1) < 0)
			;
		_exit(0);
	}
	EXPECT(pid > 0 && read(fds[0], &byte, 1) == 1);
	return pid;
}

static void settle_with(const pid_t *jobs, size_t cnt)
{
	EXPECT(!dlp_privileges_lower());
	EXPECT(!dlp_privileges_settle(jobs, cnt));
	expect_locked();
}

static void own_job(void)
{
	pid_t job = start_job(USER), self = getpid();

	set_invoker();
	settle_with(&job, 1);
	expect_caps(KEPT, KEPT);
	expect_user(USER);
	EXPECT(!kill(job, SIGKILL));
	/* again, as when another process turns out to train: nothing comes back */
	settle_with(&self, 1);
	expect_caps(KEPT, KEPT);
}

static void job_of_another(void)
{
	pid_t job = start_job(0);
	char path[64];
	int fd;

	set_invoker();
	settle_with(&job, 1);
	expect_caps(KEPT | OTHERS_JOB, KEPT | OTHERS_JOB);
	expect_user(USER);
	(void)snprintf(path, sizeof(path), "/proc/%d/io", (int)job);
	fd = open(path, O_RDONLY);
	EXPECT(fd >= 0 && read(fd, path, 1) == 1);
	/* it may be looked at, and no more */
	EXPECT(kill(job, SIGKILL) && errno == EPERM);
	EXPECT(open("/proc/sys/kernel/core_pattern", O_WRONLY) < 0);
}

/* Of several the one that needs most decides, wherever it stands. */
static void several_jobs(void)
{
	pid_t jobs[] = { start_job(USER), start_job(0), start_job(USER) };

	set_invoker();
	settle_with(jobs, 3);
	expect_caps(KEPT | OTHERS_JOB, KEPT | OTHERS_JOB);
	EXPECT(!kill(jobs[0], SIGKILL) && !kill(jobs[2], SIGKILL));
}

static void root_without_sudo(void)
{
	pid_t job = start_job(USER);

	EXPECT(!unsetenv("SUDO_UID"));
	settle_with(&job, 1);
	expect_caps(KEPT | OTHERS_JOB, KEPT | OTHERS_JOB);
	EXPECT(getuid() == 0);
	EXPECT(kill(job, SIGKILL) && errno == EPERM);
}

static void job_that_is_gone(void)
{
	pid_t job = fork();

	if (!job)
		_exit(0);
	EXPECT(waitpid(job, NULL, 0) == job);
	set_invoker();
	settle_with(&job, 1);
	expect_caps(KEPT, KEPT);
}

static void test_settle(void **state)
{
	(void)state;
	need_root();
	in_child(own_job);
	in_child(job_of_another);
	in_child(several_jobs);
	in_child(root_without_sudo);
	in_child(job_that_is_gone);
}

static void nothing(void)
{
	EXPECT(!dlp_privileges_only(0));
	expect_caps(0, 0);
	EXPECT(status_number("NoNewPrivs", 10) == 1);
	EXPECT(!dlp_privileges_raise());
	expect_caps(0, 0);
}

/* Whoever runs the tests. */
static void test_only(void **state)
{
	(void)state;
	assert_true(dlp_privileges_start_ok());
	in_child(nothing);
}

static void rest(void)
{
	uint64_t before;
	char path[4096 + 32];

	EXPECT(!dlp_privileges_effective(&before));
	(void)snprintf(path, sizeof(path), "%s/shut", tree.path);
	EXPECT(!mkdir(path, 0700));
	set_invoker();
	EXPECT(!dlp_privileges_lower());
	expect_caps(before, 0);
	expect_user(USER);
	EXPECT(access(path, R_OK) && errno == EACCES);
	EXPECT(!dlp_privileges_raise());
	expect_caps(before, before);
}

static void test_lower(void **state)
{
	(void)state;
	need_root();
	in_child(rest);
}

/* ---- files of the end ------------------------------------------------------------------------ */

static void file_path(char *path, size_t size, const char *name)
{
	EXPECT(snprintf(path, size, "%s/%s", tree.path, name) < (int)size);
}

static void make_file(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	EXPECT(file && fputs(text, file) >= 0 && !fclose(file) && !chmod(path, mode));
}

static void expect_file(const char *path, const char *text, uid_t owner)
{
	struct stat st;
	char got[64];

	EXPECT(!dlp_smallfile_read(path, got, sizeof(got)) && !strcmp(got, text));
	EXPECT(!stat(path, &st) && st.st_uid == owner);
}

static void in_own_folder(void)
{
	char path[4200];

	file_path(path, sizeof(path), "open/a.json");
	set_invoker();
	EXPECT(!dlp_privileges_lower());
	EXPECT(dlp_wholefile_may(path));
	EXPECT(!dlp_wholefile_write(path, -1, "{}\n"));
	expect_file(path, "{}\n", USER);
	/* over the old one */
	EXPECT(dlp_wholefile_may(path));
	EXPECT(!dlp_wholefile_write(path, -1, "[]\n"));
	expect_file(path, "[]\n", USER);
}

/* Root's folder, a file of root's that only root may write, in a sticky folder, and a new one. */
static void in_roots_folder(void)
{
	static const char *const names[] = { "shut/old.json", "shut/new.json", "sticky/old.json" };
	char path[4200];

	file_path(path, sizeof(path), "shut/old.json");
	make_file(path, "something that is longer\n", 0600);
	file_path(path, sizeof(path), "sticky/old.json");
	make_file(path, "something that is longer\n", 0644);
	set_invoker();
	EXPECT(!dlp_privileges_lower());
	for (size_t i = 0; i < 3; i++) {
		bool is_new = strstr(names[i], "new");
		int fd;

		file_path(path, sizeof(path), names[i]);
		EXPECT(!dlp_wholefile_may(path));
		EXPECT(!dlp_privileges_raise());
		fd = dlp_wholefile_hold(path);
		EXPECT(fd >= 0);
		/* nothing is lost while nothing is written */
		expect_file(path, is_new ? "" : "something that is longer\n", is_new ? USER : 0);
		EXPECT(!dlp_privileges_lower());
		EXPECT(!dlp_wholefile_write(path, fd, "{}\n"));
		EXPECT(!dlp_privileges_raise());
		expect_file(path, "{}\n", is_new ? USER : 0);
		EXPECT(!dlp_privileges_lower());
	}
}

static void special(void)
{
	set_invoker();
	EXPECT(!dlp_privileges_lower());
	EXPECT(dlp_wholefile_may("/dev/null"));
	EXPECT(!dlp_wholefile_may("/no/such/folder"));
	EXPECT(!dlp_wholefile_write("/dev/null", -1, "{}\n"));
	EXPECT(dlp_wholefile_write("/dev/full", -1, "{}\n") == -ENOSPC);
}

static void test_files(void **state)
{
	char path[4200];

	(void)state;
	need_root();
	assert_int_equal(chmod(tree.path, 0755), 0);
	file_path(path, sizeof(path), "open");
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 0777), 0);
	file_path(path, sizeof(path), "shut");
	assert_int_equal(mkdir(path, 0700), 0);
	file_path(path, sizeof(path), "sticky");
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 01777), 0);
	in_child(in_own_folder);
	in_child(in_roots_folder);
	in_child(special);
}

/* ---- the switch ------------------------------------------------------------------------------ */

/* The kernel's own word, as root sees it: 1 when somebody has switched them on. */
static void test_switch(void **state)
{
	struct dlp_stats_switch *stats = NULL;
	uint64_t caps;

	(void)state;
	assert_int_equal(dlp_privileges_effective(&caps), 0);
	if (!(caps & DLP_CAP_BIT(CAP_SYS_ADMIN))) {
		assert_int_equal(dlp_stats_switch_new(&stats), -EPERM);
		assert_null(stats);
		return;
	}
	assert_int_equal(dlp_stats_switch_new(&stats), 0);
	assert_true(dlp_stats_switch_set(stats, true));
	assert_true(dlp_stats_switch_set(stats, true));
	assert_false(dlp_stats_switch_set(stats, false));
	assert_true(dlp_stats_switch_set(stats, true));
	dlp_stats_switch_free(stats);
	dlp_stats_switch_free(NULL);
}

static int start(void **state)
{
	(void)state;
	tree_init(&tree);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tree_fini(&tree);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only),
		cmocka_unit_test_setup_teardown(test_lower, start, end),
		cmocka_unit_test(test_settle),
		cmocka_unit_test_setup_teardown(test_files, start, end),
		cmocka_unit_test(test_switch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
