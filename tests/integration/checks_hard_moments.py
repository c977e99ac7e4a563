# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Moments that come once in a while: a process number that is used again, torch replaced on disk, a
trainer that becomes another program, clocks that are set, a tool that is stopped, too few files."""
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import compare
from checks_robust import LOADER, STEP, wait_for
from harness import Failed, Skip, Tool, group

HERE = os.path.dirname(os.path.abspath(__file__))
LAST_PID = "/proc/sys/kernel/ns_last_pid"

# ---- a process number that is used again -----------------------------------------------------
# Each line that it reads is the number that a new trainer is to have; 0 = any.
NURSERY = """
import os, signal, sys, time, torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

def train():
    for batch in DataLoader(list(range(10_000_000)), batch_size=4):
        time.sleep(0.002)

def birth(pid):
    for attempt in range(200):
        if pid:
            with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(pid - 1))
        child = os.fork()
        if not child:
            if pid in (0, os.getpid()):
                train()
            os._exit(0)
        if pid in (0, child):
            return child
    return 0

print("up", flush=True)
for line in sys.stdin:
    print(birth(int(line)), flush=True)
"""


class Nursery:
    """Trainers, as many as asked for, all alike."""

    def __init__(self, env):
        self.process = subprocess.Popen([env.python, "-c", NURSERY], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, start_new_session=True)
        self.process.stdout.readline()

    def birth(self, pid=0):
        self.process.stdin.write(f"{pid}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def death(self, pid):
        os.kill(pid, signal.SIGKILL)
        if not wait_for(lambda: not os.path.exists(f"/proc/{pid}")):
            raise Failed(f"pid {pid} does not end")

    def close(self):
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def open_files(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def replaced_while_attaching(env, nursery, files):
    """What is wrong when the target dies and another is given its number while the tool, which has
    looked at the first one, is about to have more files open than `files`."""
    first = nursery.birth()
    time.sleep(0.1)
    tool = Tool(env, first, duration=4)
    end = time.monotonic() + 10
    while open_files(tool.pid) < files and tool.process.poll() is None and time.monotonic() < end:
        pass
    tool.signal(signal.SIGSTOP)
    nursery.death(first)
    died = time.monotonic_ns()
    if nursery.birth(first) != first:
        tool.finish(signal.SIGKILL)
        return "the number went to somebody else", False
    time.sleep(0.05)
    tool.signal(signal.SIGCONT)
    going_on = time.monotonic()
    tool.finish()
    took = time.monotonic() - going_on
    wrong = []
    if took > 2:
        wrong.append(f"it went on for {took:.1f} s")
    if tool.attached_ns is None:
        if tool.status != 1 or tool.stderr.count("\n") != 1 or tool.summary:
            wrong.append(f"status {tool.status}, {tool.stderr!r}, summary: {bool(tool.summary)}")
    elif [e for e in tool.events() if e["kind"] == "SCOPE" and int(e["ts"]) > died]:
        wrong.append("scopes of the other process")
    nursery.death(first)
    return "; ".join(wrong), True


@group("pid reuse, while attaching")
def pid_reused(env):
    if not os.access(LAST_PID, os.W_OK):
        raise Skip(f"no {LAST_PID}: this kernel gives no chosen numbers")
    tap, nursery = env.tap, Nursery(env)
    try:
        done = 0
        # the maps come first, then the programs, the perf events, and what is read at intervals
        for files in (12, 20, 40, 60, 72, 80):
            wrong, counts = replaced_while_attaching(env, nursery, files)
            if not counts:
                tap.note(f"{files} files: {wrong}")
                continue
            done += 1
            tap.check(not wrong, f"the other one is not observed, at {files} files", wrong)
        tap.check(done >= 4, "the number was given again", done)
    finally:
        nursery.close()


def burn(pid):
    """A process of that number that computes; None when the number goes to others."""
    for _ in range(200):
        with open(LAST_PID, "w") as file:
            file.write(str(pid - 1))
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
    return None


@group("pid reuse, of a worker")
def worker_pid_reused(env):
    """Workers end with each epoch; the number of one goes to a process outside of the job."""
    if not os.access(LAST_PID, os.W_OK):
        raise Skip(f"no {LAST_PID}: this kernel gives no chosen numbers")
    tap, session = env.tap, env.session()
    loaders = {"short": {**LOADER, "n": 40}, "long": {**LOADER, "n": 3000}}
    with session.phase("plan", loaders=loaders, epochs=[["short", None], ["long", 400]],
                       step=STEP) as phase:
        tool = env.start(session.pid)
        phase.go()
        path = f"/proc/{session.pid}/task/{session.pid}/children"

        def children():
            with open(path) as file:
                return {int(pid) for pid in file.read().split()}
        wait_for(children)
        old = children()
        if not wait_for(lambda: old and not old & children()):
            raise Failed("the first epoch does not end")
        number = min(old)
        burner = burn(number)
        if not burner:
            raise Skip(f"the number {number} went to others")
        began = time.monotonic_ns()
        try:
            time.sleep(1.5)
        finally:
            burner.kill()
            burner.wait()
        tool.finish(signal.SIGINT).need_summary()
        phase.wait()
    compare.check_count(tap, tool, phase.truth)
    mine = [w for w in tool.summary["workers"] if w["pid"] == number]
    tap.check(len(mine) == 1, "the worker is listed once", mine)
    if mine and tap.check(mine[0]["died_ns"], "its end was seen", mine):
        tap.check(sum(mine[0]["states"].values()) * 1e3 <
                  mine[0]["died_ns"] - mine[0]["born_ns"] + 20e6, "its time ends with it", mine)
    # at the end of an interval it is said that the worker has ended, and how often it was sampled
    late = [e for e in tool.events() if e.get("tgid") == str(number) and int(e["ts"]) > began + 1e8
            and e["kind"] != "OTHER" and e.get("ended") != "1" and int(e.get("samples", 0)) > 20]
    tap.same(late, [], "nothing of the other process is among the job's events")


# ---- torch replaced on disk ------------------------------------------------------------------
def own_torch(env):
    """A folder for PYTHONPATH with a torch whose two libraries are its own; their paths."""
    folder = tempfile.mkdtemp(prefix="torch-", dir=env.folder)
    source = subprocess.run([env.python, "-c", "import torch; print(torch.__path__[0])"],
                            capture_output=True, text=True, check=True).stdout.strip()
    names = ("libtorch_cpu.so", "libtorch_python.so")
    os.makedirs(os.path.join(folder, "torch/lib"))
    for part in ("", "lib"):
        for name in os.listdir(os.path.join(source, part)):
            if name != "lib" and name not in names:
                os.symlink(os.path.join(source, part, name), os.path.join(folder, "torch", part, name))
    for name in names:
        here = os.path.join(folder, "torch/lib", name)
        try:
            os.link(os.path.join(source, "lib", name), here)
        except OSError:
            shutil.copy(os.path.join(source, "lib", name), here)
    return folder, [os.path.join(folder, "torch/lib", name) for name in names]


@group("torch replaced on disk")
def torch_replaced(env):
    tap = env.tap
    folder, (cpu, python) = own_torch(env)
    session = env.new_session(prefix=["env", f"PYTHONPATH={folder}"])
    try:
        with session.phase("steady", loader=LOADER, step=STEP) as phase:
            os.unlink(cpu)
            other = python + ".new"
            with open(other, "wb") as file:
                file.write(b"another release")
            os.rename(other, python)
            with open(f"/proc/{session.pid}/maps") as file:
                gone = {line.split()[5] for line in file if line.endswith("(deleted)\n")}
            if not tap.check({cpu, python} <= gone, "the job has mapped what is gone", gone):
                return
            tool = env.observe(session.pid, duration=1.5)
        tap.same((tool.status, tool.stderr), (0, ""), "status 0, nothing on stderr")
        tap.same(tool.summary["tool"]["capture"]["scopes"], "pair A", "its scopes are seen")
        compare.check_count(tap, tool, phase.truth)
        compare.check_exposed(tap, tool, phase.truth)
    finally:
        session.close(kill=True)
        shutil.rmtree(folder)


# ---- a trainer that becomes another program --------------------------------------------------
CHANGES = """
import json, os, sys, time, torch
from torch.utils.data import DataLoader
print("ready", flush=True)
sys.stdin.readline()
for count, batch in enumerate(DataLoader(list(range(4000)), batch_size=4), 1):
    time.sleep(0.003)
    if count == 200:
        print(json.dumps([count, time.monotonic_ns()]), flush=True)
        os.execv(sys.argv[1], sys.argv[1:])
