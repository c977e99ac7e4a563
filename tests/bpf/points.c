/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "points.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POINT(name)                                                                                \
	__asm__(".pushsection .text\n"                                                             \
		".globl " #name "\n"                                                               \
		".type " #name ", %function\n" #name ":\n"                                         \
		"\tnop\n"                                                                          \
		"\tret\n"                                                                          \
		".size " #name ", . - " #name "\n"                                                 \
		".popsection\n")

POINT(bt_point_enter);
POINT(bt_point_exit);
POINT(bt_point_op);
POINT(bt_point_op5);
POINT(bt_point_send);
POINT(bt_point_recv);
POINT(bt_point_sem);
POINT(bt_point_next);

struct search {
	uintptr_t addr;
	uint64_t offset;
};

/* The executable comes first; one look is enough. */
static int look(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct search *search = ctx;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && search->addr >= start &&
		    search->addr < start + phdr->p_filesz)
			search->offset = search->addr - start + phdr->p_offset;
	}
	return 1;
}

uint64_t bt_file_offset(const void *code)
{
	struct search search = { .addr = (uintptr_t)code };

	dl_iterate_phdr(look, &search);
	return search.offset;
}

const char *bt_self_path(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	return path;
}

void bt_enter(const char *label)
{
	char text[256];
	struct bt_string string = { .text = text };

	/* as std::string does it: in memory just written, where a literal may not be read in yet */
	snprintf(text, sizeof(text), "%s", label);
	(void)bt_point_enter(&string);
}

void bt_exit(void)
{
	bt_point_exit();
}

void bt_str_init(struct bt_str *str, const char *text, uint32_t data_off)
{
	size_t len = strlen(text);

	memset(str, 0, sizeof(*str));
	str->length = len;
	str->state = BT_STR_COMPACT_ASCII;
	if (data_off + len < sizeof(*str))
		memcpy((char *)str + data_off, text, len + 1);
}
