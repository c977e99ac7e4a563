# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The plain verdicts, each on a job that has exactly this trouble."""
import compare
from harness import INTERVAL, group
from truth import overlap

SECONDS = 3


def judge(env, wanted, duration=SECONDS, severity=None, **job):
    tap, session = env.tap, env.session()
    with session.phase("steady", **job):
        tool = env.observe(session.pid, duration=duration, events=False)
    verdict = tool.summary["verdict"]
    got = verdict["bottleneck"], verdict["cause"]
    tap.same(got, wanted, "bottleneck and cause", verdict["text"],
             tool.summary["workers"][0]["states"] if tool.summary["workers"] else "no workers")
    if severity:
        tap.check(verdict["severity"] in severity, "severity", verdict["severity"])
    if wanted[0] == "data_loading":
        where = "main" if wanted[1] == "main_process" else "workers"
        tap.same(verdict["where"], where, "where")
        tap.check(verdict["evidence"] and verdict["advice"] and verdict["text"], "says why", verdict)
        tap.check(verdict["candidates"] and verdict["candidates"][0]["cause"] == wanted[1]
                  and sum(c["share"] for c in verdict["candidates"]) <= 1.0001,
                  "first of the candidates", verdict["candidates"])
    # the screen says the same
    tap.check(any(line.startswith("Verdict: " + wanted[0]) and (wanted[1] == "none" or
                  wanted[1] in line) for line in tool.lines), "on the screen", *tool.lines[-30:])
    return tool


# One worker and a step that waits for an accelerator: the machine's CPUs are not what is scarce.
@group("verdict zlib")
def zlib(env):
    judge(env, ("data_loading", "worker_cpu"), severity=("high",),
          loader={"num_workers": 1, "batch": 4, "work": {"kind": "cpu", "ms": 5}})


@group("verdict python loop")
def python(env):
    judge(env, ("data_loading", "worker_cpu"), severity=("high",),
          loader={"num_workers": 1, "batch": 4, "work": {"kind": "python", "ms": 5}})


@group("verdict cold read")
def disk(env):
    judge(env, ("data_loading", "disk_read"), severity=("high",),
          loader={"num_workers": 2, "batch": 4, "work": {"kind": "disk", "path": env.cold_file()}})


@group("verdict cold mmap")
def fault(env):
    judge(env, ("data_loading", "page_fault_read"), severity=("high",),
          loader={"num_workers": 2, "batch": 2, "work": {"kind": "fault", "path": env.cold_file()}})


@group("verdict sleep")
def sleep(env):
    judge(env, ("data_loading", "sleep"), severity=("high",),
          loader={"num_workers": 2, "batch": 4, "work": {"kind": "sleep", "ms": 5}})


@group("verdict no workers")
def main_process(env):
    judge(env, ("data_loading", "main_process"), severity=("high",),
          loader={"num_workers": 0, "batch": 4, "work": {"kind": "cpu", "ms": 2}})


@group("verdict compute bound")
def compute(env):
    judge(env, ("not_data_loading", "none"), severity=("none",), step={"busy_ms": 60},
          loader={"num_workers": 1, "batch": 4, "work": {"kind": "nothing"}})


@group("verdict too short")
def short(env):
    judge(env, ("insufficient_data", "none"), duration=0.5,
          loader={"num_workers": 1, "batch": 4, "work": {"kind": "cpu", "ms": 2}})


@group("verdict within 5 s of attaching")
def soon(env):
    """Six batches a second."""
    tap, session = env.tap, env.session()
    with session.phase("steady", loader={"num_workers": 1, "batch": 4,
                                         "work": {"kind": "sleep", "ms": 40}}):
        tool = env.observe(session.pid, duration=5.5, events=False)
    known = [float(line.split()[0]) for line in tool.lines
             if INTERVAL.match(line) and "data_loading: sleep" in line]
    tap.check(known and known[0] <= 5, "the cause is on a line by then", *tool.lines[:8])


@group("attached in the middle of a call")
def middle(env):
    """Of the first call only the end is seen: it counts, with its time since the window opened."""
    for workers in (0, 1):
        tap, session = env.tap, env.session()
        with session.phase("steady", step={"ms": 20},
                           loader={"num_workers": workers, "batch": 4,
                                   "work": {"kind": "sleep", "ms": 250}}) as phase:
            tool = env.observe(session.pid, duration=6, events=False)
        start, end = compare.window(tool)
        calls = [e for e in phase.truth.nexts if start <= e["t"] <= end]
        begun = [e for e in calls if e["s"] < start]
        tap.check(begun, f"{workers} workers: a call was running when the window opened", calls[:2])
        tap.same(compare.loader_sum(tool, "getnext", "count"), len(calls), "it is counted")
        tap.near(tool.summary["verdict"]["exposed_wait_ratio"],
                 overlap(phase.truth.nexts, start, end) / (end - start), 0.003, "exposed wait")
        tap.same(tool.summary["loss"]["complete"], True, "complete", tool.summary["loss"])
