/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "invoker.h"
#include "privileges.h"
#include "record_code.h"
#include "record_info.h"
#include "sysfs.h"
#include "util.h"

/*
 * Blocks that wait for the disk: 16 MB, which is minutes of an ordinary job and a second of the
 * fastest one seen (100,000 events/s).
 */
#define QUEUE_MAX 64
/* A younger block is not written at the end of an interval: larger ones compress better. */
#define BLOCK_AGE_NS (2 * DLP_NS_PER_S)

struct chunk {
	struct chunk *next;
	struct dlp_rec_gap gap; /* dropped right before it */
	struct dlp_rec_batch batch;
	_Alignas(8) uint8_t frames[DLP_REC_RAW_MAX];
};

struct dlp_record {
	/* the event loop's */
	struct chunk *open; /* being filled; NULL = none */
	struct dlp_rec_gap gap;
	/* of both, under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct chunk *first, **last;
	size_t queued;
	uint64_t lost;
	int error; /* the first */
	bool closing, done;
	bool unprivileged; /* the writer is to give up what it may do */
	bool info_new;
	struct dlp_rec_info info;
	/* the writer's */
	pthread_t thread;
	struct dlp_record_file *file;
	int fd; /* -1 = the sink is the caller's */
};

/* ---- the writer ------------------------------------------------------------------------------ */

