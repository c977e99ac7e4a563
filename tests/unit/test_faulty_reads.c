/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The n-th read, or opening, fails, and all after it, for every n; or reads are interrupted and give
 * a part. What could not be read is an error, and is never taken for something that is not there;
 * what comes in pieces is the same. Recordings, /proc, control groups, ELF files and a whole target.
 * Linked with --wrap, see faulty_io.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose.h"
#include "elf_sym.h"
#include "fake_torch.h"
#include "faulty_io.h"
#include "procfs.h"
#include "replay_file.h"
#include "sysfacts.h"
#include "target.h"
#include "text.h"
#include "tree.h"
#include "util.h"

#define PID 100
#define EXE "/usr/bin/python3.11"
#define RECORDING "tests/data/no_workers.dlp"

static struct tree tree;
static char error[512];

/* What an operation has made of what it read, and what it is when nothing fails. */
static char *got, *wanted;

static void forget(char **text)
{
	free(*text);
	*text = NULL;
}

static void keep_as_wanted(int result)
{
	assert_int_equal(result, 0);
	assert_non_null(got);
	forget(&wanted);
	wanted = got;
	got = NULL;
}

/* A failed read is an error, and all else as it should be. */
static void check(int result, bool failed)
{
	if (failed != (result != 0))
		fail_msg("a call has%s failed, the result is %d: %s", failed ? "" : " not", result, got);
	if (!result)
		assert_string_equal(got, wanted);
	forget(&got);
}

static void check_all(unsigned int which, size_t least, int (*operation)(void))
{
	keep_as_wanted(operation());
	faulty_each(which, EIO, least, operation, check);
	faulty_pieces(FAULTY_READS, operation, check);
	forget(&wanted);
}

/* ---- recordings -------------------------------------------------------------------------------- */

static int print_replay(struct dlp_replay *replay)
{
	struct dlp_verdict verdict;
	size_t bytes;
	FILE *out = open_memstream(&got, &bytes);

	assert_non_null(out);
	dlp_diagnose(replay->model, NULL, &verdict);
	dlp_text_summary(out, replay->model, &verdict, &replay->facts.facts);
	fprintf(out, "%llu events\n", (unsigned long long)replay->event_cnt);
	return fclose(out);
}

static int replay(void)
{
	struct dlp_replay *replay = calloc(1, sizeof(*replay));
	struct dlp_replay_file file;
	int err;

	assert_non_null(replay);
	assert_int_equal(dlp_model_new(&replay->model), 0);
	err = dlp_replay_file_open(&file, RECORDING, error, sizeof(error));
	if (err) {
		assert_true(*error && !strchr(error, '\n'));
	} else {
		faulty_hear();
		err = dlp_replay_file_load(&file, replay, RECORDING);
		assert_int_equal(err != 0, *faulty_heard() != '\0');
		if (!err)
			err = print_replay(replay);
		dlp_replay_file_close(&file);
	}
	dlp_model_free(replay->model);
	free(replay);
	return err;
}

static void test_replay(void **state)
{
	(void)state;
	check_all(FAULTY_READS | FAULTY_OPENS, 5, replay);
}

/* ---- /proc ------------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static int tell(const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&got, format, args);
	va_end(args);
	assert_true(len >= 0);
	return 0;
}

static int read_stat(void)
{
	struct dlp_proc_stat stat;
	int err = dlp_proc_stat(tree.path, PID, &stat);

	return err ? err : tell("%s %d %c", stat.comm, (int)stat.ppid, stat.state);
}

static int read_status(void)
{
	struct dlp_proc_status status;
	int err = dlp_proc_status(tree.path, PID, &status);

	return err ? err : tell("%d %u", (int)status.tgid, (unsigned int)status.uid);
}

static int read_cmdline(void)
{
	char text[256];
	size_t bytes;
	int err = dlp_proc_cmdline(tree.path, PID, text, sizeof(text), &bytes);

	return err ? err : tell("%zu %s", bytes, text);
}

static int read_environ(void)
{
	char text[256];
	size_t bytes;
	int err = dlp_proc_environ(tree.path, PID, text, sizeof(text), &bytes);

	return err ? err : tell("%zu %s", bytes, text);
}

static int read_container(void)
{
	char text[256];
	int err = dlp_proc_container(tree.path, PID, text, sizeof(text));

	return err ? err : tell("%s", text);
}

static int read_io(void)
{
	uint64_t bytes;
	int err = dlp_proc_read_bytes(tree.path, PID, &bytes);

	return err ? err : tell("%llu", (unsigned long long)bytes);
}

static int read_maps(void)
{
	_cleanup_maps_ struct dlp_proc_maps maps = { 0 };
	int err = dlp_proc_maps_read(tree.path, PID, &maps);

	return err ? err :
		     tell("%zu, the last at %llx %s", maps.cnt,
			  (unsigned long long)maps.map[maps.cnt - 1].start,
			  maps.map[maps.cnt - 1].path);
}

static void test_proc(void **state)
{
	static int (*const readers[])(void) = { read_stat,    read_status,    read_cmdline,
						read_environ, read_container, read_io,
						read_maps };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(readers); i++)
		check_all(FAULTY_READS | FAULTY_OPENS, 2, readers[i]);
}

/* ---- the system's figures ---------------------------------------------------------------------- */

