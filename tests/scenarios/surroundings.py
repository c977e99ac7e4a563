# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a scenario needs around it: slow disks, control groups, busy neighbours, servers.

Keys: disk {ms, files: (count, KB), big_mb}   ext4 on a loop device whose every request takes ms
      fuse {read_ms, meta_ms, files, big_mb}  the same files in a slow file system of user space
      folder True                             an empty folder
      read_iops N                             a control group's limit of reads of the disk
      cpu_quota CPUS, cpus [N, ...], server_ms MS, shm_mb MB
      hogs N, hogs_from S, hogs_to S          busy processes; seconds after the tool has attached

All is undone by the stack it is built on. Mounts are made in a mount namespace of the tests' own and
loop devices let go of with them, so that nothing stays even when the tests are killed; what then does
stay, empty control groups and folders of files, the next run removes.
"""
import contextlib
import ctypes
import glob
import http.server
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from harness import Skip

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "dlprof-scenario-"
CGROUPS = "/sys/fs/cgroup"
CLONE_NEWNS, MNT_DETACH = 0x20000, 2
BLOCK = os.urandom(1 << 20)
HOG = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


def command(*words):
    """Standard output; a machine on which it fails cannot show the scenario."""
    env = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, env=env).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as e:
        reason = (getattr(e, "stderr", "") or str(e)).strip().splitlines()[-1:]
        raise Skip(f"{words[0]} does not work here: {' '.join(reason)}") from None


def own_mounts():
    """A mount namespace for this process and what it starts; without it nothing can be mounted."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0:
        with contextlib.suppress(Skip):
            command("mount", "--make-rprivate", "/")


def sweep():
    """Removes what killed runs left behind. Names hold the pid of the run."""
    places = glob.glob(f"{CGROUPS}/{PREFIX}*") + glob.glob(f"{CGROUPS}/*/{PREFIX}*")
    places += glob.glob(f"{tempfile.gettempdir()}/{PREFIX}*")
    for place in places:
        pid = os.path.basename(place).removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            if place.startswith(CGROUPS):
                with contextlib.suppress(OSError):
                    os.rmdir(place)
            else:
                shutil.rmtree(place, ignore_errors=True)


def unmount(path):
    # lazily: a job that was just killed may still hold it
    ctypes.CDLL(None).umount2(path.encode(), MNT_DETACH)


def make_files(folder, files=(0, 0), big_mb=0):
    number, kilobytes = files
    for i in range(number):
        with open(f"{folder}/{i}", "wb") as file:
            file.write(BLOCK[:kilobytes << 10])
    if big_mb:
        with open(f"{folder}/big", "wb") as file:
            for _ in range(big_mb):
                file.write(BLOCK)


class LateServer(http.server.BaseHTTPRequestHandler):
    protocol_version, delay_s = "HTTP/1.1", 0.0
    BODY = b"x" * 8192

    def do_GET(self):
        time.sleep(self.delay_s)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.BODY) + self.BODY)


