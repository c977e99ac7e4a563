# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Nothing is wrong with the loader, and nothing may be said to be."""
import gc
import itertools

from loads import Items, accelerator, loader, model, native, train
from registry import Form, healthy
from rules import candidate, count


@healthy(forbid="worker_cpu main_process")
def compute_bound(k):
    """The step itself takes 80 ms of CPU, workers wait for room; real model."""
    small = model()

    def step(batch):
        small(batch)
        native(80)
    train(loader(Items(lambda i: native(1))), step)


@healthy()
def fast_loader(k):
    """Light items, 60 ms a step, real model."""
    train(loader(Items(lambda i: native(0.5))), model(60))


@healthy(forbid="worker_cpu", short=Form(2, 5))
def prefetch_full(k):
    """Items are dear, but the step is longer still: 40 ms a batch against 100 ms a step."""
    train(loader(Items(lambda i: native(5))), accelerator(100))


@healthy(forbid="worker_startup", rules=[count("workers[].pid", "==", 2)])
def persistent(k):
    """Epochs of about a second with persistent workers; real model."""
    train(loader(Items(lambda i: native(0.5), n=160), persistent_workers=True), model(60))


@healthy(forbid="slow_batch worker_cpu")
def any_order(k):
    """Slow samples as in slow_sample, but in_order=False: batches that are ready are not held back."""
    train(loader(Items(lambda i: native(400 if i % 176 == 0 else 0.5)), in_order=False,
                 num_workers=3, prefetch_factor=4), accelerator(60))


@healthy(forbid="main_process worker_cpu", rules=[candidate("gc_pause", ">=", 0.05)])
def gc_main(k):
    """gc.collect() over two million objects in every tenth step, the loader is fine; real model."""
    junk = [{"a": [i]} for i in range(1_000_000)]
    numbers, small = itertools.count(1), model(60)

    def step(batch):
        small(batch)
        if next(numbers) % 10 == 0:
            gc.collect()
    train(loader(Items(lambda i: native(0.5))), step)
    del junk