static struct dlp_ev_system figures, all_figures;

static int read_system(void)
{
	struct dlp_sysfacts *facts;
	int err = dlp_sysfacts_new(tree.path, PID, &facts);

	if (err)
		return err;
	memset(&figures, 0, sizeof(figures));
	dlp_sysfacts_read(facts, 1, &figures);
	dlp_sysfacts_free(facts);
	/* of the machine that runs the test, and changing */
	figures.known &= ~(uint32_t)DLP_SYS_SHM;
	figures.shm_total = figures.shm_free = 0;
	return 0;
}

/* Each group of figures is right, or not known; then it is not there. */
static void check_system(int result, bool failed)
{
	assert_int_equal(result, 0);
	if (!failed || figures.known == all_figures.known) {
		figures.cpus_allowed = failed ? all_figures.cpus_allowed : figures.cpus_allowed;
		figures.cpus = failed && !figures.cpus ? all_figures.cpus : figures.cpus;
		assert_memory_equal(&figures, &all_figures, sizeof(figures));
		return;
	}
	assert_int_equal(figures.known & ~all_figures.known, 0);
	if (figures.known & DLP_SYS_MEM)
		assert_int_equal(figures.mem_available, all_figures.mem_available);
	if (figures.known & DLP_SYS_CPU)
		assert_int_equal(figures.busy_ns, all_figures.busy_ns);
}

static void test_system(void **state)
{
	(void)state;
	tree_text(&tree, "proc/stat", "cpu  1 20 300 4000 50000 600000 7000000 80000000 1 20\n");
	tree_text(&tree, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n"
					 "SwapTotal: 200 kB\nSwapFree: 50 kB\n");
	tree_text(&tree, "proc/vmstat", "pswpin 21\npgscan_direct 24\noom_kill 27\n");
	tree_text(&tree, "proc/pressure/cpu", "some avg10=1.50 avg60=0.00 avg300=0.00 total=31\n");
	tree_text(&tree, "proc/pressure/io", "some avg10=1.50 avg60=0.00 avg300=0.00 total=32\n");
	tree_text(&tree, "proc/pressure/memory", "some avg10=1.5 avg60=0.0 avg300=0.0 total=33\n");
	tree_text(&tree, "sys/devices/system/cpu/online", "0-1,4-6,13\n");
	assert_int_equal(read_system(), 0);
	all_figures = figures;
	assert_true(all_figures.known & DLP_SYS_MEM && all_figures.known & DLP_SYS_CPU);
	faulty_each(FAULTY_READS | FAULTY_OPENS, EIO, 10, read_system, check_system);
	faulty_pieces(FAULTY_READS, read_system, check_system);
}

/* ---- ELF files --------------------------------------------------------------------------------- */

static const struct elf_build_sym symbols[] = {
	FAKE_FUNC("first", 0x100, 0x40, true),
	FAKE_FUNC("second", 0x200, 0x40, true),
	FAKE_FUNC("local", 0x300, 0x40, false),
};

static int look_up(void)
{
	_cleanup_elf_ struct dlp_elf *elf = NULL;
	struct dlp_elf_sym second, local;
	int err;

	err = dlp_elf_open(tree_path(&tree, "library"), &elf);
	if (!err)
		err = dlp_elf_find(elf, DLP_ELF_FUNC, DLP_ELF_EXACT, "second", &second);
	if (!err)
		err = dlp_elf_find(elf, DLP_ELF_FUNC, DLP_ELF_PREFIX, "loc", &local);
	if (!err)
		return tell("%llx %s %llx %s", (unsigned long long)second.addr, second.name,
			    (unsigned long long)local.addr, local.name);
	/* never "not there" */
	assert_int_equal(err, -EIO);
	return err;
}

static void make_library(bool has_no_sections, bool has_sysv_hash)
{
	static struct elf_build build;

	memset(&build, 0, sizeof(build));
	fake_code(&build);
	build.sym = symbols;
	build.sym_cnt = has_no_sections ? 2 : 3;
	build.has_no_sections = has_no_sections;
	build.has_sysv_hash = has_sysv_hash;
	elf_build(&build);
	elf_build_write(&build, tree_path(&tree, "library"));
	elf_build_fini(&build);
}

