# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Loaders other than torch's own: what the user names with --getnext."""
import os

import compare
from checks_record import Replay
from harness import group


@group("a home-made loader")
def homemade(env):
    """Threads and a queue; its label holds what a pattern has to escape."""
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "homemade.dlp")
    with session.phase("own_loader", step={"ms": 1}) as phase:
        tool = env.observe(session.pid, "--getnext", r"Feeder\[?\]*", "--record", path, duration=3)
        plain = env.observe(session.pid, duration=1)
    compare.check_count(tap, tool, phase.truth)
    compare.check_exposed(tap, tool, phase.truth)
    loaders = tool.summary["loaders"]
    tap.same([x["iterator_type"] for x in loaders], ["Feeder[2] fetch"], "named by its label")
    tap.same(loaders[0]["num_workers"], None, "how many make its batches is not known")
    # it waits, and nothing tells for what: the queue's threads could be anybody's
    verdict = tool.summary["verdict"]
    tap.same((verdict["bottleneck"], verdict["cause"]), ("data_loading", "none"), "a verdict", verdict)
    again = Replay(env, path)
    again.need_summary()
    tap.check(again.summary == tool.summary, "the recording tells the same")
    tap.same(plain.summary["loaders"], [], "without --getnext it is no loader")
    tap.same([s["label"] for s in plain.summary["stages"] if s["label"].startswith("Feeder")],
             ["Feeder[2] fetch"], "but a stage")
