/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mapped.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "arch.h"
#include "insn.h"
#include "smallfile.h"
#include "util.h"

const char *dlp_mapped_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

struct dlp_file_id dlp_mapped_file(const struct dlp_proc_map *map)
{
	return (struct dlp_file_id){ map->dev_major, map->dev_minor, map->inode };
}

static bool has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool name_matches(const char *base, enum dlp_mapped_name name)
{
	switch (name) {
	case DLP_MAPPED_TORCH_PYTHON:
		return has_prefix(base, "libtorch_python.so");
	case DLP_MAPPED_TORCH_CPU:
		return has_prefix(base, "libtorch_cpu.so");
	case DLP_MAPPED_LIBPYTHON:
		return has_prefix(base, "libpython") && strstr(base, ".so") &&
		       isdigit((unsigned char)base[9]) && base[10] == '.' &&
		       isdigit((unsigned char)base[11]);
	case DLP_MAPPED_PICKLE:
		return has_prefix(base, "_pickle.") && strstr(base, ".so");
	/* until 2.33 glibc's files were called libc-2.33.so, with libc.so.6 as a link */
	case DLP_MAPPED_LIBC:
		return has_prefix(base, "libc.so.") || has_prefix(base, "libc-2.");
	case DLP_MAPPED_LIBPTHREAD:
		return has_prefix(base, "libpthread.so.") || has_prefix(base, "libpthread-2.");
	}
	return false;
}

const struct dlp_proc_map *dlp_mapped_find(const struct dlp_proc_maps *maps,
					   enum dlp_mapped_name name)
{
	for (size_t i = 0; i < maps->cnt; i++) {
		const struct dlp_proc_map *map = &maps->map[i];

		if (map->is_exec && name_matches(dlp_mapped_base(map->path), name))
			return map;
	}
	return NULL;
}

const struct dlp_proc_map *dlp_mapped_find_path(const struct dlp_proc_maps *maps, const char *path)
{
	for (size_t i = 0; i < maps->cnt; i++) {
		if (maps->map[i].is_exec && !strcmp(maps->map[i].path, path))
			return &maps->map[i];
	}
	return NULL;
}

static bool same_file(const struct dlp_proc_map *a, const struct dlp_proc_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && !strcmp(a->path, b->path);
}

/* What leads to the process's root. */
static bool root_of(const struct dlp_process_view *view, char *buf, size_t size)
{
	int len = snprintf(buf, size, "%s/proc/%d/root", view->root, (int)view->pid);

	return len > 0 && (size_t)len < size;
}

/*
 * `path` as it is below the process's root, which `root` leads to. Paths in maps begin at our root,
 * unless the process's is not below it (a container): after chroot(2) its own comes first in them.
 */
static const char *below_root(const char *root, const char *path)
{
	char own[PATH_MAX];
	ssize_t len = readlink(root, own, sizeof(own) - 1);

	if (len <= 0)
		return path;
	own[len] = '\0';
	return has_prefix(path, own) && path[len] == '/' ? path + len : path;
}

/*
 * map_files comes first: it names the mapped inode itself, so that neither an upgrade on disk nor
 * a link planted in a container can put the probe into another file. It needs CAP_SYS_ADMIN or
 * CAP_CHECKPOINT_RESTORE; without these the path is taken when it still leads to that inode.
 */
static int choose_path(const struct dlp_process_view *view, const struct dlp_proc_map *map,
		       char *path, size_t size)
{
	char root[PATH_MAX];
	struct stat st;
	int len;

	len = snprintf(path, size, "%s/proc/%d/map_files/%" PRIx64 "-%" PRIx64, view->root,
		       (int)view->pid, map->start, map->end);
	if (len > 0 && (size_t)len < size && !stat(path, &st) && S_ISREG(st.st_mode))
		return 0;
	if (!root_of(view, root, sizeof(root)))
		return -ENAMETOOLONG;
	len = snprintf(path, size, "%s%s", root, below_root(root, map->path));
	if (len < 0 || (size_t)len >= size)
		return -ENAMETOOLONG;
	if (stat(path, &st))
		return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
	/*
	 * Only the inode number: on btrfs and overlayfs st_dev is not the device that maps shows.
	 * What is probed is compared with the memory besides.
	 */
	return st.st_ino == map->inode ? 0 : -ESTALE;
}

