/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "wholefile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "invoker.h"
#include "util.h"

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, text, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		text += done;
		bytes -= (size_t)done;
	}
	return 0;
}

/* The folder's entry must reach the disk too, else a crash may bring the old file back. */
static int sync_folder(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int fd = -1;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* some file systems cannot sync a folder and say so: nothing more to be had there */
	if (fsync(fd) && errno != EINVAL && errno != EROFS)
		return -errno;
	return 0;
}

/* Devices, pipes and the like ("/dev/stdout") cannot be replaced by renaming. */
static int write_special(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

static int write_regular(const char *path, const char *text)
{
	_cleanup_free_ char *temporary = NULL;
	_cleanup_close_ int fd = -1;
	mode_t mask;
	int err;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = write_all(fd, text, strlen(text));
	/* mkostemp makes it private; a summary is for everyone whom the umask lets */
	mask = umask(0);
	(void)umask(mask);
	if (!err && fchmod(fd, 0666 & ~mask))
		err = -errno;
	/* where owners cannot be set, being readable has to do */
	(void)dlp_invoker_own(fd);
	if (!err && fsync(fd))
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err) {
		(void)unlink(temporary);
		return err;
	}
	return sync_folder(path);
}

static bool is_special(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* AT_EACCESS: what we are now, not who has started us. */
static bool may(const char *path, int mode)
{
	return !faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

bool dlp_wholefile_may(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	/* a folder with the sticky bit does not let us replace a file of somebody else */
	if (!copy || !may(path, W_OK))
		return copy && errno == ENOENT && may(dirname(copy), W_OK | X_OK);
	return is_special(path) || may(dirname(copy), W_OK | X_OK);
}

int dlp_wholefile_hold(const char *path)
{
	const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	/* in such folders O_CREAT is refused where the file is somebody else's, even to root */
	int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT) {
		fd = open(path, flags | O_CREAT | O_EXCL, 0666);
		if (fd >= 0)
			(void)dlp_invoker_own(fd);
	}
	return fd < 0 ? -errno : fd;
}

static int write_held(int fd, const char *text)
{
	struct stat st;
	int err, flags = fcntl(fd, F_GETFL);

	/* opening must not wait for a pipe's reader, but writing may */
	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) || fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) && ftruncate(fd, 0))
		return -errno;
	err = write_all(fd, text, strlen(text));
	return !err && S_ISREG(st.st_mode) && fsync(fd) ? -errno : err;
}

int dlp_wholefile_write(const char *path, int fd, const char *text)
{
	if (fd >= 0)
		return write_held(fd, text);
	return is_special(path) ? write_special(path, text) : write_regular(path, text);
}
