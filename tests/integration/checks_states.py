# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""State clocks: workers that wait in known ways, each timed by the worker itself."""
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
    compare.check_clocks(tap, tool, phase.truth)
    compare.check_complete(tap, tool)


@group("states wheel")
def wheel(env):
    waits(env, "wheel")


@group("states debian")
def debian(env):
    waits(env, "debian")
