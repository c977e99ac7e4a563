/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "elf_gc.h"
#include "elf_sym.h"
#include "kernel.h"
#include "mapped.h"
#include "probes.h"
#include "proc_role.h"
#include "procfs.h"
#include "util.h"
#include "version.h"

/* Room for which process was meant. */
#define SUGGESTION 120

struct inspection {
	struct dlp_probe_sources sources;
	struct dlp_proc_maps maps;
	struct dlp_target *target;
	struct dlp_target_failure *failure;
	char exe[PATH_MAX]; /* as the target names it; "" = may not be read */
};

static int __attribute__((format(printf, 3, 4)))
fail(struct dlp_target_failure *failure, enum dlp_target_err err, const char *format, ...)
{
	va_list args;

	failure->err = err;
	va_start(args, format);
	(void)vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return -1;
}

/*
 * For somebody who gives the number that a process has in its container: which that is here, as the
 * end of a sentence; "" when nothing of that number has loaded torch.
 */
static const char *suggest_inside(const struct inspection *in, char *buf, size_t size)
{
	pid_t found[4];
	size_t cnt = dlp_proc_inside_with_torch(in->sources.view.root, in->target->pid, found,
						DLP_ARRAY_SIZE(found));
	int len;

	buf[0] = '\0';
	if (!cnt) {
		if (dlp_kernel_pid_ns(in->sources.view.root))
			(void)snprintf(buf, size, "; numbers are those of this container here");
		return buf;
	}
	len = snprintf(buf, size, "; that number inside a container has pid %d", (int)found[0]);
	for (size_t i = 1; i < cnt && len > 0 && (size_t)len < size; i++)
		len += snprintf(buf + len, size - (size_t)len, " or %d", (int)found[i]);
	if (cnt == 1 && len > 0 && (size_t)len < size)
		(void)snprintf(buf + len, size - (size_t)len, ": use --pid %d", (int)found[0]);
	return buf;
}

static int fail_read(const struct inspection *in, const char *what, int err)
{
	const struct dlp_target *target = in->target;
	struct dlp_proc_status status = { 0 };
	char other[SUGGESTION];

	if (err == -ESRCH)
		return fail(in->failure, DLP_TARGET_NO_PROCESS, "pid %d has ended",
			    (int)target->pid);
	if (err != -EACCES && err != -EPERM)
		return fail(in->failure, DLP_TARGET_IO, "%s of pid %d (%s) can't be read: %s", what,
			    (int)target->pid, target->comm, strerror(-err));
	if (!geteuid())
		return fail(
			in->failure, DLP_TARGET_DENIED,
			"may not look into pid %d (%s): CAP_SYS_PTRACE is missing (in a container "
			"start it with --cap-add SYS_PTRACE)%s",
			(int)target->pid, target->comm, suggest_inside(in, other, sizeof(other)));
	(void)dlp_proc_status(in->sources.view.root, target->pid, &status);
	return fail(in->failure, DLP_TARGET_DENIED,
		    "may not look into pid %d (%s), which belongs to user %u: run as root",
		    (int)target->pid, target->comm, (unsigned int)status.uid);
}

static int read_identity(struct inspection *in)
{
	struct dlp_target *target = in->target;
	const char *root = in->sources.view.root;
	struct dlp_proc_status status;
	struct dlp_proc_stat stat;
	char cmdline[sizeof(target->cmdline)], other[SUGGESTION];
	size_t bytes = 0;
	int err;

	err = dlp_proc_stat(root, target->pid, &stat);
	if (err == -ESRCH)
		return fail(in->failure, DLP_TARGET_NO_PROCESS, "no process with pid %d%s",
			    (int)target->pid, suggest_inside(in, other, sizeof(other)));
	if (err)
		return fail_read(in, "the state", err);
	dlp_sanitise(target->comm, sizeof(target->comm), stat.comm, sizeof(stat.comm));
	target->start_ticks = stat.start_ticks;
	if (stat.state == 'Z' || stat.state == 'X')
		return fail(in->failure, DLP_TARGET_NO_PROCESS,
			    "pid %d (%s) has ended; its parent, pid %d, has not fetched its status",
			    (int)target->pid, target->comm, (int)stat.ppid);
	if (stat.flags & DLP_PF_KTHREAD)
		return fail(in->failure, DLP_TARGET_KERNEL_THREAD,
			    "pid %d (%s) is a kernel thread: give the pid of a training process%s",
			    (int)target->pid, target->comm,
			    suggest_inside(in, other, sizeof(other)));
	err = dlp_proc_status(root, target->pid, &status);
	if (err)
		return fail_read(in, "the status", err);
	if (status.tgid != target->pid)
		return fail(in->failure, DLP_TARGET_NO_PROCESS,
			    "%d is a thread of process %d: use --pid %d", (int)target->pid,
			    (int)status.tgid, (int)status.tgid);
	target->inside = status.inside == target->pid ? 0 : status.inside;
	err = dlp_proc_cmdline(root, target->pid, cmdline, sizeof(cmdline), &bytes);
	if (err)
		return fail_read(in, "the command line", err);
	/* the last argument's NUL ends the text */
	for (size_t i = 0; i + 1 < bytes; i++)
		cmdline[i] = cmdline[i] ? cmdline[i] : ' ';
	dlp_sanitise(target->cmdline, sizeof(target->cmdline), cmdline, bytes);
	/* the view can do without */
	(void)dlp_proc_container(root, target->pid, target->container, sizeof(target->container));
	return 0;
}

