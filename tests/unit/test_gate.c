/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Conditions on a run: what is understood, what is refused, and on which side of it a run lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "job_fixture.h"

static struct job job;
static struct dlp_verdict verdict;
static struct dlp_summary_facts facts;
static struct dlp_gate gate;
static struct dlp_gate_answer answer;

static int setup(void **state)
{
	(void)state;
	job_init(&job);
	facts = (struct dlp_summary_facts){ .version = "0.1", .target = &job.target };
	return 0;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static void take(const char *text, const char *figure, enum dlp_gate_op op, double limit)
{
	char why[256] = "";

	if (dlp_gate_parse(text, &gate, why, sizeof(why)))
		fail_msg("'%s': %s", text, why);
	assert_ptr_equal(gate.text, text);
	assert_string_equal(dlp_gate_figure_name(gate.figure), figure);
	assert_int_equal(gate.op, op);
	if (gate.limit != limit)
		fail_msg("'%s': limit %g", text, gate.limit);
}

static void refuse(const char *text, const char *named)
{
	char why[256] = "";

	assert_int_equal(dlp_gate_parse(text, &gate, why, sizeof(why)), -EINVAL);
	if (!strstr(why, named))
		fail_msg("'%s': no '%s' in: %s", text, named, why);
	assert_null(strchr(why, '\n'));
}

static void test_parse(void **state)
{
	(void)state;
	take("exposed_wait>0.2", "exposed_wait", DLP_GATE_ABOVE, 0.2);
	take("exposed_total>=0.05", "exposed_total", DLP_GATE_FROM, 0.05);
	take("batches_per_s<100", "batches_per_s", DLP_GATE_BELOW, 100);
	take("worker_idle<=.5", "worker_idle", DLP_GATE_UP_TO, 0.5);
	take(" getnext_p99_ms\t> 50 ", "getnext_p99_ms", DLP_GATE_ABOVE, 50);
	take("exposed_wait>20%", "exposed_wait", DLP_GATE_ABOVE, 0.2);
	take("exposed_wait > 12.5 % ", "exposed_wait", DLP_GATE_ABOVE, 0.125);
	take("events_lost>0", "events_lost", DLP_GATE_ABOVE, 0);
	take("startup>0", "startup", DLP_GATE_ABOVE, 0);
	take("exposed_wait<=0", "exposed_wait", DLP_GATE_UP_TO, 0);
	take("exposed_wait>=1", "exposed_wait", DLP_GATE_FROM, 1);
	take("stalled", "stalled", 0, 0);
	take(" incomplete ", "incomplete", 0, 0);
}

static void test_refused(void **state)
{
	static const char *const no_figure[] = { "",
						 " ",
						 ">0.2",
						 "wait>0.2",
						 "exposed_wai>0.2",
						 "exposed_waits>0.2",
						 "Exposed_wait>0.2",
						 "0.2<exposed_wait",
						 "\x1b[2J" };
	static const char *const no_number[] = {
		"exposed_wait>",     "exposed_wait>x",
		"exposed_wait>-1",   "exposed_wait>+0.1",
		"exposed_wait>inf",  "exposed_wait>nan",
		"exposed_wait>.",    "exposed_wait>0.2.1",
		"exposed_wait>>0.2", "exposed_wait>=>0.2",
		"exposed_wait>%",    "exposed_wait>0.00000000000000000000000000000000000001"
	};
	static const char *const more[] = { "exposed_wait>0x1",		"exposed_wait>1e-1",
					    "exposed_wait>20%%",	"exposed_wait>0.2 stalled",
					    "exposed_wait>0.2,stalled", "getnext_p99_ms>50ms",
					    "getnext_p99_ms>50%",	"batches_per_s<100/s" };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(no_figure); i++)
		refuse(no_figure[i], "begins with none of exposed_wait, startup,");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(no_number); i++)
		refuse(no_number[i], "no number to compare with");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(more); i++)
		refuse(more[i], "more behind the number");
	refuse("exposed_wait", "quote it");
	refuse("exposed_wait=0.2", "compared by > >= < or <=");
	refuse("exposed_wait==0.2", "compared by");
	refuse("exposed_wait 0.2", "compared by");
	refuse("stalled>0", "give it alone");
	refuse("getnext_p99_ms>ms", "in milliseconds");
}

