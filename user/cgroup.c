/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * File formats: Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpu.stat, memory.max) and
 * cgroup-v1/ (cpu.cfs_quota_us, cpu.stat, memory.limit_in_bytes); cgroups(7) for
 * /proc/PID/cgroup, proc(5) for mountinfo.
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "procfs.h"
#include "smallfile.h"
#include "util.h"

/* A line per hierarchy, of which there are 14 at most, with a path each. */
#define GROUPS_BYTES 16384
/* cpu.stat has a dozen lines, the other files one. */
#define SMALL_BYTES 1024
/* Root, mount point and source are paths in which each byte may become 4; options fill a page each. */
#define MOUNT_LINE_BYTES (3 * 4 * PATH_MAX + 4 * 4096)
/* Version 1 says "no limit" by a number near 2^63, rounded to pages. */
#define V1_NO_LIMIT (1ull << 60)

/* Where one controller holds the process; mount "" = nowhere that can be seen. */
struct place {
	bool v2;
	char mount[PATH_MAX]; /* of the hierarchy, `root` included */
	char path[PATH_MAX];  /* of the process's group below it, "" = the mount's top */
};

struct throttling {
	uint64_t periods, throttled_periods, throttled_ns;
};

struct dlp_cgroup {
	const char *root;
	pid_t pid;
	int fd;			   /* /proc/PID/cgroup */
	char groups[GROUPS_BYTES]; /* what it said when the places were looked up */
	struct place cpu, memory;
	char counted[PATH_MAX]; /* group below cpu.mount whose counters `seen` are */
	bool counting;		/* `counted` and `seen` mean something */
	struct throttling seen, total;
};

/* Whether a comma-separated list, which ends at the character `end`, has this word. */
static bool has_word(const char *list, const char *word, char end)
{
	size_t len = strlen(word);

	for (;;) {
		size_t item = 0;

		while (list[item] && list[item] != ',' && list[item] != end)
			item++;
		if (item == len && !memcmp(list, word, len))
			return true;
		if (list[item] != ',')
			return false;
		list += item + 1;
	}
}

/*
 * The process's group in the hierarchy that has the controller: version 1 where the controller is
 * bound to one, else version 2. Lines of /proc/PID/cgroup: ID:CONTROLLERS:PATH, and version 2 is
 * the one without controllers; its tree may be there although it is not used.
 */
static bool find_path(const char *groups, const char *controller, bool *ret_v2,
		      char ret_path[PATH_MAX])
{
	bool found = false;

	for (const char *line = groups; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *names = memchr(line, ':', (size_t)(end - line));
		const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
		bool v2;

		line = *end ? end + 1 : end;
		if (!path)
			continue;
		names++;
		v2 = names == path++;
		if (*path != '/' || end - path >= PATH_MAX ||
		    (v2 ? found : !has_word(names, controller, ':')))
			continue;
		memcpy(ret_path, path, (size_t)(end - path));
		ret_path[end - path] = '\0';
		*ret_v2 = v2;
		found = true;
	}
	return found;
}

/* Undoes the octal escapes of mountinfo ("\040" for a blank), in place. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
		    at[3] >= '0' && at[3] <= '7') {
			*to++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			at += 3;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
}

struct mount {
	char *root, *point, *type, *options;
};

/* Splits a line: ID PARENT DEV ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS. */
static bool parse_mount(char *line, struct mount *ret)
{
	char *field[6], *at = line, *rest = strstr(line, " - ");

	line[strcspn(line, "\n")] = '\0';
	if (!rest)
		return false;
	*rest = '\0';
	rest += 3;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(field); i++) {
		field[i] = strsep(&at, " ");
		if (!field[i])
			return false;
	}
	ret->root = field[3];
	ret->point = field[4];
	ret->type = strsep(&rest, " ");
	(void)strsep(&rest, " ");
	ret->options = rest;
	unescape(ret->root);
	unescape(ret->point);
	return ret->options != NULL;
}

/*
 * What leads from a mount to the group, "" = the mount itself; NULL when the group is not below
 * it. Both are relative to the root of our cgroup namespace: what lies outside of it begins with
 * "/..", and the names on the way down from there are not known.
 */
static const char *below(const char *path, const char *mount_root)
{
	size_t len = strcmp(mount_root, "/") ? strlen(mount_root) : 0;
	const char *rest = path + len;

	if (strncmp(path, mount_root, len) || (*rest && *rest != '/'))
		return NULL;
	for (const char *up = strstr(rest, "/.."); up; up = strstr(up + 3, "/..")) {
		if (!up[3] || up[3] == '/')
			return NULL;
	}
	return strcmp(rest, "/") ? rest : "";
}

/*
 * Of several mounts in a list (mountinfo) the one that shows most of the way to the root; `prefix`
 * leads to the file system that the list is of.
 */
