/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Command lines, right and wrong; a refusal names what is wrong in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cli.h"
#include "util.h"

static struct dlp_options options;
static char error[512];

/* Splits at blanks; getopt may write to the vector, not to the words. */
static int parse(const char *line)
{
	static char words[512];
	char *argv[32] = { "dlprof-bpf" }, *save = NULL;
	int argc = 1;

	assert_true(strlen(line) < sizeof(words));
	strcpy(words, line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	*error = '\0';
	return dlp_cli_parse(argc, argv, &options, error, sizeof(error));
}

static void refuse(const char *line, const char *named)
{
	assert_int_equal(parse(line), -EINVAL);
	if (!strstr(error, named))
		fail_msg("no '%s' in: %s", named, error);
	assert_non_null(strstr(error, "try 'dlprof-bpf --help'"));
	assert_null(strchr(error, '\n'));
	assert_true(strlen(error) < 300);
}

static void test_defaults(void **state)
{
	(void)state;
	assert_int_equal(parse("--pid 4711"), 0);
	assert_int_equal(options.pid, 4711);
	assert_int_equal(options.duration_ns, 0);
	assert_int_equal(options.interval_ns, DLP_NS_PER_S);
	assert_int_equal(options.long_wait_ns, DLP_NS_PER_MS);
	assert_int_equal(options.ring_bytes, 4 << 20);
	assert_int_equal(options.without, 0);
	assert_null(options.summary);
	assert_null(options.events);
	assert_false(options.quiet || options.help || options.version);
}

static void test_everything(void **state)
{
	(void)state;
	assert_int_equal(
		parse("--pid=1 --duration 0.5 --summary out.json --events ev.txt --interval 250ms "
		      "--without queue-uprobe --without=scopes --long-wait 2ms --ring-size 64K "
		      "--quiet"),
		0);
	assert_int_equal(options.pid, 1);
	assert_int_equal(options.duration_ns, 500 * DLP_NS_PER_MS);
	assert_string_equal(options.summary, "out.json");
	assert_string_equal(options.events, "ev.txt");
	assert_int_equal(options.interval_ns, 250 * DLP_NS_PER_MS);
	assert_int_equal(options.without, DLP_FEATURE_BIT(QUEUE_UPROBE) | DLP_FEATURE_BIT(SCOPES));
	assert_int_equal(options.long_wait_ns, 2 * DLP_NS_PER_MS);
	assert_int_equal(options.ring_bytes, 64 << 10);
	assert_true(options.quiet);
	/* the last one counts */
	assert_int_equal(parse("--pid 1 --pid 2"), 0);
	assert_int_equal(options.pid, 2);
}

static void test_without_names(void **state)
{
	static const struct {
		const char *name;
		unsigned int bit;
	} names[] = {
		{ "queue-uprobe", DLP_FEATURE_BIT(QUEUE_UPROBE) },
		{ "queue-syscall", DLP_FEATURE_BIT(QUEUE_SYSCALL) },
		{ "task-storage", DLP_FEATURE_BIT(TASK_STORAGE) },
		{ "block", DLP_FEATURE_BIT(BLOCK) },
		{ "process", DLP_FEATURE_BIT(PROCESS) },
		{ "waits", DLP_FEATURE_BIT(WAITS) },
		{ "clock-iter", DLP_FEATURE_BIT(CLOCK_ITER) },
		{ "scopes", DLP_FEATURE_BIT(SCOPES) },
		{ "clocks", DLP_FEATURE_BIT(CLOCKS) },
		{ "iterators", DLP_FEATURE_BIT(ITERATORS) },
		{ "others", DLP_FEATURE_BIT(OTHERS) },
	};

	(void)state;
	assert_int_equal(DLP_ARRAY_SIZE(names), DLP_FEATURE_MAX);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(names); i++) {
		char line[64];

		(void)snprintf(line, sizeof(line), "--pid 1 --without %s", names[i].name);
		assert_int_equal(parse(line), 0);
		assert_int_equal(options.without, names[i].bit);
	}
	refuse("--pid 1 --without gravity", "gravity");
	refuse("--pid 1 --without gravity", "clock-iter");
}

