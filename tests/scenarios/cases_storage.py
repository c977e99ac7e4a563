# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Disks, memory maps, file systems of user space, the network."""
import mmap
import os
import random
import socket
import urllib.request

import numpy as np

from loads import IMAGE, Items, accelerator, cold_pread, cold_read, loader, model, train
from registry import Form, scenario, variant
from rules import figure, share

FILES, FILE_KB, BIG_MB = 400, 32, 128
SLOW_DISK = {"ms": 3, "files": (FILES, FILE_KB), "big_mb": BIG_MB}
RECORD = 8192


def some_file(folder):
    return f"{folder}/{random.randrange(FILES)}"


def some_record(folder):
    cold_pread(folder + "/big", random.randrange((BIG_MB << 20) // RECORD) * RECORD, RECORD)


@scenario("disk_read", forbid="worker_cpu", around={"disk": SLOW_DISK},
          rules=[share("disk", ">=", 0.6)])
def disk_small_files(k):
    """One small cold file for each item on a slow disk."""
    train(loader(Items(lambda i: cold_read(some_file(k.data))), batch_size=16), accelerator(20))


@scenario("disk_read", forbid="worker_cpu", around={"disk": SLOW_DISK}, short=Form(2, 5),
          rules=[share("disk", ">=", 0.6), figure("sum", "block_io[].reads", ">", 250)],
          step=20.0)
def disk_pread(k):
    """8 KB at random places of one big file, four workers, real model."""
    train(loader(Items(lambda i: some_record(k.data)), batch_size=16, num_workers=4),
          model(k.step))


variant("disk_pread", "disk_pread_step_half", "disk_pread, the trainer twice as fast", step=10.0)
variant("disk_pread", "disk_pread_step_double", "disk_pread, the trainer half as fast", step=40.0)


@scenario("disk_read", forbid="worker_cpu", rules=[share("disk", ">=", 0.6)],
          around={"disk": {**SLOW_DISK, "ms": 0}, "read_iops": 250})
def disk_throttled(k):
    """The disk is fast, but a control group allows 250 reads a second; real model."""
    train(loader(Items(lambda i: cold_read(some_file(k.data))), batch_size=16), model(20))


@scenario("page_fault_read", forbid="worker_cpu batch_transfer", around={"disk": SLOW_DISK},
          short=Form(2, 5),
          rules=[share("fault", ">=", 0.6), figure("sum", "workers[].major_faults", ">", 250)])
def mmap_random(k):
    """Random reads through a memory map of a big file on a slow disk."""
    with open(k.data + "/big", "rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    data.madvise(mmap.MADV_RANDOM)
    train(loader(Items(lambda i: np.full_like(IMAGE, data[random.randrange(len(data))])),
                 batch_size=16), accelerator(20))


@scenario("filesystem_wait", forbid="worker_cpu sleep", short=Form(2, 5),
          around={"fuse": {"read_ms": 5, "files": (FILES, FILE_KB)}},
          rules=[share("fs", ">=", 0.6)])
def fuse_read(k):
    """A file system of user space that takes 5 ms for each read; real model."""
    def item(i):
        with open(some_file(k.data), "rb") as file:
            file.read()
    train(loader(Items(item)), model(20))


@scenario("filesystem_wait", forbid="worker_cpu sleep", rules=[share("fs", ">=", 0.6)],
          around={"fuse": {"meta_ms": 1, "files": (FILES, 4)}})
def fuse_metadata(k):
    """Ten stat calls for each item on a file system with slow metadata."""
    def item(i):
        for _ in range(10):
            os.stat(some_file(k.data))
    train(loader(Items(item)), accelerator(20))


@scenario("network_wait", forbid="worker_cpu sleep lock_wait", around={"server_ms": 12},
          rules=[share("net", ">=", 0.6)])
def http_objects(k):
    """One HTTP GET for each item from a slow object store."""
    def item(i):
        with urllib.request.urlopen(f"http://127.0.0.1:{k.port}/{i}") as answer:
            answer.read()
    train(loader(Items(item)), accelerator(20))


@scenario("network_wait", forbid="worker_cpu sleep lock_wait", around={"server_ms": 12},
          rules=[share("net", ">=", 0.6)])
def tcp_database(k):
    """A query for each item over one connection of each worker; real model."""
    connections = {}

    def item(i):
        if os.getpid() not in connections:
            connections[os.getpid()] = socket.create_connection(("127.0.0.1", int(k.port)))
        connection = connections[os.getpid()]
        connection.sendall(b"GET /row HTTP/1.1\r\n\r\n")
        connection.recv(1 << 16)
    train(loader(Items(item)), model(20))
