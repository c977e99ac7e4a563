# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stages: the job's own record_function labels, in its workers and in its training loop."""
import compare
from harness import group
from truth import overlap

SECONDS = 4
# the scopes directly inside
INSIDE = {"item": ("item: read", "item: decode"), "item: decode": ("item: inner",),
          "train": ("train: wait",)}
LABELS = {"workers": ["collate", "item", "item: decode", "item: inner", "item: read"],
          "main": ["train", "train: wait"]}
LOADER = {"num_workers": 2, "n": 100_000, "work": {"kind": "stages", "ms": 1.0}}


# a scope's end may come late by a time slice, see compare.check_durations
LATE_NS = 30_000_000


def counted(truth, start, end):
    """([scopes that surely count], [and those that may]): scopes that ended in the window. One that
    had begun before there was a probe is not seen; on old torch none is before the first GetNext."""
    first = min((e["s"] for e in truth.nexts if e["s"] > start), default=end)
    most = [e for e in truth.stages if start - LATE_NS < e["t"] and e["t1"] < end + LATE_NS]
    return [e for e in most if e["s"] > first and e["t"] < end - LATE_NS], most


def seen_scopes(tool):
    """Scope events that ended in the window: {s, t, in: part of it in the window, own: the part of
    that outside of scopes directly inside, pid, label}."""
    start, end = compare.window(tool)
    texts, threads = {}, {}
    for e in tool.events():
        if e["kind"] == "LABEL":
            texts[e["label"]] = e["text"]
        elif e["kind"] == "SCOPE" and start <= int(e["ts"]) <= end:
            threads.setdefault(e["tid"], []).append(
                {"s": int(e["start"]), "t": int(e["ts"]), "pid": int(e["tgid"]),
                 "label": texts.get(e["label"]), "depth": int(e["depth"])})
    for events in threads.values():
        events.sort(key=lambda e: (e["s"], e["depth"]))
        around = []
        for e in events:
            e["in"] = e["own"] = e["t"] - max(e["s"], start)
            while around and around[-1]["depth"] >= e["depth"]:
                around.pop()
            if around and e["t"] <= around[-1]["t"]:
                around[-1]["own"] -= e["in"]
            around.append(e)
    return [e for events in threads.values() for e in events]


def excess(events, sure):
    """(unmatched, events far from the truth, nanoseconds by which they are too long): each scope
    has one event that begins at its begin."""
    by_pid = {}
    for e in events:
        by_pid.setdefault(e["pid"], []).append(e)
    unmatched = far = over = 0
    for e in sure:
        found = [x for x in by_pid.get(e["pid"], ()) if e["s"] <= x["s"] <= e["s1"]]
        if len(found) != 1:
            unmatched += 1
            continue
        got, slack = found[0]["t"] - found[0]["s"], max(0.01 * (e["t"] - e["s"]), 60_000)
        far += not e["t1"] - e["s1"] - slack <= got <= e["t"] - e["s"] + slack
        over += max(0, got - (e["t"] - e["s"]))
    return unmatched, far, over


def time_bounds(events, start, end):
    """(least, most) nanoseconds in the window: from inside the scopes' edges, from around them."""
    sure, most = events
    return overlap([{"s": e["s1"], "t": e["t1"]} for e in sure], start, end), overlap(most, start, end)


def check_stage(tap, tool, truth, seen, where, label, pid):
    start, end = compare.window(tool)
    both = counted(truth, start, end)

    def named(events, name):
        return [e for e in events if e["label"] == name and (e["pid"] == pid) == (where == "main")]
    name = f"{where}: {label}"
    found = [s for s in tool.summary["stages"] if s["label"] == label and s["where"] == where]
    if not tap.check(len(found) == 1, f"{name}: one stage", tool.summary["stages"]):
        return
    stage, (sure, most), events = found[0], [named(x, label) for x in both], named(seen, label)
    # against the events it was made from
    tap.same(stage["count"], len(events), f"{name}: counts its events")
    # where in a scope its own time lay is not known of the part before the window
    edge = sum(e["in"] for e in events if e["s"] < start) / 1e3
    for key, part, slack in (("total_us", "in", 1), ("exclusive_us", "own", 1 + edge)):
        want = sum(e[part] for e in events) / 1e3
        tap.near(stage[key], want, 0.001 * want + slack, f"{name}: {key} is what its events say")
    # and those against the job
    unmatched, far, over = excess(events, sure)
    tap.check(sure and not unmatched and len(events) <= len(most), f"{name}: an event for each of "
              f"{len(sure)} scopes", f"{unmatched} without, {len(events)} events, {len(most)} scopes")
    tap.check(far <= 0.05 * len(sure), f"{name}: 95 % of durations within 1 % or 60 us",
              f"{far} of {len(sure)} are not")
    low, high = time_bounds((sure, most), start, end)
    got = stage["total_us"] * 1e3
    tap.check(0.99 * low <= got <= 1.01 * high + over, f"{name}: total within 1 %",
              f"got {got / 1e6:.2f} ms, truth {low / 1e6:.2f} to {high / 1e6:.2f} ms")
    states = compare.states_of(stage)
    tap.near(sum(states.values()) / 1e3, stage["total_us"], 0.01 * stage["total_us"],
             f"{name}: states add up to it")
    longest = (max(e["t"] - e["s"] for e in most) + over) / 1e3
    tap.check(0 < stage["median_us"] <= stage["max_us"] <= 1.01 * longest,
              f"{name}: median and longest", f"{stage['median_us']} {stage['max_us']}, truth {longest}")
    if label.endswith(("read", "wait")):
        # on a busy machine it waits for a CPU after each sleep
        ratio = (states["sleep"] + states["runq"]) / 1e3 / stage["total_us"]
        tap.check(ratio >= 0.9 and states["sleep"] > states["run"], f"{name}: it sleeps", states)


