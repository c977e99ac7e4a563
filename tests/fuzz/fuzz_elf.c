/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libFuzzer target: an ELF file, from its headers to symbols, method tables and code. A file has to
 * be large to have its parts apart, so that an input is the runs of bytes in it: how many zeros
 * before it (2 bytes), its length (2 bytes), the run.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_gc.h"
#include "elf_method.h"
#include "insn.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* More than the files of make_corpus.c need. */
#define ELF_FILE_BYTES (128u << 10)

static uint16_t elf_u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

/* Returns the file's length. */
static size_t elf_unpack(const uint8_t *data, size_t bytes, uint8_t *file)
{
	size_t end = 0;

	memset(file, 0, ELF_FILE_BYTES);
	while (bytes >= 4) {
		size_t skip = elf_u16(data), len = elf_u16(data + 2);

		data += 4;
		bytes -= 4;
		len = len < bytes ? len : bytes;
		if (skip > ELF_FILE_BYTES - end || len > ELF_FILE_BYTES - end - skip)
			break;
		memcpy(file + end + skip, data, len);
		end += skip + len;
		data += len;
		bytes -= len;
	}
	return end;
}

/* What the tool does with a symbol that it has found: looks at the code there. */
static void elf_look_at_code(const struct dlp_elf *elf, const struct dlp_elf_sym *sym)
{
	struct dlp_insn_entry entry;
	uint64_t offset, called[4];
	uint8_t code[64];

	/* a name must end inside, whatever the string table held */
	if (!memchr(sym->name, '\0', sizeof(sym->name)))
		abort();
	if (dlp_elf_addr_to_off(elf, sym->addr, PF_X, &offset) ||
	    dlp_elf_read(elf, offset, code, sizeof(code)))
		return;
	if (!dlp_insn_entry(elf->machine, code, sizeof(code), &entry) && entry.skip >= sizeof(code))
		abort();
	(void)dlp_insn_is_fast(elf->machine, code, sizeof(code));
	if (dlp_insn_calls(elf->machine, code, sizeof(code), sym->addr, 0, UINT64_MAX, called,
			   DLP_ARRAY_SIZE(called)) > (int)DLP_ARRAY_SIZE(called))
		abort();
}

/* What the sampler halves its way through must be in order. */
static void elf_look_for_gc(const struct dlp_elf *elf)
{
	static struct dlp_gc_code code;

	if (dlp_elf_find_gc(elf, &code))
		return;
	if (code.cnt > DLP_GC_RANGES_MAX)
		abort();
	for (uint32_t i = 0; i < code.cnt; i++) {
		if (code.range[i].lo >= code.range[i].hi ||
		    (i && code.range[i].lo <= code.range[i - 1].hi))
			abort();
	}
}

static void elf_look_up(const struct dlp_elf *elf)
{
	static const char *const names[] = { "enter", "loads", "_Py", "" };
	struct dlp_elf_sym sym;
	uint64_t found[4];
	size_t cnt;

	for (unsigned int i = 0; i < 4 * DLP_ARRAY_SIZE(names); i++) {
		const char *name = names[i / 4];

		if (!dlp_elf_find(elf, i & 1 ? DLP_ELF_OBJECT : DLP_ELF_FUNC,
				  i & 2 ? DLP_ELF_PREFIX : DLP_ELF_EXACT, name, &sym))
			elf_look_at_code(elf, &sym);
	}
	if (!dlp_elf_find_pickle_loads(elf, &sym))
		elf_look_at_code(elf, &sym);
	elf_look_for_gc(elf);
	(void)dlp_elf_scan(elf, 0, elf->bytes, "loads", 6, found, DLP_ARRAY_SIZE(found), &cnt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t file[ELF_FILE_BYTES];
	size_t len = elf_unpack(data, bytes, file);
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);
	_cleanup_elf_ struct dlp_elf *elf = NULL;
	char path[64];

	if (fd < 0 || write(fd, file, len) != (ssize_t)len)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!dlp_elf_open(path, &elf))
		elf_look_up(elf);
	return 0;
}
