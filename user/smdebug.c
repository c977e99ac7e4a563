/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "smdebug.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "invoker.h"
#include "trace_out.h"
#include "util.h"

/*
 * The reader wants an event in a file that ends at most three minutes after it, and keeps all
 * events of a file in memory at once.
 */
#define FILE_SPAN_NS (60 * DLP_NS_PER_S)
#define FILE_EVENTS_MAX 50000u
#define NODE "algo-1"

/* The format calls an event's kind a phase and numbers it where others number processes. */
enum phase { GETNEXT, INITIALIZE, WORKER, PHASE_CNT };

static const char *const phase_name[PHASE_CNT] = {
	[GETNEXT] = "DataLoaderIter::GetNext",
	[INITIALIZE] = "DataLoaderIterInitialize",
	[WORKER] = "DataLoaderWorker",
};

struct entry {
	uint64_t end_ns;
	enum phase phase;
	uint32_t at; /* in the history's array of calls, iterators or workers */
};

struct output {
	const struct dlp_history *history;
	int dir; /* framework/pevents, or system/incremental */
	struct entry *entry; /* by end; owned */
	size_t entry_cnt;
	uint32_t *number; /* of each worker in its iterator, from 0, as torch numbers them; owned */
	uint64_t last_us; /* in the newest file's name */
};

/* ---- folders and files ----------------------------------------------------------------------- */

/* A folder in `dir`, made unless it is there; its descriptor or -errno. */
static int open_folder(int dir, const char *name, bool must_be_new)
{
	bool is_new = !mkdirat(dir, name, 0777);
	int fd;

	if (!is_new && (errno != EEXIST || must_be_new))
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
				 (dir == AT_FDCWD ? 0 : O_NOFOLLOW));
	if (fd < 0)
		return -errno;
	if (is_new)
		(void)dlp_invoker_own(fd);
	return fd;
}

/* The file in the folder of this hour of UTC; NULL with errno. */
static FILE *create(int dir, uint64_t realtime_ns, const char *name)
{
	time_t seconds = (time_t)(realtime_ns / DLP_NS_PER_S);
	_cleanup_close_ int hour = -1;
	FILE *file = NULL;
	char text[40];
	struct tm tm;
	int fd;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y%m%d%H", &tm)) {
		errno = EOVERFLOW;
		return NULL;
	}
	hour = open_folder(dir, text, false);
	if (hour < 0) {
		errno = -hour;
		return NULL;
	}
	fd = openat(hour, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd >= 0) {
		(void)dlp_invoker_own(fd);
		file = fdopen(fd, "w");
		if (!file)
			close(fd);
	}
	return file;
}

/* 0 or -errno; the stream is gone. */
static int finish(FILE *file)
{
	bool failed = ferror(file);

	/* fclose tells why only when it is the one to fail */
	if (fclose(file))
		return -errno;
	return failed ? -EIO : 0;
}

/* ---- what happened --------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	if (x->phase != y->phase)
		return x->phase < y->phase ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static bool in_window(const struct dlp_history *history, uint64_t ts_ns)
{
	return ts_ns >= history->start_ns && ts_ns <= history->end_ns;
}

/* The window's end for those that are alive. */
static uint64_t life_end(const struct dlp_history *history, const struct dlp_history_worker *worker)
{
	return worker->died_ns ? worker->died_ns : history->end_ns;
}

static void collect(struct output *output)
{
	const struct dlp_history *history = output->history;
	struct entry *entry = output->entry;

	for (uint32_t i = 0; i < history->call_cnt; i++) {
		if (history->calls[i].flags & DLP_CALL_WINDOW)
			*entry++ = (struct entry){ history->calls[i].end_ns, GETNEXT, i };
	}
	for (uint32_t i = 0; i < history->iterator_cnt; i++) {
		uint64_t end_ns = history->iterators[i].init_end_ns;

		if (end_ns && in_window(history, end_ns))
			*entry++ = (struct entry){ end_ns, INITIALIZE, i };
	}
	for (uint32_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_worker *worker = &history->workers[i];
		uint64_t end_ns = life_end(history, worker);

		if (worker->proven && worker->born_ns && worker->born_ns < end_ns &&
		    in_window(history, end_ns))
			*entry++ = (struct entry){ end_ns, WORKER, i };
	}
	output->entry_cnt = (size_t)(entry - output->entry);
	qsort(output->entry, output->entry_cnt, sizeof(*output->entry), by_end);
}

/* torch forks an iterator's workers in order of their number, and the history has them by birth. */
static int number_workers(struct output *output)
{
	const struct dlp_history *history = output->history;
	_cleanup_free_ uint32_t *next = calloc(history->iterator_cnt + 1, sizeof(*next));

	output->number = calloc(history->worker_cnt + 1, sizeof(*output->number));
	if (!next || !output->number)
		return -ENOMEM;
	for (size_t i = 0; i < history->worker_cnt; i++) {
		const struct dlp_history_iterator *it =
			dlp_history_iterator(history, history->workers[i].iterator);

		if (it)
			output->number[i] = next[it - history->iterators]++;
	}
	return 0;
}

