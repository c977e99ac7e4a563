/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes that a terminal sends, as keys. Pure. */
#ifndef DLP_KEYS_H
#define DLP_KEYS_H

#include <stddef.h>

/* Characters are themselves. */
enum dlp_key {
	DLP_KEY_NONE = 0,
	DLP_KEY_ENTER = '\r',
	DLP_KEY_ESC = 27,
	DLP_KEY_UP = 256,
	DLP_KEY_DOWN,
	DLP_KEY_LEFT,
	DLP_KEY_RIGHT,
	DLP_KEY_PAGE_UP,
	DLP_KEY_PAGE_DOWN,
	DLP_KEY_HOME,
	DLP_KEY_END,
};

/*
 * The first key of `bytes` (cnt > 0); *ret_used: how many bytes it took. Sequences that mean
 * nothing here are DLP_KEY_NONE. What a terminal sends for one key arrives in one piece: an escape
 * character at the end is the Esc key.
 */
int dlp_key_next(const char *bytes, size_t cnt, size_t *ret_used);

#endif /* DLP_KEYS_H */
