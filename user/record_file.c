/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "record_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "dlprof/config.h"
#include "record_check.h"
#include "record_code.h"
#include "util.h"

/* Room for the largest block, written in one go. */
#define BLOCK_MAX (sizeof(struct dlp_rec_block) + DLP_REC_STORED_MAX)

struct dlp_record_file {
	struct dlp_record_io io;
	dlp_device_name_fn device_name;
	struct dlp_encoder *encoder;
	uint32_t slot_cnt, slot_bytes; /* 0: all is kept */
	uint32_t slot;
	uint64_t at; /* where the next block goes: in the slot, or in the file */
	uint64_t number;
	struct dlp_rec_closing closing;
	struct dlp_rec_gap gap; /* not written yet; events 0 = none */
	struct dlp_rec_info info;
	bool info_known;
	struct dlp_rec_device device[DLP_REC_DEVICES_MAX];
	uint32_t device_cnt;
	/* LABEL events seen, as frames: for the begin of slots */
	uint8_t *labels;
	size_t label_bytes;
	uint32_t label_cnt;
	uint8_t *block; /* BLOCK_MAX */
};

#define LABEL_FRAME (sizeof(struct dlp_rec_frame) + sizeof(struct dlp_ev_label))

_Static_assert(DLP_LABELS_MAX * LABEL_FRAME <= DLP_REC_RAW_MAX, "all labels fit one block");
_Static_assert(DLP_REC_MAX_LEAST / DLP_REC_SLOTS > 2 * BLOCK_MAX + 65536,
	       "a slot holds what is repeated and the largest block");
_Static_assert(DLP_REC_MAX_MOST / DLP_REC_SLOTS <= DLP_REC_SLOT_MAX, "a reader takes such slots");

int dlp_record_file_new(const struct dlp_record_io *io, const struct dlp_rec_header *header,
			uint64_t max_bytes, dlp_device_name_fn device_name,
			struct dlp_record_file **ret)
{
	struct dlp_record_file *file = calloc(1, sizeof(*file));
	struct dlp_rec_header head = *header;
	int err;

	if (!file)
		return -ENOMEM;
	file->io = *io;
	file->device_name = device_name;
	if (max_bytes) {
		file->slot_cnt = DLP_REC_SLOTS;
		file->slot_bytes =
			(uint32_t)((max_bytes - sizeof(head)) / DLP_REC_SLOTS & ~7ull);
		file->labels = malloc(DLP_LABELS_MAX * LABEL_FRAME);
	} else {
		file->at = sizeof(head);
	}
	file->block = malloc(BLOCK_MAX);
	err = dlp_encoder_new(&file->encoder);
	if (!err && (!file->block || (max_bytes && !file->labels)))
		err = -ENOMEM;
	if (!err) {
		dlp_record_seal_header(&head, file->slot_cnt, file->slot_bytes);
		err = io->write_at(io->ctx, &head, sizeof(head), 0);
	}
	if (err) {
		dlp_record_file_free(file);
		return err;
	}
	*ret = file;
	return 0;
}

void dlp_record_file_free(struct dlp_record_file *file)
{
	if (!file)
		return;
	dlp_encoder_free(file->encoder);
	free(file->labels);
	free(file->block);
	free(file);
}

static uint64_t offset_of(const struct dlp_record_file *file, uint64_t at)
{
	if (!file->slot_cnt)
		return at;
	return sizeof(struct dlp_rec_header) + (uint64_t)file->slot * file->slot_bytes + at;
}

