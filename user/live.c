/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "live.h"

#include <errno.h>
#include <stdlib.h>

#include "sums.h"
#include "util.h"

/*
 * What is called lately: as much as holds this many calls, but no more than that. Fewer say nothing;
 * where calls are rarer still the window has to do.
 */
#define LATELY_CALLS 3
#define LATELY_NS (3 * DLP_NS_PER_S)
/* Readings kept, 30 kB each. Short intervals with a long window: it is cut to the newest ones. */
#define READINGS_MAX 64

struct dlp_live {
	uint64_t window_ns;
	size_t late;	    /* readings that lie within LATELY_NS */
	uint64_t turned_ns; /* the job changed then: what was before does not count; 0 = never */
	/* what it was lately, at the previous interval, when that differed from the window's */
	enum dlp_bottleneck doubt_bottleneck;
	enum dlp_cause doubt_cause;
	bool doubt;
	size_t cnt, room; /* ever taken; the ring holds the newest */
	struct dlp_sums sums[];
};

int dlp_live_new(uint64_t window_ns, uint64_t interval_ns, struct dlp_live **ret)
{
	uint64_t room = window_ns / interval_ns + 1;
	struct dlp_live *live;

	if (room > READINGS_MAX)
		room = READINGS_MAX;
	live = calloc(1, sizeof(*live) + room * sizeof(live->sums[0]));
	if (!live)
		return -ENOMEM;
	live->window_ns = window_ns;
	live->room = (size_t)room;
	/* rounded up: at least the newest one */
	live->late = (size_t)((LATELY_NS - 1) / interval_ns) + 1;
	*ret = live;
	return 0;
}

void dlp_live_free(struct dlp_live *live)
{
	free(live);
}

/* The reading so many intervals ago (1 = the newest); NULL = the window's start. */
static const struct dlp_sums *reading(const struct dlp_live *live, size_t back)
{
	return back > live->cnt ? NULL : &live->sums[(live->cnt - back) % live->room];
}

static const struct dlp_sums *lately(const struct dlp_live *live, const struct dlp_model *model)
{
	const struct dlp_sums *ret = NULL;

	for (size_t back = 1; back <= live->late && back <= live->room; back++) {
		ret = reading(live, back);
		if (!ret || model->getnext_cnt >= ret->calls + LATELY_CALLS)
			break;
	}
	return ret;
}

static const struct dlp_sums *window(const struct dlp_live *live, const struct dlp_model *model)
{
	uint64_t from_ns = model->end_ns > live->window_ns ? model->end_ns - live->window_ns : 0;
	const struct dlp_sums *ret = NULL;

	for (size_t back = 1; back <= live->room; back++) {
		const struct dlp_sums *older = reading(live, back);

		if (!older) {
			/* from the start on, unless there was a turn or that is too long ago */
			return ret && (live->turned_ns || model->start_ns < from_ns) ? ret : NULL;
		}
		if (ret && (older->to_ns < from_ns || older->to_ns < live->turned_ns))
			break;
		ret = older;
	}
	return ret;
}

/*
 * Has the job changed? When what it was lately is clear, at once; else when it was the same at the
 * interval before.
 */
static bool turned(struct dlp_live *live, const struct dlp_verdict *whole,
		   const struct dlp_verdict *late)
{
	bool differs = late->bottleneck != DLP_BN_INSUFFICIENT &&
		       (late->bottleneck != whole->bottleneck || late->cause != whole->cause);
	bool again = differs && live->doubt && live->doubt_bottleneck == late->bottleneck &&
		     live->doubt_cause == late->cause;

	live->doubt = differs;
	live->doubt_bottleneck = late->bottleneck;
	live->doubt_cause = late->cause;
	return differs &&
	       (again || late->confidence > DLP_CONF_LOW || late->bottleneck == DLP_BN_STALLED);
}

void dlp_live_verdict(struct dlp_live *live, const struct dlp_model *model, struct dlp_verdict *ret)
{
	const struct dlp_sums *since = window(live, model), *recent = lately(live, model);
	struct dlp_verdict late;

	dlp_diagnose(model, since, ret);
	/* else the window is no longer than that */
	if (recent && (!since || recent->to_ns > since->to_ns)) {
		dlp_diagnose(model, recent, &late);
		if (turned(live, ret, &late)) {
			live->turned_ns = recent->to_ns;
			*ret = late;
		}
	}
	dlp_sums_take(model, &live->sums[live->cnt++ % live->room]);
}
