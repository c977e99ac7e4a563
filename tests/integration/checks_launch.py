# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Commands that dlprof-bpf starts: it is there from the first batch on, and is the command to all
others: its streams, signals, user and exit status."""
import contextlib
import json
import os
import pty
import signal
import subprocess
import tempfile
import time

import compare
from checks_messages import NOBODY
from checks_robust import LOADER, STEP, wait_for
from harness import DEBIAN_PYTHON, Failed, Skip, group, parse_events, timing

# 16 batches and the end of the epoch, begun as soon as torch is there
AT_ONCE = """
import os, time, torch
imported = time.monotonic_ns()
from torch.utils.data import DataLoader
count = sum(1 for batch in DataLoader(list(range(64)), batch_size=4))
print(imported, count + 1, os.getuid(), flush=True)
"""
LAUNCHER = """
import subprocess, sys, torch
sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))
"""
# a rank of a distributed job: the process that has loaded torch first has no DataLoader
RANK = """
import json, os, time, torch
import torch.multiprocessing
from torch.utils.data import DataLoader

def train():
    ends = []
    for batch in DataLoader(list(range(800)), batch_size=4, num_workers=1):
        ends.append(time.monotonic_ns())
        time.sleep(0.01)
    print(json.dumps([os.getpid(), ends]), flush=True)

