/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* File formats: proc(5) and Documentation/accounting/psi.rst. */
#include "sysfacts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#include "cgroup.h"
#include "procfs.h"
#include "smallfile.h"
#include "util.h"

/* vmstat is the longest: some 200 lines of 30 bytes. */
#define TEXT_BYTES 16384
/* NR_CPUS of the largest kernels; CPUs numbered beyond are not counted. */
#define CPUS_MAX 8192

enum file {
	FILE_STAT,
	FILE_MEMINFO,
	FILE_VMSTAT,
	FILE_PSI_CPU,
	FILE_PSI_IO,
	FILE_PSI_MEMORY,
	FILE_ONLINE,
	FILE_MAX,
};

static const char *const names[FILE_MAX] = {
	[FILE_STAT] = "proc/stat",
	[FILE_MEMINFO] = "proc/meminfo",
	[FILE_VMSTAT] = "proc/vmstat",
	[FILE_PSI_CPU] = "proc/pressure/cpu",
	[FILE_PSI_IO] = "proc/pressure/io",
	[FILE_PSI_MEMORY] = "proc/pressure/memory",
	[FILE_ONLINE] = "sys/devices/system/cpu/online",
};

struct cpu_bits {
	uint64_t word[CPUS_MAX / 64];
};

struct dlp_sysfacts {
	const char *root;
	pid_t trainer;
	int fd[FILE_MAX]; /* kept open: reading again gives new figures */
	int status_fd;	  /* /proc/PID/status of the trainer, likewise */
	struct dlp_cgroup *cgroup;
	struct dlp_ev_system last; /* the event before; hdr.size 0 = none */
	char text[TEXT_BYTES];
	uint64_t shm_free; /* as it was last read or told */
};

/* Into facts->text; false when it cannot be read. */
static bool read_text(struct dlp_sysfacts *facts, int fd)
{
	return fd >= 0 && !dlp_smallfile_text(fd, facts->text, sizeof(facts->text));
}

static bool read_cpu(struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	/* user nice system idle iowait irq softirq steal; guests are within user and nice */
	uint64_t ticks[8], tick_ns = dlp_proc_tick_ns();
	const char *at;

	if (!read_text(facts, facts->fd[FILE_STAT]))
		return false;
	at = dlp_smallfile_value(facts->text, "cpu");
	for (size_t i = 0; i < DLP_ARRAY_SIZE(ticks); i++) {
		/* the bound keeps sums in range */
		if (!at || !dlp_smallfile_number(&at, &ticks[i]) ||
		    ticks[i] > UINT64_MAX / 8 / tick_ns)
			return false;
	}
	ret->busy_ns = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * tick_ns;
	ret->idle_ns = (ticks[3] + ticks[4]) * tick_ns;
	ret->steal_ns = ticks[7] * tick_ns;
	return true;
}

/* A line of meminfo, in kB there. */
static bool memory_bytes(const char *text, const char *key, uint64_t *ret)
{
	if (!dlp_smallfile_keyed(text, key, ret) || *ret > UINT64_MAX / 1024)
		return false;
	*ret *= 1024;
	return true;
}

static bool read_memory(struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	uint64_t total, available, swap_total, swap_free;

	if (!read_text(facts, facts->fd[FILE_MEMINFO]) ||
	    !memory_bytes(facts->text, "MemTotal", &total) ||
	    !memory_bytes(facts->text, "MemAvailable", &available) ||
	    !memory_bytes(facts->text, "SwapTotal", &swap_total) ||
	    !memory_bytes(facts->text, "SwapFree", &swap_free))
		return false;
	ret->mem_total = total;
	ret->mem_available = available;
	ret->swap_total = swap_total;
	ret->swap_free = swap_free;
	return true;
}

