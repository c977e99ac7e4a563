# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python's garbage collector, in workers and in the training process."""
import gc
import time

from loads import Items, accelerator, loader, python, train
from registry import Form, scenario
from rules import values


class Balance:
    """Collects garbage and computes so that the collector has a given part of the CPU time, as
    gc.callbacks tell it, in each process for itself."""

    def __init__(self, part):
        self.part, self.began, self.collected, self.computed, self.armed = part, 0.0, 0.0, 0.0, False

    def note(self, phase, info):
        now = time.thread_time()
        if phase == "start":
            self.began = now
        else:
            self.collected += now - self.began

    def item(self, index):
        if not self.armed:
            gc.callbacks.append(self.note)
            self.armed = True
        gc.collect()
        owed = self.collected * (1 - self.part) / self.part - self.computed
        if owed > 0:
            python(owed * 1e3)
            self.computed += owed


def objects(thousand):
    return [{"n": [i], "t": (i, [i])} for i in range(thousand * 1000)]


def collected(path, part, off=0.1):
    """The samples' share of the collector is the one the job took care of."""
    def rule(summary):
        pairs = [(w["gc_share"], w["gc_samples"]) for w in values(summary, path) if w["gc_samples"]]
        total = sum(samples for _, samples in pairs)
        if total < 40:
            return f"only {total} samples in {path}"
        share = sum(share * samples for share, samples in pairs) / total
        return None if abs(share - part) <= off else \
            f"gc_share of {path} is {share:.3f}, wanted {part} +- {off}"
    return rule


def where(place):
    return lambda summary: None if summary["verdict"]["where"] == place else \
        f"where is {summary['verdict']['where']}, wanted {place}"


@scenario("gc_pause", forbid="worker_cpu batch_transfer", short=Form(2, 6), part=0.8, thousand=25,
          rules=[collected("workers[]", 0.8), where("workers")])
def gc_workers(k):
    """Full collections over many live objects take four fifths of the workers' CPU time."""
    kept, balance = objects(k.thousand), Balance(k.part)
    train(loader(Items(balance.item), batch_size=4), accelerator(5))
    del kept


@scenario("worker_cpu", forbid="gc_pause", part=0.2, thousand=25,
          rules=[collected("workers[]", 0.2)])
def gc_workers_little(k):
    """The same, but the collector has a fifth of it: to compute is what takes time."""
    kept, balance = objects(k.thousand), Balance(k.part)
    train(loader(Items(balance.item), batch_size=4), accelerator(5))
    del kept


@scenario("worker_cpu", forbid="gc_pause", thousand=25, ms=8.0,
          rules=[collected("workers[]", 0, 0.25)])
def gc_workers_frozen(k):
    """The live objects are out of the collector's sight, as the advice for gc_workers says."""
    kept = objects(k.thousand)
    gc.collect()
    gc.freeze()

    def item(index):
        gc.collect(0)
        python(k.ms)
    train(loader(Items(item), batch_size=4), accelerator(5))
    del kept


@scenario("gc_pause", forbid="main_process", part=0.8, thousand=25,
          rules=[where("main"), lambda summary: None if abs(
              (summary["main"]["gc"]["inside_share"] or 0) - 0.8) <= 0.1 else
              f"inside_share is {summary['main']['gc']['inside_share']}, wanted 0.8 +- 0.1"])
def gc_inside(k):
    """num_workers=0: the training process collects while it makes its batches."""
    kept, balance = objects(k.thousand), Balance(k.part)
    train(loader(Items(balance.item), num_workers=0, batch_size=4), accelerator(5))
    del kept
