/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "smallfile.h"
#include "util.h"

/* stat has 52 numbers and a name, status about 60 lines, cgroup a line per hierarchy. */
#define SMALL_FILE_BYTES 16384
/* vm.max_map_count is 65530 unless raised; a job with more is still read, in part. */
#define MAPS_MAX (1u << 18)
/* pid_max cannot be larger on 64-bit (PID_MAX_LIMIT) */
#define PROCESSES_MAX (4u << 20)
/* A line of maps: a path of at most PATH_MAX bytes, of which each may become 4 ("\012") */
#define MAPS_LINE_BYTES (4 * PATH_MAX + 256)

static int gone(int err)
{
	/* ENOENT: no such folder (or hidden by hidepid); ESRCH: it went while the file was open */
	return err == ENOENT || err == ENOTDIR ? -ESRCH : err == EPERM ? -EACCES : -err;
}

static int open_proc(const char *root, pid_t pid, const char *file)
{
	char path[PATH_MAX];
	int len, fd;

	len = snprintf(path, sizeof(path), "%s/proc/%d/%s", root, (int)pid, file);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? gone(errno) : fd;
}

/* Up to size - 1 bytes and a NUL; more is cut. */
static int read_file(const char *root, pid_t pid, const char *file, char *buf, size_t size,
		     size_t *ret_bytes)
{
	_cleanup_close_ int fd = open_proc(root, pid, file);
	int err;

	if (fd < 0)
		return fd;
	err = dlp_smallfile_bytes(fd, buf, size, ret_bytes);
	return err ? gone(-err) : 0;
}

uint64_t dlp_proc_tick_ns(void)
{
	long hz = sysconf(_SC_CLK_TCK);

	return DLP_NS_PER_S / (uint64_t)(hz > 0 ? hz : 100);
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks * dlp_proc_tick_ns();
}

static int parse_stat(char *text, struct dlp_proc_stat *ret)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t field[23] = { 0 };
	size_t len;
	char *at;

	if (!open || !close || close < open || close[1] != ' ' || !close[2])
		return -EBADMSG;
	len = (size_t)(close - open - 1);
	len = len < sizeof(ret->comm) - 1 ? len : sizeof(ret->comm) - 1;
	memcpy(ret->comm, open + 1, len);
	ret->comm[len] = '\0';
	ret->state = close[2];
	at = close + 3;
	/* numbered as in proc(5): 4 = ppid; tpgid and the priorities may be negative */
	for (int i = 4; i <= 22; i++) {
		char *end;

		errno = 0;
		field[i] = strtoull(at, &end, 10);
		if (end == at || errno)
			return -EBADMSG;
		at = end;
	}
	ret->ppid = (pid_t)field[4];
	ret->flags = (uint32_t)field[9];
	ret->minflt = field[10];
	ret->majflt = field[12];
	ret->utime_ns = ticks_to_ns(field[14]);
	ret->stime_ns = ticks_to_ns(field[15]);
	ret->threads = (uint32_t)field[20];
	ret->start_ticks = field[22];
	return 0;
}

int dlp_proc_stat(const char *root, pid_t pid, struct dlp_proc_stat *ret)
{
	char text[2048];
	size_t bytes;
	int err;

	err = read_file(root, pid, "stat", text, sizeof(text), &bytes);
	if (err)
		return err;
	memset(ret, 0, sizeof(*ret));
	return parse_stat(text, ret);
}

/* The value behind "Name:" at the start of a line, or NULL. */
static const char *status_value(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, len) && line[len] == ':')
			return line + len + 1;
	}
	return NULL;
}

static uint32_t count_mask(const char *text)
{
	uint32_t cnt = 0;

	while (*text == '\t' || *text == ' ')
		text++;
	for (; isxdigit((unsigned char)*text) || *text == ','; text++) {
		int digit = *text <= '9' ? *text - '0' : (*text | 0x20) - 'a' + 10;

		if (*text != ',')
			cnt += (uint32_t)__builtin_popcount((unsigned int)digit);
	}
	return cnt;
}

