/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "smallfile.h"
#include "util.h"

/* libbpf explains failures at length; we say what matters in one line. DLPROF_DEBUG shows all. */
static int __attribute__((format(printf, 2, 0)))
libbpf_print(enum libbpf_print_level level, const char *format, va_list args)
{
	static int debug = -1;

	if (debug < 0)
		debug = getenv("DLPROF_DEBUG") != NULL;
	if (!debug || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(stderr, format, args);
}

void dlp_kernel_quiet_libbpf(void)
{
	libbpf_set_print(libbpf_print);
}

/* Arguments of a tracepoint as tp_btf programs see them; 0 = no such tracepoint. */
static int tracepoint_args(const struct btf *btf, const char *typedef_name)
{
	const struct btf_type *type;
	int id = btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF);

	if (id < 0)
		return 0;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (__u32)id)->type);
	if (!type || !btf_is_ptr(type))
		return 0;
	type = btf__type_by_id(btf, type->type);
	/* the first parameter is the tracepoint's own data pointer */
	return type && btf_is_func_proto(type) && btf_vlen(type) ? btf_vlen(type) - 1 : 0;
}

static bool has_helper(const struct btf *btf, const char *enumerator)
{
	int id = btf__find_by_name_kind(btf, "bpf_func_id", BTF_KIND_ENUM);
	const struct btf_type *type;

	if (id < 0)
		return false;
	type = btf__type_by_id(btf, (__u32)id);
	for (int i = 0; i < btf_vlen(type); i++) {
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), enumerator))
			return true;
	}
	return false;
}

/* libbpf looks in other places as well, and tells of the last. */
static int why_no_btf(int err)
{
	_cleanup_close_ int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : err;
}

int dlp_kernel_facts(struct dlp_kernel_facts *ret)
{
	struct btf *btf = btf__load_vmlinux_btf();

	memset(ret, 0, sizeof(*ret));
	if (!btf)
		return why_no_btf(-errno);
	ret->sched_switch_args = tracepoint_args(btf, "btf_trace_sched_switch");
	ret->rq_issue_args = tracepoint_args(btf, "btf_trace_block_rq_issue");
	ret->block_io = tracepoint_args(btf, "btf_trace_block_io_start") > 0;
	ret->pt_regs = has_helper(btf, "BPF_FUNC_task_pt_regs");
	ret->task_btf = has_helper(btf, "BPF_FUNC_get_current_task_btf");
	btf__free(btf);
	return 0;
}

/* The kernel gives its first pid namespace this inode for good (PROC_PID_INIT_INO). */
#define HOST_PID_NS 0xeffffffcu

uint32_t dlp_kernel_pid_ns(const char *root)
{
	char path[PATH_MAX], link[64];
	unsigned long inode;
	ssize_t len;

	if (snprintf(path, sizeof(path), "%s/proc/self/ns/pid", root) >= (int)sizeof(path))
		return 0;
	len = readlink(path, link, sizeof(link) - 1);
	if (len < 0)
		return 0;
	link[len] = '\0';
	if (strncmp(link, "pid:[", 5))
		return 0;
	inode = strtoul(link + 5, NULL, 10);
	return inode == HOST_PID_NS || inode > UINT32_MAX ? 0 : (uint32_t)inode;
}

/*
 * tracefs mounted nowhere but behind the descriptor returned, so that the machine stays as it is: many
 * have it mounted only once somebody traces. Linux 5.2 and later, and a privilege. Or -errno.
 */
static int open_tracefs(void)
{
	_cleanup_close_ int context = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC);
	int fd = -1;

	if (context >= 0 && !syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
	return fd < 0 ? -errno : fd;
}

static int read_id(int dir, const char *path, uint64_t *ret)
{
	_cleanup_close_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	char text[32];
	const char *at = text;
	int err;

	if (fd < 0)
		return -errno;
	err = dlp_smallfile_text(fd, text, sizeof(text));
	if (err)
		return err;
	return dlp_smallfile_number(&at, ret) ? 0 : -EBADMSG;
}

int dlp_kernel_tracepoint(const char *root, const char *name, uint64_t *ret)
{
	/* inside debugfs before 4.1 */
	static const char *const places[] = { "sys/kernel/tracing", "sys/kernel/debug/tracing" };
	_cleanup_close_ int own = -1;
	char path[PATH_MAX];
	int err = -ENOENT;

	for (size_t i = 0; i < DLP_ARRAY_SIZE(places); i++) {
		if (snprintf(path, sizeof(path), "%s/%s/events/%s/id", root, places[i], name) >=
		    (int)sizeof(path))
			return -ENAMETOOLONG;
		err = read_id(AT_FDCWD, path, ret);
		if (!err || err == -EBADMSG)
			return err;
	}
	if (*root)
		return err;
	own = open_tracefs();
	if (own < 0)
		return err;
	(void)snprintf(path, sizeof(path), "events/%s/id", name);
	return read_id(own, path, ret);
}

bool dlp_kernel_permits(void)
{
	return libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_KPROBE, NULL) == 1;
}
