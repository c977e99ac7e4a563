/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "invoker.h"
#include "util.h"

const struct dlp_capability dlp_capabilities[DLP_CAPABILITY_CNT] = {
	{ CAP_BPF, "CAP_BPF", true, "loading BPF programs", "kept" },
	{ CAP_PERFMON, "CAP_PERFMON", true, "attaching them and reading the kernel's structures",
	  "kept" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, "looking into jobs of other users",
	  "kept only for a job of another user" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false,
	  "their files in /proc, and the system call rung's tracepoint",
	  "kept only for a job of another user" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", false,
	  "jobs whose libraries were replaced on disk", "kept" },
	/* uprobes of perf events ask for it at least up to 6.18, whatever CAP_PERFMON says */
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", true, "attaching uprobes, and measuring what they cost",
	  "only a helper process keeps it" },
};

/* Of the table above, whatever the job. */
#define WATCHING                                                                                   \
	(DLP_CAP_BIT(CAP_BPF) | DLP_CAP_BIT(CAP_PERFMON) | DLP_CAP_BIT(CAP_CHECKPOINT_RESTORE))

/* The kernel's last one has a number below this for a long time to come. */
#define CAPS_MAX 64

bool dlp_privileges_start_ok(void)
{
	return getuid() == geteuid() && getgid() == getegid();
}

static int get_flag(cap_t caps, cap_flag_t flag, uint64_t *ret)
{
	*ret = 0;
	for (cap_value_t cap = 0; cap < CAPS_MAX && CAP_IS_SUPPORTED(cap); cap++) {
		cap_flag_value_t value;

		if (cap_get_flag(caps, cap, flag, &value))
			return -errno;
		if (value == CAP_SET)
			*ret |= DLP_CAP_BIT(cap);
	}
	return 0;
}

static int set_flag(cap_t caps, cap_flag_t flag, uint64_t bits)
{
	for (cap_value_t cap = 0; cap < CAPS_MAX; cap++) {
		if (bits & DLP_CAP_BIT(cap) && cap_set_flag(caps, flag, 1, &cap, CAP_SET))
			return -errno;
	}
	return 0;
}

static int read_flag(cap_flag_t flag, uint64_t *ret)
{
	cap_t caps = cap_get_proc();
	int err;

	if (!caps)
		return -errno;
	err = get_flag(caps, flag, ret);
	(void)cap_free(caps);
	return err;
}

int dlp_privileges_effective(uint64_t *ret)
{
	return read_flag(CAP_EFFECTIVE, ret);
}

/* None are inheritable, whatever we were given: nobody we start is to have any. */
static int set_caps(uint64_t permitted, uint64_t effective)
{
	cap_t caps = cap_init();
	int err;

	if (!caps)
		return -errno;
	err = set_flag(caps, CAP_PERMITTED, permitted);
	if (!err)
		err = set_flag(caps, CAP_EFFECTIVE, effective);
	if (!err && cap_set_proc(caps))
		err = -errno;
	(void)cap_free(caps);
	return err;
}

static int set_effective(uint64_t effective)
{
	uint64_t permitted = 0;
	int err;

	err = read_flag(CAP_PERMITTED, &permitted);
	return err ? err : set_caps(permitted, permitted & effective);
}

int dlp_privileges_lower(void)
{
	struct dlp_invoker invoker;

	if (dlp_invoker_get(&invoker)) {
		int err;

		/* else a user who is not root would have none left */
		if (prctl(PR_SET_KEEPCAPS, 1))
			return -errno;
		err = dlp_invoker_become(&invoker);
		(void)prctl(PR_SET_KEEPCAPS, 0);
		/* a container's root may lack the right to be another: then it stays root */
		if (err && err != -EPERM)
			return err;
	}
	return set_effective(0);
}

int dlp_privileges_raise(void)
{
	return set_effective(UINT64_MAX);
}

int dlp_privileges_only(uint64_t caps)
{
	uint64_t permitted = 0;
	int err;

	err = dlp_privileges_raise();
	if (!err)
		err = read_flag(CAP_PERMITTED, &permitted);
	if (err)
		return err;
	/* best effort: needs CAP_SETPCAP, and without new privileges the set has no effect */
	for (cap_value_t cap = 0; cap < CAPS_MAX && CAP_IS_SUPPORTED(cap); cap++)
		(void)cap_drop_bound(cap);
	(void)cap_reset_ambient();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return set_caps(permitted & caps, permitted & caps);
}

/* The most private of a process's files that we read. */
static bool may_read(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[32], byte;

	(void)snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* of a process that has gone there is nothing left to be allowed */
	return fd < 0 ? errno != EACCES && errno != EPERM :
			read(fd, &byte, 1) >= 0 || errno == ESRCH;
}

static bool may_read_all(const pid_t *pids, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (!may_read(pids[i]))
			return false;
	}
	return true;
}

int dlp_privileges_settle(const pid_t *pids, size_t cnt)
{
	static const uint64_t more[] = {
		0,
		DLP_CAP_BIT(CAP_SYS_PTRACE),
		DLP_CAP_BIT(CAP_SYS_PTRACE) | DLP_CAP_BIT(CAP_DAC_READ_SEARCH),
	};
	uint64_t caps = WATCHING;
	int err;

	/* what suffices depends on both users, on namespaces and security modules: ask the kernel */
	for (size_t i = 0; i < DLP_ARRAY_SIZE(more); i++) {
		caps = WATCHING | more[i];
		err = set_effective(caps);
		if (err)
			return err;
		if (may_read_all(pids, cnt))
			break;
	}
	err = dlp_privileges_only(caps);
	/* core files would hold what was read of the job; whoever traced us would have our rights */
	if (!err && prctl(PR_SET_DUMPABLE, 0))
		err = -errno;
	return err;
}
