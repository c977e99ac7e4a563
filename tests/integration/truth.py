# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the training job itself saw, as JSON lines on CLOCK_MONOTONIC nanoseconds.

Each process writes a file of its own, FOLDER/PID. Events (key "e"):
  iter   {s, t, it, loader, workers, tid}    one iter(loader); `it` numbers the iterator objects
  next   {s, t, s1, t1, it, loader, i, idx, pid, stop, error, tid, out}   one GetNext, the i-th of its
         iterator: s and t around __next__(), s1 and t1 around the part of it that torch's own
         record_function scope surrounds, so that the scope's edges lie between s and s1, t1 and t;
         idx: the batch's number in its epoch; pid: process that made the batch; out: batches that
         torch had asked for and not returned at s (null without workers)
  fetch  {s, t, pid, cpu0, cpu1, stop}       one batch made (stop: none was left); thread CPU time
         at s and t
  wait   {s, t, pid, kind, busy, faults}     a wait of known kind; busy: its part on a CPU or waiting
                                             for one; faults: major ones
  stage  {s, s1, t1, t, pid, label, n}       n record_function scopes: s, t around, s1, t1 inside
The first half runs inside the job, load() in the tests; standard library only.
"""
import json
import multiprocessing.util
import os
import resource
import threading
import time

now = time.monotonic_ns
cpu = time.thread_time_ns
FOLDER = "DLP_TEST_TRUTH"  # in the environment, so that spawned workers know it too
FLUSH_NS = 300_000_000


class _Log:
    def __init__(self):
        self.pid = self.folder = None
        self.lines, self.flushed = [], 0

    def write(self, event):
        if self.pid != os.getpid():
            self.pid, self.lines, self.flushed = os.getpid(), [], now()
            self.folder = os.environ[FOLDER]
            self.main = multiprocessing.current_process().name == "MainProcess"
            if not self.main:
                multiprocessing.util.Finalize(None, self.flush, exitpriority=0)
        self.lines.append(event)
        # the training process writes at the end only: no pauses of our own making
        if not self.main and now() - self.flushed > FLUSH_NS:
            self.flush()

    def flush(self):
        lines, self.lines, self.flushed = self.lines, [], now()
        if lines:
            with open(os.path.join(self.folder, str(self.pid)), "ab", 0) as file:
                file.write("".join(json.dumps(e) + "\n" for e in lines).encode())


_log = _Log()
_iterators = [0]


def begin(folder):
    """Starts a new record in this (the training) process."""
    os.environ[FOLDER] = folder
    _log.pid = None
    _iterators[0] = 0


def finish():
    if _log.pid == os.getpid():
        _log.flush()


def run_delay():
    """Nanoseconds this thread was runnable without a CPU; 0 where the kernel does not count."""
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def timed_wait(kind, function):
    delay, faults = run_delay(), resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
    start, cpu0 = now(), cpu()
    function()
    busy, end = cpu() - cpu0, now()
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_majflt - faults
    _log.write({"e": "wait", "s": start, "t": end, "pid": os.getpid(), "kind": kind,
                "busy": busy + run_delay() - delay, "faults": faults})


def stage(label, s, s1, t1, t, n=1):
    _log.write({"e": "stage", "s": s, "s1": s1, "t1": t1, "t": t, "pid": os.getpid(),
                "label": label, "n": n})


def call(s, s1, t1, t, loader, i):
    """One GetNext of a loader that is not torch's, which has a single iterator."""
    _log.write({"e": "next", "s": s, "t": t, "s1": s1, "t1": t1, "it": 0, "loader": loader, "i": i,
                "idx": None, "pid": os.getpid(), "stop": False, "error": False,
                "tid": threading.get_native_id()})


def _position(iterator):
    if hasattr(iterator, "_rcvd_idx"):
        return iterator._rcvd_idx - 1
    return iterator._num_yielded - 1


def install_fetch():
    """In every process that makes batches."""
    from torch.utils.data._utils import fetch as fetchers

    def wrap(inner):
        def fetch(self, index):
            stop = False
            start, cpu0 = now(), cpu()
            try:
                return inner(self, index)
            except StopIteration:
                stop = True
                raise
            finally:
                cpu1, end = cpu(), now()
                _log.write({"e": "fetch", "s": start, "t": end, "pid": os.getpid(), "cpu0": cpu0,
                            "cpu1": cpu1, "stop": stop})
        return fetch
    for cls in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        cls.fetch = wrap(cls.fetch)


