/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "points.h"

size_t bt_pickle(uint8_t *buf, uint8_t index, size_t bytes)
{
	uint64_t frame = bytes - 11;

	memset(buf, 0x4e, bytes); /* NONE */
	buf[0] = 0x80;
	buf[1] = 4;
	buf[2] = 0x95;
	memcpy(buf + 3, &frame, sizeof(frame));
	buf[11] = 0x4b;
	buf[12] = index;
	buf[13] = 0x5d;
	buf[bytes - 1] = 0x2e;
	return bytes;
}

void bt_length_word(uint8_t *buf, uint32_t bytes)
{
	buf[0] = (uint8_t)(bytes >> 24);
	buf[1] = (uint8_t)(bytes >> 16);
	buf[2] = (uint8_t)(bytes >> 8);
	buf[3] = (uint8_t)bytes;
}

size_t bt_message(uint8_t *buf, uint8_t index, size_t pickle_bytes)
{
	bt_length_word(buf, (uint32_t)pickle_bytes);
	return BT_LENGTH_WORD + bt_pickle(buf + BT_LENGTH_WORD, index, pickle_bytes);
}

void bt_send(int fd, const void *buf, size_t n)
{
	bt_point_send(fd, buf, n);
	if (write(fd, buf, n) != (ssize_t)n) {
		perror("write");
		abort();
	}
}

void bt_read(int fd, void *buf, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t part = read(fd, (char *)buf + got, n - got);

		if (part <= 0) {
			perror("read");
			abort();
		}
		got += (size_t)part;
	}
}