static void find_mount(const char *list, const char *prefix, const char *controller,
		       const char *path, struct place *place)
{
	_cleanup_fclose_ FILE *file = fopen(list, "re");
	_cleanup_free_ char *line = malloc(MOUNT_LINE_BYTES);
	size_t shortest = SIZE_MAX;

	while (file && line && fgets(line, MOUNT_LINE_BYTES, file)) {
		struct mount mount;
		const char *rest;

		if (!parse_mount(line, &mount) ||
		    strcmp(mount.type, place->v2 ? "cgroup2" : "cgroup") ||
		    (!place->v2 && !has_word(mount.options, controller, '\0')))
			continue;
		rest = below(path, mount.root);
		if (!rest || strlen(mount.root) >= shortest ||
		    strlen(prefix) + strlen(mount.point) >= sizeof(place->mount))
			continue;
		shortest = strlen(mount.root);
		(void)snprintf(place->mount, sizeof(place->mount), "%s%s", prefix, mount.point);
		(void)snprintf(place->path, sizeof(place->path), "%s", rest);
	}
}

/*
 * In our own mounts, else in those of the process: from inside a container the groups of another
 * are not to be seen, but that one mostly has its own mounted. Both lists are relative to our
 * cgroup namespace, whoever's mounts they show.
 */
static void find_place(const struct dlp_cgroup *cgroup, const char *controller, struct place *place)
{
	char path[PATH_MAX], list[PATH_MAX], prefix[PATH_MAX];

	memset(place, 0, sizeof(*place));
	if (!find_path(cgroup->groups, controller, &place->v2, path))
		return;
	if (snprintf(list, sizeof(list), "%s/proc/self/mountinfo", cgroup->root) <
	    (int)sizeof(list))
		find_mount(list, cgroup->root, controller, path, place);
	if (!place->mount[0] &&
	    snprintf(list, sizeof(list), "%s/proc/%d/mountinfo", cgroup->root,
		     (int)cgroup->pid) < (int)sizeof(list) &&
	    snprintf(prefix, sizeof(prefix), "%s/proc/%d/root", cgroup->root, (int)cgroup->pid) <
		    (int)sizeof(prefix))
		find_mount(list, prefix, controller, path, place);
}

/* Version 1 shows an ending process in the root group, where it has never been. */
static bool is_ending(const struct dlp_cgroup *cgroup)
{
	struct dlp_proc_stat stat = { 0 };

	return dlp_proc_stat(cgroup->root, cgroup->pid, &stat) == -ESRCH ||
	       stat.flags & DLP_PF_EXITING;
}

static void follow(struct dlp_cgroup *cgroup)
{
	char groups[GROUPS_BYTES];

	if (cgroup->fd < 0 || dlp_smallfile_text(cgroup->fd, groups, sizeof(groups)) ||
	    !strcmp(groups, cgroup->groups))
		return;
	if (cgroup->groups[0] && is_ending(cgroup))
		return;
	memcpy(cgroup->groups, groups, sizeof(groups));
	find_place(cgroup, "cpu", &cgroup->cpu);
	find_place(cgroup, "memory", &cgroup->memory);
}

