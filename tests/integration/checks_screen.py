# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live screen in a terminal: what it says of a real job, and that the terminal is given back,
whatever ends it. The drawing itself is the unit tests' (tests/golden)."""
import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

from checks_messages import NOBODY
from checks_robust import LOADER, wait_for
from harness import Failed, Skip, group

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
WRAP_OFF, WRAP_ON = b"\x1b[?7l", b"\x1b[?7h"
# unlike any default: a tool that sets the usual ones at its end does not give these back
PECULIAR = ["-ixon", "-echoctl", "erase", "^H", "kill", "^K", "tostop"]
WAITING = {"loader": {**LOADER, "n": 20_000, "work": {"kind": "cpu", "ms": 3}}, "step": {"ms": 1}}


class Terminal:
    """The tool, or another command, on a pty of its own, in a session of its own."""

    def __init__(self, env, pid, *options, size=(24, 80), command=None, **environ):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.stty(*PECULIAR)
        self.before = self.settings()
        self.got = b""

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command or [env.tool, "--pid", str(pid), *options], stdin=self.slave,
            stdout=self.slave, stderr=self.slave, preexec_fn=own,
            env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "", **environ})

    def read(self, timeout=0.1):
        while select.select([self.master], [], [], timeout)[0]:
            try:
                self.got += os.read(self.master, 65536)
            except OSError:
                break
            timeout = 0

    def expect(self, text, timeout=20):
        """Everything up to there."""
        end = time.monotonic() + timeout
        while text not in self.got:
            if time.monotonic() > end:
                raise Failed(f"{text} was not seen within {timeout} s: {self.got[-2000:]}")
            self.read()
        return self.got

    def forget(self):
        self.read(0)
        self.got = b""

    def press(self, keys):
        os.write(self.master, keys)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def end(self, timeout=20):
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise Failed(f"the tool did not end: {self.got[-1000:]}")
            self.read()
        self.read()
        return self.process.returncode

    def stty(self, *args):
        return subprocess.run(["stty", *args], stdin=self.slave, check=True, capture_output=True,
                              text=True).stdout

    def settings(self):
        """All that stty and the kernel say of the terminal."""
        return self.stty("-a"), termios.tcgetattr(self.slave)

    def restored(self):
        return self.settings() == self.before

    def hang_up(self):
        """The window is closed, the connection is lost."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.master is not None:
            self.hang_up()


@contextlib.contextmanager
def terminal(*args, **more):
    ret = Terminal(*args, **more)
    try:
        yield ret
    finally:
        ret.close()


def given_back(tap, term, how, report=True):
    """The screen is left once, last of all escape sequences; what follows is plain text."""
    tap.same(term.settings(), term.before, f"{how}: stty -a as before")
    head, _, tail = term.got.rpartition(LEAVE)
    tap.check(ENTER in head and term.got.count(LEAVE) == term.got.count(ENTER),
              f"{how}: alternate screen left")
    tap.check(term.got.rfind(HIDDEN) < term.got.rfind(SHOWN) and
              term.got.rfind(WRAP_OFF) < term.got.rfind(WRAP_ON), f"{how}: the cursor is shown, lines wrap")
    tap.check(b"\x1b" not in tail, f"{how}: no escape codes behind it", tail[:200])
    if report:
        tap.check(b"Verdict: " in tail, f"{how}: the report follows", tail[:500])


@group("screen, quit and signals")
def ways_out(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING):
        for how, act in (("q", lambda t: t.press(b"q")), ("Ctrl-C", lambda t: t.press(b"\x03")),
                         ("SIGTERM", lambda t: t.process.send_signal(signal.SIGTERM)),
                         ("SIGHUP", lambda t: t.process.send_signal(signal.SIGHUP))):
            with terminal(env, session.pid) as term:
                term.expect(b"GetNext")
                act(term)
                tap.same(term.end(), 0, f"{how}: status 0")
                given_back(tap, term, how)
        # what ends us with a core
        for number in signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGQUIT:
            with terminal(env, session.pid) as term:
                term.expect(b"GetNext")
                if number == signal.SIGQUIT:
                    term.press(b"\x1c")
                else:
                    term.process.send_signal(number)
                tap.same(term.end(), -number, f"{number.name}: status")
                given_back(tap, term, number.name, report=False)
        path = os.path.join(env.folder, "hung-up.json")
        with terminal(env, session.pid, "--summary", path) as term:
            term.expect(b"GetNext")
            term.hang_up()
            term.process.wait(20)
            tap.check(os.path.exists(path), "the terminal is gone: the summary is written all the same")


@group("screen, errors")
def errors(env):
    """What fails before there is a screen leaves the terminal alone, what fails with it gives it back."""
    tap, session = env.tap, env.session()
    folder = os.path.join(env.folder, "passing")
    os.makedirs(folder, exist_ok=True)
    few = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", env.tool, "--pid", str(session.pid)]
    idle = subprocess.Popen(["sleep", "60"])
    for how, pid, command in (("no torch", idle.pid, None), ("no such process", 1 << 22, None),
                              ("no rights", 0, [*NOBODY, env.tool, "--pid", str(session.pid)]),
                              ("no more files while attaching", 0, few)):
        with terminal(env, pid, command=command) as term:
            tap.check(term.end() > 0, f"{how}: it fails", term.got)
            tap.same(term.settings(), term.before, f"{how}: stty -a as before")
            tap.check(term.got.startswith(b"dlprof-bpf: ") and b"\x1b" not in term.got,
                      f"{how}: a line and no escape codes", term.got)
    idle.kill()
    idle.wait()
    with session.phase("steady", **WAITING):
        with terminal(env, session.pid, "--summary", folder + "/it.json") as term:
            term.expect(b"GetNext")
            shutil.rmtree(folder)
            term.press(b"q")
            tap.same(term.end(), 1, "no summary: status 1")
            given_back(tap, term, "no summary")
            tap.check(b"passing/it.json" in term.got.rpartition(LEAVE)[2], "no summary: the file is named")


class Gone(Exception):
    """Leaves a phase whose job has ended."""


@group("screen, the job ends")
def job_gone(env):
    def by_itself(session):
        session.send(stop=True)
        session.process.stdin.close()

    for how, act in ("by itself", by_itself), ("SIGKILL", lambda session: session.process.kill()):
        session = env.new_session()
        try:
            with contextlib.suppress(Gone), session.phase("steady", **WAITING), \
                    terminal(env, session.pid) as term:
                term.expect(b"GetNext")
                act(session)
                env.tap.same(term.end(), 0, f"{how}: status 0")
                given_back(env.tap, term, how)
                raise Gone
        finally:
            session.close(kill=True)


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@group("screen, Ctrl-Z")
def stopped(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING), terminal(env, session.pid) as term:
        term.expect(b"GetNext")
        term.press(b"\x1a")
        tap.check(wait_for(lambda: state(term.process.pid) == "T"), "it stops")
        term.read()
        tap.check(term.got.endswith(LEAVE) and term.restored(), "with the terminal given back",
                  term.got[-200:])
        term.forget()
        os.kill(term.process.pid, signal.SIGCONT)
        term.expect(ENTER)
        term.expect(b"GetNext")
        tap.check(not term.restored(), "and takes it again")
        term.press(b"q")
        tap.same(term.end(), 0, "status 0")
        tap.check(term.restored(), "settings as before")


@group("screen, Ctrl-Z and fg in a shell")
def in_a_shell(env):
    """As a person would; the shell says itself what the terminal is like."""
    tap, session = env.tap, env.session()
    files = [os.path.join(env.folder, name) for name in ("stty-before", "stty-stopped", "stty-after")]

    def tell(term, file):
        term.press(f"stty -a >{file}; echo to''ld\n".encode())
        term.expect(b"told")
        term.forget()

    with session.phase("steady", **WAITING), \
            terminal(env, 0, command=["sh", "-i"], PS1="$ ", ENV="") as term:
        tell(term, files[0])
        term.press(f"{env.tool} --pid {session.pid}\n".encode())
        term.expect(b"GetNext")
        term.press(b"\x1a")
        term.expect(LEAVE)
        term.expect(b"$ ")
        tell(term, files[1])
        term.press(b"fg\n")
        term.expect(b"GetNext")
        term.press(b"q")
        term.expect(b"Observed: ")
        tell(term, files[2])
        term.press(b"exit\n")
        term.end()
    before, stopped_, after = (open(file).read() for file in files)
    tap.same(stopped_, before, "stty -a after Ctrl-Z")
    tap.same(after, before, "stty -a after fg and q")


@group("screen, what it shows")
def shows(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING):
        with terminal(env, session.pid, size=(24, 80)) as term:
            seen = term.expect(b"batches/s")
            tap.check(f"pid {session.pid}".encode() in seen, "whom it watches")
            time.sleep(2.5)
            term.forget()
            term.read(2)
            # what changes in a second of a steady job, not the whole screen
            tap.check(0 < len(term.got) < 2500 and b"\x1b[2J" not in term.got,
                      "only differences are drawn", len(term.got))
            term.press(b"p")
            term.expect(b"PAUSED")
            time.sleep(0.5)
            term.forget()
            term.read(2)
            tap.same(term.got, b"", "nothing moves while it is paused")
            term.press(b"h")
            term.expect(b"the report follows")
            term.forget()
            term.resize(15, 60)
            term.expect(b"\x1b[2J")
            term.read(0.5)
            rows = max(int(row) for row in re.findall(rb"\x1b\[(\d+);", term.got.rpartition(b"\x1b[2J")[2]))
            tap.same(rows, 15, "drawn anew in the new size")
            term.press(b"q")
            tap.same(term.end(), 0, "status 0")
        with terminal(env, session.pid, NO_COLOR="1") as term:
            term.expect(b"batches/s")
            tap.check(not re.search(rb"\x1b\[[0-9;]*[34][0-9;]*m", term.got), "NO_COLOR: no colours")


@group("screen, fewer probes")
def fewer_probes(env):
    """A limit that nothing can meet: said on top, and what is left out in a row of its own."""
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING):
        with terminal(env, session.pid, "--max-overhead", "0.01", "--interval", "300ms") as term:
            term.expect(b"fewer probes", 40)
            term.expect(b"(limit 0.01 %)")
            tap.check(re.search(rb"Probes +with\w* [\w ]+\(limit", term.got), "it is said which",
                      term.got[-500:])
            term.press(b"q")
            tap.same(term.end(), 0, "status 0")
            given_back(tap, term, "fewer probes")


@group("screen, where there is none")
def lines(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING):
        for name, options, environ in (("--lines", ["--lines"], {}), ("TERM=dumb", [], {"TERM": "dumb"})):
            with terminal(env, session.pid, "--duration", "2", *options, **environ) as term:
                tap.same(term.end(), 0, f"{name}: status 0")
                tap.check(b"batches/s" in term.got and b"\x1b" not in term.got,
                          f"{name}: lines without escape codes", term.got[:300])


class Tmux:
    """A command in a real terminal emulator, of which the picture can be taken."""

    def __init__(self, env, command, cols, rows):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        self.socket = os.path.join(env.folder, "tmux")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", str(cols), "-y", str(rows),
                  f"env LC_ALL=C.UTF-8 {command}; exec sleep 60")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-S", self.socket, *args], capture_output=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "s").splitlines()

    def resize(self, cols, rows):
        self.tmux("resize-window", "-t", "s", "-x", str(cols), "-y", str(rows))

    def press(self, *keys):
        self.tmux("send-keys", "-t", "s", *keys)

    def expect(self, seen, timeout=10):
        """The screen's lines once `seen` says yes to them."""
        got = []

        def there():
            got[:] = self.screen()
            return seen(got)
        if not wait_for(there, timeout):
            raise Failed("\n".join(got))
        return got


@group("screen, in tmux")
def in_tmux(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", **WAITING), \
            Tmux(env, f"{env.tool} --pid {session.pid}", 60, 15) as term:
        for cols, rows in ((60, 15), (80, 24), (120, 40), (200, 50)):
            term.resize(cols, rows)
            got = term.expect(lambda lines: any("q quit" in line for line in lines[rows - 1:]))
            tap.check(got[0].lstrip().startswith("dlprof-bpf") and len(got) == rows and
                      any("Waiting" in line and "%" in line for line in got) and
                      sum("trainer" in line for line in got) == 1,
                      f"whole at {cols} x {rows}", "\n".join(got))
        term.press("q")
        got = term.expect(lambda lines: any(line.startswith("Observed: ") for line in lines))
        tap.check(got, "the report is left behind")
