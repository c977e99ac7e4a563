# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Several ranks on the live screen, in terminals: the overview and the way to each of them, and that
the terminal is given back."""
import os
import re
import signal

from checks_privileges import SYS_PTRACE, WATCHING, caps, settled
from checks_ranks import Job
from checks_screen import Tmux, given_back, terminal
from harness import group

SIZES = (60, 15), (80, 24), (200, 50)


def rank_rows(lines):
    """By rank: its row of the overview."""
    found = (re.match(r" +(\d+) +(\d+) .* %  (\S.*)", line) for line in lines)
    return {int(m.group(1)): (int(m.group(2)), m.group(3)) for m in found if m}


def is_overview(lines):
    return len(rank_rows(lines)) == 2 and any("by number" in line for line in lines)


def is_one(rank, pid):
    return lambda lines: lines and re.match(rf" dlprof-bpf  rank {rank}  pid {pid}\b", lines[0])


def check_overview(tap, job, got, cols, rows):
    name = f"{cols} x {rows}"
    found = rank_rows(got)
    tap.same([found[rank][0] for rank in range(2)], job.pids, f"{name}: a row for each rank",
             "\n".join(got))
    tap.check(got[-1].startswith(" q quit") and len(got) == rows and "2 ranks" in got[0],
              f"{name}: whole", "\n".join(got))
    tap.check(any(line.lstrip().startswith("Slowest: rank 1; the other waits ") for line in got[:3]),
              f"{name}: the slowest is named on top", "\n".join(got))
    # in 60 columns a verdict may be cut
    tap.check(found[1][1].startswith("slowest: sleep") and found[0][1].startswith("held back "),
              f"{name}: what each waits for", found)
    times = re.findall(r"GetNext +([\d.]+ \w+) / ([\d.]+ \w+) +Step +([\d.]+ \w+) / ([\d.]+ \w+)",
                       "\n".join(got))
    tap.same(len(times), 2, f"{name}: GetNext and step, now and median", "\n".join(got))


def drive(tap, job, term):
    for cols, rows in SIZES:
        term.resize(cols, rows)
        got = term.expect(lambda lines: len(lines) == rows and lines[-1].startswith(" q quit") and
                          is_overview(lines) and any("Slowest: " in line for line in lines) and
                          "held back" in "".join(lines), 30)
        check_overview(tap, job, got, cols, rows)
    for keys, rank in (("Enter",), 1), (("Left",), 0), (("Right",), 1), (("0",), 0), (("r", "1"), 1):
        term.press(*keys)
        got = term.expect(is_one(rank, job.pids[rank]))
        tap.check(any("Waiting" in line for line in got), f"{'+'.join(keys)}: rank {rank}",
                  "\n".join(got))
    for keys in ("r",), ("0", "Escape"), ("h", "Escape", "r"):
        term.press(*keys)
        tap.check(term.expect(is_overview), f"{'+'.join(keys)}: all again")


@group("ranks, on the screen")
def on_the_screen(env):
    tap, job = env.tap, Job(env)
    both = ",".join(map(str, job.pids))
    try:
        with Tmux(env, f"{env.tool} --pid {job.launcher}", *SIZES[0]) as term:
            drive(tap, job, term)
            term.press("q")
            got = term.expect(lambda lines: any(line.startswith("Observed: ") for line in lines))
            tap.check(any(line.startswith("Report on rank 1") for line in got) or
                      any("Verdict: " in line for line in got), "the report is left behind", "\n".join(got))
        with terminal(env, both, NO_COLOR="1") as term:
            term.expect(b"Slowest: ")
            tap.check(not re.search(rb"\x1b\[[0-9;]*[34][0-9;]*m", term.got), "NO_COLOR: no colours")
            # it is root without sudo here
            main = settled(term.process)[0]
            tap.same((caps(main, "CapPrm"), main["NoNewPrivs"]), (WATCHING | SYS_PTRACE, "1"),
                     "privileges are given up")
            term.press(b"p")
            term.expect(b"PAUSED")
            term.read(0.5)
            before = len(term.got)
            term.read(2)
            tap.same(term.got[before:], b"", "nothing moves while it is paused")
            term.press(b"\x03")
            tap.same(term.end(), 0, "Ctrl-C: status 0")
            given_back(tap, term, "Ctrl-C")
        for number in signal.SIGTERM, signal.SIGSEGV:
            with terminal(env, both) as term:
                term.expect(b"Slowest: ")
                term.process.send_signal(number)
                ended = number == signal.SIGTERM
                tap.same(term.end(), 0 if ended else -number, f"{number.name}: status")
                given_back(tap, term, number.name, report=ended)
        launched = settled(job.process)[0]
        tap.same((caps(launched, "CapPrm"), launched["NoNewPrivs"]), (WATCHING | SYS_PTRACE, "1"),
                 "launched: privileges are given up, too")
        with terminal(env, both) as term:
            term.expect(b"Slowest: ")
            # torchrun ends the others when one is gone
            os.kill(job.pids[0], signal.SIGKILL)
            tap.same(term.end(40), 0, "the ranks are gone: status 0")
            given_back(tap, term, "the ranks are gone")
    finally:
        job.kill()
