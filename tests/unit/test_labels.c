/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which labels are sent, and how many of their scopes: against a small imitation of the capture
 * side, which does as it is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "labels.h"
#include "util.h"

#define LABELS 600u

static struct dlp_labels *labels;
static uint64_t now;

/* The capture side. */
static struct {
	uint32_t every[LABELS + 1];
	uint64_t seen[LABELS + 1]; /* scopes, to choose from */
	uint64_t sent[LABELS + 1], told[LABELS + 1]; /* events, and scopes they stand for */
	unsigned int calls;
	int answer;
} side;

static int limit(void *ctx, uint32_t label, uint32_t every)
{
	assert_ptr_equal(ctx, &side);
	assert_true(label > 0 && label <= LABELS && every > 0);
	side.calls++;
	if (!side.answer)
		side.every[label] = every;
	return side.answer;
}

static void start(const char *const *globs, size_t cnt)
{
	memset(&side, 0, sizeof(side));
	for (size_t i = 0; i <= LABELS; i++)
		side.every[i] = 1;
	now = 50 * DLP_NS_PER_S;
	dlp_labels_free(labels);
	assert_int_equal(dlp_labels_new(globs, cnt, limit, &side, &labels), 0);
}

static int teardown(void **state)
{
	(void)state;
	dlp_labels_free(labels);
	labels = NULL;
	return 0;
}

static void tell(uint32_t id, const char *text, uint32_t flags)
{
	struct dlp_ev_label ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_LABEL, .ts_ns = now },
		.label = id,
		.flags = flags,
	};

	memcpy(ev.text, text, strlen(text));
	assert_true(dlp_labels_apply(labels, &ev.hdr));
}

static bool event(uint32_t id, uint32_t weight, uint16_t flags)
{
	struct dlp_ev_scope ev = {
		.hdr = { .size = sizeof(ev), .kind = DLP_EV_SCOPE, .flags = flags, .ts_ns = now },
		.label = id,
		.weight = weight,
	};

	return dlp_labels_apply(labels, &ev.hdr);
}

/* A scope ends in the job. */
static void scope(uint32_t id)
{
	if (side.every[id] == DLP_LABEL_NONE || side.seen[id]++ % side.every[id])
		return;
	side.sent[id]++;
	side.told[id] += side.every[id];
	assert_true(event(id, side.every[id], 0));
}

static void other_event(void)
{
	struct dlp_ev_hdr hdr = { .size = sizeof(hdr), .kind = DLP_EV_WINDOW, .ts_ns = now };

	assert_true(dlp_labels_apply(labels, &hdr));
}

/* So many seconds in which each of the first `cnt` labels has so many scopes a second. */
static void run(unsigned int seconds, uint32_t cnt, unsigned int per_s)
{
	uint64_t begin = now;

	memset(side.sent, 0, sizeof(side.sent));
	memset(side.told, 0, sizeof(side.told));
	for (unsigned int i = 0; i < seconds * per_s; i++) {
		now = begin + i * DLP_NS_PER_S / per_s;
		for (uint32_t id = 1; id <= cnt; id++)
			scope(id);
	}
	now = begin + seconds * DLP_NS_PER_S;
	other_event();
}

static uint64_t sum(const uint64_t *of)
{
	uint64_t all = 0;

	for (size_t i = 1; i <= LABELS; i++)
		all += of[i];
	return all;
}

static void test_globs(void **state)
{
	static const char *const globs[] = { "load*", "step [ab]" };

	(void)state;
	start(globs, 2);
	tell(1, "load jpeg", 0);
	tell(2, "reload", 0);
	tell(3, "step b", 0);
	tell(4, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
	     DLP_SCOPE_GETNEXT);
	tell(5, "", 0);
	assert_int_equal(side.every[1], 1);
	assert_int_equal(side.every[2], DLP_LABEL_NONE);
	assert_int_equal(side.every[3], 1);
	assert_int_equal(side.every[4], 1);
	assert_int_equal(side.every[5], DLP_LABEL_NONE);
	assert_int_equal(side.calls, 2);
	/* those under way are left out */
	assert_true(event(1, 1, 0));
	assert_false(event(2, 1, 0));
	assert_true(event(4, 1, DLP_SCOPE_GETNEXT));
	assert_true(event(0, 1, 0));
	/* and it stays so */
	run(5, 1, 3000);
	assert_int_equal(side.every[2], DLP_LABEL_NONE);
	assert_true(side.every[1] > 1);
}

