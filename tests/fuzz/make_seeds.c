/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "make_corpus.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/elf_build.h"
#include "../unit/record_make.h"
#include "dlprof/event.h"
#include "util.h"

/* ---- ELF files, as runs: see fuzz_elf.c ---------------------------------------------------- */

/* So many zeros end a run: as many bytes as the head of the next one takes. */
#define GAP 4

static void put_u16(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static size_t zeros_at(const uint8_t *data, size_t bytes)
{
	size_t cnt = 0;

	while (cnt < bytes && !data[cnt])
		cnt++;
	return cnt;
}

static void save_elf(const char *name, struct elf_build *build)
{
	_cleanup_free_ uint8_t *out = NULL;
	size_t at = 0, used = 0;

	elf_build(build);
	/* a run is never longer with its head than what it stands for, but for the first */
	out = malloc(2 * build->len + GAP);
	if (!out)
		abort();
	while (at < build->len) {
		size_t skip = zeros_at(build->bytes + at, build->len - at), len = 0;

		while (at + skip + len < build->len &&
		       zeros_at(build->bytes + at + skip + len, build->len - at - skip - len) < GAP)
			len++;
		put_u16(out + used, skip);
		put_u16(out + used + 2, len);
		memcpy(out + used + 4, build->bytes + at + skip, len);
		used += 4 + len;
		at += skip + len;
	}
	corpus_save("elf", name, out, used);
	elf_build_fini(build);
}

#define FUNCTION(sym_name, sym_off, dynamic)                                                       \
	{                                                                                          \
		.name = sym_name, .where = ELF_IN_TEXT, .off = sym_off, .size = 0x40,              \
		.bind = STB_GLOBAL, .type = STT_FUNC, .is_dynamic = dynamic                        \
	}

static const struct elf_build_sym symbols[] = {
	FUNCTION("enter", 0x40, true),
	FUNCTION("_Py_write", 0x80, true),
	FUNCTION("_pickle_loads", 0xc0, false),
	{ .name = "_PyRuntime", .where = ELF_IN_BSS, .off = 0x10, .size = 0x100,
	  .bind = STB_GLOBAL, .type = STT_OBJECT, .is_dynamic = true },
	{ .name = "enter", .where = ELF_IN_TEXT, .off = 0x100, .size = 0x40, .bind = STB_WEAK,
	  .type = STT_FUNC, .version = 0x8002, .is_dynamic = true },
};

static void put_method(struct elf_build *build, uint64_t off, uint64_t name, uint64_t function)
{
	const uint32_t flags = 0x82;

	memcpy(build->data + off + 16, &flags, sizeof(flags));
	build->rela[build->rela_cnt++] =
		(Elf64_Rela){ ELF_DATA + off, ELF_RELATIVE, (int64_t)name };
	build->rela[build->rela_cnt++] =
		(Elf64_Rela){ ELF_DATA + off + 8, ELF_RELATIVE, (int64_t)function };
}

void make_elf_seeds(void)
{
	/* endbr64; push %rbp; mov %rsp,%rbp; call +16; pop; ret */
	static const uint8_t code[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xe8,
					0x10, 0,    0,	  0,	0x5d, 0xc3 };
	static struct elf_build build;

	build = (struct elf_build){ .sym = symbols, .sym_cnt = DLP_ARRAY_SIZE(symbols) };
	memcpy(build.text + 0x40, code, sizeof(code));
	save_elf("symbols", &build);
	build = (struct elf_build){ .sym = symbols, .sym_cnt = DLP_ARRAY_SIZE(symbols),
				    .has_no_sections = true, .has_versions = true };
	save_elf("no-sections", &build);
	build = (struct elf_build){ .sym = symbols, .sym_cnt = 1, .has_no_sections = true,
				    .has_sysv_hash = true, .type = ET_EXEC };
	save_elf("sysv-hash", &build);
	build = (struct elf_build){ .sym_cnt = 0 };
	memcpy(build.rodata + 0x10, "load", 5);
	memcpy(build.rodata + 0x20, "loads", 6);
	put_method(&build, 0x100, ELF_RODATA + 0x10, ELF_TEXT + 0x200);
	put_method(&build, 0x120, ELF_RODATA + 0x20, ELF_TEXT + 0x300);
	save_elf("methods", &build);
}

/* ---- text files, each ended by 0xff: see fuzz_text.c --------------------------------------- */

#define END "\xff"
#define STATUS(pid) "Name:\tpython\nTgid:\t" pid "\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\n" END
#define MAPS                                                                                       \
	"400000-500000 r-xp 00000000 08:01 77 /usr/bin/python3.11\n"                               \
	"7f0000000000-7f0000100000 r-xp 00001000 08:01 78 "                                        \
	"/usr/lib/torch/lib/libtorch_python.so (deleted)\n"                                        \
	"7ffc00000000-7ffc00020000 rw-p 00000000 00:00 0 [stack]\n" END

static const char machine_v2[] =
	"10 (python) S 1 10 10 0 -1 4194304 5 0 6 0 70 8 0 0 20 0 3 0 5000 1000 100" END
	STATUS("10") "python\0train.py\0--epochs\0003\0" END MAPS "0::/g\n" END
	"30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" END
	"rchar: 1\nread_bytes: 4096\n" END "11 \n" END
	"cpu  1 20 300 4000 50000 600000 7000000 80000000 1 20\n" END
	"MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n" END
	"pswpin 21\npgscan_direct 24\noom_kill 27\n" END
	"some avg10=1.50 avg60=0.00 avg300=0.00 total=31\n" END "0-1,3\n" END "200000 100000\n" END
	"nr_periods 4\nnr_throttled 2\nthrottled_usec 900\n" END "1073741824\n" END "524288\n" END
	"11 (pt_data_worker) S 10 10 10 0 -1 4194368 5 0 6 0 70 8 0 0 20 0 1 0 5100 1000 100" END
	"python\0train.py\0" END MAPS;

/* What else these files can look like. */
static const char machine_v1[] =
	"10 (a b) ) R 1 10 10 0 -1 4194308 5 0 6 0 70 8 0 0 20 0 3 0 18446744073709551615 0 0" END
	STATUS("10") "/bin/sh\0-c\0torchrun x.py\0" END
	"7f0000000000-7f0000001000 r-xp 00000000 00:26 9 /a\\040b/libpython3.13t.so.1.0\n"
	"zz\n" END
	"4:cpu,cpuacct:/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
	"3:memory:/kubepods/pod1/x\n" END
	"31 1 0:27 / /sys/fs/cgroup/cpu\\040x rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	"32 1 0:28 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" END
	"read_bytes: x\n" END END "cpu 1\n" END "MemTotal: 99999999999999999999 kB\n" END END
	"full total=1\n" END "0-99999\n" END "max 100000\n" END "nr_periods\n" END "max\n" END;

/* Control groups of version 1 that limit something, and a rank's environment. */
static const char machine_ranks[] =
	"10 (python) S 1 10 10 0 -1 4194304 5 0 6 0 70 8 0 0 20 0 3 0 5000 1000 100" END
	STATUS("10") "python\0train.py\0" END MAPS "4:cpu,cpuacct:/g\n3:memory:/g\n" END
	"31 1 0:27 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu,cpuacct\n"
	"32 1 0:28 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n" END
	END END END END END END END END
	"nr_periods 4\nnr_throttled 2\nthrottled_time 900\n" END END END
	END END END
	"A=b\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0LOCAL_WORLD_SIZE=2\0" END
	"200000\n" END "100000\n" END "1073741824\n" END "524288\n" END;

static const char version_py[] = "__version__ = '2.13.0+cpu'\ndebug = False\n";

void make_text_seeds(void)
{
	corpus_save("text", "version-2", machine_v2, sizeof(machine_v2) - 1);
	corpus_save("text", "version-1", machine_v1, sizeof(machine_v1) - 1);
	corpus_save("text", "ranks-version-1", machine_ranks, sizeof(machine_ranks) - 1);
	corpus_save("text", "version-py", version_py, sizeof(version_py) - 1);
}

/* ---- command lines, messages --------------------------------------------------------------- */

void make_word_seeds(void)
{
	static const char job[] = "--pid\0001234\0--duration\00010m\0--summary\0s.json\0--interval\0"
				  "250ms\0--without\0block\0--ring-size\0001M\0--labels\0a*\0--quiet";
	static const char command[] = "--record\0r.dlp\0--record-max\00064M\0--long-wait=2ms\0--\0"
				      "python\0--pid\0train.py";
	static const char replay[] = "replay\0--summary\0s.json\0r.dlp\0--events\0e.txt";
	static const char doctor[] = "doctor\0--json\0--pid\00012";
	static const char gates[] = "--pid\00012\0--fail-if\0exposed_wait>20%\0--fail-if\0 stalled\0"
				    "--fail-if\0getnext_p99_ms <= 12.5\0--fail-if\0batches_per_s<9";
	static const char alone[] = "--list\0--help\0--version";
	/* (300, [1]) and (2, _IterableDatasetStopIteration(1)) as CPython 3.11 pickles them */
	static const char index[] = "\x80\4\x95\x0b\0\0\0\0\0\0\0M\x2c\1]\x94K\1a\x86\x94.";
	static const char end[] = "\x80\4\x95\x5d\0\0\0\0\0\0\0K\2\x8c\x1etorch.utils.data._utils."
				  "worker\x94\x8c\x1d_IterableDatasetStopIteration\x94\x93\x94";

	corpus_save("cli", "job", job, sizeof(job));
	corpus_save("cli", "command", command, sizeof(command));
	corpus_save("cli", "replay", replay, sizeof(replay));
	corpus_save("cli", "doctor", doctor, sizeof(doctor));
	corpus_save("cli", "gates", gates, sizeof(gates));
	corpus_save("cli", "alone", alone, sizeof(alone));
	corpus_save("msg", "index", index, sizeof(index) - 1);
	corpus_save("msg", "end", end, sizeof(end) - 1);
}

/* ---- events -------------------------------------------------------------------------------- */

static void add_window(struct event_list *list, uint64_t at_ns, uint32_t phase)
{
	struct dlp_ev_window window = { .hdr = { .size = sizeof(window), .kind = DLP_EV_WINDOW,
						 .ts_ns = at_ns, .tgid = 100, .tid = 100 },
					.phase = phase };

	events_add(list, &window, sizeof(window));
}

/* Without the lengths between them: an event begins with its own. */
static void save_list(const char *name, struct event_list *list)
{
	size_t kept = 0;

	for (size_t at = 0; at < list->bytes;) {
		uint32_t length;

		memcpy(&length, list->data + at, sizeof(length));
		memmove(list->data + kept, list->data + at + sizeof(length), length);
		kept += length;
		at += sizeof(length) + length;
	}
	corpus_save("events", name, list->data, kept);
	events_free(list);
}

static void save_events(const char *name, uint32_t rounds, uint32_t seed)
{
	struct dlp_ev_proc proc = { .hdr = { .size = sizeof(proc), .kind = DLP_EV_PROC,
					     .ts_ns = 1000, .tgid = 100, .tid = 100 },
				    .role = DLP_ROLE_TRAINER };
	struct event_list list = { 0 };

	events_add(&list, &proc, sizeof(proc));
	proc.hdr.tgid = proc.hdr.tid = 101;
	proc.role = DLP_ROLE_WORKER;
	events_add(&list, &proc, sizeof(proc));
	add_window(&list, 1000000000000ull, 0);
	events_make(&list, rounds, seed);
	add_window(&list, 1001000000000ull, 1);
	save_list(name, &list);
}

void make_event_seeds(void)
{
	save_events("few", 6, 1);
	save_events("some", 20, 2);
	save_events("others", 20, 3);
}
