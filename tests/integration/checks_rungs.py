# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is left when a part is done without: the next rung's figures, or null, never wrong ones."""
import os
import re

import compare
from harness import HERE, group

SECONDS = 2.5
# from the first probe to the opening of the window, on a busy machine
ATTACHING_NS = 30e6


def same_figures(tap, tool, truth, trainer, clocks=True, messages=True):
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    if messages:
        compare.check_mapping(tap, tool, truth, trainer)
        compare.check_batches(tap, tool, truth)
    if clocks:
        compare.check_clocks(tap, tool, truth)


def says(tap, tool, **wanted):
    capture = tool.summary["tool"]["capture"]
    tap.same({key: capture[key] for key in wanted}, wanted, "says what is used")


def missing(tap, tool, *names):
    """Said in the first line and in the summary."""
    tap.same(tool.summary["tool"]["capture"]["missing"], list(names), "summary says what is missing")
    line = next(x for x in tool.lines if "scopes:" in x)
    tap.check(line.endswith("missing: " + ", ".join(names)), "first line says what is missing", line)


def run(env, which):
    """One job, observed again and again."""
    session = env.session(which)
    loader = {"num_workers": 2, "n": 240, "batch": 4, "work": {"kind": "uneven", "ms": 1}}
    tools = {}
    with session.phase("steady", loader=loader, step={"ms": 2}) as phase:
        for names in RUNGS[which]:
            options = [x for name in names for x in ("--without", name)]
            tools[names] = env.observe(session.pid, *options, duration=SECONDS)
    for names, tool in tools.items():
        CHECKS[names](env.tap, tool, phase.truth, session.pid)


def check(*names):
    def register(function):
        def wrapped(tap, tool, truth, trainer):
            base = tap.group
            tap.group = f"{base} without {', '.join(names)}"
            try:
                function(tap, tool, truth, trainer)
            finally:
                tap.group = base
        CHECKS[names] = wrapped
        return wrapped
    return register


CHECKS = {}


@check("queue-uprobe")
def syscall_rung(tap, tool, truth, trainer):
    says(tap, tool, queue="system calls")
    same_figures(tap, tool, truth, trainer)
    compare.check_outliers(tap, tool, truth, trainer)
    compare.check_complete(tap, tool)


@check("task-storage")
def hash_rung(tap, tool, truth, trainer):
    says(tap, tool, clocks="hash", queue="uprobes")
    same_figures(tap, tool, truth, trainer)


@check("block")
def no_block(tap, tool, truth, trainer):
    missing(tap, tool, "block")
    tap.same(tool.summary["block_io"], None, "block_io is null")
    same_figures(tap, tool, truth, trainer)


@check("waits")
def no_waits(tap, tool, truth, trainer):
    tap.same(sum(e["kind"] == "WAIT" for e in tool.events()), 0, "no single waits")
    missing(tap, tool, "waits")
    same_figures(tap, tool, truth, trainer)


@check("clock-iter")
def no_iterator(tap, tool, truth, trainer):
    missing(tap, tool, "clock-iter")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_mapping(tap, tool, truth, trainer)
    tap.same(tool.summary["loss"]["complete"], False, "not complete")
    # a clock that nobody read is unknown; one that began late may be short, but never longer than
    # the window and the time of attaching before it, since nobody read it when the window opened
    start, end = compare.window(tool)
    wrong = []
    for w in tool.summary["workers"]:
        born, died = compare.lifetime(w, start, end)
        total = sum((compare.states_of(w) or {}).values())
        if total > 1.01 * (died - born) + ATTACHING_NS or w["states"] and not total:
            wrong.append(f"worker {w['pid']}: {total / 1e6:.1f} ms of {(died - born) / 1e6:.1f} ms")
    tap.check(not wrong, "states never exceed the lifetime", *wrong)


@check("process")
def no_process(tap, tool, truth, trainer):
    missing(tap, tool, "process")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    tap.same(tool.summary["loss"]["complete"], False, "not complete")


@check("queue-uprobe", "queue-syscall")
def no_queue(tap, tool, truth, trainer):
    missing(tap, tool, "queue-uprobe", "queue-syscall")
    says(tap, tool, queue=None)
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    compare.check_sums(tap, tool, truth)
    tap.same({w["batches"] for w in tool.summary["workers"]}, {None}, "batches are null")


