/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where in a function the probe goes; bytes as compilers emit them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "insn.h"
#include "util.h"

#define X86 EM_X86_64
#define ENDBR "\xf3\x0f\x1e\xfa"
#define MOVABS "\x48\xb8\xff\xff\xff\xff\xff\xff\xff\x7f"

static void entries(void **state)
{
	static const struct {
		const char *code;
		size_t bytes, skip;
		uint8_t insn;
		bool slow;
	} cases[] = {
		/* push %rbx; push %r14; nop; 66 nop; long nop */
		{ "\x53\x90", 2, 0, 0x53, false },
		{ "\x41\x56\x90", 3, 0, 0x41, false },
		{ "\x90\x90", 2, 0, 0x90, false },
		{ "\x66\x90", 2, 0, 0x66, false },
		{ "\x0f\x1f\x44\x00\x00", 5, 0, 0x0f, false },
		/* behind endbr64 */
		{ ENDBR "\x55\x90", 6, 4, 0x55, false },
		{ ENDBR "\x48\x8b\x3f", 7, 4, 0x48, true },
		/* _Py_write: movabs $0x7fffffffffffffff,%rax; push %r15 */
		{ MOVABS "\x41\x57", 12, 10, 0x41, false },
		{ ENDBR MOVABS "\x41\x57", 16, 14, 0x41, false },
		/* movabs, but no push behind it: stay at the entry */
		{ MOVABS "\x48\x89\xe5", 13, 0, 0x48, true },
		{ ENDBR MOVABS "\xc3", 15, 4, 0x48, true },
		{ MOVABS, 10, 0, 0x48, true },
		/* movabs into an argument register is no movabs into rax */
		{ "\x48\xbf\xff\xff\xff\xff\xff\xff\xff\x7f\x55", 11, 0, 0x48, true },
		/* mov (%rdi),%rdi; sub $8,%rsp; cmp; pop is no push; inc (41 fe) is no push */
		{ "\x48\x8b\x3f", 3, 0, 0x48, true },
		{ "\x48\x83\xec\x08", 4, 0, 0x48, true },
		{ "\x80\x7f\x68\x00", 4, 0, 0x80, true },
		{ "\x5b\xc3", 2, 0, 0x5b, true },
		{ "\x41\xfe\xc0", 3, 0, 0x41, true },
	};

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		struct dlp_insn_entry entry = { .skip = 99 };

		assert_int_equal(dlp_insn_entry(X86, (const uint8_t *)cases[i].code, cases[i].bytes,
						&entry),
				 0);
		if (entry.skip != cases[i].skip || entry.insn != cases[i].insn ||
		    entry.slow != cases[i].slow)
			fail_msg("case %zu: +%zu, %02x, slow %d", i, entry.skip, entry.insn,
				 entry.slow);
	}
}

static void no_code_is_no_entry(void **state)
{
	struct dlp_insn_entry entry;

	(void)state;
	assert_int_equal(dlp_insn_entry(X86, (const uint8_t *)"", 0, &entry), -EINVAL);
	assert_int_equal(dlp_insn_entry(X86, (const uint8_t *)ENDBR, 4, &entry), -EINVAL);
	/* the kernel refuses to probe a breakpoint */
	assert_int_equal(dlp_insn_entry(X86, (const uint8_t *)"\xcc\x55", 2, &entry), -EINVAL);
	assert_int_equal(dlp_insn_entry(X86, (const uint8_t *)ENDBR "\xcc", 5, &entry), -EINVAL);
}

static void arm64_entries(void **state)
{
	/* stp x29, x30, [sp, #-32]!; nop */
	static const uint8_t stp[] = { 0xfd, 0x7b, 0xbe, 0xa9 }, nop[] = { 0x1f, 0x20, 0x03, 0xd5 };
	struct dlp_insn_entry entry;

	(void)state;
	assert_int_equal(dlp_insn_entry(EM_AARCH64, stp, 4, &entry), 0);
	assert_int_equal(entry.skip, 0);
	assert_true(entry.slow);
	assert_int_equal(dlp_insn_entry(EM_AARCH64, nop, 4, &entry), 0);
	assert_false(entry.slow);
}

/*
 * The forwarder of libtorch_python 2.13.0+cpu: objdump shows it at 0xb154b0, with its one call,
 * at 0xb154e3, going to 0xb14fc0.
 */