static int look_up_dynamic(void)
{
	_cleanup_elf_ struct dlp_elf *elf = NULL;
	struct dlp_elf_sym first;
	int err;

	err = dlp_elf_open(tree_path(&tree, "library"), &elf);
	if (!err)
		err = dlp_elf_find(elf, DLP_ELF_FUNC, DLP_ELF_EXACT, "first", &first);
	if (!err)
		return tell("%llx %s", (unsigned long long)first.addr, first.name);
	assert_int_equal(err, -EIO);
	return err;
}

static void test_elf(void **state)
{
	(void)state;
	make_library(false, false);
	check_all(FAULTY_READS | FAULTY_OPENS, 8, look_up);
	for (int sysv = 0; sysv < 2; sysv++) {
		make_library(true, sysv);
		check_all(FAULTY_READS | FAULTY_OPENS, 5, look_up_dynamic);
	}
}

/* ---- a whole target ---------------------------------------------------------------------------- */

/* What a target does without is said here. */
static char notes[1024], all_notes[1024];

static int open_target(void)
{
	static struct dlp_target target;
	static struct dlp_target_failure failure;
	size_t bytes;
	FILE *out;

	if (dlp_target_open(tree.path, PID, &target, &failure)) {
		assert_true(*failure.text && !strchr(failure.text, '\n'));
		/* never what would send people to look for another process */
		if (failure.err != DLP_TARGET_IO && failure.err != DLP_TARGET_NO_PROBE)
			fail_msg("%d: %s", failure.err, failure.text);
		return -1;
	}
	out = open_memstream(&got, &bytes);
	assert_non_null(out);
	fprintf(out, "%s %s\n", target.comm, target.cmdline);
	for (size_t i = 0; i < target.probe_cnt; i++)
		fprintf(out, "%d %llx %s\n", target.probe[i].id,
			(unsigned long long)target.probe[i].offset, target.probe[i].symbol);
	(void)snprintf(notes, sizeof(notes), "%s|%s|%s|%s|%s", target.torch.text, target.python.text,
		       target.queue_note, target.iterator_note, target.gc_note);
	return fclose(out);
}

/* A probe that is not there is missed in a note. */
static void check_target(int result, bool failed)
{
	if (!failed) {
		assert_int_equal(result, 0);
		assert_string_equal(notes, all_notes);
	}
	if (!result && strcmp(notes, all_notes) == 0)
		assert_string_equal(got, wanted);
	forget(&got);
}

static void map(const struct elf_build_sym *sym, size_t cnt, const char *path, uint64_t addr)
{
	static struct elf_build build;

	memset(&build, 0, sizeof(build));
	fake_code(&build);
	fake_map(&tree, PID, &build, sym, cnt, path, addr, 0);
	elf_build_fini(&build);
}

static void test_target(void **state)
{
	static const struct elf_build_sym cpu[] = {
		FAKE_FUNC(SYM_ENTER_NEW_2_13, 0x100, 0x83, true),
		FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x200, 0x244, true),
	};
	static const struct elf_build_sym torch_python[] = {
		FAKE_FUNC(SYM_TO_CUSTOM_CLASS, 0x400, 0x5f5, true),
	};
	static const struct elf_build_sym libpython[] = {
		FAKE_FUNC("_Py_write", 0x100, 0x80, true),
	};

	(void)state;
	map(cpu, 2, FAKE_TORCH_CPU, 0x10000000);
	map(torch_python, 1, FAKE_TORCH_PYTHON, 0x20000000);
	map(libpython, 1, FAKE_LIBPYTHON, 0x30000000);
	tree_text(&tree, "rootfs" FAKE_PACKAGE "/version.py", "__version__ = '2.13.0'\n");
	keep_as_wanted(open_target());
	memcpy(all_notes, notes, sizeof(notes));
	faulty_each(FAULTY_READS, EIO, 20, open_target, check_target);
	faulty_each(FAULTY_OPENS, EMFILE, 5, open_target, check_target);
	faulty_pieces(FAULTY_READS, open_target, check_target);
	forget(&wanted);
}

/* ------------------------------------------------------------------------------------------------ */

static int start(void **state)
{
	(void)state;
	tree_init(&tree);
	tree_add_process(&tree, &(struct tree_process){ .pid = PID,
							.ppid = 1,
							.comm = "python",
							.exe = EXE,
							.cmdline = "python|train.py" });
	tree_text(&tree, "proc/100/environ", "RANK=3");
	tree_text(&tree, "proc/100/io", "rchar: 7\nread_bytes: 4096\n");
	tree_text(&tree, "proc/100/cgroup", "0::/docker/%064d\n", 7);
	tree_text(&tree, "proc/100/maps",
		  "1000-2000 r-xp 0 08:01 77 /usr/lib/libone.so\n"
		  "3000-4000 rw-p 0 08:01 78 /usr/lib/libtwo.so\n");
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
		cmocka_unit_test(test_replay), cmocka_unit_test(test_proc),
		cmocka_unit_test(test_system), cmocka_unit_test(test_elf),
		cmocka_unit_test(test_target),
	};

	return cmocka_run_group_tests(tests, start, end);
}
