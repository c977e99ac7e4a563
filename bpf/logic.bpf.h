/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decisions without maps, helpers or kernel types: compiled into the programs and, by the unit
 * tests, natively.
 */
#ifndef DLP_LOGIC_BPF_H
#define DLP_LOGIC_BPF_H

#include "dlprof/config.h"

#ifdef __bpf__
#define DLP_LOGIC static __always_inline
#else
#define DLP_LOGIC static inline
#endif

/* File types of st_mode (include/uapi/linux/stat.h). */
#define DLP_S_IFMT   0170000
#define DLP_S_IFSOCK 0140000
#define DLP_S_IFREG  0100000
#define DLP_S_IFBLK  0060000
#define DLP_S_IFDIR  0040000
#define DLP_S_IFCHR  0020000
#define DLP_S_IFIFO  0010000

/*
 * File systems that wait for a network or a user-space process instead of a block device
 * (super block magics: include/uapi/linux/magic.h; Lustre, GPFS, BeeGFS: their own sources).
 */
DLP_LOGIC int dlp_fs_is_remote(__u32 magic)
{
	switch (magic) {
	case 0x65735546: /* FUSE, virtiofs */
	case 0x00006969: /* NFS */
	case 0xff534d42: /* CIFS */
	case 0xfe534d42: /* SMB2 */
	case 0x0000517b: /* SMB */
	case 0x00c36400: /* Ceph */
	case 0x0bd00bd0: /* Lustre */
	case 0x01021997: /* 9P */
	case 0x5346414f: /* OpenAFS */
	case 0x6b414653: /* AFS, the kernel's own */
	case 0x73757245: /* Coda */
	case 0x47504653: /* GPFS */
	case 0x19830326: /* BeeGFS */
	case 0x20030528: /* OrangeFS */
	case 0x786f4256: /* VirtualBox shared folders */
	case 0xbacbacbc: /* VMware shared folders */
		return 1;
	}
	return 0;
}

/*
 * State of a thread blocked in a system call on an open file. in_iowait comes first: the write()
 * of a cold memory-mapped page into a pipe waits for the disk, with a pipe as its descriptor.
 * `af_local`: for sockets, whether the peer is on this machine by construction.
 */
DLP_LOGIC __u32 dlp_state_of_file(__u32 mode, __u32 magic, int iowait, int sync, int af_local)
{
	switch (mode & DLP_S_IFMT) {
	case DLP_S_IFREG:
	case DLP_S_IFDIR:
	case DLP_S_IFBLK:
		if (dlp_fs_is_remote(magic))
			return DLP_ST_FS;
		/* fsync waits for the journal mostly without in_iowait */
		if (iowait || sync)
			return DLP_ST_DISK;
		/* the page cache and block layer set in_iowait: what is left are the inode's locks */
		return DLP_ST_LOCK;
	case DLP_S_IFIFO:
		return iowait ? DLP_ST_FAULT : DLP_ST_PIPE;
	case DLP_S_IFSOCK:
		if (iowait)
			return DLP_ST_FAULT;
		return af_local ? DLP_ST_PIPE : DLP_ST_NET;
	case DLP_S_IFCHR:
		return iowait ? DLP_ST_FAULT : DLP_ST_OTHER;
	case 0:
		/* eventfd, timerfd and other anonymous inodes */
		return iowait ? DLP_ST_FAULT : DLP_ST_PIPE;
	}
	return DLP_ST_OTHER;
}

/* fcntl commands that wait for a lock: F_SETLKW, F_OFD_SETLKW (include/uapi/asm-generic/fcntl.h). */
DLP_LOGIC int dlp_fcntl_locks(__u64 command)
{
	return command == 7 || command == 38;
}

/* First byte of a pickle of protocol 2 or later, as multiprocessing sends them. */
#define DLP_PICKLE_PROTO 0x80

/*
 * Whether a pickle's first bytes (at least 12) look like a queue message of the DataLoader: a
 * tuple that begins with an integer. Opcodes: Lib/pickletools.py; FRAME (0x95) and its length
 * come first except in very short pickles.
 */
DLP_LOGIC int dlp_pickle_is_indexed(const __u8 *prefix)
{
	__u8 op;

	if (prefix[0] != DLP_PICKLE_PROTO || prefix[1] < 2 || prefix[1] > 5)
		return 0;
	op = prefix[2] == 0x95 ? prefix[11] : prefix[2];
	return op == 0x4b || op == 0x4d || op == 0x4a || op == 0x8a;
}

/* Halvings that find one of DLP_GC_RANGES_MAX ranges. */
#define DLP_GC_STEPS 10

/* Whether an address, as in the file, lies in the garbage collector. */
DLP_LOGIC __u32 dlp_gc_has(const struct dlp_gc_code *code, __u64 addr)
{
	__u32 from = 0, to = code->cnt;

	for (int i = 0; i < DLP_GC_STEPS && from < to; i++) {
		__u32 mid = (from + to) / 2 & (DLP_GC_RANGES_MAX - 1);

		if (addr < code->range[mid].lo)
			to = mid;
		else if (addr >= code->range[mid].hi)
			from = mid + 1;
		else
			return 1;
	}
	return 0;
}

/* Whether a label, ended by NUL or by its length, is one of these. */
DLP_LOGIC int dlp_glob_match(const volatile struct dlp_glob *glob, const char text[DLP_LABEL_MAX])
{
	__u64 at = glob->start;

	for (int i = 0; i < DLP_LABEL_MAX; i++) {
		__u8 c = (__u8)text[i];

		if (!c)
			break;
		at = (at & glob->step[c]) << 1 | (at & glob->loops);
	}
	return !!(at & glob->accept);
}

DLP_LOGIC __u32 dlp_be32(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | (__u32)bytes[1] << 16 | (__u32)bytes[2] << 8 | bytes[3];
}

#endif /* DLP_LOGIC_BPF_H */
