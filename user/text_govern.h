/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the governor has done, as lines for people. Pure. */
#ifndef DLP_TEXT_GOVERN_H
#define DLP_TEXT_GOVERN_H

#include <stddef.h>
#include <stdio.h>

#include "model.h"

/* A line for each change in the last complete interval. */
void dlp_text_govern(FILE *out, const struct dlp_model *model);
/* "; the probes may cost ..., so for now ..." of the whole run; "" when nothing was left out. */
const char *dlp_text_governed(const struct dlp_model *model, char *buf, size_t size);

#endif /* DLP_TEXT_GOVERN_H */
