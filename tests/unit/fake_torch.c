/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fake_torch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fake_code(struct elf_build *build)
{
	static const char nop[] = "\x1f\x20\x03\xd5";

	/* push %rbp; mov %rsp,%rbp; then nops, unlike the fill of any other part */
	memset(build->text, 0x90, sizeof(build->text));
	for (size_t at = 0; at < sizeof(build->text); at += 16)
		memcpy(build->text + at, DLP_ARCH_MACHINE == EM_AARCH64 ? nop : "\x55\x48\x89\xe5",
		       4);
}

void fake_map(const struct tree *tree, int pid, struct elf_build *build,
	      const struct elf_build_sym *sym, size_t cnt, const char *path, uint64_t addr,
	      unsigned int flags)
{
	const char *root = flags & FAKE_CHROOTED ? tree_path(tree, "rootfs") : "";
	char file[512], maps[64], name[128];
	unsigned long long inode;
	struct stat st;
	FILE *out;

	build->sym = sym;
	build->sym_cnt = cnt;
	elf_build(build);
	(void)snprintf(file, sizeof(file), "rootfs%s", path);
	tree_write(tree, file, build->bytes, build->len);
	if (stat(tree_path(tree, "%s", file), &st))
		abort();
	inode = st.st_ino;
	if (flags & FAKE_BY_MAP_FILES) {
		(void)snprintf(name, sizeof(name), "rootfs/mapped-%llx", (unsigned long long)addr);
		tree_write(tree, name, build->bytes, build->len);
		(void)snprintf(file, sizeof(file), "proc/%d/map_files/%llx-%llx", pid,
			       (unsigned long long)addr,
			       (unsigned long long)(addr + ELF_PART_BYTES));
		tree_link(tree, file, tree_path(tree, "%s", name));
	}
	if (flags & FAKE_DELETED && unlink(tree_path(tree, "rootfs%s", path)))
		abort();
	if (flags & FAKE_OTHER_INODE)
		inode += 1000000;
	(void)snprintf(maps, sizeof(maps), "proc/%d/maps", pid);
	out = fopen(tree_path(tree, "%s", maps), "a");
	if (!out)
		abort();
	fprintf(out, "%llx-%llx r-%cp %llx 08:01 %llu %s%s%s\n", (unsigned long long)addr,
		(unsigned long long)(addr + ELF_PART_BYTES), flags & FAKE_NO_CODE ? '-' : 'x',
		(unsigned long long)ELF_TEXT_OFF, inode, root, path,
		flags & FAKE_DELETED ? " (deleted)" : "");
	/* a page of it is executable all the same: the library is loaded */
	if (flags & FAKE_NO_CODE)
		fprintf(out, "%llx-%llx r-xp 0 08:01 %llu %s%s\n",
			(unsigned long long)addr + 0x100000, (unsigned long long)addr + 0x101000,
			inode, root, path);
	fprintf(out, "%llx-%llx rw-p %llx 08:01 %llu %s%s\n", (unsigned long long)addr + 0x200000,
		(unsigned long long)(addr + 0x200000 + ELF_PART_BYTES),
		(unsigned long long)ELF_DATA_OFF, inode, root, path);
	if (fclose(out))
		abort();
}

void fake_memory(const struct tree *tree, int pid, uint64_t addr, const void *data, size_t bytes)
{
	int fd = open(tree_path(tree, "proc/%d/mem", pid), O_WRONLY | O_CREAT, 0600);

	if (fd < 0 || pwrite(fd, data, bytes, (off_t)addr) != (ssize_t)bytes || close(fd))
		abort();
}
