/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "loss.h"

#include <string.h>

#include "util.h"

/* What a counter that is not zero means. */
enum effect {
	EFFECT_SHORT = 0, /* some figure may be short */
	EFFECT_NOTE,	  /* said, but every figure still holds */
	EFFECT_NO_REASON, /* not a loss, or told elsewhere */
};

static const struct {
	const char *id, *text;
} counters[DLP_CNT_MAX] = {
#define X(NAME, id, text) [DLP_CNT_##NAME] = { id, text },
	DLP_COUNTERS(X)
#undef X
};

static enum effect effect_of(enum dlp_counter counter)
{
	switch (counter) {
	case DLP_CNT_RING_BYTES: /* the bytes of RING_FULL */
	case DLP_CNT_SYSCALL_SEEN:
		return EFFECT_NO_REASON;
	case DLP_CNT_SCOPE_UNPAIRED: /* at most those open while attaching */
	case DLP_CNT_SCOPE_DEEP:     /* user labels inside user labels; GetNext is never so deep */
	case DLP_CNT_CLASSIFY_FAULT: /* that time is in "other", and sums stay exact */
	case DLP_CNT_RECORDING_LOST: /* the live figures have them; a replay says more */
		return EFFECT_NOTE;
	default:
		return EFFECT_SHORT;
	}
}

static void add(struct dlp_loss *loss, const char *id, const char *text, uint64_t count,
		enum effect effect)
{
	if (!count || effect == EFFECT_NO_REASON)
		return;
	if (count >= loss->reason[loss->most].count)
		loss->most = loss->reason_cnt;
	loss->reason[loss->reason_cnt++] =
		(struct dlp_loss_reason){ .id = id, .text = text, .count = count };
	if (effect == EFFECT_SHORT)
		loss->complete = false;
}

/* What the job was spared, in seconds that were begun. */
static void add_steps(struct dlp_loss *loss, const struct dlp_model *model)
{
	static const struct {
		const char *id, *text;
		enum effect effect;
	} steps[DLP_GOV_MAX] = {
		/* such stages are marked as sampled */
		[DLP_GOV_LABELS_FEW] = { "governor_labels_few",
					 "seconds with fewer record_function labels, to spare the job",
					 EFFECT_NOTE },
		[DLP_GOV_LABELS_OFF] = { "governor_labels_off",
					 "seconds without record_function labels, to spare the job",
					 EFFECT_SHORT },
		[DLP_GOV_LONG_WAITS] = { "governor_long_waits",
					 "seconds without waits below 100 ms, to spare the job",
					 EFFECT_SHORT },
		[DLP_GOV_MESSAGES] = { "governor_messages_off",
				       "seconds without batch messages, to spare the job",
				       EFFECT_SHORT },
		[DLP_GOV_WORKER_SCOPES] = { "governor_worker_scopes_off",
					    "seconds without the workers' scopes, to spare the job",
					    EFFECT_SHORT },
	};

	for (unsigned int i = 0; i < DLP_GOV_MAX; i++)
		add(loss, steps[i].id, steps[i].text,
		    (dlp_model_governed_ns(model, i) + DLP_NS_PER_S - 1) / DLP_NS_PER_S,
		    steps[i].effect);
}

void dlp_loss_get(const struct dlp_model *model, struct dlp_loss *ret)
{
	const struct dlp_ev_counters *seen = &model->counters;

	memset(ret, 0, sizeof(*ret));
	ret->counted = seen->hdr.size != 0;
	ret->complete = ret->counted;
	if (ret->counted) {
		ret->events = seen->value[DLP_CNT_RING_FULL];
		ret->bytes = seen->value[DLP_CNT_RING_BYTES];
		for (unsigned int i = 0; i < DLP_CNT_MAX; i++)
			add(ret, counters[i].id, counters[i].text, seen->value[i], effect_of(i));
		add(ret, "recursion_misses",
		    "times the kernel skipped a program that was running already",
		    seen->recursion_misses, EFFECT_SHORT);
	}
	add_steps(ret, model);
	add(ret, "malformed_events", "events that could not be decoded", model->malformed_cnt,
	    EFFECT_SHORT);
	add(ret, "unknown_kinds", "events of a kind this version does not know", model->unknown_cnt,
	    EFFECT_SHORT);
	add(ret, "getnext_begun",
	    "scopes in which the tool attached and that may have been a GetNext",
	    model->begun_open_cnt, EFFECT_SHORT);
	add(ret, "model_full", "things that did not fit the model's bounds", model->dropped_cnt,
	    EFFECT_SHORT);
}
