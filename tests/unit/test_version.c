/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Versions of Python and torch from what their files and names say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fake_torch.h"
#include "util.h"
#include "version.h"

#define PID 100

static struct tree tree;
static struct elf_build build;
static struct dlp_proc_maps maps;
static struct dlp_process_view view;

static int start(void **state)
{
	(void)state;
	memset(&build, 0, sizeof(build));
	memset(&maps, 0, sizeof(maps));
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID, .ppid = 1, .comm = "python" });
	view = (struct dlp_process_view){ .root = tree.path, .pid = PID, .maps = &maps };
	return 0;
}

static int end(void **state)
{
	(void)state;
	elf_build_fini(&build);
	dlp_proc_maps_fini(&maps);
	tree_fini(&tree);
	return 0;
}

static void map_names(const char *names)
{
	char text[2048], copy[1024], *save = NULL;
	size_t len = 0;
	uint64_t addr = 0x10000;

	(void)snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%llx-%llx r-xp 0 08:01 %llu %s\n",
					(unsigned long long)addr, (unsigned long long)addr + 0x1000,
					(unsigned long long)addr, name);
		addr += 0x10000;
	}
	tree_write(&tree, "proc/100/maps", text, len);
	dlp_proc_maps_fini(&maps);
	assert_int_equal(dlp_proc_maps_read(tree.path, PID, &maps), 0);
}

static void versions_are_parsed(void **state)
{
	static const struct {
		const char *text;
		int major, minor, micro;
	} cases[] = {
		{ "2.13.0+cpu", 2, 13, 0 },	   { "1.13.0a0", 1, 13, 0 },
		{ "1.13.1+cu117", 1, 13, 1 },	   { "3.12", 3, 12, 0 },
		{ "2.1.0a0+git1234567", 2, 1, 0 }, { "2.5.1.post8", 2, 5, 1 },
		{ "10.20.30", 10, 20, 30 },	   { "2.7.x", 2, 7, 0 },
	};
	static const char *const bad[] = { "",	   "x",	  "2",	     "2.",	".5",
					   "-1.2", "2.x", "99999.1", "1.99999", " 2.1" };
	struct dlp_version version;

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		assert_true(dlp_version_parse(cases[i].text, &version));
		assert_int_equal(version.major, cases[i].major);
		assert_int_equal(version.minor, cases[i].minor);
		assert_int_equal(version.micro, cases[i].micro);
		assert_string_equal(version.text, cases[i].text);
	}
	for (size_t i = 0; i < DLP_ARRAY_SIZE(bad); i++)
		assert_false(dlp_version_parse(bad[i], &version));
	assert_true(dlp_version_parse("2.0\n\033[31m", &version));
	assert_string_equal(version.text, "2.0??[31m");
}

static void versions_are_compared(void **state)
{
	struct dlp_version version = { .major = 1, .minor = 13 }, none = { .major = 0 };

	(void)state;
	assert_true(dlp_version_at_least(&version, 1, 12));
	assert_true(dlp_version_at_least(&version, 1, 13));
	assert_false(dlp_version_at_least(&version, 1, 14));
	assert_false(dlp_version_at_least(&version, 2, 0));
	assert_true(dlp_version_at_least(&version, 0, 99));
	assert_false(dlp_version_at_least(&none, 1, 0));
}

static void version_files_are_read(void **state)
{
	struct dlp_version version;

	(void)state;
	/* a wheel of 2.13, Debian's 1.13, and forms of other builds */
	assert_true(dlp_version_from_py(
		"from typing import Optional\n\n"
		"__all__ = ['__version__', 'debug', 'cuda']\n__version__ = '2.13.0+cpu'\n",
		&version));
	assert_string_equal(version.text, "2.13.0+cpu");
	assert_true(dlp_version_from_py("__version__ = '1.13.0a0'\ndebug = False\n", &version));
	assert_string_equal(version.text, "1.13.0a0");
	assert_true(dlp_version_from_py("__version__: str = \"2.4\"", &version));
	assert_int_equal(version.minor, 4);
	assert_true(dlp_version_from_py("__version__=\t'2.4.1'", &version));
	assert_false(dlp_version_from_py("", &version));
	assert_false(dlp_version_from_py("__version__ = get()\n", &version));
	assert_false(dlp_version_from_py("__version__ = '2.4", &version));
	assert_false(dlp_version_from_py("__version__ = 'unknown'\n", &version));
	assert_false(dlp_version_from_py("__version_info__ = '2.4'\n", &version));
	assert_false(dlp_version_from_py("x__version__ = '2.4'\n", &version));
}

static void python_from(const char *names, const char *path, struct dlp_version *version)
{
	struct dlp_mapped python = { 0 };

	map_names(names);
	python.map = path ? dlp_mapped_find_path(&maps, path) : NULL;
	*version = (struct dlp_version){ 0 };
	dlp_version_python(&view, &python, version);
}

static void python_is_told_by_names(void **state)
{
	struct dlp_version version;

	(void)state;
	python_from("/usr/lib/libpython3.8.so.1.0", "/usr/lib/libpython3.8.so.1.0", &version);
	assert_int_equal(version.minor, 8);
	python_from("/usr/bin/python3.13t", "/usr/bin/python3.13t", &version);
	assert_int_equal(version.minor, 13);
	/* a name without a minor version says nothing; an extension does */
	python_from("/opt/python3 /x/_pickle.cpython-310-x86_64-linux-gnu.so", "/opt/python3",
		    &version);
	assert_string_equal(version.text, "3.10");
	python_from("/opt/app /x/_C.cpython-39-x86_64-linux-gnu.so", "/opt/app", &version);
	assert_int_equal(version.minor, 9);
	python_from("/opt/app /x/_C.abi3.so", "/opt/app", &version);
	assert_int_equal(version.major, 0);
	assert_string_equal(version.text, "");
}

