# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--max-overhead: detail is left out, said, and kept in recordings; GetNext stays whole."""
import os

import compare
from checks_record import Replay
from harness import group, timing

LOADER = {"num_workers": 2, "n": 100_000, "work": {"kind": "uneven", "ms": 1}}


def governed(env, labels, percent, seconds):
    session = env.session()
    path = os.path.join(env.folder, "govern.dlp")
    with session.phase("steady", loader=LOADER, step={"ms": 1, "labels": labels}) as phase:
        tool = env.observe(session.pid, "--max-overhead", str(percent), "--interval", "300ms",
                           "--record", path,
                           duration=seconds)
    tool.need_summary()
    return tool, phase.truth, tool.summary["overhead"]["governor"], path


def check_told(tap, tool, governor):
    """Every step is on the screen, in the summary's list and among its losses."""
    loss = tool.summary["loss"]
    for step in governor["steps"]:
        name = step["step"]
        tap.check(f"governor_{name}" in loss["by_reason"], f"{name}: among the reasons", loss)
    said = [line for line in tool.lines if line.startswith("dlprof-bpf: the probes cost")]
    tap.check(len(said) >= len(governor["steps"]), "each step has its line", said)
    off = any(s["step"] == "labels_off" for s in governor["steps"])
    mine = [s for s in tool.summary["stages"] if s["label"] == "step label"]
    tap.check(all(s["partial"] == off for s in mine), "stages without labels are marked", mine)
    if off:
        tap.same(loss["complete"], False, "not complete")


@group("overhead above the limit")
def flood(env):
    """As many labels as Python can make: without them it costs less than half as much again."""
    tap = env.tap

    free = governed(env, 2000, 100, 3)[2]
    tap.same(free["steps"], [], "nothing is left out below the limit")

    def attempt():
        nonlocal seen
        seen = governed(env, 2000, round(0.85 * free["measured_pct"], 2), 6)
        governor = seen[2]
        taken = {s["step"] for s in governor["steps"] if not s["undone"]}
        if "labels_off" not in taken or governor["measured_pct"] > governor["limit_pct"]:
            return f"{free['measured_pct']} % without a limit, {governor}"
        return None
    seen = None
    timing(tap, attempt, "a flood of labels is brought below the limit")
    tool, truth, governor, path = seen
    compare.check_count(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    check_told(tap, tool, governor)
    again = Replay(env, path)
    again.need_summary()
    tap.check(again.summary == tool.summary, "the recording tells the same")


@group("overhead that cannot be met")
def hopeless(env):
    tap = env.tap
    tool, truth, governor, _ = governed(env, 200, 0.01, 10)
    tap.same(governor["can_be_met"], False, "said in the summary")
    tap.check(any("nothing more can be left out" in line for line in tool.lines), "and in a line")
    compare.check_count(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    check_told(tap, tool, governor)
    if any(s["step"] == "messages_off" for s in governor["steps"]):
        tap.check(all(w["batches"] is None for w in tool.summary["workers"]),
                  "batches of workers are not known", tool.summary["workers"])
