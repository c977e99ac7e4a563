# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report on a recording of real training, against what the job itself measured."""
import csv
import glob
import json
import os
import signal
import statistics
import subprocess

import compare
from harness import Failed, group

# Python's own way around what the tool sees, on a busy machine
SLACK_US = 300
LOADERS = {"train": {"num_workers": 2, "n": 100, "work": {"kind": "uneven", "ms": 1}},
           "val": {"num_workers": 1, "n": 40, "work": {"kind": "uneven", "ms": 2}}}


def report(env, path, *options):
    run = subprocess.run([env.tool, "report", path, *options], capture_output=True, text=True, timeout=60)
    if run.returncode:
        raise Failed(f"report: status {run.returncode}, {run.stderr}")
    return run.stdout


def sections(env, path, *options):
    return json.loads(report(env, path, "--section", "all", "--json", "-", *options))["sections"]


def row(rows, loader, loaders):
    """The loader with as many workers as the job's own of that name."""
    found = [r for r in rows if r["num_workers"] == loaders[loader]["num_workers"]]
    if len(found) != 1:
        raise Failed(f"loader {loader}: {rows}")
    return found[0]


def inits(truth, name):
    """One iter(loader) for each iterator: persistent workers keep theirs from epoch to epoch."""
    return [e for e in truth.iterators().values() if e["loader"] == name]


def between(tap, got, least, most, name):
    tap.check(got is not None and 0.97 * least - SLACK_US <= got <= 1.03 * most + SLACK_US, name,
              f"{got}, truth {least:.0f} to {most:.0f}")


def check_getnext(tap, found, truth, name, loader):
    mine = [e for e in truth.nexts if e["loader"] == name]
    inner, outer = ([(e[t] - e[s]) / 1e3 for e in mine] for s, t in (("s1", "t1"), ("s", "t")))
    tap.same(loader["count"], len(mine), f"{name}: GetNext count")
    tap.same(loader["batches"], sum(not e["stop"] for e in mine), f"{name}: batches")
    between(tap, loader["median_us"], statistics.median(inner), statistics.median(outer), f"{name}: median")
    between(tap, loader["max_us"], max(inner), max(outer), f"{name}: maximum")
    outliers = [x for x in found["getnext"]["outliers"] if x["loader"] == loader["loader"]]
    tap.same(len(outliers), loader["outliers"], f"{name}: all outliers are listed")
    tap.check(all(x["duration_us"] >= 2 * loader["median_us"] - 0.01 for x in outliers),
              f"{name}: outliers last at least twice the median", loader, outliers[-3:])
    wrong = []
    for x in outliers:
        call = [e for e in mine if compare.began(e, x["start_ns"]) and e["t1"] <= x["end_ns"] <= e["t"]]
        if len(call) != 1 or not call[0]["stop"] and (call[0]["idx"], call[0]["pid"]) != \
                (x["batch"], x["worker_pid"]):
            wrong.append((x, call))
    tap.check(not wrong, f"{name}: each outlier is the job's call, batch and worker ({len(outliers)})",
              wrong[:2])
    surely = sum(x >= 2.1 * statistics.median(outer) + SLACK_US for x in inner)
    tap.check(len(outliers) >= surely, f"{name}: no outlier is missing", len(outliers), surely)


def check_batchtime(tap, found, truth, name, loader):
    inner, outer = [], []
    mine = [e for e in truth.nexts if e["loader"] == name]
    for a, b in zip(mine, mine[1:]):
        if a["it"] == b["it"] and not a["stop"]:
            inner.append((b["s"] - a["s1"]) / 1e3)
            outer.append((b["s1"] - a["s"]) / 1e3)
    got = [x for x in found["batchtime"]["loaders"] if x["loader"] == loader["loader"]][0]
    tap.same(got["count"], len(inner), f"{name}: batch times, none across epochs")
    between(tap, got["median_us"], statistics.median(inner), statistics.median(outer),
            f"{name}: median time per batch")
    between(tap, got["max_us"], max(inner), max(outer), f"{name}: maximum time per batch")


