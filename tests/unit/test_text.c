/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What people read: exact lines for a plain job, and the rules for every line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job_fixture.h"
#include "text.h"

static struct job job;
static struct dlp_summary_facts facts;
static char *text;

static int setup(void **state)
{
	(void)state;
	job_init(&job);
	facts = (struct dlp_summary_facts){
		.version = "0.1",
		.target = &job.target,
		.scope_rung = "pair A",
		.queue_rung = "uprobe",
		.clock_rung = "task storage",
		.scope_probe_cnt = 3,
		.block_seen = true,
		.process_seen = true,
	};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

enum what { ATTACHED, INTERVAL, SUMMARY };

/* For every text: no control characters but newlines, no trailing blanks, ends with a newline. */
static const char *print(enum what what, size_t width)
{
	struct dlp_verdict verdict;
	size_t bytes, column = 0;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &bytes);
	assert_non_null(out);
	dlp_diagnose(&job.model, NULL, &verdict);
	if (what == ATTACHED)
		dlp_text_attached(out, &facts, JOB_WORKERS);
	else if (what == INTERVAL)
		dlp_text_interval(out, &job.model, &verdict);
	else
		dlp_text_summary(out, &job.model, &verdict, &facts);
	fclose(out);
	assert_true(bytes > 0 && text[bytes - 1] == '\n');
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		assert_true(c == '\n' || (c >= 0x20 && c != 0x7f));
		if (c == '\n') {
			assert_true(!i || text[i - 1] != ' ');
			if (column > width)
				fail_msg("%zu columns in: %s", column, text);
			column = 0;
		} else {
			column += (c & 0xc0) != 0x80;
		}
	}
	return text;
}

static size_t lines(const char *of)
{
	size_t cnt = 0;

	for (; *of; of++)
		cnt += *of == '\n';
	return cnt;
}

static void assert_has(const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in: %s", part, text);
}

static void test_attached(void **state)
{
	static const struct dlp_missing missing[] = { { "task storage", false },
						      { "block", true } };

	(void)state;
	assert_string_equal(
		print(ATTACHED, 400),
		"dlprof-bpf: pid 4711 (python train.py --epochs 3), Python 3.11.7, torch "
		"2.13.0+cpu, 2 workers; scopes: pair A (3 probes), queue: uprobe, clocks: task "
		"storage; missing: nothing\n");
	facts.missing = missing;
	facts.missing_cnt = 2;
	facts.queue_rung = NULL;
	facts.scope_rung = NULL;
	job.target.torch.text[0] = '\0';
	print(ATTACHED, 400);
	assert_has("missing: task storage, block\n");
	assert_has("queue: none");
	assert_has("scopes: none,");
	assert_has("torch (version unknown)");
}

static void test_hostile_names(void **state)
{
	(void)state;
	memset(job.target.cmdline, 'x', sizeof(job.target.cmdline));
	memcpy(job.target.cmdline, "a\033[2Jb\nc\xff", 9);
	/* not terminated, as a careless reader of /proc might leave it */
	memset(job.loader[0].type, 'y', sizeof(job.loader[0].type));
	memcpy(job.loader[0].type, "\033]0;\a", 5);
	memset(job.target.python.text, '\r', sizeof(job.target.python.text));
	print(ATTACHED, 400);
	assert_has("(a?[2Jb?c?xxx");
	assert_has("xxx...)");
	print(SUMMARY, 100);
	assert_has("?]0;?yyy");
}

static void test_interval(void **state)
{
	(void)state;
	assert_string_equal(
		print(INTERVAL, 200),
		"    12.0 s     12.0 batches/s  exposed  63.1 %  GetNext median 51.1 ms  p99 52.0 "
		"ms  workers: run 89 fault 5 runq 4 other 2 %              idle   5 %  "
		"data_loading: worker_cpu (high)\n");
}

