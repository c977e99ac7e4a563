# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job without the tool: what /proc and the job's own record say is the matter with it."""
import collections
import contextlib
import glob
import os
import time

import judge
from observe import TICKS, Job
from surroundings import Surroundings
from truth import Truth

SAMPLE_S = 0.02


def text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def children(pid):
    """All descendants."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        for child in map(int, text(path).split()):
            found += [child, *children(child)]
    return found


class Sight:
    """What a process's main thread did between two looks, in ms, and where it slept."""

    def __init__(self, pid):
        self.pid, self.places = pid, collections.Counter()
        self.threads = 0
        self.began = self.last = self.counters()
        self.since = time.monotonic()

    def counters(self):
        stat = text(f"/proc/{self.pid}/task/{self.pid}/stat").rpartition(") ")[2].split()
        if not stat:
            return None
        delay = text(f"/proc/{self.pid}/task/{self.pid}/schedstat").split()
        io = dict(line.split(": ") for line in text(f"/proc/{self.pid}/io").splitlines())
        return {"user": int(stat[11]) * 1000 // TICKS, "system": int(stat[12]) * 1000 // TICKS,
                "runq": int(delay[1]) // 1_000_000 if len(delay) > 1 else 0,
                "minflt": int(stat[7]), "majflt": int(stat[9]),
                "read_kb": int(io.get("read_bytes", 0)) >> 10}

    def sample(self):
        base = f"/proc/{self.pid}/task/{self.pid}"
        state = text(base + "/stat").rpartition(") ")[2][:1]
        place = "running" if state == "R" else text(base + "/wchan").strip() or "?"
        self.places[f"{state}:{place}"] += 1
        with contextlib.suppress(OSError):
            self.threads = max(self.threads, len(os.listdir(f"/proc/{self.pid}/task")))
        self.last = self.counters() or self.last

    def describe(self):
        if not self.began or not self.last:
            return f"{self.pid}: gone"
        figures = " ".join(f"{key} {self.last[key] - self.began[key]}" for key in self.began)
        total = sum(self.places.values()) or 1
        places = ", ".join(f"{place} {n / total:.0%}" for place, n in self.places.most_common(4))
        try:
            cpus = len(os.sched_getaffinity(self.pid))
        except OSError:
            cpus = "?"
        return f"{self.pid}: {figures} threads {self.threads} cpus {cpus} | {places}"


def look(env, scenario, form, stack):
    around = Surroundings(scenario.around, stack)
    lifetime = form.warm + form.seconds + 60
    job = Job(env, scenario, form, around, lifetime).start()
    job.wait_ready()
    time.sleep(form.warm)
    pid, sights, born = job.process.pid, {}, 0
    start = time.monotonic_ns()
    end = start + int(form.seconds * 1e9)
    if around.hogs_from is not None:
        print("# the hogs come with the tool only")
    while time.monotonic_ns() < end and job.process.poll() is None:
        for each in (pid, *children(pid)):
            if each not in sights:
                sights[each] = Sight(each)
                born += 1
            sights[each].sample()
        time.sleep(SAMPLE_S)
    print(f"{scenario.name}: {form.seconds:g} s, {born} processes, job's status {job.process.poll()}")
    for procs in around.procs:
        stat = text(os.path.join(os.path.dirname(procs), "cpu.stat"))
        print(f"  {stat.replace(chr(10), ' ')}")
    for each in list(sights.values())[:8]:
        print(f"  {'job   ' if each.pid == pid else 'worker'} {each.describe()}")
    job.end()
    found = judge.facts(Truth(job.truth_folder), start, end)
    times = sorted((e["t"] - e["s"]) / 1e6 for e in found["batches"])
    if times:
        print(f"  GetNext: {len(times)} batches, median {times[len(times) // 2]:.1f} ms, longest "
              f"{times[-1]:.0f} ms")
    print(f"  in GetNext {found['exposed']:.3f}, in iter() {found['startup']:.3f} of the time; "
          f"wanted {scenario.exposed}", flush=True)