/* A condition that no run can cross would pass forever. */
static void test_senseless(void **state)
{
	(void)state;
	refuse("exposed_wait>20", "a share from 0 to 1 (0.2 or 20%)");
	refuse("exposed_wait>1.0001", "a share");
	refuse("exposed_wait<101%", "a share");
	refuse("exposed_wait>1", "no run ever has exposed_wait above that");
	refuse("exposed_wait<0", "no run ever has exposed_wait below that");
	refuse("batches_per_s<0", "no run ever");
	refuse("exposed_wait>=0", "holds for every run");
	refuse("exposed_wait<=100%", "holds for every run");
	refuse("getnext_p99_ms>=0.0", "holds for every run");
}

static void test_small_buffer(void **state)
{
	char why[8];

	(void)state;
	assert_int_equal(dlp_gate_parse("nonsense", &gate, why, sizeof(why)), -EINVAL);
	assert_int_equal(strlen(why), sizeof(why) - 1);
}

static void test_names(void **state)
{
	(void)state;
	assert_null(dlp_gate_figure_name(dlp_gate_figure_cnt()));
	assert_null(dlp_gate_figure_name(UINT32_MAX));
	for (unsigned int i = 0; i < dlp_gate_figure_cnt(); i++) {
		assert_non_null(dlp_gate_figure_name(i));
		for (unsigned int j = 0; j < i; j++)
			assert_string_not_equal(dlp_gate_figure_name(i), dlp_gate_figure_name(j));
	}
}

/* ---- checking -------------------------------------------------------------------------------- */

static void check(const char *text)
{
	char why[256];

	assert_int_equal(dlp_gate_parse(text, &gate, why, sizeof(why)), 0);
	dlp_diagnose(&job.model, NULL, &verdict);
	dlp_gate_check(&gate, &job.model, &verdict, &facts, &answer);
}

/* On `value`, above it by `step` and below it by as much: all four comparisons. */
static void both_sides(const char *figure, double value, double step)
{
	static const struct {
		const char *op;
		bool below, on, above; /* holds with the limit there */
	} cases[] = { { ">", true, false, false },
		      { ">=", true, true, false },
		      { "<", false, false, true },
		      { "<=", false, true, true } };
	char text[80];

	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		const bool wanted[] = { cases[i].below, cases[i].on, cases[i].above };

		for (int side = -1; side <= 1; side++) {
			(void)snprintf(text, sizeof(text), "%s%s%.6f", figure, cases[i].op,
				       value + side * step);
			check(text);
			if (fabs(answer.value - value) > 1e-9)
				fail_msg("%s: value %.9f", text, answer.value);
			if ((answer.state == DLP_GATE_CROSSED) != wanted[side + 1] ||
			    answer.state == DLP_GATE_UNKNOWN)
				fail_msg("%s: state %d", text, answer.state);
		}
	}
}

/* The fixture: 12 s, 150 batches, 7.56 s in GetNext. */
static void test_figures(void **state)
{
	(void)state;
	job.loader[0].sums.init_ns = job_ns(0.24);
	job.loader[0].sums.teardown_ns = job_ns(0.36);
	both_sides("exposed_wait", 0.63, 0.000001);
	both_sides("startup", 0.05, 0.000001);
	both_sides("exposed_total", 0.68, 0.000001);
	both_sides("batches_per_s", 12.5, 0.000001);
	both_sides("worker_idle", 0.05, 0.000001);
	both_sides("getnext_max_ms", 200, 0.0001);
	both_sides("batch_time_median_ms", 80, 0.0001);
}

/* Quantiles are the histogram's, right within 1/128, and the summary's, rounded as there. */
static void test_quantiles(void **state)
{
	static const struct {
		const char *text;
		double q, about;
	} cases[] = { { "getnext_median_ms>0", 0.5, 51 },
		      { "getnext_p95_ms>0", 0.95, 52 },
		      { "getnext_p99_ms>0", 0.99, 200 } };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		double us = (double)dlp_hist_quantile(&job.loader[0].getnext, cases[i].q) / 1e3;

		check(cases[i].text);
		assert_int_equal(answer.state, DLP_GATE_CROSSED);
		assert_int_equal(answer.loader, 1);
		assert_true(fabs(answer.value - round(us * 10) / 1e4) < 1e-9);
		assert_true(fabs(answer.value / cases[i].about - 1) < 1.0 / 64);
	}
}

/* Shares add up to more than the wall time only by what the edges are off. */
static void test_total_at_most_one(void **state)
{
	(void)state;
	job_waits(&job, 11.9, DLP_ST_PIPE);
	job.loader[0].sums.init_ns = job_ns(0.5);
	check("exposed_total>=1");
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
	assert_true(answer.value == 1);
}

