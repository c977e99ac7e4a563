/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several ranks of one job: which one the others wait for, and whether its loader is why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose_ranks.h"
#include "verdict_check.h"

#define RANKS 4

static struct dlp_rank_facts facts[RANKS];
static struct dlp_ranks_verdict ranks;
static const char *const who[RANKS] = { "rank 0", "rank 1", "rank 2", "rank 3" };

/* 100 steps in 10 s: 5 % exposed, 10 % in collectives, the rest computing. */
static int even(void **state)
{
	for (size_t i = 0; i < RANKS; i++)
		facts[i] = (struct dlp_rank_facts){
			.known = true,
			.window_s = 10,
			.steps = 100,
			.exposed = 0.05,
			.blocked = 0.10,
			.running = 0.85,
		};
	return setup(state);
}

static void compare(size_t cnt)
{
	memset(&ranks, 0xa5, sizeof(ranks));
	dlp_diagnose_ranks(facts, cnt, &ranks);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(ranks.held[i] >= 0 && ranks.held[i] <= 1);
		assert_true(ranks.by_loader || ranks.held[i] == 0);
	}
	assert_true(ranks.slowest >= 0 || !ranks.by_loader);
	assert_true(ranks.slowest < 0 || ranks.held[ranks.slowest] == 0);
}

static void says(size_t cnt, const char *wanted)
{
	char text[320];

	compare(cnt);
	assert_string_equal(dlp_ranks_sentence(&ranks, facts, who, text, sizeof(text)), wanted);
}

static void test_nobody(void **state)
{
	(void)state;
	says(RANKS, "The 4 ranks train in step, and none waits for another.");
	assert_int_equal(ranks.slowest, -1);
	/* a little more is no more than their order */
	facts[2].exposed += BELOW(HELD_BACK);
	facts[2].blocked -= BELOW(HELD_BACK);
	compare(RANKS);
	assert_int_equal(ranks.slowest, -1);
}

static void test_loader(void **state)
{
	(void)state;
	facts[2] = (struct dlp_rank_facts){ true, 10, 101, 0.61, 0.02, 0.37 };
	for (size_t i = 0; i < RANKS; i++)
		facts[i].blocked = i == 2 ? 0.02 : 0.52;
	says(RANKS,
	     "Rank 2 is the slowest: it waits 61 % of the time for data, and the others wait 50 % "
	     "of the time for it.");
	assert_true(ranks.in_step && ranks.by_loader);
	assert_int_equal(ranks.slowest, 2);
	assert_int_equal(ranks.confidence, DLP_CONF_HIGH);
	assert_near(ranks.wait, 0.5);
	assert_near(ranks.held[0], 0.5);
	assert_near(ranks.held[3], 0.5);
	/* one that waits for its own data as long does not wait for that rank's */
	facts[3].exposed = 0.60;
	facts[3].blocked = 0.03;
	compare(RANKS);
	assert_int_equal(ranks.slowest, 2);
	assert_near(ranks.held[0], 0.5);
	assert_near(ranks.held[3], 0.01);
	assert_near(ranks.wait, (0.5 + 0.5 + 0.01) / 3);
	/* of two it is the other one, and few steps are not as sure */
	facts[2].steps = facts[1].steps = 19;
	facts[0] = facts[2];
	says(2,
	     "Rank 0 is the slowest: it waits 61 % of the time for data, and the other rank waits "
	     "50 % of the time for it.");
	assert_int_equal(ranks.confidence, DLP_CONF_MEDIUM);
}

/* Exactly at the limit, and just below it. */
static void test_threshold(void **state)
{
	(void)state;
	facts[1].blocked -= ABOVE(HELD_BACK);
	facts[1].exposed += ABOVE(HELD_BACK);
	compare(2);
	assert_int_equal(ranks.slowest, 1);
	assert_true(ranks.by_loader);
	even(state);
	facts[1].blocked -= BELOW(HELD_BACK);
	facts[1].exposed += BELOW(HELD_BACK);
	compare(2);
	assert_int_equal(ranks.slowest, -1);
}