static void test_interval_columns(void **state)
{
	const char *cell;
	long at;

	(void)state;
	at = strstr(print(INTERVAL, 200), "data_loading") - text;
	/* many states: four, then the rest */
	for (unsigned int i = 0; i < DLP_ST_MAX; i++)
		job.model.interval.workers.ns[i] = (100 + i) * DLP_NS_PER_MS;
	cell = strstr(print(INTERVAL, 200), "data_loading");
	assert_int_equal(cell - text, at);
	assert_has(" rest ");
	/* numbers of other sizes keep the columns */
	memset(&job.model.interval, 0, sizeof(job.model.interval));
	job.model.interval.start_ns = job.model.start_ns;
	job.model.interval.end_ns = job.model.start_ns + 100 * DLP_NS_PER_MS;
	job.model.interval.batches = 123456;
	job.model.interval.exposed_ns = 200 * DLP_NS_PER_MS;
	dlp_hist_add(&job.model.interval.getnext, 1);
	cell = strstr(print(INTERVAL, 200), "data_loading");
	assert_int_equal(cell - text, at);
	assert_has("exposed 100.0 %");
	assert_has("workers: -");
	assert_has("idle   - %");
	/* no interval yet */
	memset(&job.model.interval, 0, sizeof(job.model.interval));
	job.model.getnext_cnt = 0;
	cell = strstr(print(INTERVAL, 200), "insufficient_data\n");
	assert_int_equal(cell - text, at);
	/* an interval, but no GetNext in any yet: not known who trains */
	job.model.interval.start_ns = job.model.start_ns;
	job.model.interval.end_ns = job.model.end_ns;
	print(INTERVAL, 200);
	assert_has("exposed   0.0 %");
	job.model.main_valid = false;
	cell = strstr(print(INTERVAL, 200), "insufficient_data\n");
	assert_int_equal(cell - text, at);
	assert_has(" 0.0 batches/s  exposed     - %");
}

static void test_summary(void **state)
{
	static const char *const parts[] = {
		"Training waits 63 % of the time for data;",
		"data_loading: worker_cpu (high), severity high",
		"Evidence\n",
		"Advice\n",
		"Check: ",
		"Loaders (times: one GetNext)\n",
		"_MultiProcessingDataLoaderIter",
		"Workers",
		"  4712 ",
		"  4713 ",
		"85.0",
		"142 ms",
		"Lost:     nothing",
		"0.50 % of one CPU",
		"14 MiB",
		"pid 4711 (python train.py --epochs 3) for 12.0 s",
	};

	(void)state;
	print(SUMMARY, 100);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(parts); i++)
		assert_has(parts[i]);
	assert_true(strncmp(text, "\nTraining waits", 15) == 0);
	assert_true(lines(text) >= 15 && lines(text) <= 40);
}

static void test_summary_losses(void **state)
{
	static const struct dlp_missing missing[] = { { "block", true } };

	(void)state;
	job.model.counters.value[DLP_CNT_RING_FULL] = 12;
	job.model.counters.prog_run_cnt = 1000;
	job.model.counters.prog_run_ns = 12 * DLP_NS_PER_MS;
	job.model.counters.prog_sampled_ns = job.model.end_ns - job.model.start_ns;
	job.worker[1].died_ns = job.model.end_ns;
	job.worker[1].exit_code = 9;
	facts.missing = missing;
	facts.missing_cnt = 1;
	print(SUMMARY, 120);
	assert_has("figures may be short");
	assert_has("12 events that found the ring buffer full");
	assert_has("left out: block");
	assert_has("killed by signal 9");
	assert_has("ran 1000");
	assert_has("0.10 % of one CPU (kernel's BPF");
	/* nothing was read at all */
	memset(&job.model.counters, 0, sizeof(job.model.counters));
	print(SUMMARY, 120);
	assert_has("were not read");
	assert_has("itself was not measured");
}

static void test_summary_unknowns(void **state)
{
	(void)state;
	for (size_t i = 0; i < JOB_WORKERS; i++) {
		job.worker[i].clock_valid = false;
		job.worker[i].proven = false;
		memset(&job.worker[i].produce, 0, sizeof(job.worker[i].produce));
	}
	job.loader[0].num_workers = -1;
	memset(&job.loader[0].getnext, 0, sizeof(job.loader[0].getnext));
	facts.target = NULL;
	print(SUMMARY, 100);
	assert_has("     4712      1        -        -        -");
	assert_has("pid 4711 for 12.0 s");
}

