/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of the CPU time is Python's garbage collector: a share of samples, with the error that
 * so many samples leave.
 */
#include <math.h>

#include "diagnose_priv.h"

static struct dlp_gc_share share_of(uint64_t gc, uint64_t samples)
{
	struct dlp_gc_share ret = { .share = NAN, .error = NAN, .samples = samples };

	if ((double)samples < LIMIT(GC_SAMPLES))
		return ret;
	ret.share = fmin(1, (double)gc / (double)samples);
	/* two standard errors of a binomial share; 0 or all of them are never that sure */
	ret.error = 2 * sqrt((ret.share * (1 - ret.share) + 1 / (double)samples) / (double)samples);
	return ret;
}

void dlp_gather_gc(struct dlp_facts *facts)
{
	const struct dlp_gc_sums *main = &facts->sums->main_gc, *workers = &facts->all.gc;

	facts->gc_inside = share_of(main->gc_inside, main->inside);
	facts->gc_outside =
		share_of(main->gc_samples - main->gc_inside, main->samples - main->inside);
	facts->gc_made = facts->main_makes ? facts->gc_inside :
					     share_of(workers->gc_samples, workers->samples);
}

double dlp_gc_charged(const struct dlp_gc_share *gc)
{
	/* NAN compares false: what is not known is charged with nothing */
	return gc->share >= LIMIT(GC_LEAST) && gc->share > gc->error ? gc->share : 0;
}

double dlp_gc_of_wall(const struct dlp_facts *facts)
{
	const struct dlp_sums *sums = facts->sums;

	if (!sums->main_valid || facts->window_s <= 0)
		return 0;
	return (dlp_gc_charged(&facts->gc_outside) * (double)sums->outside.ns[DLP_ST_RUN] +
		dlp_gc_charged(&facts->gc_inside) * (double)sums->inside.ns[DLP_ST_RUN]) /
	       1e9 / facts->window_s;
}

bool dlp_gc_is_mains(const struct dlp_facts *facts)
{
	return facts->main_makes || 2 * facts->gc_main_ns > facts->cost[DLP_CAUSE_GC_PAUSE];
}

const struct dlp_gc_share *dlp_gc_named(const struct dlp_facts *facts)
{
	return dlp_gc_is_mains(facts) ? &facts->gc_inside : &facts->gc_made;
}