def check_exclusive(tap, tool, truth, where, label, pid):
    """Against the job's own times. What the edges of scopes cost lies between inside and around."""
    start, end = compare.window(tool)

    def bounds(name):
        return time_bounds([[e for e in events if e["label"] == name and
                             (e["pid"] == pid) == (where == "main")]
                            for events in counted(truth, start, end)], start, end)
    low, high = bounds(label)
    slack = 0.02 * high
    for inside in INSIDE.get(label, ()):
        least, most = bounds(inside)
        low, high = low - most, high - least
    got = [s["exclusive_us"] * 1e3 for s in tool.summary["stages"]
           if s["label"] == label and s["where"] == where]
    tap.check(got and low - slack <= got[0] <= high + slack,
              f"{where}: {label}: exclusive time as the job measured",
              f"got {got[0] / 1e6:.2f} ms, truth {low / 1e6:.2f} to {high / 1e6:.2f} ms")


def check_order(tap, tool):
    own = [s["exclusive_us"] for s in tool.summary["stages"]]
    tap.same(own, sorted(own, reverse=True), "the largest exclusive time first")
    tap.check(not [s for s in tool.summary["stages"]
                   if s["label"] and s["label"].startswith("enumerate(DataLoader)")],
              "no GetNext among them")
    for where, key in (("workers", "share_of_production"), ("main", "share_of_wall")):
        shares = [s[key] for s in tool.summary["stages"] if s["where"] == where]
        tap.check(shares and None not in shares and 0 < sum(shares) <= 1.02,
                  f"{where}: {key} adds up to no more than all", shares)
    tap.check(any(line.startswith("Stages") for line in tool.lines) and
              any(line.startswith("  item") for line in tool.lines), "stages are on the screen")


def stages(env, which):
    tap, session = env.tap, env.session(which)
    with session.phase("steady", loader=LOADER, step={"stages": True}, warm=8) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    seen = seen_scopes(tool)
    for where, labels in LABELS.items():
        for label in labels:
            check_stage(tap, tool, phase.truth, seen, where, label, session.pid)
            check_exclusive(tap, tool, phase.truth, where, label, session.pid)
    check_order(tap, tool)
    tap.check(not any(s["sampled"] for s in tool.summary["stages"]), "none is sampled")
    compare.check_complete(tap, tool)
    waits = tool.summary["waits"]
    slept = sum(w["total_us"] for w in waits if w["where"] == "workers" and w["state"] == "sleep")
    window = compare.window(tool)
    low, _ = time_bounds([[e for e in events if e["label"] == "item: read"]
                          for events in counted(phase.truth, *window)], *window)
    tap.check(slept >= 0.9 * low / 1e3, "workers' waits: the sleeps are among them",
              f"{slept / 1e3:.0f} ms of {low / 1e6:.0f}", waits)


@group("stages wheel")
def wheel(env):
    stages(env, "wheel")


@group("stages debian")
def debian(env):
    stages(env, "debian")


@group("stages, chosen labels")
def chosen(env):
    tap, session = env.tap, env.session()
    with session.phase("steady", loader=LOADER, step={"stages": True}, warm=8) as phase:
        tool = env.observe(session.pid, "--labels", "item*", "--labels", "?rain", duration=2)
    got = sorted(s["label"] for s in tool.summary["stages"])
    tap.same(got, sorted([x for x in LABELS["workers"] if x != "collate"] + ["train"]),
             "only the labels asked for")
    compare.check_count(tap, tool, phase.truth)


@group("stages, very many scopes")
def many(env):
    """Sampled: what is sent stays little, what it says stays right."""
    tap, session = env.tap, env.session()
    loader = {"num_workers": 2, "n": 100_000, "work": {"kind": "many"}}
    with session.phase("steady", loader=loader, warm=8) as phase:
        tool = env.observe(session.pid, duration=SECONDS)
    start, end = compare.window(tool)
    truth = sum(e["n"] * overlap([e], start, end) / (e["t"] - e["s"]) for e in phase.truth.stages)
    stage = [s for s in tool.summary["stages"] if s["label"] == "many"]
    tap.check(stage and stage[0]["sampled"] and stage[0]["where"] == "workers", "sampled", stage)
    tap.near(stage and stage[0]["count"], truth, 0.05 * truth, "count within 5 %")
    sent = [e for e in tool.events() if e["kind"] == "SCOPE" and int(e["ts"]) > start + 2e9]
    tap.check(truth > 10_000 and len(sent) < 6_000 * (end - start - 2e9) / 1e9,
              "few events after the first seconds", f"{len(sent)}, scopes {truth:.0f}")
    compare.check_count(tap, tool, phase.truth)
