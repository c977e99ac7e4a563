# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the scenarios' jobs are built from: loads, datasets, loaders, training steps."""
import os
import random
import threading
import time
import zlib

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

IMAGE = np.zeros((3, 32, 32), np.float32)
BLOB = zlib.compress(random.Random(1).randbytes(100_000) + b"a" * 100_000, 1)


# ---- control ---------------------------------------------------------------------------------
class Run:
    """The job's own clock. Begun by job.py; ready before the first iter()."""

    def __init__(self):
        self.ready_s = self.deadline_s = 0.0
        self.ready_file = None

    def begin(self, seconds, ready_file):
        self.deadline_s, self.ready_file = time.monotonic() + seconds, ready_file

    def ready(self):
        self.ready_s = time.monotonic()
        if self.ready_file:
            # complete when it appears
            with open(self.ready_file + ".new", "w") as file:
                file.write(str(time.monotonic_ns()))
            os.rename(self.ready_file + ".new", self.ready_file)

    def over(self):
        return time.monotonic() > self.deadline_s

    def seconds(self):
        """Since it was ready; the same in workers, which inherit it."""
        return time.monotonic() - self.ready_s


run = Run()


# ---- loads -----------------------------------------------------------------------------------
# Counted in CPU time of the calling thread, so that they do not shrink on a busy machine.
def native(ms):
    """zlib; gives the GIL away."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        zlib.decompress(BLOB)


def python(ms):
    """A loop that holds the GIL."""
    end, x = time.thread_time() + ms / 1e3, 0
    while time.thread_time() < end:
        for i in range(1000):
            x += i


def sleep(ms):
    time.sleep(ms / 1e3)


def cold_pread(path, offset, size):
    """Neither read ahead nor kept in memory: the next read of it waits for the disk as well."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, size, offset)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def cold_read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.pread(fd, os.fstat(fd).st_size, 0)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def background(function, *args):
    """Calls function(*args) again and again in a thread."""
    def forever():
        while True:
            function(*args)
    threading.Thread(target=forever, daemon=True).start()


# ---- datasets --------------------------------------------------------------------------------
class Items(Dataset):
    """Item i is work(i), or an image where that returns nothing."""

    def __init__(self, work, n=1_000_000):
        self.work, self.n = work, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        item = self.work(i)
        return IMAGE if item is None else item


class Stream(IterableDataset):
    """Worker w yields the items of work(w)."""

    def __init__(self, work):
        self.work = work

    def __iter__(self):
        return iter(self.work(get_worker_info().id))


def as_is(samples):
    return samples


def nothing(i):
    return None


def loader(data, name="train", **options):
    made = DataLoader(data, **{"batch_size": 8, "num_workers": 2, **options})
    made.truth_name = name
    return made


# ---- training --------------------------------------------------------------------------------
def accelerator(ms):
    """A step on a busy accelerator costs the host time, but no CPU."""
    return lambda batch: sleep(ms)


def model(ms=0.0):
    """Forward, backward and SGD of a small model, then ms on the accelerator."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 64),
                              torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)

    def step(batch):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
        sleep(ms)
    return step


def train(data, step):
    """Epochs over data until the time is over."""
    run.ready()
    while True:
        for batch in data:
            step(batch)
            if run.over():
                return
