/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tree.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tree_init(struct tree *tree)
{
	(void)snprintf(tree->path, sizeof(tree->path), "/tmp/dlp-tree-XXXXXX");
	if (!mkdtemp(tree->path))
		abort();
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void tree_fini(struct tree *tree)
{
	(void)nftw(tree->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *tree_path(const struct tree *tree, const char *format, ...)
{
	static char bufs[8][1024];
	static size_t next;
	char *buf = bufs[next++ % 8];
	va_list args;
	int len;

	len = snprintf(buf, sizeof(bufs[0]), "%s/", tree->path);
	va_start(args, format);
	(void)vsnprintf(buf + len, sizeof(bufs[0]) - (size_t)len, format, args);
	va_end(args);
	return buf;
}

static void make_folders(const char *path)
{
	char buf[1024];

	(void)snprintf(buf, sizeof(buf), "%s", path);
	for (char *at = strchr(buf + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(buf, 0755);
		*at = '/';
	}
}

void tree_write(const struct tree *tree, const char *path, const void *data, size_t bytes)
{
	const char *full = tree_path(tree, "%s", path);
	FILE *file;

	make_folders(full);
	file = fopen(full, "w");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
		abort();
}

void tree_text(const struct tree *tree, const char *path, const char *format, ...)
{
	char text[8192];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tree_write(tree, path, text, strlen(text));
}

void tree_link(const struct tree *tree, const char *path, const char *to)
{
	const char *full = tree_path(tree, "%s", path);

	make_folders(full);
	(void)unlink(full);
	if (symlink(to, full))
		abort();
}

void tree_add_process(const struct tree *tree, const struct tree_process *process)
{
	unsigned long long start = process->start_ticks;
	char path[64], cmdline[1024] = "";
	size_t bytes = 0;

	start = start ? start : 5000ull + (unsigned int)process->pid;
	(void)snprintf(path, sizeof(path), "proc/%d/stat", process->pid);
	/* from a real one: 52 fields, tpgid (8) and priority (18) may be negative */
	tree_text(
		tree, path,
		"%d (%s) %c %d 100 100 0 -1 %u 2000 3000 7 8 123 45 6 7 20 0 3 0 %llu 123456 789 "
		"18446744073709551615 1 1 0 0 0 0 0 16781312 2 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 "
		"0\n",
		process->pid, process->comm, process->state ? process->state : 'S', process->ppid,
		process->flags, start);
	(void)snprintf(path, sizeof(path), "proc/%d/status", process->pid);
	tree_text(tree, path,
		  "Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\n"
		  "Ngid:\t0\nPid:\t%d\nPPid:\t%d\nUid:\t1000\t1001\t1002\t1003\n"
		  "Cpus_allowed:\t00000000,0000f00f\nCpus_allowed_list:\t0-3,12-15\n",
		  process->comm, process->pid, process->pid, process->ppid);
	if (process->cmdline) {
		bytes = strlen(process->cmdline) + 1;
		memcpy(cmdline, process->cmdline, bytes);
		for (char *at = cmdline; *at || at < cmdline + bytes - 1; at++)
			*at = *at == '|' ? '\0' : *at;
	}
	(void)snprintf(path, sizeof(path), "proc/%d/cmdline", process->pid);
	tree_write(tree, path, cmdline, bytes);
	(void)snprintf(path, sizeof(path), "proc/%d/maps", process->pid);
	tree_text(tree, path, "%s", "");
	(void)snprintf(path, sizeof(path), "proc/%d/exe", process->pid);
	if (process->exe)
		tree_link(tree, path, process->exe);
	(void)snprintf(path, sizeof(path), "proc/%d/root", process->pid);
	tree_link(tree, path, tree_path(tree, "rootfs"));
}