process = torch.multiprocessing.get_context("fork").Process(target=train)
process.start()
process.join()
"""


class Launch:
    """The tool as the prefix of a command. What it says goes to a file, with the command's stderr."""

    def __init__(self, env, *options):
        env.serial += 1
        base = os.path.join(env.folder, f"launch{env.serial}")
        self.summary_path, self.events_path = base + ".json", base + ".events"
        self.prefix = [env.tool, "--summary", self.summary_path, "--events", self.events_path,
                       *options, "--"]
        self.summary, self.stolen_ns, self.lines = None, 0, []

    def read(self):
        """What it has written; for the comparisons, which take this for a finished Tool."""
        try:
            with open(self.summary_path) as file:
                self.summary = json.load(file)
        except OSError as e:
            raise Failed(f"no summary: {e}") from None
        return self

    def events(self):
        return parse_events(self.events_path)

    def run(self, *command, **more):
        return subprocess.run([*self.prefix, *command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, **more)


def full(tap, launch, truth):
    """Everything the job did is in it: it was attached before there was anything to see."""
    start, end = compare.window(launch)
    first = min(e["s"] for e in truth.iters)
    tap.same(len(truth.iters), 3, "a job of three epochs")
    tap.check(launch.summary["target"]["launched_ns"] < start < first,
              "attached before the first iterator", f"{(first - start) / 1e6:.0f} ms before it")
    tap.same(compare.loader_sum(launch, "getnext", "count"), len(truth.nexts),
             "every GetNext of the job is counted")
    compare.check_complete(tap, launch)
    compare.check_durations(tap, launch, truth)
    compare.check_exposed(tap, launch, truth)
    compare.check_iterators(tap, launch, truth)
    compare.check_births(tap, launch, truth)
    compare.check_sums(tap, launch, truth)


def said(session):
    """The whole of stderr: the job's and the tool's."""
    with open(session.log.name, errors="replace") as file:
        return file.read()


def job(env, launch, wrapper=()):
    """Three epochs in a process that the wrapper starts; (truth, the job's log, exit status)."""
    session = env.new_session(prefix=[*launch.prefix, *wrapper])
    try:
        with session.phase("plan", loaders={"train": {**LOADER, "n": 120}},
                           epochs=[["train", None]] * 3, step=STEP) as phase:
            phase.go()
            phase.wait()
        session.close()
        return phase.truth, said(session), session.process.returncode
    finally:
        session.close(kill=True)


# ---- what is observed ------------------------------------------------------------------------
@group("launch, a job behind a shell")
def behind_shell(env):
    launch = Launch(env)
    truth, log, status = job(env, launch, ["bash", "-c", '"$@"; exit 3', "bash"])
    full(env.tap, launch.read(), truth)
    env.tap.same(status, 3, "the shell's exit status")
    env.tap.check("Verdict: " in log and "scopes: " in log, "the report goes to stderr", log)


@group("launch, a launcher that has torch itself")
def behind_launcher(env):
    """First a script that only asks torch something, then what torchrun does."""
    tap, launch = env.tap, Launch(env)
    folder = tempfile.mkdtemp(dir=env.folder)
    launcher = os.path.join(folder, "torchrun")
    with open(launcher, "w") as file:
        file.write(LAUNCHER)
    script = 'p=$1; "$p" -c "import torch, time; time.sleep(1)"; shift; "$p" ' + launcher + ' "$@"'
    truth, log, status = job(env, launch, ["sh", "-c", script, "sh"])
    full(tap, launch.read(), truth)
    tap.same(status, 0, "exit status", log)
    tap.check("jobs.py" in launch.summary["target"]["cmdline"] and
              "torchrun" not in launch.summary["target"]["cmdline"], "the trainer is observed",
              launch.summary["target"])
    tap.check(log.count("scopes: ") == 2, "after the one that had no batch", log)


@group("launch, a job whose child trains")
def child_trains(env):
    tap, launch = env.tap, Launch(env)
    ran = launch.run(env.python, "-c", RANK)
    tap.same(ran.returncode, 0, "status 0", ran.stderr)
    pid, ends = json.loads(ran.stdout)
    tap.same(launch.read().summary["target"]["pid"], pid, "the child is observed", ran.stderr)
    start, end = compare.window(launch)
    sure = sum(start + compare.EDGE_NS < t < end - compare.EDGE_NS for t in ends)
    count = compare.loader_sum(launch, "getnext", "count")
    # the call that ends the epoch is not among the job's own
    tap.check(sure > 50 and sure <= count <= sure + 3, f"GetNext count exact ({sure})", count)
    tap.check(start - ends[0] < 2e9, "soon after its first batch", f"{(start - ends[0]) / 1e6:.0f} ms")


@group("launch, a job that begins at once")
def at_once(env):
    """Nothing stops it while we attach; its import takes longer than that."""
    seen = []

    def attempt():
        launch = Launch(env, "--quiet")
        ran = launch.run("sh", "-c", 'exec "$@"', "sh", env.python, "-c", AT_ONCE)
        launch.read()
        imported, count, _ = map(int, ran.stdout.split())
        start, _ = compare.window(launch)
        missed = count - compare.loader_sum(launch, "getnext", "count")
        seen.append((imported - start) / 1e6)
        if not missed and not ran.returncode:
            return None
        return (f"{missed} of {count} calls missed, status {ran.returncode}: attached "
                f"{(start - imported) / 1e6:.0f} ms after the import, {ran.stderr}")
    timing(env.tap, attempt, "no call is missed")
    env.tap.note(f"attached {seen[-1]:.0f} ms before the import was over")


@group("launch, --duration")
def duration(env):
    tap, launch = env.tap, Launch(env, "--duration", "1", "--quiet")
    session = env.new_session(prefix=launch.prefix)
    try:
        with session.phase("steady", loader=LOADER, step=STEP):
            tap.check(wait_for(lambda: os.path.exists(launch.summary_path), 20),
                      "the summary is written while the command runs")
            tap.check(session.alive(), "the command runs on", session.tail())
        session.close()
        tap.same(session.process.returncode, 0, "exit status", session.tail())
        tap.near(launch.read().summary["window"]["wall_s"], 1, 0.1, "as long as asked for")
    finally:
        session.close(kill=True)


@group("a launcher's pid, and the list")
def by_launcher(env):
    """A job that runs already, of which only the shell's pid is known."""
    tap = env.tap
    session = env.new_session(prefix=["sh", "-c", '"$@"; exit 0', "sh"])
    try:
        with session.phase("steady", loader=LOADER, step=STEP) as phase:
            shown = subprocess.run([env.tool, "--list"], capture_output=True, text=True, timeout=30)
            tool = env.observe(session.pid, duration=1)
        trainer = tool.summary["target"]["pid"]
        tap.check(trainer != session.pid, "its child is observed", tool.summary["target"])
        tap.check(tool.stderr.startswith("dlprof-bpf: ") and tool.stderr.count("\n") == 1 and
                  str(session.pid) in tool.stderr and str(trainer) in tool.stderr, "and that is said",
                  tool.stderr)
        compare.check_count(tap, tool, phase.truth)
        rows = [line.split() for line in shown.stdout.splitlines()]
        row = next((row for row in rows if row[0] == str(trainer)), None)
        tap.check(row and row[1:4] == ["-", "root", session.torch] and "jobs.py" in row[-1],
                  "the job is in the list", shown.stdout)
        # an epoch ends from time to time, and its workers with it
        tap.check(row and int(row[4]) <= 2, "with its workers", row)
        tap.check(all(row[0] != str(session.pid) for row in rows), "the shell is not", shown.stdout)
    finally:
        session.close(kill=True)


# ---- what the command and its caller notice ----------------------------------------------------
@group("launch, ends")
def ends(env):
    tap = env.tap
    for script, status in (("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143),
                           ("kill -KILL $$", 137)):
        launch = Launch(env)
        ran = launch.run("sh", "-c", f"echo out; echo err >&2; {script}")
        tap.same((ran.returncode, ran.stdout), (status, "out\n"), f"{script}: status and stdout",
                 ran.stderr)
        tap.check(ran.stderr.startswith("err\ndlprof-bpf: ") and ran.stderr.count("\n") == 2 and
                  "torch" in ran.stderr, f"{script}: one line says that there was no torch",
                  ran.stderr)
        summary = launch.read().summary
        verdict, target = summary["verdict"], summary["target"]
        tap.same((verdict["bottleneck"], verdict["exposed_wait_ratio"],
                  summary["loss"]["complete"], summary["tool"]["capture"]["missing"]),
                 ("insufficient_data", None, False, ["torch"]), f"{script}: the summary says so")
        tap.check(target["pid"] and "echo out" in target["cmdline"] and
                  summary["window"]["wall_s"] > 0, f"{script}: and names the command", target)
    for name, command, status in (("missing", "/no/such/program", 127), ("a folder", "/", 126)):
        launch = Launch(env)
        ran = launch.run(command)
        tap.same((ran.returncode, ran.stdout), (status, ""), f"{name}: status {status}", ran.stderr)
        tap.check(ran.stderr.startswith("dlprof-bpf: ") and ran.stderr.count("\n") == 1 and
                  command in ran.stderr, f"{name}: one line", ran.stderr)
        tap.check(not os.path.exists(launch.summary_path), f"{name}: no summary")


@group("launch, not started")
def not_started(env):
    """What would make the run worthless is said before it begins."""
    tap = env.tap
    touched = os.path.join(env.folder, "touched")
    nowhere = os.path.join(env.folder, "no/such/folder.json")
    for name, command, status, word in (
            ("not permitted", [*NOBODY, env.tool], 3, "root"),
            ("no folder for the summary", [env.tool, "--summary", nowhere], 1, nowhere)):
        ran = subprocess.run([*command, "--", "touch", touched], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=30)
        tap.same(ran.returncode, status, f"{name}: status {status}", ran.stderr)
        tap.check(ran.stderr.count("\n") == 1 and word in ran.stderr, f"{name}: one line",
                  ran.stderr)
        tap.check(not os.path.exists(touched), f"{name}: the command was not started")


@group("launch, SIGINT")
def interrupted(env):
    """Sent to the tool alone: the job gets it, ends as it likes, and is reported to its end."""
    tap, launch = env.tap, Launch(env)
    session = env.new_session(prefix=launch.prefix)
    try:
        with contextlib.suppress(Failed):
            with session.phase("steady", loader={**LOADER, "num_workers": 0}, step=STEP):
                time.sleep(0.5)
                session.process.send_signal(signal.SIGINT)
                sent = time.monotonic_ns()
                session.process.wait(20)
        tap.same(session.process.returncode, 130, "status of a command killed by SIGINT",
                 session.tail())
        launch.read()
        tap.check("KeyboardInterrupt" in said(session), "the job got it", session.tail())
        tap.check(compare.loader_sum(launch, "getnext", "count") > 20, "calls were counted")
        _, end = compare.window(launch)
        tap.check(sent < end < sent + 5e9, "the window ends with the job",
                  f"{(end - sent) / 1e6:.0f} ms after the signal")
    finally:
        session.close(kill=True)


@group("launch, nobody reads")
def nobody_reads(env):
    """The command's exit status survives a reader that is gone."""
    ran = subprocess.Popen([env.tool, "--", "sh", "-c", "sleep 0.3; exit 6"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    ran.stderr.close()
    env.tap.same(ran.wait(30), 6, "exit status")


@group("launch, Ctrl-C on a terminal")
def terminal(env):
    """The terminal sends it to tool and command alike: the command must not get it twice."""
    script = 'n=0; trap "n=$((n+1)); echo got" INT; echo up; ' \
             'i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i+1)); done; echo over; exit 5'
    pid, fd = pty.fork()
    if not pid:
        os.execv(env.tool, [env.tool, "--", "sh", "-c", script])
    text, sent = "", False
    with contextlib.suppress(OSError):
        while data := os.read(fd, 4096):
            text += data.decode(errors="replace")
            if "up" in text and not sent:
                os.write(fd, b"\x03")
                sent = True
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    env.tap.check(text.count("got") == 1 and "over" in text, "the command gets it once", text)
    env.tap.same(status, 5, "and ends when it likes", text)


@group("launch, for another user")
def another_user(env):
    """What sudo does: root's rights, and who it was in the environment."""
    tap = env.tap
    for python in (env.python, DEBIAN_PYTHON):
        with contextlib.suppress(OSError):
            if not subprocess.run([python, "-c", "import torch"], cwd="/", capture_output=True,
                                  user=65534, group=65534, extra_groups=[]).returncode:
                break
    else:
        raise Skip("no Python with torch that another user may run")
    launch = Launch(env)
    ran = launch.run(python, "-c", AT_ONCE, cwd="/",
                     env={**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"})
    tap.same(ran.returncode, 0, "status 0", ran.stderr)
    tap.same(ran.stdout.split()[1:], ["17", "65534"], "it runs as that user", ran.stderr)
    tap.check(launch.read().summary["loaders"], "it was observed", ran.stderr)
    for path in (launch.summary_path, launch.events_path):
        st = os.stat(path)
        tap.same((st.st_uid, st.st_gid), (65534, 65534), f"{os.path.splitext(path)[1]} is theirs")
