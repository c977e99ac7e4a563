# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings: a replay says what the live run said, whatever became of the recorder or the disk."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

from harness import Failed, Skip, group, parse_events

LOADER = {"num_workers": 2, "n": 400, "batch": 4, "work": {"kind": "uneven", "ms": 1}}
STEP = {"ms": 2}


class Replay:
    """One run of `dlprof-bpf replay`."""

    def __init__(self, env, recording, *options):
        env.serial += 1
        self.summary_path = os.path.join(env.folder, f"replay{env.serial}.json")
        self.run = subprocess.run([env.tool, "replay", recording, "--summary", self.summary_path, *options],
                                  capture_output=True, text=True, timeout=60)
        self.status, self.stderr = self.run.returncode, self.run.stderr
        self.lines = self.run.stdout.splitlines()
        self.summary = None
        with contextlib.suppress(OSError):
            with open(self.summary_path) as file:
                self.summary = json.load(file)

    def need_summary(self, status=0):
        if self.status != status or self.summary is None:
            raise Failed(f"no summary; status {self.status}, stderr: {self.stderr}")
        return self


def text_of(path):
    with open(path) as file:
        return file.read()


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@group("replay")
def replay(env):
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "whole.dlp")
    with session.phase("steady", loader=LOADER, step=STEP):
        tool = env.observe(session.pid, "--record", path, duration=4)
    events = os.path.join(env.folder, "replay.events")
    again = Replay(env, path, "--events", events).need_summary()
    tap.same(again.stderr, "", "nothing to complain about")
    live, copy = text_of(tool.summary_path), text_of(again.summary_path)
    tap.check(live == copy, "the summary is the same to the byte", *different(live, copy))
    # the live run says more: the attach line, and a line per interval
    begin = next(i for i, line in enumerate(tool.lines) if line.startswith("Training"))
    tap.same(again.lines[1:], tool.lines[begin:], "the text is the same")
    tap.check(text_of(events) == text_of(tool.events_path), "the events are the same")
    tap.check(tool.summary["loaders"][0]["batches"] > 100, "there was something to record",
              tool.summary["loaders"])
    # below 1 MB a minute at 100 batches/s is the promise for 4 workers
    batches = sum(loader["batches"] for loader in tool.summary["loaders"])
    size = os.path.getsize(path)
    tap.check(size < 20_000 + batches * 1_000_000 / 6000, "the file is small",
              f"{size} bytes for {batches} batches")
    # whoever may read the file may replay it
    other = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", env.tool,
                            "replay", path], capture_output=True, text=True) \
        if shutil.which("setpriv") else None
    if other:
        tap.same((other.returncode, other.stdout.splitlines()), (0, again.lines), "needs no privileges",
                 other.stderr)


def different(a, b):
    return [f"{x.strip()} | {y.strip()}" for x, y in zip(a.splitlines(), b.splitlines()) if x != y][:10]


@group("replay of what is no recording")
def no_recording(env):
    tap = env.tap
    path = os.path.join(env.folder, "none.dlp")
    for name, data, said in (("empty", b"", "is empty"), ("text", b"x" * 5000, "not a recording"),
                             ("magic only", b"dlprec\r\n", "cut inside its header")):
        with open(path, "wb") as file:
            file.write(data)
        run = Replay(env, path)
        tap.check(run.status == 1 and said in run.stderr and run.stderr.count("\n") == 1
                  and run.summary is None, name, run.status, run.stderr)
    for name, target in (("no file", path + ".none"), ("folder", env.folder), ("device", "/dev/zero")):
        run = Replay(env, target)
        tap.check(run.status == 1 and run.stderr.count("\n") == 1, name, run.status, run.stderr)


@group("SIGKILL of the recorder")
def killed(env):
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "killed.dlp")
    with session.phase("steady", loader=LOADER, step=STEP):
        tool = env.start(session.pid, "--record", path, "--interval", "0.5")
        wait_for(lambda: os.path.getsize(path) > 60_000, 20)
        tool.finish(signal.SIGKILL)
    run = Replay(env, path).need_summary(status=1)
    tap.check("was never completed" in run.stderr and "replayed up to" in run.stderr, "says so", run.stderr)
    wall = run.summary["window"]["wall_s"]
    tap.check(1 < wall < 22, "replays up to the kill", wall)
    batches = run.summary["loaders"][0]["batches"]
    recorded = [e for e in tool.events() if int(e.get("ts", 0)) <= run.summary["window"]["end_ns"]]
    tap.check(batches > 50 and recorded, "the figures are there", batches)
    size = os.path.getsize(path)
    with open(path, "rb+") as file:
        file.truncate(size * 2 // 3)
    cut = Replay(env, path).need_summary(status=1)
    tap.check(re.search(r"is cut at byte \d+: replayed up to", cut.stderr), "says where it is cut", cut.stderr)
    tap.check(0 < cut.summary["window"]["wall_s"] < wall, "replays up to the cut",
              cut.summary["window"]["wall_s"])


@contextlib.contextmanager
def small_disk(env, size):
    place = os.path.join(env.folder, "disk")
    os.makedirs(place, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "dlprof-test", place],
                      capture_output=True).returncode:
        raise Skip("may not mount a tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


@group("full disk")
def full_disk(env):
    tap, session = env.tap, env.session()
    with small_disk(env, "48k") as place:
        path = os.path.join(place, "full.dlp")
        with session.phase("steady", loader={**LOADER, "batch": 1}, step={"ms": 0}) as phase:
            tool = env.observe(session.pid, "--record", path, duration=8)
        run = Replay(env, path)
    tap.same(tool.status, 0, "the observation goes on")
    tap.check("No space left" in tool.stderr and "lacks" in tool.stderr, "says so at the end", tool.stderr)
    lost = tool.summary["loss"]["by_reason"].get("recording_lost", 0)
    tap.check(lost > 0 and tool.summary["loss"]["complete"], "counted, and the figures are whole",
              tool.summary["loss"])
    tap.check(phase.truth.nexts, "the job goes on")
    run.need_summary()
    loss = run.summary["loss"]
    tap.check(loss["by_reason"].get("recording_lost", 0) >= lost and not loss["complete"],
              "the replay knows what it lacks", loss)
    tap.check("part of the recording" in run.summary["tool"]["capture"]["missing"], "and says so",
              run.summary["tool"])


@group("no room to record")
def no_room(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step=STEP):
        for name, path in (("a folder", env.folder), ("a device", "/dev/full"),
                           ("no such folder", env.folder + "/none/a.dlp")):
            run = subprocess.run([env.tool, "--pid", str(session.pid), "--duration", "1", "--record", path],
                                 capture_output=True, text=True, timeout=60)
            tap.check(run.returncode == 1 and "cannot record to" in run.stderr
                      and run.stderr.count("\n") == 1, name, run.returncode, run.stderr)


@group("flight recorder")
def flight(env):
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "flight.dlp")
    # 8 MB are minutes of a real job: a short run shows that the bound is kept and nothing is lost
    with session.phase("steady", loader=LOADER, step=STEP):
        tool = env.observe(session.pid, "--record", path, "--record-max", "8M", duration=3)
    run = Replay(env, path).need_summary()
    live, copy = text_of(tool.summary_path), text_of(run.summary_path)
    tap.check(live == copy, "the summary is the same to the byte", *different(live, copy))
    tap.check(os.path.getsize(path) <= 8 << 20, "within its bound", os.path.getsize(path))
    tap.check(parse_events(tool.events_path), "events were seen")
