# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exports of a recording, parsed back: trace, folded stacks, SageMaker's Debugger; and `diff`."""
import collections
import json
import os
import signal
import statistics
import subprocess

import compare
from harness import HERE, Failed, Skip, group

LOADER = {"num_workers": 3, "n": 320, "batch": 4, "work": {"kind": "uneven", "ms": 1}}
STEP = {"ms": 2}


def export(env, recording, *options):
    run = subprocess.run([env.tool, "report", recording, *options], capture_output=True, text=True,
                         timeout=120)
    if run.returncode:
        raise Failed(f"report {options}: status {run.returncode}, {run.stderr}")
    return run


# ---- trace -------------------------------------------------------------------------------------
def ns(us):
    return round(us * 1000)


def read_trace(path):
    """Events by their letter, with times in nanoseconds."""
    with open(path) as file:
        data = json.load(file)
    events = collections.defaultdict(list)
    for e in data["traceEvents"]:
        if e["ph"] != "M":
            e["s"] = ns(e["ts"])
            e["t"] = e["s"] + ns(e.get("dur", 0))
        events[e["ph"]].append(e)
    return events


def by_row(slices):
    rows = collections.defaultdict(list)
    for e in slices:
        rows[e["pid"], e["tid"]].append(e)
    for row in rows.values():
        row.sort(key=lambda e: (e["s"], -e["t"]))
    return rows


def overlaps(rows):
    """Slices of a row that neither follow nor hold each other."""
    wrong = []
    for row in rows.values():
        around = []
        for e in row:
            while around and around[-1]["t"] <= e["s"]:
                around.pop()
            if around and e["t"] > around[-1]["t"]:
                wrong.append((around[-1], e))
            around.append(e)
    return wrong


def slice_at(rows, e):
    """The innermost one that the point lies on."""
    found = [x for x in rows.get((e["pid"], e["tid"]), ()) if x["s"] <= e["s"] < x["t"]]
    return found[-1] if found else None


def check_format(tap, events):
    """What the trace event format asks of each event."""
    needs = {"X": ("ts", "dur"), "C": ("ts", "args"), "s": ("ts", "id", "cat"),
             "f": ("ts", "id", "cat", "bp"), "b": ("ts", "id", "cat"), "e": ("ts", "id", "cat"),
             "M": ("args",)}
    wrong = [e for ph, group_ in events.items() for e in group_
             if ph not in needs or any(key not in e for key in ("pid", "tid", "name") + needs[ph])]
    tap.same(wrong, [], "every event has what its kind needs")
    named = {(e["pid"], e["tid"]) for e in events["M"] if e["name"] == "thread_name"}
    processes = [e["pid"] for e in events["M"] if e["name"] == "process_name"]
    tap.check({(e["pid"], e["tid"]) for e in events["X"]} <= named, "every row has a name")
    tap.check(len(processes) == len(set(processes)) and {e["pid"] for e in events["X"]} <= set(processes),
              "every process has one name", processes)
    numbers = [v for e in events["C"] for v in e["args"].values()]
    tap.check(numbers and all(isinstance(v, (int, float)) and v >= 0 for v in numbers),
              "counters are numbers", numbers[:10])


def check_slices(tap, events, tool, truth, trainer):
    calls = sorted((e for e in events["X"] if e["name"] == "GetNext"), key=lambda e: e["s"])
    start, end = compare.window(tool)
    tap.same([(e["s"], e["t"]) for e in calls if start <= e["t"] <= end],
             sorted(compare.scopes(tool)), "GetNext slices are the calls, to the nanosecond")
    tap.check(all(e["pid"] == trainer for e in calls), "in the trainer")
    told = {(e["s"], e["t"]): (e["args"].get("batch"), e["args"].get("worker")) for e in calls}
    right, wrong = 0, []
    for e in truth.nexts:
        for (s, t), (batch, worker) in told.items():
            if not compare.began(e, s) or not e["t1"] <= t or batch is None:
                continue
            # a batch that was made before the window has no worker
            right += (batch, worker) == (e["idx"], e["pid"])
            if batch != e["idx"] or worker not in (None, e["pid"]):
                wrong.append((s, t, batch, worker, e))
    tap.check(right > 50 and not wrong, "batch and worker as the job knows them", right, wrong)
    made = [e for e in events["X"] if e["name"] == "make batch"]
    fetches = collections.defaultdict(list)
    for e in truth.fetches:
        fetches[e["pid"]].append(e)
    held = sum(any(e["s"] <= f["s"] and f["t"] <= e["t"] for f in fetches[e["pid"]]) for e in made)
    tap.check(made and held == len(made), "each production holds a fetch of its worker", held, len(made))


