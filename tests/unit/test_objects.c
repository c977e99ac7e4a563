/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of what this very process has open, and of its peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "objects.h"

static struct dlp_objects *objects;
static struct dlp_thread thread;
static char name[160];
static bool is_path;

static int setup(void **state)
{
	(void)state;
	thread = (struct dlp_thread){ .tgid = (uint32_t)getpid(), .dev = 1 };
	return dlp_objects_new("", &objects);
}

static int teardown(void **state)
{
	(void)state;
	dlp_objects_free(objects);
	return 0;
}

static const char *ask(void)
{
	is_path = false;
	return dlp_objects_name(objects, &thread, name, sizeof(name), &is_path);
}

static void test_file(void **state)
{
	char path[] = "/tmp/dlp-objects-\001-XXXXXX";
	int fd = mkstemp(path);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	thread.state = DLP_ST_DISK;
	thread.object = st.st_ino;
	assert_non_null(ask());
	assert_true(is_path);
	/* what the job named so must not reach the terminal as it is */
	path[strlen("/tmp/dlp-objects-")] = '?';
	assert_string_equal(name, path);
	close(fd);
	path[strlen("/tmp/dlp-objects-")] = '\001';
	assert_int_equal(unlink(path), 0);
	/* answers are kept for a while, then asked for again */
	assert_non_null(ask());
	for (int i = 0; i < 40; i++)
		dlp_objects_age(objects);
	assert_null(ask());
}

static void test_peer(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(to);
	char wanted[40];
	struct stat st;

	(void)state;
	assert_int_equal(bind(server, (struct sockaddr *)&to, size), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&to, &size), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&to, size), 0);
	assert_int_equal(fstat(client, &st), 0);
	thread.state = DLP_ST_NET;
	thread.object = st.st_ino;
	assert_non_null(ask());
	assert_false(is_path);
	(void)snprintf(wanted, sizeof(wanted), "127.0.0.1:%u", ntohs(to.sin_port));
	assert_string_equal(name, wanted);
	close(client);
	close(server);
}

static void test_nothing(void **state)
{
	(void)state;
	/* no such file; a futex's address; a state that waits for nothing with a name; no process */
	thread.state = DLP_ST_DISK;
	thread.object = UINT64_MAX;
	assert_null(ask());
	thread.state = DLP_ST_LOCK;
	thread.dev = 0;
	assert_null(ask());
	thread.state = DLP_ST_PIPE;
	assert_null(ask());
	thread.state = DLP_ST_NET;
	thread.tgid = 0x7ffffffe;
	assert_null(ask());
}

/* However many threads wait for however many things, an interval has a bounded number of questions. */
static void test_budget(void **state)
{
	FILE *file = tmpfile();
	struct stat st;

	(void)state;
	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	thread.state = DLP_ST_DISK;
	for (uint64_t i = 0; i < 8; i++) {
		thread.object = UINT64_MAX - i;
		assert_null(ask());
	}
	/* one that has an answer must wait for the next interval */
	thread.object = st.st_ino;
	assert_null(ask());
	dlp_objects_age(objects);
	assert_non_null(ask());
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
