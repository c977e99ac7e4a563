# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kinds of loaders and of use, each watched from before its first iter() to after its last."""
import signal

import compare
from harness import group


def watch(env, which, loaders, epochs, **more):
    session = env.session(which)
    with session.phase("plan", loaders=loaders, epochs=epochs, **more) as phase:
        tool = env.start(session.pid)
        phase.go()
        phase.wait()
        tool.finish(signal.SIGINT)
        tool.need_summary()
    return session, phase, tool


def check_all(env, session, phase, tool):
    """What holds whatever the loaders are."""
    tap, truth = env.tap, phase.truth
    tap.same(tool.summary["loss"]["by_reason"], {}, "nothing lost")
    compare.check_count(tap, tool, truth)
    compare.check_durations(tap, tool, truth)
    compare.check_exposed(tap, tool, truth)
    compare.check_iterators(tap, tool, truth)
    compare.check_mapping(tap, tool, truth, session.pid)
    compare.check_batches(tap, tool, truth)
    compare.check_births(tap, tool, truth)
    compare.check_sums(tap, tool, truth)


def work(ms=1.0):
    return {"kind": "uneven", "ms": ms}


def persistent(env, which):
    """Three epochs, one iterator object."""
    loaders = {"train": {"num_workers": 2, "n": 100, "persistent_workers": True, "work": work()}}
    session, phase, tool = watch(env, which, loaders, [["train", None]] * 3)
    check_all(env, session, phase, tool)
    compare.check_loader(env.tap, tool, 2)
    env.tap.same([x["inits"] for x in tool.summary["loaders"]], [1], "inits")


def fresh(env, which):
    """Three epochs, three iterator objects."""
    loaders = {"train": {"num_workers": 2, "n": 100, "work": work()}}
    session, phase, tool = watch(env, which, loaders, [["train", None]] * 3)
    check_all(env, session, phase, tool)
    compare.check_loader(env.tap, tool, 2)
    env.tap.same([x["inits"] for x in tool.summary["loaders"]], [3], "inits")


def stream(env, which):
    """An IterableDataset whose workers have shards of different length."""
    loaders = {"train": {"num_workers": 2, "lengths": [120, 40], "work": work(3)}}
    session, phase, tool = watch(env, which, loaders, [["train", None]])
    check_all(env, session, phase, tool)
    compare.check_loader(env.tap, tool, 2)
    workers = list(phase.truth.iterators().values())[0]["workers"]
    batches = {w["pid"]: w["batches"] for w in tool.summary["workers"]}
    env.tap.same([batches.get(pid) for pid in workers], [30, 10], "batches of each shard")


def two(env, which):
    """Training and validation with loaders of their own."""
    loaders = {"train": {"num_workers": 2, "n": 80, "persistent_workers": True, "work": work()},
               "val": {"num_workers": 1, "n": 24, "persistent_workers": True, "work": work()}}
    session, phase, tool = watch(env, which, loaders, [["train", None], ["val", None]] * 3)
    check_all(env, session, phase, tool)
    truth, wanted = phase.truth, []
    for name, options in loaders.items():
        wanted.append((options["num_workers"], sum(e["loader"] == name for e in truth.nexts)))
    got = [(x["num_workers"], x["getnext"]["count"]) for x in tool.summary["loaders"]]
    env.tap.same(sorted(got, key=str), sorted(wanted, key=str), "loaders told apart")


def threaded(env, which):
    """The loader is iterated by a thread that is not the main one."""
    loaders = {"train": {"num_workers": 2, "n": 120, "work": work()}}
    session, phase, tool = watch(env, which, loaders, [["train", None]], thread=True)
    check_all(env, session, phase, tool)
    env.tap.check(tool.summary["main"]["tid"] != session.pid, "not the main thread")


def broken(env, which):
    """The second epoch is left in the middle."""
    loaders = {"train": {"num_workers": 2, "n": 80, "work": work()}}
    session, phase, tool = watch(env, which, loaders,
                                 [["train", None], ["train", 5], ["train", None]])
    check_all(env, session, phase, tool)


def raising(env, which):
    """A worker raises; the trainer gets it from GetNext and goes on with another epoch."""
    loaders = {"train": {"num_workers": 2, "n": 80, "work": {**work(), "fail_at": 41}},
               "next": {"num_workers": 2, "n": 40, "work": work()}}
    session, phase, tool = watch(env, which, loaders, [["train", None], ["next", None]])
    env.tap.check(any("ValueError" in e for e in phase.result["errors"]), "the job saw the error",
                  phase.result)
    check_all(env, session, phase, tool)


def started_by(context):
    def run(env, which):
        """Workers that are no forks of the trainer."""
        loaders = {"train": {"num_workers": 2, "n": 120, "multiprocessing_context": context,
                             "work": work()}}
        session, phase, tool = watch(env, which, loaders, [["train", None]])
        check_all(env, session, phase, tool)
        compare.check_loader(env.tap, tool, 2)
    return run


def pinned(env, which):
    """A thread between the workers and GetNext."""
    session = env.new_session(env.python if which == "wheel" else None)
    try:
        loaders = {"train": {"num_workers": 2, "n": 200, "pin_memory": True, "work": work()}}
        with session.phase("plan", loaders=loaders, epochs=[["train", None]]) as phase:
            tool = env.start(session.pid)
            phase.go()
            phase.wait()
            tool.finish(signal.SIGINT)
            tool.need_summary()
        env.tap.same(phase.result["errors"], [], "the job runs")
        check_all(env, session, phase, tool)
        env.tap.same([(x["num_workers"], x["pin_memory"]) for x in tool.summary["loaders"]],
                     [(2, True)], "pin_memory is seen")
    finally:
        session.close(kill=True)


def register(which, function, name):
    @group(f"shapes {which} {name}")
    def run(env):
        function(env, which)


for _function in (persistent, fresh, stream, two, threaded, broken, raising, pinned):
    register("wheel", _function, _function.__name__)
register("wheel", started_by("spawn"), "spawned")
register("wheel", started_by("forkserver"), "forkserver")
for _function in (persistent, fresh, stream):
    register("debian", _function, _function.__name__)
