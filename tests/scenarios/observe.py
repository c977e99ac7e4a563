# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One run of a scenario: its surroundings, its job, the tool beside it."""
import contextlib
import glob
import os
import signal
import subprocess
import tempfile
import time

from harness import Failed, Skip, Tool
from surroundings import Surroundings
from truth import Truth

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS = os.sysconf("SC_CLK_TCK")
GRACE_S = 4  # for a job to write its record and end its workers
SKIPPED = 77  # exit status of a job that this machine cannot run


def foreign_cpu_s(groups):
    """CPU time the machine has spent so far, less that of the tests and of these process groups."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    ticks = user + nice + system + irq + softirq - sum(os.times()[:4]) * TICKS
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(path) as file:
                fields = file.read().rpartition(") ")[2].split()
            if int(fields[2]) in groups:
                ticks -= sum(map(int, fields[11:15]))
    return ticks / TICKS


class Job:
    """The training process of a scenario, in a process group of its own."""

    def __init__(self, env, scenario, form, around, lifetime):
        self.folder = tempfile.mkdtemp(prefix=scenario.name + "-", dir=env.folder)
        self.truth_folder, self.ready_file = self.folder + "/truth", self.folder + "/ready"
        os.mkdir(self.truth_folder)
        knobs = {**form.knobs, **around.knobs}
        self.command = [*around.prefix, env.python, os.path.join(HERE, "job.py"), scenario.name,
                        "--seconds", str(lifetime), "--truth", self.truth_folder,
                        "--ready", self.ready_file, *(f"{k}={v}" for k, v in knobs.items())]
        self.around, self.process, self.ended = around, None, False

    def start(self):
        def prepare():
            os.setpgrp()
            self.around.enter()
        with open(self.folder + "/log", "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=prepare)
        self.around.groups.add(self.process.pid)
        self.around.stack.callback(self.end)
        return self

    def tail(self):
        with open(self.folder + "/log", errors="replace") as file:
            return file.read()[-1500:]

    def wait_ready(self, timeout=60):
        end = time.monotonic() + timeout
        while not os.path.exists(self.ready_file):
            status = self.process.poll()
            if status == SKIPPED:
                raise Skip(self.tail().strip().splitlines()[-1])
            if status is not None or time.monotonic() > end:
                raise Failed(f"the job did not get ready (status {status})\n{self.tail()}")
            time.sleep(0.05)

    def ready_ns(self):
        with open(self.ready_file) as file:
            return int(file.read())

    def end(self):
        """It gets the time to write its record; then nothing of it may stay."""
        if self.ended:
            return
        self.ended = True
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)
        kill_group(self.process.pid)
        self.process.wait()


def kill_group(pgid):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pgid, signal.SIGKILL)


class Observation:
    """summary, lines: what the tool said; truth: what the job recorded; marks: {name: when, in
    ns}; busy: CPUs that others used meanwhile; record: file for the tool's recording, or None."""

    def __init__(self, scenario, form, record=None):
        self.scenario, self.form, self.record = scenario, form, record
        self.options = ["--record", record] if record else []
        self.summary = self.truth = None
        self.lines, self.marks, self.busy = [], {}, 0.0

    def run(self, env):
        scenario, form = self.scenario, self.form
        with contextlib.ExitStack() as stack:
            around = Surroundings(scenario.around, stack)
            job = self.launch(env, around) if scenario.mode == "launch" else self.attach(env, around)
        self.truth = Truth(job.truth_folder)
        if "switch" in scenario.knobs:
            after = scenario.knobs_for(form.knobs)["switch"]
            self.marks["switch"] = job.ready_ns() + int(after * 1e9)

    @contextlib.contextmanager
    def measured(self, groups):
        """Other work on the machine meanwhile, also when it fails."""
        began, spent = time.monotonic(), foreign_cpu_s(groups)
        try:
            yield
        finally:
            spent = foreign_cpu_s(groups) - spent
            self.busy = max(0.0, spent / max(0.1, time.monotonic() - began))

    def attach(self, env, around):
        lifetime = self.form.warm + self.form.seconds + 60
        job = Job(env, self.scenario, self.form, around, lifetime).start()
        job.wait_ready()
        time.sleep(self.form.warm)
        with self.measured(around.groups):
            tool = env.start(job.process.pid, *self.options, duration=self.form.seconds,
                             events=False)
            around.accompany(tool.attached_ns)
            self.finish(tool)
        self.marks.update(around.marks)
        job.end()
        return job

    def launch(self, env, around):
        job = Job(env, self.scenario, self.form, around, self.form.seconds)
        with self.measured(around.groups):
            tool = Tool(env, None, *self.options, events=False, launch=job.command)
            around.stack.callback(kill_group, tool.pid)
            around.groups.add(tool.pid)
            self.finish(tool)
        return job

    def finish(self, tool):
        tool.finish(timeout=self.form.seconds + 30)
        self.lines = tool.lines
        self.summary = tool.need_summary().summary
        self.marks["attached"] = self.summary["window"]["start_ns"]
        self.marks["ended"] = self.summary["window"]["end_ns"]
