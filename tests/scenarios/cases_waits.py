# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Locks, the GIL, sleeping, memory, and batches that are dear to hand over."""
import fcntl
import gc
import os
import random
import threading

import numpy as np
import torch

from loads import (Items, accelerator, as_is, background, loader, model, native, python, sleep,
                   train)
from registry import Form, scenario, variant
from rules import share


# ---- locks -----------------------------------------------------------------------------------
@scenario("lock_wait", forbid="worker_cpu gil_contention sleep", around={"folder": True},
          short=Form(2, 5), rules=[share("lock", ">=", 0.5)], ms=4.0, step=20.0)
def file_lock(k):
    """Four workers, one lock file; each item is made while the lock is held."""
    def item(i):
        with open(k.data + "/lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            native(k.ms)
    train(loader(Items(item), num_workers=4), accelerator(k.step))


variant("file_lock", "file_lock_step_half", "file_lock, the trainer twice as fast", ms=8.0,
        step=10.0)
variant("file_lock", "file_lock_step_double", "file_lock, the trainer half as fast", ms=8.0,
        step=40.0)


@scenario("lock_wait", forbid="worker_cpu gil_contention", rules=[share("lock", ">=", 0.5)])
def thread_lock(k):
    """A thread of each worker keeps a lock for most of the time; real model."""
    lock, started = threading.Lock(), set()

    def hold():
        with lock:
            sleep(20)
        sleep(0.5)

    def item(i):
        if os.getpid() not in started:
            started.add(os.getpid())
            background(hold)
        with lock:
            native(0.5)
    train(loader(Items(item)), model(20))


@scenario("gil_contention", forbid="sleep", rules=[share("gil", ">=", 0.4)], ms=4.0, threads=3)
def gil_threads(k):
    """Three Python threads in each worker compete with its main thread for the interpreter."""
    def start(worker):
        for _ in range(k.threads):
            background(python, 50)
    train(loader(Items(lambda i: python(k.ms)), worker_init_fn=start), accelerator(20))


@scenario("sleep", forbid="worker_cpu lock_wait", ms=12.0)
def backoff(k):
    """Each item sleeps before it is tried again; real model."""
    train(loader(Items(lambda i: sleep(k.ms))), model(20))


# ---- memory ----------------------------------------------------------------------------------
@scenario("memory_pressure", million=8)
def cow_list(k):
    """Reading a big list of objects after fork copies every page it touches; one worker."""
    data = [(i, i) for i in range(k.million * 1_000_000)]
    # about one object of each page
    order = random.Random(1).sample(range(0, len(data), 40), len(data) // 40)
    gc.freeze()

    def item(i):
        for place in order[200 * i:200 * i + 200]:
            data[place]
    train(loader(Items(item, n=1000), num_workers=1), accelerator(5))


# ---- transfer --------------------------------------------------------------------------------
@scenario("batch_transfer main_process", forbid="worker_cpu")
def many_objects(k):
    """Each sample is a dict of 100 lists, and the training process has to unpickle them all."""
    samples = [{f"key{j}": [1000 * j + m + n for m in range(50)] for j in range(100)}
               for n in range(16)]
    train(loader(Items(lambda i: samples[i % 16]), batch_size=16, collate_fn=as_is), accelerator(5))


@scenario("batch_transfer", forbid="worker_cpu", tensors=20, batch=16)
def many_tensors(k):
    """Each sample is a list of 20 small tensors, each handed over by a descriptor of its own."""
    train(loader(Items(lambda i: [torch.zeros(4) for _ in range(k.tensors)]), batch_size=k.batch,
                 collate_fn=as_is), accelerator(5))


@scenario("batch_transfer", forbid="slow_batch", mb=128)
def huge_tensor(k):
    """A batch is one big array: quick to make, slow to copy into shared memory."""
    batch = np.ones((k.mb << 18,), np.float32)
    train(loader(Items(lambda i: batch), batch_size=None), accelerator(10))
