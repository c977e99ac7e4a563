/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fsname.h"
#include "util.h"

static void test_numbers(void **state)
{
	/* as statfs(2) of the man-pages lists them */
	static const struct {
		uint32_t magic;
		const char *name;
	} known[] = {
		{ 0xef53, "ext4" },	    { 0x58465342, "xfs" },	{ 0x9123683e, "btrfs" },
		{ 0x6969, "nfs" },	    { 0x65735546, "fuse" },	{ 0x794c7630, "overlay" },
		{ 0x01021994, "tmpfs" },    { 0xff534d42, "cifs" },	{ 0xfe534d42, "smb2" },
		{ 0x00c36400, "ceph" },	    { 0x0bd00bd0, "lustre" },	{ 0x01021997, "9p" },
		{ 0x5346414f, "afs" },	    { 0x73717368, "squashfs" }, { 0x50495045, "pipefs" },
		{ 0x534f434b, "sockfs" },
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(known); i++)
		assert_string_equal(dlp_fsname(known[i].magic, buf, sizeof(buf)), known[i].name);
	assert_null(dlp_fsname(0, buf, sizeof(buf)));
	assert_string_equal(dlp_fsname(0xdeadbeef, buf, sizeof(buf)), "0xdeadbeef");
}

static const char *name_of(int fd, char *buf, size_t size)
{
	struct statfs st;

	assert_true(fd >= 0);
	assert_int_equal(fstatfs(fd, &st), 0);
	return dlp_fsname((uint32_t)st.f_type, buf, size);
}

/* The running kernel's own numbers. */
static void test_kernel(void **state)
{
	int ends[2], proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int memory = memfd_create("test", MFD_CLOEXEC);
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char buf[16];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_string_equal(name_of(proc, buf, sizeof(buf)), "proc");
	assert_string_equal(name_of(memory, buf, sizeof(buf)), "tmpfs");
	assert_string_equal(name_of(sock, buf, sizeof(buf)), "sockfs");
	assert_string_equal(name_of(ends[0], buf, sizeof(buf)), "pipefs");
	close(proc);
	close(memory);
	close(sock);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
