/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A temporary folder that holds a made-up /proc and the files of made-up processes. */
#ifndef TREE_H
#define TREE_H

#include <stddef.h>
#include <stdint.h>

struct tree {
	char path[128]; /* the folder: `root` of procfs.h */
};

void tree_init(struct tree *tree);
/* Removes the folder and all in it. */
void tree_fini(struct tree *tree);

/* PATH below the folder, in a static buffer of which eight are in use at once. */
const char *tree_path(const struct tree *tree, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Writes a file, folders above it included. */
void tree_write(const struct tree *tree, const char *path, const void *data, size_t bytes);
void tree_text(const struct tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void tree_link(const struct tree *tree, const char *path, const char *to);

struct tree_process {
	int pid, ppid;
	const char *comm;
	const char *exe;     /* NULL: none may be read */
	const char *cmdline; /* arguments parted by '|' */
	char state;	     /* 0 = 'S' */
	uint32_t flags;
	uint64_t start_ticks; /* 0 = 5000 + pid */
};

/* stat, status, cmdline, exe and an empty maps; `root` leads to the folder "rootfs". */
void tree_add_process(const struct tree *tree, const struct tree_process *process);

#endif /* TREE_H */
