/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hist.h"

static uint64_t seed = 1;

static uint64_t chance(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 20;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void assert_close(uint64_t got, uint64_t truth)
{
	uint64_t off = got > truth ? got - truth : truth - got;

	/* 1/128 of the value; whole nanoseconds below 64 */
	if (off * 128 > truth + 127)
		fail_msg("%llu for %llu", (unsigned long long)got, (unsigned long long)truth);
}

/* Nearest rank over the sorted values is the truth. */
static void test_quantiles(void **unused)
{
	static const double qs[] = { 0.001, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999 };
	static struct dlp_hist hist;
	enum { N = 20001 };
	static uint64_t value[N];

	(void)unused;
	for (int shape = 0; shape < 4; shape++) {
		uint64_t sum = 0;

		memset(&hist, 0, sizeof(hist));
		for (int i = 0; i < N; i++) {
			static const uint64_t shifts[] = { 43, 34, 14 };

			value[i] = chance() >> (shape == 3 ? 3 + chance() % 40 : shifts[shape]);
			sum += value[i];
			dlp_hist_add(&hist, value[i]);
		}
		qsort(value, N, sizeof(value[0]), by_value);
		assert_int_equal(hist.cnt, N);
		assert_int_equal(hist.sum_ns, sum);
		assert_int_equal(hist.min_ns, value[0]);
		assert_int_equal(hist.max_ns, value[N - 1]);
		for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
			size_t rank = (size_t)(qs[i] * N);

			if ((double)rank < qs[i] * N)
				rank++;
			assert_close(dlp_hist_quantile(&hist, qs[i]), value[rank - 1]);
		}
		assert_int_equal(dlp_hist_quantile(&hist, 0), value[0]);
		assert_int_equal(dlp_hist_quantile(&hist, 1), value[N - 1]);
	}
}

static void test_every_power(void **unused)
{
	static struct dlp_hist hist;

	(void)unused;
	for (int power = 0; power < 43; power++) {
		for (int off = -1; off <= 1; off++) {
			uint64_t ns = (1ull << power) + (uint64_t)off;

			memset(&hist, 0, sizeof(hist));
			dlp_hist_add(&hist, 0);
			dlp_hist_add(&hist, ns);
			dlp_hist_add(&hist, UINT64_MAX / 4);
			assert_close(dlp_hist_quantile(&hist, 0.5), ns);
		}
	}
}

static void test_edges(void **unused)
{
	static struct dlp_hist hist;

	(void)unused;
	memset(&hist, 0, sizeof(hist));
	assert_int_equal(dlp_hist_quantile(&hist, 0.5), 0);
	assert_int_equal(dlp_hist_count_from(&hist, 0), 0);
	dlp_hist_add(&hist, 1000001);
	/* one value: all quantiles are it, exactly */
	assert_int_equal(dlp_hist_quantile(&hist, 0.01), 1000001);
	assert_int_equal(dlp_hist_quantile(&hist, 0.5), 1000001);
	assert_int_equal(dlp_hist_quantile(&hist, 0.99), 1000001);
	/* beyond the last bucket: the maximum is kept exactly */
	dlp_hist_add(&hist, UINT64_MAX);
	assert_int_equal(hist.max_ns, UINT64_MAX);
	assert_int_equal(dlp_hist_quantile(&hist, 0.9), UINT64_MAX);
	assert_int_equal(dlp_hist_quantile(&hist, __builtin_nan("")), 1000001);
	/* a full bucket does not wrap */
	memset(&hist, 0, sizeof(hist));
	dlp_hist_add(&hist, 5);
	hist.bucket[5] = UINT32_MAX;
	dlp_hist_add(&hist, 5);
	assert_int_equal(hist.bucket[5], UINT32_MAX);
}

static void test_merge(void **unused)
{
	static struct dlp_hist a, b, both, empty;

	(void)unused;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(&both, 0, sizeof(both));
	for (int i = 0; i < 5000; i++) {
		uint64_t ns = chance() >> 20;

		dlp_hist_add(i % 3 ? &a : &b, ns);
		dlp_hist_add(&both, ns);
	}
	dlp_hist_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof(a));
	dlp_hist_merge(&a, &empty);
	assert_memory_equal(&a, &both, sizeof(a));
	dlp_hist_merge(&empty, &a);
	assert_memory_equal(&empty, &both, sizeof(a));
	memset(&empty, 0, sizeof(empty));
}