static void test_many_rows(void **state)
{
	static struct dlp_worker workers[64];
	static struct dlp_loader loaders[20];

	(void)state;
	for (uint32_t i = 0; i < 64; i++) {
		workers[i] = job.worker[0];
		workers[i].pid += i;
	}
	for (uint32_t i = 0; i < 20; i++) {
		loaders[i] = job.loader[0];
		loaders[i].id = i + 1;
	}
	job.model.workers = workers;
	job.model.worker_cnt = 64;
	job.model.loaders = loaders;
	job.model.loader_cnt = 20;
	print(SUMMARY, 100);
	assert_has("and 52 more");
	assert_has("and 12 more");
	assert_true(lines(text) < 68);
}

static void test_loaders_alone(void **state)
{
	struct dlp_loader *second = &job.loader[1];

	(void)state;
	print(SUMMARY, 100);
	assert_null(strstr(text, "alone"));
	*second = job.loader[0];
	second->id = 2;
	memset(&second->sums, 0, sizeof(second->sums));
	job.model.loader_cnt = 2;
	print(SUMMARY, 100);
	assert_null(strstr(text, "alone"));
	second->sums.calls = second->sums.batches = 30;
	second->sums.getnext_ns = second->sums.produce_ns = job_ns(3);
	second->sums.init_ns = job_ns(0.6);
	second->sums.made.ns[DLP_ST_SLEEP] = job_ns(12);
	job.model.exposed_ns += second->sums.getnext_ns;
	print(SUMMARY, 100);
	assert_has("  loader 1 alone: training waits 63.0 % of the time; data_loading: worker_cpu "
		   "(high)\n"
		   "  loader 2 alone: training waits 30.0 % of the time; data_loading: sleep "
		   "(high)\n");
	/* one that was used too little to judge costs something as well */
	second->sums.calls = 1;
	second->sums.getnext_ns = second->sums.produce_ns = job_ns(0.012);
	second->sums.init_ns = 0;
	print(SUMMARY, 100);
	assert_has("  loader 2 alone: training waits 0.1 % of the time; insufficient_data\n");
}

static void test_stages(void **state)
{
	static struct dlp_stage stages[9];

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(stages); i++) {
		struct dlp_stage *stage = &stages[i];

		(void)snprintf(stage->label, sizeof(stage->label), "stage %zu", i);
		stage->worker = i % 2;
		stage->sum.cnt = 100 + i;
		stage->sum.exclusive_ns = (9 - i) * 120 * DLP_NS_PER_MS;
		stage->sum.total_ns = 2 * stage->sum.exclusive_ns;
		stage->sum.max_ns = 9 * DLP_NS_PER_MS;
		for (size_t j = 0; j < 9; j++)
			dlp_hist_add(&stage->duration, 8 * DLP_NS_PER_MS);
	}
	memset(stages[0].label, 'x', sizeof(stages[0].label) - 1);
	memcpy(stages[0].label, "a\033[2J\n", 6);
	stages[1].sum.sampled = true;
	stages[2].label[0] = '\0';
	job.model.stages = stages;
	job.model.stage_cnt = DLP_ARRAY_SIZE(stages);
	print(SUMMARY, 100);
	assert_has("\nStages (times: one scope; then % of wall time or of the workers' production)\n"
		   "  record_function                         where       count   median      max    "
		   "own\n"
		   "  a?[2J?xxxxxxxxxxxxxxxxxxxxxxxxxxxxx...  main          100  8.00 ms  9.00 ms    "
		   "9.0\n"
		   "  stage 1                                 workers ~     101  8.00 ms  9.00 ms    "
		   "4.2\n"
		   "  (label not recorded)                    main          102  8.00 ms  9.00 ms    "
		   "7.0\n");
	assert_has("  stage 5 ");
	assert_null(strstr(text, "stage 6"));
	assert_has("  and 3 more (all of them in the JSON summary)\n");
	job.model.stage_cnt = 0;
	print(SUMMARY, 100);
	assert_null(strstr(text, "Stages"));
}

static void test_empty_model(void **state)
{
	static struct dlp_model empty;
	struct dlp_model kept = job.model;

	(void)state;
	job.model = empty;
	print(SUMMARY, 100);
	print(INTERVAL, 200);
	job.model = kept;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_attached, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interval, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interval_columns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_summary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_summary_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_summary_unknowns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loaders_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_model, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
