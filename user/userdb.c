/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* File formats: passwd(5), group(5); getent(1) prints the same, and "NAME GID..." for initgroups. */
#include "userdb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "util.h"

/* A group with some thousand members; what does not fit a line is skipped with the rest of it. */
#define LINE_BYTES 65536
/* A directory service can be asked for more lines than any machine has users. */
#define LINES_MAX 100000

/* What is read line by line: a file, or what getent prints. */
struct source {
	FILE *file;
	pid_t child; /* 0 = a file */
	size_t lines;
	char *line;
};

static int open_file(const char *root, const char *name, struct source *ret)
{
	char path[PATH_MAX];

	*ret = (struct source){ .line = malloc(LINE_BYTES) };
	if (ret->line && snprintf(path, sizeof(path), "%s%s", root, name) < (int)sizeof(path))
		ret->file = fopen(path, "re");
	return ret->file ? 0 : -ENOENT;
}

static pid_t spawn_getent(const char *root, char *const *argv, int out)
{
	/* of its surroundings nothing shall reach a program that we may run as root */
	char *const environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char path[PATH_MAX];
	sigset_t none;
	pid_t pid = -1;

	if (snprintf(path, sizeof(path), "%s/usr/bin/getent", root) >= (int)sizeof(path))
		return -1;
	(void)sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (posix_spawn(&pid, path, &actions, &attributes, argv, environment))
		pid = -1;
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static int open_getent(const char *root, const char *database, const char *key, struct source *ret)
{
	char program[] = "getent", *const argv[] = { program, (char *)database, (char *)key, NULL };
	_cleanup_close_ int out = -1;
	int ends[2];

	*ret = (struct source){ .line = malloc(LINE_BYTES) };
	if (!ret->line || pipe2(ends, O_CLOEXEC))
		return -ENOENT;
	out = ends[1];
	ret->file = fdopen(ends[0], "r");
	if (!ret->file)
		close(ends[0]);
	else
		ret->child = spawn_getent(root, argv, out);
	return ret->child > 0 ? 0 : -ENOENT;
}

static void close_source(struct source *source)
{
	int status;

	if (source->file)
		fclose(source->file);
	/* our end is closed: it cannot be stuck in writing */
	while (source->child > 0 && waitpid(source->child, &status, 0) < 0 && errno == EINTR)
		;
	free(source->line);
}

/* The next whole line, without its end; NULL: there is none. */
static char *next_line(struct source *source)
{
	while (source->lines++ < LINES_MAX && fgets(source->line, LINE_BYTES, source->file)) {
		size_t len = strcspn(source->line, "\n");
		int ch;

		if (source->line[len] || len + 1 < LINE_BYTES) {
			source->line[len] = '\0';
			return source->line;
		}
		while ((ch = getc(source->file)) != EOF && ch != '\n')
			;
	}
	return NULL;
}

/* Splits at `mark` into exactly `cnt` fields; false when there are fewer. */
static bool split(char *line, char mark, char **field, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		char *end = line ? strchr(line, mark) : NULL;

		if (!line)
			return false;
		field[i] = line;
		line = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
	}
	return true;
}

static bool parse_id(const char *text, uint32_t *ret)
{
	uint64_t value;

	/* the largest means "leave as it is" to the kernel, and is nobody's id */
	if (dlp_parse_u64(text, &value) || value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static void copy(char *to, size_t size, const char *from)
{
	if (snprintf(to, size, "%s", from) >= (int)size)
		to[0] = '\0';
}

/* NAME:PASSWORD:UID:GID:COMMENT:HOME:SHELL */
static bool find_user(struct source *source, uid_t uid, struct dlp_user *ret)
{
	char *field[7], *line;

	while ((line = next_line(source))) {
		uint32_t id;

		if (!split(line, ':', field, DLP_ARRAY_SIZE(field)) || !parse_id(field[2], &id) ||
		    id != uid || !*field[0])
			continue;
		copy(ret->name, sizeof(ret->name), field[0]);
		if (ret->name[0])
			copy(ret->home, sizeof(ret->home), field[5]);
		return ret->name[0];
	}
	return false;
}

int dlp_userdb_user(const char *root, uid_t uid, struct dlp_user *ret)
{
	struct source source;
	bool found;
	char key[16];

	memset(ret, 0, sizeof(*ret));
	found = !open_file(root, "/etc/passwd", &source) && find_user(&source, uid, ret);
	close_source(&source);
	if (found)
		return 0;
	(void)snprintf(key, sizeof(key), "%u", (unsigned int)uid);
	found = !open_getent(root, "passwd", key, &source) && find_user(&source, uid, ret);
	close_source(&source);
	return found ? 0 : -ENOENT;
}

static void add_group(gid_t group, gid_t *ret, size_t max, size_t *cnt)
{
	for (size_t i = 0; i < *cnt; i++) {
		if (ret[i] == group)
			return;
	}
	if (*cnt < max)
		ret[(*cnt)++] = group;
}

/* "NAME  GID GID...": false when there is no such line. */
static bool read_memberships(struct source *source, const char *name, gid_t *ret, size_t max,
			     size_t *cnt)
{
	char *line = next_line(source), *word = strsep(&line, " ");
	uint32_t group;

	if (!word || strcmp(word, name))
		return false;
	while ((word = strsep(&line, " "))) {
		if (*word && parse_id(word, &group))
			add_group(group, ret, max, cnt);
	}
	return true;
}

static bool has_member(char *members, const char *name)
{
	char *member;

	while ((member = strsep(&members, ","))) {
		if (!strcmp(member, name))
			return true;
	}
	return false;
}

/* NAME:PASSWORD:GID:MEMBER,MEMBER... */
static void search_groups(struct source *source, const char *name, gid_t *ret, size_t max,
			  size_t *cnt)
{
	char *field[4], *line;
	uint32_t group;

	while ((line = next_line(source))) {
		if (split(line, ':', field, DLP_ARRAY_SIZE(field)) && parse_id(field[2], &group) &&
		    has_member(field[3], name))
			add_group(group, ret, max, cnt);
	}
}

void dlp_userdb_groups(const char *root, const char *name, gid_t gid, gid_t *ret, size_t max,
		       size_t *ret_cnt)
{
	struct source source;
	bool known;

	*ret_cnt = 0;
	add_group(gid, ret, max, ret_cnt);
	known = !open_getent(root, "initgroups", name, &source) &&
		read_memberships(&source, name, ret, max, ret_cnt);
	close_source(&source);
	if (known)
		return;
	if (!open_file(root, "/etc/group", &source))
		search_groups(&source, name, ret, max, ret_cnt);
	close_source(&source);
}
