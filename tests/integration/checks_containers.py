# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Jobs in containers, made of namespaces, overlayfs and control groups without an engine, watched
from the host and from inside."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time

import compare
from checks_messages import NOBODY, run_tool, says
from checks_robust import wait_for
from harness import CGROUPS, DEBIAN_PYTHON, HERE, Session, Skip, Tool, group

LOADER = {"num_workers": 2, "n": 40000, "batch": 4, "work": {"kind": "uneven", "ms": 1.0}}
STEP = {"ms": 2}
PYTHON = "/opt/in-container/bin/python"  # as container.sh puts it
SECONDS = 2
PERIOD_US = 100_000
POD_CPUS, CONTAINER_CPUS = 1.5, 0.5


# ---- containers --------------------------------------------------------------------------------
def prefix(env, *namespaces):
    """What a command in a container of its own begins with."""
    for command in ("unshare", "nsenter", "pivot_root"):
        if not shutil.which(command):
            raise Skip(f"{command} is not installed")
    venv = subprocess.run([env.python, "-c", "import sys; print(sys.prefix != sys.base_prefix and sys.prefix)"],
                          capture_output=True, text=True, check=True).stdout.strip()
    if venv == "False":
        raise Skip(f"{env.python} is not of a virtual environment, which could lie elsewhere")
    base = tempfile.mkdtemp(prefix="container-", dir=env.folder)
    words = ["unshare", "--mount", "--propagation", "private", *namespaces,
             os.path.join(HERE, "container.sh"), base, venv, env.folder, HERE, "--"]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise Skip(f"no container can be made here: {tried.stderr.strip()[-200:]}")
    return words


def numbers_of(pid):
    """A process's numbers, from ours to the one in its own namespace."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("NSpid:"):
                return [int(number) for number in line.split()[1:]]
    raise AssertionError(f"no NSpid of {pid}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


class Job:
    """A training behind unshare --fork; `pid` is its number here, `inside` the one it knows itself by."""

    def __init__(self, env, words, python=PYTHON, folder=None):
        self.session = Session(python, folder or tempfile.mkdtemp(prefix="job-", dir=env.folder), words)
        self.pid = self.session.pid
        while children(self.pid):
            self.pid = children(self.pid)[0]
        self.inside = numbers_of(self.pid)[-1]

    def enter(self, *namespaces):
        """What a command in its container begins with; the mount and pid namespace are always its."""
        return ["nsenter", "-t", str(self.pid), "--mount", "--pid", *namespaces, "--"]

    def to_host(self):
        """{number inside: number here} of it and its workers."""
        return {numbers_of(pid)[-1]: pid for pid in [self.pid, *children(self.pid)]}


@contextlib.contextmanager
def contained(env, *args, **options):
    job = Job(env, *args, **options)
    try:
        yield job
    finally:
        job.session.close(kill=True)


def renumber(truth, numbers):
    """The job's own record, with the numbers that its processes have here."""
    for e in truth.nexts + truth.fetches:
        e["pid"] = numbers.get(e["pid"], e["pid"])
    for e in truth.iters:
        e["workers"] = [numbers.get(pid, pid) for pid in e["workers"]]


def check_seen(tap, tool, truth, trainer, workers, where):
    """Every call counted, every batch given to the worker that made it, under the right numbers."""
    group_name, tap.group = tap.group, f"{tap.group}, {where}"
    tap.same(tool.summary["target"]["pid"], trainer, "the training process")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    tap.same(sorted(w["pid"] for w in tool.summary["workers"]), sorted(workers), "workers")
    compare.check_mapping(tap, tool, truth, trainer)
    compare.check_complete(tap, tool)
    tap.group = group_name


def observe(env, job, *options, inside=None):
    """The tool for some seconds, from here or, with the words of Job.enter, from inside."""
    pid = job.inside if inside else job.pid
    return env.observe(pid, *options, duration=SECONDS, prefix=inside and [*inside, env.tool])


# ---- another root, another pid namespace --------------------------------------------------------
def check_host(env, job):
    """Its files have other names here, or none, and its processes other numbers."""
    tap = env.tap
    with open(f"/proc/{job.pid}/maps") as file:
        mapped = {line.split()[-1] for line in file if "libtorch_" in line}
    tap.check(mapped and all(path.startswith("/opt/in-container/") for path in mapped)
              and not os.path.exists("/opt/in-container"), "torch is at a path that is not here", mapped)
    with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
        numbers = job.to_host()
        tool = observe(env, job)
    renumber(phase.truth, numbers)
    check_seen(tap, tool, phase.truth, job.pid, set(numbers.values()) - {job.pid}, "from the host")
    tap.check(f"pid {job.pid}, {job.inside} in its container" in tool.lines[0], "both numbers are said",
              tool.lines[0])


