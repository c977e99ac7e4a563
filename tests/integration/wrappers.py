#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Loaders and trainers of other packages, each watched for some seconds, against what the job saw.

usage: wrappers.py --python PYTHON [--tool build/dlprof-bpf] [--seconds 4] [KIND...]

PYTHON has torch; a kind whose package it lacks is skipped. Needs root. Not a part of `make test`.
Prints two lines a kind: the verdict; and the loaders with their GetNext counts, exposed wait, and both
as the job had them. Ends with 1 when a count differs or the exposed wait is off by more than 0.01; of a
loader that is not seen the verdict has to say how it can be.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EDGE_NS = 1_000_000  # a call that ends so near to the window's edge may count or not
KINDS = {"map0": "torch", "map2": "torch", "iterable0": "torch", "iterable2": "torch",
         "thread": "torch", "stateful0": "torchdata", "stateful2": "torchdata",
         "nodes": "torchdata", "nodes_threads": "torchdata", "nodes_processes": "torchdata",
         "nodes_unnamed": "torchdata", "web": "webdataset", "web_rebatched": "webdataset",
         "web_named": "webdataset", "arrow": "datasets", "arrow_stream": "datasets",
         "accelerate": "accelerate", "lightning": "lightning", "hf": "transformers"}
# what the job puts around next() where torch's DataLoader does not, or not around all of it
LABEL, LABELLED = "wrapped: next", ("nodes", "nodes_threads", "nodes_processes", "web_named")


def wait_for(path, process, seconds):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the job did not start")
        time.sleep(0.1)


def try_kind(kind, args, folder):
    """True, or what is wrong."""
    summary = os.path.join(folder, "summary")
    options = ["--getnext", LABEL] if kind in LABELLED else []
    with open(os.path.join(folder, "log"), "w") as log:
        process = subprocess.Popen([args.python, os.path.join(HERE, "wrapper_jobs.py"), kind, folder],
                                   stdout=log, stderr=log)
    try:
        wait_for(os.path.join(folder, "ready"), process, 60)
        subprocess.run([args.tool, "--pid", str(process.pid), "--duration", str(args.seconds), "--quiet",
                        "--summary", summary, *options], check=True, capture_output=True,
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
    least, most = (sum(start + edge < t[2] <= end - edge for t in calls) for edge in (EDGE_NS, -EDGE_NS))
    low, high = (sum(max(0, min(t[to], end) - max(t[at], start)) for t in calls) / (end - start)
                 for at, to in ((1, 2), (0, 3)))
    loaders = [(x["iterator_type"], x["num_workers"], x["getnext"]["count"]) for x in said["loaders"]]
    verdict = said["verdict"]
    got = verdict["exposed_wait_ratio"]
    print(f"{kind}: {verdict['bottleneck']}, {verdict['cause']} ({verdict['confidence']}): {verdict['text']}")
    if not calls:
        print(f"{kind}: {loaders}, no call seen by the job", flush=True)
        return not loaders and got is None and "--getnext" in verdict["text"]
    print(f"{kind}: {loaders}, exposed {got:.3f}; the job: {least} to {most} calls, "
          f"{low:.3f} to {high:.3f}", flush=True)
    # inside a scope with a name there may be a DataLoader: its calls are a part of that one's
    seen = sum(count for which, _, count in loaders if not options or which == LABEL)
    return least <= seen <= most and low - 0.01 <= got <= high + 0.01


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
    sys.exit(main())
