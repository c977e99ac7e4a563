# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Workers that compute, and what keeps them from a CPU."""
import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness import Skip
from loads import Items, accelerator, loader, model, native, python, train
from registry import Form, scenario, variant
from rules import figure


@scenario("worker_cpu", ms=10.0)
def cpu_python(k):
    """Pure Python in __getitem__, one worker."""
    train(loader(Items(lambda i: python(k.ms)), num_workers=1), accelerator(20))


@scenario("worker_cpu", short=Form(2, 5), ms=10.0, step=20.0)
def cpu_zlib(k):
    """Decompression in native code, real model."""
    train(loader(Items(lambda i: native(k.ms))), model(k.step))


# batches take so long that even the longest step has to wait for them
variant("cpu_zlib", "cpu_zlib_step_half", "cpu_zlib, the trainer twice as fast", ms=20.0, step=10.0)
variant("cpu_zlib", "cpu_zlib_step_double", "cpu_zlib, the trainer half as fast", ms=20.0, step=40.0)


@scenario("worker_cpu", size=512)
def cpu_jpeg(k):
    """PIL decodes JPEGs that are already in memory; one worker, real model."""
    try:
        from PIL import Image
    except ImportError:
        raise Skip("this Python has no pillow") from None
    noise = np.random.default_rng(1).integers(0, 255, (k.size, k.size, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG", quality=90)

    def decode(i):
        image = Image.open(file).convert("RGB").resize((32, 32))
        return np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    train(loader(Items(decode), num_workers=1), model(20))


@scenario("cpu_oversubscription", short=Form(2, 6), ms=12.0, threads=8,
          rules=[figure("max", "workers[].native_threads_max", ">=", 8)])
def cpu_threads(k):
    """Four workers split every item over eight native threads each."""
    pools = {}

    def item(i):
        if os.getpid() not in pools:
            pools[os.getpid()] = ThreadPoolExecutor(k.threads)
        part = k.ms / k.threads
        rest = [pools[os.getpid()].submit(native, part) for _ in range(k.threads - 1)]
        native(part)
        for other in rest:
            other.result()
    train(loader(Items(item), num_workers=4), accelerator(20))


@scenario("cpu_affinity", short=Form(2, 5), ms=10.0,
          rules=[figure("max", "workers[].affinity_cpus", "==", 1)])
def affinity_workers(k):
    """worker_init_fn leaves every worker on CPU 0, the training process may use all; real model."""
    train(loader(Items(lambda i: native(k.ms)), num_workers=3,
                 worker_init_fn=lambda worker: os.sched_setaffinity(0, {0})), model(20))


@scenario("cpu_affinity", around={"cpus": [0]}, ms=10.0,
          rules=[figure("max", "system.cpus_allowed", "==", 1)])
def affinity_job(k):
    """The whole job, not only its workers, was started on one CPU."""
    train(loader(Items(lambda i: native(k.ms)), num_workers=3), accelerator(20))


@scenario("cpu_quota", around={"cpu_quota": 0.5}, short=Form(2, 6), ms=10.0,
          rules=[figure("max", "system.cgroup.throttled_periods", ">", 10),
                 figure("max", "system.cgroup.quota_cpus", "~", 0.5)])
def quota(k):
    """A control group allows the job half a CPU; real model."""
    train(loader(Items(lambda i: native(k.ms))), model(20))


@scenario("cpu_contention", around={"hogs": 5}, short=Form(2, 5), ms=10.0,
          rules=[figure("sum", "system.steal_by_others[].cpu_us", ">", 1e6)])
def contention(k):
    """Five busy processes that do not belong to the job."""
    train(loader(Items(lambda i: native(k.ms))), accelerator(20))
