/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Users and groups from files and from getent, and the C library's word on those of this machine. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tree_fixture.h"
#include "userdb.h"
#include "util.h"

static void expect_user(uid_t uid, const char *name, const char *home)
{
	struct dlp_user user;

	assert_int_equal(dlp_userdb_user(tree.path, uid, &user), 0);
	assert_string_equal(user.name, name);
	assert_string_equal(user.home, home);
}

static void expect_nobody(uid_t uid)
{
	struct dlp_user user;

	assert_int_equal(dlp_userdb_user(tree.path, uid, &user), -ENOENT);
	assert_string_equal(user.name, "");
	assert_string_equal(user.home, "");
}

/* A getent of the made-up machine: a shell script. */
static void add_getent(const char *script)
{
	tree_text(&tree, "usr/bin/getent", "#!/bin/sh\n%s\n", script);
	assert_int_equal(chmod(tree_path(&tree, "usr/bin/getent"), 0755), 0);
}

static void users_of_the_file(void **state)
{
	(void)state;
	expect_nobody(0);
	tree_text(&tree, "etc/passwd",
		  "# a remark\n"
		  "root:x:0:0:root:/root:/bin/sh\n"
		  "\n"
		  "short:x:1000:1000\n"
		  "nonumber:x:1000x:1000:::\n"
		  "minus:x:4294967295:1:::\n"
		  ":x:1001:1001::/nameless:\n"
		  "anna:x:1000:100:Anna,,,:/home/anna:/bin/bash\n"
		  "second:x:1000:100::/home/second:\n"
		  "last:x:2000:100::/home/last:/bin/sh");
	expect_user(0, "root", "/root");
	expect_user(1000, "anna", "/home/anna");
	expect_user(2000, "last", "/home/last");
	expect_nobody(1001);
	expect_nobody(3);
	expect_nobody(UINT32_MAX);
}

/* /etc/passwd with one long field in the first of two lines */
static void write_long(const char *before, size_t bytes, const char *after)
{
	size_t size = bytes + strlen(before) + strlen(after) + 1;
	_cleanup_free_ char *text = malloc(size);

	assert_non_null(text);
	(void)snprintf(text, size, "%s%*s%s", before, (int)bytes, "m", after);
	tree_write(&tree, "etc/passwd", text, strlen(text));
}

static void long_lines_hide_nothing(void **state)
{
	(void)state;
	write_long("a:x:1:1:", 200000, ":/a:\nb:x:2:2::/b:\n");
	expect_nobody(1);
	expect_user(2, "b", "/b");
	/* a name that does not fit is nobody's, a home that does not fit is none */
	write_long("", 300, ":x:1:1::/a:\nb:x:2:2::/b:\n");
	expect_nobody(1);
	expect_user(2, "b", "/b");
	write_long("a:x:1:1::/", 9000, ":\nb:x:2:2::/b:\n");
	expect_user(1, "a", "");
	expect_user(2, "b", "/b");
}

static void other_users_come_from_getent(void **state)
{
	(void)state;
	tree_text(&tree, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
	add_getent("[ \"$1 $2\" = 'passwd 1234' ] && [ -z \"$SUDO_UID$HOME\" ] || exit 2\n"
		   "echo 'ldap:*:1234:5:From the directory:/net/ldap:/bin/zsh'");
	assert_int_equal(setenv("SUDO_UID", "1234", 1), 0);
	expect_user(1234, "ldap", "/net/ldap");
	expect_user(0, "root", "/root");
	expect_nobody(1235);
	/* another's line is not believed */
	add_getent("echo 'liar:*:1:5::/:'");
	expect_nobody(1234);
	add_getent("exit 0");
	expect_nobody(1234);
	/* more than anybody will read: it gets SIGPIPE, and is waited for */
	add_getent("while :; do echo 'many:*:1:5::/:'; done");
	expect_nobody(1234);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void expect_groups(const char *name, gid_t gid, size_t max, const gid_t *wanted, size_t cnt)
{
	gid_t groups[8];
	size_t got;

	dlp_userdb_groups(tree.path, name, gid, groups, max, &got);
	assert_int_equal(got, cnt);
	assert_memory_equal(groups, wanted, cnt * sizeof(*groups));
}

static void groups_of_the_file(void **state)
{
	(void)state;
	expect_groups("anna", 100, 8, (gid_t[]){ 100 }, 1);
	tree_text(&tree, "etc/group",
		  "users:x:100:anna\n"
		  "video:x:44:bert,anna\n"
		  "damaged:x:anna\n"
		  "annas:x:45:annab,hanna\n"
		  "disk:x:6:\n"
		  "audio:x:29:anna,bert");
	expect_groups("anna", 100, 8, (gid_t[]){ 100, 44, 29 }, 3);
	expect_groups("bert", 5, 8, (gid_t[]){ 5, 44, 29 }, 3);
	expect_groups("anna", 100, 2, (gid_t[]){ 100, 44 }, 2);
	expect_groups("nobody", 7, 8, (gid_t[]){ 7 }, 1);
}

static void getent_knows_more_groups(void **state)
{
	(void)state;
	tree_text(&tree, "etc/group", "video:x:44:anna\n");
	add_getent("[ \"$1\" = initgroups ] && echo \"$2                  100 44 x 4294967295 70000\"");
	expect_groups("anna", 100, 8, (gid_t[]){ 100, 44, 70000 }, 3);
	/* one that does not know the word, and one that speaks of somebody else */
	add_getent("exit 1");
	expect_groups("anna", 100, 8, (gid_t[]){ 100, 44 }, 2);
	add_getent("echo 'bert 0'");
	expect_groups("anna", 100, 8, (gid_t[]){ 100, 44 }, 2);
}

/* All users of this machine's file, as the C library sees them. */
static void agrees_with_the_c_library(void **state)
{
	const struct passwd *entry;
	size_t seen = 0;

	(void)state;
	setpwent();
	while ((entry = getpwent()) && seen < 50) {
		gid_t wanted[64], got[64];
		int wanted_cnt = 64;
		struct dlp_user user;
		size_t cnt;

		assert_int_equal(dlp_userdb_user("", entry->pw_uid, &user), 0);
		assert_string_equal(user.home, entry->pw_dir);
		assert_string_equal(user.name, entry->pw_name);
		assert_true(getgrouplist(entry->pw_name, entry->pw_gid, wanted, &wanted_cnt) > 0);
		dlp_userdb_groups("", entry->pw_name, entry->pw_gid, got, 64, &cnt);
		assert_int_equal(cnt, wanted_cnt);
		assert_memory_equal(got, wanted, cnt * sizeof(*got));
		seen++;
	}
	endpwent();
	assert_true(seen > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(users_of_the_file),
		TEST(long_lines_hide_nothing),
		TEST(other_users_come_from_getent),
		TEST(groups_of_the_file),
		TEST(getent_knows_more_groups),
		TEST(agrees_with_the_c_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
