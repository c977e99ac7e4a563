/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions of the test programs for probes to sit on, with the parameters of those in a real
 * job, and the Python objects they are handed. Each is a nop and a return in assembly: no
 * compiler drops, clones or inlines it, and a nop is the cheapest instruction to probe.
 */
#ifndef BT_POINTS_H
#define BT_POINTS_H

#include <stddef.h>
#include <stdint.h>

/* The start of a std::string in both ABIs. */
struct bt_string {
	const char *text;
};

/* What is returned in memory, at a place that the caller passes: how is the machine's own affair. */
struct bt_object {
	uint64_t word[8];
};

/* at::record_function enter and exit, as pair A has them. */
struct bt_object bt_point_enter(const struct bt_string *label);
void bt_point_exit(void);
/* The torch.ops dispatch function: operators, the Symbol, the tuple of arguments... */
struct bt_object bt_point_op(const void *vector, uint32_t symbol, const void *args);
/* ...or with the operators as two words. */
struct bt_object bt_point_op5(const void *first, size_t cnt, uint32_t symbol, const void *args);
/* _Py_write(fd, buf, n) */
void bt_point_send(int fd, const void *buf, size_t n);
/* _pickle.loads(module, args, nargs, kwnames) */
void bt_point_recv(void *module, const void *const *args, size_t nargs, void *kwnames);

/* slot_tp_iternext. */
void bt_point_next(void);
/* sem_open(name, flags, mode, value) */
void bt_point_sem(const char *name, int flags, unsigned int mode, unsigned int value);

/* Offset in the executable's file of the code at that address. */
uint64_t bt_file_offset(const void *code);
/* Absolute path of the running test program. */
const char *bt_self_path(void);

/* A scope with its label as the job's C++ code would call it. */
void bt_enter(const char *label);
void bt_exit(void);

/* PyTupleObject with up to two items: at 24, or behind a hash at 32 (from 3.14 on). */
struct bt_tuple {
	uint64_t refcnt, type, size;
	union {
		const void *item[2];
		struct {
			int64_t hash;
			const void *item[2];
		} hashed;
	};
};

/* Compact ASCII str; data at 48 (up to 3.11) or 40. */
struct bt_str {
	uint64_t refcnt, type, length, hash;
	uint32_t state, rsvd;
	char data[120];
};

struct bt_bytes {
	uint64_t refcnt, type, size, hash;
	uint8_t data[];
};

#define BT_STR_COMPACT_ASCII (3u << 5)

/* Fills a str whose text lies data_off bytes after its start. */
void bt_str_init(struct bt_str *str, const char *text, uint32_t data_off);

#endif /* BT_POINTS_H */