static int write_at(void *ctx, const void *data, size_t bytes, uint64_t offset)
{
	const struct dlp_record *record = ctx;
	const char *from = data;

	while (bytes) {
		ssize_t done = pwrite(record->fd, from, bytes, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		from += done;
		bytes -= (size_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

static int truncate_at(void *ctx, uint64_t bytes)
{
	const struct dlp_record *record = ctx;

	return ftruncate(record->fd, (off_t)bytes) ? -errno : 0;
}

/* With the lock held. */
static void note_error(struct dlp_record *record, int err, uint64_t lost)
{
	record->lost += lost;
	if (err && !record->error)
		record->error = err;
}

static void write_info(struct dlp_record *record)
{
	struct dlp_rec_info info = record->info;
	int err;

	record->info_new = false;
	pthread_mutex_unlock(&record->lock);
	err = dlp_record_file_info(record->file, &info);
	pthread_mutex_lock(&record->lock);
	note_error(record, err, 0);
	/* it is small and everything depends on it: once more, with the next block */
	if (err && !record->closing)
		record->info_new = true;
}

static void write_chunk(struct dlp_record *record)
{
	struct chunk *chunk = record->first;
	int err;

	pthread_mutex_unlock(&record->lock);
	dlp_record_file_lost(record->file, &chunk->gap);
	err = chunk->batch.items ? dlp_record_file_events(record->file, &chunk->batch) : 0;
	pthread_mutex_lock(&record->lock);
	note_error(record, err, err ? chunk->batch.items : 0);
	record->first = chunk->next;
	if (!record->first)
		record->last = &record->first;
	record->queued--;
	free(chunk);
}

static void *writer(void *ctx)
{
	struct dlp_record *record = ctx;
	int err;

	pthread_mutex_lock(&record->lock);
	for (;;) {
		if (record->unprivileged) {
			/* best effort; an open file is all it needs */
			record->unprivileged = false;
			(void)dlp_privileges_only(0);
		}
		if (record->first) {
			if (record->info_new)
				write_info(record);
			write_chunk(record);
		} else if (record->closing) {
			break;
		} else {
			pthread_cond_wait(&record->changed, &record->lock);
		}
	}
	if (record->info_new)
		write_info(record);
	pthread_mutex_unlock(&record->lock);
	err = dlp_record_file_close(record->file);
	if (record->fd >= 0 && fdatasync(record->fd) && !err)
		err = -errno;
	pthread_mutex_lock(&record->lock);
	note_error(record, err, 0);
	record->done = true;
	pthread_cond_broadcast(&record->changed);
	pthread_mutex_unlock(&record->lock);
	return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int start_thread(struct dlp_record *record)
{
	sigset_t all, before;
	int err;

	/* signals are for the event loop */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&record->thread, NULL, writer, record);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

static void record_free(struct dlp_record *record)
{
	struct chunk *next;

	for (struct chunk *chunk = record->first; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(record->open);
	dlp_record_file_free(record->file);
	dlp_cleanup_close(&record->fd);
	pthread_cond_destroy(&record->changed);
	pthread_mutex_destroy(&record->lock);
	free(record);
}

static struct dlp_record *record_new(int fd)
{
	struct dlp_record *record = calloc(1, sizeof(*record));
	pthread_condattr_t attr;

	if (!record)
		return NULL;
	record->fd = fd;
	record->last = &record->first;
	pthread_mutex_init(&record->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&record->changed, &attr);
	pthread_condattr_destroy(&attr);
	return record;
}

static int record_start(struct dlp_record *record, const struct dlp_record_io *io,
			const struct dlp_rec_header *header, uint64_t max_bytes,
			dlp_device_name_fn device_name)
{
	int err;

	err = dlp_record_file_new(io, header, max_bytes, device_name, &record->file);
	if (!err)
		err = start_thread(record);
	return err;
}

int dlp_record_start(const struct dlp_record_io *io, const struct dlp_rec_header *header,
		     uint64_t max_bytes, dlp_device_name_fn device_name, struct dlp_record **ret)
{
	struct dlp_record *record = record_new(-1);
	int err;

	if (!record)
		return -ENOMEM;
	err = record_start(record, io, header, max_bytes, device_name);
	if (err) {
		record_free(record);
		return err;
	}
	*ret = record;
	return 0;
}

/* Zeros where the kernel does not tell. */
static void read_boot_id(uint8_t *id)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned int value;

	for (int i = 0; file && i < 16; i++) {
		if (fscanf(file, i == 4 || i == 6 || i == 8 || i == 10 ? "-%2x" : "%2x", &value) != 1)
			return;
		id[i] = (uint8_t)value;
	}
}

static void fill_header(struct dlp_rec_header *header, pid_t pid, const char *version)
{
	struct utsname uts;

	memset(header, 0, sizeof(*header));
	header->pid = (uint32_t)pid;
	header->monotonic_ns = dlp_now_ns();
	header->realtime_ns = dlp_realtime_ns();
	read_boot_id(header->boot_id);
	(void)snprintf(header->tool, sizeof(header->tool), "%s", version);
	if (!uname(&uts))
		(void)snprintf(header->kernel, sizeof(header->kernel), "%s", uts.release);
}

/* Positions are written to, and the closing last of all at the begin: not for pipes and the like. */
static int open_regular(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	struct stat st;
	int err = 0;

	/* a file that was there keeps its owner; a pipe without a reader must not keep us waiting */
	if (fd >= 0)
		(void)dlp_invoker_own(fd);
	else if (errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -ESPIPE;
	else if (ftruncate(fd, 0))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int dlp_record_open(const char *path, pid_t pid, const char *version, uint64_t max_bytes,
		    struct dlp_record **ret, char *error, size_t error_size)
{
	struct dlp_record *record = NULL;
	struct dlp_rec_header header;
	char shown[256];
	int fd, err;

	fd = open_regular(path);
	err = fd < 0 ? fd : 0;
	if (!err) {
		record = record_new(fd);
		err = record ? 0 : -ENOMEM;
		if (err)
			close(fd);
	}
	if (!err) {
		const struct dlp_record_io io = { write_at, truncate_at, record };

		fill_header(&header, pid, version);
		err = record_start(record, &io, &header, max_bytes, dlp_sysfs_block_name);
		if (err)
			record_free(record);
	}
	if (err) {
		(void)snprintf(error, error_size, "cannot record to '%s': %s",
			       dlp_sanitise(shown, sizeof(shown), path, strlen(path)),
			       err == -ESPIPE ? "not a regular file" : strerror(-err));
		return err;
	}
	*ret = record;
	return 0;
}

/* ---- the event loop's side ------------------------------------------------------------------- */

void dlp_record_facts(struct dlp_record *record, const struct dlp_summary_facts *facts)
{
	struct dlp_rec_info info;

	dlp_info_pack(facts, &info);
	pthread_mutex_lock(&record->lock);
	if (memcmp(&info, &record->info, sizeof(info))) {
		record->info = info;
		record->info_new = true;
	}
	pthread_mutex_unlock(&record->lock);
}

static void add_gap(struct dlp_rec_gap *gap, uint64_t events, uint64_t bytes, uint64_t first_ns,
		    uint64_t last_ns)
{
	if (!gap->events)
		gap->first_ns = first_ns;
	gap->last_ns = last_ns;
	gap->events += events;
	gap->bytes += bytes;
}

static size_t event_bytes(const struct dlp_rec_batch *batch)
{
	return batch->bytes - batch->items * sizeof(struct dlp_rec_frame);
}

/*
 * Hands the open block over. When too many wait already it is dropped as a whole: a hole in one
 * place is easier to understand than events missing here and there.
 */
static void push(struct dlp_record *record, bool anyway)
{
	struct chunk *chunk = record->open;

	if (!chunk)
		return;
	pthread_mutex_lock(&record->lock);
	if (record->queued >= QUEUE_MAX && !anyway) {
		record->lost += chunk->batch.items;
		pthread_mutex_unlock(&record->lock);
		add_gap(&record->gap, chunk->batch.items, event_bytes(&chunk->batch),
			chunk->batch.first_ns, chunk->batch.last_ns);
		chunk->batch.items = 0;
		chunk->batch.bytes = 0;
		return;
	}
	chunk->gap = record->gap;
	*record->last = chunk;
	record->last = &chunk->next;
	record->queued++;
	pthread_cond_signal(&record->changed);
	pthread_mutex_unlock(&record->lock);
	memset(&record->gap, 0, sizeof(record->gap));
	record->open = NULL;
}

static struct chunk *chunk_new(void)
{
	struct chunk *chunk = malloc(sizeof(*chunk));

	if (!chunk)
		return NULL;
	chunk->next = NULL;
	chunk->batch = (struct dlp_rec_batch){ .frames = chunk->frames };
	return chunk;
}

static void append(struct chunk *chunk, const void *event, size_t bytes, uint64_t ts_ns)
{
	struct dlp_rec_batch *batch = &chunk->batch;
	const struct dlp_rec_frame frame = { .bytes = (uint32_t)bytes };
	uint8_t *to = chunk->frames + batch->bytes;

	memcpy(to, &frame, sizeof(frame));
	memcpy(to + sizeof(frame), event, bytes);
	memset(to + sizeof(frame) + bytes, 0, dlp_frame_bytes(bytes) - sizeof(frame) - bytes);
	if (!batch->items)
		batch->first_ns = ts_ns;
	if (ts_ns > batch->last_ns)
		batch->last_ns = ts_ns;
	batch->bytes += dlp_frame_bytes(bytes);
	batch->items++;
}

void dlp_record_event(struct dlp_record *record, const void *event, size_t bytes)
{
	struct dlp_ev_hdr hdr = { 0 };

	memcpy(&hdr, event, bytes < sizeof(hdr) ? bytes : sizeof(hdr));
	if (record->open && record->open->batch.bytes + dlp_frame_bytes(bytes) > DLP_REC_RAW_MAX)
		push(record, false);
	if (!record->open)
		record->open = chunk_new();
	if (!record->open || bytes > UINT16_MAX) {
		pthread_mutex_lock(&record->lock);
		record->lost++;
		pthread_mutex_unlock(&record->lock);
		add_gap(&record->gap, 1, bytes, hdr.ts_ns, hdr.ts_ns);
		return;
	}
	append(record->open, event, bytes, hdr.ts_ns);
	if (hdr.kind == DLP_EV_WINDOW &&
	    hdr.ts_ns - record->open->batch.first_ns >= BLOCK_AGE_NS)
		push(record, false);
}

void dlp_record_settle(struct dlp_record *record)
{
	pthread_mutex_lock(&record->lock);
	record->unprivileged = true;
	pthread_cond_signal(&record->changed);
	pthread_mutex_unlock(&record->lock);
}

uint64_t dlp_record_lost(struct dlp_record *record)
{
	uint64_t lost;

	pthread_mutex_lock(&record->lock);
	lost = record->lost;
	pthread_mutex_unlock(&record->lock);
	return lost;
}

/* What is left, a gap at the end included; true when the writer has done it all. */
static bool drain(struct dlp_record *record, uint64_t limit_ns)
{
	uint64_t until_ns = dlp_now_ns() + limit_ns;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / DLP_NS_PER_S),
					.tv_nsec = (long)(until_ns % DLP_NS_PER_S) };
	bool done;

	if (!record->open && record->gap.events)
		record->open = chunk_new();
	push(record, true);
	pthread_mutex_lock(&record->lock);
	record->closing = true;
	pthread_cond_broadcast(&record->changed);
	while (!record->done && !pthread_cond_timedwait(&record->changed, &record->lock, &until))
		;
	done = record->done;
	for (const struct chunk *chunk = record->first; chunk && !done; chunk = chunk->next)
		record->lost += chunk->batch.items;
	pthread_mutex_unlock(&record->lock);
	return done;
}

int dlp_record_close(struct dlp_record *record, uint64_t limit_ns, char *error, size_t error_size)
{
	uint64_t lost;
	bool done;
	int err;

	if (!record)
		return 0;
	done = drain(record, limit_ns);
	lost = dlp_record_lost(record);
	err = done ? record->error : -ETIMEDOUT;
	if (!err && lost)
		err = -ENOBUFS;
	if (err)
		(void)snprintf(error, error_size,
			       "the recording lacks %llu events: %s", (unsigned long long)lost,
			       !done ? "the disk does not take them, gave up" :
			       err == -ENOBUFS ? "the disk was too slow" :
						 strerror(-err));
	/* a writer that hangs in the kernel still uses it all: it goes with the process */
	if (done) {
		pthread_join(record->thread, NULL);
		record_free(record);
	}
	return err;
}
