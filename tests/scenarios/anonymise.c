/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * anonymise IN.dlp OUT.dlp COMMAND: the same events and facts, but nothing that tells on what machine
 * they were recorded: COMMAND instead of the command line, no boot id, no container, the kernel's
 * version without its build, "other" for processes outside the job. A block for each interval.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode.h"
#include "record_code.h"
#include "record_file.h"
#include "replay_file.h"
#include "util.h"

struct copy {
	int fd;
	struct dlp_record_file *file;
	struct dlp_rec_batch batch; /* filled, not yet written */
	struct dlp_rec_device device[DLP_REC_DEVICES_MAX];
	uint32_t device_cnt;
	uint8_t frames[DLP_REC_RAW_MAX] __attribute__((aligned(8)));
};

static struct copy copy;

static void die(const char *what, int err)
{
	(void)fprintf(stderr, "anonymise: %s: %s\n", what, strerror(err));
	exit(1);
}

static int write_at(void *ctx, const void *data, size_t bytes, uint64_t offset)
{
	(void)ctx;
	return pwrite(copy.fd, data, bytes, (off_t)offset) == (ssize_t)bytes ? 0 : -EIO;
}

static int truncate_to(void *ctx, uint64_t bytes)
{
	(void)ctx;
	return ftruncate(copy.fd, (off_t)bytes) ? -errno : 0;
}

static const char *device_name(uint32_t dev, char *buf, size_t size)
{
	for (uint32_t i = 0; i < copy.device_cnt; i++) {
		if (copy.device[i].dev == dev)
			return dlp_sanitise(buf, size, copy.device[i].name,
					    strnlen(copy.device[i].name,
						    sizeof(copy.device[i].name)));
	}
	return NULL;
}

static void start(const struct dlp_rec_header *from, const char *path)
{
	const struct dlp_record_io io = { write_at, truncate_to, NULL };
	struct dlp_rec_header header = *from;
	int err;

	memset(header.boot_id, 0, sizeof(header.boot_id));
	header.kernel[strspn(header.kernel, "0123456789.")] = '\0';
	copy.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (copy.fd < 0)
		die(path, errno);
	err = dlp_record_file_new(&io, &header, 0, device_name, &copy.file);
	if (err)
		die(path, -err);
}

static void flush(void)
{
	int err = copy.batch.items ? dlp_record_file_events(copy.file, &copy.batch) : 0;

	if (err)
		die("cannot be written", -err);
	copy.batch = (struct dlp_rec_batch){ .frames = copy.frames };
}

static void rename_other(void *event)
{
	static const char job[] = "python";
	struct dlp_ev_other *other = event;

	if (strncmp(other->comm, job, strlen(job))) {
		memset(other->comm, 0, sizeof(other->comm));
		memcpy(other->comm, "other", strlen("other"));
	}
}

static void take_events(const struct dlp_rec_view *view)
{
	const uint8_t *at = view->data, *end = at + view->bytes;

	while (at < end) {
		const struct dlp_rec_frame *frame = (const void *)at;
		size_t bytes = dlp_frame_bytes(frame->bytes);
		union dlp_event_room room;
		const struct dlp_ev_hdr *hdr;
		uint8_t *to;

		if (dlp_event_check(frame + 1, frame->bytes, &room, &hdr))
			die("no event that is known", EBADMSG);
		if (copy.batch.bytes + bytes > sizeof(copy.frames))
			flush();
		to = copy.frames + copy.batch.bytes;
		memcpy(to, at, bytes);
		if (hdr->kind == DLP_EV_OTHER && hdr->tgid)
			rename_other(to + sizeof(*frame));
		if (!copy.batch.items++)
			copy.batch.first_ns = hdr->ts_ns;
		copy.batch.last_ns = hdr->ts_ns;
		copy.batch.bytes += bytes;
		at += bytes;
		if (hdr->kind == DLP_EV_WINDOW)
			flush();
	}
}

static void take_info(const struct dlp_rec_view *view, const char *command)
{
	struct dlp_rec_info info = { 0 };
	int err;

	memcpy(&info, view->data, view->bytes < sizeof(info) ? view->bytes : sizeof(info));
	memset(info.container, 0, sizeof(info.container));
	memset(info.cmdline, 0, sizeof(info.cmdline));
	(void)snprintf(info.cmdline, sizeof(info.cmdline), "%s", command);
	flush();
	err = dlp_record_file_info(copy.file, &info);
	if (err)
		die("cannot be written", -err);
}

int main(int argc, char **argv)
{
	struct dlp_replay_file from;
	struct dlp_rec_ending ending;
	struct dlp_rec_view view;
	char error[200];
	int got;

	if (argc != 4 || dlp_replay_file_open(&from, argv[1], error, sizeof(error))) {
		(void)fprintf(stderr, "anonymise: %s\n", argc == 4 ? error : "IN OUT COMMAND");
		return 1;
	}
	start(dlp_reader_header(from.reader), argv[2]);
	copy.batch.frames = copy.frames;
	while ((got = dlp_reader_next(from.reader, &view)) > 0) {
		if (view.kind == DLP_REC_EVENTS) {
			take_events(&view);
		} else if (view.kind == DLP_REC_INFO) {
			take_info(&view, argv[3]);
		} else if (view.kind == DLP_REC_DEVICES) {
			memcpy(copy.device, view.data, view.bytes);
			copy.device_cnt = view.items;
		}
	}
	flush();
	dlp_reader_ending(from.reader, &ending);
	if (got < 0 || ending.how != DLP_REC_END_WHOLE || ending.lost_events)
		die("not whole", EBADMSG);
	got = dlp_record_file_close(copy.file);
	if (got)
		die(argv[2], -got);
	dlp_record_file_free(copy.file);
	dlp_replay_file_close(&from);
	return 0;
}