/* The slowest computes longer; its loader is as fast as the others'. */
static void test_other_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		facts[i].blocked = i == 1 ? 0.01 : 0.41;
	says(RANKS,
	     "Rank 1 is the slowest, but not for want of data: the others wait 40 % of the time "
	     "for it.");
	assert_false(ranks.by_loader);
	/* its loader explains a part, no more than that is its loader's */
	facts[1].exposed = 0.15;
	compare(RANKS);
	assert_true(ranks.by_loader);
	assert_near(ranks.held[0], 0.10);
	assert_near(ranks.wait, 0.40);
}

/* With NCCL the others may spin: then it cannot be told from computing more. */
static void test_spinning(void **state)
{
	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		facts[i].blocked = 0;
	facts[0].exposed = 0.45;
	facts[0].running = 0.55;
	facts[1].running = facts[2].running = facts[3].running = 0.95;
	compare(RANKS);
	assert_int_equal(ranks.slowest, 0);
	assert_true(ranks.by_loader);
	assert_near(ranks.held[1], 0.40);
	assert_int_equal(ranks.confidence, DLP_CONF_LOW);
	/* they neither sleep nor run longer: what they do instead is not known */
	facts[1].running = facts[2].running = facts[3].running = 0.55;
	compare(RANKS);
	assert_int_equal(ranks.slowest, -1);
}

static void test_not_in_step(void **state)
{
	(void)state;
	facts[1].steps = 103;
	facts[1].blocked = 0.6;
	says(2, "These 2 processes do not train in step: each is judged by itself.");
	assert_false(ranks.in_step);
	assert_int_equal(ranks.slowest, -1);
	facts[1].steps = 102;
	compare(2);
	assert_int_equal(ranks.slowest, 0);
	/* of many steps a part may differ at the edges */
	facts[0].steps = 100000;
	facts[1].steps = 98000;
	compare(2);
	assert_int_equal(ranks.slowest, 0);
	facts[1].steps = 97999;
	compare(2);
	assert_int_equal(ranks.slowest, -1);
}

static void test_unknown(void **state)
{
	(void)state;
	facts[1].known = false;
	/* what is not known is not looked at */
	facts[1].steps = 7;
	facts[1].blocked = 0.99;
	says(2, "Too little was seen of the ranks to compare them.");
	assert_int_equal(ranks.slowest, -1);
	facts[2].blocked = 0.4;
	facts[2].exposed = 0;
	compare(3);
	assert_int_equal(ranks.slowest, 0);
	assert_near(ranks.held[1], 0);
	assert_near(ranks.held[2], 0.05);
	says(0, "Too little was seen of the ranks to compare them.");
}

/* 12 s: what the fixture's training thread did, from the model. */
static void test_figures(void **state)
{
	struct dlp_rank_facts own;
	struct dlp_sums since;

	(void)state;
	job_waits(&job, 3, DLP_ST_PIPE);
	job.model.main_outside = (struct dlp_clock){ 0 };
	job.model.main_outside.ns[DLP_ST_LOCK] = job_ns(2.4);
	job.model.main_outside.ns[DLP_ST_NET] = job_ns(0.6);
	job.model.main_outside.ns[DLP_ST_RUN] = job_ns(1.2);
	job.model.main_outside.ns[DLP_ST_DISK] = job_ns(4);
	sums->init_ns = job_ns(0.36);
	sums->teardown_ns = job_ns(0.24);
	dlp_rank_facts_take(&job.model, NULL, &own);
	assert_true(own.known);
	assert_near(own.window_s, 12);
	assert_int_equal(own.steps, job.model.getnext_cnt);
	assert_near(own.exposed, 0.3);
	assert_near(own.blocked, 0.25);
	assert_near(own.running, 0.1);
	/* nothing has happened since */
	dlp_sums_take(&job.model, &since);
	dlp_rank_facts_take(&job.model, &since, &own);
	assert_false(own.known);
	since.to_ns -= 6 * SECOND;
	since.calls -= 3;
	since.exposed_ns -= job_ns(1.5);
	dlp_rank_facts_take(&job.model, &since, &own);
	assert_true(own.known);
	assert_near(own.window_s, 6);
	assert_int_equal(own.steps, 3);
	assert_near(own.exposed, 0.25);
	assert_near(own.blocked, 0);
	/* without the kernel's counts there is nothing to compare */
	job.model.main_valid = false;
	dlp_rank_facts_take(&job.model, NULL, &own);
	assert_false(own.known);
}

