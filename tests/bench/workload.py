#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The training jobs of bench.py. Need torch, numpy and, for W2, Pillow.

W1  fast loop: a numpy transform in the workers, a linear model (about 150 steps/s)
W2  a typical job: JPEG decoding and augmentation in the workers, a small CNN (about 30 steps/s)
W3  64 tiny files per sample from a warm cache (500,000 system calls a second)
W4  1000 pread() per sample (100,000 a second and worker)

Each is an ordinary `for x, y in DataLoader: zero_grad, forward, backward, SGD.step`. What the
runner wants to know goes to a shared mapping, without a system call. Its 64-bit words:

  [PID]                 of the trainer, written when all is set up
  [STEPS]               done so far
  [SPINS + k]           spins of process k so far (0 trainer, 1.. workers)
  [stamp(i)]            CLOCK_MONOTONIC ns at the end of step i
  [spin(k, i) .. + 1]   when spin i of process k began, and how long it took (ns)

A spin is a fixed Python loop of a few us: on a shared host it tells how fast the CPU was just then
for that process, so that the runner can tell a slow host from a slow tool.
"""
import argparse
import mmap
import os
import random
import time

PID, STEPS, SPINS = 0, 1, 8
PROCESSES = 8
RING = 1 << 16
_STAMPS = 64
_RINGS = _STAMPS + RING
WORDS = _RINGS + PROCESSES * 2 * RING
ENDLESS = 1 << 40


def stamp(i):
    return _STAMPS + i % RING


def spin(k, i):
    return _RINGS + 2 * (k * RING + i % RING)


def share(path):
    """The mapping as an array of 64-bit words."""
    with open(path, "r+b") as f:
        return memoryview(mmap.mmap(f.fileno(), WORDS * 8)).cast("Q")


def make_data(root):
    """Small data sets, the same every time, made once."""
    done = os.path.join(root, "done")
    if os.path.exists(done):
        return
    import numpy as np
    from PIL import Image
    for name in ("jpg", "small"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    noise = np.random.RandomState(0)
    for i in range(256):
        # enlarged noise is smooth and compresses like a photo
        small = Image.fromarray(noise.randint(0, 255, (15, 20, 3), dtype=np.uint8))
        small.resize((320, 240), Image.BICUBIC).save(
            os.path.join(root, "jpg", "%04d.jpg" % i), quality=90)
    rnd = random.Random(0)
    for name in ["small/%05d.bin" % i for i in range(4096)] + ["page.bin"]:
        with open(os.path.join(root, name), "wb") as f:
            f.write(rnd.randbytes(4096))
    open(done, "w").close()


class Samples:
    """A map-style dataset that spins at every 4th sample."""

    def __init__(self, root, words):
        self.root, self.words, self.spinner = root, words, None

    def __len__(self):
        return ENDLESS

    def __getitem__(self, i):
        if i % 4 == 0:
            if self.spinner is None:
                from torch.utils.data import get_worker_info
                info = get_worker_info()
                self.spinner = Spinner(self.words, info.id + 1 if info else 0)
            self.spinner.spin()
        return self.sample(i)


class Fast(Samples):
    def sample(self, i):
        import numpy as np
        import torch
        x = np.random.rand(64, 64, 3).astype(np.float32)
        for _ in range(3):
            x = np.sin(x)
        return torch.from_numpy(x), i % 16


class Jpeg(Samples):
    def sample(self, i):
        import numpy as np
        import torch
        from PIL import Image
        with Image.open(os.path.join(self.root, "jpg", "%04d.jpg" % (i * 37 % 256))) as im:
            im = im.convert("RGB")
        left, top = (int(v) for v in np.random.randint(0, 64, 2))
        im = im.crop((left, top, left + 224, top + 176)).resize((96, 96), Image.BILINEAR)
        if left % 2:
            im = im.transpose(Image.FLIP_LEFT_RIGHT)
        x = (np.asarray(im, dtype=np.float32).transpose(2, 0, 1) / 255.0 - 0.45) / 0.22
        return torch.from_numpy(np.ascontiguousarray(x)), i % 10


class SmallFiles(Samples):
    def sample(self, i):
        import numpy as np
        import torch
        parts = []
        for k in range(64):
            name = "%05d.bin" % ((i * 64 + k) * 61 % 4096)
            with open(os.path.join(self.root, "small", name), "rb") as f:
                parts.append(f.read(192))
        x = np.frombuffer(b"".join(parts), dtype=np.uint8).astype(np.float32)
        return torch.from_numpy(x / 255.0), i % 16


class Preads(Samples):
    fd = None

    def sample(self, i):
        import numpy as np
        import torch
        if self.fd is None:
            self.fd = os.open(os.path.join(self.root, "page.bin"), os.O_RDONLY)
        pread, fd = os.pread, self.fd
        for _ in range(4):
            for k in range(250):
                data = pread(fd, 64, k)
            x = np.random.rand(128, 1024).mean(0).astype(np.float32)
        x[0] = data[0]
        return torch.from_numpy(x), i % 16


def model(name):
    """The network and the batch size."""
    from torch import nn
    if name == "W1":
        return nn.Sequential(nn.Flatten(), nn.Linear(64 * 64 * 3, 16)), 32
    if name == "W2":
        return nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10)), 16
    if name == "W3":
        return nn.Sequential(nn.Linear(64 * 192, 64), nn.ReLU(), nn.Linear(64, 16)), 8
    return nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 16)), 8


DATASETS = {"W1": Fast, "W2": Jpeg, "W3": SmallFiles, "W4": Preads}


class Spinner:
    def __init__(self, words, process):
        self.words, self.process, self.n = words, process, 0
        self.loop, self.now = range(200), time.monotonic_ns

    def spin(self):
        begin = self.now()
        for _ in self.loop:
            pass
        took = self.now() - begin
        at = spin(self.process, self.n)
        self.words[at], self.words[at + 1] = begin, took
        self.n += 1
        self.words[SPINS + self.process] = self.n


def train(name, root, words, workers):
    import torch
    from torch.utils.data import DataLoader
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net, batch_size = model(name)
    # fork, whatever this Python starts by default: the mapping goes to the workers as it is
    loader = DataLoader(DATASETS[name](root, words), batch_size=batch_size, num_workers=workers,
                        multiprocessing_context="fork")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    spinner, runner, n = Spinner(words, 0), os.getppid(), 0
    words[PID] = os.getpid()
    for x, y in loader:
        spinner.spin()
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        words[stamp(n)] = time.monotonic_ns()
        n += 1
        words[STEPS] = n
        if n % 64 == 0 and os.getppid() != runner:      # nobody is watching any more
            break


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--workload", choices=sorted(DATASETS))
    ap.add_argument("--data", required=True, help="folder for the generated files")
    ap.add_argument("--share", help="file of the shared mapping")
    ap.add_argument("--workers", type=int, default=2)
    a = ap.parse_args()
    make_data(a.data)
    if a.workload:
        train(a.workload, a.data, share(a.share), a.workers)


if __name__ == "__main__":
    main()
