/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The decisions of the BPF programs that need no kernel, compiled natively. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <linux/magic.h>

#include <cmocka.h>

#include "../../bpf/logic.bpf.h"

#define EXT4 EXT4_SUPER_MAGIC
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Copied into the header, since BPF programs cannot include the C library's. */
static void file_types_are_those_of_stat(void **state)
{
	(void)state;
	assert_int_equal(DLP_S_IFMT, S_IFMT);
	assert_int_equal(DLP_S_IFSOCK, S_IFSOCK);
	assert_int_equal(DLP_S_IFREG, S_IFREG);
	assert_int_equal(DLP_S_IFBLK, S_IFBLK);
	assert_int_equal(DLP_S_IFDIR, S_IFDIR);
	assert_int_equal(DLP_S_IFCHR, S_IFCHR);
	assert_int_equal(DLP_S_IFIFO, S_IFIFO);
}

static void remote_file_systems(void **state)
{
	static const uint32_t remote[] = {
		FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
		SMB_SUPER_MAGIC, CEPH_SUPER_MAGIC, V9FS_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC,
		0x0bd00bd0 /* Lustre, not in the kernel's header */,
	};
	static const uint32_t local[] = {
		EXT4, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
		F2FS_SUPER_MAGIC, PIPEFS_MAGIC, 0,
	};

	(void)state;
	for (size_t i = 0; i < COUNT(remote); i++)
		assert_true(dlp_fs_is_remote(remote[i]));
	for (size_t i = 0; i < COUNT(local); i++)
		assert_false(dlp_fs_is_remote(local[i]));
}

