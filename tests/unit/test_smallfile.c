/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small text files: bounded, read again from the start, and numbers that are nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "smallfile.h"
#include "tree_fixture.h"
#include "util.h"

static void a_descriptor_is_read_again(void **state)
{
	char text[64];
	size_t bytes;
	int fd;

	(void)state;
	tree_text(&tree, "f", "one\n");
	fd = open(tree_path(&tree, "f"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(dlp_smallfile_text(fd, text, sizeof(text)), 0);
	assert_string_equal(text, "one\n");
	tree_text(&tree, "f", "two and more\n");
	assert_int_equal(dlp_smallfile_bytes(fd, text, sizeof(text), &bytes), 0);
	assert_string_equal(text, "two and more\n");
	assert_int_equal(bytes, 13);
	close(fd);
	assert_int_equal(dlp_smallfile_text(fd, text, sizeof(text)), -EBADF);
	assert_int_equal(dlp_smallfile_read(tree_path(&tree, "none"), text, sizeof(text)), -ENOENT);
	assert_int_equal(dlp_smallfile_read(tree.path, text, sizeof(text)), -EISDIR);
}

static void cut_lines_are_left_out(void **state)
{
	char text[12];

	(void)state;
	tree_text(&tree, "f", "a 1\nb 23\nc 456\n");
	assert_int_equal(dlp_smallfile_read(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "a 1\nb 23\n");
	/* exactly full: the last line is whole, but that cannot be known of a longer file */
	tree_text(&tree, "f", "0123456789\n");
	assert_int_equal(dlp_smallfile_read(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "0123456789\n");
	tree_text(&tree, "f", "one line that is too long");
	assert_int_equal(dlp_smallfile_read(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "");
	tree_text(&tree, "f", "%s", "");
	assert_int_equal(dlp_smallfile_read(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void numbers_stand_alone(void **state)
{
	static const char *const bad[] = { "",
					   " ",
					   "x",
					   "-1",
					   "+1",
					   "1x",
					   "0x10",
					   "1.5",
					   "\n1",
					   "18446744073709551616",
					   "99999999999999999999999999" };
	const char *text = " \t7 18446744073709551615\nrest", *at = text;
	uint64_t value = 0;

	(void)state;
	assert_true(dlp_smallfile_number(&at, &value));
	assert_int_equal(value, 7);
	assert_true(dlp_smallfile_number(&at, &value));
	assert_true(value == UINT64_MAX);
	assert_string_equal(at, "\nrest");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad); i++) {
		at = bad[i];
		assert_false(dlp_smallfile_number(&at, &value));
		assert_ptr_equal(at, bad[i]);
	}
}

static void keys_are_whole_and_begin_a_line(void **state)
{
	static const char text[] = "nr_throttled_x 1\nx nr_throttled 2\nnr_throttled 3\n"
				   "MemTotal:     44 kB\nbad -5\nempty\nlast\t6";
	uint64_t value = 0;

	(void)state;
	assert_true(dlp_smallfile_keyed(text, "nr_throttled", &value));
	assert_int_equal(value, 3);
	assert_true(dlp_smallfile_keyed(text, "MemTotal", &value));
	assert_int_equal(value, 44);
	assert_true(dlp_smallfile_keyed(text, "last", &value));
	assert_int_equal(value, 6);
	assert_false(dlp_smallfile_keyed(text, "bad", &value));
	assert_false(dlp_smallfile_keyed(text, "empty", &value));
	assert_false(dlp_smallfile_keyed(text, "nr_thrott", &value));
	assert_false(dlp_smallfile_keyed("", "x", &value));
	assert_null(dlp_smallfile_value(text, "2"));
	assert_string_equal(dlp_smallfile_value(text, "last"), "6");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(a_descriptor_is_read_again),
		TEST(cut_lines_are_left_out),
		TEST(numbers_stand_alone),
		TEST(keys_are_whole_and_begin_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