def install(makers=True):
    """In the training process. Loaders carry their name in .truth_name; makers: the second member
    of each batch is the pid of its maker."""
    from torch.utils.data import DataLoader, dataloader
    iter0, next0 = DataLoader.__iter__, dataloader._BaseDataLoaderIter.__next__

    def __iter__(self):
        start = now()
        try:
            it = iter0(self)
        except BaseException:  # a worker died while others were being started
            _log.write({"e": "no_iter", "s": start, "t": now(), "loader": self.truth_name})
            raise
        end = now()
        if not hasattr(it, "truth"):
            _iterators[0] += 1
            it.truth, it.truth_calls = {"it": _iterators[0], "loader": self.truth_name}, 0
        _log.write({"e": "iter", "s": start, "t": end, **it.truth,
                    "workers": [w.pid for w in getattr(it, "_workers", [])],
                    "tid": threading.get_native_id()})
        return it

    def __next__(self):
        stop = error = False
        pid = idx = None
        self.truth_inner = None
        out = self._send_idx - self._rcvd_idx if hasattr(self, "_send_idx") else None
        start = now()
        try:
            batch = next0(self)
            pid, idx = batch[1] if makers else None, _position(self)
            return batch
        except StopIteration:
            stop = True
            raise
        except BaseException:
            error = True
            raise
        finally:
            end = now()
            start1, end1 = self.truth_inner or (start, end)
            _log.write({"e": "next", "s": start, "t": end, "s1": start1, "t1": end1, **self.truth,
                        "i": self.truth_calls,
                        "idx": idx, "pid": pid, "stop": stop, "error": error, "out": out,
                        "tid": threading.get_native_id()})
            self.truth_calls += 1

    def inner(next_data):
        def _next_data(self):
            start = now()
            try:
                return next_data(self)
            finally:
                self.truth_inner = start, now()
        return _next_data

    DataLoader.__iter__, dataloader._BaseDataLoaderIter.__next__ = __iter__, __next__
    for cls in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
        cls._next_data = inner(cls._next_data)
    install_fetch()


class Truth:
    """All that a job wrote, in order of time."""

    def __init__(self, folder):
        events = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name)) as file:
                for line in file:
                    try:
                        events.append(json.loads(line))
                    except ValueError:  # cut off by a kill
                        pass
        events.sort(key=lambda e: e["s"])
        self.iters = [e for e in events if e["e"] == "iter"]
        self.no_iters = [e for e in events if e["e"] == "no_iter"]
        self.nexts = [e for e in events if e["e"] == "next"]
        self.fetches = [e for e in events if e["e"] == "fetch"]
        self.waits = [e for e in events if e["e"] == "wait"]
        self.stages = [e for e in events if e["e"] == "stage"]

    def main_tid(self):
        """The thread that spent most time in GetNext."""
        spent = {}
        for e in self.nexts:
            spent[e["tid"]] = spent.get(e["tid"], 0) + e["t"] - e["s"]
        return max(spent, key=spent.get) if spent else None

    def iterators(self):
        """{it: {loader, workers, s}} of the iterator objects."""
        found = {}
        for e in self.iters:
            found.setdefault(e["it"], {"loader": e["loader"], "workers": e["workers"], "s": e["s"],
                                       "t": e["t"]})
        return found


def overlap(events, start, end):
    return sum(max(0, min(e["t"], end) - max(e["s"], start)) for e in events)


def cpu_in(truth, pid, start, end):
    """(least, most) nanoseconds of CPU time of a worker's main thread from start to end. Known at
    the edges of each fetch and interpolated between them; outside of them only bounded."""
    points = []
    for e in truth.fetches:
        if e["pid"] == pid:
            points += [(e["s"], e["cpu0"]), (e["t"], e["cpu1"])]
    if len(points) < 2:
        return None

    def at(x):
        (first, cpu_first), (last, cpu_last) = points[0], points[-1]
        if x <= first:
            return max(0, cpu_first - (first - x)), cpu_first
        if x >= last:
            return cpu_last, cpu_last + (x - last)
        for (t0, c0), (t1, c1) in zip(points, points[1:]):
            if t0 <= x <= t1:
                c = c0 + (c1 - c0) * (x - t0) / max(1, t1 - t0)
                return c, c
        return cpu_last, cpu_last
    (start_low, start_high), (end_low, end_high) = at(start), at(end)
    return max(0, end_low - start_high), end_high - start_low