static void state_of_a_file(void **state)
{
	static const struct {
		uint32_t mode, magic;
		int iowait, sync, af_local;
		uint32_t state;
	} cases[] = {
		/* files on a disk: waiting for it, for its journal, or for a lock of the inode */
		{ S_IFREG | 0644, EXT4, 1, 0, 0, DLP_ST_DISK },
		{ S_IFREG | 0644, EXT4, 0, 1, 0, DLP_ST_DISK },
		{ S_IFREG | 0644, EXT4, 0, 0, 0, DLP_ST_LOCK },
		{ S_IFDIR | 0755, EXT4, 1, 0, 0, DLP_ST_DISK },
		{ S_IFBLK | 0660, 0, 1, 0, 0, DLP_ST_DISK },
		/* elsewhere: whatever it waits with */
		{ S_IFREG, NFS_SUPER_MAGIC, 1, 0, 0, DLP_ST_FS },
		{ S_IFREG, NFS_SUPER_MAGIC, 0, 0, 0, DLP_ST_FS },
		{ S_IFREG, FUSE_SUPER_MAGIC, 0, 1, 0, DLP_ST_FS },
		{ S_IFDIR, CEPH_SUPER_MAGIC, 0, 0, 0, DLP_ST_FS },
		/* in_iowait decides before the descriptor does: a cold page is written into a pipe */
		{ S_IFIFO, PIPEFS_MAGIC, 0, 0, 0, DLP_ST_PIPE },
		{ S_IFIFO, PIPEFS_MAGIC, 1, 0, 0, DLP_ST_FAULT },
		{ S_IFSOCK, 0, 0, 0, 0, DLP_ST_NET },
		{ S_IFSOCK, 0, 0, 0, 1, DLP_ST_PIPE },
		{ S_IFSOCK, 0, 1, 0, 0, DLP_ST_FAULT },
		{ S_IFCHR, 0, 0, 0, 0, DLP_ST_OTHER },
		{ S_IFCHR, 0, 1, 0, 0, DLP_ST_FAULT },
		/* eventfd and its kind have no type */
		{ 0600, 0, 0, 0, 0, DLP_ST_PIPE },
		{ 0600, 0, 1, 0, 0, DLP_ST_FAULT },
		{ S_IFLNK, EXT4, 0, 0, 0, DLP_ST_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint32_t got = dlp_state_of_file(cases[i].mode, cases[i].magic, cases[i].iowait,
						 cases[i].sync, cases[i].af_local);

		if (got != cases[i].state)
			fail_msg("case %zu: state %u, not %u", i, got, cases[i].state);
	}
}

/* No combination may leave the range of states. */
static void every_mode_has_a_state(void **state)
{
	(void)state;
	for (uint32_t type = 0; type <= 017; type++) {
		for (int bits = 0; bits < 8; bits++) {
			assert_true(dlp_state_of_file(type << 12, EXT4, bits & 1, bits >> 1 & 1,
						      bits >> 2) < DLP_ST_MAX);
			assert_true(dlp_state_of_file(type << 12, NFS_SUPER_MAGIC, bits & 1,
						      bits >> 1 & 1, bits >> 2) < DLP_ST_MAX);
		}
	}
}

static void commands_of_fcntl(void **state)
{
	(void)state;
	/* F_SETLKW and F_OFD_SETLKW wait, their fellows do not */
	assert_true(dlp_fcntl_locks(7));
	assert_true(dlp_fcntl_locks(38));
	assert_false(dlp_fcntl_locks(5));
	assert_false(dlp_fcntl_locks(6));
	assert_false(dlp_fcntl_locks(37));
	assert_false(dlp_fcntl_locks(0));
	assert_false(dlp_fcntl_locks(7 | 1ull << 32));
}

/* Made with pickle.dumps(object, protocol) of CPython 3.11, first 16 bytes. */
static void pickles(void **state)
{
	static const struct {
		const char *what;
		uint8_t start[16];
		int indexed;
	} cases[] = {
		{ "(3, [1, 2, 3]), 4", { 0x80, 4, 0x95, 0xf, 0, 0, 0, 0, 0, 0, 0, 0x4b, 3, 0x5d, 0x94, 0x28 }, 1 },
		{ "(300, [1]), 4", { 0x80, 4, 0x95, 0xb, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x2c, 1, 0x5d, 0x94 }, 1 },
		{ "(70000, [1]), 5", { 0x80, 5, 0x95, 0xd, 0, 0, 0, 0, 0, 0, 0, 0x4a, 0x70, 0x11, 1, 0 }, 1 },
		{ "(2**40, [1]), 4", { 0x80, 4, 0x95, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x8a, 6, 0, 0, 0 }, 1 },
		{ "(3, None), 4", { 0x80, 4, 0x95, 6, 0, 0, 0, 0, 0, 0, 0, 0x4b, 3, 0x4e, 0x86, 0x94 }, 1 },
		{ "(3, [1]), 2: no frame", { 0x80, 2, 0x4b, 3, 0x5d, 0x71, 0, 0x4b, 1, 0x61, 0x86, 0x71, 1, 0x2e }, 1 },
		{ "(3, [1]), 3", { 0x80, 3, 0x4b, 3, 0x5d, 0x71, 0, 0x4b, 1, 0x61, 0x86, 0x71, 1, 0x2e }, 1 },
		{ "None, 4", { 0x80, 4, 0x4e, 0x2e }, 0 },
		{ "{'a': 1}, 4", { 0x80, 4, 0x95, 0xa, 0, 0, 0, 0, 0, 0, 0, 0x7d, 0x94, 0x8c, 1, 0x61 }, 0 },
		{ "('a', 1), 4", { 0x80, 4, 0x95, 9, 0, 0, 0, 0, 0, 0, 0, 0x8c, 1, 0x61, 0x94, 0x4b }, 0 },
		{ "(3, [1]), 1: no PROTO", { 0x28, 0x4b, 3, 0x5d, 0x71, 0, 0x4b, 1, 0x61, 0x74, 0x71, 1 }, 0 },
		{ "a protocol of the future", { 0x80, 6, 0x95, 0xf, 0, 0, 0, 0, 0, 0, 0, 0x4b, 3 }, 0 },
		{ "zeros", { 0 }, 0 },
		{ "text", "\x80text is no mark", 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (dlp_pickle_is_indexed(cases[i].start) != cases[i].indexed)
			fail_msg("%s", cases[i].what);
	}
}

static void big_endian(void **state)
{
	static const uint8_t bytes[] = { 0x01, 0x02, 0x03, 0x04 }, high[] = { 0xff, 0xff, 0xff, 0xfe };

	(void)state;
	assert_int_equal(dlp_be32(bytes), 0x01020304);
	assert_int_equal(dlp_be32(high), 0xfffffffe);
}

/* Every table size, each edge of each range and what is beside it. */
static void collector_ranges(void **state)
{
	static struct dlp_gc_code code;

	(void)state;
	assert_int_equal(dlp_gc_has(&code, 0), 0);
	for (uint32_t cnt = 1; cnt <= DLP_GC_RANGES_MAX; cnt++) {
		code.range[cnt - 1].lo = 100 * cnt;
		code.range[cnt - 1].hi = 100 * cnt + 50;
		code.cnt = cnt;
		for (uint32_t i = 1; i <= cnt; i++) {
			assert_int_equal(dlp_gc_has(&code, 100 * i - 1), 0);
			assert_int_equal(dlp_gc_has(&code, 100 * i), 1);
			assert_int_equal(dlp_gc_has(&code, 100 * i + 49), 1);
			assert_int_equal(dlp_gc_has(&code, 100 * i + 50), 0);
		}
		assert_int_equal(dlp_gc_has(&code, UINT64_MAX - 1000), 0);
		assert_int_equal(dlp_gc_has(&code, 0x100000000ull + 100), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_types_are_those_of_stat),
		cmocka_unit_test(remote_file_systems),
		cmocka_unit_test(state_of_a_file),
		cmocka_unit_test(every_mode_has_a_state),
		cmocka_unit_test(commands_of_fcntl),
		cmocka_unit_test(pickles),
		cmocka_unit_test(big_endian),
		cmocka_unit_test(collector_ranges),
	};

	return cmocka_run_group_tests_name("logic", tests, NULL, NULL);
}