/* Of those in a line, parted by tabs. */
static pid_t last_number(const char *at)
{
	long number = 0;
	char *end;

	for (;; at = end) {
		at += strspn(at, " \t");
		if (!isdigit((unsigned char)*at))
			return (pid_t)number;
		number = strtol(at, &end, 10);
	}
}

int dlp_proc_status(const char *root, pid_t pid, struct dlp_proc_status *ret)
{
	char text[SMALL_FILE_BYTES];
	const char *value;
	size_t bytes;
	int err;

	err = read_file(root, pid, "status", text, sizeof(text), &bytes);
	if (err)
		return err;
	memset(ret, 0, sizeof(*ret));
	value = status_value(text, "Tgid");
	if (!value)
		return -EBADMSG;
	ret->tgid = (pid_t)strtol(value, NULL, 10);
	value = status_value(text, "Uid");
	if (value)
		ret->uid = (uid_t)strtoul(value, NULL, 10);
	value = status_value(text, "Cpus_allowed");
	if (value)
		ret->cpus = count_mask(value);
	/* one number for each namespace it is in, its own comes last */
	value = status_value(text, "NSpid");
	ret->inside = value ? last_number(value) : pid;
	return 0;
}

bool dlp_proc_is_ours(const char *root)
{
	char path[PATH_MAX], own[16], link[16];
	ssize_t len;

	if (snprintf(path, sizeof(path), "%s/proc/self", root) >= (int)sizeof(path))
		return false;
	len = readlink(path, link, sizeof(link) - 1);
	if (len < 0)
		return false;
	link[len] = '\0';
	(void)snprintf(own, sizeof(own), "%d", (int)getpid());
	return !strcmp(link, own);
}

int dlp_proc_cmdline(const char *root, pid_t pid, char *buf, size_t size, size_t *ret_bytes)
{
	return read_file(root, pid, "cmdline", buf, size, ret_bytes);
}

int dlp_proc_environ(const char *root, pid_t pid, char *buf, size_t size, size_t *ret_bytes)
{
	return read_file(root, pid, "environ", buf, size, ret_bytes);
}

static bool cut_deleted(char *path)
{
	static const char suffix[] = " (deleted)";
	size_t len = strlen(path), suffix_len = sizeof(suffix) - 1;

	if (len <= suffix_len || strcmp(path + len - suffix_len, suffix))
		return false;
	path[len - suffix_len] = '\0';
	return true;
}