/* Held back, and its own loader is fine: the cause stays none. */
static void test_blame_healthy(void **state)
{
	const struct dlp_evidence *item;

	(void)state;
	job_waits(&job, 0.12, DLP_ST_PIPE);
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	dlp_ranks_blame(BELOW(HELD_BACK), "rank 1 (pid 12)", DLP_CONF_HIGH, &verdict);
	assert_sound();
	assert_near(share(DLP_CAUSE_STRAGGLER_RANK), 0);
	dlp_ranks_blame(0.72, "rank 1 (pid 12)", DLP_CONF_HIGH, &verdict);
	assert_sound();
	assert_int_equal(verdict.bottleneck, DLP_BN_NOT_DATA_LOADING);
	assert_near(share(DLP_CAUSE_STRAGGLER_RANK), 0.72);
	assert_says("It waits 72 % of the time for rank 1 (pid 12), whose loader is slower.");
	item = find_evidence("straggler_wait_ratio");
	assert_non_null(item);
	assert_near(item->value, 0.72);
}

/* Its own loader is slow, too: both waits together are what the shares are of. */
static void test_blame_slow(void **state)
{
	double before;

	(void)state;
	job_waits(&job, 6, DLP_ST_PIPE);
	judge();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	before = share(DLP_CAUSE_WORKER_CPU);
	dlp_ranks_blame(0.25, "rank 1 (pid 12)", DLP_CONF_HIGH, &verdict);
	assert_sound();
	assert_cause(DLP_CAUSE_WORKER_CPU);
	assert_near(share(DLP_CAUSE_WORKER_CPU), before * 0.5 / 0.75);
	assert_near(share(DLP_CAUSE_STRAGGLER_RANK), 0.25 / 0.75);
	/* the larger part is the other rank's */
	job_waits(&job, 1.2, DLP_ST_PIPE);
	judge();
	dlp_ranks_blame(0.4, "rank 1 (pid 12)", DLP_CONF_MEDIUM, &verdict);
	assert_sound();
	assert_cause(DLP_CAUSE_STRAGGLER_RANK);
	assert_near(share(DLP_CAUSE_STRAGGLER_RANK), 0.8);
	assert_int_equal(verdict.where, DLP_WHERE_SYSTEM);
	assert_int_equal(verdict.confidence, DLP_CONF_MEDIUM);
	assert_says(
		"Training waits 10 % of the time for data, and 40 % for the data of rank 1 (pid 12).");
}

/* Of a job that says nothing, or stands still, nothing is added. */
static void test_blame_neither(void **state)
{
	(void)state;
	job.model.main_valid = false;
	judge();
	assert_int_equal(verdict.bottleneck, DLP_BN_INSUFFICIENT);
	dlp_ranks_blame(0.5, "rank 1", DLP_CONF_HIGH, &verdict);
	assert_sound();
	assert_int_equal(verdict.candidate_cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nobody, even),
		cmocka_unit_test_setup(test_loader, even),
		cmocka_unit_test_setup(test_threshold, even),
		cmocka_unit_test_setup(test_other_reason, even),
		cmocka_unit_test_setup(test_spinning, even),
		cmocka_unit_test_setup(test_not_in_step, even),
		cmocka_unit_test_setup(test_unknown, even),
		cmocka_unit_test_setup(test_figures, setup),
		cmocka_unit_test_setup(test_blame_healthy, setup),
		cmocka_unit_test_setup(test_blame_slow, setup),
		cmocka_unit_test_setup(test_blame_neither, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