class Surroundings:
    """knobs: what the job must be told; prefix: words before its command; enter: to be called in its
    process; groups: process groups that belong to the tests."""

    def __init__(self, wanted, stack):
        self.stack, self.wanted = stack, dict(wanted)
        self.knobs, self.prefix, self.groups, self.procs = {}, [], set(), []
        self.marks = {}
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        # undone last: what is mounted in it is gone by then
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.cpus = self.take("cpus")
        if self.take("folder"):
            self.knobs["data"] = self.folder
        if "disk" in self.wanted:
            self.make_disk(**self.take("disk"))
        if "fuse" in self.wanted:
            self.make_fuse(**self.take("fuse"))
        if quota := self.take("cpu_quota"):
            # nice -10, which the tests run at, means nothing between groups: the weight does
            self.enter_group("cpu", {"cpu.cfs_period_us": 100_000, "cpu.shares": 9548,
                                     "cpu.cfs_quota_us": int(quota * 100_000)},
                             {"cpu.max": f"{int(quota * 100_000)} 100000", "cpu.weight.nice": -10})
        if ms := self.take("server_ms"):
            self.serve(ms)
        if megabytes := self.take("shm_mb"):
            script = f'mount -t tmpfs -o size={megabytes}m tmpfs /dev/shm && exec "$@"'
            self.prefix = ["unshare", "-m", "sh", "-c", script, "sh"]
            command(*self.prefix, "true")
        self.hogs, self.hogs_from, self.hogs_to = map(self.take, ("hogs", "hogs_from", "hogs_to"))
        if self.wanted:
            raise KeyError(f"unknown surroundings: {list(self.wanted)}")
        if self.hogs and self.hogs_from is None:
            self.start_hogs()

    def take(self, key):
        return self.wanted.pop(key, None)

    def enter(self):
        """In the job's process, before it becomes the job."""
        for procs in self.procs:
            with open(procs, "w") as file:
                file.write(str(os.getpid()))
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)

    def daemon(self, *words):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
        self.groups.add(process.pid)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    # ---- storage -----------------------------------------------------------------------------
    def mount_slowfs(self, folder, mountpoint, read_ms, meta_ms=0):
        if not os.path.exists("/dev/fuse"):
            raise Skip("there is no /dev/fuse")
        os.makedirs(mountpoint)
        process = self.daemon(sys.executable, os.path.join(HERE, "slowfs.py"), folder, mountpoint,
                              "--read-ms", str(read_ms), "--meta-ms", str(meta_ms))
        self.stack.callback(unmount, mountpoint)
        while not os.path.ismount(mountpoint):
            if process.poll() is not None:
                raise Skip("a FUSE file system cannot be mounted here")
            time.sleep(0.02)
        return process

    def make_fuse(self, read_ms=0, meta_ms=0, **files):
        source, mountpoint = self.folder + "/source", self.folder + "/fuse"
        os.makedirs(source)
        make_files(source, **files)
        self.mount_slowfs(source, mountpoint, read_ms, meta_ms)
        self.knobs["data"] = mountpoint

    def make_disk(self, ms, **files):
        """The image lies in a slow file system; the loop device passes its delays on."""
        tree, images, slow, disk = (f"{self.folder}/{name}" for name in ("tree", "images", "slow", "disk"))
        for folder in (tree, images, disk):
            os.makedirs(folder)
        make_files(tree, **files)
        megabytes = sum(os.path.getsize(file) for file in glob.glob(tree + "/*")) >> 20
        command("mkfs.ext4", "-q", "-F", "-d", tree, images + "/disk", f"{megabytes * 5 // 4 + 16}M")
        shutil.rmtree(tree)
        if ms:
            self.mount_slowfs(images, slow, ms)
        device = command("losetup", "-f", "--show", "-r", (slow if ms else images) + "/disk")
        try:
            command("mount", "-o", "ro", device, disk)
            number = os.stat(device).st_rdev
        finally:
            # from now on the device goes when nobody uses it any more
            command("losetup", "-d", device)
        self.stack.callback(unmount, disk)
        self.knobs["data"] = disk
        if iops := self.take("read_iops"):
            device = f"{os.major(number)}:{os.minor(number)}"
            self.enter_group("blkio", {"blkio.throttle.read_iops_device": f"{device} {iops}"},
                             {"io.max": f"{device} riops={iops}"})

    # ---- control groups ------------------------------------------------------------------------
    def enter_group(self, controller, settings_v1, settings_v2):
        """A new control group with these settings, which the job will enter."""
        settings, root = settings_v1, f"{CGROUPS}/{controller}"
        if not os.path.exists(root + "/cgroup.procs"):
            settings, root = settings_v2, CGROUPS
            name = {"blkio": "io"}.get(controller, controller)
            self.write(root + "/cgroup.subtree_control", "+" + name)
        try:
            group = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root)
        except OSError as e:
            raise Skip(f"no control group can be made: {e}") from None
        self.stack.callback(self.remove_group, group)
        for name, value in settings.items():
            self.write(f"{group}/{name}", value)
        self.procs.append(group + "/cgroup.procs")

    @staticmethod
    def write(path, value):
        try:
            with open(path, "w") as file:
                file.write(str(value))
        except OSError as e:
            raise Skip(f"{path} cannot be written: {e.strerror}") from None

    @staticmethod
    def remove_group(group):
        for _ in range(50):  # its last process may take a moment to go
            try:
                return os.rmdir(group)
            except OSError:
                time.sleep(0.1)

    # ---- others ------------------------------------------------------------------------------
    def serve(self, ms):
        handler = type("Server", (LateServer,), {"delay_s": ms / 1e3})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # killed workers leave broken connections behind
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)
        self.knobs["port"] = server.server_address[1]

    def start_hogs(self):
        return [self.daemon(sys.executable, "-c", HOG) for _ in range(self.hogs)]

    def accompany(self, attached_ns):
        """Lets the hogs come and go as planned, and notes when."""
        if self.hogs_from is None:
            return
        self.sleep_until(attached_ns, self.hogs_from)
        hogs = self.start_hogs()
        self.marks["hogs"] = time.monotonic_ns()
        self.sleep_until(attached_ns, self.hogs_to)
        for hog in hogs:
            hog.send_signal(signal.SIGKILL)
            hog.wait()
        self.marks["calm"] = time.monotonic_ns()

    @staticmethod
    def sleep_until(start_ns, seconds):
        time.sleep(max(0, start_ns / 1e9 + seconds - time.monotonic()))
