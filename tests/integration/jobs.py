# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The training jobs. One process runs many, one after the other, so that torch is imported once.

Commands are JSON lines on standard input: {"job": NAME, "truth": FOLDER, "args": {...}}, later
{"go": true} or {"stop": true} where the job waits for it. Answers on standard output:
{"event": "ready"}, {"event": "done", "result": ...}. Ends at end of input.
"""
import fcntl
import gc
import hashlib
import json
import mmap
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import queue
import random
import select
import socket
import subprocess
import sys
import threading
import time
import traceback
import zlib

import torch
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import homemade  # noqa: E402
import truth  # noqa: E402

BLOB = zlib.compress(random.Random(1).getrandbits(400_000).to_bytes(50_000, "little") + b"a" * 50_000, 1)
DIRECT_BYTES = 4 << 20  # checks_states.py knows this, too
FAULT_STEP = 256 << 10  # beyond the readahead window: every touch waits for the disk


# ---- control ---------------------------------------------------------------------------------
class Control:
    def __init__(self):
        self.buffer = b""
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)

    def read(self):
        """The next command, or None at the end of input."""
        while b"\n" not in self.buffer:
            data = os.read(0, 65536)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def say(self, **message):
        os.write(1, json.dumps(message).encode() + b"\n")

    def ready(self):
        self.say(event="ready")

    def wait(self):
        if self.read() is None:
            sys.exit(0)

    def over(self):
        """Has the test said stop? It then reads the command."""
        if not self.buffer and not self.poll.poll(0):
            return False
        self.wait()
        return True


# ---- loads -----------------------------------------------------------------------------------
def native(ms):
    """zlib, for so much CPU time of this thread; holds no GIL."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        zlib.decompress(BLOB)


def python(ms):
    end, x = time.thread_time() + ms / 1e3, 0
    while time.thread_time() < end:
        for i in range(300):
            x += i


