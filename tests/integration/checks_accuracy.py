# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""GetNext, exposed wait, workers and clocks of an ordinary training that is watched for a while."""
import compare
from harness import INTERVAL, group

SECONDS = 4


def accuracy(env, which, num_workers):
    tap, session = env.tap, env.session(which)
    loader = {"num_workers": num_workers, "n": 320, "batch": 4,
              "work": {"kind": "uneven", "ms": 1.0 if num_workers else 0.7}}
    with session.phase("steady", loader=loader, step={"ms": 2}) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    truth = phase.truth
    tap.same(tool.status, 0, "status 0", tool.stderr)
    tap.same(tool.stderr, "", "nothing on stderr")
    tap.same(tool.summary["target"]["torch"], session.torch, "torch version")
    tap.same(tool.summary["target"]["python"], session.python, "Python version")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    compare.check_loader(tap, tool, num_workers)
    compare.check_figures(tap, tool, truth)
    compare.check_contract(tap, tool)
    compare.check_complete(tap, tool)
    lines = sum(bool(INTERVAL.match(line)) for line in tool.lines)
    tap.check(SECONDS - 1 <= lines <= SECONDS, "a line for each second", *tool.lines)
    if not num_workers:
        tap.same(tool.summary["workers"], [], "no worker")
        tap.same(tool.summary["verdict"]["cause"], "main_process", "cause")
        tap.same(tool.summary["verdict"]["where"], "main", "where")
        return
    compare.check_mapping(tap, tool, truth, session.pid)
    compare.check_outliers(tap, tool, truth, session.pid)
    compare.check_batches(tap, tool, truth)
    compare.check_produce(tap, tool, truth)
    compare.check_clocks(tap, tool, truth)


def register(which, num_workers):
    @group(f"accuracy {which} workers={num_workers}")
    def run(env):
        accuracy(env, which, num_workers)


for _which in ("wheel", "debian"):
    for _num_workers in (0, 2, 4):
        register(_which, _num_workers)
