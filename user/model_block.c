/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The model's block devices, and which processes had them read. */
#include <string.h>

#include "model_priv.h"

static struct dlp_device *device_get(struct dlp_model *model, uint32_t dev, int *err)
{
	struct dlp_device *device;

	*err = 0;
	for (size_t i = 0; i < model->device_cnt; i++) {
		if (model->devices[i].dev == dev)
			return &model->devices[i];
	}
	if (model->device_cnt >= DLP_MODEL_DEVICES_MAX) {
		model->dropped_cnt++;
		return NULL;
	}
	*err = dlp_grow(&model->devices, &model->priv->device_room, model->device_cnt,
			sizeof(*model->devices));
	if (*err)
		return NULL;
	device = &model->devices[model->device_cnt++];
	memset(device, 0, sizeof(*device));
	device->dev = dev;
	return device;
}

static void fold(struct dlp_reader *into, const struct dlp_reader *from)
{
	into->reads += from->reads;
	into->read_bytes += from->read_bytes;
	into->timed += from->timed;
	into->wait_ns += from->wait_ns;
	into->last_ns = dlp_max(into->last_ns, from->last_ns);
}

/*
 * Workers are born every epoch: when all places are taken, the reader that has been silent for
 * longest gives its own up, which most likely is dead.
 */
static struct dlp_reader *reader_get(struct dlp_device *device, uint32_t pid)
{
	struct dlp_reader *oldest = &device->reader[0];

	if (!pid)
		return &device->other_readers;
	for (size_t i = 0; i < device->reader_cnt; i++) {
		struct dlp_reader *reader = &device->reader[i];

		if (reader->pid == pid)
			return reader;
		if (reader->last_ns < oldest->last_ns)
			oldest = reader;
	}
	if (device->reader_cnt < DLP_MODEL_READERS_MAX)
		oldest = &device->reader[device->reader_cnt++];
	else
		fold(&device->other_readers, oldest);
	*oldest = (struct dlp_reader){ .pid = pid };
	return oldest;
}

int dlp_block(struct dlp_model *model, const struct dlp_ev_block *ev)
{
	struct dlp_reader read = { .reads = 1, .read_bytes = ev->bytes, .last_ns = ev->hdr.ts_ns };
	struct dlp_device *device;
	int err;

	if (!dlp_in_window(model, ev->hdr.ts_ns) || ev->op > 1)
		return 0;
	device = device_get(model, ev->dev, &err);
	if (!device)
		return err;
	if (ev->op == 1) {
		device->writes++;
		device->write_bytes += ev->bytes;
		return 0;
	}
	device->reads++;
	device->read_bytes += ev->bytes;
	if (ev->queued_ns) {
		read.timed = 1;
		read.wait_ns = dlp_less(ev->hdr.ts_ns, ev->queued_ns);
		dlp_hist_add(&device->latency, read.wait_ns);
	}
	fold(reader_get(device, ev->hdr.tgid), &read);
	return 0;
}