static const uint8_t forwarder[] = {
	0x53, 0x89, 0xd0, 0x48, 0x89, 0xfb, 0x48, 0x8b, 0x56, 0x08, 0x48, 0x8b, 0x3e,
	0x45, 0x0f, 0xb6, 0xc9, 0x48, 0x83, 0xec, 0x08, 0x48, 0x29, 0xfa, 0x8b, 0x74,
	0x24, 0x18, 0x48, 0xc1, 0xfa, 0x04, 0x89, 0x34, 0x24, 0x48, 0x89, 0xfe, 0x48,
	0x89, 0xdf, 0x41, 0x51, 0x4d, 0x89, 0xc1, 0x49, 0x89, 0xc8, 0x89, 0xc1, 0xe8,
	0xd8, 0xfa, 0xff, 0xff, 0x58, 0x48, 0x89, 0xd8, 0x5a, 0x5b, 0xc3,
};

#define CALLS_MAX 2
static uint64_t called[CALLS_MAX];

static int calls_of(const uint8_t *code, size_t bytes)
{
	memset(called, 0, sizeof(called));
	return dlp_insn_calls(X86, code, bytes, 0xb154b0, 0x32a000, 0x1400000, called, CALLS_MAX);
}

static void calls_are_found(void **state)
{
	uint8_t code[sizeof(forwarder)];

	(void)state;
	memcpy(code, forwarder, sizeof(code));
	assert_int_equal(calls_of(code, sizeof(code)), 1);
	assert_int_equal(called[0], 0xb14fc0);
	/* cut inside the call */
	assert_int_equal(calls_of(code, 0x35), 0);
	/* the same function called again is one, another one is two, and then there is no room */
	code[0] = 0xe8;
	memcpy(code + 1, "\x0b\xfb\xff\xff", 4);
	assert_int_equal(calls_of(code, sizeof(code)), 1);
	assert_int_equal(called[0], 0xb14fc0);
	code[1]++;
	assert_int_equal(calls_of(code, sizeof(code)), 2);
	assert_int_equal(called[0], 0xb14fc1);
	assert_int_equal(called[1], 0xb14fc0);
	code[8] = 0xe8;
	memcpy(code + 9, "\x00\xfb\xff\xff", 4);
	assert_int_equal(calls_of(code, sizeof(code)), -E2BIG);
	code[8] = 0x90;
	/* an e8 that is no call points out of the code */
	memcpy(code + 1, "\xff\xff\xff\x7f", 4);
	assert_int_equal(calls_of(code, sizeof(code)), 1);
	/* or into the function itself */
	memcpy(code + 1, "\x01\x00\x00\x00", 4);
	assert_int_equal(calls_of(code, sizeof(code)), 1);
	assert_int_equal(called[0], 0xb14fc0);
	assert_int_equal(dlp_insn_calls(EM_RISCV, code, sizeof(code), 0, 0, 1, called, CALLS_MAX),
			 -ENOTSUP);
}

/* The same in 2.9.1 for arm64: at 0xd2d9f0, with one bl, at 0xd2da28, to 0xd2d7f0. */
static const uint32_t arm64_forwarder[] = {
	0xa9bd7bfd, 0xaa0203ea, 0x2a0103e2, 0x910003fd, 0xf9000bf3, 0xaa0303e9, 0xaa0803f3,
	0x2a0503e6, 0xa9400400, 0x2a0403e5, 0xaa0a03e3, 0xaa0903e4, 0xcb000021, 0x9344fc21,
	0x97ffff72, 0xaa1303e0, 0xf9400bf3, 0xa8c37bfd, 0xd65f03c0,
};

static int arm64_calls_of(const uint32_t *code, size_t bytes)
{
	memset(called, 0, sizeof(called));
	return dlp_insn_calls(EM_AARCH64, (const uint8_t *)code, bytes, 0xd2d9f0, 0x500000,
			      0x1400000, called, CALLS_MAX);
}

