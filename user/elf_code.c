/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_code.h"

#include <errno.h>
#include <string.h>

#include "util.h"

/*
 * .eh_frame_hdr as every linker writes it (LSB, "Exception Frames"): version 1, then the encodings
 * of the pointer to .eh_frame, of the count (udata4) and of the table (datarel | sdata4).
 */
#define HDR_VERSION 1
#define HDR_COUNT_ENC 0x03
#define HDR_TABLE_ENC 0x3b

/* A Python with all its modules built in has 20,000, libtorch_cpu 200,000. */
#define STARTS_MAX (1u << 20)

struct hdr {
	uint8_t version, frame_enc, count_enc, table_enc;
	int32_t frame;
	uint32_t cnt;
};

struct hdr_entry {
	int32_t start, fde; /* both relative to the section's own address */
};

static const Elf64_Phdr *find_hdr(const struct dlp_elf *elf)
{
	for (size_t i = 0; i < elf->phdr_cnt; i++) {
		if (elf->phdr[i].p_type == PT_GNU_EH_FRAME)
			return &elf->phdr[i];
	}
	return NULL;
}

/* The table says it is sorted (it is searched by halving): one that is not is damaged. */
static int read_table(const struct dlp_elf *elf, const Elf64_Phdr *phdr, uint32_t total,
		      uint64_t *ret)
{
	struct hdr_entry chunk[512];
	uint64_t off = phdr->p_offset + sizeof(struct hdr);

	for (uint32_t base = 0; base < total;) {
		uint32_t cnt = total - base < DLP_ARRAY_SIZE(chunk) ? total - base :
								      DLP_ARRAY_SIZE(chunk);
		int err;

		err = dlp_elf_read(elf, off + (uint64_t)base * sizeof(*chunk), chunk,
				   cnt * sizeof(*chunk));
		if (err)
			return err;
		for (uint32_t i = 0; i < cnt; i++) {
			uint64_t addr = phdr->p_vaddr + (uint64_t)(int64_t)chunk[i].start;

			if (base + i && addr < ret[base + i - 1])
				return -EBADMSG;
			ret[base + i] = addr;
		}
		base += cnt;
	}
	return 0;
}

int dlp_elf_starts_read(const struct dlp_elf *elf, struct dlp_elf_starts *ret)
{
	const Elf64_Phdr *phdr = find_hdr(elf);
	struct hdr hdr;
	int err;

	*ret = (struct dlp_elf_starts){ 0 };
	if (!phdr)
		return -ENOENT;
	err = dlp_elf_read(elf, phdr->p_offset, &hdr, sizeof(hdr));
	if (err)
		return err;
	if (hdr.version != HDR_VERSION || hdr.count_enc != HDR_COUNT_ENC ||
	    hdr.table_enc != HDR_TABLE_ENC || !hdr.cnt)
		return -ENOENT;
	if (hdr.cnt > STARTS_MAX || !dlp_elf_in_file(elf, phdr->p_offset + sizeof(hdr),
						     (uint64_t)hdr.cnt * sizeof(struct hdr_entry)))
		return -EBADMSG;
	ret->addr = calloc(hdr.cnt, sizeof(*ret->addr));
	if (!ret->addr)
		return -ENOMEM;
	ret->cnt = hdr.cnt;
	err = read_table(elf, phdr, hdr.cnt, ret->addr);
	if (err)
		dlp_elf_starts_fini(ret);
	return err;
}

void dlp_elf_starts_fini(struct dlp_elf_starts *starts)
{
	free(starts->addr);
	*starts = (struct dlp_elf_starts){ 0 };
}

