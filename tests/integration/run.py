#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Integration tests: dlprof-bpf on real PyTorch training, against what the job itself measured.

usage: run.py [--tool build/dlprof-bpf] [--python PYTHON] [-k PATTERN] [--long] [--list] [--keep]

Prints TAP; ends with 1 when a test failed. PYTHON needs torch 2.x (default: $PYTHON, else the one
that runs this). Debian's own torch is tested as well where /usr/bin/python3 has it. Needs root.
"""
import argparse
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import checks_accuracy  # noqa: E402,F401
import checks_shapes  # noqa: E402,F401
import checks_states  # noqa: E402,F401
import checks_stages  # noqa: E402,F401
import checks_verdicts  # noqa: E402,F401
import checks_rungs  # noqa: E402,F401
import checks_robust  # noqa: E402,F401
import checks_endure  # noqa: E402,F401
import checks_cost  # noqa: E402,F401
import checks_messages  # noqa: E402,F401
import checks_record  # noqa: E402,F401
import checks_report  # noqa: E402,F401
import checks_report_jobs  # noqa: E402,F401
import checks_page  # noqa: E402,F401
import checks_launch  # noqa: E402,F401
import checks_ranks  # noqa: E402,F401
import checks_export  # noqa: E402,F401
import checks_screen  # noqa: E402,F401
import checks_ranks_screen  # noqa: E402,F401
import checks_gate  # noqa: E402,F401
import checks_doctor  # noqa: E402,F401
import checks_privileges  # noqa: E402,F401
import checks_hostile  # noqa: E402,F401
import checks_govern  # noqa: E402,F401
import checks_bounds  # noqa: E402,F401
import checks_loaders  # noqa: E402,F401
import checks_python  # noqa: E402,F401
import checks_containers  # noqa: E402,F401
import checks_hard_moments  # noqa: E402,F401

ROOT = os.path.dirname(os.path.dirname(harness.HERE))


def main():
    parser = argparse.ArgumentParser(description="integration tests")
    parser.add_argument("--tool", default=os.path.join(ROOT, "build/dlprof-bpf"))
    parser.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable)
    parser.add_argument("-k", metavar="PATTERN", help="only groups that match this expression")
    parser.add_argument("--long", action="store_true", help="the long form of those that have one")
    parser.add_argument("--list", action="store_true", help="print the groups' names")
    parser.add_argument("--keep", action="store_true", help="leave the files of all runs")
    args = parser.parse_args()
    if args.list:
        print("\n".join(name for name, _ in harness.GROUPS))
        return 0
    tap = harness.Tap()
    reason = None
    if os.geteuid():
        reason = "needs root"
    elif not harness.has_torch(args.python):
        reason = f"{args.python} has no torch"
    if reason:
        for name, _ in harness.GROUPS:
            tap.skip(name, reason)
        return tap.end()
    if not os.access(args.tool, os.X_OK):
        tap.check(False, "the tool is built", args.tool)
        return tap.end()
    harness.favour()
    folder = tempfile.mkdtemp(prefix="dlprof-integration-")
    # jobs of other users are among the tests
    os.chmod(folder, 0o755)
    env = harness.Env(tap, args.tool, args.python, folder, args.long)
    try:
        harness.run_groups(env, args.k)
    finally:
        env.close()
        if args.keep:
            print(f"# files: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
