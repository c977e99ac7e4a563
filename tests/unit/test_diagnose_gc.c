/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Garbage collection in the model, and as a cause: who collects, how much, how sure that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verdict_check.h"

#include "decode.h"

/* The fixture's workers: 10.2 of 11.4 s on a CPU, 0.4 s waiting for one, no cause but themselves. */
#define ON_CPU (10.2 / 11.4)
#define LACK (0.4 / 11.4)

static void workers_collect(double part, uint64_t samples)
{
	sums->gc.samples = samples;
	sums->gc.gc_samples = (uint64_t)(part * (double)samples + 0.5);
}

static void main_collects(double inside, double outside, uint64_t samples)
{
	struct dlp_gc_sums *gc = &job.thread[0].gc;

	gc->samples = 2 * samples;
	gc->inside = samples;
	gc->gc_inside = (uint64_t)(inside * (double)samples + 0.5);
	gc->gc_samples = gc->gc_inside + (uint64_t)(outside * (double)samples + 0.5);
}

static void test_workers(void **state)
{
	(void)state;
	workers_collect(0.8, 1000);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.where, DLP_WHERE_WORKERS);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.8 * (ON_CPU + LACK));
	assert_near(share(DLP_CAUSE_WORKER_CPU), 0.2 * (ON_CPU + LACK));
	assert_says("74 % of that goes into Python's garbage collector");
	assert_says("80 % of the CPU time of the workers");
	assert_near(evidence("gc_share.workers")->value, 0.8);
	assert_non_null(strstr(evidence("gc_share.workers")->text, "error: 2.5 %"));
	assert_non_null(strstr(verdict.advice[0].text, "gc.freeze()"));
	assert_non_null(strstr(verdict.advice[0].counter_check, "gc.disable()"));
}

/* It is there, but the work itself is most. */
static void test_acquitted(void **state)
{
	(void)state;
	workers_collect(0.3, 1000);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.3 * (ON_CPU + LACK));
	assert_near(evidence("gc_share.workers")->value, 0.3);
	/* as much as any program has */
	workers_collect(BELOW(GC_LEAST), 10000);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0);
	assert_null(find_evidence("gc_share.workers"));
	assert_null(strstr(verdict.text, "garbage"));
	workers_collect(ABOVE(GC_LEAST), 10000);
	judge();
	assert_true(share(DLP_CAUSE_GC_PAUSE) > 0.04);
}

/* Too few samples, or none: nothing is said of it. */
static void test_unknown(void **state)
{
	(void)state;
	judge();
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0);
	workers_collect(1, (uint64_t)BELOW(GC_SAMPLES));
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0);
	assert_null(find_evidence("gc_share.workers"));
	workers_collect(1, (uint64_t)LIMIT(GC_SAMPLES));
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
}

/* The same share: few samples leave the rival a chance. */
static void test_confidence(void **state)
{
	(void)state;
	workers_collect(0.7, 1000);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.confidence, DLP_CONF_HIGH);
	workers_collect(0.7, 50);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	workers_collect(0.6, 1000);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	workers_collect(0.6, 50);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.confidence, DLP_CONF_LOW);
}

/* The training thread itself, inside GetNext: with workers, and without. */
static void test_inside(void **state)
{
	(void)state;
	job_waits(&job, 6, DLP_ST_RUN);
	main_collects(0.9, 0, 500);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.9);
	assert_near(share(DLP_CAUSE_MAIN_PROCESS), 0.1);
	assert_says("90 % of the CPU time of the training thread inside GetNext");
	assert_near(evidence("gc_share.inside")->value, 0.9);
	main_collects(0.2, 0, 500);
	judge();
	assert_cause(DLP_CAUSE_MAIN_PROCESS);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.2);
	job_without_workers(&job);
	main_collects(0.9, 0, 500);
	judge();
	assert_cause(DLP_CAUSE_GC_PAUSE);
	assert_int_equal(verdict.where, DLP_WHERE_MAIN);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.9);
}