/* Writes the block whose payload lies in file->block already. */
static int put_block(struct dlp_record_file *file, unsigned int kind, unsigned int flags,
		     size_t stored, size_t raw, uint32_t items)
{
	size_t bytes = (sizeof(struct dlp_rec_block) + stored + 7) & ~(size_t)7;
	struct dlp_rec_block block = {
		.magic = DLP_REC_BLOCK_MAGIC,
		.kind = (uint16_t)kind,
		.flags = (uint16_t)flags,
		.stored_bytes = (uint32_t)stored,
		.raw_bytes = (uint32_t)raw,
		.number = file->number,
		.items = items,
	};
	int err;

	memset(file->block + sizeof(block) + stored, 0, bytes - sizeof(block) - stored);
	block.crc = dlp_record_block_crc(&block, file->block + sizeof(block));
	memcpy(file->block, &block, sizeof(block));
	err = file->io.write_at(file->io.ctx, file->block, bytes, offset_of(file, file->at));
	if (err) {
		/* half a block at the end would look like a cut; best effort, a reader stops there */
		if (!file->slot_cnt)
			(void)file->io.truncate(file->io.ctx, file->at);
		return err;
	}
	file->at += bytes;
	file->number++;
	return 0;
}

static int put_plain(struct dlp_record_file *file, unsigned int kind, unsigned int flags,
		     const void *data, size_t bytes, uint32_t items)
{
	memcpy(file->block + sizeof(struct dlp_rec_block), data, bytes);
	return put_block(file, kind, flags, bytes, bytes, items);
}

static int put_events(struct dlp_record_file *file, unsigned int flags, const void *frames,
		      size_t bytes, uint32_t items)
{
	int stored = dlp_encode(file->encoder, frames, bytes,
				file->block + sizeof(struct dlp_rec_block));

	if (stored < 0)
		return stored;
	return put_block(file, DLP_REC_EVENTS, flags, (size_t)stored, bytes, items);
}

/* What a reader that starts in this slot must know. */
static int put_repeated(struct dlp_record_file *file)
{
	int err = 0;

	if (file->info_known)
		err = put_plain(file, DLP_REC_INFO, DLP_REC_REPEATED, &file->info,
				sizeof(file->info), 1);
	if (!err && file->device_cnt)
		err = put_plain(file, DLP_REC_DEVICES, DLP_REC_REPEATED, file->device,
				file->device_cnt * sizeof(file->device[0]), file->device_cnt);
	if (!err && file->label_cnt)
		err = put_events(file, DLP_REC_REPEATED, file->labels, file->label_bytes,
				 file->label_cnt);
	return err;
}

/*
 * Before any block: goes on to the next slot when this one might not hold it. A slot begun in vain
 * is begun again by the next block; a gap is told as soon as that can be.
 */
static int make_ready(struct dlp_record_file *file)
{
	int err = 0;

	if (file->slot_cnt && file->at + BLOCK_MAX + sizeof(struct dlp_rec_block) +
					      sizeof(file->gap) > file->slot_bytes) {
		file->slot = (file->slot + 1) % file->slot_cnt;
		file->at = 0;
	}
	if (file->slot_cnt && !file->at && file->number) {
		err = put_repeated(file);
		if (err)
			file->at = 0;
	}
	if (!err && file->gap.events) {
		err = put_plain(file, DLP_REC_GAP, 0, &file->gap, sizeof(file->gap), 1);
		if (!err)
			memset(&file->gap, 0, sizeof(file->gap));
	}
	return err;
}

int dlp_record_file_info(struct dlp_record_file *file, const struct dlp_rec_info *info)
{
	int err;

	file->info = *info;
	file->info_known = true;
	err = make_ready(file);
	if (!err)
		err = put_plain(file, DLP_REC_INFO, 0, info, sizeof(*info), 1);
	return err;
}

void dlp_record_file_lost(struct dlp_record_file *file, const struct dlp_rec_gap *gap)
{
	if (!gap->events)
		return;
	if (!file->gap.events)
		file->gap.first_ns = gap->first_ns;
	file->gap.last_ns = gap->last_ns;
	file->gap.events += gap->events;
	file->gap.bytes += gap->bytes;
	file->closing.lost_events += gap->events;
	file->closing.lost_bytes += gap->bytes;
}