static void test_refused(void **state)
{
	static const char *const globs[] = { "x" };

	(void)state;
	start(globs, 1);
	side.answer = -EINVAL;
	tell(1, "y", 0);
	assert_int_equal(side.every[1], 1);
	assert_false(event(1, 1, 0));
	/* tried again, and only until it is done */
	side.answer = 0;
	now += 2 * DLP_NS_PER_S;
	other_event();
	assert_int_equal(side.every[1], DLP_LABEL_NONE);
	now += 2 * DLP_NS_PER_S;
	other_event();
	assert_int_equal(side.calls, 2);
	/* no capture side: nothing is limited */
	dlp_labels_free(labels);
	assert_int_equal(dlp_labels_new(NULL, 0, NULL, NULL, &labels), 0);
	for (unsigned int i = 0; i < 20000; i++)
		assert_true(event(1, 1, 0));
}

static void test_rare_is_exact(void **state)
{
	(void)state;
	start(NULL, 0);
	run(5, 1, 1900);
	run(5, 4, 1200);
	assert_int_equal(side.calls, 0);
	assert_int_equal(side.sent[1], 6000);
}

static void test_one_frequent(void **state)
{
	(void)state;
	start(NULL, 0);
	run(3, 1, 20000);
	/* the first second's allowance is soon used up */
	assert_true(sum(side.sent) < 8000);
	run(4, 1, 20000);
	assert_true(sum(side.sent) >= 4 * 250 && sum(side.sent) <= 4 * 500);
	/* what is told stands for all */
	assert_true(sum(side.told) >= 79000 && sum(side.told) <= 81000);
	/* a wavering rate changes nothing */
	side.calls = 0;
	run(2, 1, 18000);
	run(2, 1, 21000);
	run(2, 1, 19000);
	assert_true(side.calls <= 1);
	/* between the two thresholds it stays sampled; below, each counts again */
	run(3, 1, 1500);
	assert_true(side.every[1] > 1);
	run(3, 1, 900);
	assert_int_equal(side.every[1], 1);
	run(2, 1, 1900);
	assert_int_equal(side.sent[1], 3800);
}

static void test_silence(void **state)
{
	(void)state;
	start(NULL, 0);
	run(2, 1, 50000);
	assert_true(side.every[1] > 1);
	now += 3 * DLP_NS_PER_S;
	other_event();
	now += 3 * DLP_NS_PER_S;
	other_event();
	assert_int_equal(side.every[1], 1);
}

/* None is frequent, together they are. */
static void test_all_together(void **state)
{
	(void)state;
	start(NULL, 0);
	run(4, 10, 1900);
	run(4, 10, 1900);
	assert_true(sum(side.sent) <= 4 * 5000);
	assert_true(sum(side.sent) >= 4 * 1000);
	assert_true(sum(side.told) > 75000 && sum(side.told) < 77000);
	/* hundreds of labels, a million scopes a second */
	run(2, LABELS, 1700);
	run(2, LABELS, 1700);
	assert_true(sum(side.sent) <= 2 * 5000);
	/* a rare one among frequent ones stays whole */
	start(NULL, 0);
	for (unsigned int i = 0; i < 4000; i++) {
		now += DLP_NS_PER_MS;
		for (unsigned int j = 0; j < 20; j++)
			scope(1 + j % 4);
		if (i % 10 == 0)
			scope(9);
	}
	assert_int_equal(side.every[9], 1);
	assert_int_equal(side.sent[9], 400);
}

static void test_odd_input(void **state)
{
	char text[DLP_LABEL_MAX];
	static const char *const globs[] = { "*x" };

	(void)state;
	start(globs, 1);
	/* not terminated; ids nobody gave out; times that go back */
	memset(text, 'x', sizeof(text));
	for (uint32_t id = DLP_LABELS_MAX + 1; id < DLP_LABELS_MAX + 9; id++) {
		struct dlp_ev_label ev = { .hdr = { .size = sizeof(ev), .kind = DLP_EV_LABEL,
						    .ts_ns = now },
					   .label = id };

		memcpy(ev.text, text, sizeof(text));
		assert_true(dlp_labels_apply(labels, &ev.hdr));
		ev.label = 1;
		assert_true(dlp_labels_apply(labels, &ev.hdr));
		assert_true(event(id, 1, 0));
	}
	assert_true(event(UINT32_MAX, UINT32_MAX, 0));
	assert_int_equal(side.calls, 0);
	for (unsigned int i = 0; i < 30000; i++) {
		now--;
		assert_true(event(1, 1, 0));
	}
	assert_true(side.every[1] > 1 && side.every[1] != DLP_LABEL_NONE);
	now = UINT64_MAX;
	assert_true(event(1, UINT32_MAX, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_globs, teardown),
		cmocka_unit_test_teardown(test_refused, teardown),
		cmocka_unit_test_teardown(test_rare_is_exact, teardown),
		cmocka_unit_test_teardown(test_one_frequent, teardown),
		cmocka_unit_test_teardown(test_silence, teardown),
		cmocka_unit_test_teardown(test_all_together, teardown),
		cmocka_unit_test_teardown(test_odd_input, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
