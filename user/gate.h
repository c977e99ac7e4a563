/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Conditions on a run's figures (--fail-if): parsed from text like "exposed_wait>0.2", then checked
 * against what the whole window has shown. Figures are rounded as in the summary, so that whoever
 * compares with that comes to the same answer. Pure.
 */
#ifndef DLP_GATE_H
#define DLP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose.h"
#include "model.h"
#include "summary.h"

/* More than anybody types. */
#define DLP_GATES_MAX 16

enum dlp_gate_op { DLP_GATE_ABOVE, DLP_GATE_FROM, DLP_GATE_BELOW, DLP_GATE_UP_TO };

struct dlp_gate {
	const char *text;    /* as given, borrowed; untrusted */
	unsigned int figure; /* 0 .. dlp_gate_figure_cnt() - 1 */
	enum dlp_gate_op op;
	double limit; /* in the figure's unit; finite, not negative */
};

enum dlp_gate_state {
	DLP_GATE_CLEAR,	  /* the condition does not hold */
	DLP_GATE_CROSSED, /* it does */
	DLP_GATE_UNKNOWN, /* the figure was not measured, or too little was seen to clear the job */
};

struct dlp_gate_answer {
	enum dlp_gate_state state;
	double value;	 /* NAN = not measured */
	uint32_t loader; /* whose value it is; 0 = the whole run's */
};

/*
 * FIGURE OP NUMBER with OP one of > >= < <=, or the name of a figure that is true or false alone;
 * blanks between them do no harm. 0, or -EINVAL with what is wrong in `why`.
 */
int dlp_gate_parse(const char *text, struct dlp_gate *ret, char *why, size_t why_size);

void dlp_gate_check(const struct dlp_gate *gate, const struct dlp_model *model,
		    const struct dlp_verdict *verdict, const struct dlp_summary_facts *facts,
		    struct dlp_gate_answer *ret);
/*
 * One line about a gate that is not clear, names sanitised: "gate crossed: exposed_wait is 0.61
 * (--fail-if 'exposed_wait>0.2')". Returns buf.
 */
const char *dlp_gate_say(const struct dlp_gate *gate, const struct dlp_gate_answer *answer,
			 char *buf, size_t size);

/* "exposed_wait", ...; NULL from dlp_gate_figure_cnt() on. */
const char *dlp_gate_figure_name(unsigned int figure);
unsigned int dlp_gate_figure_cnt(void);

#endif /* DLP_GATE_H */