static void test_refused(void **state)
{
	(void)state;
	refuse("", "--pid");
	refuse("--duration 3", "--pid");
	refuse("--pid", "--pid");
	refuse("--pid 0", "0");
	refuse("--pid -5", "-5");
	refuse("--pid 12x", "12x");
	refuse("--pid 4294967296", "4294967296");
	refuse("--pid 1 --nonsense", "--nonsense");
	refuse("--pid 1 --nonsense=3", "--nonsense");
	refuse("--pid 1 -x", "-x");
	refuse("--pid 1 -xyz", "-x");
	refuse("--pid 1 --quiet=3", "--quiet");
	refuse("--pid 1 --duration never", "never");
	refuse("--pid 1 --duration 0", "'0'");
	refuse("--pid 1 --duration 1e30", "too long");
	refuse("--pid 1 --interval 99ms", "100ms");
	refuse("--pid 1 --long-wait -1", "-1");
	refuse("--pid 1 --summary=", "no file name");
	/* made by later versions; here they are words like any other */
	refuse("replay run.dlp", "replay");
	refuse("report", "report");
	refuse("--pid 1 --record run.dlp", "--record");
	refuse("--pid 1 -- python train.py", "python");
	/* what the user typed goes to a terminal */
	refuse("--pid 1 --without \033[31mred", "'?[31mred'");
}

static void test_ring_size(void **state)
{
	(void)state;
	assert_int_equal(parse("--pid 1 --ring-size 4096"), 0);
	assert_int_equal(options.ring_bytes, 4096);
	assert_int_equal(parse("--pid 1 --ring-size 16M"), 0);
	assert_int_equal(options.ring_bytes, 16 << 20);
	assert_int_equal(parse("--pid 1 --ring-size 2048M"), 0);
	assert_int_equal(options.ring_bytes, 1u << 31);
	refuse("--pid 1 --ring-size 4096M", "4096M");
	refuse("--pid 1 --ring-size 2048", "2048");
	refuse("--pid 1 --ring-size 5000", "5000");
	refuse("--pid 1 --ring-size 3M", "3M");
	refuse("--pid 1 --ring-size M", "'M'");
	refuse("--pid 1 --ring-size 0", "'0'");
	refuse("--pid 1 --ring-size 1G", "1G");
	refuse("--pid 1 --ring-size 99999999999999999999999999", "9999");
}

static void test_help_and_version(void **state)
{
	(void)state;
	assert_int_equal(parse("--help"), 0);
	assert_true(options.help);
	assert_int_equal(parse("--version"), 0);
	assert_true(options.version);
	assert_int_equal(parse("--help --nonsense"), 0);
	refuse("--nonsense --help", "--nonsense");
}

static void test_help_text(void **state)
{
	static const char *const words[] = {
		"--pid PID",
		"--duration SECONDS",
		"--summary FILE",
		"--events FILE",
		"--interval SECONDS",
		"--without NAME",
		"--long-wait DURATION",
		"--ring-size BYTES",
		"--quiet",
		"--version",
		"--help",
		"queue-uprobe",
		"queue-syscall",
		"task-storage",
		"clock-iter",
		"Exit status",
	};
	char *text = NULL, *save = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	dlp_cli_help(out);
	fclose(out);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(words); i++) {
		if (!strstr(text, words[i]))
			fail_msg("no '%s' in the help", words[i]);
	}
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		assert_true(strlen(line) <= 90);
		assert_true(line[strlen(line) - 1] != ' ');
	}
	free(text);
}

static void test_small_error_buffer(void **state)
{
	char *argv[] = { "dlprof-bpf", "--without", "nonsense", NULL };
	char small[8];

	(void)state;
	assert_int_equal(dlp_cli_parse(3, argv, &options, small, sizeof(small)), -EINVAL);
	assert_int_equal(strlen(small), sizeof(small) - 1);
	assert_int_equal(dlp_cli_parse(0, argv, &options, small, sizeof(small)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),      cmocka_unit_test(test_everything),
		cmocka_unit_test(test_without_names), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ring_size),     cmocka_unit_test(test_help_and_version),
		cmocka_unit_test(test_help_text),     cmocka_unit_test(test_small_error_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
