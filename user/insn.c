/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "insn.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
/* brk #5, the uprobe breakpoint of arm64 (BRK64_OPCODE_UPROBES), and its nop */
static const uint8_t arm64_brk[] = { 0xa0, 0x00, 0x20, 0xd4 };
static const uint8_t arm64_nop[] = { 0x1f, 0x20, 0x03, 0xd5 };

#define X86_INT3 0xcc
#define X86_CALL_REL32 0xe8
#define X86_CALL_BYTES 5
#define X86_MOVABS_BYTES 10

static bool starts(const uint8_t *code, size_t bytes, const uint8_t *what, size_t what_bytes)
{
	return bytes >= what_bytes && !memcmp(code, what, what_bytes);
}

bool dlp_insn_is_fast(uint16_t machine, const uint8_t *code, size_t bytes)
{
	if (machine == EM_AARCH64)
		return starts(code, bytes, arm64_nop, sizeof(arm64_nop));
	if (machine != EM_X86_64 || !bytes)
		return false;
	if ((code[0] & 0xf8) == 0x50 || code[0] == 0x90)
		return true;
	if (bytes < 2)
		return false;
	return (code[0] == 0x41 && (code[1] & 0xf8) == 0x50) ||
	       (code[0] == 0x66 && code[1] == 0x90) || (code[0] == 0x0f && code[1] == 0x1f);
}

int dlp_insn_entry(uint16_t machine, const uint8_t *code, size_t bytes, struct dlp_insn_entry *ret)
{
	size_t plain = 0, at;

	if (machine == EM_X86_64 && starts(code, bytes, endbr64, sizeof(endbr64)))
		plain = sizeof(endbr64);
	at = plain;
	/*
	 * movabs $imm64,%rax touches no argument register. _Py_write begins with it (it loads
	 * PY_SSIZE_T_MAX); nothing can jump to between it and the push, so the probe still sees
	 * every call.
	 */
	if (machine == EM_X86_64 && at + X86_MOVABS_BYTES < bytes && code[at] == 0x48 &&
	    code[at + 1] == 0xb8)
		at += X86_MOVABS_BYTES;
	if (!dlp_insn_is_fast(machine, code + at, bytes - at))
		at = plain;
	if (at >= bytes || (machine == EM_X86_64 && code[at] == X86_INT3))
		return -EINVAL;
	ret->skip = at;
	ret->insn = code[at];
	ret->slow = !dlp_insn_is_fast(machine, code + at, bytes - at);
	return 0;
}

bool dlp_insn_is_prologue(uint16_t machine, const uint8_t *code, size_t bytes)
{
	uint32_t insn;

	if (machine == EM_X86_64 && starts(code, bytes, endbr64, sizeof(endbr64))) {
		code += sizeof(endbr64);
		bytes -= sizeof(endbr64);
	}
	if (machine != EM_AARCH64)
		return dlp_insn_is_fast(machine, code, bytes);
	if (bytes < sizeof(insn))
		return false;
	memcpy(&insn, code, sizeof(insn));
	/* stp x29, x30, [sp, #-N]!; sub sp, sp, #N; paciasp and bti, which may stand before them */
	return (insn & 0xffc07fff) == 0xa9807bfd || (insn & 0xff8003ff) == 0xd10003ff ||
	       insn == 0xd503233f || (insn & 0xffffff3f) == 0xd503241f;
}

/* The displacement of the call that stands here; false: none does. */
static bool call_at(uint16_t machine, const uint8_t *code, size_t left, int64_t *ret)
{
	int32_t rel;

	if (machine == EM_AARCH64) {
		uint32_t insn;

		if (left < sizeof(insn))
			return false;
		memcpy(&insn, code, sizeof(insn));
		*ret = (int64_t)((uint64_t)insn << 38) >> 36;
		return (insn & 0xfc000000) == 0x94000000; /* bl */
	}
	if (left < X86_CALL_BYTES || code[0] != X86_CALL_REL32)
		return false;
	memcpy(&rel, code + 1, sizeof(rel));
	*ret = (int64_t)rel + X86_CALL_BYTES;
	return true;
}

static bool has(const uint64_t *list, size_t cnt, uint64_t value)
{
	for (size_t i = 0; i < cnt; i++) {
		if (list[i] == value)
			return true;
	}
	return false;
}

int dlp_insn_calls(uint16_t machine, const uint8_t *code, size_t bytes, uint64_t addr, uint64_t lo,
		   uint64_t hi, uint64_t *ret, size_t max)
{
	const size_t step = machine == EM_AARCH64 ? 4 : 1;
	size_t cnt = 0;

	if (machine != EM_X86_64 && machine != EM_AARCH64)
		return -ENOTSUP;
	/*
	 * On x86-64 every e8 byte is tried, not only those at an instruction's start: one inside
	 * another instruction would have to point into the segment by chance.
	 */
	for (size_t i = 0; i < bytes; i += step) {
		uint64_t target;
		int64_t rel;

		if (!call_at(machine, code + i, bytes - i, &rel))
			continue;
		target = addr + i + (uint64_t)rel;
		if (target < lo || target >= hi || (target >= addr && target < addr + bytes) ||
		    has(ret, cnt, target))
			continue;
		if (cnt == max)
			return -E2BIG;
		ret[cnt++] = target;
	}
	return (int)cnt;
}

bool dlp_insn_same_code(uint16_t machine, const uint8_t *file, const uint8_t *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		if (file[i] == memory[i]) {
			i++;
		} else if (machine == EM_X86_64 && memory[i] == X86_INT3) {
			i++;
		} else if (machine == EM_X86_64 && memory[i] == X86_CALL_REL32 &&
			   starts(file + i, bytes - i, nop5, sizeof(nop5))) {
			i += sizeof(nop5);
		} else if (machine == EM_AARCH64 && !(i % 4) &&
			   starts(memory + i, bytes - i, arm64_brk, sizeof(arm64_brk))) {
			i += sizeof(arm64_brk);
		} else {
			return false;
		}
	}
	return true;
}
