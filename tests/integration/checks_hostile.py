# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job whose every name is an attack on whoever shows it: terminals, JSON, web pages."""
import html.parser
import json
import os
import signal
import subprocess
import tempfile

from harness import group

# an escape sequence, a C1 control, markup, JSON syntax, and bytes that are no UTF-8
EVIL = b'\x1b[31m\xc2\x9b<hr id=evil>"\\},\xff\xfe'
JOB = r"""
import ctypes, os, sys, threading, time, torch
from torch.utils.data import DataLoader, Dataset
EVIL = eval(sys.stdin.readline())
libc = ctypes.CDLL(None)
name = lambda: libc.prctl(15, ctypes.c_char_p(EVIL[:15]))
folder = os.fsencode(sys.argv[1])
path = os.path.join(folder, EVIL.replace(b"/", b""))
class Data(Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, i):
        if i % 8 == 0:
            name()
        with open(path, "wb") as file:
            file.write(EVIL)
            os.fsync(file.fileno())
        time.sleep(0.002)
        return i
def idle():
    name()
    while True:
        time.sleep(0.01)
name()
threading.Thread(target=idle, daemon=True).start()
label = EVIL.decode("utf-8", "replace") + "</script><script id=evil>"
for i, batch in enumerate(DataLoader(Data(), batch_size=4, num_workers=2)):
    with torch.profiler.record_function(label):
        time.sleep(0.001)
    if i == 5:
        print("ready", flush=True)
"""


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.evil, self.tags = [], set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if ("id", "evil") in attrs:
            self.evil.append(tag)


def controls(data):
    """What a terminal could act upon: control characters but the end of a line, and C1."""
    text = data.decode("utf-8")
    return sorted({hex(ord(c)) for c in text if (ord(c) < 32 and c not in "\n\t") or
                   127 <= ord(c) < 160})


def strict(text):
    def refuse(word):
        raise ValueError(word)
    return json.loads(text.decode("utf-8"), parse_constant=refuse)


def texts(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@group("hostile names")
def hostile_names(env):
    tap = env.tap
    folder = tempfile.mkdtemp(prefix="hostile-", dir=env.folder)
    job = subprocess.Popen([env.python, "-c", JOB, folder, EVIL + b"</title>"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    base = os.path.join(folder, "out")
    try:
        job.stdin.write(repr(EVIL).encode() + b"\n")
        job.stdin.flush()
        tap.same(job.stdout.readline(), b"ready\n", "the job runs")
        ran = subprocess.run([env.tool, "--pid", str(job.pid), "--duration", "2.5", "--summary",
                              base + ".json", "--record", base + ".dlp", "--events", base + ".ev"],
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        listed = subprocess.run([env.tool, "--list"], capture_output=True, timeout=60)
        doctor = subprocess.run([env.tool, "doctor", "--pid", str(job.pid)], capture_output=True,
                                timeout=60)
    finally:
        job.kill()
        job.communicate()
    tap.same((ran.returncode, ran.stderr), (0, b""), "it is observed")
    report = [env.tool, "report", base + ".dlp", "--section", "all"]
    text = subprocess.run(report, capture_output=True, timeout=60)
    made = subprocess.run([*report, "--json", base + ".report", "--html", base + ".html", "--trace",
                           base + ".trace", "--folded", base + ".folded", "--csv",
                           os.path.join(folder, "csv")], capture_output=True, timeout=60)
    tap.same((text.returncode, made.returncode), (0, 0), "and reported", text.stderr, made.stderr)
    written = {"lines": ran.stdout, "list": listed.stdout, "doctor": doctor.stdout,
               "report": text.stdout, "messages": listed.stderr + text.stderr + made.stderr}
    for suffix in ("ev", "folded"):
        with open(f"{base}.{suffix}", "rb") as file:
            written[suffix] = file.read()
    for name, data in written.items():
        tap.same(controls(data), [], f"{name}: nothing a terminal would act upon")
    for suffix in ("json", "report", "trace"):
        with open(f"{base}.{suffix}", "rb") as file:
            document = strict(file.read())
        found = {text for text in texts(document) if "id=evil" in text}
        tap.check(found, f"{suffix}: the names are in it, as text")
        tap.same([t for t in found if controls(t.encode())], [], f"{suffix}: and without controls")
    with open(base + ".html", "rb") as file:
        page = Elements(file.read().decode("utf-8"))
    tap.same(page.evil, [], "html: no element comes from a name")
    tap.check({"title", "script"} <= page.tags and "hr" not in page.tags, "html: it was parsed",
              page.tags)


STORM = r"""
import subprocess, time, torch
from torch.utils.data import DataLoader
storm = subprocess.Popen(["sh", "-c", "while :; do /bin/true; /bin/true; done"])
for i, batch in enumerate(DataLoader(range(10000000), batch_size=4, num_workers=2)):
    time.sleep(0.001)
    if i == 5:
        print("ready", flush=True)
"""


def births():
    with open("/proc/stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("processes "))


@group("hostile, processes that vanish")
def storm(env):
    """Whatever the tool reads of a process may be gone before the next read."""
    tap = env.tap
    job = subprocess.Popen([env.python, "-c", STORM], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        tap.same(job.stdout.readline(), b"ready\n", "the job runs")
        before = births()
        for attempt in range(2):
            tool = env.observe(job.pid, duration=1, events=False)
            tap.same((tool.status, tool.stderr), (0, ""), f"attached, {attempt + 1}")
            tap.check(tool.summary["loaders"] and len(tool.summary["workers"]) == 2,
                      f"its loader and its two workers, {attempt + 1}", tool.summary["workers"])
        made = births() - before
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    tap.check(made > 200, "hundreds of processes came and went meanwhile", made)