class ColdFile:
    """A file whose reads wait for the disk. One per process: file offsets are not shared."""

    def __init__(self, path):
        self.path, self.size = path, os.path.getsize(path)
        self.direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.plain = os.open(path, os.O_RDONLY)
        self.room = mmap.mmap(-1, DIRECT_BYTES)
        self.at = random.Random(os.getpid())

    def read(self, times=1):
        for _ in range(times):
            block = self.at.randrange(self.size // DIRECT_BYTES)
            os.preadv(self.direct, [self.room], block * DIRECT_BYTES)

    def fault(self, times):
        """Touches pages of a fresh mapping that are not in memory."""
        os.posix_fadvise(self.plain, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(self.plain, 0, prot=mmap.PROT_READ) as pages:
            places = self.at.sample(range(self.size // FAULT_STEP), times)

            def touch():
                for place in places:
                    pages[place * FAULT_STEP]
            truth.timed_wait("fault", touch)


class Helper:
    """A thread that does what it is told, for waits that need a second party."""

    def __init__(self):
        self.jobs = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            self.jobs.get()()


class Waits:
    """Waits of a known kind, timed by the worker itself."""

    def __init__(self, kind, ms, path):
        self.kind, self.s, self.path = kind, ms / 1e3, path
        self.wait = getattr(self, kind)
        getattr(self, "open_" + kind, lambda: None)()

    def sleep(self):
        truth.timed_wait("sleep", lambda: time.sleep(self.s))

    def open_disk(self):
        self.cold = ColdFile(self.path)

    def disk(self):
        truth.timed_wait("disk", self.cold.read)

    open_fault = open_disk

    def fault(self):
        self.cold.fault(40)

    def open_thread(self):
        self.helper, self.mutex = Helper(), threading.Lock()

    def thread(self):
        """Another thread holds the lock."""
        def release():
            time.sleep(self.s)
            self.mutex.release()
        self.mutex.acquire()
        self.helper.jobs.put(release)
        truth.timed_wait("thread", self.mutex.acquire)
        self.mutex.release()

    def open_flock(self):
        self.helper, self.held = Helper(), threading.Semaphore(0)
        path = f"{self.path}.lock"
        self.mine = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.other = os.open(path, os.O_RDWR)

    def flock(self):
        def hold():
            fcntl.flock(self.other, fcntl.LOCK_EX)
            self.held.release()
            time.sleep(self.s)
            fcntl.flock(self.other, fcntl.LOCK_UN)
        self.helper.jobs.put(hold)
        self.held.acquire()
        truth.timed_wait("flock", lambda: fcntl.flock(self.mine, fcntl.LOCK_EX))
        fcntl.flock(self.mine, fcntl.LOCK_UN)

    def open_socket(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.sock = socket.create_connection(listener.getsockname())
        self.peer = listener.accept()[0]
        listener.close()
        self.helper = Helper()

    def socket(self):
        def answer():
            self.peer.recv(1)
            time.sleep(self.s)
            self.peer.send(b"x")
        self.helper.jobs.put(answer)
        self.sock.send(b"x")
        truth.timed_wait("socket", lambda: self.sock.recv(1))


def devour(procs, mb, at):
    """Takes more memory than the control group has, which this process enters for that."""
    with open(procs, "w") as file:
        file.write(str(os.getpid()))
    with mmap.mmap(-1, mb << 20) as room:
        for page in range(0, len(room), mmap.PAGESIZE):
            room[page] = 1
    raise RuntimeError(f"{mb} MB did not kill the reader of item {at}")


class Storm:
    """A child that forks, so many times at such a rate. finish() waits for all of them."""

    SCRIPT = """
import os, sys, time
count, rate = int(sys.argv[1]), float(sys.argv[2])
begun, well = time.monotonic(), 0
for i in range(count):
    child = os.fork()
    if not child:
        os._exit(i % 5)
    well += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == i % 5
    time.sleep(max(0, begun + i / rate - time.monotonic()))
print(well, time.monotonic() - begun)
"""

    def __init__(self, count, rate):
        self.process = subprocess.Popen([sys.executable, "-ISc", self.SCRIPT, str(count), str(rate)],
                                        stdout=subprocess.PIPE, text=True)

    def finish(self):
        """(children that ended as they should, seconds that it took)"""
        well, took = self.process.communicate()[0].split()
        return int(well), float(took)


class Stage:
    """A record_function scope and the times around and inside its edges."""

    def __init__(self, label):
        self.label, self.scope = label, record_function(label)

    def __enter__(self):
        self.s = truth.now()
        self.scope.__enter__()
        self.s1 = truth.now()

    def __exit__(self, *error):
        t1 = truth.now()
        self.scope.__exit__(*error)
        truth.stage(self.label, self.s, self.s1, t1, truth.now())


class Work:
    """What an item costs: kind, ms, and what else the kind needs."""

    def __init__(self, kind="cpu", ms=1.0, path=None, kinds=None, fail_at=None, gluttony=None):
        self.kind, self.ms, self.path, self.kinds, self.fail_at = kind, ms, path, kinds, fail_at
        self.gluttony, self.open = gluttony, None

    def __call__(self, i):
        if i == self.fail_at:
            raise ValueError(f"item {i} cannot be made")
        if self.gluttony and i == self.gluttony["at"]:
            devour(**self.gluttony)
        more = getattr(self, "do_" + self.kind)(i) or 0
        return torch.full((64,), float(i % 97 + more))

    def do_cpu(self, i):
        native(self.ms)

    def do_python(self, i):
        python(self.ms)

    def do_uneven(self, i):
        """Some items take long, so that workers overtake each other."""
        native(self.ms * (6 if i % 13 == 0 else 1))

    def do_sleep(self, i):
        time.sleep(self.ms / 1e3)

    def do_calls(self, i):
        """As many system calls as will go into the time."""
        end = time.monotonic() + self.ms / 1e3
        while time.monotonic() < end:
            for _ in range(100):
                os.getppid()

    def do_fork(self, i):
        """Each fifth item is counted by a child."""
        if i % 5:
            return native(self.ms)
        child = os.fork()
        if not child:
            os._exit(i % 7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def do_nothing(self, i):
        pass

    def do_disk(self, i):
        self.open = self.open or ColdFile(self.path)
        self.open.read()

    def do_fault(self, i):
        self.open = self.open or ColdFile(self.path)
        self.open.fault(60)

    def do_labels(self, i):
        """Many scopes at once: more events than a small ring holds."""
        for _ in range(100):
            with record_function("item label"):
                pass

    def do_many(self, i):
        """The same, counted."""
        start = truth.now()
        for _ in range(200):
            with record_function("many"):
                pass
        truth.stage("many", start, start, truth.now(), truth.now(), 200)

    def do_stages(self, i):
        """Its name says where it is; of the item some is outside of the scopes inside."""
        with Stage("item"):
            with Stage("item: read"):
                time.sleep(self.ms / 1e3)
            native(self.ms)
            with Stage("item: decode"):
                with Stage("item: inner"):
                    native(self.ms)

    def do_waits(self, i):
        if self.open is None:
            self.open = Waits(self.kinds[get_worker_info().id % len(self.kinds)], self.ms, self.path)
        # batches come in order: each worker gets its share only if all take as long
        end = time.monotonic() + 6 * self.ms / 1e3
        while time.monotonic() < end:
            self.open.wait()


class Items(Dataset):
    def __init__(self, work, n):
        self.work, self.n = work, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.work(i)


class Stream(IterableDataset):
    """Worker w has lengths[w] items."""

    def __init__(self, work, lengths):
        self.work, self.lengths = work, lengths

    def __iter__(self):
        info = get_worker_info()
        for i in range(self.lengths[info.id if info else 0]):
            yield self.work(i)


def collate(samples):
    return torch.stack(samples), os.getpid()


def staged_collate(samples):
    with Stage("collate"):
        native(0.5)
        return collate(samples)


def fake_pinning():
    """Lets the pinning thread run on a machine without an accelerator; nothing is pinned."""
    from torch.utils.data._utils import pin_memory
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    torch.Tensor.pin_memory = lambda self, *device: self
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda *a, **k: torch.device("cuda")
        torch.accelerator.current_device_index = lambda: 0
        torch.accelerator.set_device_index = lambda index: None
    return pin_memory


def make_loader(name, work=None, n=None, lengths=None, batch=4, seed=None, **options):
    work = Work(**(work or {}))
    data = Stream(work, lengths) if lengths else Items(work, n or 1_000_000)
    if seed is not None:
        options.update(shuffle=True, generator=torch.Generator().manual_seed(seed))
    join = staged_collate if work.kind == "stages" else collate
    loader = DataLoader(data, batch_size=batch, collate_fn=join, **options)
    loader.truth_name = name
    return loader


def digest(tensors):
    """Of every bit of them."""
    state = hashlib.sha256()
    for value in tensors:
        state.update(bytes(value.detach().flatten().view(torch.uint8).tolist()))
    return state.hexdigest()


class Training:
    """A small model, and ms on an accelerator that the host only waits for."""

    def __init__(self, ms=0.0, busy_ms=0.0, labels=0, stages=False):
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-6)
        self.ms, self.busy_ms, self.labels, self.stages = ms, busy_ms, labels, stages

    def __call__(self, batch):
        self.optimizer.zero_grad()
        loss = self.net(batch[0]).square().mean()
        loss.backward()
        self.optimizer.step()
        if self.busy_ms:
            python(self.busy_ms)
        if self.ms:
            time.sleep(self.ms / 1e3)
        if self.stages:
            with Stage("train"):
                python(1)
                with Stage("train: wait"):
                    time.sleep(1e-3)
        for _ in range(self.labels):
            with record_function("step label"):
                pass
        return loss

    def digest(self):
        return digest(self.net.parameters())


# ---- jobs ------------------------------------------------------------------------------------
def steady(control, loader, step=None, warm=4, say=()):
    """Trains until it is told to stop; ready after `warm` batches."""
    made, train, done = make_loader("train", **loader), Training(**(step or {})), 0
    while True:
        for batch in made:
            train(batch)
            done += 1
            if done == warm:
                control.ready()
            if control.over():
                return {"pid": batch[1]}


def plan(control, loaders, epochs, step=None, thread=False):
    """Waits for go, then iterates: epochs = [[name of loader, most batches or None], ...]."""
    train, errors = Training(**(step or {})), []

    def run():
        made = {name: make_loader(name, **options) for name, options in loaders.items()}
        for name, most in epochs:
            it = iter(made[name])
            try:
                for done, batch in enumerate(it):
                    train(batch)
                    if most is not None and done + 1 >= most:
                        break
            except Exception as e:
                errors.append(f"{type(e).__name__}: {str(e)[:200]}")
                # else the frames keep the iterator until the next collection
                traceback.clear_frames(e.__traceback__)
            # as a `for` statement would: a loader's own iterator lives on, others end here
            del it
            gc.collect()

    if any(options.get("pin_memory") for options in loaders.values()):
        fake_pinning()
    # processes of the interpreter's own: the first spawning would start them, in the midst of iter()
    contexts = {options.get("multiprocessing_context") for options in loaders.values()}
    if contexts & {"spawn", "forkserver"}:
        multiprocessing.resource_tracker.ensure_running()
    if "forkserver" in contexts:
        multiprocessing.forkserver.ensure_running()
    control.ready()
    control.wait()
    if thread:
        runner = threading.Thread(target=run)
        runner.start()
        runner.join()
    else:
        run()
    return {"errors": errors}


def fixed(control, steps, loader):
    """A fixed number of steps; the result tells whether anything in the training differed."""
    made, train = make_loader("train", **loader), Training()
    for done, batch in enumerate(made):
        train(batch)
        if done == 20:
            control.ready()
        if done + 1 == steps:
            break
    return {"digest": train.digest()}


def forking(control, loader, spawn, step=None):
    """steady, beside a thread that starts one process after the other."""
    over = threading.Event()

    def run():
        while not over.is_set():
            os.waitpid(os.posix_spawn(spawn, [spawn], {}), 0)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        return steady(control, loader, step)
    finally:
        over.set()
        thread.join()


def own_loader(control, step=None, **options):
    return homemade.homemade(control, Training(**(step or {})), **options)


def endure(control, epochs, loader, step=None, storm=None, gluttony=None):
    """Epochs whose results are the same however long anything takes. One in which a worker dies is
    trained again from the model at its beginning, as from a checkpoint. gluttony: a worker of the
    last epoch eats itself to death."""
    train, results, failures = Training(**(step or {})), [], []
    control.ready()
    control.wait()
    storm = storm and Storm(**storm)
    for epoch in range(epochs):
        start = {name: value.clone() for name, value in train.net.state_dict().items()}
        for attempt in range(2):
            work = {**loader["work"], "gluttony": gluttony if epoch == epochs - 1 and not attempt else None}
            made = make_loader(f"epoch {epoch}", **{**loader, "work": work, "seed": epoch})
            try:
                results += [digest(x for batch in made for x in (batch[0], train(batch)))]
                break
            except RuntimeError as e:
                failures.append(str(e))
                traceback.clear_frames(e.__traceback__)
                train.net.load_state_dict(start)
    forks, took = storm.finish() if storm else (0, 0)
    return {"same": [results, train.digest(), forks], "failures": failures, "storm_s": took}


JOBS = {f.__name__: f for f in (steady, plan, fixed, forking, own_loader, endure)}


def main():
    torch.set_num_threads(1)
    truth.install()
    control = Control()
    control.say(event="up", torch=torch.__version__, python=sys.version.split()[0], pid=os.getpid())
    while True:
        command = control.read()
        if command is None:
            return
        if "job" not in command:  # a stop that came after the job's own end
            continue
        truth.begin(command["truth"])
        try:
            result = JOBS[command["job"]](control, **command["args"])
        except Exception as e:
            traceback.print_exc()
            result = {"error": f"{type(e).__name__}: {e}"}
        gc.collect()
        # it has this job's environment, and its children would have it
        multiprocessing.forkserver._forkserver._stop()
        truth.finish()
        control.say(event="done", result=result)


if __name__ == "__main__":
    main()
elif os.environ.get(truth.FOLDER):  # a spawned worker
    torch.set_num_threads(1)
    truth.install_fetch()
