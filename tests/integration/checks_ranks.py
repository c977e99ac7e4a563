# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Several trainers in one view: ranks that exchange gradients, one of them with a slow loader."""
import glob
import json
import os
import signal
import subprocess
import tempfile
import time

import compare
from checks_robust import LOADER, STEP, wait_for
from harness import INTERVAL, Failed, group, now
from truth import overlap

# what a rank does; its own figures go to a file at the end
RANK = """
import json, os, sys, time, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

folder, rank = sys.argv[1], int(os.environ["RANK"])
SLOW_S = 0.06

def there(name):
    return os.path.exists(os.path.join(folder, name))

class Items(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        if rank == 1 and i % 4 == 0 and not there("even"):
            time.sleep(SLOW_S)
        return torch.ones(8)

torch.set_num_threads(1)
dist.init_process_group("gloo")
nexts, exchanges = [], []
batches = iter(DataLoader(Items(), batch_size=4, num_workers=1))
gradient = torch.zeros(64)
while not gradient[0]:
    a = time.monotonic_ns()
    next(batches)
    b = time.monotonic_ns()
    time.sleep(0.002)
    gradient[0] = float(there("stop"))
    c = time.monotonic_ns()
    dist.all_reduce(gradient)
    nexts.append((a, b))
    exchanges.append((c, time.monotonic_ns()))
    if len(nexts) == 10:
        open(os.path.join(folder, f"up{rank}"), "w").write(str(os.getpid()))
with open(os.path.join(folder, f"truth{rank}"), "w") as file:
    json.dump({"pid": os.getpid(), "nexts": nexts, "exchanges": exchanges}, file)
del batches
dist.destroy_process_group()
"""


# two ranks that one process forks: they have no number in the environment they were started with
FORKED = """
import json, os, sys, time, torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils.data import DataLoader

def train(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    gradient, nexts, batches = torch.zeros(8), [], iter(DataLoader(range(4000), num_workers=1))
    for _ in range(150):
        a = time.monotonic_ns()
        next(batches)
        nexts.append((a, time.monotonic_ns()))
        time.sleep(0.015)
        dist.all_reduce(gradient)
    with open(os.path.join(folder, f"truth{rank}"), "w") as file:
        json.dump({"pid": os.getpid(), "nexts": nexts}, file)

context = torch.multiprocessing.get_context("fork")
torch.set_num_threads(1)
ranks = [context.Process(target=train, args=(rank, sys.argv[1])) for rank in range(2)]
for rank in ranks:
    rank.start()
for rank in ranks:
    rank.join()
"""


