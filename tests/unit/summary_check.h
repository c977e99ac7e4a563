/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary of the fixture's job, read back: tests change `job` and `facts`, load() the document
 * and look at its paths. Included after cmocka.h.
 */
#ifndef SUMMARY_CHECK_H
#define SUMMARY_CHECK_H

#include <jansson.h>
#include <math.h>

#include "job_fixture.h"
#include "summary.h"

static struct job job;
static struct dlp_verdict verdict;
static struct dlp_summary_facts facts;
static json_t *root;

static inline int setup(void **state)
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
		.waits_seen = true,
		.process_seen = true,
		.cpus = 4,
		.cpus_allowed = 2,
	};
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	json_decref(root);
	root = NULL;
	return 0;
}

static inline void load(void)
{
	json_error_t why;
	char *text;

	json_decref(root);
	dlp_diagnose(&job.model, NULL, &verdict);
	assert_int_equal(dlp_summary_format(&job.model, &verdict, &facts, &text), 0);
	assert_int_equal(text[strlen(text) - 1], '\n');
	root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		fail_msg("%s in: %s", why.text, text);
	free(text);
}

/* The value at a path like "loaders.0.getnext.count"; fails when a part is missing. */
static inline json_t *at(const char *path)
{
	json_t *value = root;
	char part[64];

	while (*path) {
		size_t len = strcspn(path, ".");

		assert_true(len < sizeof(part));
		memcpy(part, path, len);
		part[len] = '\0';
		value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10)) :
					       json_object_get(value, part);
		if (!value)
			fail_msg("nothing at '%s'", part);
		path += len + (path[len] == '.');
	}
	return value;
}

static inline void assert_null_at(const char *path)
{
	if (!json_is_null(at(path)))
		fail_msg("'%s' is not null", path);
}

static inline void assert_text(const char *path, const char *wanted)
{
	assert_true(json_is_string(at(path)));
	assert_string_equal(json_string_value(at(path)), wanted);
}

static inline void assert_integer(const char *path, json_int_t wanted)
{
	assert_true(json_is_integer(at(path)));
	assert_int_equal(json_integer_value(at(path)), wanted);
}

static inline void assert_number(const char *path, double wanted, double slack)
{
	assert_true(json_is_number(at(path)));
	if (fabs(json_number_value(at(path)) - wanted) > slack)
		fail_msg("'%s' is %f, wanted %f", path, json_number_value(at(path)), wanted);
}

#endif /* SUMMARY_CHECK_H */
