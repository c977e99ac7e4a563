/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The governor against a made-up job whose probes cost what the steps taken leave of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "governor.h"
#include "util.h"

#define LIMIT 10000u /* 1 % */
#define ALL ((1u << DLP_GOV_MAX) - 1)
#define BIT(step) (1u << DLP_GOV_##step)

static struct dlp_governor governor;
static uint64_t now;

/* What the parts cost in millionths of the job's second, and what each step saves of its part. */
static struct {
	uint32_t part[DLP_COST_PARTS];
	uint32_t saved[DLP_GOV_MAX];
	uint64_t job_ns;
	unsigned int samples; /* taken so far */
} job;

static const enum dlp_cost_part part_of[DLP_GOV_MAX] = {
	DLP_COST_SCOPES, DLP_COST_SCOPES, DLP_COST_CLOCKS, DLP_COST_MESSAGES, DLP_COST_SCOPES,
};

static int setup(void **state)
{
	(void)state;
	memset(&job, 0, sizeof(job));
	job.job_ns = DLP_NS_PER_S;
	now = 1000 * DLP_NS_PER_S;
	dlp_governor_init(&governor, LIMIT, ALL, 0);
	return 0;
}

/* One measured interval of a second; true = something was decided. */
static bool measure(void)
{
	struct dlp_cost_sample sample = { .now_ns = now += DLP_NS_PER_S, .job_ns = job.job_ns };
	uint32_t active = dlp_governor_active(&governor);

	for (size_t i = 0; i < DLP_COST_PARTS; i++)
		sample.part_ns[i] = job.part[i] * (job.job_ns / 1000000);
	for (size_t i = 0; i < DLP_GOV_MAX; i++) {
		if (active & 1u << i)
			sample.part_ns[part_of[i]] -= job.saved[i] * (job.job_ns / 1000000);
	}
	job.samples++;
	return dlp_governor_measured(&governor, &sample);
}

/* As the event loop does it: each interval while there is an alert, else one in ten. */
static void run(unsigned int seconds)
{
	for (unsigned int i = 0; i < seconds; i++) {
		if (dlp_governor_alert(&governor) || i % 10 == 0)
			(void)measure();
		else
			now += DLP_NS_PER_S;
	}
}

static void test_cheap(void **state)
{
	(void)state;
	job.part[DLP_COST_SCOPES] = 6000;
	job.part[DLP_COST_CLOCKS] = 3999;
	run(1000);
	assert_int_equal(governor.measured_ppm, 9999);
	assert_int_equal(dlp_governor_active(&governor), 0);
	/* it has measured a tenth of the time: nothing was suspicious */
	assert_int_equal(job.samples, 100);
}

static void test_one_bad_interval(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		job.part[DLP_COST_SCOPES] = 90000;
		assert_false(measure());
		assert_true(dlp_governor_alert(&governor));
		job.part[DLP_COST_SCOPES] = 9000;
		assert_false(measure());
		assert_false(dlp_governor_alert(&governor));
	}
	assert_int_equal(dlp_governor_active(&governor), 0);
}

static void test_steps_until_met(void **state)
{
	(void)state;
	job.part[DLP_COST_SCOPES] = 60000;
	job.part[DLP_COST_MESSAGES] = 2000;
	job.saved[DLP_GOV_LABELS_FEW] = 20000;
	job.saved[DLP_GOV_LABELS_OFF] = 35000;
	assert_false(measure());
	assert_true(measure());
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW));
	/* this interval has seen both */
	assert_false(measure());
	assert_false(measure());
	assert_true(measure());
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW) | BIT(LABELS_OFF));
	run(30);
	assert_int_equal(governor.measured_ppm, 7000);
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW) | BIT(LABELS_OFF));
	assert_false(governor.unmet);
}

static void test_what_does_not_help(void **state)
{
	(void)state;
	/* labels are not what costs: of the messages much would go, of the scopes nothing */
	job.part[DLP_COST_SCOPES] = 9000;
	job.part[DLP_COST_MESSAGES] = 30000;
	job.saved[DLP_GOV_MESSAGES] = 30000;
	run(60);
	assert_int_equal(dlp_governor_active(&governor), BIT(MESSAGES));
	assert_int_equal(governor.useless, BIT(LABELS_FEW) | BIT(LABELS_OFF));
	assert_int_equal(governor.measured_ppm, 9000);
	/* the clocks cost nothing: that step was not even tried */
	assert_false(governor.undone);
}

static void test_what_is_not_there(void **state)
{
	(void)state;
	dlp_governor_init(&governor, LIMIT, BIT(LONG_WAITS), 0);
	job.part[DLP_COST_SCOPES] = 60000;
	run(60);
	assert_int_equal(dlp_governor_active(&governor), 0);
	assert_true(governor.unmet);
	/* nothing more to be decided: back to a sample now and then */
	assert_false(dlp_governor_alert(&governor));
}

static void test_cannot_be_met(void **state)
{
	struct dlp_ev_govern event;

	(void)state;
	job.part[DLP_COST_SCOPES] = 60000;
	job.part[DLP_COST_CLOCKS] = 30000;
	for (size_t i = 0; i < DLP_GOV_MAX; i++)
		job.saved[i] = 10000;
	job.part[DLP_COST_MESSAGES] = 10000;
	run(60);
	assert_int_equal(dlp_governor_active(&governor), ALL);
	assert_true(governor.unmet);
	dlp_governor_event(&governor, 77, &event);
	assert_int_equal(event.hdr.kind, DLP_EV_GOVERN);
	assert_int_equal(event.hdr.size, sizeof(event));
	assert_int_equal(event.hdr.ts_ns, 77);
	assert_int_equal(event.active, ALL);
	assert_int_equal(event.unmet, 1);
	assert_int_equal(event.limit_ppm, LIMIT);
	assert_int_equal(event.measured_ppm, 50000);
	assert_int_equal(event.probe_ns, 50000000);
	assert_int_equal(event.job_ns, DLP_NS_PER_S);
	/* the job becomes a quiet one */
	job.part[DLP_COST_SCOPES] = 32000;
	job.part[DLP_COST_CLOCKS] = 12000;
	run(10);
	assert_false(governor.unmet);
}

