# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Overload, kills and ends: figures stay right, nothing is left behind, the job is not disturbed."""
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import time

import compare
from harness import INTERVAL, Failed, Skip, Tool, group, timing

LOADER = {"num_workers": 2, "n": 200, "batch": 4, "work": {"kind": "uneven", "ms": 1}}
STEP = {"ms": 2}


def bpftool():
    for place in (shutil.which("bpftool"), "/usr/sbin/bpftool", "/sbin/bpftool"):
        if place and os.access(place, os.X_OK):
            return place
    raise Skip("bpftool is not installed")


def programs():
    """Ids of all loaded programs whose names begin with dlp_."""
    out = subprocess.run([bpftool(), "-j", "prog", "show"], capture_output=True, text=True).stdout
    return {p["id"] for p in json.loads(out or "[]") if p.get("name", "").startswith("dlp_")}


def held_by(pid):
    """Ids of the programs a process holds; others on this machine may run the tool too."""
    ids = set()
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/fdinfo/{name}") as file:
                ids |= {int(line.split()[1]) for line in file if line.startswith("prog_id:")}
    return ids


def wait_for(condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# ---- a ring that is too small ----------------------------------------------------------------
def tiny_ring(env, loader, step):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=loader, step=step) as phase:
        tool = env.start(session.pid, "--ring-size", "4096", duration=3)
        # a reader that is held up: labels alone would be sampled before they fill the ring for long
        time.sleep(1)
        tool.signal(signal.SIGSTOP)
        time.sleep(0.7)
        tool.signal(signal.SIGCONT)
        tool.finish(timeout=33)
        tool.need_summary()
    loss = tool.summary["loss"]
    tap.same(loss["complete"], False, "not complete")
    tap.check(loss["events_lost"] and loss["by_reason"].get("ring_full") == loss["events_lost"]
              and loss["bytes_lost"] > 0, "events lost, ring_full", loss)
    start, end = compare.window(tool)
    seen = len(compare.scopes(tool))
    sure, _ = compare.calls(phase.truth, start, end)
    tap.check(seen < len(sure), "GetNext events are among the lost", f"{seen} of {len(sure)} seen")
    compare.check_count(tap, tool, phase.truth)
    compare.check_exposed(tap, tool, phase.truth)
    return tool, phase.truth


@group("tiny ring, no workers")
def tiny_ring_main(env):
    tool, _ = tiny_ring(env, {"num_workers": 0, "n": 200, "batch": 2, "work": {"kind": "labels"}},
                        {"labels": 100})
    env.tap.check(any("Lost:" in line and "may be short" in line for line in tool.lines),
                  "said on the screen")


@group("tiny ring, workers")
def tiny_ring_workers(env):
    tool, truth = tiny_ring(env, {"num_workers": 2, "batch": 2, "work": {"kind": "labels"}},
                            {"labels": 200})
    env.tap.check(tool.summary["workers"], "workers are listed")
    compare.check_clocks(env.tap, tool, truth)


# ---- SIGKILL of the tool ---------------------------------------------------------------------
FIXED = {"steps": 2000, "loader": {**LOADER, "n": 20_000, "seed": 7,
                                   "work": {"kind": "cpu", "ms": 0.3}}}


def pace(truth, start, end):
    """Time from one GetNext to the next, where least disturbs it (the fastest tenth)."""
    begins = [e["s"] for e in truth.nexts if start <= e["s"] <= end]
    if len(begins) < 50:
        raise Failed(f"only {len(begins)} steps")
    return statistics.quantiles((b - a for a, b in zip(begins, begins[1:])), n=10)[0]