int dlp_proc_exe(const char *root, pid_t pid, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;

	if (snprintf(path, sizeof(path), "%s/proc/%d/exe", root, (int)pid) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	len = readlink(path, buf, size - 1);
	if (len < 0)
		return gone(errno);
	buf[len] = '\0';
	(void)cut_deleted(buf);
	return 0;
}

int dlp_proc_read_bytes(const char *root, pid_t pid, uint64_t *ret)
{
	char text[1024];
	const char *value;
	size_t bytes;
	int err;

	err = read_file(root, pid, "io", text, sizeof(text), &bytes);
	if (err)
		return err;
	value = status_value(text, "read_bytes");
	if (!value)
		return -EBADMSG;
	*ret = strtoull(value, NULL, 10);
	return 0;
}

int dlp_proc_container(const char *root, pid_t pid, char *buf, size_t size)
{
	char text[SMALL_FILE_BYTES];
	size_t bytes, run = 0;
	int err;

	buf[0] = '\0';
	err = read_file(root, pid, "cgroup", text, sizeof(text), &bytes);
	if (err)
		return err;
	/*
	 * docker, containerd, CRI-O and podman all put the 64 hexadecimal digits of the id into
	 * a component of the path: alone, or as docker-ID.scope, cri-containerd-ID.scope and the
	 * like. The last one is the innermost.
	 */
	for (size_t i = 0; i <= bytes; i++) {
		if (isdigit((unsigned char)text[i]) || (text[i] >= 'a' && text[i] <= 'f')) {
			run++;
			continue;
		}
		if (run == 64 && !isalnum((unsigned char)text[i]) && size > 64 && i > 64 &&
		    !isalnum((unsigned char)text[i - 65])) {
			memcpy(buf, text + i - 64, 64);
			buf[64] = '\0';
		}
		run = 0;
	}
	return 0;
}

uint64_t dlp_proc_born_ns(uint64_t start_ticks)
{
	struct timespec boot, mono;
	uint64_t born = ticks_to_ns(start_ticks), asleep;

	/* the clocks differ by the time the machine was suspended; neither call can fail */
	(void)clock_gettime(CLOCK_MONOTONIC, &mono);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	asleep = (uint64_t)boot.tv_sec * DLP_NS_PER_S + (uint64_t)boot.tv_nsec -
		 ((uint64_t)mono.tv_sec * DLP_NS_PER_S + (uint64_t)mono.tv_nsec);
	return born > asleep ? born - asleep : 0;
}

/* Grows an array by doubling; 0 or -ENOMEM, and -ENOSPC at max. */
static int reserve(void *array, size_t item_bytes, size_t cnt, size_t max)
{
	void **at = array;
	void *more;

	if (cnt >= max)
		return -ENOSPC;
	/* full exactly at the powers of two from 64 on */
	if (cnt && (cnt < 64 || (cnt & (cnt - 1))))
		return 0;
	more = reallocarray(*at, cnt ? cnt * 2 : 64, item_bytes);
	if (!more)
		return -ENOMEM;
	*at = more;
	return 0;
}

static int add_map(struct dlp_proc_maps *maps, struct dlp_proc_map *map, const char *path)
{
	int err;

	/* a library's mappings follow one another: its path is kept once */
	if (!maps->path_cnt || strcmp(maps->path[maps->path_cnt - 1], path)) {
		err = reserve(&maps->path, sizeof(*maps->path), maps->path_cnt, MAPS_MAX);
		if (err)
			return err;
		maps->path[maps->path_cnt] = strdup(path);
		if (!maps->path[maps->path_cnt])
			return -ENOMEM;
		maps->path_cnt++;
	}
	map->path = maps->path[maps->path_cnt - 1];
	err = reserve(&maps->map, sizeof(*maps->map), maps->cnt, MAPS_MAX);
	if (err)
		return err;
	maps->map[maps->cnt++] = *map;
	return 0;
}

static int add_maps_line(struct dlp_proc_maps *maps, char *line)
{
	struct dlp_proc_map map = { 0 };
	char perms[5];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n",
		   &map.start, &map.end, perms, &map.offset, &map.dev_major, &map.dev_minor,
		   &map.inode, &at) < 7)
		return -EBADMSG;
	if (line[at] != '/' || !map.inode)
		return 0;
	map.is_exec = perms[2] == 'x';
	map.is_deleted = cut_deleted(line + at);
	return add_map(maps, &map, line + at);
}

int dlp_proc_maps_read(const char *root, pid_t pid, struct dlp_proc_maps *ret)
{
	_cleanup_maps_ struct dlp_proc_maps maps = { 0 };
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	int fd = open_proc(root, pid, "maps");
	int err;

	if (fd < 0)
		return fd;
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	line = malloc(MAPS_LINE_BYTES);
	if (!line)
		return -ENOMEM;
	errno = 0;
	while (fgets(line, MAPS_LINE_BYTES, file)) {
		err = add_maps_line(&maps, line);
		if (err == -ENOSPC)
			break;
		if (err)
			return err;
	}
	if (ferror(file))
		return gone(errno);
	*ret = maps;
	maps = (struct dlp_proc_maps){ 0 };
	return 0;
}

void dlp_proc_maps_fini(struct dlp_proc_maps *maps)
{
	for (size_t i = 0; i < maps->path_cnt; i++)
		free(maps->path[i]);
	free(maps->path);
	free(maps->map);
	*maps = (struct dlp_proc_maps){ 0 };
}

struct parent {
	pid_t pid, ppid;
};

static int read_parents(const char *root, struct parent **ret, size_t *ret_cnt)
{
	_cleanup_free_ struct parent *list = NULL;
	char path[PATH_MAX];
	struct dirent *entry;
	size_t cnt = 0;
	int err = 0;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/proc", root) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		struct dlp_proc_stat stat;
		uint64_t pid;

		if (dlp_parse_u64(entry->d_name, &pid) || pid > INT_MAX)
			continue;
		/* gone meanwhile, or hidden from us: not a descendant we can follow */
		if (dlp_proc_stat(root, (pid_t)pid, &stat))
			continue;
		err = reserve(&list, sizeof(*list), cnt, PROCESSES_MAX);
		if (!err)
			list[cnt++] = (struct parent){ (pid_t)pid, stat.ppid };
	}
	closedir(dir);
	if (err)
		return err;
	*ret = list;
	list = NULL;
	*ret_cnt = cnt;
	return 0;
}