def check_arrows(tap, events):
    rows = by_row(events["X"])
    ends = {e["id"]: e for e in events["f"]}
    tap.check(len(ends) == len(events["f"]) == len(events["s"]) and
              {e["id"] for e in events["s"]} == set(ends), "each arrow has two ends",
              len(events["s"]), len(events["f"]))
    wrong, sent = [], 0
    for e in events["s"]:
        to = ends.get(e["id"])
        left, right = slice_at(rows, e), to and slice_at(rows, to)
        if not left or not right or e["s"] > to["s"] or e["name"] != to["name"]:
            wrong.append((e, to, left, right))
        elif e["name"] == "ask":
            wrong += [] if right["name"] == "make batch" else [(e, to)]
        elif e["name"] == "send":
            sent += 1
            wrong += [] if (left["name"], right["name"]) == ("make batch", "GetNext") else [(e, to)]
    tap.same(wrong[:3], [], "arrows lead from slice to slice, forwards")
    delivered = sum(e["name"] == "GetNext" and "taken" in e["args"] for e in events["X"])
    tap.check(sent and sent >= delivered - 12, "nearly every batch has its arrows",
              f"{sent} for {delivered} batches whose stations are known")


@group("export: trace")
def trace(env):
    tap, session = env.tap, env.session()
    recording, path = os.path.join(env.folder, "trace.dlp"), os.path.join(env.folder, "trace.json")
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        tool = env.observe(session.pid, "--record", recording, duration=3)
    export(env, recording, "--trace", path)
    events = read_trace(path)
    check_format(tap, events)
    tap.same(overlaps(by_row(events["X"]))[:3], [], "slices of a row nest")
    check_slices(tap, events, tool, phase.truth, session.pid)
    check_arrows(tap, events)
    names = {e["name"] for e in events["C"]}
    tap.check({"ready batches, loader 1", "batches per second", "waiting for data",
               "CPUs used by the job"} <= names, "counters", sorted(names))


# ---- folded stacks -----------------------------------------------------------------------------
@group("export: folded stacks")
def folded(env):
    tap, session = env.tap, env.session()
    recording, path = os.path.join(env.folder, "folded.dlp"), os.path.join(env.folder, "folded.txt")
    loader = {"num_workers": 2, "n": 100_000, "work": {"kind": "stages", "ms": 1.0}}
    with session.phase("steady", loader=loader, step={"stages": True}, warm=8):
        tool = env.observe(session.pid, "--record", recording, duration=3)
    export(env, recording, "--folded", path)
    sums = collections.Counter()
    with open(path) as file:
        for line in file:
            stack, _, count = line.rstrip("\n").rpartition(" ")
            frames = stack.split(";")
            sums[frames[0], frames[-1]] += int(count)
    role = {"main": "trainer", "workers": "worker"}
    stages = [s for s in tool.summary["stages"] if s["exclusive_us"] > 1000]
    far = [(s["label"], sums[role[s["where"]], s["label"]], s["exclusive_us"]) for s in stages
           if abs(sums[role[s["where"]], s["label"]] - s["exclusive_us"]) > 100 + 0.001 * s["exclusive_us"]]
    tap.check(len(stages) >= 4 and not far, "each label has its time as in the summary", len(stages), far)
    with open(path) as file:
        tap.check(any(line.startswith("worker;item;item: decode;item: inner ") for line in file),
                  "scopes are nested", *sums)


