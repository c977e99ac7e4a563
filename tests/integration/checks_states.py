# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""State clocks: workers that wait in known ways, each timed by the worker itself."""
import os

import compare
from harness import Skip, group
from truth import overlap

SECONDS = 4
DIRECT_BYTES = 4 << 20  # of one timed wait, as in jobs.py
# how the worker waits: the state it must show in
KINDS = {"sleep": "sleep", "disk": "disk", "fault": "fault", "thread": "lock", "flock": "lock",
         "socket": "net"}


def waited(truth, pid, start, end):
    """Nanoseconds in the window that the worker spent waiting, on no CPU and for none."""
    total = busy = 0
    for e in truth.waits:
        part = overlap([e], start, end)
        if e["pid"] == pid and part:
            total += part
            busy += e["busy"] * part / (e["t"] - e["s"])
    return total - busy


def check_waits(tap, tool, truth, kinds):
    start, end = compare.window(tool)
    kind_of = {e["pid"]: e["kind"] for e in truth.waits}
    shown = set()
    for w in tool.summary["workers"]:
        kind = kind_of.get(w["pid"])
        if kind is None or not w["states"]:
            continue
        shown.add(kind)
        known, states = waited(truth, w["pid"], start, end), compare.states_of(w)
        state = KINDS[kind]
        lived = sum(states.values())
        text = " ".join(f"{s} {ns / 1e6:.0f}" for s, ns in states.items() if ns > 1e6)
        tap.check(known > 0.3 * (end - start) or kind in ("disk", "fault"),
                  f"{kind}: the worker mostly waits", f"{known / 1e6:.0f} ms; {text}")
        tap.check(states[state] >= 0.9 * known > 0, f"{kind}: 90 % of the time waited is {state}",
                  f"known {known / 1e6:.1f} ms; {text}")
        # and not more than was waited, beyond waits of the same state that were not timed
        most = 1.1 * known + 0.05 * lived
        tap.check(states[state] <= most or state == "lock", f"{kind}: no more {state} than that",
                  f"known {known / 1e6:.1f} ms; {text}")
        if kind in ("thread", "flock"):
            tap.check(states["gil"] <= 0.1 * lived, f"{kind}: not taken for the GIL", text)
    tap.same(sorted(shown), sorted(kinds), "every kind of worker is there")


def check_disk(tap, tool, truth):
    """Bytes and faults of the workers that read, and what the block devices were seen to do."""
    start, end = compare.window(tool)

    def done(kind, each):
        """(least, most) in the window, and who did it. What /proc tells is read some time before
        and after the window's edges."""
        mine = [e for e in truth.waits if e["kind"] == kind]
        whole = [each(e) for e in mine if start < e["s"] and e["t"] < end]
        return 0.9 * sum(whole), 1.1 * sum(whole) + 3 * max(whole), {e["pid"] for e in mine}
    disk = done("disk", lambda e: DIRECT_BYTES)
    faults = done("fault", lambda e: e["faults"])
    for kind, key, (least, most, pids) in (("disk", "read_bytes", disk),
                                           ("fault", "major_faults", faults)):
        got = [w[key] for w in tool.summary["workers"] if w["pid"] in pids]
        tap.check(got and None not in got and 0 < least <= sum(got) <= most, f"{kind}: {key}",
                  f"{got}, truth {least:.0f} to {most:.0f}")
    seen = sum(d["read_bytes"] for d in tool.summary["block_io"] or ())
    tap.check(seen >= disk[0] > 0, "block devices: bytes read", f"{seen}, truth {disk[0]:.0f}")
    tap.check(all(0 < d["latency"]["median_us"] <= d["latency"]["max_us"]
                  for d in tool.summary["block_io"] or () if d["reads"]), "block devices: latencies",
              tool.summary["block_io"])
    check_readers(tap, tool, disk)


def check_readers(tap, tool, disk):
    """Who read from which device: as the events say, and as much as the worker knows it read."""
    start, end = compare.window(tool)
    wanted, got, inflight = {}, {}, 0
    for e in tool.events():
        if e["kind"] == "BLOCK" and e["op"] == "0" and start <= int(e["ts"]) <= end:
            each = wanted.setdefault(int(e["tgid"]) or None, [0, 0, 0])
            for i, value in enumerate((1, int(e["bytes"]), int(e["ts"]) - int(e["queued"]))):
                each[i] += value
    for device in tool.summary["block_io"] or ():
        inflight += device["mean_depth"] * (end - start)
        for r in device["by_worker"]:
            each = got.setdefault(r["pid"], [0, 0, 0])
            for i, value in enumerate((r["reads"], r["read_bytes"], r["wait_us"] * 1e3)):
                each[i] += value
    tap.same({pid: x[:2] for pid, x in got.items()}, {pid: x[:2] for pid, x in wanted.items()},
             "block devices: who read how much")
    waited = sum(x[2] for x in wanted.values())
    tap.near(sum(x[2] for x in got.values()), waited, 1e-4 * waited, "block devices: how long they waited")
    tap.near(inflight, waited, 1e-3 * waited, "block devices: mean depth")
    least, most, pids = disk
    mine = sum(x[1] for pid, x in got.items() if pid in pids)
    tap.check(least <= mine <= most, "block devices: bytes of the worker that reads",
              f"{mine}, truth {least:.0f} to {most:.0f}")


def check_places(tap, tool, path):
    """What the long waits for the disk were on."""
    dev = os.stat(path).st_dev
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    types = {m[m.index("-") + 1] for m in mounts if m[2] == f"{os.major(dev)}:{os.minor(dev)}"}
    waits = [w for w in tool.summary["waits"] or () if w["where"] == "workers"]
    disk = [w for w in waits if w["state"] in ("disk", "fault") and w["filesystem"]]
    tap.check(disk and {w["filesystem"] for w in disk} <= types, "waits for the disk: file system",
              types, waits)
    tap.check(all(0 < w["max_us"] <= w["total_us"] for w in waits), "waits: longest and total", waits)


def waits(env, which):
    tap, session = env.tap, env.session(which)
    kinds, path = list(KINDS), None
    try:
        path = env.cold_file()
    except Skip as e:
        tap.skip(f"{tap.group}: disk and fault", e)
        kinds = [k for k in kinds if k not in ("disk", "fault")]
        path = env.folder + "/waits"
    loader = {"num_workers": len(kinds), "n": 100_000, "batch": 1,
              "work": {"kind": "waits", "ms": 10, "path": path, "kinds": kinds}}
    with session.phase("steady", loader=loader, warm=20) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    check_waits(tap, tool, phase.truth, kinds)
    if "disk" in kinds:
        check_disk(tap, tool, phase.truth)
        check_places(tap, tool, path)
    compare.check_clocks(tap, tool, phase.truth)
    compare.check_complete(tap, tool)


@group("states wheel")
def wheel(env):
    waits(env, "wheel")


@group("states debian")
def debian(env):
    waits(env, "debian")
