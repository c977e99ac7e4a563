/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rank_env.h"

#include <string.h>

#include "procfs.h"
#include "util.h"

/* Batch systems hand over tens of kilobytes; the kernel allows 2 MB, of which a part has to do. */
#define ENVIRON_BYTES (256 * 1024)
/* No job has as many ranks; a number that is longer is none. */
#define NUMBER_MAX 9999999

static size_t whole(const char *texts, size_t bytes)
{
	while (bytes && texts[bytes - 1])
		bytes--;
	return bytes;
}

/* The number of `name` among texts that each end with NUL; -1 = none. */
static int number_of(const char *texts, size_t bytes, const char *name)
{
	size_t len = strlen(name);

	for (size_t at = 0; at < bytes; at += strlen(texts + at) + 1) {
		uint64_t value;

		if (strncmp(texts + at, name, len) || texts[at + len] != '=')
			continue;
		if (dlp_parse_u64(texts + at + len + 1, &value) || value > NUMBER_MAX)
			return -1;
		return (int)value;
	}
	return -1;
}

void dlp_rank_env_get(const char *root, pid_t pid, struct dlp_rank_env *ret)
{
	_cleanup_free_ char *texts = malloc(ENVIRON_BYTES);
	size_t bytes = 0;

	*ret = (struct dlp_rank_env){ .rank = -1, .local_size = 1 };
	if (!texts || dlp_proc_environ(root, pid, texts, ENVIRON_BYTES, &bytes))
		return;
	/* what the end of the buffer cuts is left out, lest it be misread */
	if (bytes == ENVIRON_BYTES - 1)
		bytes = whole(texts, bytes);
	ret->rank = number_of(texts, bytes, "RANK");
	if (ret->rank < 0)
		ret->rank = number_of(texts, bytes, "LOCAL_RANK");
	ret->restarts = number_of(texts, bytes, "TORCHELASTIC_MAX_RESTARTS") > 0;
	ret->local_size = number_of(texts, bytes, "LOCAL_WORLD_SIZE");
	if (ret->local_size < 0)
		ret->local_size = number_of(texts, bytes, "WORLD_SIZE");
	if (ret->local_size < 1)
		ret->local_size = 1;
}