# ---- SageMaker's Debugger ----------------------------------------------------------------------
def smdebug_python():
    root = os.path.dirname(os.path.dirname(HERE))
    run = subprocess.run([os.path.join(root, "tests/deps.sh"), "smdebug"], capture_output=True,
                         text=True, timeout=400)
    if run.returncode:
        raise Skip(run.stderr.strip().splitlines()[-1] if run.stderr.strip() else "no smdebug")
    return run.stdout.strip()


@group("export: SageMaker's Debugger")
def smdebug(env):
    python = smdebug_python()
    tap, session = env.tap, env.session()
    env.serial += 1
    recording = os.path.join(env.folder, f"sm{env.serial}.dlp")
    out = os.path.join(env.folder, f"smdebug{env.serial}")
    loaders = {"train": {**LOADER, "num_workers": 2}}
    with session.phase("plan", loaders=loaders, epochs=[["train", None]], step=STEP) as phase:
        tool = env.start(session.pid, "--record", recording)
        phase.go()
        phase.wait()
        tool.finish(signal.SIGINT)
        tool.need_summary()
    export(env, recording, "--smdebug", out)
    run = subprocess.run([python, os.path.join(HERE, "smdebug_read.py"), out], capture_output=True,
                         text=True, timeout=120)
    if run.returncode:
        raise Failed(f"smdebug cannot read it: {run.stderr[-2000:]}")
    said, ours = json.loads(run.stdout), tool.summary["loaders"][0]
    getnext = ours["getnext"]
    tap.same(len(tool.summary["loaders"]), 1, "one loader")
    tap.same(len(said["calls"]), getnext["count"], "GetNext calls")
    tap.near(said["max_us"], getnext["max_us"], 0.06, "longest GetNext")
    # the summary's median is of a histogram, right within 1/128
    tap.near(said["median_us"], getnext["median_us"], getnext["median_us"] / 128 + 0.1, "median GetNext")
    tap.near(said["median_us"], statistics.median((t - s) / 1000 for s, t in compare.scopes(tool)),
             0.001, "median GetNext, of the events")
    # theirs and ours may differ by calls between the two medians' doubles
    border = [x for x in said["calls"] if abs(x["duration_us"] - 2 * said["median_us"])
              <= said["median_us"] / 64 + 0.2]
    wanted = {round(x["duration_us"], 1) for x in getnext["outliers"]}
    got = {round(x["duration_us"], 1) for x in said["outliers"]}
    tap.check(got and len(got ^ wanted) <= len(border), "outliers of GetNext", sorted(got ^ wanted),
              len(border))
    tap.same([(x["framework_metric"], x["num_workers"], x["pin_memory"]) for x in said["inits"]],
             [("_MultiProcessingDataLoaderIter.__init__", 2, "False")], "iterators")
    tap.near(said["inits"][0]["duration_us"] if said["inits"] else None,
             ours["iterator_init"]["max_us"], 0.06, "time to make the iterator")
    tap.same(sorted(x["worker_id"] for x in said["workers"]), [0, 1], "workers")
    number = {pid: i for i, pid in enumerate(phase.truth.iters[0]["workers"])}
    makers = collections.Counter(number[e["pid"]] for e in phase.truth.nexts if not e["stop"])
    tap.same(collections.Counter(x["worker_id"] for x in said["calls"] if x["worker_id"] >= 0), makers,
             "workers' numbers are torch's own")
    tap.check(all(0 <= x["value"] <= 100 for x in said["system"]) and said["system"],
              "CPU and memory of the machine", said["system"][:3])
    again = subprocess.run([env.tool, "report", recording, "--smdebug", out], capture_output=True,
                           text=True)
    tap.check(again.returncode == 1 and "already" in again.stderr, "no second export over the first",
              again.returncode, again.stderr)