/* Without a known worker the reader's own default, -1. */
static void tell_worker(const struct output *output, struct dlp_trace_out *out,
			const struct dlp_history_worker *worker)
{
	if (worker)
		dlp_trace_arg_count(out, "worker_id",
				    output->number[worker - output->history->workers]);
	else
		dlp_trace_arg_int(out, "worker_id", -1);
}

static void begin(struct dlp_trace_out *out, enum phase phase, const char *name, uint64_t start_ns,
		  uint64_t end_ns)
{
	dlp_trace_begin(out, 'X', name, phase, 0);
	dlp_trace_at(out, start_ns);
	dlp_trace_lasts(out, end_ns > start_ns ? end_ns - start_ns : 0);
}

static void write_call(const struct output *output, struct dlp_trace_out *out,
		       const struct dlp_history_call *call)
{
	const struct dlp_history *history = output->history;

	begin(out, GETNEXT, phase_name[GETNEXT], call->start_ns, call->end_ns);
	dlp_trace_arg_count(out, "pid", history->model->trainer_pid);
	dlp_trace_arg_count(out, "thread_id", call->tid);
	tell_worker(output, out,
		    call->worker_pid ? dlp_history_worker(history, call->worker_pid, call->end_ns) :
				       NULL);
}

static void write_init(const struct output *output, struct dlp_trace_out *out,
		       const struct dlp_history_iterator *it)
{
	const struct dlp_model *model = output->history->model;
	const struct dlp_loader *loader =
		it->loader && it->loader <= model->loader_cnt ? &model->loaders[it->loader - 1] : NULL;
	char name[DLP_TYPE_MAX + 16];

	(void)snprintf(name, sizeof(name), "%s.__init__",
		       loader && *loader->type ? loader->type : "_BaseDataLoaderIter");
	begin(out, INITIALIZE, name, it->init_start_ns, it->init_end_ns);
	dlp_trace_arg_count(out, "pid", model->trainer_pid);
	if (loader && loader->num_workers >= 0)
		dlp_trace_arg_int(out, "num_workers", loader->num_workers);
	if (loader && loader->pin_memory >= 0)
		dlp_trace_arg_bool(out, "pin_memory", loader->pin_memory == 1);
}

static void write_entry(const struct output *output, struct dlp_trace_out *out,
			const struct entry *entry)
{
	const struct dlp_history *history = output->history;
	const struct dlp_history_worker *worker;

	switch (entry->phase) {
	case GETNEXT:
		write_call(output, out, &history->calls[entry->at]);
		break;
	case INITIALIZE:
		write_init(output, out, &history->iterators[entry->at]);
		break;
	default:
		worker = &history->workers[entry->at];
		begin(out, WORKER, phase_name[WORKER], worker->born_ns, life_end(history, worker));
		dlp_trace_arg_count(out, "pid", worker->pid);
		tell_worker(output, out, worker);
		break;
	}
	dlp_trace_end(out);
}

/* Times in the file count from this microsecond of the epoch: the window's start. */
static uint64_t epoch_us(const struct dlp_history *history)
{
	return history->realtime_start_ns / DLP_NS_PER_US;
}

static void write_head(const struct output *output, struct dlp_trace_out *out)
{
	dlp_trace_begin(out, 'M', "process_name", 0, 0);
	dlp_trace_arg_count(out, "start_time_since_epoch_in_micros", epoch_us(output->history));
	dlp_trace_end(out);
	for (uint32_t phase = 0; phase < PHASE_CNT; phase++) {
		dlp_trace_begin(out, 'M', "process_name", phase, 0);
		dlp_trace_arg_text(out, "name", phase_name[phase]);
		dlp_trace_end(out);
	}
}

/* One file, of `entry_cnt` events. 0 or -errno. */
static int write_file(struct output *output, const struct entry *entry, size_t entry_cnt)
{
	const struct dlp_history *history = output->history;
	uint64_t end_ns = dlp_history_realtime(history, entry[entry_cnt - 1].end_ns);
	/* so that time 0 is at a whole microsecond of the epoch */
	struct dlp_trace_out out = {
		.zero_ns = (int64_t)(history->start_ns - history->realtime_start_ns % DLP_NS_PER_US),
	};
	uint64_t end_us = end_ns / DLP_NS_PER_US + 1;
	char name[100];

	/* no two files of one name */
	if (end_us <= output->last_us)
		end_us = output->last_us + 1;
	output->last_us = end_us;
	(void)snprintf(name, sizeof(name), "%" PRIu64 "_%" PRIu32 "-" NODE "_pythontimeline.json",
		       end_us, history->model->trainer_pid);
	out.file = create(output->dir, end_ns, name);
	if (!out.file)
		return -errno;
	fputs("[\n", out.file);
	write_head(output, &out);
	for (size_t i = 0; i < entry_cnt; i++)
		write_entry(output, &out, &entry[i]);
	fputs("\n]\n", out.file);
	return finish(out.file);
}

