#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the job of one scenario.

usage: job.py NAME [--seconds N] [--truth FOLDER] [--ready FILE] [KNOB=VALUE ...]

Ends after N seconds or on SIGTERM. FOLDER gets the job's own record (tests/integration/truth.py),
FILE the time when the first iter() began.
"""
import argparse
import contextlib
import os
import resource
import signal
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]
import truth  # noqa: E402
from harness import Skip  # noqa: E402

SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description="one job with a known trouble")
    parser.add_argument("name")
    parser.add_argument("knobs", nargs="*", metavar="KNOB=VALUE")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--truth")
    parser.add_argument("--ready")
    args = parser.parse_intermixed_args()

    import torch
    import loads
    import table
    torch.set_num_threads(1)
    # each tensor that is on its way takes a descriptor
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16), hard))
    if args.truth:
        truth.begin(args.truth)
        truth.install(makers=False)
    scenario = table.SCENARIOS[args.name]
    knobs = scenario.knobs_for(dict(knob.split("=", 1) for knob in args.knobs))

    def stop(number, frame):
        # raised in a destructor, the exit is ignored: the next step sees that time is over
        loads.run.deadline_s = 0
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    loads.run.begin(args.seconds, args.ready)
    try:
        scenario.function(types.SimpleNamespace(**knobs))
    except Skip as e:
        print(e)
        sys.exit(SKIPPED)
    finally:
        if args.truth:
            truth.finish()


if __name__ == "__main__":
    main()
elif os.environ.get(truth.FOLDER):  # a spawned worker
    truth.install_fetch()
