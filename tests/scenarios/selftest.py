# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The judge judged: a summary made up to be right passes, and each thing that is wrong in it is
found by the check that is there for it."""
import copy
import types

import harness
import judge
import rules
from registry import Scenario

START, SECOND = 1_000_000_000_000, 1_000_000_000
END = START + 10 * SECOND
TRAINER, WORKER = 100, 101


def made_up():
    """Ten seconds of a worker that computes for 90 ms a batch, of which the trainer waits 50."""
    nexts, fetches = [], []
    for i in range(100):
        at = START + i * SECOND // 10
        nexts.append({"e": "next", "s": at, "t": at + 50_000_000, "s1": at, "t1": at + 50_000_000,
                      "tid": TRAINER, "stop": False})
        fetches.append({"e": "fetch", "s": at, "t": at + 90_000_000, "pid": WORKER,
                        "cpu0": i * 90_000_000, "cpu1": (i + 1) * 90_000_000, "stop": False})
    truth = types.SimpleNamespace(nexts=nexts, fetches=fetches, iters=[], waits=[])
    states = {state + "_us": 0 for state in ("run", "disk", "sleep", "idle", "other")}
    summary = {
        "window": {"start_ns": START, "end_ns": END}, "target": {"pid": TRAINER},
        "verdict": {"bottleneck": "data_loading", "cause": "worker_cpu", "confidence": "high",
                    "severity": "high", "exposed_wait_ratio": 0.5, "text": "waits 50 %",
                    "evidence": [{"text": "idle 10 %"}], "advice": [],
                    "candidates": [{"cause": "worker_cpu", "share": 0.9},
                                   {"cause": "disk_read", "share": 0.1}]},
        "loaders": [{"id": 1, "num_workers": 1, "getnext": {"count": 100, "median_us": 50_000},
                     "verdict": {"cause": "worker_cpu", "share": 0.9, "text": "90 %"}}],
        "workers": [{"pid": WORKER, "born_ns": None, "died_ns": None,
                     "states": {**states, "run_us": 9_000_000, "idle_us": 1_000_000}}]}
    marks = {"attached": START, "hogs": START + 4 * SECOND, "ended": END}
    lines = [f"{i:8.1f} s  10.0 batches/s  data_loading: {'worker_cpu' if i <= 4 else 'sleep'} (high)"
             for i in range(1, 11)]
    return types.SimpleNamespace(summary=summary, truth=truth, marks=marks, lines=lines)


def scenario():
    return Scenario(None, "made up", "", causes=["worker_cpu"], bottlenecks=["data_loading"],
                    forbidden=["disk_read"], exposed=(0.1, 1.1),
                    rules=[rules.share("run", ">=", 0.9), rules.count("workers[].pid", "==", 1),
                           rules.candidate("disk_read", ">=", 0.1), rules.says("idle"),
                           rules.figure("max", "loaders[].getnext.count", "~", 101),
                           rules.no_advice("more workers"), rules.loader_verdict(1, "worker_cpu")],
                    timeline=[("worker_cpu", "attached", "hogs"), ("sleep", "hogs", "ended")])


def set_at(path, value):
    """Puts a value at a dotted path of the summary; numbers are places in lists."""
    def change(observation):
        *way, last = (int(p) if p.isdigit() else p for p in path.split("."))
        place = observation.summary
        for part in way:
            place = place[part]
        place[last] = value
    return change


def late_change(observation):
    observation.lines[4] = observation.lines[3].replace("4.0", "5.0")


def lost_calls(observation):
    del observation.truth.nexts[:10]


def idle_job(observation):
    for e in observation.truth.nexts:
        e["t"] = e["t1"] = e["s"] + 1_000_000


# what is changed, and the check that must find it
WRONG = [
    ("verdict", set_at("verdict.cause", "disk_read")),
    ("verdict", set_at("verdict.bottleneck", "not_data_loading")),
    ("verdict", set_at("verdict.confidence", "low")),
    ("verdict", set_at("verdict.text", "waits")),
    ("verdict", set_at("verdict.evidence", [])),
    ("candidates", set_at("verdict.candidates", [])),
    ("candidates", set_at("verdict.candidates.0.share", 0.95)),
    ("candidates", set_at("verdict.candidates.0.cause", "sleep")),
    ("candidates", set_at("verdict.candidates.1.share", 0.95)),
    ("figures", set_at("workers.0.states.sleep_us", 2_000_000)),
    ("figures", set_at("verdict.candidates.1.cause", "sleep")),
    ("figures", set_at("verdict.evidence.0.text", "no word of it")),
    ("figures", set_at("loaders.0.getnext.count", 50)),
    ("figures", set_at("verdict.advice", [{"text": "take more workers"}])),
    ("figures", set_at("loaders.0.verdict", None)),
    ("figures", set_at("loaders.0.verdict.cause", "sleep")),
    ("accuracy of GetNext", set_at("loaders.0.getnext.count", 98)),
    ("accuracy of GetNext", set_at("loaders.0.getnext.count", 102)),
    ("accuracy of GetNext", lost_calls),
    ("accuracy of GetNext", set_at("loaders.0.getnext.median_us", 48_000)),
    ("accuracy of GetNext", set_at("verdict.exposed_wait_ratio", 0.54)),
    ("accuracy of GetNext", set_at("verdict.exposed_wait_ratio", None)),
    ("accuracy of GetNext", set_at("verdict.severity", "moderate")),
    ("accuracy of the workers", set_at("workers.0.states.run_us", 8_000_000)),
    ("accuracy of the workers", set_at("workers.0.states.idle_us", 800_000)),
    ("accuracy of the workers", set_at("workers", [])),
    ("other below", set_at("workers.0.states.other_us", 600_000)),
    ("the job is as intended", idle_job),
    ("lines say", late_change),
]


def failures(observation):
    tap = harness.Tap()
    judge.check(tap, scenario(), observation)
    return [name for _, name, _ in tap.failed()]


def run(tap):
    tap.group = "the judge"
    tap.same(failures(made_up()), [], "passes what is right")
    for number, (name, change) in enumerate(WRONG):
        observation = copy.deepcopy(made_up())
        change(observation)
        failed = failures(observation)
        tap.check(any(f": {name}" in f for f in failed), f"finds what is wrong, {number}: {name}", failed)
    healthy = made_up()
    healthy.summary["verdict"].update(bottleneck="not_data_loading", cause="none", evidence=[
        {"text": "of 50 %"}], candidates=[])
    calm = scenario()
    calm.causes, calm.bottlenecks = ["none"], ["not_data_loading"]
    quiet = harness.Tap()
    judge.check_verdict(quiet, calm, healthy.summary)
    tap.check(quiet.failed(), "wants the idle share of a healthy job's workers")
    tap.release()
