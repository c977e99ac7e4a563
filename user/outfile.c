/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "invoker.h"
#include "util.h"

int dlp_outfile_open(const char *path, FILE **ret)
{
	int fd, err;

	if (!strcmp(path, "-")) {
		*ret = stdout;
		return 0;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0)
		(void)dlp_invoker_own(fd);
	else if (errno == EEXIST)
		fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	*ret = fd < 0 ? NULL : fdopen(fd, "w");
	if (*ret)
		return 0;
	err = -errno;
	dlp_cleanup_close(&fd);
	return err;
}

int dlp_outfile_close(FILE *file)
{
	bool failed = ferror(file);
	int err = 0;

	errno = 0;
	if (file == stdout ? fflush(file) : fclose(file))
		err = errno ? -errno : -EIO;
	/* what failed earlier left no number behind */
	return failed && !err ? -EIO : err;
}
