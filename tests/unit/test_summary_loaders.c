/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's loaders[].verdict: what each costs by itself, whatever the job's verdict is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "summary_check.h"

/* A second loader of the same thread, whose workers read from a disk. */
static struct dlp_loader_sums *second_loader(void)
{
	struct dlp_loader_sums *sums = &job.loader[1].sums;

	job.loader[1] = job.loader[0];
	job.loader[1].id = 2;
	*sums = (struct dlp_loader_sums){ .calls = 40, .batches = 40 };
	sums->getnext_ns = sums->produce_ns = job_ns(1.8);
	sums->made.ns[DLP_ST_DISK] = job_ns(9);
	sums->made.ns[DLP_ST_RUN] = job_ns(3);
	job.model.loader_cnt = 2;
	job.model.exposed_ns += sums->getnext_ns;
	return sums;
}

static void test_different_causes(void **state)
{
	(void)state;
	(void)second_loader();
	load();
	assert_text("verdict.cause", "worker_cpu");
	assert_number("verdict.exposed_wait_ratio", 0.78, 1e-6);
	assert_text("loaders.0.verdict.cause", "worker_cpu");
	assert_number("loaders.0.verdict.share", 10.6 / 11.4, 1e-6);
	assert_number("loaders.0.verdict.exposed_wait_ratio", 0.63, 1e-6);
	assert_text("loaders.0.verdict.confidence", "high");
	assert_text("loaders.0.verdict.text",
		    "Training waits 63 % of the time for data; the workers spend 89 % of their "
		    "production time on a CPU.");
	assert_text("loaders.1.verdict.cause", "disk_read");
	assert_number("loaders.1.verdict.share", 0.75, 1e-6);
	assert_number("loaders.1.verdict.exposed_wait_ratio", 0.15, 1e-6);
	assert_text("loaders.1.verdict.text",
		    "Training waits 15 % of the time for data; the workers spend 75 % of their "
		    "production time waiting for reads from a disk.");
}

static void test_acquitted(void **state)
{
	struct dlp_loader_sums *sums;

	(void)state;
	sums = second_loader();
	sums->getnext_ns = sums->produce_ns = job_ns(0.12);
	load();
	assert_text("loaders.1.verdict.cause", "none");
	assert_null_at("loaders.1.verdict.share");
	assert_number("loaders.1.verdict.exposed_wait_ratio", 0.01, 1e-6);
	/* what the training step lacks beside that is no part of the loader's wait */
	job_machine(&job);
	job.model.system.last.cpus_allowed = 2;
	job.model.main_outside.ns[DLP_ST_RUNQ] = job_ns(4);
	load();
	assert_text("loaders.1.verdict.cause", "none");
	assert_null_at("loaders.1.verdict.share");
}

static void test_too_little(void **state)
{
	struct dlp_loader_sums *sums;

	(void)state;
	sums = second_loader();
	sums->calls = 3;
	load();
	assert_text("loaders.0.verdict.cause", "worker_cpu");
	assert_null_at("loaders.1.verdict");
	/* its workers were not read: it waits, and nothing says for what */
	sums->calls = 40;
	memset(&sums->made, 0, sizeof(sums->made));
	load();
	assert_text("loaders.1.verdict.cause", "none");
	assert_null_at("loaders.1.verdict.share");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_different_causes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_acquitted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_little, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
