# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the tool may do while it watches, and that this suffices; capabilities instead of root."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import compare
from checks_messages import NOBODY
from checks_robust import LOADER, STEP, held_by, programs, wait_for
from harness import Session, Skip, Tool, group

USER = 65534
SYS_PTRACE, DAC_READ_SEARCH, SYS_ADMIN, PERFMON, BPF, CHECKPOINT_RESTORE = (
    1 << n for n in (19, 2, 21, 38, 39, 40))
WATCHING = BPF | PERFMON | CHECKPOINT_RESTORE


@contextlib.contextmanager
def sudo(uid=USER):
    """What sudo tells the programs that it starts."""
    os.environ.update(SUDO_UID=str(uid), SUDO_GID=str(uid))
    try:
        yield
    finally:
        del os.environ["SUDO_UID"], os.environ["SUDO_GID"]


def status(path):
    with open(f"{path}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def caps(fields, name="CapEff"):
    return int(fields[name], 16)


def settled(tool):
    """Its threads' status once it has given up what it gives up; the main thread's is first."""
    wait_for(lambda: status(f"/proc/{tool.pid}")["NoNewPrivs"] == "1")
    threads = sorted(map(int, os.listdir(f"/proc/{tool.pid}/task")))
    return [status(f"/proc/{tool.pid}/task/{tid}") for tid in threads]


def helpers(tool):
    with open(f"/proc/{tool.pid}/task/{tool.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


def user_session(env):
    """A job that this user has started."""
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    folder = tempfile.mkdtemp(prefix="user-", dir=env.folder)
    os.chown(folder, USER, USER)
    # the checkout may be where that user may not look
    here = os.path.dirname(os.path.abspath(__file__))
    seen = subprocess.run([*NOBODY, env.python, "-c",
                           f"import torch; open({os.path.join(here, 'jobs.py')!r})"],
                          capture_output=True, cwd="/")
    if seen.returncode:
        raise Skip("another user may not run this Python or read the tests")
    return Session(env.python, folder, NOBODY), folder


@contextlib.contextmanager
def user_job(env, loader=LOADER):
    session, folder = user_session(env)
    mask = os.umask(0)
    try:
        with session.phase("steady", loader=loader, step=STEP) as phase:
            os.umask(mask)
            yield session, folder, phase
    finally:
        os.umask(mask)
        session.close(kill=True)


def check_given_up(tap, threads, uid, wanted):
    main = threads[0]
    tap.same([caps(main, name) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd")],
             [wanted, wanted, 0, 0, 0], "capabilities: permitted, effective, and none to gain")
    tap.same(main["NoNewPrivs"], "1", "no new privileges")
    tap.same({t["Uid"].split()[0] for t in threads} | set(main["Uid"].split()), {str(uid)}, "user")
    tap.same({caps(t, "CapPrm") for t in threads[1:]}, {0} if threads[1:] else set(),
             "the thread that writes the recording has none")


@group("privileges, a user's own job")
def own_job(env):
    """All figures stay right after the drop, of processes born later, too."""
    tap = env.tap
    with user_job(env) as (session, folder, phase):
        base = os.path.join(folder, "out")
        with sudo():
            tool = Tool(env, session.pid, "--record", base + ".dlp", "--interval", "0.1", duration=4,
                        summary=base + ".json").attached()
        threads = settled(tool)
        children = helpers(tool)
        helper = [status(f"/proc/{pid}") for pid in children]
        helper_fds = [len(os.listdir(f"/proc/{pid}/fd")) for pid in children]
        ours = held_by(tool.pid)
        tap.check(ours, "it holds programs")
        owner = os.stat(f"/proc/{tool.pid}/status").st_uid
        tool.finish().need_summary()
    tap.same(owner, 0, "its user's other processes may not trace it")
    check_given_up(tap, threads, USER, WATCHING)
    tap.same(len(threads), 2, "two threads")
    tap.same([(caps(h, "CapPrm"), caps(h, "CapBnd"), h["NoNewPrivs"], h["Uid"].split()[0])
              for h in helper], [(SYS_ADMIN, 0, "1", str(USER))], "the helper has the one it needs")
    # that of the statistics, while they are on
    tap.check(helper_fds in ([1], [2]), "and one descriptor besides its socket", helper_fds)
    tap.check(not any(os.path.exists(f"/proc/{pid}") for pid in children), "it ends with the tool")
    tap.check(not ours & programs(), "no program is left")
    tap.same(tool.stderr, "", "nothing on stderr")
    compare.check_count(tap, tool, phase.truth)
    compare.check_durations(tap, tool, phase.truth)
    start, end = compare.window(tool)
    later = [w for w in tool.summary["workers"] if w["born_ns"] and w["born_ns"] > start + 1e9 and
             end - w["born_ns"] > 5e8]
    tap.check(later, "workers were born after the drop", tool.summary["workers"])
    tap.check(all(w["affinity_cpus"] and w["read_bytes"] is not None and w["states"] and
                  w["batches"] for w in later), "what /proc says of them is known", later)
    overhead = tool.summary["overhead"]
    tap.check(overhead["probe_cpu_us"] and overhead["probe_hits"], "what it costs is measured",
              overhead)
    for path in (base + ".json", base + ".dlp", tool.events_path):
        st = os.stat(path)
        tap.same((st.st_uid, st.st_gid), (USER, USER), f"{os.path.splitext(path)[1]} is theirs")
    replay = subprocess.run([env.tool, "replay", base + ".dlp"], capture_output=True, text=True)
    tap.same(replay.returncode, 0, "the recording is whole", replay.stderr)


@group("privileges, several jobs of a user")
def several_jobs(env):
    """They are given up as soon as all have shown that they train, and all is right after that."""
    tap = env.tap
    with user_job(env) as (one, folder, phase), user_job(env) as (other, _, other_phase):
        base = os.path.join(folder, "out")
        with sudo():
            tool = Tool(env, f"{one.pid},{other.pid}", "--record", base + ".dlp", "--interval", "0.1",
                        duration=4, summary=base + ".json").attached()
        threads = settled(tool)
        ours = held_by(tool.pid)
        tap.check(ours, "it holds programs")
        tool.finish().need_summary()
    check_given_up(tap, threads, USER, WATCHING)
    tap.same(len(threads), 3, "one thread more for each recording")
    tap.check(not ours & programs(), "no program is left")
    tap.same(tool.stderr, "", "nothing on stderr")
    paths = [f"{base}.{session.pid}.dlp" for session in (one, other)]
    for path in (base + ".json", *paths, tool.events_path):
        st = os.stat(path)
        tap.same((st.st_uid, st.st_gid), (USER, USER), f"{os.path.splitext(path)[1]} is theirs")
    ranks = {e["pid"]: e["summary"] for e in tool.summary["ranks"]}
    for session, truth in ((one, phase.truth), (other, other_phase.truth)):
        tool.summary = ranks[session.pid]
        compare.check_count(tap, tool, truth)
        start, end = compare.window(tool)
        later = [w for w in tool.summary["workers"]
                 if w["born_ns"] and w["born_ns"] > start + 1e9 and end - w["born_ns"] > 5e8]
        tap.check(later and all(w["states"] and w["batches"] for w in later),
                  "workers that were born after the drop are seen", tool.summary["workers"])


@group("privileges, several jobs and a folder of root's")
def several_of_root(env):
    """What the user may not write is opened before, what is root's may still be looked into."""
    tap, session = env.tap, env.session()
    shut = tempfile.mkdtemp(prefix="shut-", dir=env.folder)
    with session.phase("steady", loader=LOADER, step=STEP), user_job(env) as (other, _, _phase):
        with sudo():
            tool = Tool(env, f"{other.pid},{session.pid}", duration=2.5, events=False,
                        summary=os.path.join(shut, "run.json")).attached()
        threads = settled(tool)
        tool.finish().need_summary()
    check_given_up(tap, threads, USER, WATCHING | SYS_PTRACE | DAC_READ_SEARCH)
    tap.same({e["pid"] for e in tool.summary["ranks"]}, {session.pid, other.pid}, "both are observed")
    tap.same(os.stat(tool.summary_path).st_uid, USER, "the summary in root's folder is theirs")


@group("privileges, a job of root's")
def roots_job(env):
    """Watched by a user with sudo, and by root itself; into a folder that is only root's."""
    tap, session = env.tap, env.session()
    shut = tempfile.mkdtemp(prefix="shut-", dir=env.folder)
    with session.phase("steady", loader=LOADER, step=STEP) as phase:
        with sudo():
            tool = Tool(env, session.pid, duration=2.5,
                        summary=os.path.join(shut, "run.json")).attached()
        threads = settled(tool)
        tool.finish().need_summary()
        root = env.start(session.pid, duration=1.5)
        root_threads = settled(root)
        root.finish().need_summary()
    check_given_up(tap, threads, USER, WATCHING | SYS_PTRACE | DAC_READ_SEARCH)
    compare.check_count(tap, tool, phase.truth)
    compare.check_sums(tap, tool, phase.truth)
    tap.same(os.stat(tool.summary_path).st_uid, USER, "the summary in root's folder is theirs")
    tap.group = "privileges, root without sudo"
    # the job may do more than we may then, so the kernel wants CAP_SYS_PTRACE
    check_given_up(tap, root_threads, 0, WATCHING | SYS_PTRACE)
    compare.check_count(tap, root, phase.truth)


# ---- without root ------------------------------------------------------------------------------
def copy_with(env, name, mode=0o755, capabilities=None):
    folder = tempfile.mkdtemp(prefix="tool-", dir=env.folder)
    os.chmod(folder, 0o755)
    path = shutil.copy(env.tool, os.path.join(folder, name))
    os.chmod(path, mode)
    if capabilities:
        setcap = next((p for p in (shutil.which("setcap"), "/usr/sbin/setcap")
                       if p and os.access(p, os.X_OK)), None)
        if not setcap:
            raise Skip("setcap is not installed")
        done = subprocess.run([setcap, capabilities, path], capture_output=True, text=True)
        if done.returncode:
            raise Skip(f"no file capabilities here: {done.stderr}")
    return path


def run_as_user(*command, timeout=60):
    return subprocess.run([*NOBODY, *command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, cwd="/")


@group("privileges, file capabilities")
def file_capabilities(env):
    """A user without sudo watches a job of their own."""
    tap = env.tap
    able = copy_with(env, "able", capabilities="cap_bpf,cap_perfmon,cap_sys_admin=ep")
    half = copy_with(env, "half", capabilities="cap_bpf,cap_perfmon=ep")
    with user_job(env) as (session, folder, phase):
        doctor = run_as_user(able, "doctor", "--json", "--pid", str(session.pid))
        rows = {(r["group"], r["feature"]): r for r in json.loads(doctor.stdout)["rows"]}
        tap.same((doctor.returncode, doctor.stderr), (0, ""), "the doctor says that it can")
        tap.same([rows["privileges", "CAP_" + name]["state"] for name in
                  ("BPF", "PERFMON", "SYS_PTRACE", "SYS_ADMIN")],
                 ["ok", "ok", "missing", "ok"], "and which capabilities are there")
        tap.check(str(USER) in rows["privileges", "user"]["detail"], "and whose they are",
                  rows["privileges", "user"])
        tool = Tool(env, session.pid, duration=3, summary=os.path.join(folder, "own.json"),
                    events=False, prefix=[*NOBODY, able]).attached()
        threads = settled(tool)
        tool.finish().need_summary()
        check_given_up_by_user(tap, threads)
        refused = run_as_user(half, "--pid", str(session.pid), "--duration", "1")
        doctor = run_as_user(half, "doctor", "--json")
        others = run_as_user(able, "--pid", "1", "--duration", "1")
        start, end = compare.window(tool)
    count = compare.loader_sum(tool, "getnext", "count")
    tap.check(count > 50, "calls are counted", count)
    sure, perhaps = compare.calls(phase.truth, start, end)
    tap.check(len(sure) <= count <= len(sure) + len(perhaps), f"all of them ({len(sure)})", count)
    tap.check(tool.summary["overhead"]["probe_cpu_us"], "what it costs is measured",
              tool.summary["overhead"])
    tap.same(os.stat(tool.summary_path).st_uid, USER, "the summary is theirs")
    # a kernel may come to be content with CAP_PERFMON
    tap.check(refused.returncode == 0 or refused.returncode == 3 and
              refused.stderr.count("\n") == 1 and "CAP_SYS_ADMIN" in refused.stderr,
              "without CAP_SYS_ADMIN: works, or status 3 and one line", refused.stderr)
    rows = {r["feature"]: r for r in json.loads(doctor.stdout)["rows"]}
    tap.same((doctor.returncode, rows["CAP_PERFMON"]["state"], rows["CAP_SYS_ADMIN"]["state"]),
             (refused.returncode, "ok", "missing"), "the doctor says which is missing")
    tap.check(others.returncode == 3 and re.search("may not look into pid 1 .*root", others.stderr),
              "a process of root's: status 3", others.stderr)


def check_given_up_by_user(tap, threads):
    tap.same([caps(threads[0], name) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")],
             [BPF | PERFMON, BPF | PERFMON, 0, 0], "keeps what it has and needs")
    tap.same(threads[0]["NoNewPrivs"], "1", "no new privileges")


@group("privileges, set-user-ID")
def set_user_id(env):
    tap, tool = env.tap, copy_with(env, "setuid", mode=0o4755)
    for args in (["--list"], ["--help"], ["--pid", "1"]):
        ran = run_as_user(tool, *args)
        tap.check(ran.returncode == 3 and not ran.stdout and ran.stderr.count("\n") == 1 and
                  "set-user-ID" in ran.stderr, f"{args[0]}: refused in one line", ran)