class Job:
    """torchrun with two ranks, below the tool."""

    def __init__(self, env):
        self.folder = tempfile.mkdtemp(prefix="ranks-", dir=env.folder)
        script = os.path.join(self.folder, "train.py")
        with open(script, "w") as file:
            file.write(RANK)
        self.summary_path = os.path.join(self.folder, "launch.json")
        self.log = open(os.path.join(self.folder, "log"), "wb+")
        self.process = subprocess.Popen(
            [env.tool, "--summary", self.summary_path, "--", env.python, "-m",
             "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
             "--rdzv-endpoint", "127.0.0.1:0", script, self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, cwd=self.folder)
        try:
            self.pids = [self.up(rank) for rank in range(2)]
        except Failed:
            self.kill()
            raise
        with open(f"/proc/{self.pids[0]}/stat") as file:
            self.launcher = int(file.read().rpartition(")")[2].split()[1])

    def text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def up(self, rank):
        path = os.path.join(self.folder, f"up{rank}")
        if not wait_for(lambda: os.path.exists(path) and os.path.getsize(path), 120):
            raise Failed(f"rank {rank} does not come up: {self.text()[-2000:]}")
        with open(path) as file:
            return int(file.read())

    def flag(self, name):
        with open(os.path.join(self.folder, name), "w"):
            pass

    def end(self):
        """Both ranks' own figures."""
        self.flag("stop")
        self.process.wait(60)
        with open(self.summary_path) as file:
            self.summary = json.load(file)
        self.truth = []
        for rank in range(2):
            with open(os.path.join(self.folder, f"truth{rank}")) as file:
                self.truth.append(json.load(file))

    def kill(self):
        # the launcher takes its ranks along
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True,
                                  text=True).stdout.split()
        for pid in map(int, children):
            os.kill(pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def part(spans, start, end):
    """Of the time from start to end that these take."""
    return overlap([{"s": s, "t": t} for s, t in spans], start, end) / (end - start)


def check_truth(tap, name, summary, truth):
    """Each rank's own document against what that rank has measured."""
    for rank, entry in enumerate(summary["ranks"]):
        own = entry["summary"]
        start, end = own["window"]["start_ns"], own["window"]["end_ns"]
        nexts = truth[rank]["nexts"]
        # what was running when the window opened may have begun before there was a probe
        early = part([(s, t) for s, t in nexts if s <= start], start, end)
        tap.same((entry["rank"], entry["pid"]), (rank, truth[rank]["pid"]),
                 f"{name}: rank {rank} is there")
        tap.near(entry["exposed_wait_ratio"], part(nexts, start, end), 0.01 + early,
                 f"{name}: rank {rank}: exposed wait")
        count = sum(loader["getnext"]["count"] for loader in own["loaders"])
        sure = sum(s > start and t < end - compare.EDGE_NS for s, t in nexts)
        tap.check(sure > 10 and sure <= count <= sure + 3,
                  f"{name}: rank {rank}: GetNext count ({sure})", count)


def waits_of(summary, truth):
    """How much of the ranks' common time, which is in both windows, each was in the exchange."""
    windows = [entry["summary"]["window"] for entry in summary["ranks"]]
    start = max(truth[0]["exchanges"][0][0], *(window["start_ns"] for window in windows))
    end = min(window["end_ns"] for window in windows)
    return [part(own["exchanges"], start, end) for own in truth]


def lack_of(summary):
    """In an exchange a thread may lack a CPU, too, which is not said to be a wait for the other."""
    return max(entry["summary"]["main"]["outside"]["runq_us"] / entry["summary"]["window"]["wall_s"]
               for entry in summary["ranks"]) / 1e6


def check_even(tap, summary, truth):
    """Neither loader is slow: where other work on the machine holds one rank back, it is that one."""
    job, waits = summary["job"], waits_of(summary, truth)
    gap, lack = waits[0] - waits[1], lack_of(summary)
    if abs(gap) + lack < 0.05:
        tap.same((job["slowest_rank"], job["cause"]), (None, "none"), "even loaders: none is named", job)
    elif abs(gap) - lack > 0.05:
        tap.same(job["slowest_rank"], int(gap > 0), "even loaders: the one that was slower", waits, job)
    else:
        tap.note(f"even loaders: too much else runs here to tell: {waits}, {lack:.3f} without a CPU")


def check_named(tap, name, summary, truth):
    """Rank 1 holds rank 0 back, for as long as rank 0 waits in the exchange of gradients."""
    job, ranks = summary["job"], summary["ranks"]
    said = summary["verdict"]
    tap.same((job["slowest_rank"], job["slowest_pid"], job["cause"], job["in_step"]),
             (1, truth[1]["pid"], "straggler_rank", True), f"{name}: the slow rank is named", job)
    tap.check(f"ank 1 (pid {truth[1]['pid']})" in job["text"] and job["text"] in said["text"],
              f"{name}: in words", job["text"], said["text"])
    tap.same((summary["target"]["pid"], said["bottleneck"]), (truth[1]["pid"], "data_loading"),
             f"{name}: the document is that rank's", said)
    tap.check("sleep" in [c["cause"] for c in said["candidates"]], f"{name}: and says why", said)
    waits = waits_of(summary, truth)
    tap.near(job["others_wait_ratio"], waits[0] - waits[1], 0.05 + lack_of(summary),
             f"{name}: how long the other waits for it", waits)
    held, cause = ranks[0]["verdict"], "straggler_rank"
    shares = {candidate["cause"]: candidate["share"] for candidate in held["candidates"]}
    tap.check(cause in shares and max(shares, key=shares.get) == cause,
              f"{name}: what holds the other rank back", held)
    if held["bottleneck"] == "not_data_loading":
        tap.same(held["cause"], "none", f"{name}: its own loader is fine", held)
    else:
        tap.same(held["cause"], cause, f"{name}: more than its own loader", held)
    tap.check(cause not in [c["cause"] for c in ranks[1]["verdict"]["candidates"]],
              f"{name}: nobody holds the slow one back", ranks[1]["verdict"])


def check_lines(tap, name, lines, pid):
    ranks = {line[:6] for line in lines if INTERVAL.match(line[8:])}
    tap.same(ranks, {"rank 0", "rank 1"}, f"{name}: lines begin with the rank", lines)
    jobs = [line for line in lines if line.startswith("job ")]
    tap.check(any(f"Rank 1 (pid {pid}) is the slowest: " in line for line in jobs),
              f"{name}: and the slowest is named", lines)


@group("ranks")
def ranks(env):
    tap, job = env.tap, Job(env)
    seen = []
    try:
        record = os.path.join(job.folder, "run.dlp")
        both = ",".join(map(str, job.pids))
        seen.append(("two pids", env.observe(both, "--record", record, duration=3)))
        seen.append(("a launcher's pid", env.observe(job.launcher, duration=2.5)))
        job.flag("even")
        # batches of before are in the queue
        time.sleep(0.5)

        even = env.observe(job.pids[0], "--pid", str(job.pids[1]), duration=2)
        job.end()
    finally:
        job.kill()
    check_even(tap, even.summary, job.truth)
    for name, tool in seen:
        check_truth(tap, name, tool.summary, job.truth)
        waits, lack = waits_of(tool.summary, job.truth), lack_of(tool.summary)
        if waits[0] - waits[1] - lack < 0.1:
            tap.skip(f"ranks: {name}: which is named", "so much else runs here that, by their own "
                     f"figures, neither waits for the other: {waits}, {lack:.3f} without a CPU")
            continue
        check_named(tap, name, tool.summary, job.truth)
        check_lines(tap, name, tool.lines, job.pids[1])
    tap.check(f"pid {job.launcher} " in seen[1][1].stderr and "2 training processes" in
              seen[1][1].stderr and seen[1][1].stderr.count("\n") == 1, "it is said who is observed",
              seen[1][1].stderr)
    tap.same(job.process.returncode, 0, "launched: the launcher's exit status", job.text()[-2000:])
    check_truth(tap, "launched", job.summary, job.truth)
    for rank, entry in enumerate(job.summary["ranks"]):
        own = entry["summary"]
        count = sum(loader["getnext"]["count"] for loader in own["loaders"])
        tap.same(count, len(job.truth[rank]["nexts"]), f"launched: rank {rank}: every GetNext is counted",
                 own["loaders"])
    tap.same(sorted(glob.glob(os.path.join(job.folder, "run*"))),
             sorted(os.path.join(job.folder, f"run.{pid}.dlp") for pid in job.pids), "a recording each")
    for entry in seen[0][1].summary["ranks"]:
        path = os.path.join(job.folder, "again.json")
        subprocess.run([env.tool, "replay", entry["recording"], "--summary", path], timeout=30,
                       stdout=subprocess.DEVNULL, check=True)
        with open(path) as file:
            again = json.load(file)
        tap.same({key: again[key] for key in again if key != "verdict"},
                 {key: entry["summary"][key] for key in again if key != "verdict"},
                 f"rank {entry['rank']} replays as it was seen")


@group("ranks, forked")
def forked(env):
    """What trains is found by its first batch, and the other ranks with it."""
    tap = env.tap
    folder = tempfile.mkdtemp(prefix="ranks-", dir=env.folder)
    path = os.path.join(folder, "summary.json")
    ran = subprocess.run([env.tool, "--summary", path, "--", env.python, "-c", FORKED, folder],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    tap.same(ran.returncode, 0, "status 0", ran.stderr[-2000:])
    tap.check("has started 2 training processes" in ran.stderr, "it is said", ran.stderr)
    with open(path) as file:
        summary = json.load(file)
    truth = {}
    for name in glob.glob(os.path.join(folder, "truth*")):
        with open(name) as file:
            own = json.load(file)
        truth[own["pid"]] = own["nexts"]
    tap.same({entry["pid"] for entry in summary.get("ranks", [])}, set(truth), "both are observed",
             ran.stderr)
    for entry in summary.get("ranks", []):
        own, nexts = entry["summary"], truth[entry["pid"]]
        start, end = own["window"]["start_ns"], own["window"]["end_ns"]
        early = part([(s, t) for s, t in nexts if s <= start], start, end)
        tap.near(entry["exposed_wait_ratio"], part(nexts, start, end), 0.01 + early,
                 f"exposed wait of {'one' if entry is summary['ranks'][0] else 'the other'}")
        tap.same(entry["rank"], None, "its number is not known")


@group("ranks, one is killed")
def one_killed(env):
    """Two jobs that have nothing to do with each other, and one that is none."""
    tap = env.tap
    stays, dies = env.session(), env.new_session()
    other = subprocess.Popen(["sleep", "60"])
    try:
        with stays.phase("steady", loader=LOADER, step=STEP) as phase:
            with dies.phase("steady", loader={**LOADER, "num_workers": 0}, step={"ms": 6}) as lost:
                tool = env.start(f"{dies.pid},{stays.pid}", "--pid", str(other.pid), "--interval", "0.5")
                tap.check(wait_for(lambda: sum("batches/s" in line for line in tool.lines) >= 4, 20),
                          "both are observed", tool.lines)
                dies.process.kill()
                killed = now()
                lost.finished = True
            time.sleep(1.5)
            tap.check(tool.process.poll() is None, "the other is observed on")
            tool.finish(signal.SIGINT).need_summary()
    finally:
        other.kill()
        other.wait()
        dies.close(kill=True)
    tap.check(f"{other.pid}" in tool.stderr and tool.stderr.count("\n") == 1, "what is no trainer is told",
              tool.stderr)
    ends = {entry["pid"]: entry["summary"]["window"]["end_ns"] for entry in tool.summary["ranks"]}
    tap.same(set(ends), {stays.pid, dies.pid}, "both are in the summary")
    tap.near((ends[dies.pid] - killed) / 1e9, 0, 0.5, "the window of one ends with it")
    tap.check(ends[stays.pid] > killed + 1e9, "the other's does not", ends)
    job = tool.summary["job"]
    tap.same((job["in_step"], job["slowest_pid"], job["cause"]), (False, None, "none"),
             "they are not taken for ranks in step", job)
    own = next(e for e in tool.summary["ranks"] if e["pid"] == stays.pid)["summary"]
    tool.summary = own
    compare.check_count(tap, tool, phase.truth)
