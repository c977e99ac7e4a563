/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "objects.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

/* A question costs some 2 us for each descriptor or line: 8 of 60 each are 1 ms, 4 ms at worst. */
#define ASK_MAX 8
#define FDS_MAX 256
#define TCP_LINES_MAX 256
#define KEPT 64
/* Descriptor numbers are used again for other files, inode numbers rarely. */
#define KEEP_INTERVALS 30

struct answer {
	uint32_t pid, dev;
	uint64_t object;
	unsigned int age;
	bool path;
	char text[160]; /* "" = nothing was found */
};

struct dlp_objects {
	char root[PATH_MAX];
	struct answer answer[KEPT];
	size_t next;
	unsigned int asked;
};

int dlp_objects_new(const char *root, struct dlp_objects **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(void)snprintf((*ret)->root, sizeof((*ret)->root), "%s", root);
	return 0;
}

void dlp_objects_free(struct dlp_objects *objects)
{
	free(objects);
}

void dlp_objects_age(struct dlp_objects *objects)
{
	objects->asked = 0;
	for (size_t i = 0; i < KEPT; i++) {
		if (objects->answer[i].pid && ++objects->answer[i].age > KEEP_INTERVALS)
			objects->answer[i].pid = 0;
	}
}

/* "0100007F:0CEA", as the kernel prints it: words of the machine's byte order, in hexadecimal. */
static bool address(const char *hex, char *buf, size_t size)
{
	size_t words = strcspn(hex, ":") / 8;
	uint32_t part[4] = { 0 };
	char text[INET6_ADDRSTRLEN];
	unsigned int port;

	if (words != 1 && words != 4)
		return false;
	for (size_t i = 0; i < words; i++) {
		if (sscanf(hex + 8 * i, "%8x", &part[i]) != 1)
			return false;
	}
	if (sscanf(hex + 8 * words, ":%4x", &port) != 1 ||
	    !inet_ntop(words == 1 ? AF_INET : AF_INET6, part, text, sizeof(text)))
		return false;
	(void)snprintf(buf, size, words == 1 ? "%s:%u" : "[%s]:%u", text, port);
	return true;
}

/* The peer of the TCP socket with this inode, looked for in one of the process's tables. */
static bool find_peer(const struct dlp_objects *objects, uint32_t pid, uint64_t inode,
		      const char *table, char *buf, size_t size)
{
	char path[PATH_MAX + 64], line[512], peer[40];
	unsigned long long found;
	FILE *file;
	bool ret = false;

	(void)snprintf(path, sizeof(path), "%s/proc/%u/net/%s", objects->root, pid, table);
	file = fopen(path, "re");
	if (!file)
		return false;
	for (int i = 0; i < TCP_LINES_MAX && !ret && fgets(line, sizeof(line), file); i++) {
		if (sscanf(line, "%*d: %*s %39s %*s %*s %*s %*s %*s %*s %llu", peer, &found) == 2 &&
		    found == inode)
			ret = address(peer, buf, size);
	}
	fclose(file);
	return ret;
}

/* The link of an open descriptor that is this file: dev is the kernel's, of its super block. */
static bool is_file(int folder, const char *fd, const struct dlp_thread *thread)
{
	struct stat st;

	if (fstatat(folder, fd, &st, 0) || st.st_ino != thread->object)
		return false;
	/* some file systems (btrfs, overlayfs) show another device to programs: the number decides */
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

static bool find_file(const struct dlp_objects *objects, const struct dlp_thread *thread, char *buf,
		      size_t size)
{
	char path[PATH_MAX + 64], link[PATH_MAX];
	struct dirent *entry;
	ssize_t len = -1;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/proc/%u/fd", objects->root, thread->tgid);
	dir = opendir(path);
	if (!dir)
		return false;
	for (int i = 0; i < FDS_MAX && len < 0 && (entry = readdir(dir)); i++) {
		if (entry->d_name[0] != '.' && is_file(dirfd(dir), entry->d_name, thread))
			len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link));
	}
	closedir(dir);
	if (len <= 0)
		return false;
	dlp_sanitise(buf, size, link, (size_t)len);
	return true;
}

static void ask(const struct dlp_objects *objects, const struct dlp_thread *thread,
		struct answer *ret)
{
	*ret = (struct answer){ .pid = thread->tgid, .dev = thread->dev, .object = thread->object };
	if (thread->state == DLP_ST_NET) {
		if (!find_peer(objects, thread->tgid, thread->object, "tcp", ret->text,
			       sizeof(ret->text)))
			(void)find_peer(objects, thread->tgid, thread->object, "tcp6", ret->text,
					sizeof(ret->text));
	} else {
		ret->path = find_file(objects, thread, ret->text, sizeof(ret->text));
	}
}

static bool has_name(const struct dlp_thread *thread)
{
	switch (thread->state) {
	case DLP_ST_NET:
	case DLP_ST_DISK:
	case DLP_ST_FS:
	case DLP_ST_FAULT:
		return thread->object != 0;
	case DLP_ST_LOCK:
		/* a file lock; of a futex `object` is an address */
		return thread->object != 0 && thread->dev != 0;
	default:
		return false;
	}
}

const char *dlp_objects_name(void *ctx, const struct dlp_thread *thread, char *buf, size_t size,
			     bool *ret_path)
{
	struct dlp_objects *objects = ctx;
	struct answer *found = NULL;

	if (!has_name(thread))
		return NULL;
	for (size_t i = 0; i < KEPT && !found; i++) {
		struct answer *answer = &objects->answer[i];

		if (answer->pid == thread->tgid && answer->object == thread->object &&
		    answer->dev == thread->dev)
			found = answer;
	}
	if (!found) {
		if (objects->asked++ >= ASK_MAX)
			return NULL;
		found = &objects->answer[objects->next++ % KEPT];
		ask(objects, thread, found);
	}
	if (!*found->text)
		return NULL;
	(void)snprintf(buf, size, "%s", found->text);
	*ret_path = found->path;
	return buf;
}
