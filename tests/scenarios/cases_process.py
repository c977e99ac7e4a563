# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The training process itself, and the lives and deaths of its workers."""
import itertools
import os
import signal
import threading

import numpy as np

from loads import (IMAGE, Items, Stream, accelerator, loader, model, native, nothing, python, run,
                   sleep, train)
from registry import Form, scenario


# ---- the training process --------------------------------------------------------------------
@scenario("main_process", forbid="worker_cpu", ms=8.0)
def no_workers(k):
    """num_workers=0; real model."""
    train(loader(Items(lambda i: native(k.ms)), num_workers=0), model(20))


@scenario("main_process", forbid="worker_cpu batch_transfer", ms=50.0)
def slow_sampler(k):
    """A batch sampler computes in the training process, the workers have nothing to do; real model."""
    class Sampler:
        def __iter__(self):
            for n in itertools.count():
                python(k.ms)
                yield range(8 * n, 8 * n + 8)
    train(loader(Items(nothing), batch_size=1, batch_sampler=Sampler()), model(10))


# ---- births ----------------------------------------------------------------------------------
@scenario("worker_startup", forbid="worker_cpu slow_batch", short=Form(2, 5))
def respawn(k):
    """Short epochs, four workers born anew for each."""
    train(loader(Items(lambda i: native(0.2), n=64), num_workers=4), accelerator(10))


@scenario("worker_startup", forbid="worker_cpu slow_batch")
def iterator_per_step(k):
    """next(iter(loader)) in each step; real model."""
    data, step = loader(Items(lambda i: native(0.2))), model(20)
    run.ready()
    while not run.over():
        step(next(iter(data)))


@scenario("worker_startup", forbid="slow_batch", mode="launch", recorded=Form())
def spawn_dataset(k):
    """Spawned workers, and a dataset with two million paths that is pickled for each of them."""
    data = Items(nothing, n=100_000)
    data.paths = [(f"/data/images/{i}.jpg", i) for i in range(2_000_000)]
    train(loader(data, multiprocessing_context="spawn"), accelerator(20))


# ---- order and shards ------------------------------------------------------------------------
@scenario("slow_batch", forbid="worker_cpu sleep", short=Form(2, 6), ms=400.0)
def slow_sample(k):
    """One sample in 88 takes 400 ms and holds back the batches behind it; real model."""
    train(loader(Items(lambda i: native(k.ms if i % 88 == 0 else 0.5))), model(40))


@scenario("idle_workers", short=Form(2, 5))
def one_shard(k):
    """Four workers asked for, only the first has data."""
    def items(worker):
        for _ in range(320 if worker == 0 else 0):
            native(8)
            yield IMAGE
    train(loader(Stream(items), num_workers=4), accelerator(20))


# ---- no progress -----------------------------------------------------------------------------
@scenario("worker_stuck", bottleneck="stalled", forbid="worker_cpu sleep", exposed=None,
          short=Form(2, 6))
def fork_deadlock(k):
    """A thread holds a lock while the workers are forked: they wait for it for ever."""
    lock = threading.Lock()

    def hold():
        with lock:
            sleep(2000)

    def item(i):
        with lock:
            pass
    threading.Thread(target=hold, daemon=True).start()
    sleep(200)
    train(loader(Items(item)), accelerator(20))


@scenario("worker_died", bottleneck="stalled data_loading", forbid="worker_stuck", exposed=None,
          short=Form(2, 6, after=5.0), after=7.0)
def worker_killed(k):
    """A worker is killed while the job trains normally; real model."""
    def item(i):
        if run.seconds() > k.after and i % 50 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        native(0.5)
    train(loader(Items(item)), model(20))


@scenario("shm_exhausted", bottleneck="stalled data_loading", around={"shm_mb": 48}, exposed=None,
          recorded=Form(2, 6, after=4.0), after=6.0)
def shm_full(k):
    """The training loop keeps its batches, and /dev/shm is small."""
    kept = []

    def step(batch):
        sleep(20)
        if run.seconds() > k.after:
            kept.append(batch)
    train(loader(Items(lambda i: np.zeros(50_000, np.float32))), step)
