# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the checks are made of: TAP output, the process that runs the jobs, the tool at work."""
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from truth import Truth

HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN_PYTHON = "/usr/bin/python3"
CGROUPS = "/sys/fs/cgroup"
INTERVAL = re.compile(r" +[0-9.]+ s +\S+ batches/s")  # how a line per interval begins
now = time.monotonic_ns
# Time limits are longer by this factor where code is emulated.
PATIENCE = float(os.environ.get("DLPROF_TEST_PATIENCE", "1"))


class Skip(Exception):
    """This machine cannot show it; the text says why."""


class Failed(Exception):
    """A step that everything after it depends on did not work."""


# ---- TAP -------------------------------------------------------------------------------------
class Tap:
    def __init__(self):
        self.count = self.failures = 0
        self.group = ""
        self.held = []

    def line(self, ok, name, notes=()):
        """Held until the group has ended: it may be run again."""
        self.held.append((ok, f"{self.group}: {name}", notes))

    def failed(self):
        return [entry for entry in self.held if not entry[0]]

    def again(self):
        """Forgets the group's lines, but shows what failed."""
        for _, name, notes in self.failed():
            self.note(f"again, not ok: {name}")
            for text in "\n".join(map(str, notes)).splitlines():
                self.note(f"  {text}")
        self.held = []

    def release(self):
        for ok, name, notes in self.held:
            self.count += 1
            self.failures += not ok
            print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
            for text in "\n".join(map(str, notes)).splitlines():
                print(f"#   {text}", flush=True)
        self.held = []

    def check(self, ok, name, *notes):
        """One test; notes are shown when it fails."""
        self.line(bool(ok), name, () if ok else notes)
        return bool(ok)

    def near(self, got, wanted, slack, name, *notes):
        ok = got is not None and wanted is not None and abs(got - wanted) <= slack
        return self.check(ok, name, f"got {got}, wanted {wanted} +- {slack:g}", *notes)

    def same(self, got, wanted, name, *notes):
        return self.check(got == wanted, name, f"got    {got}", f"wanted {wanted}", *notes)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)

    def note(self, text):
        print(f"# {text}", flush=True)

    def end(self):
        self.release()
        print(f"1..{self.count}", flush=True)
        return 1 if self.failures else 0


GROUPS = []


def group(name):
    """Registers a function of checks; they run in the order of definition."""
    def register(function):
        GROUPS.append((name, function))
        return function
    return register


def timing(tap, attempt, name, tries=3):
    """For what other work on the machine can disturb: attempt() returns what is wrong, or None.
    The first good one counts; every other one is printed."""
    for i in range(tries):
        wrong = attempt()
        if not wrong:
            return tap.check(True, name)
        tap.note(f"{tap.group}: {name}: try {i + 1} of {tries}: {wrong}")
    return tap.check(False, name, wrong)


# ---- the job ---------------------------------------------------------------------------------
class Phase:
    def __init__(self, session, folder):
        self.session, self.folder = session, folder
        self.result = self.truth = None
        self.finished = False

    def go(self):
        self.session.send(go=True)

    def wait(self, timeout=60):
        """For jobs that end by themselves."""
        if not self.finished:
            self.result = self.session.expect("done", timeout).get("result")
            self.finished = True
            self.truth = Truth(self.folder)
            if isinstance(self.result, dict) and self.result.get("error"):
                raise Failed(f"the job failed: {self.result['error']}")
        return self

    def stop(self):
        if not self.finished:
            self.session.send(stop=True)
            self.wait()
        return self


