/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "smallfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "util.h"

int dlp_smallfile_bytes(int fd, char *buf, size_t size, size_t *ret_bytes)
{
	size_t bytes = 0;

	while (bytes < size - 1) {
		ssize_t got = pread(fd, buf + bytes, size - 1 - bytes, (off_t)bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		bytes += (size_t)got;
	}
	buf[bytes] = '\0';
	*ret_bytes = bytes;
	return 0;
}

int dlp_smallfile_text(int fd, char *buf, size_t size)
{
	size_t bytes = 0;
	int err;

	err = dlp_smallfile_bytes(fd, buf, size, &bytes);
	if (err)
		return err;
	if (bytes == size - 1) {
		while (bytes && buf[bytes - 1] != '\n')
			bytes--;
		buf[bytes] = '\0';
	}
	return 0;
}

int dlp_smallfile_read(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : dlp_smallfile_text(fd, buf, size);
}

bool dlp_smallfile_number(const char **at, uint64_t *ret)
{
	const char *start = *at;
	unsigned long long value;
	char *end;

	while (*start == ' ' || *start == '\t')
		start++;
	/* strtoull takes signs and more kinds of blanks */
	if (!isdigit((unsigned char)*start))
		return false;
	errno = 0;
	value = strtoull(start, &end, 10);
	if (errno || (*end && !isspace((unsigned char)*end)))
		return false;
	*at = end;
	*ret = value;
	return true;
}

const char *dlp_smallfile_value(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) &&
		    (line[len] == ':' || line[len] == ' ' || line[len] == '\t'))
			return line + len + 1;
	}
	return NULL;
}

bool dlp_smallfile_keyed(const char *text, const char *key, uint64_t *ret)
{
	const char *value = dlp_smallfile_value(text, key);

	return value && dlp_smallfile_number(&value, ret);
}
