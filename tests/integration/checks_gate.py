# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--fail-if on a real job, on both sides of what the job itself has measured: watched while it
runs, replayed, and started by the tool."""
import os
import subprocess

import compare
from harness import group
from truth import overlap

# one worker makes a batch in some 16 ms, the trainer uses it for 8: it waits about half of the time
LOADER = {"num_workers": 1, "n": 400, "batch": 4, "work": {"kind": "cpu", "ms": 4}}
STEP = {"ms": 8}
TRAIN = """
import sys, time
from torch.utils.data import DataLoader
for batch in DataLoader(list(range(400)), batch_size=4, num_workers=1):
    time.sleep(0.02)
sys.exit(int(sys.argv[1]))
"""


def conditions(*texts):
    return [word for text in texts for word in ("--fail-if", text)]


def said(stderr):
    """What the tool said of gates, in order."""
    return [line for line in stderr.splitlines() if line.startswith("dlprof-bpf: gate ")]


def truth_of(tool, truth):
    """Exposed wait and batches per second in the window, as the job has them: (least, most) each."""
    start, end = compare.window(tool)
    inner = [{"s": e["s1"], "t": e["t1"]} for e in truth.nexts]
    sure, perhaps = compare.calls(truth, start, end)
    return ([overlap(x, start, end) / (end - start) for x in (inner, truth.nexts)],
            [sum(not e["stop"] for e in x) * 1e9 / (end - start) for x in (sure, sure + perhaps)])


def replay(env, path, *options):
    return subprocess.run([env.tool, "replay", path, *options], capture_output=True, text=True, timeout=60)


@group("gate, watched and replayed")
def watched(env):
    tap, session = env.tap, env.session()
    path = os.path.join(env.folder, "gate.dlp")
    gates = conditions("exposed_wait>10%", "stalled", "batches_per_s < 1", "exposed_total>0.999")
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        tool = env.start(session.pid, "--record", path, *gates, duration=3)
        tool.finish()
        clear = env.start(session.pid, *gates[2:], duration=1)
        clear.finish()
    tap.same(tool.status, 4, "status 4", tool.stderr)
    tap.check(len(said(tool.stderr)) == 1 and "exposed_wait is 0." in tool.stderr
              and "(--fail-if 'exposed_wait>10%')" in tool.stderr, "what was crossed, with its value",
              tool.stderr)
    tap.check(tool.summary and any(line.startswith("Verdict: ") for line in tool.lines),
              "summary and report all the same", tool.lines[-3:])
    tap.same((clear.status, clear.stderr), (0, ""), "status 0 on the other side, and nothing said")
    exposed, rate = truth_of(tool, phase.truth)
    for name, (least, most), slack in (("exposed_wait", exposed, 0.04), ("batches_per_s", rate, 0.1)):
        for op, wanted in ((">", (4, 0)), (">=", (4, 0)), ("<", (0, 4)), ("<=", (0, 4))):
            got = [replay(env, path, "--fail-if", f"{name}{op}{limit:.6f}")
                   for limit in (least - slack, most + slack)]
            tap.same(tuple(run.returncode for run in got), wanted, f"replay: {name} {op}",
                     *(run.stderr for run in got))
    wrong = replay(env, path, "--fail-if", "exposed_wait")
    tap.check(wrong.returncode == 2 and wrong.stderr.count("\n") == 1 and not wrong.stdout,
              "replay: a condition that is none", wrong.returncode, wrong.stderr)


@group("gate, not measured")
def not_measured(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step=STEP):
        tool = env.start(session.pid, "--without", "scopes", *conditions("exposed_wait>0.99"), duration=1)
        tool.finish()
        brief = env.start(session.pid, *conditions("getnext_max_ms>100000"), duration=0.3)
        brief.finish()
    tap.same((tool.status, said(tool.stderr)),
             (1, ["dlprof-bpf: gate not decided: exposed_wait was not measured "
                  "(--fail-if 'exposed_wait>0.99')"]), "no figure: status 1, and said")
    tap.check(brief.status == 1 and "too little was seen" in brief.stderr, "too short: status 1, and said",
              brief.status, brief.stderr)


@group("gate, a command")
def command(env):
    tap = env.tap

    def run(script, *gates):
        return subprocess.run([env.tool, "--quiet", *conditions(*gates), "--", *script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    for status, wanted in ((0, 4), (3, 3)):
        ran = run([env.python, "-c", TRAIN, str(status)], "batches_per_s<100000", "batches_per_s>100000")
        tap.same((ran.returncode, len(said(ran.stderr))), (wanted, 1), f"crossed, status {status}: {wanted}",
                 ran.stderr)
    for status, wanted in ((0, 1), (3, 3)):
        ran = run(["sh", "-c", f"exit {status}"], "exposed_wait>0.2")
        tap.check(ran.returncode == wanted and "gate not decided: nothing was observed" in ran.stderr,
                  f"no torch, status {status}: {wanted}", ran.returncode, ran.stderr)