"""
AGAIN = CHANGES.split("sys.stdin.readline()")[0]


def change(env, duration, *program):
    """A trainer that executes another program after 200 batches: the tool's run, batches, when."""
    job = subprocess.Popen([env.python, "-c", CHANGES, *program], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    try:
        job.stdout.readline()
        tool = env.start(job.pid, duration=duration)
        job.stdin.write("go\n")
        job.stdin.flush()
        count, executed = json.loads(job.stdout.readline())
        tool.finish(timeout=duration + 10)
        env.tap.same((tool.status, tool.stderr, job.poll()), (0, "", None),
                     "status 0, nothing on stderr, the program runs on")
        return tool.need_summary(), count, executed
    finally:
        job.kill()
        job.communicate()


@group("the trainer executes another program")
def executes(env):
    """Training is over then; not so when it starts itself again."""
    tap = env.tap
    tool, count, executed = change(env, 10, shutil.which("sleep"), "30")
    tap.same(compare.loader_sum(tool, "getnext", "count"), count, "what there was is counted")
    tap.check(-1e6 < compare.window(tool)[1] - executed < 1e9, "the window ends with it",
              tool.summary["window"], executed)
    again = AGAIN + "for batch in DataLoader(list(range(40000)), batch_size=4): time.sleep(0.003)"
    tool, count, executed = change(env, 5, env.python, "-c", again)
    tap.near(tool.summary["window"]["wall_s"], 5, 0.1, "started again: the window goes on")
    tap.check(compare.loader_sum(tool, "getnext", "count") > count, "and so does the count",
              tool.summary["loaders"])


# ---- clocks ----------------------------------------------------------------------------------
@group("clocks that are set, a machine that slept")
def clocks(env):
    """Durations are CLOCK_MONOTONIC's alone; see preload_clocks.c."""
    library = os.path.join(os.path.dirname(os.path.dirname(HERE)),
                           "build/tests/integration/preload_clocks.so")
    if not os.access(library, os.R_OK):
        raise Failed(f"{library} is not built")
    tap, session = env.tap, env.session()
    recording = os.path.join(env.folder, "clocks.dlp")
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        before = time.time()
        tool = env.observe(session.pid, "--record", recording, duration=2.5,
                           prefix=["env", f"LD_PRELOAD={library}", env.tool])
        after = time.time()
    tap.same((tool.status, tool.stderr), (0, ""), "status 0, nothing on stderr")
    tap.near(tool.summary["window"]["wall_s"], 2.5, 0.1, "the window is as long as asked for")
    compare.check_count(tap, tool, phase.truth)
    compare.check_durations(tap, tool, phase.truth)
    compare.check_exposed(tap, tool, phase.truth)
    compare.check_clocks(tap, tool, phase.truth)
    compare.check_sums(tap, tool, phase.truth)
    # the first reading, set back or not
    start = tool.summary["window"]["clock_realtime_at_start"] / 1e9
    tap.check(any(before <= start + set_back <= after for set_back in (0, 3600)),
              "the start is one reading of the wall clock", start, before)
    replayed = recording + ".json"
    subprocess.run([env.tool, "replay", recording, "--summary", replayed], check=True,
                   stdout=subprocess.DEVNULL)
    with open(replayed) as file:
        again = json.load(file)
    for part in ("window", "verdict", "loaders", "workers"):
        tap.same(again[part], tool.summary[part], f"replayed alike: {part}")


# ---- a tool that is stopped ------------------------------------------------------------------
@group("the tool is stopped and continued")
def stopped(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        tool = env.start(session.pid)
        time.sleep(0.5)
        tool.signal(signal.SIGSTOP)
        time.sleep(3)
        tool.signal(signal.SIGCONT)
        time.sleep(1)
        tool.finish(signal.SIGINT).need_summary()
    tap.check(tool.summary["window"]["wall_s"] > 4, "the window goes on", tool.summary["window"])
    compare.check_count(tap, tool, phase.truth)
    compare.check_exposed(tap, tool, phase.truth)
    compare.check_clocks(tap, tool, phase.truth)
    loss = tool.summary["loss"]
    if loss["events_lost"]:
        tap.same(loss["complete"], False, "what is lost is told", loss)
        tap.check(any("Lost:" in line for line in tool.lines), "on the screen as well")
    else:
        compare.check_durations(tap, tool, phase.truth)


# ---- too few files ---------------------------------------------------------------------------
def limited(env, soft, hard, *arguments):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return subprocess.run([env.tool, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, preexec_fn=limit)


@group("too few open files")
def few_files(env):
    tap, session = env.tap, env.session()
    summary = os.path.join(env.folder, "few.json")
    with session.phase("steady", loader=LOADER, step=STEP):
        watch = ["--pid", str(session.pid), "--duration", "0.5", "--summary", summary]
        for limit in (5, 8, 12, 30, 80, 100):
            ran = limited(env, limit, limit, *watch)
            tap.check(ran.returncode == 1 and ran.stderr.count("\n") == 1
                      and f"the limit is {limit}," in ran.stderr and "ulimit -n" in ran.stderr
                      and not os.path.exists(summary), f"{limit}: said, with what helps",
                      ran.returncode, ran.stderr)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        ran = limited(env, 30, hard, *watch)
        tap.same((ran.returncode, ran.stderr, os.path.exists(summary)), (0, "", True),
                 "a low soft limit does no harm")
    ran = limited(env, 30, 30, "--", "echo", "started")
    tap.check(ran.returncode == 1 and "ulimit -n" in ran.stderr and "started" not in ran.stdout,
              "no command is started then", ran)
    ran = limited(env, 30, hard, "--", "sh", "-c", "ulimit -n")
    tap.same(ran.stdout, "30\n", "a command has the limit that was given to us")
