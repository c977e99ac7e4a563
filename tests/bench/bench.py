#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
What watching a job costs it. Prints markdown tables; needs root, and a Python with torch.

One training per workload (workload.py) runs through all phases:

Direct measurement: the kernel's run time statistics of the tool's BPF programs, as a share of the
CPU time of the job (user and system, trainer and workers) over the same time. Exact for the
programs, the statistics' own time included: "at most" the shortest program's. Not in it are the
traps of uprobes, estimated from what a process outside the job, with the same interpreter, pays for
an os.write() more than without the tool. Programs on tracepoints run for everybody on the machine,
those in a library for every process that uses it: on a busy machine the share is too high.

Paired comparison: phases with the tool (B) and without (A) in turn, of a fixed number of steps:
A tool A none A tool A none ... A. Each B is divided by the mean of the A before and after it.
`none` is a B without a tool: its spread is the noise of the method. Shared hosts change their speed
by tens of percent within seconds; the job times a fixed loop at every step and every 4th sample,
and the ratios are corrected by it, with the slope fitted over the phases without the tool.

A pause is the longest time between two steps that overlaps the tool's attaching (start to attach
line) or leaving (SIGINT to exit), less the usual p99; for `none`, in as long a time without a tool.

PASS and over tell the figure from its target; for the paired comparison, PASS is a median not below
the lowest of `none`, and for pauses a longest one not above the target or the longest of `none`.
"""
import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import meter
import report
import workload

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
JOB_START_S = 120               # importing torch from a slow disk
ATTACH_LIMIT_S = 30
LEAVE_LIMIT_S = 30
FLOOR_RUNS = 100                # a program that ran less often does not tell the floor
WRITES = """
import os, time
fd, n = os.open("/dev/null", os.O_WRONLY), 20000
def one():
    write, t = os.write, time.thread_time_ns()
    for _ in range(n):
        write(fd, b"x")
    return (time.thread_time_ns() - t) / n
