/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define PIECE_BYTES_MAX (1u << 20)

static void take(gzFile packed, void *buf, size_t bytes)
{
	if (gzread(packed, buf, (unsigned int)bytes) != (int)bytes)
		abort();
}

static void unpack_piece(gzFile packed, uint64_t offset, int fd)
{
	uint32_t bytes;
	char *data;

	take(packed, &bytes, sizeof(bytes));
	if (bytes > PIECE_BYTES_MAX)
		abort();
	data = malloc(bytes);
	if (!data)
		abort();
	take(packed, data, bytes);
	if (pwrite(fd, data, bytes, (off_t)offset) != (ssize_t)bytes)
		abort();
	free(data);
}

void fixture_unpack(const struct tree *tree, const char *name, const char *path)
{
	char packed_path[256];
	uint64_t size, offset;
	gzFile packed;
	int fd, got;

	(void)snprintf(packed_path, sizeof(packed_path), FIXTURE_FOLDER "%s.gz", name);
	packed = gzopen(packed_path, "rb");
	tree_text(tree, path, "%s", "");
	fd = open(tree_path(tree, "%s", path), O_WRONLY);
	if (!packed || fd < 0) {
		perror(packed_path);
		abort();
	}
	take(packed, &size, sizeof(size));
	if (ftruncate(fd, (off_t)size))
		abort();
	while ((got = gzread(packed, &offset, sizeof(offset))) == (int)sizeof(offset))
		unpack_piece(packed, offset, fd);
	if (got || gzclose(packed) != Z_OK || close(fd))
		abort();
}

uint64_t fixture_expected(const char *release, const char *library, const char *function)
{
	char line[256], name[64], where[16], what[32];
	FILE *in = fopen(FIXTURE_FOLDER "expected.txt", "r");
	uint64_t at, ret = 0;

	if (!in)
		abort();
	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%63s %15s %31s %" SCNx64, name, where, what, &at) == 4 &&
		    !strcmp(name, release) && !strcmp(where, library) && !strcmp(what, function))
			ret = at;
	}
	(void)fclose(in);
	return ret;
}