/* What came after a copy was taken: counts are exact, and the ends as far as buckets tell. */
static void test_less(void **unused)
{
	static struct dlp_hist all, before, after, nothing;

	(void)unused;
	for (int i = 0; i < 6000; i++) {
		uint64_t ns = chance() >> 20;

		if (i == 3000)
			before = all;
		if (i >= 3000)
			dlp_hist_add(&after, ns);
		dlp_hist_add(&all, ns);
	}
	dlp_hist_less(&all, &before);
	assert_int_equal(all.cnt, 3000);
	assert_int_equal(all.sum_ns, after.sum_ns);
	assert_memory_equal(all.bucket, after.bucket, sizeof(all.bucket));
	assert_true(all.max_ns >= after.max_ns && all.max_ns <= after.max_ns + after.max_ns / 64);
	assert_true(all.min_ns <= after.min_ns && all.min_ns >= after.min_ns - after.min_ns / 64);
	dlp_hist_less(&all, &all);
	assert_memory_equal(&all, &nothing, sizeof(all));
}

static void test_count_from(void **unused)
{
	static struct dlp_hist hist;

	(void)unused;
	memset(&hist, 0, sizeof(hist));
	for (uint64_t ns = 1; ns <= 1000; ns++)
		dlp_hist_add(&hist, ns * 1000);
	assert_int_equal(dlp_hist_count_from(&hist, 0), 1000);
	assert_int_equal(dlp_hist_count_from(&hist, 2000000), 0);
	/* a bucket at 500 us is 8 us wide: at most that many too few, never too many */
	assert_true(dlp_hist_count_from(&hist, 500000) <= 501);
	assert_true(dlp_hist_count_from(&hist, 500000) >= 501 - 8);
}

static void test_longest(void **unused)
{
	static struct dlp_longest list;
	struct dlp_interval out[DLP_LONGEST_MAX];
	enum { N = 3000 };
	static uint64_t duration[N];
	size_t cnt;

	(void)unused;
	memset(&list, 0, sizeof(list));
	assert_int_equal(dlp_longest_from(&list, 0, out), 0);
	for (int i = 0; i < N; i++) {
		struct dlp_interval item = { .start_ns = (uint64_t)(N - i) * 1000, .batch = i };

		duration[i] = chance() % 100000;
		item.end_ns = item.start_ns + duration[i];
		dlp_longest_add(&list, &item);
	}
	cnt = dlp_longest_from(&list, 0, out);
	assert_int_equal(cnt, DLP_LONGEST_MAX);
	for (size_t i = 0; i < cnt; i++) {
		assert_int_equal(out[i].end_ns - out[i].start_ns, duration[out[i].batch]);
		if (i)
			assert_true(out[i].start_ns > out[i - 1].start_ns);
	}
	qsort(duration, N, sizeof(duration[0]), by_value);
	for (size_t i = 0; i < cnt; i++)
		assert_true(out[i].end_ns - out[i].start_ns >= duration[N - DLP_LONGEST_MAX]);
	cnt = dlp_longest_from(&list, duration[N - 10], out);
	assert_true(cnt >= 10);
	for (size_t i = 0; i < cnt; i++)
		assert_true(out[i].end_ns - out[i].start_ns >= duration[N - 10]);
}

/* Weighted entries are the same as that many single ones. */
static void test_times(void **unused)
{
	static struct dlp_hist once, single;

	(void)unused;
	for (uint64_t ns = 1; ns < 1u << 30; ns *= 3) {
		dlp_hist_add_times(&once, ns, (uint32_t)(ns % 17));
		for (uint64_t i = 0; i < ns % 17; i++)
			dlp_hist_add(&single, ns);
	}
	assert_memory_equal(&once, &single, sizeof(once));
	dlp_hist_add_times(&once, 5, UINT32_MAX);
	assert_int_equal(dlp_hist_quantile(&once, 0.5), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles),   cmocka_unit_test(test_times),
		cmocka_unit_test(test_every_power), cmocka_unit_test(test_edges),
		cmocka_unit_test(test_merge),	    cmocka_unit_test(test_less),
		cmocka_unit_test(test_count_from),
		cmocka_unit_test(test_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