/* Not data loading: what the collector takes of the wall time stands beside the acquittal. */
static void test_training(void **state)
{
	(void)state;
	job_waits(&job, 0.2, DLP_ST_PIPE);
	main_collects(0, 0.5, 500);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_int_equal(verdict.candidate_cnt, 1);
	assert_near(share(DLP_CAUSE_GC_PAUSE), 0.5 * 11.8 / 12);
	assert_says("Python's garbage collector holds the training thread up for 49 % of it");
	assert_near(evidence("gc_share.outside")->value, 0.5);
	assert_non_null(strstr(verdict.advice[0].text, "gc.freeze()"));
	main_collects(0, BELOW(GC_TRAINING), 5000);
	judge();
	assert_int_equal(verdict.candidate_cnt, 0);
	assert_null(strstr(verdict.advice[0].text, "gc.freeze()"));
}

/* ---- the model ---------------------------------------------------------------------------- */

static struct dlp_model *model;

static int new_model(void **state)
{
	(void)state;
	return dlp_model_new(&model);
}

static int free_model(void **state)
{
	(void)state;
	dlp_model_free(model);
	return 0;
}

static void window(uint32_t phase, uint64_t ts_ns)
{
	struct dlp_ev_window ev = { .hdr = { .size = sizeof(ev),
					     .kind = DLP_EV_WINDOW,
					     .ts_ns = ts_ns,
					     .tgid = JOB_PID },
				    .phase = phase };

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void sampled(uint32_t tid, uint32_t samples, uint32_t gc, uint32_t inside,
		    uint32_t gc_inside)
{
	struct dlp_ev_gc ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_GC, .tgid = JOB_PID, .tid = tid },
		.samples = samples,
		.gc_samples = gc,
		.inside = inside,
		.gc_inside = gc_inside
	};

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void clock_of(uint32_t tid)
{
	struct dlp_ev_clock ev = { .hdr = { .size = sizeof(ev),
					    .kind = DLP_EV_CLOCK,
					    .flags = DLP_THREAD_GETNEXT,
					    .tgid = JOB_PID,
					    .tid = tid } };

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void test_model(void **state)
{
	struct dlp_sums before, after;

	(void)state;
	clock_of(JOB_PID);
	sampled(JOB_PID, 100, 100, 100, 100); /* before the window */
	window(0, JOB_START_NS);
	sampled(JOB_PID + 1, 50, 50, 50, 50); /* nobody's */
	sampled(JOB_PID, 10, 4, 5, 3);
	dlp_sums_take(model, &before);
	assert_int_equal(before.main_gc.samples, 10);
	assert_int_equal(before.main_gc.gc_samples, 4);
	assert_int_equal(before.main_gc.inside, 5);
	assert_int_equal(before.main_gc.gc_inside, 3);
	sampled(JOB_PID, 20, 8, 10, 1);
	dlp_sums_take(model, &after);
	dlp_sums_since(&after, &before);
	assert_int_equal(after.main_gc.samples, 20);
	assert_int_equal(after.main_gc.gc_samples, 8);
	/* a recording that claims parts larger than the whole */
	dlp_sums_take(model, &before);
	sampled(JOB_PID, 10, UINT32_MAX, UINT32_MAX, UINT32_MAX);
	sampled(JOB_PID, 10, 10, 8, 2);
	dlp_sums_take(model, &after);
	dlp_sums_since(&after, &before);
	assert_int_equal(after.main_gc.samples, 20);
	assert_int_equal(after.main_gc.inside, 18);
	assert_int_equal(after.main_gc.gc_inside, 12);
	assert_int_equal(after.main_gc.gc_samples, 14);
	window(2, JOB_START_NS + SECOND);
	sampled(JOB_PID, 10, 4, 5, 3); /* after it */
	assert_int_equal(dlp_model_thread(model, JOB_PID)->gc.samples, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_workers, setup),
		cmocka_unit_test_setup(test_acquitted, setup),
		cmocka_unit_test_setup(test_unknown, setup),
		cmocka_unit_test_setup(test_confidence, setup),
		cmocka_unit_test_setup(test_inside, setup),
		cmocka_unit_test_setup(test_training, setup),
		cmocka_unit_test_setup_teardown(test_model, new_model, free_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