print(min(one() for _ in range(5)))
"""


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


class Job:
    """A training until it is closed, in a session of its own: Ctrl-C is for the runner."""

    def __init__(self, opt, name, tmp):
        share = os.path.join(tmp, "share")
        with open(share, "wb") as f:
            f.truncate(workload.WORDS * 8)
        self.words = workload.share(share)
        self.log = os.path.join(tmp, "job.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [opt.python, os.path.join(HERE, "workload.py"), "--workload", name,
                 "--data", opt.data, "--share", share],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.pid = self.process.pid
        try:
            self.wait_for_step(5, JOB_START_S)
        except BaseException:
            self.close()
            raise
        children = meter.read("/proc/%d/task/%d/children" % (self.pid, self.pid))
        self.pids = [self.pid] + sorted(int(v) for v in children.split())

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def steps(self):
        return self.words[workload.STEPS]

    def stamp(self, step):
        """End of a step, seconds."""
        return self.words[workload.stamp(step)] * 1e-9

    def wait_for_step(self, n, limit_s):
        end = time.monotonic() + limit_s
        while self.steps < n:
            if self.process.poll() is not None:
                raise Failed("the job ended: " + meter.read(self.log)[-600:])
            if time.monotonic() > end:
                raise Failed("the job makes no steps: " + meter.read(self.log)[-600:])
            time.sleep(0.01)

    def gap_ms(self, begin, end):
        """Longest time between two steps that overlaps an interval."""
        self.wait_for_step(self.steps + 1, 60)
        longest, step = 0.0, self.steps - 1
        while step > 0 and self.stamp(step) > begin:
            if self.stamp(step - 1) < end:
                longest = max(longest, self.stamp(step) - self.stamp(step - 1))
            step -= 1
        return longest * 1e3

    def spin_ns(self, process, begin, end):
        """Mean of a process's spins in an interval, without those that were interrupted."""
        took, i = [], self.words[workload.SPINS + process] - 1
        oldest = max(0, i - workload.RING + 1000)
        while i >= oldest:
            at = workload.spin(process, i)
            if self.words[at] * 1e-9 < begin:
                break
            if self.words[at] * 1e-9 <= end:
                took.append(self.words[at + 1])
            i -= 1
        if len(took) < 5:
            return None
        took.sort()
        limit = 2.5 * took[len(took) // 20]
        return statistics.mean(v for v in took if v <= limit)

    def steps_at(self, moment, n):
        """Steps done at a moment, the one then running by its fraction; n were complete."""
        self.wait_for_step(n + 1, 60)
        last, following = self.stamp(n - 1), self.stamp(n)
        return n + min(1.0, max(0.0, (moment - last) / (following - last)))


class Tool:
    """The tool, attached. Its lines are read at once, so that the first one can be timed."""

    def __init__(self, opt, job, tmp):
        self.summary = os.path.join(tmp, "summary.json")
        self.lines, self.ready, self.mb = [], None, 0.0
        self.started = threading.Event()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [opt.tool, "--pid", str(job.pid), "--summary", self.summary] + opt.tool_args,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True, start_new_session=True)
        self.pid = self.process.pid
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.started.wait(ATTACH_LIMIT_S)
        finally:
            if not self.ready:
                self.kill()
        if not self.ready:
            raise Failed("the tool did not attach: " + "".join(self.lines)[-600:])

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if not self.ready and line.startswith("dlprof-bpf: pid"):
                self.ready = time.monotonic()
                self.found = line.partition("; ")[2].strip()
                self.started.set()
        self.started.set()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def leave(self):
        """Ctrl-C; returns when it was sent and when the tool was gone, and checks its summary."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        while self.process.poll() is None:
            self.mb = max(self.mb, meter.peak_mb(self.pid))
            if time.monotonic() > begin + LEAVE_LIMIT_S:
                self.kill()
                raise Failed("the tool did not leave within %d s" % LEAVE_LIMIT_S)
            time.sleep(0.002)
        end = time.monotonic()
        if self.process.returncode:
            raise Failed("the tool failed (%d): %s" % (
                self.process.returncode, "".join(self.lines)[-600:]))
        return begin, end

    def loss(self):
        """What the summary says about losses, empty when it says nothing."""
        try:
            with open(self.summary) as f:
                return json.load(f)["loss"] or {}
        except (OSError, ValueError, KeyError):
            return {}


def measure(job, nsteps, limit_s, tool_pid=None):
    """One phase of nsteps steps."""
    def snapshot():
        return {"t": time.monotonic(), "steps": job.steps, "busy": meter.machine_busy_s(),
                "tool": meter.thread_cpu_s(tool_pid) if tool_pid else 0.0,
                "cpu": [meter.cpu_s([pid]) for pid in job.pids], "own": time.process_time()}
    a = snapshot()
    job.wait_for_step(a["steps"] + 2, 60)
    while job.steps < a["steps"] + nsteps and time.monotonic() < a["t"] + limit_s:
        time.sleep(0.02)
    b = snapshot()
    first, last = a["steps"], b["steps"]
    gaps = sorted(job.stamp(i) - job.stamp(i - 1) for i in range(first, last))
    done = job.steps_at(b["t"], last) - job.steps_at(a["t"], first)
    seconds, each = b["t"] - a["t"], [y - x for x, y in zip(a["cpu"], b["cpu"])]
    cpu, tool_cpu = sum(each), b["tool"] - a["tool"]
    spins = [(c, job.spin_ns(k, a["t"], b["t"])) for k, c in enumerate(each)]
    spins = [(c, ns) for c, ns in spins if ns and c > 0]
    return {
        "rate": (last - first) / (job.stamp(last - 1) - job.stamp(first - 1)),
        "cpu_step": cpu / done, "cores": cpu / seconds, "tool_cpu": 100 * tool_cpu / seconds,
        "others": (b["busy"] - a["busy"] - cpu - tool_cpu - b["own"] + a["own"]) / seconds,
        # of all processes, weighted by what each uses of the CPU
        "spin": sum(c * ns for c, ns in spins) / sum(c for c, _ in spins) if spins else None,
        "p99_ms": 1e3 * gaps[int(len(gaps) * 0.99)]}


def wait_until_quiet(limit_s):
    end, told = time.monotonic() + limit_s, False
    while time.monotonic() < end:
        begin, busy = time.monotonic(), meter.machine_busy_s()
        time.sleep(1)
        others = (meter.machine_busy_s() - busy) / (time.monotonic() - begin)
        if others < report.QUIET_CORES:
            return
        if not told:
            say("others use %.2f cores: waiting for quiet, %.0f s at most" % (others, limit_s))
            told = True


def write_ns(opt):
    """What an os.write() costs a process that is not watched."""
    return float(subprocess.check_output([opt.python, "-c", WRITES]))


def direct(opt, job, tmp):
    """BPF run time per program over a while."""
    with meter.BpfStats():
        plain_ns = write_ns(opt)
        tool = Tool(opt, job, tmp)
        try:
            time.sleep(opt.settle)
            names = {i: meter.program_name(i) for i in meter.programs(tool.pid)}

            def snapshot():
                return (time.monotonic(), job.steps, meter.cpu_s(job.pids),
                        meter.switches(job.pids), meter.machine_busy_s(), meter.programs(tool.pid))
            a = snapshot()
            time.sleep(opt.direct)
            b = snapshot()
            trap_ns = write_ns(opt) - plain_ns
            tool.leave()
        except BaseException:
            tool.kill()
            raise
    seconds, steps, cpu, switches, busy = (y - x for x, y in zip(a[:5], b[:5]))
    if not steps or not cpu:
        raise Failed("the job made no steps")
    found = []
    for i, now in b[5].items():
        was = a[5].get(i, {"ns": 0, "runs": 0, "missed": 0})
        runs, ns = now["runs"] - was["runs"], now["ns"] - was["ns"]
        found.append({
            "name": names.get(i, str(i)), "uprobe": now["type"] == meter.PROG_TYPE_KPROBE,
            "runs": runs, "rate": runs / seconds, "per_step": runs / steps,
            "ns": ns / runs if runs else None, "share": ns / cpu / 1e7,
            "missed": now["missed"] - was["missed"]})
    found.sort(key=lambda p: -p["share"])
    uprobes = sum(p["rate"] for p in found if p["uprobe"])
    floor = min((p["ns"] for p in found if p["runs"] >= FLOOR_RUNS), default=None)
    return {
        "share": sum(p["share"] for p in found), "programs": found, "floor_ns": floor,
        "floor_share": floor and floor * sum(p["runs"] for p in found) / cpu / 1e7,
        "uprobes": uprobes, "trap_ns": trap_ns,
        "trap_share": uprobes * trap_ns * seconds / cpu / 1e7,
        "missed": sum(p["missed"] for p in found),
        "steps": steps / seconds, "cores": cpu / seconds, "switches": switches / seconds,
        "others": (busy - cpu) / seconds, "found": tool.found}


def with_tool(opt, job, nsteps, limit_s, tmp):
    tool = Tool(opt, job, tmp)
    try:
        attach_cpu = meter.thread_cpu_s(tool.pid)
        time.sleep(opt.settle)
        phase = measure(job, nsteps, limit_s, tool.pid)
        begin, end = tool.leave()
    except BaseException:
        tool.kill()
        raise
    phase.update(attach_s=tool.ready - tool.begin, attach_cpu_s=attach_cpu, leave_s=end - begin,
                 mb=tool.mb, loss=tool.loss(), leave_gap_ms=job.gap_ms(begin, end),
                 attach_gap_ms=job.gap_ms(tool.begin, tool.ready))
    return phase


def without_tool(opt, job, nsteps, limit_s, like):
    """The same with nothing attached, for as long as the tool took."""
    begin = time.monotonic()
    time.sleep(like["attach_s"] + opt.settle)
    phase = measure(job, nsteps, limit_s)
    end = time.monotonic()
    time.sleep(like["leave_s"])
    phase.update(attach_gap_ms=job.gap_ms(begin, begin + like["attach_s"]),
                 leave_gap_ms=job.gap_ms(end, end + like["leave_s"]))
    return phase


def paired(opt, job, name, result, tmp):
    rate = measure(job, 1 << 30, opt.phase / 2)["rate"]
    nsteps, limit_s = max(5, round(rate * opt.phase)), 3 * opt.phase
    say("%s: %.1f steps/s, %d pairs of %d steps" % (name, rate, opt.pairs, nsteps))
    before = measure(job, nsteps, limit_s)
    result.update(A=[before], tool=[], none=[])
    for i in range(opt.pairs):
        for kind in "tool", "none":
            if kind == "tool":
                phase = with_tool(opt, job, nsteps, limit_s, tmp)
            else:
                phase = without_tool(opt, job, nsteps, limit_s, result["tool"][-1])
            time.sleep(opt.rest)
            after = measure(job, nsteps, limit_s)
            for key in "rate", "cpu_step", "spin":
                if phase[key] and before[key] and after[key]:
                    phase["ratio_" + key] = 2 * phase[key] / (before[key] + after[key])
            for key in "attach", "leave":
                usual = (before["p99_ms"] + after["p99_ms"]) / 2
                phase[key + "_pause_ms"] = max(0.0, phase[key + "_gap_ms"] - usual)
            result[kind].append(phase)
            result["A"].append(after)
            before = after
            say("%s %2d %s  rate ratio %.4f  cpu ratio %.4f  others %.2f cores" % (
                name, i + 1, kind, phase["ratio_rate"], phase["ratio_cpu_step"], phase["others"]))


def header(opt):
    def output(*argv):
        return subprocess.run(argv, stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
    uname = os.uname()
    head = {
        "machine": "%s, %d cores, kernel %s" % (meter.cpu_model(), os.cpu_count(), uname.release),
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "versions": "%s, Python %s, torch %s" % (
            output(opt.tool, "--version").split("\n")[0], *output(
                opt.python, "-c", "import platform, torch; print(platform.python_version(), "
                "torch.__version__)").split()),
        "command": " ".join(map(shlex.quote, [sys.executable] + sys.argv))}
    if meter.read(meter.SYSCTL).strip() == "1":
        head["note"] = "kernel.bpf_stats_enabled was on: the paired comparison contains its cost"
    return head


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tool", default=os.path.join(ROOT, "build", "dlprof-bpf"))
    add("--tool-args", type=shlex.split, default=[], metavar="ARGS", help="options for the tool")
    add("--python", default=sys.executable, help="the Python that has torch, numpy and pillow")
    add("--workload", action="append", choices=sorted(workload.DATASETS),
        help="repeatable; default: all")
    add("--pairs", type=int, default=15)
    add("--direct-only", action="store_true", help="no paired comparison")
    add("--quick", action="store_true", help="1 pair of short phases: does it work?")
    add("--json", metavar="FILE", help="everything measured")
    add("--data", default=os.path.join(ROOT, "build", "bench-data"),
        help="folder for the generated files (default build/bench-data)")
    add("--phase", type=float, default=4.0, metavar="S", help="steps of this time in a phase")
    add("--direct", type=float, default=10.0, metavar="S", help="length of the direct measurement")
    add("--settle", type=float, default=1.5, metavar="S", help="between attaching and measuring")
    add("--rest", type=float, default=0.5, metavar="S", help="between a B and the next A")
    add("--quiet-wait", type=float, default=60.0, metavar="S",
        help="wait this long for others to leave the CPUs alone, before each workload")
    add("--warm", type=float, default=4.0, metavar="S", help="before the first phase of a job")
    opt = parser.parse_args()
    if opt.quick:
        opt.pairs, opt.phase, opt.direct, opt.settle = 1, 1.0, 2.0, 0.5
        opt.rest, opt.warm, opt.quiet_wait = 0.2, 0.5, 0.0
    opt.workload = opt.workload or sorted(workload.DATASETS)
    if os.geteuid():
        parser.error("loading BPF programs needs root")
    if not os.access(opt.tool, os.X_OK):
        parser.error("no such program: %s (run make)" % opt.tool)
    return opt


def run(opt, name, result, tmp):
    wait_until_quiet(opt.quiet_wait)
    job = Job(opt, name, tmp)
    try:
        time.sleep(opt.warm)
        result["direct"] = direct(opt, job, tmp)
        say("%s: BPF programs take %.2f %% of the job's CPU" % (name, result["direct"]["share"]))
        if not opt.direct_only:
            paired(opt, job, name, result, tmp)
    finally:
        job.close()


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's `&` ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    opt = options()
    subprocess.run([opt.python, os.path.join(HERE, "workload.py"), "--data", opt.data], check=True)
    results = {"header": header(opt), "workloads": {}}
    status = 0
    tmp = tempfile.mkdtemp(prefix="dlprof-bench-")
    try:
        for name in opt.workload:
            result = results["workloads"].setdefault(name, {})
            try:
                run(opt, name, result, tmp)
            except Failed as e:
                result["error"] = str(e)
                status = 1
                say("%s: %s" % (name, e))
    except KeyboardInterrupt:
        say("interrupted: what there is so far")
        status = 130
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    if opt.json:
        with open(opt.json, "w") as f:
            json.dump(results, f, indent=1)
    report.write(results, sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
