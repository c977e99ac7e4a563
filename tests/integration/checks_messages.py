# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is said when a process cannot be observed: one line, and the right exit status."""
import shutil
import subprocess
import sys

from harness import DEBIAN_PYTHON, Skip, Tool, group, has_torch
from checks_robust import LOADER, STEP, wait_for, workers_of

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run_tool(env, *args, prefix=()):
    return subprocess.run([*prefix, env.tool, *args], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=30)


def says(tap, name, run, status, *words):
    tap.same(run.returncode, status, f"{name}: status {status}", run.stderr)
    tap.check(run.stderr.startswith("dlprof-bpf: ") and run.stderr.count("\n") == 1 and
              run.stderr.endswith("\n"), f"{name}: one line on stderr", run.stderr)
    absent = [w for w in words if w not in run.stderr]
    tap.check(not absent, f"{name}: says what matters", run.stderr, f"without {absent}")
    tap.same(run.stdout, "", f"{name}: nothing on stdout")


class Sleeper:
    """A process that is up: it has said so."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


@group("messages")
def messages(env):
    tap = env.tap
    gone = subprocess.Popen(["true"])
    gone.wait()
    says(tap, "no such process", run_tool(env, "--pid", str(gone.pid)), 1, str(gone.pid))
    with Sleeper("sh", "-c", "echo up; read x") as sleeper:
        says(tap, "not Python", run_tool(env, "--pid", str(sleeper.pid)), 1, str(sleeper.pid),
             "not a Python process")
    with Sleeper(sys.executable, "-c", "print('up', flush=True); input()") as sleeper:
        says(tap, "Python without torch", run_tool(env, "--pid", str(sleeper.pid)), 1,
             str(sleeper.pid), "torch")
    says(tap, "a kernel thread", run_tool(env, "--pid", "2"), 1, "2")


@group("usage")
def usage(env):
    tap = env.tap
    for name, args, words in (
            ("no process", (), ("--pid",)), ("no number", ("--pid", "abc"), ("abc",)),
            ("unknown option", ("--pid", "1", "--frobnicate"), ("frobnicate",)),
            ("ring size", ("--pid", "1", "--ring-size", "5000"), ("5000",)),
            ("unknown part", ("--pid", "1", "--without", "luck"), ("luck", "queue-uprobe"))):
        says(tap, name, run_tool(env, *args), 2, *words)
    shown = run_tool(env, "--help")
    tap.check(shown.returncode == 0 and "--pid" in shown.stdout and not shown.stderr, "--help")
    shown = run_tool(env, "--version")
    tap.check(shown.returncode == 0 and shown.stdout.startswith("dlprof-bpf "), "--version")


def worker(env, which):
    tap, session = env.tap, env.session(which)
    with session.phase("steady", loader={**LOADER, "n": 1_000_000}, step=STEP):
        for pid in workers_of(session.pid)[:2]:
            says(tap, "a worker", run_tool(env, "--pid", str(pid)), 1, str(pid), str(session.pid),
                 "worker")


@group("messages, a worker, wheel")
def worker_wheel(env):
    worker(env, "wheel")


@group("messages, a worker, debian")
def worker_debian(env):
    worker(env, "debian")


@group("messages, process ends while attaching")
def ends_early(env):
    """Whatever the moment: a summary or one line, never a hang or a crash."""
    tap, seen = env.tap, []
    for _ in range(2):
        session = env.new_session()
        tool = Tool(env, session.pid, events=False)
        wait_for(lambda: tool.lines or False, 0.15)
        session.process.kill()
        tool.finish(timeout=20)
        session.close(kill=True)
        seen.append((tool.status, tool.stderr))
    tap.check(all(status == 0 and not error or status == 1 and error.count("\n") == 1
                  for status, error in seen), "a summary or one line", seen)


@group("messages, not root")
def not_root(env):
    tap = env.tap
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed (util-linux)")
    session = env.session()
    says(tap, "another user's process", run_tool(env, "--pid", str(session.pid), prefix=NOBODY), 3,
         "root")
    if not has_torch(DEBIAN_PYTHON):
        tap.skip("messages, not root: a process of one's own", f"{DEBIAN_PYTHON} has no torch")
        return
    with Sleeper(*NOBODY, DEBIAN_PYTHON, "-c",
                 "import torch; print('up', flush=True); input()") as own:
        says(tap, "a process of one's own", run_tool(env, "--pid", str(own.pid), prefix=NOBODY), 3,
             "root")
