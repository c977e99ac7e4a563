/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What people read: the line after attaching, one line per interval, the final summary. No
 * escape codes; everything the job wrote is sanitised. Pure: writes to the given stream only.
 */
#ifndef DLP_TEXT_H
#define DLP_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "diagnose.h"
#include "model.h"
#include "summary.h"

/* `workers`: alive now. */
void dlp_text_attached(FILE *out, const struct dlp_summary_facts *facts, size_t workers);
/* "data_loading: disk_read (high)": 80 bytes hold any. */
void dlp_text_verdict(const struct dlp_verdict *verdict, char *buf, size_t size);
/* The model's last complete interval, with the verdict so far. */
void dlp_text_interval(FILE *out, const struct dlp_model *model, const struct dlp_verdict *verdict);
void dlp_text_summary(FILE *out, const struct dlp_model *model, const struct dlp_verdict *verdict,
		      const struct dlp_summary_facts *facts);

#endif /* DLP_TEXT_H */
