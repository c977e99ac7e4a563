/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "globs.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The characters that one place of a pattern takes; NUL ends a label and is never one. */
struct place {
	bool takes[256];
};

/* A class, behind its '['; returns what is behind its ']', NULL: it has none, or holds [:...:]. */
static const unsigned char *class_of(const unsigned char *at, struct place *ret)
{
	bool negated = *at == '!' || *at == '^', first = true;

	at += negated;
	memset(ret, 0, sizeof(*ret));
	for (; *at != ']' || first; first = false) {
		unsigned char from, to;

		if (*at == '[' && at[1] && strchr(":.=", at[1]))
			return NULL;
		at += *at == '\\';
		from = to = *at;
		if (!from)
			return NULL;
		at++;
		if (*at == '-' && at[1] && at[1] != ']') {
			at++;
			at += *at == '\\';
			to = *at;
			if (!to)
				return NULL;
			at++;
		}
		for (unsigned int c = from; c <= to; c++)
			ret->takes[c] = true;
	}
	for (unsigned int c = 1; negated && c < 256; c++)
		ret->takes[c] = !ret->takes[c];
	return at + 1;
}

/* One place of a pattern that is no star; NULL: see class_of(). */
static const unsigned char *place_of(const unsigned char *at, struct place *ret)
{
	if (*at == '[')
		return class_of(at + 1, ret);
	memset(ret, *at == '?', sizeof(*ret));
	if (*at == '?')
		return at + 1;
	at += *at == '\\' && at[1];
	ret->takes[*at] = true;
	return at + 1;
}

/* The lowest bit no pattern uses: their last bits are those in `accept`. */
static unsigned int first_free(const struct dlp_glob *glob)
{
	return glob->accept ? 64 - (unsigned int)__builtin_clzll(glob->accept) : 0;
}

int dlp_glob_add(struct dlp_glob *glob, const char *pattern)
{
	const unsigned char *at = (const unsigned char *)pattern;
	unsigned int bit = first_free(glob);
	struct dlp_glob more = *glob;
	struct place place;

	if (bit > 63)
		return -ENOSPC;
	more.start |= 1ull << bit;
	while (*at) {
		if (*at == '*') {
			more.loops |= 1ull << bit;
			at++;
			continue;
		}
		at = place_of(at, &place);
		if (!at)
			return -EINVAL;
		for (unsigned int c = 1; c < 256; c++)
			more.step[c] |= place.takes[c] ? 1ull << bit : 0;
		if (++bit > 63)
			return -ENOSPC;
	}
	more.accept |= 1ull << bit;
	*glob = more;
	return 0;
}
