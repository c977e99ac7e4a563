/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fsname.h"

#include <linux/magic.h>
#include <stdio.h>

#include "util.h"

/*
 * Not in the kernel's header: newer than the distribution's, or of file systems that keep their
 * number to themselves (from their sources, and from coreutils' stat).
 */
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xfe534d42
#endif
#define BCACHEFS_MAGIC 0xca451a4e
#define BEEGFS_MAGIC 0x19830326
#define GFS2_MAGIC 0x01161970
#define GPFS_MAGIC 0x47504653
#define JFS_MAGIC 0x3153464a
#define LUSTRE_MAGIC 0x0bd00bd0
#define MQUEUE_MAGIC 0x19800202
#define NTFS3_MAGIC 0x7366746e
#define ORANGEFS_MAGIC 0x20030528
#define PANFS_MAGIC 0xaad7aaea
#define VBOXSF_MAGIC 0x786f4256
#define ZFS_MAGIC 0x2fc12fc1

static const struct {
	uint32_t magic;
	const char *name;
} table[] = {
	/* on block devices */
	{ EXT4_SUPER_MAGIC, "ext4" }, /* ext2 and ext3 share it */
	{ XFS_SUPER_MAGIC, "xfs" },
	{ BTRFS_SUPER_MAGIC, "btrfs" },
	{ F2FS_SUPER_MAGIC, "f2fs" },
	{ ZFS_MAGIC, "zfs" },
	{ BCACHEFS_MAGIC, "bcachefs" },
	{ JFS_MAGIC, "jfs" },
	{ NILFS_SUPER_MAGIC, "nilfs2" },
	{ REISERFS_SUPER_MAGIC, "reiserfs" },
	{ MSDOS_SUPER_MAGIC, "vfat" },
	{ EXFAT_SUPER_MAGIC, "exfat" },
	{ NTFS3_MAGIC, "ntfs3" },
	{ ISOFS_SUPER_MAGIC, "iso9660" },
	{ UDF_SUPER_MAGIC, "udf" },
	{ SQUASHFS_MAGIC, "squashfs" },
	{ EROFS_SUPER_MAGIC_V1, "erofs" },
	{ BDEVFS_MAGIC, "bdev" },
	/* over a network, or served by a process */
	{ NFS_SUPER_MAGIC, "nfs" },
	{ CIFS_SUPER_MAGIC, "cifs" },
	{ SMB2_SUPER_MAGIC, "smb2" },
	{ SMB_SUPER_MAGIC, "smb" },
	{ CEPH_SUPER_MAGIC, "ceph" },
	{ LUSTRE_MAGIC, "lustre" },
	{ GPFS_MAGIC, "gpfs" },
	{ BEEGFS_MAGIC, "beegfs" },
	{ ORANGEFS_MAGIC, "orangefs" },
	{ PANFS_MAGIC, "panfs" },
	{ GFS2_MAGIC, "gfs2" },
	{ OCFS2_SUPER_MAGIC, "ocfs2" },
	{ AFS_SUPER_MAGIC, "afs" },
	{ AFS_FS_MAGIC, "afs" },
	{ CODA_SUPER_MAGIC, "coda" },
	{ FUSE_SUPER_MAGIC, "fuse" }, /* virtiofs too */
	{ V9FS_MAGIC, "9p" },
	{ VBOXSF_MAGIC, "vboxsf" },
	/* over others, in memory, or not files at all */
	{ OVERLAYFS_SUPER_MAGIC, "overlay" },
	{ ECRYPTFS_SUPER_MAGIC, "ecryptfs" },
	{ TMPFS_MAGIC, "tmpfs" },
	{ RAMFS_MAGIC, "ramfs" },
	{ HUGETLBFS_MAGIC, "hugetlbfs" },
	{ PROC_SUPER_MAGIC, "proc" },
	{ SYSFS_MAGIC, "sysfs" },
	{ CGROUP_SUPER_MAGIC, "cgroup" },
	{ CGROUP2_SUPER_MAGIC, "cgroup2" },
	{ DEVPTS_SUPER_MAGIC, "devpts" },
	{ PIPEFS_MAGIC, "pipefs" },
	{ SOCKFS_MAGIC, "sockfs" },
	{ ANON_INODE_FS_MAGIC, "anon_inode" },
	{ MQUEUE_MAGIC, "mqueue" },
};

const char *dlp_fsname(uint32_t magic, char *buf, size_t size)
{
	if (!magic)
		return NULL;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(table); i++) {
		if (table[i].magic == magic)
			return table[i].name;
	}
	(void)snprintf(buf, size, "0x%x", magic);
	return buf;
}
