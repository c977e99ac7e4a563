/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The few machine instructions that decide where in a function a probe goes. Pure. */
#ifndef DLP_INSN_H
#define DLP_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* endbr64, movabs and the longest instruction looked at behind them fit. */
#define DLP_INSN_ENTRY_BYTES 24
/* Bytes compared between file and memory. */
#define DLP_INSN_CHECK_BYTES 16

struct dlp_insn_entry {
	size_t skip;  /* from the function's first byte to the instruction to probe */
	uint8_t insn; /* that instruction's first byte */
	bool slow;    /* the kernel single-steps it out of line instead of emulating it */
};

/*
 * Where to probe a function so that its arguments are still in their registers and the kernel
 * emulates the probed instruction. `machine` is ELF's e_machine. 0, or -EINVAL: no code given,
 * or a breakpoint, which cannot be probed.
 */
int dlp_insn_entry(uint16_t machine, const uint8_t *code, size_t bytes, struct dlp_insn_entry *ret);

/* Whether the code begins with an instruction the kernel emulates: a push or a nop. */
bool dlp_insn_is_fast(uint16_t machine, const uint8_t *code, size_t bytes);

/*
 * Whether a compiled function that calls others begins like this: by saving registers. Code
 * elsewhere may look the same, so it can only refute.
 */
bool dlp_insn_is_prologue(uint16_t machine, const uint8_t *code, size_t bytes);

/*
 * What a short function at virtual address `addr` may call, each once. Candidates outside [lo, hi)
 * are not calls. Their number, at most `max`; -E2BIG (more) or -ENOTSUP (machine).
 */
int dlp_insn_calls(uint16_t machine, const uint8_t *code, size_t bytes, uint64_t addr, uint64_t lo,
		   uint64_t hi, uint64_t *ret, size_t max);

/*
 * Whether memory shows the same code as the file, but for breakpoints and the call by which
 * newer kernels replace a probed 5-byte nop: traces of other uprobe users.
 */
bool dlp_insn_same_code(uint16_t machine, const uint8_t *file, const uint8_t *memory, size_t bytes);

#endif /* DLP_INSN_H */
