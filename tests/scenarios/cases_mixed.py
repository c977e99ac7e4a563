# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""More than one cause: at once, in different workers or loaders, or one after the other."""
from torch.utils.data import get_worker_info

from cases_storage import SLOW_DISK, some_file, some_record
from loads import Items, accelerator, cold_read, loader, model, native, run, sleep, train
from registry import Form, healthy, scenario
from rules import candidate, count, loader_verdict, says, share


# ---- at once ---------------------------------------------------------------------------------
@scenario("worker_cpu", around={"disk": SLOW_DISK}, ms=7.0,
          rules=[share("run", ">=", 0.45), share("disk", ">=", 0.2),
                 candidate("worker_cpu", ">=", 0.3), candidate("disk_read", ">=", 0.15)])
def cpu_and_disk(k):
    """Each item costs some 60 % computing and 40 % waiting for a slow disk; one worker."""
    def item(i):
        cold_read(some_file(k.data))
        native(k.ms)
    train(loader(Items(item), num_workers=1), accelerator(20))


@scenario("worker_cpu disk_read", around={"disk": SLOW_DISK}, ms=7.0,
          rules=[candidate("worker_cpu", ">=", 0.2), candidate("disk_read", ">=", 0.2)])
def unlike_workers(k):
    """One worker computes, the other waits for a slow disk."""
    def item(i):
        if get_worker_info().id:
            cold_read(some_file(k.data))
            cold_read(some_file(k.data))
        else:
            native(k.ms)
    train(loader(Items(item)), accelerator(20))


@healthy(around={"cpu_quota": 0.5}, rules=[says("quota|throttl")])
def quota_main(k):
    """The loader is fine, but a quota throttles the training process."""
    def step(batch):
        native(120)
    train(loader(Items(lambda i: native(0.05)), num_workers=1, prefetch_factor=8), step)


# ---- two loaders -----------------------------------------------------------------------------
def alternate(first, first_step, first_count, second, second_step, second_count):
    """Batches of two loaders by turns; each keeps its iterator."""
    one, two = iter(first), iter(second)
    while not run.over():
        for _ in range(first_count):
            first_step(next(one))
        for _ in range(second_count):
            second_step(next(two))


@scenario("worker_cpu disk_read", around={"disk": SLOW_DISK}, short=Form(2, 5),
          rules=[count("loaders[].id", "==", 2), loader_verdict(2, "worker_cpu"),
                 loader_verdict(1, "disk_read")])
def two_loaders(k):
    """The training loader computes, the validation loader reads from a slow disk."""
    run.ready()
    alternate(loader(Items(lambda i: native(5))), model(5), 30,
              loader(Items(lambda i: some_record(k.data)), "validation", num_workers=1,
                     batch_size=16), accelerator(5), 8)


@scenario("sleep", forbid="worker_cpu",
          rules=[count("loaders[].id", "==", 2), loader_verdict(2, "none"),
                 loader_verdict(1, "sleep")])
def slow_validation(k):
    """The training loader is fine, the validation loader sleeps."""
    run.ready()
    alternate(loader(Items(lambda i: native(0.5))), model(30), 20,
              loader(Items(lambda i: sleep(10)), "validation", num_workers=1), accelerator(5), 8)


# ---- one after the other: what the lines of single intervals say -------------------------------
@scenario("worker_cpu cpu_contention", around={"hogs": 5, "hogs_from": 4, "hogs_to": 9},
          full=Form(3, 14), short=Form(2, 14), ms=10.0,
          timeline=[("worker_cpu", "attached", "hogs"), ("cpu_contention", "hogs", "calm"),
                    ("worker_cpu", "calm", "ended")])
def contention_midway(k):
    """Others take the CPUs for five seconds in the middle; one worker."""
    train(loader(Items(lambda i: native(k.ms)), num_workers=1), accelerator(20))


@scenario("disk_read worker_cpu", around={"disk": SLOW_DISK}, full=Form(2, 10), switch=7.0,
          timeline=[("disk_read", "attached", "switch"), ("worker_cpu", "switch", "ended")])
def disk_then_cpu(k):
    """Data is read from a slow disk at first and then computed; one worker."""
    def item(i):
        if run.seconds() < k.switch:
            some_record(k.data)
        else:
            native(5)
    train(loader(Items(item), num_workers=1, batch_size=16), accelerator(20))
