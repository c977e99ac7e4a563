/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands that are started: their ends, what they are given, and the signals passed on to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fdlimit.h"
#include "invoker.h"
#include "launch.h"
#include "tree.h"
#include "util.h"

/* A command that hangs fails the test instead of stopping it. */
#define LONG_MS 20000

static struct tree tree;
static struct dlp_launch launch;
static char error[512];
static sigset_t given_mask;

static int start(void **state)
{
	(void)state;
	sigemptyset(&given_mask);
	sigprocmask(SIG_SETMASK, &given_mask, NULL);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	tree_init(&tree);
	/* other users write there, too */
	return chmod(tree.path, 0777);
}

static int end(void **state)
{
	(void)state;
	tree_fini(&tree);
	return 0;
}

static int run(const char *script)
{
	char *argv[] = { "sh", "-c", (char *)script, NULL };
	int status;

	/* a command before it has left them blocked; the tool starts only one */
	sigprocmask(SIG_SETMASK, &given_mask, NULL);
	status = dlp_launch_start(argv, &launch, error, sizeof(error));
	if (status)
		fail_msg("%d: %s", status, error);
	assert_true(launch.pid > 0);
	assert_true(dlp_launch_ended(&launch, LONG_MS));
	return dlp_launch_finish(&launch);
}

/* What the script has left in the file "out". */
static const char *output(void)
{
	static char text[256];
	FILE *file = fopen(tree_path(&tree, "out"), "r");
	size_t bytes;

	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	fclose(file);
	return text;
}

static void exit_statuses_are_a_shells(void **state)
{
	uint64_t before = dlp_now_ns();

	(void)state;
	assert_int_equal(run("exit 0"), 0);
	assert_true(launch.launched_ns >= before && launch.launched_ns <= dlp_now_ns());
	assert_int_equal(launch.pid_fd, -1);
	assert_int_equal(launch.signal_fd, -1);
	assert_int_equal(run("exit 3"), 3);
	assert_int_equal(run("kill -9 $$"), 137);
	assert_int_equal(run("kill -TERM $$"), 143);
}

/* Ours is raised; a program that uses select() must not be handed numbers it cannot take. */
static void limits_of_files_are_those_given(void **state)
{
	struct rlimit given, low;
	char script[128];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &given), 0);
	low = (struct rlimit){ .rlim_cur = 77, .rlim_max = given.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	dlp_fdlimit_raise();
	(void)snprintf(script, sizeof(script), "ulimit -n >%s/out", tree.path);
	assert_int_equal(run(script), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &given), 0);
	assert_string_equal(output(), "77\n");
}

static int refused(const char *name)
{
	char *argv[] = { (char *)name, NULL };
	int status = dlp_launch_start(argv, &launch, error, sizeof(error));

	assert_int_not_equal(status, 0);
	assert_null(strchr(error, '\n'));
	assert_null(strchr(error, '\033'));
	/* nobody is left to be waited for */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return status;
}

static void what_cannot_run_is_said(void **state)
{
	(void)state;
	assert_int_equal(refused("/no/such/program"), DLP_LAUNCH_NOT_FOUND);
	assert_string_equal(error, "cannot run '/no/such/program': No such file or directory");
	assert_int_equal(refused("/no/such\033[31m"), DLP_LAUNCH_NOT_FOUND);
	assert_int_equal(refused("/"), DLP_LAUNCH_CANNOT_RUN);
	assert_string_equal(error, "cannot run '/': Permission denied");
	tree_text(&tree, "plain", "echo\n");
	assert_int_equal(refused(tree_path(&tree, "plain")), DLP_LAUNCH_CANNOT_RUN);
}

static void sudo_changes_the_path(void **state)
{
	const char *given = getenv("PATH");
	char *path = strdup(given ? given : "");

	(void)state;
	assert_non_null(path);
	setenv("PATH", tree.path, 1);
	setenv("SUDO_UID", "x", 1);
	assert_int_equal(refused("trainer"), DLP_LAUNCH_NOT_FOUND);
	assert_non_null(strstr(error, "$(which trainer)"));
	setenv("PATH", path, 1);
	free(path);
}

static void waiting_ends_in_time(void **state)
{
	char *argv[] = { "sleep", "100", NULL };
	uint64_t before;

	(void)state;
	assert_int_equal(dlp_launch_start(argv, &launch, error, sizeof(error)), 0);
	before = dlp_now_ns();
	assert_false(dlp_launch_ended(&launch, 0));
	assert_false(dlp_launch_ended(&launch, 30));
	assert_true(dlp_now_ns() - before >= 30 * DLP_NS_PER_MS);
	assert_int_equal(kill(launch.pid, SIGKILL), 0);
	assert_int_equal(dlp_launch_finish(&launch), 137);
}