/* Reads a file of the group `path` of this hierarchy. 0 or -errno. */
static int read_file(const struct place *place, const char *path, const char *file,
		     char text[SMALL_BYTES])
{
	char full[PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s/%s", place->mount, path, file) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	return dlp_smallfile_read(full, text, SMALL_BYTES);
}

static bool exists(const struct place *place)
{
	char full[PATH_MAX];
	struct stat st;

	return place->mount[0] &&
	       snprintf(full, sizeof(full), "%s%s", place->mount, place->path) <
		       (int)sizeof(full) &&
	       !stat(full, &st) && S_ISDIR(st.st_mode);
}

/* One step up; false at the mount's top. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
	return slash != NULL;
}

/*
 * CPU time per period that one group may use, 0 = no limit: so it is too where the file is missing
 * (root of version 2, controller not enabled there, kernel without quotas).
 */
static int read_quota(const struct place *place, const char *path, uint64_t *ret_quota_us,
		      uint64_t *ret_period_us)
{
	char text[SMALL_BYTES];
	const char *at = text;
	int err;

	*ret_quota_us = *ret_period_us = 0;
	err = read_file(place, path, place->v2 ? "cpu.max" : "cpu.cfs_quota_us", text);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (place->v2 ? !strncmp(text, "max ", 4) : !strcmp(text, "-1\n"))
		return 0;
	if (!dlp_smallfile_number(&at, ret_quota_us))
		return -EBADMSG;
	if (!place->v2) {
		err = read_file(place, path, "cpu.cfs_period_us", text);
		if (err)
			return err;
		at = text;
	}
	if (!dlp_smallfile_number(&at, ret_period_us) || !*ret_period_us || !*ret_quota_us)
		return -EBADMSG;
	return 0;
}

static int read_throttling(const struct place *place, const char *path, struct throttling *ret)
{
	char text[SMALL_BYTES];
	int err;

	err = read_file(place, path, "cpu.stat", text);
	if (err)
		return err;
	if (!dlp_smallfile_keyed(text, "nr_periods", &ret->periods) ||
	    !dlp_smallfile_keyed(text, "nr_throttled", &ret->throttled_periods) ||
	    !dlp_smallfile_keyed(text, place->v2 ? "throttled_usec" : "throttled_time",
				 &ret->throttled_ns))
		return -EBADMSG;
	if (place->v2)
		ret->throttled_ns = ret->throttled_ns > UINT64_MAX / DLP_NS_PER_US ?
					    UINT64_MAX :
					    ret->throttled_ns * DLP_NS_PER_US;
	return 0;
}

/*
 * Adds what the group's counters have grown by. Another group, or one made anew under the same
 * name, only gives a new start: its past is not ours.
 */
static void count_throttling(struct dlp_cgroup *cgroup, const char *path,
			     const struct throttling *now)
{
	struct throttling *seen = &cgroup->seen, *total = &cgroup->total;

	if (cgroup->counting && !strcmp(cgroup->counted, path) && now->periods >= seen->periods &&
	    now->throttled_periods >= seen->throttled_periods &&
	    now->throttled_ns >= seen->throttled_ns) {
		total->periods += now->periods - seen->periods;
		total->throttled_periods += now->throttled_periods - seen->throttled_periods;
		total->throttled_ns += now->throttled_ns - seen->throttled_ns;
	}
	*seen = *now;
	cgroup->counting = true;
	(void)snprintf(cgroup->counted, sizeof(cgroup->counted), "%s", path);
}

static void read_cpu(struct dlp_cgroup *cgroup, struct dlp_ev_system *event)
{
	const struct place *place = &cgroup->cpu;
	uint64_t quota_us, period_us, least_us = 0, least_period_us = 0;
	char path[PATH_MAX], tightest[PATH_MAX];
	struct throttling now;

	if (!exists(place))
		return;
	memcpy(path, place->path, sizeof(path));
	do {
		/* a limit that cannot be read may be the one that matters */
		if (read_quota(place, path, &quota_us, &period_us))
			return;
		if (!quota_us || (least_us && (double)quota_us / (double)period_us >=
						      (double)least_us / (double)least_period_us))
			continue;
		least_us = quota_us;
		least_period_us = period_us;
		memcpy(tightest, path, sizeof(tightest));
	} while (go_up(path));
	if (least_us) {
		if (read_throttling(place, tightest, &now))
			return;
		count_throttling(cgroup, tightest, &now);
	}
	event->quota_us = least_us;
	event->period_us = least_period_us;
	event->periods = cgroup->total.periods;
	event->throttled_periods = cgroup->total.throttled_periods;
	event->throttled_ns = cgroup->total.throttled_ns;
	event->known |= DLP_SYS_QUOTA;
}

/* A number of bytes; 0 for "max" and where there is no such file. */
static int read_size(const struct place *place, const char *path, const char *file, uint64_t *ret)
{
	char text[SMALL_BYTES];
	const char *at = text;
	int err;

	*ret = 0;
	err = read_file(place, path, file, text);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (!strncmp(text, "max\n", 4))
		return 0;
	return dlp_smallfile_number(&at, ret) ? 0 : -EBADMSG;
}

static void read_memory(const struct place *place, struct dlp_ev_system *event)
{
	const char *limit_file = place->v2 ? "memory.max" : "memory.limit_in_bytes";
	const char *used_file = place->v2 ? "memory.current" : "memory.usage_in_bytes";
	char path[PATH_MAX], tightest[PATH_MAX];
	uint64_t limit, least = 0, used;

	if (!exists(place))
		return;
	memcpy(path, place->path, sizeof(path));
	memcpy(tightest, place->path, sizeof(tightest));
	do {
		if (read_size(place, path, limit_file, &limit))
			return;
		if (!limit || (!place->v2 && limit >= V1_NO_LIMIT) || (least && limit >= least))
			continue;
		least = limit;
		memcpy(tightest, path, sizeof(tightest));
	} while (go_up(path));
	/* a group with a process in it uses some memory: nothing means that it is not counted */
	if (read_size(place, tightest, used_file, &used) || (!used && !least))
		return;
	event->group_limit = least;
	event->group_used = used;
	event->known |= DLP_SYS_GROUPMEM;
}

int dlp_cgroup_new(const char *root, pid_t pid, struct dlp_cgroup **ret)
{
	struct dlp_cgroup *cgroup;
	char path[PATH_MAX];

	cgroup = calloc(1, sizeof(*cgroup));
	if (!cgroup)
		return -ENOMEM;
	cgroup->root = root;
	cgroup->pid = pid;
	cgroup->fd = -1;
	if (snprintf(path, sizeof(path), "%s/proc/%d/cgroup", root, (int)pid) < (int)sizeof(path))
		cgroup->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	*ret = cgroup;
	return 0;
}

void dlp_cgroup_free(struct dlp_cgroup *cgroup)
{
	if (!cgroup)
		return;
	dlp_cleanup_close(&cgroup->fd);
	free(cgroup);
}

void dlp_cgroup_read(struct dlp_cgroup *cgroup, struct dlp_ev_system *event)
{
	follow(cgroup);
	read_cpu(cgroup, event);
	read_memory(&cgroup->memory, event);
}
