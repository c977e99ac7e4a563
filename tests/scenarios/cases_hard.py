# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Variants in which the obvious answer is the wrong one."""
import collections
import itertools
import mmap
import os
import random
import threading

import torch

from cases_storage import BIG_MB, SLOW_DISK
from loads import (IMAGE, Items, Stream, accelerator, as_is, cold_pread, loader, model, native,
                   nothing, python, run, sleep, train)
from registry import Form, healthy, scenario
from rules import candidate, figure, no_advice, says, share

MORE_WORKERS = r"\b(add|use more|raise|increase)\b[^.]*\bworkers"


@scenario("cpu_oversubscription", size=600, threads=12,
          rules=[figure("max", "workers[].native_threads_max", ">=", 12), says("thread"),
                 no_advice(MORE_WORKERS + "|disk|storage")])
def matmul_threads(k):
    """Three workers multiply matrices with twelve threads each: not "add workers"."""
    def item(i):
        a = torch.ones(k.size, k.size)
        (a @ a).sum()
    train(loader(Items(item), num_workers=3,
                 worker_init_fn=lambda worker: torch.set_num_threads(k.threads)), accelerator(20))


@scenario("cpu_quota", forbid="worker_cpu", around={"cpu_quota": 0.8}, ms=10.0,
          rules=[figure("max", "system.cgroup.throttled_periods", ">", 10),
                 figure("max", "system.cgroup.quota_cpus", "~", 0.8), no_advice(MORE_WORKERS)])
def quota_workers(k):
    """Four workers under a quota of 0.8 CPUs: neither "add workers" nor a neighbour."""
    train(loader(Items(lambda i: native(k.ms)), num_workers=4), accelerator(20))


@scenario("disk_read", forbid="worker_cpu", around={"disk": {**SLOW_DISK, "ms": 0}, "read_iops": 150},
          rules=[share("disk", ">=", 0.6), says("more workers"),
                 figure("sum", "block_io[].reads", ">", 500)])
def iops_limit(k):
    """Four workers read 4 KB each time from a disk that gives 150 of them a second: more workers
    would not help."""
    def item(i):
        cold_pread(k.data + "/big", random.randrange(BIG_MB << 8) * 4096, 4096)
    train(loader(Items(item), num_workers=4), accelerator(20))


class Molecule:
    def __init__(self, tensors):
        self.parts = [torch.zeros(10) for _ in range(tensors)]


@scenario("batch_transfer", forbid="worker_cpu main_process", tensors=40)
def tensor_objects(k):
    """32 objects of 40 small tensors each a batch: the workers are not what is slow."""
    train(loader(Items(lambda i: Molecule(k.tensors)), batch_size=32, collate_fn=as_is),
          accelerator(5))


@scenario("worker_startup", forbid="worker_cpu slow_batch", full=Form(4, 15), paths=400_000,
          rules=[figure("max", "verdict.startup_ratio", ">=", 0.3)])
def spawn_epochs(k):
    """Spawned workers and a big dataset, anew for each short epoch: next() is quick, iter() is not."""
    data = Items(nothing, n=800)
    data.paths = [(f"/data/images/{i}.jpg", i) for i in range(k.paths)]
    train(loader(data, multiprocessing_context="spawn"), accelerator(5))


@scenario("worker_cpu", forbid="slow_batch", step=20.0)
def bursts(k):
    """A batch takes workers x step x 1.6: batches come in bursts, but no sample is slow."""
    workers = 3 if os.cpu_count() > 3 else 2
    ms = workers * k.step * 1.6 / 8
    train(loader(Items(lambda i: native(ms)), num_workers=workers), accelerator(k.step))


@scenario("idle_workers", forbid="worker_cpu sleep")
def silent_shards(k):
    """Four workers share the files, but there is only one: three end at once, silently; real model."""
    files = ["shard-0.tar"]

    def items(worker):
        for _ in files[worker::4]:
            for _ in range(2000):
                python(8)
                yield IMAGE
    train(loader(Stream(items), num_workers=4, persistent_workers=True), model(20))


@scenario("worker_stuck", bottleneck="stalled", forbid="worker_cpu sleep slow_batch", exposed=None,
          full=Form(3, 14))
def deadlock_later(k):
    """The first epoch is fine; a thread takes a lock while the workers of the second are forked."""
    lock, epochs = threading.Lock(), itertools.count()

    def item(i):
        with lock:
            native(0.5)

    def hold():
        with lock:
            sleep(1000)
    data, step = loader(Items(item, n=2000)), accelerator(20)
    run.ready()
    while not run.over():
        if next(epochs) == 1:
            threading.Thread(target=hold, daemon=True).start()
            sleep(100)
        for batch in data:
            step(batch)


@healthy(forbid="main_process worker_cpu", live=1_500_000,
         rules=[candidate("gc_pause", ">=", 0.05)])
def gc_by_itself(k):
    """Many live objects, and a training loop that allocates enough for full collections to start of
    themselves; the loader is fine."""
    def part():
        return [{"n": [i]} for i in range(k.live // 40)]
    kept = collections.deque((part() for _ in range(40)), maxlen=40)

    def step(batch):
        sleep(60)
        # new ones first, old ones go then: what is allocated beyond what was freed starts collections
        kept.append(part())
    train(loader(Items(lambda i: native(0.5))), step)


@healthy(forbid="worker_cpu main_process", around={"folder": True}, records=640)
def warm_mmap(k):
    """The data is a memory map, but in memory; a loop of 50 ms of Python in each step is what takes
    time."""
    size = 100 << 10
    path = k.data + "/records"
    with open(path, "wb") as file:
        for _ in range(k.records):
            file.write(os.urandom(size))
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def item(i):
        at = random.randrange(k.records) * size
        return torch.frombuffer(bytearray(data[at:at + size]), dtype=torch.uint8)
    train(loader(Items(item), batch_size=4), lambda batch: python(50))