static void test_back_with_patience(void **state)
{
	uint64_t quiet_ns;

	(void)state;
	job.part[DLP_COST_SCOPES] = 40000;
	job.saved[DLP_GOV_LABELS_FEW] = 36000;
	run(10);
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW));
	quiet_ns = now;
	/* with the step 4000 are left: it is tried without, which is too much, and longer later */
	for (unsigned int i = 0; i < 100 && dlp_governor_active(&governor); i++)
		run(1);
	assert_in_range(now - quiet_ns, 55 * DLP_NS_PER_S, 61 * DLP_NS_PER_S);
	run(10);
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW));
	quiet_ns = now;
	for (unsigned int i = 0; i < 200 && dlp_governor_active(&governor); i++)
		run(1);
	assert_in_range(now - quiet_ns, 110 * DLP_NS_PER_S, 121 * DLP_NS_PER_S);
	/* the labels have gone: it stays without the step */
	job.part[DLP_COST_SCOPES] = 500;
	job.saved[DLP_GOV_LABELS_FEW] = 0;
	run(1000);
	assert_int_equal(dlp_governor_active(&governor), 0);
}

/* A week of a job that always needs the step: how often is it without? */
static void test_patience_has_an_end(void **state)
{
	unsigned int undone = 0;

	(void)state;
	job.part[DLP_COST_SCOPES] = 40000;
	job.saved[DLP_GOV_LABELS_FEW] = 36000;
	run(10);
	for (unsigned int i = 0; i < 7 * 24 * 3600; i++) {
		bool before = dlp_governor_active(&governor);

		run(1);
		undone += before && !dlp_governor_active(&governor);
	}
	assert_in_range(undone, 50, 170);
	assert_true(governor.patience_ns <= 2 * 3600 * DLP_NS_PER_S);
}

static void test_idle_job(void **state)
{
	(void)state;
	job.job_ns = 5 * DLP_NS_PER_MS;
	job.part[DLP_COST_SCOPES] = 500000;
	run(100);
	assert_int_equal(dlp_governor_active(&governor), 0);
	assert_int_equal(governor.measured_ppm, DLP_GOV_UNKNOWN);
}

static void test_half_is_not_enough_room(void **state)
{
	(void)state;
	job.part[DLP_COST_SCOPES] = 40000;
	job.saved[DLP_GOV_LABELS_FEW] = 34000;
	run(3000);
	assert_int_equal(dlp_governor_active(&governor), BIT(LABELS_FEW));
	assert_int_equal(governor.undone, 0);
}

/* What cannot be taken back stays; what was done without before it comes back all the same. */
static void test_final(void **state)
{
	(void)state;
	dlp_governor_init(&governor, LIMIT, ALL, BIT(MESSAGES));
	job.part[DLP_COST_SCOPES] = 20000;
	job.part[DLP_COST_MESSAGES] = 20000;
	job.saved[DLP_GOV_LABELS_FEW] = 15000;
	job.saved[DLP_GOV_MESSAGES] = 20000;
	run(60);
	assert_int_equal(dlp_governor_active(&governor) & BIT(MESSAGES), BIT(MESSAGES));
	assert_true(dlp_governor_active(&governor) & BIT(LABELS_FEW));
	job.part[DLP_COST_SCOPES] = 100;
	job.part[DLP_COST_MESSAGES] = 0;
	job.saved[DLP_GOV_LABELS_FEW] = job.saved[DLP_GOV_MESSAGES] = 0;
	run(5000);
	assert_int_equal(dlp_governor_active(&governor), BIT(MESSAGES));
	/* not even when it did not help */
	dlp_governor_init(&governor, LIMIT, BIT(MESSAGES), BIT(MESSAGES));
	job.part[DLP_COST_MESSAGES] = 30000;
	run(60);
	assert_int_equal(dlp_governor_active(&governor), BIT(MESSAGES));
	assert_true(governor.unmet);
}

static void test_names(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < DLP_GOV_MAX; i++) {
		assert_non_null(dlp_governor_step_id(i));
		assert_non_null(dlp_governor_step_text(i));
	}
	assert_string_equal(dlp_governor_step_id(DLP_GOV_LABELS_OFF), "labels_off");
	assert_null(dlp_governor_step_id(DLP_GOV_MAX));
	assert_null(dlp_governor_step_text(DLP_GOV_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_cheap, setup),
		cmocka_unit_test_setup(test_one_bad_interval, setup),
		cmocka_unit_test_setup(test_steps_until_met, setup),
		cmocka_unit_test_setup(test_what_does_not_help, setup),
		cmocka_unit_test_setup(test_what_is_not_there, setup),
		cmocka_unit_test_setup(test_cannot_be_met, setup),
		cmocka_unit_test_setup(test_back_with_patience, setup),
		cmocka_unit_test_setup(test_patience_has_an_end, setup),
		cmocka_unit_test_setup(test_idle_job, setup),
		cmocka_unit_test_setup(test_half_is_not_enough_room, setup),
		cmocka_unit_test_setup(test_final, setup),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
