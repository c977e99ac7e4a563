/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From bytes to a checked event: sizes only, no meaning. Whoever gets a header from here may
 * cast it to the struct of its kind. Also prints events as text lines.
 */
#ifndef DLP_DECODE_H
#define DLP_DECODE_H

#include <stddef.h>
#include <stdio.h>

#include "dlprof/event.h"

/* Room for any known event, for input that is not aligned. */
union dlp_event_room {
	struct dlp_ev_hdr hdr;
#define X(number, NAME, type) struct type type;
	DLP_EVENT_KINDS(X)
#undef X
};

/*
 * The event at `data`, of which `bytes` are readable: 0 and *ret_hdr (which is `data` itself, or
 * a copy in *room where `data` is not aligned to 8), -EBADMSG when it is cut or too small for its
 * kind, -ENOENT when the kind is unknown (*ret_hdr is set: only the header may be read).
 */
int dlp_event_check(const void *data, size_t bytes, union dlp_event_room *room,
		    const struct dlp_ev_hdr **ret_hdr);

/* "SCOPE"; NULL when unknown. Static. */
const char *dlp_event_kind_name(unsigned int kind);
/* Smallest size of an event of this kind; 0 when unknown. */
size_t dlp_event_kind_size(unsigned int kind);
/* "run", as in the summary; NULL when out of range. Static. */
const char *dlp_state_name(unsigned int state);

/* One line, tab-separated key=value; the event is one that dlp_event_check accepted. */
void dlp_event_print(FILE *out, const struct dlp_ev_hdr *hdr);

#endif /* DLP_DECODE_H */
