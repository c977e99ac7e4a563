# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job that starts processes all the time: bounded memory, and figures that are none the worse."""
import shutil

import compare
from harness import group

RSS_MAX = 64 << 20


@group("thousands of forks")
def forks(env):
    tap, session = env.tap, env.session()
    with session.phase("forking", spawn=shutil.which("true"), step={"ms": 2},
                       loader={"num_workers": 2, "n": 200, "work": {"kind": "uneven", "ms": 1}}) as phase:
        tool = env.observe(session.pid, duration=6)
    births = {e["child_tgid"] for e in tool.events() if e["kind"] == "FORK" and e["thread"] == "0"}
    tap.check(len(births) > 300, "the job starts hundreds of processes", len(births))
    tap.note(f"{len(births)} processes, {tool.summary['overhead']['daemon_rss_bytes'] >> 20} MiB")
    compare.check_count(tap, tool, phase.truth)
    compare.check_exposed(tap, tool, phase.truth)
    tap.check(0 < tool.summary["overhead"]["daemon_rss_bytes"] < RSS_MAX, "memory is bounded",
              tool.summary["overhead"])
    tap.check("model_full" not in tool.summary["loss"]["by_reason"]
              and "job_full" not in tool.summary["loss"]["by_reason"], "nothing did not fit",
              tool.summary["loss"])
    makers = {e["pid"] for e in phase.truth.nexts if e["pid"]}
    listed = {w["pid"] for w in tool.summary["workers"] if w["batches"]}
    tap.check(listed and listed <= makers, "workers are those that made batches", listed, makers)