@check("scopes")
def no_scopes(tap, tool, truth, trainer):
    missing(tap, tool, "scopes")
    says(tap, tool, scopes=None)
    tap.same(tool.summary["verdict"]["exposed_wait_ratio"], None, "exposed wait is null")
    tap.same(tool.summary["verdict"]["bottleneck"], "insufficient_data", "no verdict")
    compare.check_batches(tap, tool, truth)
    compare.check_clocks(tap, tool, truth)


@check("iterators")
def no_iterators(tap, tool, truth, trainer):
    missing(tap, tool, "iterators")
    tap.same(tool.summary["verdict"]["startup_ratio"], None, "what starting cost is null")
    same_figures(tap, tool, truth, trainer)


@check("others")
def no_others(tap, tool, truth, trainer):
    missing(tap, tool, "others")
    same_figures(tap, tool, truth, trainer)


@check("clocks")
def no_clocks(tap, tool, truth, trainer):
    tap.check("clocks" in tool.summary["tool"]["capture"]["missing"], "summary says what is missing",
              tool.summary["tool"]["capture"])
    same_figures(tap, tool, truth, trainer, clocks=False)
    summary = tool.summary
    known = [w["pid"] for w in summary["workers"] if w["states"] is not None]
    tap.check(not known, "states of workers are null", *known)
    tap.same((summary["main"]["inside"], summary["main"]["outside"]), (None, None),
             "states of the training thread are null")
    getnext = summary["loaders"][0]["getnext"]
    tap.same([getnext[key] for key in ("blocked_us", "cpu_us", "runq_us")], [None] * 3,
             "how a GetNext is spent is null")
    # a clock that nothing stops would say that everybody runs all the time
    named = {c["cause"] for c in summary["verdict"]["candidates"]}
    tap.check(not named & {"worker_cpu", "main_process", "cpu_oversubscription", "cpu_contention"},
              "no cause is made of states that were not seen", summary["verdict"])


RUNGS = {"wheel": list(CHECKS),
         "debian": [("queue-uprobe",), ("task-storage",)]}


def features():
    """What --without takes."""
    with open(os.path.join(HERE, "../../user/feature.h")) as file:
        return re.findall(r'^\s*X\([A-Z_]+, "([a-z-]+)"', file.read(), re.M)


@group("rungs, each of them")
def complete(env):
    forced = {name for names in RUNGS["wheel"] for name in names}
    env.tap.same(sorted(forced), sorted(features()), "every feature is left out once")


@group("rungs wheel")
def wheel(env):
    run(env, "wheel")


@group("rungs debian")
def debian(env):
    run(env, "debian")


@group("rungs, many system calls")
def many_calls(env):
    """The syscall rung spares a job that makes hundreds of thousands a second, and says so."""
    session = env.session("wheel")
    loader = {"num_workers": 2, "n": 4000, "batch": 4, "work": {"kind": "calls", "ms": 2}}
    with session.phase("steady", loader=loader, step={"ms": 2}) as phase:
        taxed = env.observe(session.pid, "--without", "queue-uprobe", "--interval", "0.5", duration=4)
        cheap = env.observe(session.pid, "--interval", "0.5", duration=2)
    tap = env.tap
    paused = taxed.summary["loss"]["by_reason"].get("messages_paused", 0)
    # the first interval measures the rate, the next nine pause; the last may or may not be one
    tap.check(4 <= paused <= 7, "pauses are counted", paused)
    tap.same(taxed.summary["loss"]["complete"], False, "not complete")
    compare.check_count(tap, taxed, phase.truth)
    compare.check_exposed(tap, taxed, phase.truth)
    # in the pauses no message is seen at all
    last = max(int(e["ts"]) for e in taxed.events() if e["kind"] == "MSG")
    tap.check(last < taxed.summary["window"]["end_ns"] - 2e9, "no messages while it pauses")
    tap.same(cheap.summary["loss"]["by_reason"].get("messages_paused", 0), 0, "uprobes never pause")
    compare.check_batches(tap, cheap, phase.truth)