/* Index of the first beginning that is not before `addr`. */
static size_t lower_bound(const struct dlp_elf_starts *starts, uint64_t addr)
{
	size_t from = 0, to = starts->cnt;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (starts->addr[mid] < addr)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

bool dlp_elf_is_start(const struct dlp_elf_starts *starts, uint64_t addr)
{
	size_t at = lower_bound(starts, addr);

	return at < starts->cnt && starts->addr[at] == addr;
}

uint64_t dlp_elf_room(const struct dlp_elf *elf, const struct dlp_elf_starts *starts, uint64_t addr)
{
	const Elf64_Phdr *text = dlp_elf_segment(elf, addr, PF_X);
	size_t next;
	uint64_t left;

	if (!text || !dlp_elf_is_start(starts, addr))
		return 0;
	left = text->p_filesz - (addr - text->p_vaddr);
	next = lower_bound(starts, addr + 1);
	if (next < starts->cnt && starts->addr[next] - addr < left)
		left = starts->addr[next] - addr;
	return left;
}

struct scan {
	const struct dlp_elf_starts *starts;
	uint64_t addr; /* of the code's first byte */
	const uint8_t *code;
	size_t bytes;
	bool fixed; /* the file runs at its own addresses: they stand in the code as they are */
	const struct dlp_elf_question *question;
	dlp_elf_ref_fn fn;
	void *ctx;
};

static void tell(const struct scan *scan, enum dlp_elf_ref ref, uint64_t target)
{
	const struct dlp_elf_starts *starts = scan->starts;

	if (scan->question->own) {
		if (target == scan->addr)
			scan->fn(scan->ctx, ref, target);
		return;
	}
	/* most words of code are no address at all: the search is for the others */
	if (target >= starts->addr[0] && target <= starts->addr[starts->cnt - 1] &&
	    dlp_elf_is_start(starts, target))
		scan->fn(scan->ctx, ref, target);
}

/*
 * mov and cmp from memory, call through memory: OP disp32(REG), with a byte more for %rsp and %r12.
 * `code` is the displacement, behind `before` bytes of code.
 */
static bool is_field(const uint8_t *code, size_t before)
{
	bool plain = before >= 2 && (code[-1] & 0xc0) == 0x80 && (code[-1] & 7) != 4;
	bool longer = before >= 3 && (code[-2] & 0xc7) == 0x84;
	uint8_t op = plain ? code[-2] : longer ? code[-3] : 0;

	return op == 0x8b || op == 0x3b || op == 0x39 || op == 0xff;
}

/* call rel32; lea rel32(%rip),REG; an absolute immediate; a field */
static void scan_x86(const struct scan *scan)
{
	const uint8_t *code = scan->code;

	for (size_t i = 1; i + 4 <= scan->bytes; i++) {
		uint64_t next = scan->addr + i + 4;
		int32_t word;

		memcpy(&word, code + i, sizeof(word));
		if (code[i - 1] == 0xe8) {
			tell(scan, DLP_ELF_CALL, next + (uint64_t)(int64_t)word);
			continue;
		}
		if (scan->fixed)
			tell(scan, DLP_ELF_ADDRESS, (uint32_t)word);
		if (i >= 3 && (code[i - 3] & 0xf8) == 0x48 && code[i - 2] == 0x8d &&
		    (code[i - 1] & 0xc7) == 0x05)
			tell(scan, DLP_ELF_ADDRESS, next + (uint64_t)(int64_t)word);
		if ((uint32_t)word == scan->question->field && is_field(code + i, i))
			scan->fn(scan->ctx, DLP_ELF_FIELD, 0);
	}
}

static uint64_t page_of(uint32_t adrp, uint64_t addr)
{
	int64_t pages = (int64_t)((uint64_t)(adrp >> 5 & 0x7ffff) << 45) >> 43;

	return (addr & ~0xfffull) + ((uint64_t)(pages | (adrp >> 29 & 3)) << 12);
}

/* bl; adrp REG and within a few instructions add from REG; ldr from [REG, #field] */
static void scan_arm64(const struct scan *scan)
{
	uint64_t page[32] = { 0 };

	for (size_t i = 0; i + 4 <= scan->bytes; i += 4) {
		uint64_t addr = scan->addr + i;
		uint32_t insn;

		memcpy(&insn, scan->code + i, sizeof(insn));
		if ((insn & 0xfc000000) == 0x94000000)
			tell(scan, DLP_ELF_CALL,
			     addr + (uint64_t)((int64_t)((uint64_t)insn << 38) >> 36));
		else if ((insn & 0x9f000000) == 0x90000000)
			page[insn & 31] = page_of(insn, addr);
		else if ((insn & 0xffc00000) == 0x91000000 && page[insn >> 5 & 31])
			tell(scan, DLP_ELF_ADDRESS, page[insn >> 5 & 31] + (insn >> 10 & 0xfff));
		else if ((insn & 0xffc00000) == 0xf9400000 &&
			 (insn >> 10 & 0xfff) * 8 == scan->question->field)
			scan->fn(scan->ctx, DLP_ELF_FIELD, 0);
	}
}

int dlp_elf_refs(const struct dlp_elf *elf, const struct dlp_elf_starts *starts, uint64_t addr,
		 const struct dlp_elf_question *question, dlp_elf_ref_fn fn, void *ctx)
{
	struct scan scan = {
		.starts = starts,
		.addr = addr,
		.fixed = elf->type == ET_EXEC,
		.question = question,
		.fn = fn,
		.ctx = ctx,
	};
	_cleanup_free_ uint8_t *code = NULL;
	uint64_t room = dlp_elf_room(elf, starts, addr);
	int err;

	if (!room)
		return -ENOENT;
	if (room > question->bytes_max)
		return -EFBIG;
	code = malloc(room);
	if (!code)
		return -ENOMEM;
	err = dlp_elf_read_addr(elf, addr, code, room);
	if (err)
		return err;
	scan.code = code;
	scan.bytes = room;
	if (elf->machine == EM_AARCH64)
		scan_arm64(&scan);
	else
		scan_x86(&scan);
	return 0;
}
