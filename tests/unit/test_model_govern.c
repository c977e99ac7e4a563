/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the governor left out, as the model, the summary and the lines tell it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "loss.h"
#include "model.h"
#include "summary.h"
#include "text.h"
#include "util.h"

#define S DLP_NS_PER_S
#define BIT(step) (1u << DLP_GOV_##step)

static struct dlp_model *model;
static json_t *root;
static char *text;

static void window(uint64_t at_ns, uint32_t phase)
{
	struct dlp_ev_window ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_WINDOW, .ts_ns = at_ns }, .phase = phase
	};

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static void govern(uint64_t at_ns, uint32_t measured_ppm, uint32_t active, uint32_t unmet)
{
	struct dlp_ev_govern ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_GOVERN, .ts_ns = at_ns },
		.limit_ppm = 10000,
		.measured_ppm = measured_ppm,
		.active = active,
		.unmet = unmet
	};

	assert_int_equal(dlp_model_apply(model, &ev, sizeof(ev)), 0);
}

static int setup(void **state)
{
	struct dlp_ev_counters counters = {
		.hdr = { .size = sizeof(counters), .kind = DLP_EV_COUNTERS, .ts_ns = 100 * S }
	};

	(void)state;
	assert_int_equal(dlp_model_new(&model), 0);
	window(100 * S, 0);
	return dlp_model_apply(model, &counters, sizeof(counters));
}

static int teardown(void **state)
{
	(void)state;
	dlp_model_free(model);
	json_decref(root);
	free(text);
	root = NULL;
	text = NULL;
	return 0;
}

static void load(void)
{
	struct dlp_summary_facts facts = { .version = "0", .waits_seen = true };
	struct dlp_verdict verdict;
	char *json;

	dlp_diagnose(model, NULL, &verdict);
	assert_int_equal(dlp_summary_format(model, &verdict, &facts, &json), 0);
	json_decref(root);
	root = json_loads(json, 0, NULL);
	free(json);
	assert_non_null(root);
}

static json_t *governor(void)
{
	return json_object_get(json_object_get(root, "overhead"), "governor");
}

static json_t *reason(const char *id)
{
	return json_object_get(json_object_get(json_object_get(root, "loss"), "by_reason"), id);
}

static const char *lines(void)
{
	struct dlp_verdict verdict;
	size_t bytes;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &bytes);
	dlp_diagnose(model, NULL, &verdict);
	dlp_text_interval(out, model, &verdict);
	fclose(out);
	return text;
}

static void test_nothing_known(void **state)
{
	(void)state;
	window(110 * S, 2);
	load();
	assert_true(json_is_null(governor()));
}

static void test_nothing_done(void **state)
{
	(void)state;
	govern(100 * S, DLP_GOV_UNKNOWN, 0, 0);
	load();
	assert_true(json_real_value(json_object_get(governor(), "limit_pct")) == 1);
	assert_true(json_is_null(json_object_get(governor(), "measured_pct")));
	govern(101 * S, 4200, 0, 0);
	window(110 * S, 2);
	load();
	assert_true(json_real_value(json_object_get(governor(), "measured_pct")) == 0.42);
	assert_int_equal(json_array_size(json_object_get(governor(), "steps")), 0);
	assert_true(json_is_true(json_object_get(json_object_get(root, "loss"), "complete")));
	assert_null(strstr(lines(), "dlprof-bpf:"));
}

static void test_steps(void **state)
{
	json_t *step;

	(void)state;
	govern(101 * S, 25000, BIT(LABELS_OFF), 0);
	window(102 * S, 1);
	assert_non_null(strstr(lines(),
			       "\ndlprof-bpf: the probes cost 2.50 % of the job's CPU time "
			       "(limit 1.00 %): from now on without record_function labels\n"));
	window(103 * S, 1);
	assert_null(strstr(lines(), "dlprof-bpf:"));
	/* the same state again is no step */
	govern(104 * S, 6000, BIT(LABELS_OFF), 0);
	govern(107 * S, 3000, 0, 0);
	govern(108 * S, 30000, BIT(MESSAGES), 0);
	window(108 * S + 1, 1);
	assert_non_null(strstr(lines(), ": no longer without record_function labels\n"));
	assert_non_null(strstr(lines(), ": from now on without batch messages\n"));
	govern(109 * S, 30000, BIT(MESSAGES), 1);
	window(110 * S, 2);
	assert_non_null(strstr(lines(), "nothing more can be left out"));
	assert_int_equal(dlp_model_governed_ns(model, DLP_GOV_LABELS_OFF), 6 * S);
	assert_int_equal(dlp_model_governed_ns(model, DLP_GOV_MESSAGES), 2 * S);
	assert_int_equal(dlp_model_governed_ns(model, DLP_GOV_LONG_WAITS), 0);
	load();
	assert_int_equal(json_array_size(json_object_get(governor(), "steps")), 3);
	assert_true(json_is_false(json_object_get(governor(), "can_be_met")));
	step = json_array_get(json_object_get(governor(), "steps"), 1);
	assert_string_equal(json_string_value(json_object_get(step, "step")), "labels_off");
	assert_true(json_is_true(json_object_get(step, "undone")));
	assert_int_equal(json_integer_value(json_object_get(step, "at_ns")), 107 * S);
	assert_string_equal(
		json_string_value(json_object_get(step, "why")),
		"the probes cost 0.30 % of the job's CPU time, less than half of 1.00 %");
	assert_int_equal(json_integer_value(reason("governor_labels_off")), 6);
	assert_int_equal(json_integer_value(reason("governor_messages_off")), 2);
	assert_null(reason("governor_long_waits"));
	assert_true(json_is_false(json_object_get(json_object_get(root, "loss"), "complete")));
}

/* A sample of labels is marked where it is, and no figure is short for it. */
static void test_fewer_labels(void **state)
{
	(void)state;
	govern(101 * S, 25000, BIT(LABELS_FEW), 0);
	window(110 * S, 2);
	load();
	assert_int_equal(json_integer_value(reason("governor_labels_few")), 9);
	assert_true(json_is_true(json_object_get(json_object_get(root, "loss"), "complete")));
}

/* A flight recording begins after the step: what is known counts from the window's begin. */
static void test_begins_later(void **state)
{
	(void)state;
	dlp_model_free(model);
	assert_int_equal(dlp_model_new(&model), 0);
	govern(90 * S, 25000, BIT(LABELS_OFF), 0);
	window(100 * S, 0);
	window(110 * S, 2);
	assert_int_equal(dlp_model_governed_ns(model, DLP_GOV_LABELS_OFF), 10 * S);
}

static void test_many_steps(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		govern(101 * S + i, i % 2 ? 1000 : 30000, i % 2 ? 0 : BIT(LABELS_OFF), 0);
	window(110 * S, 2);
	load();
	assert_int_equal(json_array_size(json_object_get(governor(), "steps")),
			 DLP_MODEL_GOVERN_NOTES_MAX);
	assert_int_equal(json_integer_value(json_object_get(governor(), "steps_before")),
			 1000 - DLP_MODEL_GOVERN_NOTES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_done, setup, teardown),
		cmocka_unit_test_setup_teardown(test_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fewer_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_begins_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_steps, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