static bool read_vm(struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	uint64_t scanned, swapped_in, kills;

	/* one line for all zones since 4.8 */
	if (!read_text(facts, facts->fd[FILE_VMSTAT]) ||
	    !dlp_smallfile_keyed(facts->text, "pgscan_direct", &scanned) ||
	    !dlp_smallfile_keyed(facts->text, "oom_kill", &kills))
		return false;
	/* not there in a kernel without swap: then nothing is ever swapped in */
	if (!dlp_smallfile_keyed(facts->text, "pswpin", &swapped_in))
		swapped_in = 0;
	ret->reclaim_pages = scanned;
	ret->swap_in_pages = swapped_in;
	ret->oom_kills = kills;
	return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS" */
static bool read_stalled(struct dlp_sysfacts *facts, enum file file, uint64_t *ret)
{
	const char *some, *at, *end;

	if (!read_text(facts, facts->fd[file]))
		return false;
	some = dlp_smallfile_value(facts->text, "some");
	at = some ? strstr(some, "total=") : NULL;
	end = some ? strchrnul(some, '\n') : NULL;
	if (!at || at > end)
		return false;
	at += strlen("total=");
	return dlp_smallfile_number(&at, ret);
}

static bool read_pressure(struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	uint64_t cpu, io, memory;

	if (!read_stalled(facts, FILE_PSI_CPU, &cpu) || !read_stalled(facts, FILE_PSI_IO, &io) ||
	    !read_stalled(facts, FILE_PSI_MEMORY, &memory))
		return false;
	ret->psi_cpu_us = cpu;
	ret->psi_io_us = io;
	ret->psi_memory_us = memory;
	return true;
}

/* Steps in which it is told that /dev/shm fills up. */
#define SHM_STEPS 32

/* The folder is what the target's shm_open() uses, whatever file system it is on. */
static bool read_shm(const struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	char path[PATH_MAX];
	struct statvfs fs;

	if (snprintf(path, sizeof(path), "%s/proc/%d/root/dev/shm", facts->root,
		     (int)facts->trainer) >= (int)sizeof(path) ||
	    statvfs(path, &fs))
		return false;
	ret->shm_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	ret->shm_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

/* A CPU's number at *at, and *at behind it. */
static bool parse_cpu(const char **at, unsigned long *ret)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*ret = strtoul(*at, &end, 10);
	*at = end;
	return true;
}

/* A list of CPUs like "0-3,12,14-15"; false when the text is none. */
static bool parse_cpus(const char *text, struct cpu_bits *ret)
{
	const char *at = text + strspn(text, " \t");

	memset(ret, 0, sizeof(*ret));
	for (;; at++) {
		unsigned long first, last;

		if (!parse_cpu(&at, &first))
			return false;
		last = first;
		if (*at == '-') {
			at++;
			if (!parse_cpu(&at, &last))
				return false;
		}
		for (unsigned long cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++)
			ret->word[cpu / 64] |= 1ull << cpu % 64;
		if (*at != ',')
			return *at == '\n' || !*at;
	}
}

static uint32_t common_cpus(const struct cpu_bits *a, const struct cpu_bits *b)
{
	uint32_t cnt = 0;

	for (size_t i = 0; i < DLP_ARRAY_SIZE(a->word); i++)
		cnt += (uint32_t)__builtin_popcountll(a->word[i] & b->word[i]);
	return cnt;
}

/* A mask may name CPUs that are not there: by default it holds all that could ever be plugged in. */
static void read_cpus(struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	struct cpu_bits online, allowed;
	const char *list;

	if (!read_text(facts, facts->fd[FILE_ONLINE]) || !parse_cpus(facts->text, &online))
		return;
	ret->cpus = common_cpus(&online, &online);
	if (!read_text(facts, facts->status_fd))
		return;
	list = dlp_smallfile_value(facts->text, "Cpus_allowed_list");
	if (list && parse_cpus(list, &allowed))
		ret->cpus_allowed = common_cpus(&online, &allowed);
}

/* Has the trainer ended, or is it about to? */
static bool is_gone(const struct dlp_sysfacts *facts)
{
	struct dlp_proc_stat stat = { 0 };

	return dlp_proc_stat(facts->root, facts->trainer, &stat) == -ESRCH ||
	       stat.flags & DLP_PF_EXITING;
}

/* The last event of a job would else know less than those before, and no difference be left. */
static void keep_last(const struct dlp_sysfacts *facts, struct dlp_ev_system *ret)
{
	const struct dlp_ev_system *last = &facts->last;
	uint32_t lost = last->known & ~ret->known &
			(DLP_SYS_QUOTA | DLP_SYS_GROUPMEM | DLP_SYS_SHM);
	bool lost_cpus = last->cpus_allowed && !ret->cpus_allowed;

	if ((!lost && !lost_cpus) || !is_gone(facts))
		return;
	if (lost_cpus)
		ret->cpus_allowed = last->cpus_allowed;
	if (lost & DLP_SYS_QUOTA) {
		ret->quota_us = last->quota_us;
		ret->period_us = last->period_us;
		ret->periods = last->periods;
		ret->throttled_periods = last->throttled_periods;
		ret->throttled_ns = last->throttled_ns;
	}
	if (lost & DLP_SYS_GROUPMEM) {
		ret->group_limit = last->group_limit;
		ret->group_used = last->group_used;
	}
	if (lost & DLP_SYS_SHM) {
		ret->shm_total = last->shm_total;
		ret->shm_free = last->shm_free;
	}
	ret->known |= lost;
}

static int open_file(const char *root, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", root, name) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

int dlp_sysfacts_new(const char *root, pid_t trainer, struct dlp_sysfacts **ret)
{
	struct dlp_sysfacts *facts;
	char status[32];
	int err;

	facts = calloc(1, sizeof(*facts));
	if (!facts)
		return -ENOMEM;
	err = dlp_cgroup_new(root, trainer, &facts->cgroup);
	if (err) {
		free(facts);
		return err;
	}
	facts->root = root;
	facts->trainer = trainer;
	for (unsigned int i = 0; i < FILE_MAX; i++)
		facts->fd[i] = open_file(root, names[i]);
	(void)snprintf(status, sizeof(status), "proc/%d/status", (int)trainer);
	facts->status_fd = open_file(root, status);
	*ret = facts;
	return 0;
}

void dlp_sysfacts_free(struct dlp_sysfacts *facts)
{
	if (!facts)
		return;
	for (unsigned int i = 0; i < FILE_MAX; i++)
		dlp_cleanup_close(&facts->fd[i]);
	dlp_cleanup_close(&facts->status_fd);
	dlp_cgroup_free(facts->cgroup);
	free(facts);
}

bool dlp_sysfacts_shm_falls(struct dlp_sysfacts *facts)
{
	struct dlp_ev_system now;
	uint64_t step;

	if (!read_shm(facts, &now))
		return false;
	step = now.shm_total / SHM_STEPS;
	if (now.shm_free > now.shm_total / 2 || now.shm_free + step > facts->shm_free) {
		if (now.shm_free > facts->shm_free)
			facts->shm_free = now.shm_free;
		return false;
	}
	facts->shm_free = now.shm_free;
	return true;
}

void dlp_sysfacts_read(struct dlp_sysfacts *facts, uint64_t now_ns, struct dlp_ev_system *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->hdr.size = sizeof(*ret);
	ret->hdr.kind = DLP_EV_SYSTEM;
	ret->hdr.ts_ns = now_ns;
	ret->hdr.tgid = (uint32_t)facts->trainer;
	ret->hdr.tid = (uint32_t)facts->trainer;
	dlp_cgroup_read(facts->cgroup, ret);
	read_cpus(facts, ret);
	ret->known |= read_cpu(facts, ret) ? DLP_SYS_CPU : 0;
	ret->known |= read_memory(facts, ret) ? DLP_SYS_MEM : 0;
	ret->known |= read_vm(facts, ret) ? DLP_SYS_VM : 0;
	ret->known |= read_pressure(facts, ret) ? DLP_SYS_PSI : 0;
	ret->known |= read_shm(facts, ret) ? DLP_SYS_SHM : 0;
	if (ret->known & DLP_SYS_SHM)
		facts->shm_free = ret->shm_free;
	keep_last(facts, ret);
	facts->last = *ret;
}