def check_numbers(env, job):
    """Numbers of the other side are understood, or refused in so many words."""
    tap = env.tap
    run = run_tool(env, "--pid", str(job.inside))
    # what has that number here decides: a thread of the kernel, something else, nothing
    status = 3 if run.returncode == 3 else 1
    says(tap, "its own number, given on the host", run, status, "inside a container", f"--pid {job.pid}")
    run = run_tool(env, "--pid", str(job.pid), prefix=job.enter())
    says(tap, "the host's number, given inside", run, 1, f"no process with pid {job.pid}",
         "numbers are those of this container")
    listed = run_tool(env, "--list")
    row = [line.split()[:2] for line in listed.stdout.splitlines()
           if line.split()[:1] == [str(job.pid)]]
    tap.same(row, [[str(job.pid), str(job.inside)]], "--list has both numbers", listed.stdout)
    listed = run_tool(env, "--list", prefix=job.enter())
    rows = [line.split()[:2] for line in listed.stdout.splitlines()[1:]]
    tap.same(rows, [[str(job.inside), "-"]], "--list inside has what is inside", listed.stdout)
    run = run_tool(env, "--pid", str(job.inside), prefix=["nsenter", "-t", str(job.pid), "--pid", "--"])
    says(tap, "/proc of another namespace", run, 3, "/proc", "--mount")


def check_inside(env, job):
    tap = env.tap
    with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
        workers = set(job.to_host()) - {job.inside}
        tool = observe(env, job, inside=job.enter())
    check_seen(tap, tool, phase.truth, job.inside, workers, "from inside")
    # the same with the numbers of the kernel's thread table, not those of the namespace, as keys
    with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
        workers = set(job.to_host()) - {job.inside}
        tool = observe(env, job, "--without", "task-storage", inside=job.enter())
    check_seen(tap, tool, phase.truth, job.inside, workers, "from inside, hash of threads")


def check_replaced(env, job):
    """An image is updated under a running job: what it has mapped has no name any more."""
    tap = env.tap
    script = ('cd /opt/in-container/lib/python*/site-packages/torch/lib && rm libtorch_python.so '
              'libtorch_cpu.so && echo another >libtorch_python.so')
    subprocess.run([*job.enter(), "sh", "-c", script], check=True)
    with open(f"/proc/{job.pid}/maps") as file:
        gone = {os.path.basename(line.split()[-2]) for line in file
                if "libtorch_" in line and line.rstrip().endswith("(deleted)")}
    tap.same(gone, {"libtorch_python.so", "libtorch_cpu.so"}, "its files are gone")
    with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
        numbers = job.to_host()
        tool = observe(env, job)
    renumber(phase.truth, numbers)
    check_seen(tap, tool, phase.truth, job.pid, set(numbers.values()) - {job.pid}, "files gone")


@group("containers, mount and pid namespace")
def mount_and_pid(env):
    # behind a shell: the first process of a container is seldom the one that trains
    words = [*prefix(env, "--pid", "--fork", "--kill-child"), "sh", "-c", '"$@"; exit $?', "sh"]
    with contained(env, words) as job:
        check_host(env, job)
        check_numbers(env, job)
        check_inside(env, job)
        check_replaced(env, job)


@group("containers, the tool in one with the host's processes")
def host_processes(env):
    """As a privileged container with hostPID is: its own root, the machine's processes."""
    words = prefix(env)
    with env.session().phase("steady", loader=LOADER, step=STEP) as phase:
        pid = env.session().pid
        workers = [child for child in children(pid) if "pt_data_worker" in comm(child)]
        tool = env.observe(pid, duration=SECONDS, prefix=[*words, env.tool])
    check_seen(env.tap, tool, phase.truth, pid, workers, "from there")