# ---- diff --------------------------------------------------------------------------------------
@group("diff")
def diff(env):
    tap, session = env.tap, env.session()
    summaries, recordings = [], []
    for ms in (1, 1, 6):
        recordings.append(os.path.join(env.folder, f"diff{len(recordings)}.dlp"))
        loader = {**LOADER, "num_workers": 2, "work": {"kind": "uneven", "ms": ms}}
        with session.phase("steady", loader=loader, step=STEP):
            summaries.append(env.observe(session.pid, "--record", recordings[-1], duration=3).summary_path)
    run = subprocess.run([env.tool, "diff", summaries[0], summaries[2], "--json"], capture_output=True,
                         text=True)
    tap.same((run.returncode, run.stderr), (0, ""), "status 0")
    figures = {x["metric"]: x for x in json.loads(run.stdout)["figures"]}
    for name in ("batches_per_s", "production_median_us", "getnext_median_us"):
        tap.check(figures[name]["beyond_noise"] and figures[name]["better"] is False,
                  f"six times the work is worse: {name}", figures[name])
    text = subprocess.run([env.tool, "diff", *summaries[:2]], capture_output=True, text=True)
    tap.check(text.returncode == 0 and "batches per second" in text.stdout, "and as text", text.stdout,
              text.stderr)
    same = json.loads(subprocess.run([env.tool, "diff", summaries[0], summaries[0], "--json"],
                                     capture_output=True, text=True).stdout)
    tap.check(not any(x["beyond_noise"] for x in same["figures"]), "a run is like itself", same)
    for args, status in (((), 2), ((summaries[0],), 2), ((*summaries,), 2), ((summaries[0], "--all"), 2),
                         ((summaries[0], "/dev/null"), 1), ((summaries[0], env.tool), 1)):
        run = subprocess.run([env.tool, "diff", *args], capture_output=True, text=True)
        tap.check(run.returncode == status and run.stderr and not run.stdout,
                  f"status {status} for {len(args)} arguments", args, run)
    diff_recordings(env, summaries, recordings)


def compared(env, a, b):
    """(what diff --json says but for the files' names, the lines of figures), or None."""
    runs = [subprocess.run([env.tool, "diff", a, b, *more], capture_output=True, text=True)
            for more in (["--json"], [])]
    if any(run.returncode or run.stderr for run in runs):
        return None
    said = json.loads(runs[0].stdout)
    for side in ("a", "b"):
        del said[side]["file"]
    return said, runs[1].stdout.splitlines()[2:]


def diff_recordings(env, summaries, recordings):
    tap = env.tap
    wanted = compared(env, summaries[0], summaries[2])
    tap.check(wanted and len(wanted[0]["figures"]) > 5, "two summaries", wanted)
    for name, a, b in (("two recordings", recordings[0], recordings[2]),
                       ("a recording and a summary", recordings[0], summaries[2]),
                       ("a summary and a recording", summaries[0], recordings[2])):
        tap.same(compared(env, a, b), wanted, f"{name}: as their live summaries")
    with open(recordings[0], "rb") as file:
        data = file.read()
    flipped = bytearray(data)
    flipped[len(data) * 9 // 10] ^= 1
    path = os.path.join(env.folder, "damaged.dlp")
    for name, damaged, shows in (("cut", data[:len(data) * 9 // 10], True), ("flipped bit", flipped, True),
                                 ("header only", data[:600], False), ("magic only", data[:8], False)):
        with open(path, "wb") as file:
            file.write(damaged)
        run = subprocess.run([env.tool, "diff", path, summaries[2]], capture_output=True, text=True)
        alone = subprocess.run([env.tool, "replay", path], capture_output=True, text=True)
        tap.check((run.returncode, run.stderr) == (1, alone.stderr) and run.stderr.count("\n") == 1
                  and bool(run.stdout) == shows, f"{name}: status 1, one line, as replay says",
                  run, alone.stderr)