/* What can't be opened stays closed: the caller says what it needs. */
static int open_named(struct inspection *in, enum dlp_mapped_name name, struct dlp_mapped *ret)
{
	const struct dlp_proc_map *map = dlp_mapped_find(&in->maps, name);

	return map ? dlp_mapped_open(&in->sources.view, map, ret) : -ENOENT;
}

/* libpython, else the executable, if that is Python. */
static int open_python(struct inspection *in)
{
	struct dlp_probe_sources *sources = &in->sources;
	const struct dlp_proc_map *map;
	struct dlp_elf_sym sym;
	int err;

	err = open_named(in, DLP_MAPPED_LIBPYTHON, &sources->python);
	if (err != -ENOENT)
		return err;
	map = in->exe[0] ? dlp_mapped_find_path(&in->maps, in->exe) : NULL;
	if (!map)
		return -ENOENT;
	err = dlp_mapped_open(&sources->view, map, &sources->python);
	if (err)
		return err;
	err = dlp_elf_find(sources->python.elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "_PyRuntime", &sym);
	/* a stripped one may hide it (Python before 3.7 has none); its name tells as well */
	return err && strncmp(dlp_mapped_base(in->exe), "python", 6) ? -ENOENT : 0;
}

static int fail_open(const struct inspection *in, const struct dlp_mapped *mapped, int err)
{
	char name[256];

	dlp_sanitise(name, sizeof(name), mapped->map->path, strlen(mapped->map->path));
	if (err == -ESTALE)
		return fail(
			in->failure, DLP_TARGET_IO,
			"%s was replaced or removed since pid %d loaded it: restart the job, or "
			"run as root with CAP_SYS_ADMIN",
			name, (int)in->target->pid);
	if (err == -ENOTSUP)
		return fail(in->failure, DLP_TARGET_NO_PROBE,
			    "%s is for another kind of processor than this program", name);
	if (err == -EACCES || err == -EPERM)
		return fail_read(in, name, err);
	return fail(in->failure, DLP_TARGET_IO, "%s can't be read: %s", name,
		    err == -EBADMSG || err == -ENOEXEC ? "it is damaged" : strerror(-err));
}

/* Which process was meant, as the end of a sentence; "" when none near has loaded torch. */
static const char *suggest(const struct inspection *in, char *buf, size_t size)
{
	pid_t near = dlp_proc_near_with_torch(in->sources.view.root, in->target->pid);

	if (!near)
		return suggest_inside(in, buf, size);
	(void)snprintf(buf, size, "; pid %d has loaded torch: use --pid %d", (int)near, (int)near);
	return buf;
}

static int open_files(struct inspection *in)
{
	struct dlp_probe_sources *sources = &in->sources;
	const struct dlp_target *target = in->target;
	bool has_torch = dlp_mapped_find(&in->maps, DLP_MAPPED_TORCH_PYTHON);
	char other[SUGGESTION];
	int err;

	err = open_python(in);
	/* torch is loaded: then Python is there, whatever its file is called */
	if (err && !has_torch) {
		if (err != -ENOENT)
			return fail_open(in, &sources->python, err);
		return fail(in->failure, DLP_TARGET_NOT_PYTHON,
			    "pid %d (%s) is not a Python process%s", (int)target->pid, target->comm,
			    suggest(in, other, sizeof(other)));
	}
	if (!has_torch && suggest(in, other, sizeof(other))[0])
		return fail(in->failure, DLP_TARGET_NO_TORCH, "pid %d (%s) has not loaded torch%s",
			    (int)target->pid, target->comm, other);
	if (!has_torch)
		return fail(
			in->failure, DLP_TARGET_NO_TORCH,
			"pid %d (%s) has not loaded torch (yet): start it first, or wait until it "
			"has imported torch",
			(int)target->pid, target->comm);
	err = open_named(in, DLP_MAPPED_TORCH_PYTHON, &sources->torch_python);
	if (err)
		return fail_open(in, &sources->torch_python, err);
	err = open_named(in, DLP_MAPPED_TORCH_CPU, &sources->torch_cpu);
	if (err == -ENOENT)
		return fail(
			in->failure, DLP_TARGET_NO_PROBE,
			"pid %d (%s) has libtorch_python.so but no libtorch_cpu.so: a torch built "
			"in an unknown way",
			(int)target->pid, target->comm);
	if (err)
		return fail_open(in, &sources->torch_cpu, err);
	/* not there: built into Python, or the queue note says what is wrong */
	(void)open_named(in, DLP_MAPPED_PICKLE, &sources->pickle);
	return 0;
}

