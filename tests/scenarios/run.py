#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios: training jobs whose trouble is known, and what dlprof-bpf must say about each.

usage: run.py [NAME ...] [-k PATTERN] [--short] [--tool build/dlprof-bpf] [--python PYTHON]
              [--seconds N] [--tries 3] [--keep] [--job-only] [--list] [--record tests/data]

Prints TAP; ends with 1 when a test failed. --short is what `make test` runs: fewer scenarios, watched
for a shorter time. PYTHON needs torch 2.x (default: $PYTHON, else the one that runs this). A scenario
that failed is tried again only when something else used the machine meanwhile. Needs root.
--record renews the recordings of the folder, or makes those of the scenarios that are named.
"""
import argparse
import contextlib
import copy
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]
import harness  # noqa: E402
import surroundings  # noqa: E402

ANONYMISE = os.path.join(ROOT, "build/tests/scenarios/anonymise")
BUSY_CPUS = 0.25  # used by others: from here on a failure may be their doing


class Stopped(BaseException):
    """By a signal; unwinds all that was set up."""


def stop(number, frame):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # what is being undone must not be interrupted
    raise Stopped(signal.Signals(number).name)


def attempt(env, scenario, form, folder):
    """Runs and judges once; returns the CPUs that others used meanwhile. folder: for a recording of
    what is judged right, or None."""
    import judge
    import observe
    import record
    tap = env.tap
    observation = observe.Observation(scenario, form, folder and f"{env.folder}/{scenario.name}.dlp")
    try:
        observation.run(env)
        judge.check(tap, scenario, observation)
        if folder and not tap.failed():
            size = record.keep(scenario, observation, ANONYMISE, folder)
            tap.note(f"{scenario.name}: {size} bytes; {observation.summary['verdict']['text']}")
    except harness.Skip:
        raise
    except harness.Failed as e:
        tap.check(False, "runs", e)
    except Exception:  # a summary that does not fit the contract among them
        tap.check(False, "runs and can be judged", traceback.format_exc())
    finally:
        for tool in env.running:
            if tool.process.poll() is None:
                tool.process.kill()
                tool.process.wait()
        env.running.clear()
    return observation.busy


def run_scenario(env, scenario, form, tries, folder):
    tap, began = env.tap, time.monotonic()
    tap.group = scenario.name
    try:
        for left in reversed(range(tries)):
            busy = attempt(env, scenario, form, folder)
            if not tap.failed() or busy < BUSY_CPUS or not left:
                break
            tap.again()
            tap.note(f"{scenario.name}: others used {busy:.2f} CPUs meanwhile: tried again")
    except harness.Skip as e:
        tap.skip(scenario.name, e)
    tap.release()
    tap.note(f"{scenario.name}: {time.monotonic() - began:.1f} s")


def show_job(env, scenario, form):
    import look
    try:
        with contextlib.ExitStack() as stack:
            look.look(env, scenario, form, stack)
    except (harness.Failed, harness.Skip) as e:
        print(f"{scenario.name}: {type(e).__name__}: {e}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description="training jobs with a known trouble")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("-k", metavar="PATTERN", help="only scenarios that match this expression")
    parser.add_argument("--short", action="store_true", help="what make test runs")
    parser.add_argument("--tool", default=os.path.join(ROOT, "build/dlprof-bpf"))
    parser.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable)
    parser.add_argument("--seconds", type=float, help="another window than the scenario's own")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the files of all runs")
    parser.add_argument("--job-only", action="store_true",
                        help="no tool and no judgement: show what /proc and the job's record say")
    parser.add_argument("--record", metavar="FOLDER",
                        help="keep a recording of each in the folder, for the unit tests")
    parser.add_argument("--list", action="store_true",
                        help="print the scenarios and what must be said about them")
    return parser, parser.parse_args()


def main():
    parser, args = arguments()
    tap = harness.Tap()
    if not harness.has_torch(sys.executable):
        tap.skip("all", f"{sys.executable} has no torch")
        return tap.end()
    if not os.geteuid():
        # before torch may have started threads
        surroundings.own_mounts()
    import record
    import selftest
    from table import SCENARIOS
    if args.record:
        args.names = args.names or record.names(args.record)
    if unknown := set(args.names) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    chosen = [s for s in SCENARIOS.values() if (not args.names or s.name in args.names)
              and (not args.short or s.short) and re.search(args.k or "", s.name)]
    if args.list:
        for s in chosen:
            print(f"{s.name:22} {'|'.join(s.bottlenecks)}: {'|'.join(s.causes)}\n    {s.about}")
        return 0
    if os.geteuid():
        for s in chosen:
            tap.skip(s.name, "needs root")
        return tap.end()
    if args.record and not os.access(ANONYMISE, os.X_OK):
        parser.error(f"--record needs {os.path.relpath(ANONYMISE, ROOT)}: make it first")
    if args.job_only:
        args.tool = sys.executable  # which is not run
    if not os.access(args.tool, os.X_OK):
        tap.check(False, "the tool is built", args.tool)
        return tap.end()
    harness.favour()
    surroundings.sweep()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    folder = tempfile.mkdtemp(prefix=f"{surroundings.PREFIX}{os.getpid()}-")
    os.chmod(folder, 0o755)
    env = harness.Env(tap, args.tool, args.python, folder)
    try:
        if not args.job_only and not args.record:
            selftest.run(tap)
        for scenario in chosen:
            form = copy.copy(record.form(scenario) if args.record else scenario.forms(args.short))
            form.seconds = args.seconds or form.seconds
            if args.job_only:
                show_job(env, scenario, form)
            else:
                run_scenario(env, scenario, form, args.tries, args.record)
    except Stopped as e:
        tap.release()
        print(f"Bail out! {e}", flush=True)
        return 1
    finally:
        env.close()
        if args.keep:
            print(f"# files: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if args.job_only else tap.end()


if __name__ == "__main__":
    sys.exit(main())
