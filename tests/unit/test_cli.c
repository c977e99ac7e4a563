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
	/* a command is borrowed from both */
	static char words[512], *argv[64] = { "dlprof-bpf" };
	char *save = NULL;
	int argc = 1;

	assert_true(strlen(line) < sizeof(words));
	strcpy(words, line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
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
	assert_int_equal(options.window_ns, 30 * DLP_NS_PER_S);
	assert_int_equal(options.long_wait_ns, DLP_NS_PER_MS);
	assert_int_equal(options.ring_bytes, 4 << 20);
	assert_int_equal(options.without, 0);
	assert_int_equal(options.max_overhead_ppm, 10000);
	assert_null(options.summary);
	assert_null(options.events);
	assert_false(options.quiet || options.lines || options.help || options.version);
}

static void test_everything(void **state)
{
	(void)state;
	assert_int_equal(
		parse("--pid=1 --duration 0.5 --summary out.json --events ev.txt --interval 250ms "
		      "--without queue-uprobe --without=scopes --long-wait 2ms --ring-size 64K "
		      "--quiet --lines"),
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
	assert_true(options.lines);
	/* the last one counts */
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

static void test_pids(void **state)
{
	(void)state;
	assert_int_equal(parse("--pid 7"), 0);
	assert_int_equal(options.pids.cnt, 1);
	assert_int_equal(options.pid, 7);
	assert_int_equal(parse("--pid 7 --pid 3,9 --pid 7,2147483647"), 0);
	assert_int_equal(options.pid, 7);
	assert_int_equal(options.pids.cnt, 4);
	assert_int_equal(options.pids.pid[1], 3);
	assert_int_equal(options.pids.pid[2], 9);
	assert_int_equal(options.pids.pid[3], 2147483647);
	assert_int_equal(parse("--pid 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 --pid 16"), 0);
	assert_int_equal(options.pids.cnt, 16);
	refuse("--pid 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 --pid 17", "more than 16");
	refuse("--pid 1,", "not a process id");
	refuse("--pid ,1", "not a process id");
	refuse("--pid 1,,2", "not a process id");
	refuse("--pid 1,0", "not a process id");
	refuse("--pid 1,2147483648", "not a process id");
	refuse("--pid 1,000000000000000000002", "not a process id");
	assert_int_equal(parse("doctor --pid 1"), 0);
	refuse("doctor --pid 1,2", "one process");
}

static void test_labels(void **state)
{
	char line[512] = "--pid 1";

	(void)state;
	assert_int_equal(parse("--pid 1"), 0);
	assert_int_equal(options.label_cnt, 0);
	assert_int_equal(parse("--pid 1 --labels load* --labels=?tep"), 0);
	assert_int_equal(options.label_cnt, 2);
	assert_string_equal(options.labels[0], "load*");
	assert_string_equal(options.labels[1], "?tep");
	refuse("--pid 1 --labels=", "no pattern");
	for (int i = 0; i < DLP_LABEL_GLOBS_MAX; i++)
		strcat(line, " --labels=x");
	assert_int_equal(parse(line), 0);
	strcat(line, " --labels=y");
	refuse(line, "more than 16");
}

static void test_fail_if(void **state)
{
	char line[600] = "--pid 1";

	(void)state;
	assert_int_equal(parse("--pid 1 --fail-if exposed_wait>0.2 --fail-if stalled"), 0);
	assert_int_equal(options.gate_cnt, 2);
	assert_string_equal(options.gate[0].text, "exposed_wait>0.2");
	assert_true(options.gate[0].limit == 0.2);
	assert_string_equal(dlp_gate_figure_name(options.gate[1].figure), "stalled");
	assert_int_equal(parse("--fail-if stalled -- python train.py"), 0);
	assert_int_equal(options.gate_cnt, 1);
	assert_int_equal(parse("replay a.dlp --fail-if batches_per_s<100"), 0);
	assert_int_equal(options.gate_cnt, 1);
	assert_string_equal(options.replay, "a.dlp");
	refuse("--pid 1 --fail-if", "--fail-if");
	refuse("--pid 1 --fail-if exposed_wait", "'exposed_wait': no > >= < or <=");
	refuse("--pid 1 --fail-if wait>0.2", "'wait>0.2': begins with none of exposed_wait, ");
	refuse("replay a.dlp --fail-if exposed_wait>20", "a share from 0 to 1");
	refuse("doctor --fail-if stalled", "--fail-if");
	for (int i = 0; i < DLP_GATES_MAX; i++)
		strcat(line, " --fail-if stalled");
	assert_int_equal(parse(line), 0);
	assert_int_equal(options.gate_cnt, DLP_GATES_MAX);
	strcat(line, " --fail-if stalled");
	refuse(line, "more than 16 conditions");
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
	refuse("--pid 1 --lines=3", "--lines");
	refuse("--pid 1 --duration never", "never");
	refuse("--pid 1 --duration 0", "'0'");
	refuse("--pid 1 --duration 1e30", "too long");
	refuse("--pid 1 --interval 99ms", "100ms");
	refuse("--pid 1 --getnext [ab", "[ab");
	refuse("--pid 1 --getnext=", "pattern");
	refuse("--pid 1 --getnext 0123456789012345678901234567890123456789012345678901234567890123",
	       "63 characters");
	refuse("--pid 1 --max-overhead 0", "0");
	refuse("--pid 1 --max-overhead 101", "101");
	refuse("--pid 1 --max-overhead 1e1", "1e1");
	refuse("--pid 1 --max-overhead -1", "-1");
	refuse("--pid 1 --max-overhead 1.2.3", "1.2.3");
	refuse("--pid 1 --max-overhead= ", "max-overhead");
	refuse("--pid 1 --long-wait -1", "-1");
	refuse("--pid 1 --summary=", "no file name");
	/* has options of its own and is taken out before; here it is a word like any other */
	refuse("report", "report");
	/* what the user typed goes to a terminal */
	refuse("--pid 1 --without \033[31mred", "'?[31mred'");
}

static void test_command(void **state)
{
	(void)state;
	assert_int_equal(parse("--duration 3 -- python train.py --pid 7 -- --epochs 3"), 0);
	assert_int_equal(options.pid, 0);
	assert_int_equal(options.duration_ns, 3 * DLP_NS_PER_S);
	assert_non_null(options.command);
	assert_string_equal(options.command[0], "python");
	assert_string_equal(options.command[3], "7");
	assert_string_equal(options.command[4], "--");
	assert_string_equal(options.command[6], "3");
	assert_null(options.command[7]);
	assert_int_equal(parse("-- --help"), 0);
	assert_false(options.help);
	assert_string_equal(options.command[0], "--help");
	assert_int_equal(parse("--pid 1"), 0);
	assert_null(options.command);

	refuse("--", "no command after '--'");
	refuse("--pid 1 --", "no command after '--'");
	refuse("--pid 1 -- python train.py", "--pid");
	refuse("python train.py", "put -- before it");
	refuse("python -- train.py", "python");
	/* here "--" is a file's name, and parts nothing */
	refuse("--summary -- python", "python");
	assert_int_equal(parse("--summary -- -- python"), 0);
	assert_string_equal(options.summary, "--");
	assert_string_equal(options.command[0], "python");
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
	assert_int_equal(parse("--list"), 0);
	assert_true(options.list);
	assert_int_equal(parse("--help --nonsense"), 0);
	refuse("--nonsense --help", "--nonsense");
}

static void test_help_text(void **state)
{
	static const char *const words[] = {
		"--pid PID",
		"-- COMMAND",
		"--duration SECONDS",
		"--summary FILE",
		"--events FILE",
		"--interval SECONDS",
		"--fail-if CONDITION",
		"--max-overhead PCT",
		"--without NAME",
		"--getnext GLOB",
		"--long-wait DURATION",
		"--ring-size BYTES",
		"--quiet",
		"--lines",
		"--list",
		"--json",
		"--version",
		"--help",
		"queue-uprobe",
		"queue-syscall",
		"task-storage",
		"clock-iter",
		"others\n",
		"dlprof-bpf report RECORDING",
		"dlprof-bpf diff A B",
		"Exit status",
		"Examples:",
	};
	char *text = NULL;
	size_t bytes, lines = 0;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	dlp_cli_help(out);
	fclose(out);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(words); i++) {
		if (!strstr(text, words[i]))
			fail_msg("no '%s' in the help", words[i]);
	}
	for (const char *line = text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(end - line <= 90);
		assert_true(end == line || end[-1] != ' ');
		lines++;
	}
	/* as many as a window of ordinary height shows */
	assert_true(lines <= 43);
	free(text);
}

static void test_record(void **state)
{
	(void)state;
	assert_int_equal(parse("--pid 1"), 0);
	assert_null(options.record);
	assert_null(options.replay);
	assert_int_equal(parse("--pid 1 --record a.dlp"), 0);
	assert_string_equal(options.record, "a.dlp");
	assert_int_equal(options.record_max, 0);
	assert_int_equal(parse("--pid 1 --record a.dlp --record-max 64M"), 0);
	assert_int_equal(options.record_max, 64 << 20);
	assert_int_equal(parse("--pid 1 --record a.dlp --record-max 2G"), 0);
	assert_int_equal(options.record_max, 2ull << 30);
	assert_int_equal(parse("--pid 1 --record a.dlp --record-max 8388608"), 0);
	refuse("--pid 1 --record a.dlp --record-max 8388607", "8388607");
	refuse("--pid 1 --record a.dlp --record-max 17G", "17G");
	refuse("--pid 1 --record a.dlp --record-max 8M1", "8M1");
	refuse("--pid 1 --record a.dlp --record-max 99999999999G", "99999999999G");
	refuse("--pid 1 --record a.dlp --record-max G", "'G'");
	refuse("--pid 1 --record-max 64M", "--record FILE");
	refuse("--pid 1 --record", "--record");
}

static void test_replay(void **state)
{
	(void)state;
	assert_int_equal(parse("replay a.dlp"), 0);
	assert_string_equal(options.replay, "a.dlp");
	assert_null(options.summary);
	assert_int_equal(parse("replay --summary s.json a.dlp --events e.txt"), 0);
	assert_string_equal(options.replay, "a.dlp");
	assert_string_equal(options.summary, "s.json");
	assert_string_equal(options.events, "e.txt");
	assert_int_equal(parse("replay a.dlp --summary s.json"), 0);
	assert_string_equal(options.summary, "s.json");
	assert_int_equal(parse("replay -- --odd-name"), 0);
	assert_string_equal(options.replay, "--odd-name");
	assert_int_equal(parse("replay --help"), 0);
	assert_true(options.help);
	refuse("replay", "no recording given");
	refuse("replay --summary s.json", "no recording given");
	refuse("replay a.dlp b.dlp", "'b.dlp'");
	refuse("replay a.dlp --pid 1", "--pid");
	refuse("replay --record b.dlp a.dlp", "--record");
	refuse("replay a.dlp --nonsense", "--nonsense");
	refuse("--pid 1 replay", "replay");
}

static void test_doctor(void **state)
{
	(void)state;
	assert_int_equal(parse("doctor"), 0);
	assert_true(options.doctor);
	assert_false(options.json);
	assert_int_equal(options.pid, 0);
	assert_int_equal(parse("doctor --json --pid 12"), 0);
	assert_true(options.json);
	assert_int_equal(options.pid, 12);
	assert_int_equal(parse("doctor --help"), 0);
	assert_true(options.help);
	refuse("doctor 12", "'12'");
	refuse("doctor --pid x", "'x'");
	refuse("doctor --summary s.json", "not for doctor");
	refuse("doctor -- true", "'true'");
	refuse("--json --pid 1", "only the command doctor");
	refuse("--pid 1 doctor", "doctor");
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
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_labels),	      cmocka_unit_test(test_command),
		cmocka_unit_test(test_record),	      cmocka_unit_test(test_replay),
		cmocka_unit_test(test_doctor),	      cmocka_unit_test(test_fail_if),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
