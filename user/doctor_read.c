/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "doctor_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "invoker.h"
#include "procfs.h"
#include "smallfile.h"
#include "sysfacts.h"
#include "util.h"

/* Of those that are asked for one of another user. */
#define PROCESSES_MAX 1024

static bool join(char *path, size_t size, const char *root, const char *name)
{
	return snprintf(path, size, "%s/%s", root, name) < (int)size;
}

static void read_setting(const char *root, const char *name, const char *file,
			 struct dlp_doctor_setting *ret)
{
	char path[PATH_MAX], text[sizeof(ret->value)];

	ret->name = name;
	if (!join(path, sizeof(path), root, file) || dlp_smallfile_read(path, text, sizeof(text)))
		return;
	dlp_sanitise(ret->value, sizeof(ret->value), text, strcspn(text, "\n"));
}

/* "CapEff:" is hexadecimal. */
static bool read_caps(const char *root, uint64_t *ret)
{
	char path[PATH_MAX], text[4096], *end;
	const char *at;

	if (!join(path, sizeof(path), root, "proc/self/status") ||
	    dlp_smallfile_read(path, text, sizeof(text)))
		return false;
	at = dlp_smallfile_value(text, "CapEff");
	if (!at)
		return false;
	errno = 0;
	*ret = strtoull(at, &end, 16);
	return !errno && end != at;
}

/* One that can be looked into is enough: some (sandboxes) refuse even root. */
static enum dlp_doctor_answer look_at_others(const char *root)
{
	_cleanup_free_ pid_t *pids = calloc(PROCESSES_MAX, sizeof(*pids));
	enum dlp_doctor_answer ret = DLP_DOCTOR_UNKNOWN;
	struct dlp_proc_status status;
	char exe[PATH_MAX];
	size_t cnt = 0;

	if (!pids)
		return ret;
	(void)dlp_proc_descendants(root, 1, pids, PROCESSES_MAX, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		int err;

		if (dlp_proc_status(root, pids[i], &status) || status.uid == geteuid())
			continue;
		err = dlp_proc_exe(root, pids[i], exe, sizeof(exe));
		if (!err)
			return DLP_DOCTOR_YES;
		if (err == -EACCES)
			ret = DLP_DOCTOR_NO;
	}
	return ret;
}

static uint32_t read_system(const char *root, pid_t pid)
{
	struct dlp_sysfacts *sysfacts;
	struct dlp_ev_system event;

	if (dlp_sysfacts_new(root, pid, &sysfacts))
		return 0;
	dlp_sysfacts_read(sysfacts, dlp_now_ns(), &event);
	dlp_sysfacts_free(sysfacts);
	return event.known;
}

void dlp_doctor_read(const char *root, pid_t pid, struct dlp_doctor_facts *ret)
{
	uint64_t tracepoint;

	struct dlp_invoker invoker;

	ret->is_root = !geteuid();
	ret->has_invoker = dlp_invoker_get(&invoker);
	ret->invoker = ret->has_invoker ? invoker.uid : geteuid();
	ret->caps_known = read_caps(root, &ret->caps);
	ret->other_users = look_at_others(root);
	ret->in_host_pids = !dlp_kernel_pid_ns(root);
	ret->has_tracefs = !dlp_kernel_tracepoint(root, "raw_syscalls/sys_exit", &tracepoint);
	ret->system_known = read_system(root, pid ? pid : getpid());
	read_setting(root, "lockdown", "sys/kernel/security/lockdown",
		     &ret->setting[DLP_DOCTOR_LOCKDOWN]);
	read_setting(root, "unprivileged_bpf_disabled", "proc/sys/kernel/unprivileged_bpf_disabled",
		     &ret->setting[DLP_DOCTOR_UNPRIVILEGED]);
	read_setting(root, "perf_event_paranoid", "proc/sys/kernel/perf_event_paranoid",
		     &ret->setting[DLP_DOCTOR_PARANOID]);
	read_setting(root, "kernel", "proc/sys/kernel/osrelease", &ret->setting[DLP_DOCTOR_KERNEL]);
}
