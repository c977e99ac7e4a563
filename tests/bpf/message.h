/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queue messages as multiprocessing writes them: 4 bytes of big-endian length, then a pickle. */
#ifndef BT_MESSAGE_H
#define BT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define BT_LENGTH_WORD 4

/*
 * The pickle of (index, [...]) padded to `bytes` (at least 16), as protocol 4 has it: PROTO,
 * FRAME and its length, BININT1, EMPTY_LIST. Returns bytes.
 */
size_t bt_pickle(uint8_t *buf, uint8_t index, size_t bytes);
void bt_length_word(uint8_t *buf, uint32_t bytes);
/* A whole framed message in buf; returns its bytes, the length word included. */
size_t bt_message(uint8_t *buf, uint8_t index, size_t pickle_bytes);

/* _Py_write(): the probe point, then a write() of it all. */
void bt_send(int fd, const void *buf, size_t n);
/* read() of exactly n bytes, by as many calls as it takes. */
void bt_read(int fd, void *buf, size_t n);

#endif /* BT_MESSAGE_H */