@group("SIGKILL of dlprof-bpf")
def kill_tool(env):
    tap, session = env.tap, env.session()
    with session.phase("fixed", **FIXED) as phase:
        pass
    alone, alone_pace = phase.result, pace(phase.truth, 0, 1 << 62)
    old = os.path.join(env.folder, "old.json")
    with open(old, "w") as file:
        file.write("old\n")
    with session.phase("fixed", **FIXED) as phase:
        tool = env.start(session.pid, summary=old)
        loaded = held_by(tool.pid) & programs()
        tap.check(len(loaded) > 3, "programs are loaded while it runs", loaded)
        # in the middle of its work, not of its start
        wait_for(lambda: len(tool.lines) > 1)
        tool.finish(signal.SIGKILL)
        killed = tool.ended_ns
        tap.check(wait_for(lambda: not loaded & programs()), "no program is left",
                  f"{loaded & programs()} of {loaded}")
        phase.wait()
    tap.check(session.alive(), "the job runs on", session.tail())
    tap.same(phase.result, alone, "the training's result is the same to the bit")
    with open(old) as file:
        tap.same(file.read(), "old\n", "the old summary is untouched")
    litter = [name for name in os.listdir(env.folder) if name.startswith("old.json.")]
    tap.same(litter, [], "no temporary file")

    paces = [(pace(phase.truth, killed, 1 << 62), alone_pace)]

    def full_speed():
        if not paces:
            # once more, first with, then without
            with session.phase("fixed", **FIXED) as again:
                killed = env.start(session.pid).finish(signal.SIGKILL).ended_ns
                again.wait()
            with session.phase("fixed", **FIXED) as free:
                pass
            paces.append((pace(again.truth, killed, 1 << 62), pace(free.truth, 0, 1 << 62)))
        after, free_pace = paces.pop()
        if after <= 1.25 * free_pace + 100_000:
            return None
        return f"a step takes {after / 1e6:.2f} ms after the kill, {free_pace / 1e6:.2f} ms without"
    timing(tap, full_speed, "full speed after it")


# ---- ends ------------------------------------------------------------------------------------
def full(tap, tool, truth):
    """A summary that ended early is as right as any other."""
    tap.same((tool.status, tool.stderr), (0, ""), "status 0, nothing on stderr")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_sums(tap, tool, truth)
    tap.check(any(line.startswith("Verdict: ") for line in tool.lines), "readable summary")


@group("SIGINT, SIGTERM, duration")
def ends(env):
    tap, session, tools = env.tap, env.session(), {}
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        for number in (signal.SIGINT, signal.SIGTERM):
            tool = env.start(session.pid)
            # a summary after the first interval's line, as a person would ask for it
            wait_for(lambda: len(tool.lines) > 1)
            sent = time.monotonic_ns()
            tool.finish(number).need_summary()
            tools[number.name] = tool, sent
        timed = env.observe(session.pid, "--quiet", duration=1.5)
    for name, (tool, sent) in tools.items():
        tap.group = f"ends with {name}"
        full(tap, tool, phase.truth)
        _, end = compare.window(tool)
        tap.near(end, sent, 300e6, "the window ends with the signal")
        tap.check(tool.ended_ns - sent < 2e9, "it ends at once",
                  f"{(tool.ended_ns - sent) / 1e6:.0f} ms")
    tap.group = "ends with --duration"
    full(tap, timed, phase.truth)
    tap.near(timed.summary["window"]["wall_s"], 1.5, 0.1, "the window is as long as asked for")
    tap.check(not any(INTERVAL.match(line) for line in timed.lines), "--quiet: no interval lines")
    tap.check(any(INTERVAL.match(line) for line in tool.lines), "else there are some", *tool.lines)


@group("a worker is killed")
def kill_worker(env):
    tap, session = env.tap, env.new_session()
    try:
        with session.phase("plan", loaders={"train": LOADER, "again": LOADER},
                           epochs=[["train", None], ["again", 30]], step={"ms": 10}) as phase:
            tool = env.start(session.pid)
            phase.go()
            if not wait_for(lambda: workers_of(session.pid)):
                raise Failed("no worker was born")
            wait_for(lambda: len(tool.lines) > 1)
            victim = workers_of(session.pid)[0]
            os.kill(victim, signal.SIGKILL)
            killed = time.monotonic_ns()
            phase.wait()
            tool.finish(signal.SIGINT).need_summary()
        tap.check(phase.result["errors"], "the job saw it", phase.result)
        full(tap, tool, phase.truth)
        entry = {w["pid"]: w for w in tool.summary["workers"]}.get(victim)
        tap.check(entry and entry["exit"] == "killed by signal 9", "its exit is told", entry)
        if entry and entry["died_ns"]:
            tap.near(entry["died_ns"], killed, 50e6, "and when it died")
        tap.check(any(str(victim) in line and "signal 9" in line for line in tool.lines),
                  "on the screen")
    finally:
        session.close(kill=True)


