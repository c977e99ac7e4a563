# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings of scenarios for tests/unit/test_recorded.c, and the table of what is true of them.

A line of FOLDER/recorded.txt: name, bottlenecks, causes, causes that are ruled out ('|' between
several); by the job's own record the share of the window that the training thread spent in GetNext,
and the same without a call that was running when the tool came, whose begin is not always seen; the
least and the most number of GetNext calls that ended in the window (without and with that call and
those that raised StopIteration).
"""
import os
import subprocess

from harness import Failed
from judge import window
from registry import Form
from truth import overlap

TABLE = "recorded.txt"
HEAD = "# name bottlenecks causes ruled_out getnext getnext_begun calls_least calls_most\n"
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
    """[getnext, getnext_begun, calls_least, calls_most]; what the tool says must fit."""
    verdict, loaders = (observation.summary[key] for key in ("verdict", "loaders"))
    start, end = window(observation.summary)
    calls = [e for e in observation.truth.nexts if e["tid"] == observation.truth.main_tid()]
    shares = [overlap([e for e in calls if e["s"] >= since], start, end) / (end - start)
              for since in (0, start)]
    ended = [e for e in calls if start <= e["t"] <= end]
    least, most = len([e for e in ended if not e["stop"] and e["s"] >= start]), len(ended)
    if not shares[1] - SLACK <= verdict["exposed_wait_ratio"] <= shares[0] + SLACK:
        raise Failed(f"exposed wait {verdict['exposed_wait_ratio']}, truth {shares}")
    count = sum(loader["getnext"]["count"] for loader in loaders)
    if not least <= count <= most:
        raise Failed(f"{count} calls of GetNext, truth {least} to {most}")
    return [*(f"{share:.4f}" for share in shares), str(least), str(most)]


def keep(scenario, observation, anonymise, folder):
    """Puts what was just recorded, and found right, into the folder."""
    line = " ".join([scenario.name, *("|".join(part) for part in (
        scenario.bottlenecks, scenario.causes, scenario.forbidden)), *truth(observation)])
    path = os.path.join(folder, scenario.name + ".dlp")
    done = subprocess.run([anonymise, observation.record, path + ".new",
                           f"python job.py {scenario.name}"], capture_output=True, text=True)
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
