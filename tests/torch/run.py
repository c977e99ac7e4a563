#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A short training on each torch release of tests/torch/releases, watched from outside and compared
with what the job itself measured: every GetNext, the exposed wait, the worker of each batch.

usage: run.py [--tool build/dlprof-bpf] [NAME...]

Prints TAP and at the end the table. Needs root. Releases are installed with pip into
build/venv-torch (some 2 GB each) and stay there, Debian's other suites in the cache of tests/vm; one
that cannot be had is skipped, with its reason.
"""
import argparse
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))
import compare  # noqa: E402
import harness  # noqa: E402
import install  # noqa: E402

SECONDS = 4
COLUMNS = ("release", "torch", "Python", "scopes", "no workers", "fork", "spawn", "forkserver")
# what of a job is compared: name of the column, arguments of its loader
SHAPES = {
    "no workers": {"num_workers": 0, "n": 320, "work": {"kind": "uneven", "ms": 0.7}},
    "fork": {"num_workers": 2, "n": 320, "work": {"kind": "uneven", "ms": 1.0},
             "multiprocessing_context": "fork"},
    # one epoch: before 2.0 a GetNext that runs when the tool attaches, as the long first one after
    # spawning may, is a known limit
    "spawn": {"num_workers": 2, "work": {"kind": "uneven", "ms": 1.0},
              "multiprocessing_context": "spawn"},
    "forkserver": {"num_workers": 2, "work": {"kind": "uneven", "ms": 1.0},
                   "multiprocessing_context": "forkserver"},
}
REFUSED = "has no record_function around its loader; 1.8 or later is needed"
rows = []


def told_python(version):
    """As the tool knows it: before 3.11 no symbol tells the last number."""
    major, minor = version.split(".")[:2]
    return version if int(minor) >= 11 else f"{major}.{minor}"


def watch(env, session, loader):
    """One training; the observation, compared."""
    tap = env.tap
    with session.phase("steady", loader={"batch": 4, **loader}, step={"ms": 2}) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    truth = phase.truth
    tap.same(tool.summary["target"]["torch"], session.torch, "torch version")
    tap.same(tool.summary["target"]["python"], told_python(session.python), "Python version")
    counted = compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    compare.check_loader(tap, tool, loader["num_workers"])
    if loader["num_workers"]:
        compare.check_mapping(tap, tool, truth, session.pid)
    compare.check_complete(tap, tool)
    return tool, counted


def cell(tap, tool, counted):
    """What the table says of it; by then the group's failures are known."""
    count = compare.loader_sum(tool, "getnext", "count")
    failed = len(tap.failed())
    return f"{failed} FAILED" if failed else f"{count} exact" if counted else "?"


class Release:
    """A line of the list: its Python, installed when first asked for, and its row of the table."""

    def __init__(self, name, wanted, version):
        self.name, self.wanted, self.version = name, wanted, version
        self.is_kernel = name.endswith("-jupyter")
        self.python = self.session = None
        self.prefix = ()
        self.row = {"release": name}
        rows.append(self.row)

    def provide(self, env):
        """Its Python, and what that is started by."""
        kind, _, suite = self.wanted.partition(":")
        if self.python:
            return
        if kind == "root":
            self.prefix = install.provide_root(suite, self.version,
                                               [env.folder, os.path.dirname(HERE)])
            self.python = self.version
        else:
            self.python = install.provide(self.name, self.wanted, self.version)

    def start(self, env):
        """The process for jobs; that it cannot be had is remembered."""
        if "why" in self.row:
            raise harness.Skip(self.row["why"])
        try:
            self.provide(env)
        except install.Missing as e:
            self.row["why"] = str(e)
            raise harness.Skip(e) from None
        if not self.session or not self.session.alive():
            start = {"start": [os.path.join(HERE, "kernel.py")]} if self.is_kernel else {}
            self.session = env.new_session(self.python, self.prefix, **start)
            if self.is_kernel:
                self.session.pid = self.session.own_pid
        self.row.update({"torch": self.session.torch, "Python": self.session.python})
        return self.session

    def train(self, env, shape):
        session = self.start(env)
        self.row[shape] = "FAILED"
        tool, counted = watch(env, session, SHAPES[shape])
        self.row["scopes"] = tool.summary["tool"]["capture"]["scopes"]
        self.row[shape] = cell(env.tap, tool, counted)

    def refuse(self, env):
        session = self.start(env)
        tool = harness.Tool(env, session.pid, duration=1).finish()
        ok = env.tap.check(tool.status and REFUSED in tool.stderr, "refused, with the reason",
                           tool.status, tool.stderr)
        self.row["scopes"] = "refused" if ok else "FAILED"

    def end(self):
        if self.session:
            self.session.close()
            self.session = None

    def shapes(self):
        # spawned workers would import the main module, which is the kernel's own
        return ["fork"] if self.is_kernel else list(SHAPES)


def register(release, refused):
    if refused:
        harness.group(f"{release.name} is refused")(release.refuse)
        return
    for shape in release.shapes():
        @harness.group(f"{release.name} {shape}")
        def run(env, shape=shape):
            release.train(env, shape)
            if shape == release.shapes()[-1]:
                release.end()


def table():
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in rows:
        if "why" in row:
            lines.append(f"| {row['release']} | skipped: {row['why']} |" + " |" * (len(COLUMNS) - 2))
        elif "torch" in row:
            lines.append("| " + " | ".join(row.get(key, "-") for key in COLUMNS) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="torch releases")
    parser.add_argument("--tool", default=os.path.join(install.ROOT, "build/dlprof-bpf"))
    parser.add_argument("name", nargs="*", help="only these releases")
    args = parser.parse_args()
    for name, wanted, version, *refused in install.read_releases():
        if not args.name or name in args.name:
            register(Release(name, wanted, version), refused)
    tap = harness.Tap()
    if os.geteuid():
        tap.skip("torch releases", "needs root")
        return tap.end()
    harness.favour()
    folder = tempfile.mkdtemp(prefix="dlprof-torch-")
    env = harness.Env(tap, os.path.abspath(args.tool), sys.executable, folder)
    try:
        harness.run_groups(env, None)
    finally:
        env.close()
        shutil.rmtree(folder, ignore_errors=True)
    status = tap.end()
    print(table())
    return status


if __name__ == "__main__":
    sys.exit(main())