def workers_of(pid):
    """Forks of the job: children with its command line (the resource tracker has another)."""
    def cmdline(process):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/cmdline", "rb") as file:
                return file.read()
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split() if cmdline(child) == cmdline(pid)]


@group("the job ends")
def job_ends(env):
    tap, session = env.tap, env.new_session()
    try:
        with session.phase("plan", loaders={"train": {**LOADER, "n": 100}},
                           epochs=[["train", None]]) as phase:
            tool = env.start(session.pid)
            phase.go()
            phase.wait()
            gone = time.monotonic_ns()
            session.close()
            tool.finish().need_summary()
        full(tap, tool, phase.truth)
        compare.check_iterators(tap, tool, phase.truth)
        compare.check_births(tap, tool, phase.truth)
        tap.check(tool.ended_ns - gone < 5e9, "it ends with the job")
    finally:
        session.close(kill=True)


@group("the job is killed")
def job_killed(env):
    tap, session = env.tap, env.new_session()
    try:
        try:
            with session.phase("steady", loader={**LOADER, "num_workers": 0}, step=STEP):
                tool = env.start(session.pid)
                wait_for(lambda: len(tool.lines) > 1)
                session.process.kill()
                tool.finish().need_summary()
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        tap.same((tool.status, tool.stderr), (0, ""), "status 0, nothing on stderr")
        tap.check(compare.loader_sum(tool, "getnext", "count") > 50, "calls were counted")
        tap.near(tool.summary["window"]["wall_s"], 1.1, 0.6, "the window ends with the job")
    finally:
        session.close(kill=True)


# ---- the summary file ------------------------------------------------------------------------
@group("summary written atomically")
def atomic(env):
    tap, session, seen = env.tap, env.session(), []
    path = os.path.join(env.folder, "atomic.json")
    with session.phase("steady", loader=LOADER, step=STEP):
        # killed at all kinds of moments around the writing
        took_ms = 0
        for part in (None, 0, 0.5, 0.8, 0.95, 1.0):
            with open(path, "w") as file:
                file.write("old\n")
            tool = env.start(session.pid, summary=path, events=False)
            tool.signal(signal.SIGINT)
            if part is None:
                sent = time.monotonic()
                tool.finish()
                took_ms = (time.monotonic() - sent) * 1e3
            else:
                time.sleep(part * took_ms / 1e3)
                tool.finish(signal.SIGKILL)
            with open(path) as file:
                text = file.read()
            seen.append("old" if text == "old\n" else "new" if is_summary(text) else text[:80])
    tap.check(set(seen) <= {"old", "new"}, "the old one or a whole new one", seen)
    tap.same(seen[0], "new", "the new one, given time")
    tap.check("old" in seen, "the old one, killed at once", seen)
    # a file of another kind is written to, not replaced
    tool = None
    with session.phase("steady", loader=LOADER, step=STEP):
        tool = Tool(env, session.pid, duration=0.3, events=False, summary="/dev/stdout").attached()
        tool.finish()
    text = "\n".join(tool.lines)
    tap.check(tool.status == 0 and '"schema": "dlprof.summary/1"' in text, "--summary /dev/stdout",
              tool.status, tool.stderr)


def is_summary(text):
    try:
        return json.loads(text)["schema"] == "dlprof.summary/1"
    except (ValueError, KeyError):
        return False


@group("summary cannot be written")
def unwritable(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step=STEP):
        for path in (env.folder + "/no/such/folder.json", env.folder):
            tool = Tool(env, session.pid, duration=0.3, events=False, summary=path)
            tool.finish()
            tap.same(tool.status, 1, "status 1", tool.stderr)
            tap.check(tool.stderr.count("\n") == 1 and path in tool.stderr and
                      tool.stderr.startswith("dlprof-bpf: "), "one line names the file", tool.stderr)
            tap.check(any(line.startswith("Verdict: ") for line in tool.lines) or not tool.lines,
                      "the screen has the summary all the same", *tool.lines)
