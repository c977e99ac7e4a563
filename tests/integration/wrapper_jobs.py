#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A training by a loader or trainer of some package: wrapper_jobs.py KIND FOLDER, see wrappers.py.

Makes FOLDER/ready after some steps, ends when there is FOLDER/stop, and leaves in FOLDER/calls of each
call that is a GetNext: the times before it, at its begin, at its end and after it.
"""
import contextlib
import json
import os
import queue
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader, Dataset, IterableDataset, dataloader

KIND, FOLDER = sys.argv[1:3]
LABEL = "wrapped: next"
ITEMS, BATCH, FEATURES = 200, 4, 8
calls, steps, inside = [], 0, threading.local()


# ---- what all of them share ------------------------------------------------------------------
def watch(cls):
    """Only the outermost __next__ counts: some classes call the one that they inherit."""
    inner = cls.__next__

    def __next__(self):
        if getattr(inside, "on", False):
            return inner(self)
        inside.on, start = True, time.monotonic_ns()
        try:
            return inner(self)
        finally:
            end = time.monotonic_ns()
            calls.append((start, start, end, end))
            inside.on = False
    cls.__next__ = __next__


def named(loader):
    """Its batches, each taken inside a scope that --getnext can name."""
    batches = iter(loader)
    while True:
        before = time.monotonic_ns()
        with record_function(LABEL):
            start = time.monotonic_ns()
            batch = next(batches, None)
            end = time.monotonic_ns()
        # making and ending the scope takes about 50 us
        calls.append((before, start, end, time.monotonic_ns()))
        if batch is None:
            return
        yield batch


class Named:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return named(self.loader)


def sample(*_):
    time.sleep(0.004)
    return torch.randn(FEATURES)


class Samples(Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, i):
        return {"x": sample()} if KIND == "hf" else sample()


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(ITEMS):
            yield sample()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(FEATURES, 1)

    def forward(self, x):
        loss = self.net(x).square().mean()
        return {"loss": loss} if KIND == "hf" else loss


def over():
    global steps
    steps += 1
    if steps == 6:
        open(os.path.join(FOLDER, "ready"), "w").close()
    time.sleep(0.003)
    return os.path.exists(os.path.join(FOLDER, "stop"))


def loop(batches, model, optimizer, backward):
    while True:
        for batch in batches:
            optimizer.zero_grad()
            backward(model(batch))
            optimizer.step()
            if over():
                return


def plain(batches):
    model = Net()
    loop(batches, model, torch.optim.SGD(model.parameters(), 1e-6), lambda loss: loss.backward())


def loader(cls=DataLoader, data=Samples):
    return cls(data(), batch_size=BATCH, num_workers=0 if KIND.endswith("0") else 2)


# ---- torch's own DataLoader ------------------------------------------------------------------
def from_thread():
    ready, ended = queue.Queue(2), threading.Event()

    def feed():
        while not ended.is_set():
            for batch in loader():
                ready.put(batch)
                if ended.is_set():
                    return
    thread = threading.Thread(target=feed)
    thread.start()
    plain(iter(ready.get, None))
    ended.set()
    while thread.is_alive():
        with contextlib.suppress(queue.Empty):
            ready.get(timeout=0.1)


# ---- torchdata -------------------------------------------------------------------------------
def stateful():
    from torchdata.stateful_dataloader import StatefulDataLoader, stateful_dataloader
    watch(stateful_dataloader._StatefulBaseDataLoaderIter)
    plain(loader(StatefulDataLoader))


def nodes(method, wrap=Named):
    from torchdata import nodes as tn
    node = tn.IterableWrapper(range(ITEMS))
    node = tn.ParallelMapper(node, sample, num_workers=2, method=method) if method else \
        tn.Mapper(node, sample)
    plain(wrap(tn.Loader(tn.Mapper(tn.Batcher(node, BATCH), torch.stack))))


# ---- webdataset ------------------------------------------------------------------------------
def web_loader():
    import numpy
    import webdataset
    paths = [os.path.join(FOLDER, f"{number}.tar") for number in range(4)]
    for path in paths:
        with webdataset.TarWriter(path) as shard:
            for i in range(ITEMS // len(paths)):
                shard.write({"__key__": f"{i:04}", "x.npy": numpy.ones(1 << 15, "f4")})
    data = webdataset.WebDataset(paths, shardshuffle=False).decode().to_tuple("x.npy")
    return webdataset.WebLoader(data.batched(BATCH), batch_size=None, num_workers=2)


def batches_of(loader):
    return loader.map(lambda batch: torch.as_tensor(batch[0])[:, :FEATURES])


def rebatched():
    return batches_of(web_loader().unbatched().shuffle(2 * BATCH).batched(BATCH))


# ---- HF datasets -----------------------------------------------------------------------------
def arrow(stream):
    """Memory-mapped from a file on disk, as all that `datasets` has prepared."""
    import datasets
    path = os.path.join(FOLDER, "arrow")
    datasets.Dataset.from_dict({"x": torch.ones(40 * ITEMS, FEATURES).numpy()}).save_to_disk(path)
    data = datasets.load_from_disk(path)
    assert data.cache_files
    if stream:
        data = data.to_iterable_dataset(num_shards=2)

    def collate(samples):
        return torch.stack([sample["x"] for sample in samples])
    plain(DataLoader(data.with_format("torch"), batch_size=16, num_workers=2, shuffle=not stream,
                     collate_fn=collate))


# ---- trainers --------------------------------------------------------------------------------
def accelerate():
    from accelerate import Accelerator
    accelerator, model = Accelerator(cpu=True), Net()
    parts = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 1e-6), loader())
    loop(parts[2], parts[0], parts[1], accelerator.backward)


def lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, i):
            self.trainer.should_stop = over()
            return self.net(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-6)
    lightning.Trainer(accelerator="cpu", devices=1, max_epochs=-1, logger=False,
                      enable_checkpointing=False, enable_progress_bar=False).fit(Module(), loader())


def hf():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = over()
    Trainer(Net(), TrainingArguments(
        FOLDER, max_steps=10 ** 6, per_device_train_batch_size=BATCH, dataloader_num_workers=2,
        report_to=[], use_cpu=True, save_strategy="no", logging_strategy="no", disable_tqdm=True),
        train_dataset=Samples(), callbacks=[Stop()]).train()


JOBS = {
    "map0": lambda: plain(loader()), "map2": lambda: plain(loader()),
    "iterable0": lambda: plain(loader(data=Stream)), "iterable2": lambda: plain(loader(data=Stream)),
    "thread": from_thread,
    "stateful0": stateful, "stateful2": stateful,
    "nodes": lambda: nodes(None), "nodes_threads": lambda: nodes("thread"),
    "nodes_processes": lambda: nodes("process"),
    "nodes_unnamed": lambda: nodes("thread", wrap=lambda loader: loader),
    "web": lambda: plain(batches_of(web_loader())),
    "web_rebatched": lambda: plain(rebatched()), "web_named": lambda: plain(Named(rebatched())),
    "arrow": lambda: arrow(False), "arrow_stream": lambda: arrow(True),
    "accelerate": accelerate, "lightning": lightning, "hf": hf,
}


if __name__ == "__main__":
    # the named scope around the loader is then the call, not what is inside it
    if KIND != "web_named":
        watch(dataloader._BaseDataLoaderIter)
    JOBS[KIND]()
    with open(os.path.join(FOLDER, "calls"), "w") as file:
        json.dump(calls, file)
