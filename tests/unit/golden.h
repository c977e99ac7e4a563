/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Screens kept as text in tests/golden: characters, then a map of their styles. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "grid.h"

/*
 * Fails, printing both, unless the grid is what tests/golden/NAME.txt holds. With DLP_GOLDEN_WRITE
 * in the environment the file is written instead (make golden).
 */
void golden_check(const char *name, const struct dlp_grid *grid);

#endif /* GOLDEN_H */