class Session:
    """One Python process, in which jobs run one after the other. start: the arguments that start it."""

    def __init__(self, python, folder, prefix=(), start=(os.path.join(HERE, "jobs.py"),)):
        self.folder = folder
        self.serial = 0
        self.log = open(os.path.join(folder, "job.log"), "ab")
        self.lines = queue.Queue()
        self.process = subprocess.Popen([*prefix, python, *start],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, cwd=folder)
        self.pid = self.process.pid
        threading.Thread(target=self.read, daemon=True).start()
        up = self.expect("up", 120)
        self.torch, self.python = up["torch"], up["python"]
        self.own_pid = up["pid"]  # as the job's own namespace has it

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def send(self, **command):
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as e:
            raise Failed(f"the job is gone: {e}") from None

    def expect(self, event, timeout):
        try:
            message = self.lines.get(timeout=timeout * PATIENCE)
        except queue.Empty:
            raise Failed(f"the job did not say {event!r} within {timeout} s\n{self.tail()}") from None
        if message is None:
            self.lines.put(None)
            raise Failed(f"the job ended instead of saying {event!r}\n{self.tail()}")
        if message["event"] != event:
            raise Failed(f"the job said {message} instead of {event!r}\n{self.tail()}")
        return message

    def tail(self):
        with open(os.path.join(self.folder, "job.log"), errors="replace") as file:
            return file.read()[-1500:]

    def alive(self):
        return self.process.poll() is None

    @contextlib.contextmanager
    def phase(self, job, **args):
        """Runs a job; inside the block it is ready, after it .truth can be read."""
        self.serial += 1
        folder = os.path.join(self.folder, f"truth{self.serial}")
        os.mkdir(folder)
        self.send(job=job, truth=folder, args=args)
        self.expect("ready", 60)
        phase = Phase(self, folder)
        try:
            yield phase
            phase.stop()
        except BaseException:
            # nobody knows what it is doing now
            self.close(kill=True)
            raise

    def close(self, kill=False):
        if kill:
            self.process.kill()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def stolen_ns():
    """Time that a hypervisor took from all CPUs so far."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return int(fields[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0


# ---- the tool --------------------------------------------------------------------------------
def parse_events(path):
    """Events as dicts of text."""
    events = []
    with open(path, errors="replace") as file:
        for line in file:
            if line.endswith("\n"):
                events.append(dict(part.split("=", 1) for part in line[:-1].split("\t") if "=" in part))
    return events


class Tool:
    """One run of dlprof-bpf, attached to pid or, in a process group of its own, launching a command.
    `prefix` stands in place of the tool: another copy, and what it is started by. Options that are None or False are left out."""

    def __init__(self, env, pid, *options, duration=None, events=True, summary=None, launch=None,
                 prefix=None):
        env.serial += 1
        base = os.path.join(env.folder, f"tool{env.serial}")
        self.summary_path = summary or base + ".json"
        self.events_path = base + ".events" if events else None
        # a busy machine must not make it do without something: what happens then has tests of its own
        command = [*(prefix or [env.tool]), "--max-overhead", "100", "--summary", self.summary_path,
                   *options]
        if not launch:
            command += ["--pid", str(pid)]
        if duration is not None:
            command += ["--duration", str(duration)]
        if events:
            command += ["--events", self.events_path]
        if launch:
            command += ["--", *launch]
        self.lines, self.attached_ns = [], None
        self.attach_event = threading.Event()
        self.error_file = tempfile.TemporaryFile(dir=env.folder)
        self.stolen_ns = stolen_ns()
        self.started_ns = now()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.error_file,
                                        preexec_fn=os.setpgrp if launch else None)
        self.pid = self.process.pid
        self.ended_ns = self.status = self.summary = self.stderr = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        env.running.append(self)

    def read(self):
        for line in self.process.stdout:
            if self.attached_ns is None and b"scopes:" in line:
                self.attached_ns = now()
                self.attach_event.set()
            self.lines.append(line.decode(errors="replace").rstrip("\n"))
        self.attach_event.set()

    def attached(self, timeout=20):
        self.attach_event.wait(timeout * PATIENCE)
        if self.attached_ns is None:
            self.process.kill()
            self.finish()
            raise Failed(f"dlprof-bpf did not attach (status {self.status}): {self.stderr}")
        return self

    @property
    def attach_s(self):
        return (self.attached_ns - self.started_ns) / 1e9

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, number=None, timeout=30):
        """Sends a signal if given, waits, reads what was written."""
        if number is not None:
            self.signal(number)
        try:
            self.status = self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"dlprof-bpf did not end within {timeout} s") from None
        self.ended_ns = now()
        self.stolen_ns = stolen_ns() - self.stolen_ns
        self.reader.join(10)
        self.error_file.seek(0)
        self.stderr = self.error_file.read().decode(errors="replace")
        self.error_file.close()
        with contextlib.suppress(OSError, ValueError):
            if os.path.isfile(self.summary_path):
                with open(self.summary_path) as file:
                    self.summary = json.load(file)
        return self

    def need_summary(self):
        if self.status != 0 or self.summary is None:
            raise Failed(f"no summary; status {self.status}, stderr: {self.stderr}")
        return self

    def events(self):
        return parse_events(self.events_path)


class Env:
    """What every group gets."""

    def __init__(self, tap, tool, python, folder, long=False):
        self.tap, self.python, self.folder, self.long = tap, python, folder, long
        # a copy: the checkout may be built anew meanwhile, or lie where other users may not look
        self.tool = shutil.copy(tool, os.path.join(folder, "dlprof-bpf"))
        self.helpers = os.path.join(os.path.dirname(tool), "tests/integration")
        os.chmod(self.tool, 0o755)
        self.serial, self.running, self.sessions, self.attach_times = 0, [], {}, []
        self.data = None

    def session(self, which="wheel"):
        """The process for jobs: "wheel" or "debian"; started when first asked for."""
        session = self.sessions.get(which)
        if session and session.alive():
            return session
        python = self.python
        if which == "debian":
            python = DEBIAN_PYTHON
            if not has_torch(python):
                raise Skip(f"{python} has no torch (apt install python3-torch)")
        self.sessions[which] = self.new_session(python)
        return self.sessions[which]

    def new_session(self, python=None, prefix=(), **more):
        return Session(python or self.python, tempfile.mkdtemp(prefix="job-", dir=self.folder), prefix,
                       **more)

    def observe(self, pid, *options, duration, **more):
        """A whole run of the tool with a given duration."""
        tool = Tool(self, pid, *options, duration=duration, **more).attached()
        tool.finish(timeout=duration + 30)
        self.attach_times.append(tool.attach_s)
        return tool.need_summary()

    def start(self, pid, *options, **more):
        tool = Tool(self, pid, *options, **more).attached()
        self.attach_times.append(tool.attach_s)
        return tool

    def cold_file(self):
        """A file on a file system with a block device, whose pages can be thrown out of memory."""
        if self.data is None:
            for place in (self.folder, os.getcwd(), "/var/tmp", os.path.expanduser("~")):
                if os.path.isdir(place) and os.major(os.stat(place).st_dev):
                    break
            else:
                raise Skip("no folder on a block device found")
            self.data_folder = tempfile.mkdtemp(prefix="dlprof-test-", dir=place)
            self.data = os.path.join(self.data_folder, "cold")
            with open(self.data, "wb") as file:
                for _ in range(96):
                    file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.close(os.open(self.data, os.O_RDONLY | os.O_DIRECT))
            except OSError as e:
                raise Skip(f"no O_DIRECT there: {e}") from None
        return self.data

    def close(self):
        for tool in self.running:
            if tool.process.poll() is None:
                tool.process.kill()
                tool.process.wait()
        for session in self.sessions.values():
            session.close(kill=True)
        if self.data:
            shutil.rmtree(self.data_folder, ignore_errors=True)


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def favour():
    """Other work on the machine shall disturb less: job and tool run at nice -10, both as
    processes and as the scheduler's autogroups."""
    with contextlib.suppress(OSError):
        os.nice(-10)
        with open("/proc/self/autogroup", "w") as file:
            file.write("-10")


def run_group(env, name, function):
    tap = env.tap
    tap.group = name
    try:
        function(env)
    except Skip as e:
        tap.skip(name, e)
    except Failed as e:
        tap.check(False, "runs", e)
    except Exception:
        tap.check(False, "runs", traceback.format_exc())
    for tool in env.running:
        if tool.process.poll() is None:
            tap.note(f"{name} left dlprof-bpf running")
            tool.process.send_signal(signal.SIGKILL)
            tool.process.wait()
    env.running.clear()


def run_groups(env, pattern):
    tap = env.tap
    for name, function in GROUPS:
        if pattern and not re.search(pattern, name):
            continue
        began = time.monotonic()
        run_group(env, name, function)
        if tap.failed():
            # once more, and said: on a shared machine something else may have been the reason
            tap.again()
            run_group(env, name, function)
        tap.release()
        tap.note(f"{name}: {time.monotonic() - began:.1f} s")
        sys.stdout.flush()
