# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The doctor says what observing then does: of a job that can be watched, and where it cannot be."""
import json
import shutil
import subprocess

from harness import Skip, group

LOADER = {"num_workers": 3, "n": 240, "batch": 4, "work": {"kind": "uneven", "ms": 1}}
GROUPS = {"permission", "privileges", "kernel", "system", "job"}
# rows that depend on what the machine is, not on what the tool does
MACHINE = {"cgroup-cpu", "cgroup-memory", "pressure"}
# checks_rungs.py has the others
LEFT_OUT = ("clocks", "iterators", "others")


def doctor(env, *options, prefix=()):
    run = subprocess.run([*prefix, env.tool, "doctor", "--json", *options], capture_output=True,
                         text=True, timeout=60)
    return run, json.loads(run.stdout) if run.stdout else None


def rows(document):
    return {(row["group"], row["feature"]): row for row in document["rows"]}


@group("doctor, a job")
def job(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step={"ms": 2}):
        run, document = doctor(env, "--pid", str(session.pid))
        text = subprocess.run([env.tool, "doctor", "--pid", str(session.pid)], capture_output=True,
                              text=True, timeout=60)
        tools = {name: env.observe(session.pid, "--without", name, duration=1.5) for name in LEFT_OUT}
    tap.same((run.returncode, run.stderr), (0, ""), "ends with 0")
    tap.same(document["schema"], "dlprof.doctor/1", "schema")
    tap.same((document["pid"], document["observable"]), (session.pid, True), "can be observed")
    wrong = [row for row in document["rows"]
             if row["state"] != "ok" and row["feature"] not in MACHINE]
    tap.check(not wrong, "every row is ok", *wrong)
    tap.same({row["group"] for row in document["rows"]}, GROUPS, "groups")
    found = rows(document)
    tap.same(found["job", "torch"]["detail"], session.torch, "the job's torch")
    tap.same(found["job", "python"]["detail"].split("+")[0], session.python, "the job's Python")
    tap.check(f"{LOADER['num_workers']} DataLoader workers" in found["job", "process"]["detail"],
              "the job's workers", found["job", "process"])
    tap.same(text.returncode, 0, "text ends with 0")
    tap.same(text.stdout.splitlines()[-1], f"pid {session.pid} can be observed", "text says so")
    missing = [key for key in found if not any(key[1] in line for line in text.stdout.splitlines())]
    tap.check(not missing, "text has every row", missing)
    # the doctor's names are those of --without, and each is done without
    features = {feature for place, feature in found if place == "kernel"}
    tap.check(features >= set(LEFT_OUT), "rows for what can be left out", features)
    for name, tool in tools.items():
        names = tool.summary["tool"]["capture"]["missing"]
        tap.check(name in names, f"--without {name} is said", names)
        tap.check(tool.summary["loaders"][0]["getnext"]["count"] > 0, f"--without {name} still sees")


@group("doctor, no job")
def no_job(env):
    tap = env.tap
    run, document = doctor(env)
    tap.same((run.returncode, document["observable"], document["pid"]), (0, True, None), "here")
    tap.check("job" not in {row["group"] for row in document["rows"]}, "no rows of a job")
    other = subprocess.Popen([env.python, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        run, document = doctor(env, "--pid", str(other.pid))
    finally:
        other.communicate()
    tap.same((run.returncode, document["observable"]), (3, False), "a Python without torch")
    tap.same(rows(document)["job", "process"]["state"], "missing", "says which part")
    gone = subprocess.Popen(["true"])
    gone.wait()
    run, document = doctor(env, "--pid", str(gone.pid))
    tap.same((run.returncode, document["observable"]), (3, False), "a process that is gone")
    tap.check(str(gone.pid) in rows(document)["job", "process"]["detail"], "says which",
              rows(document)["job", "process"])


@group("doctor, refused")
def refused(env):
    """Without root, and in a container's pid namespace, where all attaches and nothing is seen."""
    tap = env.tap
    for command in ("setpriv", "unshare"):
        if not shutil.which(command):
            raise Skip(f"{command} is not installed")
    run, document = doctor(env, prefix=("setpriv", "--reuid", "65534", "--regid", "65534",
                                        "--clear-groups"))
    found = rows(document)
    tap.same((run.returncode, document["observable"]), (3, False), "not root")
    tap.same(found["permission", "load"]["state"], "missing", "not root: programs cannot be loaded")
    tap.check("root" in found["permission", "load"]["cost"], "not root: says what root would add")
    tap.same(found["kernel", "btf"]["state"], "ok", "not root: what can be read is read")
    tap.check(all(row["cost"] for row in document["rows"] if row["state"] != "ok"),
              "not root: what is missing has a price")
    run, document = doctor(env, prefix=("unshare", "--pid", "--fork", "--mount-proc"))
    found = rows(document)
    tap.same((run.returncode, document["observable"]), (3, False), "pid namespace")
    tap.same(found["permission", "pid-namespace"]["state"], "missing", "pid namespace: says so")
    tap.same(found["kernel", "scopes"]["state"], "ok", "pid namespace: the kernel allows it")


# What a fresh machine looks like, for the command that follows: nobody has traced there yet.
UNMOUNTED = """
umount -l /sys/kernel/tracing 2>/dev/null
mount -t tmpfs -o ro dlprof-test /sys/kernel/tracing && mount -t tmpfs -o ro dlprof-test /sys/kernel/debug || exit 9
"$@"; status=$?
grep -q ' - tracefs ' /proc/self/mountinfo && exit 8
exit $status
"""


@group("doctor, tracefs mounted nowhere")
def no_tracefs(env):
    """The number of a tracepoint is had without it, and the machine's mounts are left alone."""
    run, document = doctor(env, prefix=("unshare", "-m", "--propagation", "private",
                                        "sh", "-c", UNMOUNTED, "sh"))
    if run.returncode == 9:
        raise Skip("may not mount in a namespace")
    env.tap.same(run.returncode, 0, "no tracefs is mounted before or after", run.stderr)
    found = rows(document)
    for key in (("kernel", "queue-syscall"), ("kernel", "tracefs")):
        env.tap.same(found[key]["state"], "ok", f"{key[1]}: ok", found[key])