static int by_parent(const void *left, const void *right)
{
	const struct parent *a = left, *b = right;

	if (a->ppid != b->ppid)
		return a->ppid < b->ppid ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* First of the sorted list whose parent is not before ppid. */
static size_t first_child(const struct parent *list, size_t cnt, pid_t ppid)
{
	size_t low = 0, high = cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list[mid].ppid < ppid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int dlp_proc_descendants(const char *root, pid_t pid, pid_t *ret, size_t max, size_t *ret_cnt)
{
	_cleanup_free_ struct parent *list = NULL;
	size_t list_cnt = 0, cnt = 0, done = 0;
	int err;

	*ret_cnt = 0;
	err = read_parents(root, &list, &list_cnt);
	if (err)
		return err;
	if (list_cnt)
		qsort(list, list_cnt, sizeof(*list), by_parent);
	/*
	 * The list is no snapshot: a reused pid could close a circle. Each process is in it once,
	 * has one parent, and so is added once; pid itself is left out.
	 */
	for (pid_t at = pid;; at = ret[done++]) {
		for (size_t i = first_child(list, list_cnt, at); i < list_cnt && list[i].ppid == at;
		     i++) {
			if (list[i].pid == pid)
				continue;
			if (cnt == max) {
				*ret_cnt = cnt;
				return -ENOSPC;
			}
			ret[cnt++] = list[i].pid;
		}
		if (done == cnt)
			break;
	}
	*ret_cnt = cnt;
	return 0;
}

/* Appends the pids of a list parted by blanks; false when they are more than `max`. */
static bool append_pids(const char *text, pid_t *ret, size_t max, size_t *cnt)
{
	char *end;

	for (;; text = end) {
		long pid = strtol(text, &end, 10);

		if (end == text || pid <= 0)
			return true;
		if (*cnt == max)
			return false;
		ret[(*cnt)++] = (pid_t)pid;
	}
}

/* Children belong to the thread that started them. -EOPNOTSUPP: the kernel has no such lists. */
static int append_children(const char *root, pid_t pid, pid_t *ret, size_t max, size_t *cnt)
{
	char path[PATH_MAX], text[SMALL_FILE_BYTES];
	struct dirent *entry;
	int err = 0;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/proc/%d/task", root, (int)pid) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	if (!dir)
		return gone(errno);
	while (!err && (entry = readdir(dir))) {
		char file[64];
		size_t bytes = 0;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		(void)snprintf(file, sizeof(file), "task/%.20s/children", entry->d_name);
		err = read_file(root, pid, file, text, sizeof(text), &bytes);
		if (err == -ESRCH) {
			/* the thread has ended, or there is no such file at all */
			err = (pid_t)strtol(entry->d_name, NULL, 10) == pid ? -EOPNOTSUPP : 0;
			continue;
		}
		/* a list that was cut ends in the middle of a number */
		if (!err && bytes == sizeof(text) - 1 && strrchr(text, ' '))
			*strrchr(text, ' ') = '\0';
		if (!err && !append_pids(text, ret, max, cnt))
			err = -ENOSPC;
	}
	closedir(dir);
	return err;
}

int dlp_proc_family(const char *root, pid_t pid, pid_t *ret, size_t max, size_t *ret_cnt)
{
	size_t cnt = 0, done = 0;

	for (pid_t at = pid;; at = ret[done++]) {
		int err = append_children(root, at, ret, max, &cnt);

		if (err == -EOPNOTSUPP || (err && at == pid && err != -ENOSPC))
			return dlp_proc_descendants(root, pid, ret, max, ret_cnt);
		if (err == -ENOSPC) {
			*ret_cnt = cnt;
			return err;
		}
		/* one that has gone meanwhile has no children any more */
		if (done == cnt)
			break;
	}
	*ret_cnt = cnt;
	return 0;
}