def check_iterators(tap, found, truth, name, number):
    took = [(e["t"] - e["s"]) / 1e3 for e in inits(truth, name)]
    got = [x for x in found["iterators"]["loaders"] if x["loader"] == number][0]
    tap.same(got["initialisations"], len(took), f"{name}: initialisations")
    # iter() goes on for a moment behind the last index it sends, and begins a little before
    for key, value in (("median_us", statistics.median), ("max_us", max)):
        tap.check(0.5 * value(took) - 2000 <= got[key] <= value(took) + SLACK_US,
                  f"{name}: {key} of iter()", got[key], took)
    tap.same(got["pin_memory"], "no", f"{name}: pin_memory")


def check_workers(tap, found, truth, name, number):
    pids = {pid: dict(e, it=it) for it, e in truth.iterators().items() if e["loader"] == name
            for pid in e["workers"]}
    got = [x for x in found["workers"]["loaders"] if x["loader"] == number][0]
    tap.same((got["started"], got["ended"]), (len(pids), len(pids)), f"{name}: workers started and ended")
    rows = [x for x in found["workers"]["workers"] if x["loader"] == number]
    tap.same(sorted(x["pid"] for x in rows), sorted(pids), f"{name}: the job's workers")
    wrong = []
    for x in rows:
        it = pids[x["pid"]]
        last = max(e["t"] for e in truth.nexts if e["it"] == it["it"])
        made = max((e["t"] for e in truth.fetches if e["pid"] == x["pid"]), default=it["t"])
        if not (it["s"] <= x["born_ns"] <= it["t"] and made <= x["died_ns"] <= last + 1e9):
            wrong.append((x, it, made, last))
    tap.check(not wrong, f"{name}: workers live from iter() to the end of the last epoch", wrong[:2])
    lives = [x["lifetime_us"] for x in rows]
    tap.check(abs(got["median_us"] - statistics.median(lives)) < 1 and abs(got["max_us"] - max(lives)) < 1,
              f"{name}: median and maximum lifetime", got, lives)
    made = sum(e["pid"] in pids and not e["stop"] for e in truth.fetches)
    tap.same(sum(x["batches"] for x in rows), made, f"{name}: batches made")


@group("report")
def whole(env):
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "report.dlp")
    with session.phase("plan", loaders=LOADERS, epochs=[["train", None], ["val", None]] * 3) as phase:
        tool = env.start(session.pid, "--record", path)
        phase.go()
        phase.wait()
        tool.finish(signal.SIGINT)
        tool.need_summary()
    found, truth = sections(env, path), phase.truth
    tap.same(len(found["getnext"]["loaders"]), 2, "two loaders")
    for name in LOADERS:
        loader = row(found["getnext"]["loaders"], name, LOADERS)
        tap.same(row(found["iterators"]["loaders"], name, LOADERS)["loader"], loader["loader"],
                 f"{name}: the same loader in each section")
        check_getnext(tap, found, truth, name, loader)
        check_batchtime(tap, found, truth, name, loader)
        check_iterators(tap, found, truth, name, loader["loader"])
        check_workers(tap, found, truth, name, loader["loader"])
    check_part(env, path, truth, tool)
    check_forms(env, path, found)


def check_part(env, path, truth, tool):
    """The second half by the monotonic clock, by seconds, and by the time of day."""
    start = tool.summary["window"]["start_ns"]
    half = truth.nexts[len(truth.nexts) // 2]
    middle = (half["s1"] + half["t1"]) // 2
    wanted = sum(e["t"] >= middle for e in truth.nexts)
    for given in (f"{middle}ns", f"{(middle - start) / 1e9:.9f}"):
        got = sections(env, path, "--from", given)["getnext"]["loaders"]
        env.tap.same(sum(x["count"] for x in got), wanted, f"calls from {given[-4:]} on")


def check_forms(env, path, found):
    tap = env.tap
    folder = os.path.join(env.folder, "report.csv")
    report(env, path, "--section", "all", "--csv", folder)
    wrong = []
    for section, tables in found.items():
        for table, rows in tables.items():
            with open(os.path.join(folder, f"{section}_{table}.csv"), newline="") as file:
                lines = list(csv.reader(file))
            if len(lines) != len(rows) + 1 or len({len(line) for line in lines}) != 1:
                wrong.append((section, table, len(lines), len(rows)))
    tap.check(not wrong, "CSV and JSON have the same rows", wrong)
    tap.same(len(glob.glob(folder + "/*.csv")), sum(len(x) for x in found.values()), "a file for each table")
    text = report(env, path)
    tap.check(all(f"== {name} ==" in text for name in found if name != "window"), "all sections are printed")
