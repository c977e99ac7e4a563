# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways to run Python: -m, and inside a program of another name. (The other groups run a file, with a
shared libpython or a static one, as PYTHON= and Debian's have them, from a virtual environment.)"""
import os
import subprocess

import compare
from harness import HERE, Skip, group

SECONDS = 2
LIBPYTHON = ("import sysconfig; get = sysconfig.get_config_var; "
             "print(get('LIBDIR') + '/' + get('INSTSONAME'))")


def check(env, session, context):
    """A short training with workers, as the job saw it."""
    tap = env.tap
    loader = {"num_workers": 2, "batch": 4, "work": {"kind": "uneven", "ms": 1.0},
              "multiprocessing_context": context}
    try:
        with session.phase("steady", loader=loader, step={"ms": 2}) as phase:
            tool = env.observe(session.pid, duration=SECONDS)
        tap.same(tool.stderr, "", "nothing on stderr")
        tap.same(tool.summary["target"]["python"], session.python, "Python version")
        compare.check_count(tap, tool, phase.truth)
        compare.check_exposed(tap, tool, phase.truth)
        compare.check_mapping(tap, tool, phase.truth, session.pid)
        compare.check_loader(tap, tool, 2)
    finally:
        session.close()


@group("python -m")
def as_module(env):
    session = env.new_session(prefix=["env", f"PYTHONPATH={HERE}"], start=["-m", "jobs"])
    check(env, session, "spawn")


@group("python embedded")
def embedded(env):
    library = subprocess.run([env.python, "-c", LIBPYTHON], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip()
    if ".so" not in library or not os.path.exists(library):
        raise Skip(f"{env.python} has no shared library")
    session = env.new_session(prefix=[os.path.join(env.helpers, "embed"), library])
    with open(f"/proc/{session.pid}/comm") as file:
        env.tap.same(file.read().strip(), "embed", "the process is no python")
    check(env, session, "fork")
