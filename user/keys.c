/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "keys.h"

#include "util.h"

/* Behind ESC [ or ESC O: parameters, and the byte that ends it. */
static int sequence(const char *bytes, size_t cnt, size_t *ret_used)
{
	static const struct {
		char parameter, end;
		int key;
	} known[] = {
		{ 0, 'A', DLP_KEY_UP },	       { 0, 'B', DLP_KEY_DOWN },
		{ 0, 'C', DLP_KEY_RIGHT },     { 0, 'D', DLP_KEY_LEFT },
		{ 0, 'H', DLP_KEY_HOME },      { 0, 'F', DLP_KEY_END },
		{ '1', '~', DLP_KEY_HOME },    { '4', '~', DLP_KEY_END },
		{ '5', '~', DLP_KEY_PAGE_UP }, { '6', '~', DLP_KEY_PAGE_DOWN },
	};
	char parameter = 0;
	size_t at = 0;

	/* ECMA-48: parameter and intermediate bytes come before the final one */
	for (; at < cnt && bytes[at] >= ' ' && bytes[at] < '@'; at++)
		parameter = at ? '?' : bytes[at];
	if (at == cnt) {
		*ret_used = at;
		return DLP_KEY_NONE;
	}
	*ret_used = at + 1;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(known); i++) {
		if (known[i].parameter == parameter && known[i].end == bytes[at])
			return known[i].key;
	}
	return DLP_KEY_NONE;
}

int dlp_key_next(const char *bytes, size_t cnt, size_t *ret_used)
{
	int key;

	if (bytes[0] == '\n') {
		*ret_used = 1;
		return DLP_KEY_ENTER;
	}
	if (bytes[0] != DLP_KEY_ESC || cnt < 2 || (bytes[1] != '[' && bytes[1] != 'O')) {
		*ret_used = 1;
		return (unsigned char)bytes[0];
	}
	key = sequence(bytes + 2, cnt - 2, ret_used);
	*ret_used += 2;
	return key;
}
