/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads, writes and opens that fail on purpose, in programs that are linked with --wrap for them
 * (IO_WRAP in the Makefile). Streams that fdopen() makes go through them as well.
 */
#ifndef FAULTY_IO_H
#define FAULTY_IO_H

#include <stdbool.h>
#include <stddef.h>

enum faulty_how {
	FAULTY_ONCE,   /* the n-th call fails */
	FAULTY_ON,     /* it and all after it, as on a full disk */
	FAULTY_PIECES, /* none fails: every other call is interrupted, the others do a part */
};

enum {
	FAULTY_READS = 1u << 0,
	FAULTY_WRITES = 1u << 1, /* and what changes or syncs a file */
	FAULTY_OPENS = 1u << 2,
};

struct faulty {
	enum faulty_how how;
	unsigned int which; /* FAULTY_READS and so on */
	size_t n;	    /* 1 = the first; 0 = none */
	int error;	    /* errno */
};

void faulty_begin(const struct faulty *faulty);
/* Calls of these kinds since then. *ret_hit: one of them has failed. */
size_t faulty_end(bool *ret_hit);

/*
 * Runs `operation` with the n-th call failing, in every way, for n from 1 on until there are no so
 * many (after the first ten in growing steps), and once in pieces; there must be at least `least`
 * calls. Each time `check` is given what it has returned and whether something has failed.
 */
void faulty_each(unsigned int which, int error, size_t least, int (*operation)(void),
		 void (*check)(int result, bool failed));
/* The same, in pieces only. */
void faulty_pieces(unsigned int which, int (*operation)(void),
		   void (*check)(int result, bool failed));

/* The number the next opened file will have: what is left open changes it. */
int faulty_free_fd(void);

/* stderr into a file in memory, until the text (static, at most 4095 bytes) is asked for. */
void faulty_hear(void);
const char *faulty_heard(void);

#endif /* FAULTY_IO_H */
