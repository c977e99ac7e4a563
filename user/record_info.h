/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's facts as a recording keeps them, and back. Pure. */
#ifndef DLP_RECORD_INFO_H
#define DLP_RECORD_INFO_H

#include <stddef.h>

#include "dlprof/record.h"
#include "summary.h"

/* Texts are cut to their fields, whole characters or not: whoever shows them sanitises them. */
void dlp_info_pack(const struct dlp_summary_facts *facts, struct dlp_rec_info *ret);

/* Facts, and what they point to. */
struct dlp_replay_facts {
	struct dlp_summary_facts facts;
	struct dlp_rec_info info;
	struct dlp_target target;
	struct dlp_missing missing[DLP_REC_MISSING_MAX];
};

/* An untrusted info of `bytes`, which may be shorter or longer than today's. 0 or -EBADMSG. */
int dlp_info_unpack(const void *data, size_t bytes, struct dlp_replay_facts *ret);

#endif /* DLP_RECORD_INFO_H */
