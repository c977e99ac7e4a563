#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A file system of user space that answers late: the files of one flat folder, read-only.

usage: slowfs.py FOLDER MOUNTPOINT [--read-ms MS] [--meta-ms MS]

--read-ms delays each read, --meta-ms each lookup, getattr and open; the kernel caches nothing. A loop
device on a file in it is a slow disk: its block requests really take that long. Speaks the FUSE
protocol itself (include/uapi/linux/fuse.h), so it needs no library; needs root.
"""
import argparse
import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
BATCH_FORGET = 42
MINOR = 31  # the protocol's version 7.31: what the layouts below are
INIT_FLAGS = 1 | 1 << 15 | 1 << 22  # ASYNC_READ, ASYNC_DIO, MAX_PAGES
FOPEN_DIRECT_IO = 1
ROOT_NODE, FIRST_NODE = 1, 2
THREADS = 8
MOUNT_FLAGS = 1 | 2 | 4  # read-only, nosuid, nodev
IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")


class Error(Exception):
    def __init__(self, number):
        super().__init__(os.strerror(number))
        self.number = number


class SlowFolder:
    def __init__(self, folder, read_s, meta_s):
        names = sorted(os.listdir(folder))
        self.fds = [os.open(os.path.join(folder, name), os.O_RDONLY) for name in names]
        self.nodes = {name.encode(): FIRST_NODE + i for i, name in enumerate(names)}
        self.read_s, self.meta_s = read_s, meta_s
        self.answers = {LOOKUP: self.lookup, GETATTR: self.getattr, OPEN: self.open,
                        READ: self.read, INIT: self.init, RELEASE: self.done, FLUSH: self.done}

    def attributes(self, node):
        size, mode = 0, stat.S_IFDIR | 0o755
        if node >= FIRST_NODE:
            size, mode = os.fstat(self.fds[node - FIRST_NODE]).st_size, stat.S_IFREG | 0o644
        # ino, size, blocks, three times; their nanoseconds, mode, nlink, uid, gid, rdev, blksize
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0,
                           0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def init(self, node, body):
        _, minor, readahead, _ = struct.unpack_from("<4I", body)
        # major, minor, readahead, flags, background, congestion, write, granularity, pages
        return struct.pack("<4I2H2I2H32x", 7, min(minor, MINOR), readahead, INIT_FLAGS,
                           64, 48, 1 << 17, 1, 256, 0)

    def lookup(self, node, body):
        time.sleep(self.meta_s)
        found = self.nodes.get(body.rstrip(b"\0"))
        if found is None:
            raise Error(errno.ENOENT)
        return struct.pack("<4Q2I", found, 0, 0, 0, 0, 0) + self.attributes(found)

    def getattr(self, node, body):
        time.sleep(self.meta_s)
        return struct.pack("<Q2I", 0, 0, 0) + self.attributes(node)

    def open(self, node, body):
        time.sleep(self.meta_s)
        return struct.pack("<Q2I", 0, FOPEN_DIRECT_IO, 0)

    def read(self, node, body):
        time.sleep(self.read_s)
        _, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(self.fds[node - FIRST_NODE], size, offset)

    def done(self, node, body):
        return b""

    def reply(self, operation, node, body):
        """(error, data)"""
        try:
            if operation not in self.answers:
                raise Error(errno.ENOSYS)
            return 0, self.answers[operation](node, body)
        except Error as e:
            return -e.number, b""

    def serve(self, device):
        while True:
            try:
                request = os.read(device, 1 << 20)
            except OSError as e:
                if e.errno == errno.ENODEV:  # unmounted
                    os._exit(0)
                if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            size, operation, unique, node, *_ = IN_HEADER.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET):  # these want no answer
                continue
            error, data = self.reply(operation, node, request[IN_HEADER.size:size])
            try:
                os.write(device, OUT_HEADER.pack(OUT_HEADER.size + len(data), error, unique) + data)
            except OSError as e:
                if e.errno != errno.ENOENT:  # the caller gave up
                    raise


def main():
    parser = argparse.ArgumentParser(description="a file system that answers late")
    parser.add_argument("folder")
    parser.add_argument("mountpoint")
    parser.add_argument("--read-ms", type=float, default=0)
    parser.add_argument("--meta-ms", type=float, default=0)
    args = parser.parse_args()
    served = SlowFolder(args.folder, args.read_ms / 1e3, args.meta_ms / 1e3)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = (f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},"
               "allow_other").encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slowfs", os.path.abspath(args.mountpoint).encode(), b"fuse", MOUNT_FLAGS, options):
        sys.exit(f"slowfs: mount: {os.strerror(ctypes.get_errno())}")
    for _ in range(THREADS - 1):
        threading.Thread(target=served.serve, args=(device,), daemon=True).start()
    served.serve(device)


if __name__ == "__main__":
    main()
