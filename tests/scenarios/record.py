# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings of scenarios for tests/unit/test_recorded.c, and the table of what is true of them.

A line of FOLDER/recorded.txt: name, bottlenecks, causes, causes that are ruled out ('|' between
several); by the job's own record the least and the most share of the window that the training
thread spent in GetNext (the loader's own part of it; all of it), its share in iter(), the least and
the most number of GetNext calls that ended in the window (without and with StopIteration).
"""
import os
import subprocess

from harness import Failed
from judge import facts, window
from registry import Form

TABLE = "recorded.txt"
HEAD = "# name bottlenecks causes ruled_out getnext_least getnext_most iter calls_least calls_most\n"
SIZE_MAX = 100_000
SLACK = 0.01  # of the share of time in GetNext


def form(scenario):
    """As short as tells what it must."""
    return scenario.recorded or scenario.short or Form(2, 5)


def names(folder):
    return [line.split()[0] for line in lines(folder)]


def lines(folder):
    try:
        with open(os.path.join(folder, TABLE)) as file:
            return [line for line in file if not line.startswith("#")]
    except FileNotFoundError:
        return []


def truth(observation):
    """[getnext_least, getnext_most, iter, calls_least, calls_most]; what the tool says must fit."""
    summary = observation.summary
    start, end = window(summary)
    found = facts(observation.truth, start, end)
    ended = [e for e in observation.truth.nexts if start <= e["t"] <= end]
    least, most = len([e for e in ended if not e["stop"]]), len(ended)
    # a call that was running when the tool came is not seen
    least -= len([e for e in ended if e["s"] < start])
    ratio, count = summary["verdict"]["exposed_wait_ratio"], 0
    for loader in summary["loaders"]:
        count += loader["getnext"]["count"]
    if not found["inner"] - SLACK <= ratio <= found["exposed"] + SLACK:
        raise Failed(f"exposed wait {ratio}, truth {found['inner']} to {found['exposed']}")
    if not least <= count <= most:
        raise Failed(f"{count} calls of GetNext, truth {least} to {most}")
    return [f"{found[key]:.4f}" for key in ("inner", "exposed", "startup")] + [str(least), str(most)]


def keep(scenario, observation, anonymise, folder):
    """Puts what was just recorded, and found right, into the folder."""
    line = " ".join([scenario.name, *("|".join(part) for part in (
        scenario.bottlenecks, scenario.causes, scenario.forbidden)), *truth(observation)])
    path = os.path.join(folder, scenario.name + ".dlp")
    done = subprocess.run([anonymise, observation.record, path + ".new", f"python job.py {scenario.name}"],
                          capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr)
    size = os.path.getsize(path + ".new")
    if size > SIZE_MAX:
        os.unlink(path + ".new")
        raise Failed(f"{size} bytes, more than {SIZE_MAX}")
    os.rename(path + ".new", path)
    table = [old for old in lines(folder) if old.split()[0] != scenario.name] + [line + "\n"]
    with open(os.path.join(folder, TABLE), "w") as file:
        file.writelines([HEAD, *sorted(table)])
    return size
