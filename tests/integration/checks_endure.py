# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job that has a hard time, and a tool that is killed again and again while it watches: what the
job computes is what it computes alone, to the bit; another one that watches all of it is right; and
nothing stays behind in the kernel or in the job. `run.py --long` takes the whole minute."""
import array
import contextlib
import json
import mmap
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

import compare
from checks_robust import bpftool, wait_for
from harness import CGROUPS, Failed, Skip, Tool, group

# forks: the storm's own, beside which each fifth item makes one
SHORT = {"kills": 6, "stops": 3, "storm": {"count": 1500, "rate": 170}, "n": 600, "epochs": 2}
LONG = {"kills": 50, "stops": 12, "storm": {"count": 10_000, "rate": 170}, "n": 2000, "epochs": 6}
WORKERS, BATCH, GLUTTONY_MB, LIMIT_MB = 64, 4, 256, 48
# iterators whose workers are surely listed one by one; a job may have to be run again for the kills
KEPT, RUNS_MAX = 2, 4
# the longest that a tool lives; half of them not counting the time to attach
LIFE_S = 1
# the kernel frees after grace periods, in the background
GONE_WITHIN_S = 20
RSS_MAX = 64 << 20
PRESENT, FROM_FILE = 1 << 63, 1 << 61


# ---- what may stay behind ----------------------------------------------------------------------
def objects():
    """(kind, id) of all programs and maps of dlprof-bpf that the kernel has."""
    found = set()
    for kind in "prog", "map":
        out = subprocess.run([bpftool(), "-j", kind, "show"], capture_output=True, text=True).stdout
        found |= {(kind, x["id"]) for x in json.loads(out or "[]")
                  if x.get("name", "").startswith(("dlp_", "dlprof_b"))}
    return found


def held():
    """(kind, id) of those that some process has open: others may be watching other jobs."""
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if "bpf-" not in "".join(os.readlink(f"/proc/{process}/fd/{fd}")
                                     for fd in os.listdir(f"/proc/{process}/fd")):
                continue
            for fd in os.listdir(f"/proc/{process}/fdinfo"):
                with contextlib.suppress(OSError), open(f"/proc/{process}/fdinfo/{fd}") as file:
                    words = (line.split() for line in file)
                    found |= {(key.removesuffix("_id:"), int(number)) for key, number, *_ in words
                              if key in ("prog_id:", "map_id:")}
    return found


def orphans():
    """Objects that nobody holds; asked for before and after, for those that come and go."""
    before = objects()
    return (before - held()) & objects()


def breakpoints(pid):
    """Addresses of the job's code that is not as in its file."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory, \
            open(f"/proc/{pid}/pagemap", "rb", 0) as pages:
        for line in maps:
            span, access, offset, _, _, *path = line.split()
            if access[:3] != "r-x" or not path or not os.path.isfile(path[0]):
                continue
            start, end = (int(x, 16) for x in span.split("-"))
            entries = array.array("Q", os.pread(pages.fileno(), (end - start) // mmap.PAGESIZE * 8,
                                                start // mmap.PAGESIZE * 8))
            with open(path[0], "rb", 0) as file:
                for i, entry in enumerate(entries):
                    # a page that has been written to is no longer the file's
                    if not entry & PRESENT or entry & FROM_FILE:
                        continue
                    at = i * mmap.PAGESIZE
                    here = os.pread(memory.fileno(), mmap.PAGESIZE, start + at)
                    there = os.pread(file.fileno(), mmap.PAGESIZE, int(offset, 16) + at)
                    found |= {start + at + k for k in range(len(there)) if here[k] != there[k]}
    return found


class Leftover:
    """What has been there at every look."""

    def __init__(self, look):
        self.look, self.rest = look, look()

    def gone(self):
        self.rest &= self.look()
        return not self.rest


def check_nothing_left(tap, pid):
    left = Leftover(orphans)
    tap.check(wait_for(left.gone, GONE_WITHIN_S), "no program and no map is left (bpftool)", left.rest)
    left = Leftover(lambda: breakpoints(pid))
    wait_for(left.gone, GONE_WITHIN_S)
    if left.rest and held():
        return tap.skip("no probe is left", "another dlprof-bpf watches jobs of this Python")
    tap.check(not left.rest, "no probe is left: the job's code is as in its files", left.rest)


# ---- the hard time -----------------------------------------------------------------------------
@contextlib.contextmanager
def small_group():
    """A control group with little memory: its cgroup.procs."""
    old = os.path.exists(f"{CGROUPS}/memory/cgroup.procs")
    name = "memory.limit_in_bytes" if old else "memory.max"
    if not old:
        with contextlib.suppress(OSError), open(f"{CGROUPS}/cgroup.subtree_control", "w") as file:
            file.write("+memory")
    try:
        folder = tempfile.mkdtemp(prefix="dlprof-endure-", dir=f"{CGROUPS}/memory" if old else CGROUPS)
    except OSError as e:
        raise Skip(f"no control group can be made: {e}") from None
    try:
        with open(f"{folder}/{name}", "w") as file:
            file.write(str(LIMIT_MB << 20))
        # what does not fit shall not go to a swap device instead
        with contextlib.suppress(OSError), open(f"{folder}/memory.swap.max", "w") as file:
            file.write("0")
        yield f"{folder}/cgroup.procs"
    except OSError as e:
        raise Skip(f"memory cannot be limited: {e}") from None
    finally:
        wait_for(lambda: not removed(folder))


def removed(folder):
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return os.path.exists(folder)


class Stops(threading.Thread):
    """Stops the job a few times, for a moment."""

    def __init__(self, pid, times, chance):
        super().__init__(daemon=True)
        self.pid, self.times, self.chance, self.done = pid, times, chance, 0

    def run(self):
        for _ in range(self.times):
            time.sleep(self.chance.uniform(0.5, 3))
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(self.chance.uniform(0.05, 0.4))
                os.kill(self.pid, signal.SIGCONT)
                self.done += 1


class Kills:
    """Starts the tool and kills it, again and again. Those that end with the job do not count."""

    def __init__(self, env, wanted, chance):
        self.env, self.left, self.chance, self.at_work = env, wanted, chance, 0
        self.summary = os.path.join(env.folder, "killed.json")
        with open(self.summary, "w") as file:
            file.write("old\n")

    def kill_while(self, session):
        while self.left and session.lines.empty():
            tool = Tool(self.env, session.pid, "--record", self.summary + ".dlp",
                        summary=self.summary, events=False)
            if self.chance.random() < 0.5:
                # a third of one CPU at most, of which 64 workers take their share
                tool.attached(60)
            time.sleep(self.chance.uniform(0, LIFE_S))
            ended = tool.process.poll() is not None
            tool.finish(signal.SIGKILL)
            if ended:
                raise Failed(f"it ended by itself, status {tool.status}: {tool.stderr}")
            self.left -= 1
            self.at_work += tool.attached_ns is not None

    def check(self, tap):
        tap.check(not self.left and self.at_work, f"killed, {self.at_work} times at work")
        with open(self.summary) as file:
            tap.same(file.read(), "old\n", "no summary of those that were killed")
        tap.same([x for x in os.listdir(self.env.folder) if x.startswith("killed.json.") and
                  not x.endswith(".dlp")], [], "and no temporary file")


def arguments(form, procs):
    return {"epochs": form["epochs"], "storm": form["storm"], "step": {"ms": 2},
            "loader": {"num_workers": WORKERS, "n": form["n"], "batch": BATCH,
                       "work": {"kind": "fork", "ms": 1}},
            # one of the first items, with all 64 workers at work
            "gluttony": {"procs": procs, "mb": GLUTTONY_MB, "at": 7}}


def check_job(tap, form, alone, watched):
    tap.same(watched["same"], alone["same"], "batches, losses and model are the same to the bit")
    tap.check(len(alone["same"][0]) == form["epochs"] and alone["same"][2] == form["storm"]["count"],
              "of whole epochs, and every fork did what it should", alone)
    for name, result in ("alone", alone), ("watched", watched):
        tap.check(len(result["failures"]) == 1 and "worker" in result["failures"][0],
                  f"a worker was killed for its memory ({name})", result["failures"])


def check_summary(tap, tool, truth):
    compare.check_complete(tap, tool)
    compare.check_count(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    compare.check_iterators(tap, tool, truth)
    compare.check_sums(tap, tool, truth)
    # of an iterator that its worker's death has kept from coming to be nobody knows the workers
    listed = {w["pid"] for w in tool.summary["workers"]
              if not any(e["s"] <= (w["born_ns"] or 0) <= e["t"] for e in truth.no_iters)}
    broods = [set(it["workers"]) for it in truth.iterators().values()]
    # the oldest dead ones live on in the sums only
    tap.check(listed <= set().union(*broods) and set().union(*broods[-KEPT:]) <= listed,
              "workers are listed, and nothing else", len(listed), listed - set().union(*broods),
              set().union(*broods[-KEPT:]) - listed)
    tap.same([w["exit"] for w in tool.summary["workers"]].count("killed by signal 9"), 1,
             "the one that was killed is named")
    rss = tool.summary["overhead"]["daemon_rss_bytes"]
    tap.check(rss and rss < RSS_MAX, f"in less than {RSS_MAX >> 20} MB", rss)


def watched(env, session, form, procs, chance, kills):
    """The job once more, watched and molested: its result."""
    tap = env.tap
    with session.phase("endure", **arguments(form, procs)) as phase:
        tool = Tool(env, session.pid).attached(60)
        tap.check(breakpoints(session.pid), "probes are seen while there are any")
        stops = Stops(session.pid, form["stops"], chance)
        phase.go()
        stops.start()
        kills.kill_while(session)
        phase.wait(600)
        stops.join()
        tool.finish(signal.SIGTERM).need_summary()
    tap.same(stops.done, form["stops"], "stopped and continued")
    check_summary(tap, tool, phase.truth)
    return phase.result


@group("endurance")
def endurance(env):
    tap, form = env.tap, LONG if env.long else SHORT
    seed = random.SystemRandom().randrange(1 << 32)
    tap.note(f"seed {seed}")
    chance, session = random.Random(seed), env.new_session()
    kills = Kills(env, form["kills"], chance)
    try:
        with small_group() as procs:
            with session.phase("endure", **arguments(form, procs)) as phase:
                phase.go()
                phase.wait(600)
            alone = phase.result
            # on a busy machine it may take more than one job's life to kill that often
            for _ in range(RUNS_MAX):
                result = watched(env, session, form, procs, chance, kills)
                check_job(tap, form, alone, result)
                tap.note(f"{form['storm']['count']} forks took {alone['storm_s']:.1f} s alone, "
                         f"{result['storm_s']:.1f} s watched; {kills.left} kills to go")
                if not kills.left:
                    break
        kills.check(tap)
        check_nothing_left(tap, session.pid)
    finally:
        session.close(kill=True)
