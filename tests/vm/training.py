# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A real PyTorch training, seen end to end on the kernel that runs: every GetNext, which worker made
which batch, and every worker's states, against what the job itself measured; by the program that a
release has, too; then one in namespaces of its own under a quota. Made for emulation, where code is 10
to 25 times slower: the time limits of the integration tests do not apply.

usage: training.py --tool build/dlprof-bpf; prints TAP. Beside the tool lies dlprof-bpf-static. The
Python that runs it needs torch.
"""
import argparse
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import checks_containers  # noqa: E402, F401 (its group for the quota)
import compare  # noqa: E402
import harness  # noqa: E402

SECONDS = 12
# long: emulated, unpickling a batch and handing over its tensors take up to 36 ms
LOADER = {"num_workers": 2, "n": 100_000, "batch": 4, "work": {"kind": "sleep", "ms": 60}}
# the feeder thread of an emulated worker can be late by more than the others'
LATE_NS = 500_000_000


def capture(tap, tool):
    """What is used on this kernel, for the table."""
    used = tool.summary["tool"]["capture"]
    tap.note("capture: " + ", ".join(f"{key}={used[key]}" for key in sorted(used)))


@harness.group("static")
def static(env):
    """What a release has, which needs no library of the machine's."""
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step={"ms": 5}) as phase:
        tool = env.observe(session.pid, duration=SECONDS / 2, prefix=[env.released])
    tap.same(tool.status, 0, "status 0", tool.stderr)
    compare.check_count(tap, tool, phase.truth)
    compare.check_mapping(tap, tool, phase.truth, session.pid)
    compare.check_complete(tap, tool)


@harness.group("end to end")
def watched(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step={"ms": 5}) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    truth = phase.truth
    capture(tap, tool)
    tap.same(tool.status, 0, "status 0", tool.stderr)
    compare.check_count(tap, tool, truth)
    compare.check_exposed(tap, tool, truth, slack=0.03)
    compare.check_loader(tap, tool, 2)
    compare.check_mapping(tap, tool, truth, session.pid)
    compare.check_batches(tap, tool, truth, slack_ns=LATE_NS)
    compare.check_sums(tap, tool, truth)
    compare.check_other(tap, tool)
    compare.check_contract(tap, tool)
    compare.check_complete(tap, tool)
    verdict = tool.summary["verdict"]
    tap.same((verdict["bottleneck"], verdict["cause"]), ("data_loading", "sleep"), "verdict",
             verdict["text"], verdict["evidence"])


def main():
    parser = argparse.ArgumentParser(description="a training seen end to end")
    parser.add_argument("--tool", required=True)
    args = parser.parse_args()
    tap = harness.Tap()
    folder = tempfile.mkdtemp(prefix="dlprof-vm-")
    env = harness.Env(tap, os.path.abspath(args.tool), sys.executable, folder)
    env.released = os.path.abspath(args.tool) + "-static"
    try:
        harness.run_groups(env, "^end to end$|^static$|^containers, CPU quota")
    finally:
        env.close()
        shutil.rmtree(folder, ignore_errors=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
