# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A loader that owes nothing to torch's: threads that make batches, and a queue. Its __next__ is one
record_function scope, whose label a user gives with --getnext."""
import os
import queue
import threading
import time

import torch
from torch.autograd.profiler import record_function

import truth

LABEL = "Feeder[2] fetch"


class Feeder:
    def __init__(self, threads=2, ms=4.0, batch=4):
        self.ready, self.ended = queue.Queue(2 * threads), threading.Event()
        self.ms, self.batch, self.calls = ms, batch, 0
        self.threads = [threading.Thread(target=self.make, args=(n,)) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def make(self, number):
        made = 0
        while not self.ended.is_set():
            time.sleep(self.ms / 1e3 * (1 + (made + number) % 3))
            made += 1
            while not self.ended.is_set():
                try:
                    self.ready.put((torch.zeros(self.batch, 64), os.getpid()), timeout=0.1)
                    break
                except queue.Full:
                    pass

    def __iter__(self):
        return self

    def __next__(self):
        start = truth.now()
        with record_function(LABEL):
            start1 = truth.now()
            batch = self.ready.get()
            end1 = truth.now()
        truth.call(start, start1, end1, truth.now(), "feeder", self.calls)
        self.calls += 1
        return batch

    def close(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def homemade(control, train, warm=4, **options):
    """Trains until it is told to stop; ready after `warm` batches."""
    feeder = Feeder(**options)
    for done, batch in enumerate(feeder):
        train(batch)
        if done == warm:
            control.ready()
        if done > warm and control.over():
            break
    feeder.close()
    return {"calls": feeder.calls}
