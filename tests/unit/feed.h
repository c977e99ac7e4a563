/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A model that is fed single events by hand: trainer 10, a window from FEED_START_NS on. For what
 * needs no whole job; those come from scn.h.
 */
#ifndef DLP_TEST_FEED_H
#define DLP_TEST_FEED_H

#include <string.h>

#include "model.h"

#define FEED_START_NS 1000000000ull
#define FEED_TRAINER 10u

#define FEED_HDR(NAME, type, at_ns, pid)                                                           \
	{ .size = sizeof(struct type), .kind = DLP_EV_##NAME, .ts_ns = (at_ns), .tgid = (pid),     \
	  .tid = (pid) }

#define feed(model, event) assert_int_equal(dlp_model_apply(model, event, sizeof(*(event))), 0)

static inline void feed_window(struct dlp_model *model, uint64_t at_ns, uint32_t phase)
{
	struct dlp_ev_window ev = { .hdr = FEED_HDR(WINDOW, dlp_ev_window, at_ns, FEED_TRAINER),
				    .phase = phase };

	feed(model, &ev);
}

/* With the window not open yet. */
static inline struct dlp_model *feed_new(void)
{
	struct dlp_ev_proc proc = { .hdr = FEED_HDR(PROC, dlp_ev_proc, 1000, FEED_TRAINER),
				    .role = DLP_ROLE_TRAINER };
	struct dlp_model *model;

	assert_int_equal(dlp_model_new(&model), 0);
	feed(model, &proc);
	return model;
}

static inline struct dlp_model *feed_open(void)
{
	struct dlp_model *model = feed_new();

	feed_window(model, FEED_START_NS, 0);
	return model;
}

static inline void feed_label(struct dlp_model *model, uint32_t id, const char *text)
{
	struct dlp_ev_label ev = { .hdr = FEED_HDR(LABEL, dlp_ev_label, 2000, FEED_TRAINER),
				   .label = id };
	size_t bytes = strlen(text);

	memcpy(ev.text, text, bytes < sizeof(ev.text) ? bytes : sizeof(ev.text));
	feed(model, &ev);
}

#endif /* DLP_TEST_FEED_H */
