/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The document of several ranks, read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "summary_check.h"
#include "summary_ranks.h"
#include "util.h"

#define OTHER_PID 4800

/* The same job twice, under two pids. */
static struct dlp_target other_target;
static struct dlp_summary_facts other_facts;
static struct dlp_summary_rank rank[2];
static struct dlp_rank_facts compared[2];
static struct dlp_ranks_verdict said;
static struct dlp_verdict top;
static struct dlp_summary_job both;

static int two(void **state)
{
	setup(state);
	dlp_diagnose(&job.model, NULL, &verdict);
	other_target = job.target;
	other_target.pid = OTHER_PID;
	other_facts = facts;
	other_facts.target = &other_target;
	rank[0] = (struct dlp_summary_rank){ 0, &job.model, &verdict, &facts, "run.4711.dlp" };
	rank[1] = (struct dlp_summary_rank){ 3, &job.model, &verdict, &other_facts, NULL };
	compared[0] = (struct dlp_rank_facts){ true, 10, 105, 0.05, 0.60, 0.35 };
	compared[1] = (struct dlp_rank_facts){ true, 10, 105, 0.61, 0.02, 0.37 };
	dlp_diagnose_ranks(compared, 2, &said);
	top = verdict;
	(void)snprintf(top.text, sizeof(top.text), "Rank 3 is slow.");
	both = (struct dlp_summary_job){ rank, 2, &said, compared, "It is slow.", 1, &top };
	return 0;
}

static void load_both(void)
{
	json_error_t why;
	char *text;

	json_decref(root);
	assert_int_equal(dlp_summary_ranks_format(&both, &text), 0);
	assert_int_equal(text[strlen(text) - 1], '\n');
	root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		fail_msg("%s in: %s", why.text, text);
	free(text);
}

static void test_values(void **state)
{
	(void)state;
	load_both();
	assert_text("schema", "dlprof.summary/1");
	assert_text("verdict.text", "Rank 3 is slow.");
	assert_text("job.text", "It is slow.");
	assert_integer("job.ranks_compared", 2);
	assert_true(json_is_true(at("job.in_step")));
	assert_integer("job.slowest_rank", 3);
	assert_integer("job.slowest_pid", OTHER_PID);
	assert_text("job.cause", "straggler_rank");
	assert_number("job.others_wait_ratio", 0.58, 1e-6);
	assert_text("job.confidence", "high");
	assert_int_equal(json_array_size(at("ranks")), 2);
	assert_integer("ranks.0.rank", 0);
	assert_integer("ranks.0.pid", JOB_PID);
	assert_integer("ranks.1.rank", 3);
	assert_integer("ranks.1.pid", OTHER_PID);
	assert_number("ranks.0.exposed_wait_ratio", verdict.exposed_wait_ratio, 1e-6);
	assert_number("ranks.0.compared.window_s", 10, 1e-6);
	assert_integer("ranks.0.compared.steps", 105);
	assert_number("ranks.0.compared.steps_per_s", 10.5, 1e-6);
	assert_number("ranks.1.compared.exposed_ratio", 0.61, 1e-6);
	assert_number("ranks.0.compared.asleep_outside_ratio", 0.60, 1e-6);
	assert_number("ranks.1.compared.running_outside_ratio", 0.37, 1e-6);
	assert_number("ranks.0.compared.straggler_wait_ratio", 0.56, 1e-6);
	assert_number("ranks.1.compared.straggler_wait_ratio", 0, 1e-6);
	assert_text("ranks.0.recording", "run.4711.dlp");
	assert_null_at("ranks.1.recording");
	/* each one's own verdict, not the one on top */
	assert_text("ranks.1.verdict.text", verdict.text);
	assert_text("ranks.1.summary.verdict.text", verdict.text);
}

/* What is in a rank is the document that it would have alone. */
static void test_own_document(void **state)
{
	json_t *inner;

	(void)state;
	load_both();
	inner = json_incref(at("ranks.0.summary"));
	load();
	assert_true(json_equal(root, inner));
	json_decref(inner);
	/* nothing of several ranks is in that one */
	assert_null(json_object_get(root, "ranks"));
	assert_null(json_object_get(root, "job"));
}

static void test_not_known(void **state)
{
	(void)state;
	rank[0].rank = -1;
	compared[0].known = false;
	dlp_diagnose_ranks(compared, 2, &said);
	load_both();
	assert_integer("job.ranks_compared", 1);
	assert_null_at("job.in_step");
	assert_null_at("job.slowest_rank");
	assert_null_at("job.slowest_pid");
	assert_null_at("job.others_wait_ratio");
	assert_null_at("job.confidence");
	assert_text("job.cause", "none");
	assert_null_at("ranks.0.rank");
	assert_null_at("ranks.0.compared");
	/* not in step: nobody can be said to wait */
	compared[0].known = true;
	compared[0].steps = 50;
	dlp_diagnose_ranks(compared, 2, &said);
	load_both();
	assert_true(json_is_false(at("job.in_step")));
	assert_null_at("ranks.0.compared.straggler_wait_ratio");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, two, teardown),
		cmocka_unit_test_setup_teardown(test_own_document, two, teardown),
		cmocka_unit_test_setup_teardown(test_not_known, two, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