/* The command is in our group, and gets what we had been given. */
static void signal_settings_are_handed_down(void **state)
{
	char script[512], wanted[128];

	(void)state;
	sigaddset(&given_mask, SIGUSR1);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	(void)snprintf(script, sizeof(script),
		       "set -- $(ps -o pgid= -p $$); (echo $1; "
		       "grep -E '^Sig(Blk|Ign):' /proc/self/status | tr '\\t' ' ') >%s/out",
		       tree.path);
	/* ignored, its exit status would be lost */
	assert_int_equal(run("exit 4"), 4);
	signal(SIGCHLD, SIG_IGN);
	assert_int_equal(run(script), 0);
	/* bit number - 1 */
	(void)snprintf(wanted, sizeof(wanted), "%d\nSigBlk: %016llx\n", (int)getpgrp(),
		       1ull << (SIGUSR1 - 1));
	assert_memory_equal(output(), wanted, strlen(wanted));
	assert_true(strtoull(strstr(output(), "SigIgn: ") + 8, NULL, 16) & 1u << (SIGHUP - 1));
	signal(SIGHUP, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
}

static void signals_are_passed_on(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
	char script[512];
	char *argv[] = { "sh", "-c", script, NULL };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(signals); i++) {
		(void)snprintf(script, sizeof(script),
			       "trap 'echo got >>%s/out; exit %zu' %d; : >%s/out; "
			       "while :; do sleep 0.01; done",
			       tree.path, 10 + i, signals[i], tree.path);
		(void)unlink(tree_path(&tree, "out"));
		sigprocmask(SIG_SETMASK, &given_mask, NULL);
		assert_int_equal(dlp_launch_start(argv, &launch, error, sizeof(error)), 0);
		while (access(tree_path(&tree, "out"), F_OK))
			assert_false(dlp_launch_ended(&launch, 5));
		assert_int_equal(kill(getpid(), signals[i]), 0);
		assert_true(dlp_launch_ended(&launch, LONG_MS));
		assert_int_equal(dlp_launch_finish(&launch), 10 + i);
		/* once */
		assert_string_equal(output(), "got\n");
	}
}

static void nobody_else_without_sudo(void **state)
{
	struct dlp_invoker invoker;
	static const struct {
		const char *uid, *gid;
	} wrong[] = {
		{ NULL, "100" }, { "100", NULL },	  { "", "100" },	   { "-1", "100" },
		{ "1x", "100" }, { "4294967295", "100" }, { "4294967296", "100" }, { "100", " 5" },
	};

	(void)state;
	assert_false(dlp_invoker_get(&invoker));
	for (size_t i = 0; i < DLP_ARRAY_SIZE(wrong); i++) {
		unsetenv("SUDO_UID");
		unsetenv("SUDO_GID");
		if (wrong[i].uid)
			setenv("SUDO_UID", wrong[i].uid, 1);
		if (wrong[i].gid)
			setenv("SUDO_GID", wrong[i].gid, 1);
		assert_false(dlp_invoker_get(&invoker));
	}
	setenv("SUDO_UID", "65534", 1);
	setenv("SUDO_GID", "65533", 1);
	/* whoever is not root has nothing to give */
	assert_int_equal(dlp_invoker_get(&invoker), !geteuid());
}

static void the_invoking_user_runs_it(void **state)
{
	char script[256];

	(void)state;
	if (geteuid()) {
		print_message("needs root\n");
		skip();
	}
	setenv("SUDO_UID", "65534", 1);
	setenv("SUDO_GID", "65533", 1);
	setenv("HOME", "/", 1);
	setenv("KEPT", "as it was", 1);
	(void)snprintf(
		script, sizeof(script),
		"(id -u; id -ru; id -g; id -G | tr ' ' '\\n' | grep -c '^0$'; echo \"$KEPT\") "
		">%s/out",
		tree.path);
	assert_int_equal(run(script), 0);
	assert_string_equal(output(), "65534\n65534\n65533\n0\nas it was\n");
	/* a user whom no database knows, neither */
	setenv("SUDO_UID", "3999999999", 1);
	(void)unlink(tree_path(&tree, "out"));
	assert_int_equal(run(script), 0);
	assert_string_equal(output(), "3999999999\n3999999999\n65533\n0\nas it was\n");
	unsetenv("KEPT");
}

static void files_are_given_to_the_invoking_user(void **state)
{
	_cleanup_close_ int fd = open(tree_path(&tree, "file"), O_WRONLY | O_CREAT, 0600);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(dlp_invoker_own(fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	if (geteuid()) {
		print_message("the rest needs root\n");
		skip();
	}
	setenv("SUDO_UID", "65534", 1);
	setenv("SUDO_GID", "65533", 1);
	assert_int_equal(dlp_invoker_own(fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65533);
	assert_true(dlp_invoker_own(-1) < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(exit_statuses_are_a_shells),
		TEST(limits_of_files_are_those_given),
		TEST(what_cannot_run_is_said),
		TEST(sudo_changes_the_path),
		TEST(waiting_ends_in_time),
		TEST(signal_settings_are_handed_down),
		TEST(signals_are_passed_on),
		TEST(nobody_else_without_sudo),
		TEST(the_invoking_user_runs_it),
		TEST(files_are_given_to_the_invoking_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
