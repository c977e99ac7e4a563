/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files that a process has mapped: which, how to open the very same ones from our namespace, and
 * whether its memory still shows what the file holds. Reads only.
 */
#ifndef DLP_MAPPED_H
#define DLP_MAPPED_H

#include <sys/types.h>

#include "elf_file.h"
#include "procfs.h"
#include "target.h"

/* Where all this is looked up. */
struct dlp_process_view {
	const char *root; /* as in procfs.h */
	pid_t pid;
	const struct dlp_proc_maps *maps;
};

/* elf NULL: not mapped, or not opened. */
struct dlp_mapped {
	const struct dlp_proc_map *map; /* its first executable mapping */
	char path[512];			/* opens it from our namespace */
	struct dlp_elf *elf;
};

enum dlp_mapped_name {
	DLP_MAPPED_TORCH_PYTHON,
	DLP_MAPPED_TORCH_CPU,
	DLP_MAPPED_LIBPYTHON, /* not the stub libpython3.so */
	DLP_MAPPED_PICKLE,
	DLP_MAPPED_LIBC,
	DLP_MAPPED_LIBPTHREAD, /* a part of libc since glibc 2.34 */
};

/* First executable mapping of such a file; NULL: there is none. */
const struct dlp_proc_map *dlp_mapped_find(const struct dlp_proc_maps *maps,
					   enum dlp_mapped_name name);
const struct dlp_proc_map *dlp_mapped_find_path(const struct dlp_proc_maps *maps, const char *path);

/*
 * Opens the file behind a mapping. 0; -ESTALE: what its path names now is another file, and the
 * mapped one can't be reached; or as dlp_elf_open.
 */
int dlp_mapped_open(const struct dlp_process_view *view, const struct dlp_proc_map *map,
		    struct dlp_mapped *ret);
void dlp_mapped_fini(struct dlp_mapped *mapped);

/* Where the target has this file offset mapped for execution; 0 or -ENODEV. */
int dlp_mapped_code_addr(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
			 uint64_t offset, uint64_t *ret);
/* What is added to the file's virtual addresses in the target; 0 or -ENODEV. */
int dlp_mapped_bias(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
		    uint64_t *ret);
/*
 * Compares code bytes at a file offset with the target's memory. 0: the same, or the memory may
 * not be read; -ESTALE: they differ.
 */
int dlp_mapped_check(const struct dlp_process_view *view, const struct dlp_mapped *mapped,
		     uint64_t offset);

/*
 * A text file as the target sees it at `path`, links resolved inside the target's own root. Up
 * to size - 1 bytes and a NUL; more is cut. 0 or -errno.
 */
int dlp_mapped_read_text(const struct dlp_process_view *view, const char *path, char *buf,
			 size_t size, size_t *ret_bytes);

struct dlp_file_id dlp_mapped_file(const struct dlp_proc_map *map);

/* The part behind the last slash. */
const char *dlp_mapped_base(const char *path);

#endif /* DLP_MAPPED_H */