static void test_each_loader(void **state)
{
	char text[200];

	(void)state;
	job.loader[1] = job.loader[0];
	job.loader[1].id = 2;
	memset(&job.loader[1].getnext, 0, sizeof(job.loader[1].getnext));
	dlp_hist_add(&job.loader[1].getnext, 300 * DLP_NS_PER_MS);
	job.model.loader_cnt = 2;
	check("getnext_max_ms>250");
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
	assert_int_equal(answer.loader, 2);
	assert_true(answer.value == 300);
	assert_string_equal(dlp_gate_say(&gate, &answer, text, sizeof(text)),
			    "gate crossed: getnext_max_ms of loader 2 is 300 "
			    "(--fail-if 'getnext_max_ms>250')");
	check("getnext_max_ms<250");
	assert_int_equal(answer.loader, 1);
	check("getnext_max_ms>350");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	/* one that was not used says nothing */
	memset(&job.loader[0].getnext, 0, sizeof(job.loader[0].getnext));
	check("getnext_max_ms>350");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	assert_int_equal(answer.loader, 2);
	/* and batches are all loaders' */
	check("batches_per_s<24");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	assert_true(answer.value == 25);
}

static void test_flags(void **state)
{
	char text[200];

	(void)state;
	check("stalled");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	verdict.bottleneck = DLP_BN_STALLED;
	dlp_gate_check(&gate, &job.model, &verdict, &facts, &answer);
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
	assert_string_equal(dlp_gate_say(&gate, &answer, text, sizeof(text)),
			    "gate crossed: stalled (--fail-if 'stalled')");
	check("incomplete");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	check("events_lost>0");
	assert_int_equal(answer.state, DLP_GATE_CLEAR);
	job.model.counters.value[DLP_CNT_RING_FULL] = 3;
	check("incomplete");
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
	check("events_lost>2");
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
	assert_true(answer.value == 3);
}

/* Not measured, or hardly begun: never clear. */
static void test_unknown(void **state)
{
	static const char *const needs_calls[] = { "exposed_wait>0.2",	 "exposed_wait<0.2",
						   "exposed_total>=0.2", "getnext_p99_ms>1",
						   "getnext_max_ms<1",	 "batch_time_median_ms>1",
						   "batches_per_s<1",	 "startup>0.1",
						   "worker_idle<0.1" };
	char text[200];

	(void)state;
	job.model.main_valid = false;
	check("exposed_wait>0.9");
	assert_int_equal(answer.state, DLP_GATE_UNKNOWN);
	assert_string_equal(dlp_gate_say(&gate, &answer, text, sizeof(text)),
			    "gate not decided: exposed_wait was not measured "
			    "(--fail-if 'exposed_wait>0.9')");
	job.model.counters.hdr.size = 0;
	check("events_lost>0");
	assert_int_equal(answer.state, DLP_GATE_UNKNOWN);

	/* a window of which nothing was seen */
	memset(&job.model, 0, sizeof(job.model));
	job.model.end_ns = 5 * SECOND;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(needs_calls); i++) {
		check(needs_calls[i]);
		if (answer.state != DLP_GATE_UNKNOWN || !isnan(answer.value))
			fail_msg("%s: state %d", needs_calls[i], answer.state);
	}
	check("stalled");
	assert_int_equal(answer.state, DLP_GATE_UNKNOWN);
	assert_string_equal(dlp_gate_say(&gate, &answer, text, sizeof(text)),
			    "gate not decided: too little was seen, stalled so far "
			    "(--fail-if 'stalled')");
}

/* Too little to acquit a job; but what is crossed is crossed. */
static void test_too_little(void **state)
{
	char text[200];

	(void)state;
	job.model.end_ns = JOB_START_NS + SECOND / 2;
	job_waits(&job, 0.1, DLP_ST_PIPE);
	check("exposed_wait>0.3");
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	assert_int_equal(answer.state, DLP_GATE_UNKNOWN);
	assert_string_equal(dlp_gate_say(&gate, &answer, text, sizeof(text)),
			    "gate not decided: too little was seen, exposed_wait is 0.2 so far "
			    "(--fail-if 'exposed_wait>0.3')");
	check("exposed_wait>0.1");
	assert_int_equal(answer.state, DLP_GATE_CROSSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_senseless),
		cmocka_unit_test(test_small_buffer),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup(test_figures, setup),
		cmocka_unit_test_setup(test_quantiles, setup),
		cmocka_unit_test_setup(test_total_at_most_one, setup),
		cmocka_unit_test_setup(test_each_loader, setup),
		cmocka_unit_test_setup(test_flags, setup),
		cmocka_unit_test_setup(test_unknown, setup),
		cmocka_unit_test_setup(test_too_little, setup),
	};

	return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
