/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rows: found again however many there are, and what is open on them nests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "track.h"

static void test_many(void **state)
{
	struct dlp_tracks tracks = { 0 };

	(void)state;
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t pid = 1; pid <= 100; pid++) {
			for (uint32_t row = 0; row < 50; row++) {
				struct dlp_track *track = dlp_tracks_get(&tracks, pid, row << 22);

				assert_non_null(track);
				assert_int_equal(track->named, pass == 1);
				assert_int_equal(track->tag[0], pass ? pid * 50 + row : 0);
				track->named = true;
				track->tag[0] = pid * 50 + row;
			}
		}
		assert_int_equal(tracks.track_cnt, 5000);
	}
	dlp_tracks_fini(&tracks);
}

static void push(struct dlp_track *track, uint64_t start_ns, uint64_t end_ns, uint64_t cut_ns,
		 uint32_t depth)
{
	assert_true(dlp_track_push(track, start_ns, &end_ns));
	assert_int_equal(end_ns, cut_ns);
	assert_int_equal(track->depth, depth);
}

static void test_nesting(void **state)
{
	struct dlp_track track = { 0 };
	uint64_t end_ns = 2000;

	(void)state;
	push(&track, 10, 100, 100, 1);
	push(&track, 10, 50, 50, 2);
	push(&track, 40, 60, 50, 3); /* outlasts the one around it */
	push(&track, 50, 60, 60, 2); /* which has ended now */
	push(&track, 60, 60, 60, 2);
	push(&track, 99, 500, 100, 2);
	push(&track, 100, 500, 500, 1);
	for (uint32_t depth = 2; depth <= DLP_TRACK_DEPTH_MAX; depth++)
		push(&track, 100 + depth, 500 - depth, 500 - depth, depth);
	assert_false(dlp_track_push(&track, 200, &end_ns));
	push(&track, 1000, 2000, 2000, 1);
	end_ns = 999;
	assert_false(dlp_track_push(&track, 1000, &end_ns));
	end_ns = UINT64_MAX;
	assert_false(dlp_track_push(&track, 3000, &end_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_nesting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