def comm(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read()


# ---- another user namespace --------------------------------------------------------------------
def rootless(env):
    """(words, Python) for a user namespace whose root is nobody here, or else our root without any
    right outside: the Python may lie where nobody may look."""
    jobs = os.path.join(HERE, "jobs.py")
    for user, python in ((NOBODY, env.python), (NOBODY, DEBIAN_PYTHON), ([], env.python)):
        words = [*user, "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
                 "--mount-proc"]
        tried = subprocess.run([*words, python, "-c", f"import torch; open({jobs!r})"],
                               capture_output=True, text=True, cwd="/")
        if not tried.returncode:
            return words, python
    raise Skip(f"no user namespace: {tried.stderr.strip()[-200:]}")


@group("containers, user namespace")
def user_namespace(env):
    """A rootless container."""
    tap = env.tap
    words, python = rootless(env)
    folder = tempfile.mkdtemp(prefix="user-", dir=env.folder)
    os.chmod(folder, 0o777)
    mask = os.umask(0)
    try:
        with contained(env, words, python=python, folder=folder) as job:
            tap.check(os.readlink(f"/proc/{job.pid}/ns/user") != os.readlink("/proc/self/ns/user"),
                      "it is in a user namespace of its own")
            with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
                numbers = job.to_host()
                tool = observe(env, job)
            renumber(phase.truth, numbers)
            check_seen(tap, tool, phase.truth, job.pid, set(numbers.values()) - {job.pid}, "from the host")
    finally:
        os.umask(mask)


# ---- control groups ----------------------------------------------------------------------------
class Groups:
    """A pod's control group and its container's in it, as Kubernetes nests them."""

    def __init__(self, stack):
        self.old = os.path.exists(f"{CGROUPS}/cpu/cgroup.procs")
        self.top = f"{CGROUPS}/cpu" if self.old else CGROUPS
        try:
            if not self.old:
                self.write(self.top, "cgroup.subtree_control", "+cpu")
            self.pod = tempfile.mkdtemp(prefix="dlprof-pod-", dir=self.top)
            stack.callback(self.remove, self.pod)
            if not self.old:
                self.write(self.pod, "cgroup.subtree_control", "+cpu")
            self.container, self.beside = (os.path.join(self.pod, name) for name in ("container", "beside"))
            for folder in (self.container, self.beside):
                os.mkdir(folder)
                stack.callback(self.remove, folder)
        except OSError as e:
            raise Skip(f"no control group for CPU time can be made: {e}") from None

    @staticmethod
    def write(folder, name, value):
        with open(f"{folder}/{name}", "w") as file:
            file.write(str(value))

    @staticmethod
    def remove(folder):
        """Its last process may take a moment to go."""
        def gone():
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            return not os.path.exists(folder)
        wait_for(gone)

    def limit(self, folder, cpus):
        quota = int(cpus * PERIOD_US)
        if self.old:
            self.write(folder, "cpu.cfs_period_us", PERIOD_US)
            self.write(folder, "cpu.cfs_quota_us", quota)
        else:
            self.write(folder, "cpu.max", f"{quota} {PERIOD_US}")

    def counts(self):
        """(periods, throttled periods, microseconds throttled) of the container so far."""
        with open(f"{self.container}/cpu.stat") as file:
            found = dict(line.split() for line in file)
        throttled = int(found["throttled_time"]) / 1e3 if self.old else int(found["throttled_usec"])
        return int(found["nr_periods"]), int(found["nr_throttled"]), throttled

    def mount_inside(self, job):
        """The container's own view of its control group, as an engine mounts it, instead of ours."""
        kind = ["cgroup", "-o", "cpu"] if self.old else ["cgroup2"]
        script = 'umount -l "$0" && exec mount "$@" cgroup "$0"'
        subprocess.run([*job.enter("--cgroup"), "sh", "-c", script, self.top, "-t", *kind], check=True)


def entering(folder):
    """What a command in this control group begins with."""
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', folder]


def check_quota(env, job, groups, where, words=(), inside=False):
    """The figures are the growth of the kernel's own between the window's ends. words: what the tool
    is started by; inside: it is among the job's own numbers."""
    tap = env.tap
    pid = job.inside if inside else job.pid
    with job.session.phase("steady", loader=LOADER, step=STEP) as phase:
        numbers = job.to_host()
        before = groups.counts()
        tool = Tool(env, pid, duration=3, prefix=[*words, env.tool]).attached()
        # well inside of the window, which begins when all is attached
        time.sleep(0.5)
        begun = groups.counts()
        time.sleep(1.5)
        ending = groups.counts()
        tool.finish().need_summary()
        after = groups.counts()
    if not inside:
        renumber(phase.truth, numbers)
    workers = set(numbers if inside else numbers.values()) - {pid}
    check_seen(tap, tool, phase.truth, pid, workers, where)
    got = tool.summary["system"]["cgroup"]
    tap.same(got["quota_cpus"], CONTAINER_CPUS, f"{where}: the quota is the container's", got)
    figures = got["periods"], got["throttled_periods"], got["throttled_us"]
    for name, value, *counts in zip(("periods", "throttled periods", "microseconds throttled"), figures,
                                    before, begun, ending, after):
        first, second, third, last = counts
        tap.check(value is not None and third - second <= value <= last - first + 1,
                  f"{where}: {name} as cpu.stat has them",
                  f"got {value}, between {third - second} and {last - first}")
    start, end = compare.window(tool)
    seconds = (end - start) / 1e9
    tap.near(figures[0], seconds * 1e6 / PERIOD_US, 0.1 * seconds * 1e6 / PERIOD_US + 2,
             f"{where}: periods fill the window")
    tap.check(figures[1], f"{where}: it was throttled")


@group("containers, CPU quota of nested groups")
def quota(env):
    with contextlib.ExitStack() as stack:
        groups = Groups(stack)
        words = [*entering(groups.container),
                 *prefix(env, "--cgroup", "--pid", "--fork", "--kill-child")]
        job = stack.enter_context(contained(env, words))
        with open(f"/proc/{job.pid}/cgroup") as file:
            text = file.read()
        env.tap.check(re.search(rf"^\d+:(cpu)?:.*{os.path.basename(groups.pod)}/container$", text, re.M),
                      "it is in the nested group", text)
        # the pod's limit is wider and must not be taken
        groups.limit(groups.pod, POD_CPUS)
        groups.limit(groups.container, CONTAINER_CPUS)
        check_quota(env, job, groups, "from the host")
        groups.mount_inside(job)
        check_quota(env, job, groups, "from inside", job.enter("--cgroup"), inside=True)
        # in a cgroup namespace of its own, with nothing mounted but what the job has
        words = [*entering(groups.beside), *prefix(env, "--cgroup"), "sh", "-c",
                 'umount -l "$0" && exec "$@"', groups.top]
        check_quota(env, job, groups, "from a container beside it", words)
