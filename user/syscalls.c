/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "syscalls.h"

#include <sys/syscall.h>

#include "arch.h"
#include "util.h"

struct call {
	int number;
	enum dlp_syscall_class class;
	const char *name;
};

#define CALL(name, class) { SYS_##name, DLP_SC_##class, #name }

static const struct call calls[] = {
	CALL(read, FD),
	CALL(write, FD),
	CALL(pread64, FD),
	CALL(pwrite64, FD),
	CALL(readv, FD),
	CALL(writev, FD),
	CALL(preadv, FD),
	CALL(pwritev, FD),
	CALL(preadv2, FD),
	CALL(pwritev2, FD),
	CALL(sendfile, FD1),
	CALL(splice, FD),
	CALL(copy_file_range, FD),
	CALL(readahead, FD),
	CALL(fadvise64, FD),
	CALL(fallocate, FD),
	CALL(ftruncate, FD),
	CALL(lseek, FD),
	CALL(fstat, FD),
	CALL(fstatfs, FD),
	CALL(getdents64, FD),
	CALL(ioctl, FD),
	CALL(close, FD),
	CALL(fsync, SYNC),
	CALL(fdatasync, SYNC),
	CALL(sync_file_range, SYNC),
	CALL(syncfs, SYNC),
	CALL(sync, AIO),
	CALL(io_getevents, AIO),
	CALL(io_pgetevents, AIO),
	CALL(io_submit, AIO),
	CALL(io_uring_enter, AIO),
	CALL(accept, FD),
	CALL(accept4, FD),
	CALL(connect, FD),
	CALL(recvfrom, FD),
	CALL(recvmsg, FD),
	CALL(recvmmsg, FD),
	CALL(sendto, FD),
	CALL(sendmsg, FD),
	CALL(sendmmsg, FD),
	CALL(futex, FUTEX),
	CALL(ppoll, PPOLL),
	CALL(pselect6, SELECT),
	CALL(epoll_pwait, EPOLL),
	CALL(nanosleep, SLEEP),
	CALL(clock_nanosleep, SLEEP),
	CALL(rt_sigtimedwait, SLEEP),
	CALL(rt_sigsuspend, SLEEP),
	CALL(openat, PATH),
	CALL(newfstatat, PATH),
	CALL(statx, PATH),
	CALL(faccessat, PATH),
	CALL(readlinkat, PATH),
	CALL(mkdirat, PATH),
	CALL(unlinkat, PATH),
	CALL(linkat, PATH),
	CALL(symlinkat, PATH),
	CALL(renameat2, PATH),
	CALL(statfs, PATH),
	CALL(truncate, PATH),
	CALL(chdir, PATH),
	CALL(getxattr, PATH),
	CALL(utimensat, PATH),
	CALL(flock, LOCK),
	CALL(fcntl, FCNTL),
	CALL(semop, LOCK),
	CALL(semtimedop, LOCK),
	/* these take the process's memory map lock, which page faults of other threads hold */
	CALL(mmap, LOCK),
	CALL(munmap, LOCK),
	CALL(mremap, LOCK),
	CALL(mprotect, LOCK),
	CALL(madvise, LOCK),
	CALL(brk, LOCK),
	CALL(wait4, CHILD),
	CALL(waitid, CHILD),
	CALL(msgrcv, CHILD),
	CALL(mq_timedreceive, CHILD),
	DLP_ARCH_OLD_CALLS(CALL)
/* newer than the oldest C library supported */
#ifdef SYS_openat2
	CALL(openat2, PATH),
#endif
#ifdef SYS_faccessat2
	CALL(faccessat2, PATH),
#endif
#ifdef SYS_epoll_pwait2
	CALL(epoll_pwait2, EPOLL),
#endif
};

void dlp_syscalls_configure(struct dlp_config *cfg)
{
	for (size_t i = 0; i < DLP_ARRAY_SIZE(calls); i++) {
		if (calls[i].number >= 0 && calls[i].number < DLP_SYSCALL_MAX)
			cfg->syscall_class[calls[i].number] = calls[i].class;
	}
	cfg->nr_read = SYS_read;
	cfg->nr_write = SYS_write;
}

const char *dlp_syscall_name(int number)
{
	if (number < 0)
		return "page fault";
	for (size_t i = 0; i < DLP_ARRAY_SIZE(calls); i++) {
		if (calls[i].number == number)
			return calls[i].name;
	}
	return "";
}