static bool device_is_known(const struct dlp_record_file *file, uint32_t dev)
{
	for (uint32_t i = 0; i < file->device_cnt; i++) {
		if (file->device[i].dev == dev)
			return true;
	}
	return false;
}

/* True when it was new; a device without a name is not asked for again either. */
static bool note_device(struct dlp_record_file *file, uint32_t dev)
{
	struct dlp_rec_device *device = &file->device[file->device_cnt];
	const char *name;
	char buf[64];

	if (!dev || file->device_cnt == DLP_REC_DEVICES_MAX || device_is_known(file, dev))
		return false;
	name = file->device_name ? file->device_name(dev, buf, sizeof(buf)) : NULL;
	memset(device, 0, sizeof(*device));
	device->dev = dev;
	if (name)
		memcpy(device->name, name, strnlen(name, sizeof(device->name) - 1));
	file->device_cnt++;
	return true;
}

static void note_label(struct dlp_record_file *file, const struct dlp_rec_frame *frame)
{
	const struct dlp_ev_label *label = (const void *)(frame + 1);

	if (!file->labels || frame->bytes != sizeof(*label))
		return;
	for (uint32_t i = 0; i < file->label_cnt; i++) {
		const struct dlp_ev_label *old =
			(const void *)(file->labels + i * LABEL_FRAME + sizeof(*frame));

		if (old->label == label->label)
			return;
	}
	if (file->label_cnt == DLP_LABELS_MAX)
		return;
	memcpy(file->labels + file->label_bytes, frame, LABEL_FRAME);
	file->label_bytes += LABEL_FRAME;
	file->label_cnt++;
}

/* Devices and labels in these events; true when there are new devices. */
static bool look_through(struct dlp_record_file *file, const struct dlp_rec_batch *batch)
{
	bool found = false;

	for (size_t at = 0; at < batch->bytes;) {
		const struct dlp_rec_frame *frame = (const void *)((const uint8_t *)batch->frames + at);
		const struct dlp_ev_hdr *hdr = (const void *)(frame + 1);

		at += dlp_frame_bytes(frame->bytes);
		if (frame->bytes < sizeof(*hdr))
			continue;
		if (hdr->kind == DLP_EV_BLOCK && frame->bytes >= sizeof(struct dlp_ev_block))
			found |= note_device(file, ((const struct dlp_ev_block *)hdr)->dev);
		else if (hdr->kind == DLP_EV_LABEL)
			note_label(file, frame);
	}
	return found;
}

int dlp_record_file_events(struct dlp_record_file *file, const struct dlp_rec_batch *batch)
{
	bool new_devices = look_through(file, batch);
	int err;

	err = make_ready(file);
	if (!err && new_devices)
		err = put_plain(file, DLP_REC_DEVICES, 0, file->device,
				file->device_cnt * sizeof(file->device[0]), file->device_cnt);
	if (!err)
		err = put_events(file, 0, batch->frames, batch->bytes, batch->items);
	if (err) {
		const struct dlp_rec_gap gap = {
			.events = batch->items,
			.bytes = batch->bytes - batch->items * sizeof(struct dlp_rec_frame),
			.first_ns = batch->first_ns,
			.last_ns = batch->last_ns,
		};

		dlp_record_file_lost(file, &gap);
		return err;
	}
	file->closing.events += batch->items;
	file->closing.end_ns = batch->last_ns;
	return 0;
}

int dlp_record_file_close(struct dlp_record_file *file)
{
	int err = 0;

	/* a full disk has room for the closing all the same, which tells the total */
	if (file->gap.events)
		(void)make_ready(file);
	file->closing.complete = 1;
	file->closing.blocks = file->number;
	file->closing.crc = dlp_record_closing_crc(&file->closing);
	err = file->io.write_at(file->io.ctx, &file->closing, sizeof(file->closing),
				offsetof(struct dlp_rec_header, closing));
	return err;
}