int dlp_mapped_open(const struct dlp_process_view *view, const struct dlp_proc_map *map,
		    struct dlp_mapped *ret)
{
	int err;

	*ret = (struct dlp_mapped){ .map = map };
	err = choose_path(view, map, ret->path, sizeof(ret->path));
	if (err)
		return err;
	err = dlp_elf_open(ret->path, &ret->elf);
	if (!err && ret->elf->machine != DLP_ARCH_MACHINE) {
		dlp_mapped_fini(ret);
		err = -ENOTSUP;
	}
	return err;
}

void dlp_mapped_fini(struct dlp_mapped *mapped)
{
	dlp_elf_free(mapped->elf);
	mapped->elf = NULL;
}

int dlp_mapped_code_addr(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
			 uint64_t offset, uint64_t *ret)
{
	for (size_t i = 0; i < view->maps->cnt; i++) {
		const struct dlp_proc_map *map = &view->maps->map[i];

		if (!map->is_exec || !same_file(map, mapped->map) || offset < map->offset ||
		    offset - map->offset >= map->end - map->start)
			continue;
		*ret = map->start + (offset - map->offset);
		return 0;
	}
	return -ENODEV;
}

int dlp_mapped_bias(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
		    uint64_t *ret)
{
	const struct dlp_elf *elf = mapped->elf;

	if (elf->type == ET_EXEC) {
		*ret = 0;
		return 0;
	}
	for (size_t i = 0; i < elf->phdr_cnt; i++) {
		const Elf64_Phdr *phdr = &elf->phdr[i];
		uint64_t addr;

		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X) ||
		    dlp_mapped_code_addr(view, mapped, phdr->p_offset, &addr))
			continue;
		*ret = addr - phdr->p_vaddr;
		return 0;
	}
	return -ENODEV;
}

int dlp_mapped_check(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
		     uint64_t offset)
{
	uint8_t file[DLP_INSN_CHECK_BYTES], memory[DLP_INSN_CHECK_BYTES];
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	uint64_t addr, left;
	size_t bytes;
	int err;

	err = dlp_mapped_code_addr(view, mapped, offset, &addr);
	if (err)
		return err;
	left = mapped->elf->bytes - offset;
	bytes = left < sizeof(file) ? (size_t)left : sizeof(file);
	err = dlp_elf_read(mapped->elf, offset, file, bytes);
	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s/proc/%d/mem", view->root, (int)view->pid) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	/* needs ptrace access, which probing does not: unreadable is no reason to refuse */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, memory, bytes, (off_t)addr) != (ssize_t)bytes)
		return 0;
	return dlp_insn_same_code(mapped->elf->machine, file, memory, bytes) ? 0 : -ESTALE;
}

/*
 * Opening /proc/PID/root/PATH as it is would follow an absolute link to our own root. openat2
 * is there since 5.6, older than any kernel with a BPF ring buffer.
 */
static int open_in_root(const struct dlp_process_view *view, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int dir = -1;
	char root[PATH_MAX];
	long fd;

	if (!root_of(view, root, sizeof(root)))
		return -ENAMETOOLONG;
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = syscall(SYS_openat2, dir, below_root(root, path), &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

int dlp_mapped_read_text(const struct dlp_process_view *view, const char *path, char *buf,
			 size_t size, size_t *ret_bytes)
{
	_cleanup_close_ int fd = open_in_root(view, path);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	/* a fifo would block us, a device do worse */
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return dlp_smallfile_bytes(fd, buf, size, ret_bytes);
}
