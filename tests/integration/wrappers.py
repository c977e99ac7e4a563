#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Loaders and trainers of other packages, each watched for some seconds, against what the job saw.

usage: wrappers.py --python PYTHON [--tool build/dlprof-bpf] [--seconds 4] [KIND...]

PYTHON has torch; a kind whose package it lacks is skipped. Needs root. Not a part of `make test`.
Prints a line a kind: loaders with their GetNext counts, exposed wait, and both as the job had them.
Ends with 1 when a count differs or the exposed wait is off by more than 0.01.
"""
import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EDGE_NS = 1_000_000  # a call that ends so near to the window's edge may count or not
KINDS = {"map0": "torch", "map2": "torch", "iterable0": "torch", "iterable2": "torch",
         "thread": "torch", "stateful0": "torchdata", "stateful2": "torchdata",
         "accelerate": "accelerate", "lightning": "lightning", "hf": "transformers"}


# ---- the job ---------------------------------------------------------------------------------
def job(kind, folder):
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, dataloader
    calls, steps, inside = [], 0, threading.local()

    def watch(cls):
        """Only the outermost __next__: some classes call the one they inherit."""
        inner = cls.__next__

        def __next__(self):
            if getattr(inside, "on", False):
                return inner(self)
            inside.on, start = True, time.monotonic_ns()
            try:
                return inner(self)
            finally:
                calls.append((start, time.monotonic_ns()))
                inside.on = False
        cls.__next__ = __next__

    class Samples(Dataset):
        def __len__(self):
            return 200

        def __getitem__(self, i):
            time.sleep(0.004)
            return {"x": torch.randn(8)} if kind == "hf" else torch.randn(8)

    class Stream(IterableDataset):
        def __iter__(self):
            for i in range(200):
                yield Samples()[i]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 1)

        def forward(self, x):
            loss = self.net(x).square().mean()
            return {"loss": loss} if kind == "hf" else loss

    def over():
        nonlocal steps
        steps += 1
        if steps == 6:
            open(os.path.join(folder, "ready"), "w").close()
        time.sleep(0.003)
        return os.path.exists(os.path.join(folder, "stop"))

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
        return cls(data(), batch_size=4, num_workers=0 if kind.endswith("0") else 2)

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
            try:
                ready.get(timeout=0.1)
            except queue.Empty:
                pass

    def stateful():
        from torchdata.stateful_dataloader import StatefulDataLoader, stateful_dataloader
        watch(stateful_dataloader._StatefulBaseDataLoaderIter)
        plain(loader(StatefulDataLoader))

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
            folder, max_steps=10 ** 6, per_device_train_batch_size=4, dataloader_num_workers=2,
            report_to=[], use_cpu=True, save_strategy="no", logging_strategy="no", disable_tqdm=True),
            train_dataset=Samples(), callbacks=[Stop()]).train()

    watch(dataloader._BaseDataLoaderIter)
    if kind.startswith("map"):
        plain(loader())
    elif kind.startswith("iterable"):
        plain(loader(data=Stream))
    else:
        {"thread": from_thread, "stateful0": stateful, "stateful2": stateful, "accelerate": accelerate,
         "lightning": lightning, "hf": hf}[kind]()
    with open(os.path.join(folder, "calls"), "w") as file:
        json.dump(calls, file)


# ---- watching it -----------------------------------------------------------------------------
def wait_for(path, process, seconds):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the job did not start")
        time.sleep(0.1)


def try_kind(kind, args, folder):
    """True, or what is wrong."""
    summary = os.path.join(folder, "summary")
    with open(os.path.join(folder, "log"), "w") as log:
        process = subprocess.Popen([args.python, os.path.abspath(__file__), "--job", kind, folder],
                                   stdout=log, stderr=log)
    try:
        wait_for(os.path.join(folder, "ready"), process, 60)
        subprocess.run([args.tool, "--pid", str(process.pid), "--duration", str(args.seconds), "--quiet",
                        "--summary", summary], check=True, capture_output=True,
                       timeout=args.seconds + 60)
        open(os.path.join(folder, "stop"), "w").close()
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    with open(summary) as file:
        said = json.load(file)
    with open(os.path.join(folder, "calls")) as file:
        calls = json.load(file)
    start, end = said["window"]["start_ns"], said["window"]["end_ns"]
    least, most = (sum(start + edge < t <= end - edge for _, t in calls) for edge in (EDGE_NS, -EDGE_NS))
    exposed = sum(max(0, min(t, end) - max(s, start)) for s, t in calls) / (end - start)
    loaders = [(x["iterator_type"], x["num_workers"], x["getnext"]["count"]) for x in said["loaders"]]
    got = said["verdict"]["exposed_wait_ratio"]
    print(f"{kind}: {loaders}, exposed {got:.3f}; the job: {least} to {most} calls, "
          f"{exposed:.3f}", flush=True)
    return least <= sum(x[2] for x in loaders) <= most and abs(got - exposed) <= 0.01


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tool", default=os.path.join(HERE, "../../build/dlprof-bpf"))
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("kind", nargs="*", choices=[[], *KINDS], default=[])
    args = parser.parse_args()
    good = True
    for kind in args.kind or KINDS:
        has = subprocess.run([args.python, "-c", f"import {KINDS[kind]}"], capture_output=True)
        if has.returncode:
            print(f"{kind}: skipped, {KINDS[kind]} is not installed", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="dlprof-wrappers-") as folder:
            try:
                right = try_kind(kind, args, folder)
            except (OSError, RuntimeError, subprocess.SubprocessError) as e:
                print(f"{kind}: {e}", flush=True)
                right = False
            if not right:
                print(f"{kind}: WRONG", flush=True)
            good &= right
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--job":
        job(sys.argv[2], sys.argv[3])
        sys.exit(0)
    sys.exit(main())