static int write_framework(struct output *output)
{
	const struct dlp_history *history = output->history;
	size_t first = 0;
	int err;

	output->entry = calloc(history->call_cnt + history->iterator_cnt + history->worker_cnt + 1,
			       sizeof(*output->entry));
	err = output->entry ? number_workers(output) : -ENOMEM;
	if (err)
		return err;
	collect(output);
	for (size_t i = 1; !err && i <= output->entry_cnt; i++) {
		const struct entry *entry = &output->entry[first];

		if (i < output->entry_cnt && i - first < FILE_EVENTS_MAX &&
		    output->entry[i].end_ns - entry->end_ns < FILE_SPAN_NS)
			continue;
		err = write_file(output, entry, i - first);
		first = i;
	}
	return err;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void write_system_event(const struct dlp_history *history, FILE *file, uint64_t ts_ns,
			       const char *type, const char *dimension, double percent)
{
	uint64_t us = dlp_history_realtime(history, ts_ns) / DLP_NS_PER_US;

	fprintf(file,
		"{\"Type\":\"%s\",\"Name\":\"%s\",\"Dimension\":\"%s\",\"Value\":%.3f,"
		"\"NodeId\":\"" NODE "\",\"Timestamp\":%" PRIu64 ".%06" PRIu64 "}\n",
		type, type, dimension, percent, us / 1000000, us % 1000000);
}

static void write_machine(const struct dlp_history *history, FILE *file, size_t at)
{
	const struct dlp_ev_system *now = &history->system[at];
	const struct dlp_ev_system *before = at ? &history->system[at - 1] : NULL;

	if (before && before->known & now->known & DLP_SYS_CPU) {
		double busy = (double)(now->busy_ns - before->busy_ns);
		double all = busy + (double)(now->idle_ns - before->idle_ns);

		if (all > 0 && now->busy_ns >= before->busy_ns && now->idle_ns >= before->idle_ns)
			write_system_event(history, file, now->hdr.ts_ns, "cpu", "CPUUtilization",
					   100 * busy / all);
	}
	if (now->known & DLP_SYS_MEM && now->mem_total)
		write_system_event(history, file, now->hdr.ts_ns, "memory", "MemoryUsedPercent",
				   100 - 100 * (double)now->mem_available / (double)now->mem_total);
}

/* One file a minute; the first one is there even when nothing is known, for its name. */
static int write_system(const struct output *output)
{
	const struct dlp_history *history = output->history;
	uint64_t first_ns = history->start_ns;
	size_t at = 0;
	int err = 0;

	do {
		uint64_t real_ns = dlp_history_realtime(history, first_ns);
		char name[60];
		FILE *file;

		(void)snprintf(name, sizeof(name), "%010" PRIu64 "." NODE ".json",
			       (uint64_t)(real_ns / DLP_NS_PER_S));
		file = create(output->dir, real_ns, name);
		if (!file)
			return -errno;
		for (; at < history->system_cnt; at++) {
			uint64_t ts_ns = history->system[at].hdr.ts_ns;

			if (ts_ns >= first_ns + FILE_SPAN_NS)
				break;
			if (in_window(history, ts_ns))
				write_machine(history, file, at);
		}
		err = finish(file);
		first_ns += FILE_SPAN_NS;
	} while (!err && at < history->system_cnt && first_ns <= history->end_ns);
	return err;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* dir/first/second, of which `first` must be new; its descriptor or -errno. */
static int open_part(int dir, const char *first, const char *second)
{
	_cleanup_close_ int outer = open_folder(dir, first, true);

	return outer < 0 ? outer : open_folder(outer, second, false);
}

static int write_parts(int dir, struct output *output)
{
	int err;

	output->dir = open_part(dir, "system", "incremental");
	if (output->dir < 0)
		return output->dir;
	err = write_system(output);
	close(output->dir);
	if (err)
		return err;
	output->dir = open_part(dir, "framework", "pevents");
	if (output->dir < 0)
		return output->dir;
	err = write_framework(output);
	close(output->dir);
	return err;
}

int dlp_smdebug_write(const char *path, const struct dlp_history *history, char *error,
		      size_t error_size)
{
	struct output output = { .history = history };
	_cleanup_close_ int dir = -1;
	int err;

	if (!history->realtime_start_ns) {
		(void)snprintf(error, error_size, "the time of day is not known");
		return -ENODATA;
	}
	dir = open_folder(AT_FDCWD, path, false);
	err = dir < 0 ? dir : write_parts(dir, &output);
	free(output.entry);
	free(output.number);
	if (err == -EEXIST)
		(void)snprintf(error, error_size, "there is an export already");
	else if (err)
		(void)snprintf(error, error_size, "%s", strerror(-err));
	return err;
}