static int refuse_worker(struct inspection *in)
{
	struct dlp_target *target = in->target;
	pid_t trainer = dlp_proc_forkserver_of(in->sources.view.root, target->pid);
	int err;

	if (trainer)
		return fail(in->failure, DLP_TARGET_IS_WORKER,
			    "pid %d is the fork server of pid %d: use --pid %d", (int)target->pid,
			    (int)trainer, (int)trainer);
	err = dlp_proc_trainer_of(in->sources.view.root, target->pid,
				  dlp_version_at_least(&target->torch, 2, 5), &trainer);
	if (err)
		return fail_read(in, "the command line", err);
	if (!trainer)
		return 0;
	in->failure->trainer_pid = trainer;
	return fail(in->failure, DLP_TARGET_IS_WORKER,
		    "pid %d is a DataLoader worker of pid %d: use --pid %d", (int)target->pid,
		    (int)trainer, (int)trainer);
}

/* GIL waits are futex waits inside this object. */
static void find_gil(struct inspection *in)
{
	const struct dlp_mapped *python = &in->sources.python;
	struct dlp_elf_sym sym;
	uint64_t bias;

	if (!python->elf ||
	    dlp_elf_find(python->elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "_PyRuntime", &sym) ||
	    dlp_mapped_bias(&in->sources.view, python, &bias))
		return;
	in->target->gil_lo = sym.addr + bias;
	in->target->gil_hi = in->target->gil_lo + sym.size;
}

static void find_gc(struct inspection *in)
{
	const struct dlp_mapped *python = &in->sources.python;
	struct dlp_target *target = in->target;
	int err = -ENOENT;

	if (in->sources.is_free_threaded) {
		(void)snprintf(target->gc_note, sizeof(target->gc_note),
			       "a free-threaded Python collects by other functions");
		return;
	}
	if (python->elf)
		err = dlp_elf_find_gc(python->elf, &target->gc);
	if (err) {
		target->gc.cnt = 0;
		(void)snprintf(target->gc_note, sizeof(target->gc_note),
			       "the interpreter's garbage collector was not found in its code (%s)",
			       err == -ENOENT ? "no such function" : strerror(-err));
		return;
	}
	target->python_file = dlp_mapped_file(python->map);
}

static int inspect(struct inspection *in)
{
	struct dlp_probe_sources *sources = &in->sources;
	struct dlp_target *target = in->target;
	struct dlp_proc_stat stat;
	int err;

	err = read_identity(in);
	if (err)
		return err;
	err = dlp_proc_maps_read(sources->view.root, target->pid, &in->maps);
	if (!err)
		err = dlp_proc_exe(sources->view.root, target->pid, in->exe, sizeof(in->exe));
	if (err)
		return fail_read(in, "the memory map", err);
	err = open_files(in);
	if (err)
		return err;
	dlp_version_python(&sources->view, &sources->python, &target->python);
	dlp_version_torch(&sources->view, &target->torch, sources->torch_package,
			  sizeof(sources->torch_package));
	sources->is_free_threaded = dlp_version_is_free_threaded(&in->maps);
	err = refuse_worker(in);
	if (!err)
		err = dlp_probes_scope(sources, target, in->failure);
	if (err)
		return err;
	dlp_probes_next(sources, target);
	dlp_probes_queue(sources, target);
	dlp_probes_iterator(sources, target);
	find_gil(in);
	find_gc(in);
	/* everything above was read through the pid: was it one process all the time? */
	err = dlp_proc_stat(sources->view.root, target->pid, &stat);
	if (!err && stat.start_ticks != target->start_ticks)
		err = -ESRCH;
	return err ? fail_read(in, "the state", err) : 0;
}

int dlp_target_open(const char *root, pid_t pid, struct dlp_target *ret,
		    struct dlp_target_failure *failure)
{
	_cleanup_free_ struct inspection *in = calloc(1, sizeof(*in));
	int err;

	*ret = (struct dlp_target){ .pid = pid };
	*failure = (struct dlp_target_failure){ 0 };
	if (!in)
		return fail(failure, DLP_TARGET_IO, "out of memory");
	in->target = ret;
	in->failure = failure;
	in->sources.view = (struct dlp_process_view){ .root = root, .pid = pid, .maps = &in->maps };
	err = inspect(in);
	dlp_mapped_fini(&in->sources.python);
	dlp_mapped_fini(&in->sources.pickle);
	dlp_mapped_fini(&in->sources.torch_python);
	dlp_mapped_fini(&in->sources.torch_cpu);
	dlp_proc_maps_fini(&in->maps);
	return err;
}
