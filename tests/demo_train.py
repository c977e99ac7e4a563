#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A small image training whose workers cannot keep up: they inflate and augment every sample in
Python on one core each, and the model is tiny. What `make demo` watches; runs until SIGTERM."""
import argparse
import os
import signal
import sys
import time
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 256


class CompressedImages(Dataset):
    """Noise over a gradient, deflated: about as much work to open as a small photograph."""

    def __init__(self, length, distinct=32):
        ramp = torch.arange(SIDE * SIDE * 3).remainder(251).to(torch.uint8)
        gen = torch.Generator().manual_seed(1)
        self.length = length
        self.blobs = []
        for _ in range(distinct):
            noise = torch.randint(0, 32, ramp.shape, generator=gen, dtype=torch.uint8)
            self.blobs.append(zlib.compress(bytes((ramp + noise).tolist()), 6))

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        raw = zlib.decompress(self.blobs[index % len(self.blobs)])
        image = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, SIDE, SIDE).float()
        top, left = torch.randint(0, SIDE - 224, (2,)).tolist()
        image = image[:, top:top + 224, left:left + 224]
        if index % 2:
            image = image.flip(2)
        image = nn.functional.avg_pool2d(image[None], 5, stride=1, padding=2)[0]
        image = (image - image.mean((1, 2), keepdim=True)) / (image.std((1, 2), keepdim=True) + 1)
        return image, index % 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=300, help="stop by itself after this long")
    args = parser.parse_args()

    stop = []
    # leave the loops, so that the workers are shut down as in any training that ends
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(CompressedImages(200 * args.batch), batch_size=args.batch, shuffle=True,
                        num_workers=args.workers, persistent_workers=args.workers > 0)
    model = nn.Sequential(
        nn.AvgPool2d(8), nn.Conv2d(3, 8, 3), nn.ReLU(),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end = time.monotonic() + args.seconds
    step = 0
    say_at = 0
    while not stop:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            now = time.monotonic()
            if now >= say_at:
                say_at = now + 2
                print(f"pid {os.getpid()}: step {step}, loss {loss.item():.3f}", flush=True)
            if stop or now >= end:
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