static void arm64_calls_are_found(void **state)
{
	uint32_t code[DLP_ARRAY_SIZE(arm64_forwarder)];

	(void)state;
	memcpy(code, arm64_forwarder, sizeof(code));
	assert_int_equal(arm64_calls_of(code, sizeof(code)), 1);
	assert_int_equal(called[0], 0xd2d7f0);
	/* cut inside the call */
	assert_int_equal(arm64_calls_of(code, 58), 0);
	/* bl to another function; to the one before the segment; into itself */
	code[13] = 0x97ffff72;
	assert_int_equal(arm64_calls_of(code, sizeof(code)), 2);
	code[13] = 0x96000000;
	assert_int_equal(arm64_calls_of(code, sizeof(code)), 1);
	code[13] = 0x94000001;
	assert_int_equal(arm64_calls_of(code, sizeof(code)), 1);
	assert_int_equal(called[0], 0xd2d7f0);
}

static bool begins(uint16_t machine, uint32_t insn)
{
	return dlp_insn_is_prologue(machine, (const uint8_t *)&insn, sizeof(insn));
}

static void beginnings_of_functions(void **state)
{
	(void)state;
	assert_true(begins(X86, 0xe5894855));  /* push %rbp; mov %rsp,%rbp */
	assert_false(begins(X86, 0x08ec8348)); /* sub $8,%rsp */
	assert_true(dlp_insn_is_prologue(X86, (const uint8_t *)ENDBR "\x55", 5));
	assert_false(dlp_insn_is_prologue(X86, (const uint8_t *)ENDBR "\xff\x25", 6));
	assert_false(dlp_insn_is_prologue(X86, (const uint8_t *)ENDBR, 4));
	assert_false(begins(X86, 0xaa0225ff));	      /* jmp *0x13daa02(%rip), of the PLT */
	assert_true(begins(EM_AARCH64, 0xa9b17bfd));  /* stp x29, x30, [sp, #-240]! */
	assert_true(begins(EM_AARCH64, 0xd10803ff));  /* sub sp, sp, #0x200 */
	assert_true(begins(EM_AARCH64, 0xd503233f));  /* paciasp */
	assert_true(begins(EM_AARCH64, 0xd503245f));  /* bti c */
	assert_false(begins(EM_AARCH64, 0xb94073e4)); /* ldr w4, [sp, #112] */
	assert_false(begins(EM_AARCH64, 0xd65f03c0)); /* ret */
	assert_false(begins(EM_AARCH64, 0xd503201f)); /* nop, of the padding */
	assert_false(dlp_insn_is_prologue(EM_AARCH64, (const uint8_t *)"\xff\x03\x08", 3));
}

static bool same(const char *file, const char *memory, size_t bytes)
{
	return dlp_insn_same_code(X86, (const uint8_t *)file, (const uint8_t *)memory, bytes);
}

static void traces_of_other_probes_are_tolerated(void **state)
{
	(void)state;
	assert_true(same("\x55\x48\x89\xe5", "\x55\x48\x89\xe5", 4));
	assert_true(same("\x55\x48\x89\xe5", "\xcc\x48\x89\xe5", 4));
	assert_true(same("\x55\x48\x89\xe5", "\x55\xcc\x89\xe5", 4));
	assert_false(same("\x55\x48\x89\xe5", "\x54\x48\x89\xe5", 4));
	assert_false(same("\x55\x48\x89\xe5", "\xe9\x48\x89\xe5", 4));
	/* a 5-byte nop that a newer kernel made a call */
	assert_true(same("\x0f\x1f\x44\x00\x00\x55", "\xe8\x01\x02\x03\x04\x55", 6));
	assert_false(same("\x0f\x1f\x44\x00\x00\x55", "\xe8\x01\x02\x03\x04\x54", 6));
	assert_false(same("\x55\x1f\x44\x00\x00\x55", "\xe8\x01\x02\x03\x04\x55", 6));
	assert_false(dlp_insn_same_code(EM_AARCH64, (const uint8_t *)"\xfd\x7b\xbe\xa9",
					(const uint8_t *)"\xcc\x7b\xbe\xa9", 4));
	assert_true(dlp_insn_same_code(EM_AARCH64, (const uint8_t *)"\xfd\x7b\xbe\xa9",
				       (const uint8_t *)"\xa0\x00\x20\xd4", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries),
		cmocka_unit_test(no_code_is_no_entry),
		cmocka_unit_test(arm64_entries),
		cmocka_unit_test(calls_are_found),
		cmocka_unit_test(arm64_calls_are_found),
		cmocka_unit_test(beginnings_of_functions),
		cmocka_unit_test(traces_of_other_probes_are_tolerated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
