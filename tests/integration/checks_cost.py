# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What being watched costs: attaching, pauses of the job, the daemon. The probes' cost is for the
bench."""
import signal
import statistics
import time

from checks_robust import wait_for
from harness import group, timing

TICK = {"loader": {"num_workers": 0, "n": 1_000_000, "batch": 1, "work": {"kind": "nothing"}},
        "step": {"busy_ms": 0.2}, "warm": 500}


def longest(steps, start, end):
    """Longest time between two steps that touches the interval."""
    return max((b - a for a, b in zip(steps, steps[1:]) if b >= start and a <= end), default=0)


@group("pauses")
def pauses(env):
    """A job of thousands of steps a second shows each pause."""
    tap, session = env.tap, env.session()
    tools = []
    with session.phase("steady", **TICK) as phase:
        for _ in range(3):
            tool = env.start(session.pid, events=False)
            # an interval's line: attaching is over for good
            wait_for(lambda: len(tool.lines) > 1)
            tool.left_ns = time.monotonic_ns()
            tool.finish(signal.SIGINT).need_summary()
            tools.append(tool)
    steps = [e["s"] for e in phase.truth.nexts]
    usual = statistics.quantiles((b - a for a, b in zip(steps, steps[1:])), n=100)[98]
    for name, edges in (("attaching", lambda t: (t.started_ns, t.attached_ns + 100_000_000)),
                        ("leaving", lambda t: (t.left_ns, t.ended_ns + 50_000_000))):
        waiting = list(tools)

        def attempt():
            pause = longest(steps, *edges(waiting.pop(0)))
            if pause < usual + 30_000_000:
                return None
            return f"a pause of {pause / 1e6:.1f} ms; usual p99 {usual / 1e6:.2f} ms"
        timing(tap, attempt, f"no pause of 30 ms when {name}")


@group("daemon")
def daemon(env):
    """Ten seconds on an ordinary job of more than 100 steps a second."""
    tap, session = env.tap, env.session()
    with session.phase("steady", step={"ms": 3}, loader={
            "num_workers": 2, "batch": 8, "work": {"kind": "cpu", "ms": 0.5}}):
        tool = env.observe(session.pid, duration=10, events=False)
    cost, wall_us = tool.summary["overhead"], tool.summary["window"]["wall_s"] * 1e6
    tap.check(tool.summary["loaders"][0]["getnext"]["count"] > 400, "the job is busy",
              tool.summary["loaders"][0]["getnext"])
    tap.check(0 < cost["daemon_cpu_us"] <= 0.01 * wall_us, "CPU time at most 1 % of a core",
              f"{cost['daemon_cpu_us'] / wall_us:.2%}")
    tap.check(1e6 < cost["daemon_rss_bytes"] <= 25 * (1 << 20), "at most 25 MB resident",
              f"{cost['daemon_rss_bytes'] / (1 << 20):.1f} MB")
    tap.check(cost["probe_hits"] and cost["probe_cpu_us"] and cost["probe_cpu_how"],
              "tells the probes' cost", cost)
    tap.same((tool.summary["loss"]["complete"], tool.summary["loss"]["events_lost"]), (True, 0),
             "nothing lost", tool.summary["loss"])


@group("attach time")
def attach(env):
    """Over all observations of this run so far, or some of its own."""
    tap, session = env.tap, env.session()
    with session.phase("steady", **TICK):
        def attempt():
            times = [env.observe(session.pid, duration=0.1, events=False).attach_s
                     for _ in range(5)]
            if statistics.median(times) < 0.5:
                return None
            return f"{', '.join(f'{t:.2f}' for t in times)} s"
        timing(tap, attempt, "attached within 0.5 s")
    if len(env.attach_times) > 5:
        tap.note(f"attaching took {min(env.attach_times):.2f} to {max(env.attach_times):.2f} s, "
                 f"median {statistics.median(env.attach_times):.2f} s, "
                 f"in {len(env.attach_times)} observations")
