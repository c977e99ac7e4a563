/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "faulty_io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

/* More than any operation makes. */
#define CALLS_MAX 100000

/* Recordings are written by a thread of their own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct faulty now;
static bool watched, hit;
static size_t calls;

void faulty_begin(const struct faulty *faulty)
{
	pthread_mutex_lock(&lock);
	now = *faulty;
	watched = true;
	hit = false;
	calls = 0;
	pthread_mutex_unlock(&lock);
}

size_t faulty_end(bool *ret_hit)
{
	size_t ret;

	pthread_mutex_lock(&lock);
	watched = false;
	*ret_hit = hit;
	ret = calls;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* 0, or the errno that this call fails with. */
static int trouble(unsigned int which)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (watched && now.which & which) {
		calls++;
		if (now.how != FAULTY_PIECES &&
		    (calls == now.n || (now.how == FAULTY_ON && now.n && calls > now.n))) {
			hit = true;
			ret = now.error;
		} else if (now.how == FAULTY_PIECES && which != FAULTY_OPENS && calls & 1) {
			ret = EINTR;
		}
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static size_t part(unsigned int which, size_t bytes)
{
	return watched && now.which & which && now.how == FAULTY_PIECES ? (bytes + 1) / 2 : bytes;
}

static int fail_with(int error)
{
	errno = error;
	return -1;
}

/* ---- what the linker puts in place of the C library's ------------------------------------------ */

ssize_t __wrap_read(int fd, void *buf, size_t bytes);
ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t offset);
ssize_t __wrap_write(int fd, const void *buf, size_t bytes);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t offset);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_open(const char *path, int flags, ...);
FILE *__wrap_fdopen(int fd, const char *mode);
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned int flags);

ssize_t __wrap_read(int fd, void *buf, size_t bytes)
{
	int error = trouble(FAULTY_READS);

	return error ? fail_with(error) : syscall(SYS_read, fd, buf, part(FAULTY_READS, bytes));
}

ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	int error = trouble(FAULTY_READS);

	return error ? fail_with(error) :
		       syscall(SYS_pread64, fd, buf, part(FAULTY_READS, bytes), offset);
}

ssize_t __wrap_write(int fd, const void *buf, size_t bytes)
{
	int error = trouble(FAULTY_WRITES);

	return error ? fail_with(error) : syscall(SYS_write, fd, buf, part(FAULTY_WRITES, bytes));
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t offset)
{
	int error = trouble(FAULTY_WRITES);

	return error ? fail_with(error) :
		       syscall(SYS_pwrite64, fd, buf, part(FAULTY_WRITES, bytes), offset);
}

/* Not interrupted by anything on a local disk, and nobody tries these twice. */
static int change(long number, long first, long second)
{
	int error = trouble(FAULTY_WRITES);

	if (error && error != EINTR)
		return fail_with(error);
	return (int)syscall(number, first, second);
}

int __wrap_ftruncate(int fd, off_t bytes)
{
	return change(SYS_ftruncate, fd, bytes);
}

int __wrap_fsync(int fd)
{
	return change(SYS_fsync, fd, 0);
}

int __wrap_fdatasync(int fd)
{
	return change(SYS_fdatasync, fd, 0);
}

int __wrap_rename(const char *from, const char *to)
{
	int error = trouble(FAULTY_WRITES);

	if (error && error != EINTR)
		return fail_with(error);
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int __wrap_open(const char *path, int flags, ...)
{
	int error = trouble(FAULTY_OPENS);
	mode_t mode = 0;
	va_list args;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return error ? fail_with(error) : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Two pages of the same run are to be compared. */
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned int flags)
{
	(void)flags;
	memset(buf, 0x5a, bytes);
	return (ssize_t)bytes;
}

/* ---- streams: the C library's own calls are not those above ------------------------------------ */

static ssize_t stream_read(void *cookie, char *buf, size_t bytes)
{
	ssize_t got;

	do {
		got = __wrap_read((int)(intptr_t)cookie, buf, bytes);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* All of it, as the C library tries; 0 is what such a function says of a failure. */
static ssize_t stream_write(void *cookie, const char *buf, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = __wrap_write((int)(intptr_t)cookie, buf + done, bytes - done);

		if (got < 0 && errno != EINTR)
			return 0;
		done += got < 0 ? 0 : (size_t)got;
	}
	return (ssize_t)done;
}

static int stream_seek(void *cookie, off_t *offset, int whence)
{
	off_t at = lseek((int)(intptr_t)cookie, *offset, whence);

	if (at < 0)
		return -1;
	*offset = at;
	return 0;
}

static int stream_close(void *cookie)
{
	return close((int)(intptr_t)cookie);
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
	const cookie_io_functions_t functions = {
		.read = stream_read,
		.write = stream_write,
		.seek = stream_seek,
		.close = stream_close,
	};

	return fopencookie((void *)(intptr_t)fd, mode, functions);
}

/* ---- the loop ---------------------------------------------------------------------------------- */

static size_t run(const struct faulty *faulty, int (*operation)(void),
		  void (*check)(int result, bool failed), bool *ret_hit)
{
	int before = faulty_free_fd(), result;
	size_t cnt;

	faulty_begin(faulty);
	result = operation();
	cnt = faulty_end(ret_hit);
	if (faulty_free_fd() != before)
		fail_msg("call %zu failed: a file is left open", faulty->n);
	check(result, *ret_hit);
	return cnt;
}

void faulty_pieces(unsigned int which, int (*operation)(void),
		   void (*check)(int result, bool failed))
{
	const struct faulty faulty = { .how = FAULTY_PIECES, .which = which };
	bool failed;

	assert_true(run(&faulty, operation, check, &failed) > 2);
	assert_false(failed);
}

void faulty_each(unsigned int which, int error, size_t least, int (*operation)(void),
		 void (*check)(int result, bool failed))
{
	for (enum faulty_how how = FAULTY_ONCE; how <= FAULTY_ON; how++) {
		struct faulty faulty = { .how = how, .which = which, .error = error };
		bool failed = true;
		size_t cnt = 0;

		for (faulty.n = 1; failed; faulty.n += faulty.n < 10 ? 1 : faulty.n / 3) {
			assert_true(faulty.n < CALLS_MAX);
			cnt = run(&faulty, operation, check, &failed);
		}
		/* the loop has seen what it was made for */
		if (cnt < least)
			fail_msg("only %zu calls", cnt);
	}
}

int faulty_free_fd(void)
{
	int fd = dup(STDIN_FILENO);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}

/* ---- stderr ------------------------------------------------------------------------------------ */

static int kept_stderr = -1, said = -1;

void faulty_hear(void)
{
	said = memfd_create("stderr", MFD_CLOEXEC);
	kept_stderr = dup(STDERR_FILENO);
	assert_true(said >= 0 && kept_stderr >= 0);
	assert_true(dup2(said, STDERR_FILENO) >= 0);
}

const char *faulty_heard(void)
{
	static char text[4096];
	ssize_t got = syscall(SYS_pread64, said, text, sizeof(text) - 1, 0);

	assert_true(got >= 0 && dup2(kept_stderr, STDERR_FILENO) >= 0);
	text[got] = '\0';
	(void)close(said);
	(void)close(kept_stderr);
	return text;
}