static void the_symbol_beats_the_name(void **state)
{
	static const struct elf_build_sym syms[] = {
		{ .name = "Py_Version",
		  .where = ELF_IN_DATA,
		  .off = 0x10,
		  .size = 8,
		  .bind = STB_GLOBAL,
		  .type = STT_OBJECT,
		  .is_dynamic = true },
	};
	const uint64_t values[] = { 0x030c04f0, 0x99, UINT64_MAX };
	const char *const texts[] = { "3.12.4", "3.11", "3.11" };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(values); i++) {
		struct dlp_mapped python = { 0 };
		struct dlp_version version = { 0 };

		memcpy(build.data + 0x10, &values[i], 8);
		tree_text(&tree, "proc/100/maps", "%s", "");
		fake_map(&tree, PID, &build, syms, 1, FAKE_LIBPYTHON, 0x10000000, 0);
		elf_build_fini(&build);
		dlp_proc_maps_fini(&maps);
		assert_int_equal(dlp_proc_maps_read(tree.path, PID, &maps), 0);
		assert_int_equal(dlp_mapped_open(&view,
						 dlp_mapped_find(&maps, DLP_MAPPED_LIBPYTHON),
						 &python),
				 0);
		dlp_version_python(&view, &python, &version);
		assert_string_equal(version.text, texts[i]);
		dlp_mapped_fini(&python);
	}
}

static void free_threading_is_in_the_tag(void **state)
{
	(void)state;
	map_names("/x/_pickle.cpython-313-x86_64-linux-gnu.so /x/_test.so");
	assert_false(dlp_version_is_free_threaded(&maps));
	map_names("/x/a.so /x/_pickle.cpython-313t-x86_64-linux-gnu.so");
	assert_true(dlp_version_is_free_threaded(&maps));
}

static void torch_from(const char *names, struct dlp_version *version, const char *expected_package)
{
	char package[200];

	map_names(names);
	*version = (struct dlp_version){ 0 };
	dlp_version_torch(&view, version, package, sizeof(package));
	assert_string_equal(package, expected_package);
}

static void torch_is_told_by_its_package(void **state)
{
	struct dlp_version version;

	(void)state;
	tree_text(&tree, "rootfs/v/torch/version.py", "__version__ = '2.5.1'\n");
	torch_from("/v/torch/lib/libtorch_cpu.so", &version, "/v/torch");
	assert_string_equal(version.text, "2.5.1");
	/* as Debian has it: libraries elsewhere, the extension module in the package */
	torch_from("/lib/libtorch_python.so.1.13 /v/torch/_C.so", &version, "/v/torch");
	assert_int_equal(version.minor, 5);
	/* a folder of the user's with the same name, and another package's */
	torch_from("/u/torch/x.so /u/torch/v/torch/_C.so /v/torch/_C.so", &version,
		   "/v/torch");
	assert_int_equal(version.minor, 5);
	torch_from("/v/torchvision/_C.so /lib/libtorch.so", &version, "");
	assert_int_equal(version.major, 0);
}

/* Links are the target's: an absolute one starts at its root, not at ours. */
static void version_files_stay_in_the_targets_root(void **state)
{
	struct dlp_version version;

	(void)state;
	tree_text(&tree, "rootfs/store/version.py", "__version__ = '2.6.0'\n");
	tree_link(&tree, "rootfs/v/torch/version.py", "/store/version.py");
	torch_from("/v/torch/_C.so", &version, "/v/torch");
	assert_string_equal(version.text, "2.6.0");
	tree_text(&tree, "outside.py", "__version__ = '9.9.9'\n");
	tree_link(&tree, "rootfs/v/torch/version.py", tree_path(&tree, "outside.py"));
	torch_from("/v/torch/_C.so", &version, "");
	assert_int_equal(version.major, 0);
	tree_link(&tree, "rootfs/v/torch/version.py", "../../../outside.py");
	torch_from("/v/torch/_C.so", &version, "");
	assert_int_equal(version.major, 0);
}

/* After chroot the paths that we see begin outside of the target's root. */
static void version_files_behind_chroot(void **state)
{
	struct dlp_version version;
	char names[256], package[200];

	(void)state;
	tree_text(&tree, "rootfs/v/torch/version.py", "__version__ = '2.6.0'\n");
	(void)snprintf(package, sizeof(package), "%s", tree_path(&tree, "rootfs/v/torch"));
	(void)snprintf(names, sizeof(names), "%s/_C.so", package);
	torch_from(names, &version, package);
	assert_string_equal(version.text, "2.6.0");
	/* a folder outside whose name begins like that of the root */
	tree_text(&tree, "rootfs/-v/torch/version.py", "__version__ = '9.9.9'\n");
	(void)snprintf(names, sizeof(names), "%s/torch/_C.so", tree_path(&tree, "rootfs-v"));
	torch_from(names, &version, "");
	assert_int_equal(version.major, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(versions_are_parsed),	    TEST(versions_are_compared),
		TEST(version_files_are_read),	    TEST(python_is_told_by_names),
		TEST(the_symbol_beats_the_name),    TEST(free_threading_is_in_the_tag),
		TEST(torch_is_told_by_its_package), TEST(version_files_stay_in_the_targets_root),
		TEST(version_files_behind_chroot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
