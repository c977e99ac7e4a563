# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One observation against the job's truth. Tolerances are those the project promises."""
import bisect
import statistics

import harness
from truth import cpu_in, overlap

# Truth is taken in Python around the call, the tool's time inside it: an end so close to an edge of
# the window may fall on either side of it.
EDGE_NS = 300_000
# The tool's time begins where the interpreter calls __next__, truth's in its first line of Python:
# some microseconds later, unless the thread loses its CPU just there.
EARLY_NS = 20_000_000
STATES = "run runq disk fault fs net lock gil pipe sleep idle other".split()


def began(e, start):
    """Is `start` where the tool saw the job's call e begin?"""
    return e["s"] - EARLY_NS <= start <= e["s1"]


def window(tool):
    return tool.summary["window"]["start_ns"], tool.summary["window"]["end_ns"]


def loader_sum(tool, *path):
    total = 0
    for loader in tool.summary["loaders"]:
        value = loader
        for key in path:
            value = value[key]
        total += value or 0
    return total


def calls(truth, start, end, tid=None):
    """(those that surely count, those that may): GetNext calls that ended in the window. A call
    that was running when the window opened may have begun before there was a probe."""
    sure, perhaps = [], []
    for e in truth.nexts:
        if tid and e["tid"] != tid or e["t"] < start - EDGE_NS or e["t1"] > end + EDGE_NS:
            continue
        inside = start + EDGE_NS <= e["t1"] and e["t"] <= end - EDGE_NS
        (sure if inside and e["s"] > start - EDGE_NS else perhaps).append(e)
    return sure, perhaps


def scopes(tool):
    """GetNext events that ended in the window: [(start, end), ...] in order of end."""
    start, end = window(tool)
    found = [(int(e["start"]), int(e["ts"])) for e in tool.events()
             if e["kind"] == "SCOPE" and e["getnext"] == "1" and e["outer"] == "1"]
    return sorted((s, t) for s, t in found if start <= t <= end)


def check_count(tap, tool, truth):
    start, end = window(tool)
    sure, perhaps = calls(truth, start, end)
    count = loader_sum(tool, "getnext", "count")
    return tap.check(len(sure) <= count <= len(sure) + len(perhaps) and sure,
                     f"GetNext count exact ({len(sure)})",
                     f"summary {count}, truth {len(sure)} and {len(perhaps)} at the edges")


def check_durations(tap, tool, truth):
    """Each call's duration, one event for one call; most of them as Python around the call has them.
    Python's own way between the call and the edge of the scope is not the tool's error: on a busy
    machine the thread may lose its CPU there."""
    start, end = window(tool)
    sure, perhaps = calls(truth, start, end)
    events = sorted(scopes(tool))
    begins = [s for s, _ in events]
    used, close, strict, worst, unpaired = set(), 0, 0, 0, []
    # counted at once, but its event is kept back until the thread has left the CPU or the next
    # scope begins: for the last one that may be after the window
    last = max((e for e in sure + perhaps), key=lambda e: e["s"], default=None)
    for e in sure:
        at = bisect.bisect_right(begins, e["s1"]) - 1
        if at < 0 or not began(e, begins[at]) or events[at][1] < e["t1"] or at in used:
            if e is not last:
                unpaired.append((f"{(e['s'] - start) / 1e6:.2f} ms after the window's start", e))
            continue
        used.add(at)
        least, most, got = e["t1"] - e["s1"], e["t"] - e["s"], events[at][1] - events[at][0]
        slack = max(0.01 * most, 60_000)
        error = max(least - got, got - most, 0)
        close += error <= slack
        strict += abs(most - got) <= slack
        worst = max(worst, error)
    extra = len(events) - len(used)
    tap.check(sure and not unpaired and extra <= len(perhaps), "one event for each GetNext call",
              f"{len(unpaired)} calls without an event, {extra} events without a call, "
              f"{len(perhaps)} calls at the edges", unpaired[:3])
    tap.check(sure and close >= 0.95 * len(sure), "95 % of durations within 1 % or 60 us",
              f"{close} of {len(sure)}, worst {worst / 1e3:.0f} us")
    tap.note(f"as Python around the call has them: {strict} of {len(sure)} durations within 1 % or 60 us")
    # torch 1.13's exit operator is seen well before Python is out of the scope; so is any exit where
    # no switch of a thread is seen; emulated, Python's own way takes longer than that
    capture = tool.summary["tool"]["capture"]
    if capture["scopes"] == "pair A" and capture["clocks"] and harness.PATIENCE == 1:
        tap.check(strict >= 0.95 * len(sure) - 2, "95 % of durations as Python has them", strict,
                  len(sure))


def check_exposed(tap, tool, truth, slack=0.01):
    start, end = window(tool)
    tid = truth.main_tid()
    mine = [e for e in truth.nexts if e["tid"] == tid]
    inner = [{"s": e["s1"], "t": e["t1"]} for e in mine]
    least, most = (overlap(x, start, end) / (end - start) for x in (inner, mine))
    got = tool.summary["verdict"]["exposed_wait_ratio"]
    tap.check(got is not None and least - slack <= got <= most + slack,
              f"exposed wait within {slack:g}", f"got {got}, truth {least:.4f} to {most:.4f}")
    tap.same(tool.summary["main"]["tid"], tid, "training thread")


def check_loader(tap, tool, num_workers, iterator=None):
    """The only loader's class, number of workers, pinning."""
    loaders = tool.summary["loaders"]
    if not tap.check(len(loaders) == 1, "one loader", [
            (x["id"], x["iterator_type"], x["num_workers"]) for x in loaders]):
        return
    kind = "_MultiProcessingDataLoaderIter" if num_workers else "_SingleProcessDataLoaderIter"
    tap.same(loaders[0]["iterator_type"], iterator or kind, "iterator class")
    tap.same(loaders[0]["num_workers"], num_workers, "number of workers")
    # without workers nothing shows whether the training thread pins
    tap.same(loaders[0]["pin_memory"], False if num_workers else None, "no pin_memory")


def check_figures(tap, tool, truth):
    """What the summary says of the only loader's calls, and where the training thread's time went."""
    start, end = window(tool)
    sure, _ = calls(truth, start, end)
    figures = tool.summary["loaders"][0]["getnext"]

    def bounds(value):
        return (value([(e["t1"] - e["s1"]) / 1e3 for e in sure]),
                value([(e["t"] - e["s"]) / 1e3 for e in sure]))
    for key, value in (("median_us", statistics.median), ("max_us", max), ("total_us", sum)):
        least, most = bounds(value)
        tap.check(0.97 * least - 100 <= figures[key] <= 1.03 * most + 100, f"GetNext {key}",
                  f"{figures[key]}, truth {least:.0f} to {most:.0f}")
    main = tool.summary["main"]
    inside, outside = (sum(main[k].values()) * 1e3 / (end - start) for k in ("inside", "outside"))
    tap.near(inside + outside, 1, 0.01, "training thread's states add up to the window")
    tap.near(inside, tool.summary["verdict"]["exposed_wait_ratio"], 0.01,
             "its states inside GetNext add up to the exposed wait")


TOP = "schema tool target window verdict loaders workers main stages block_io system phases overhead loss"
VERDICT = ("bottleneck exposed_wait_ratio startup_ratio severity cause where confidence text evidence "
           "advice candidates")
LOADER = ("id iterator_type num_workers pin_memory prefetch inits iterators iterator_init getnext "
          "batch_time batch_size queue")
GETNEXT = ("count total_us median_us p95_us p99_us max_us blocked_us handover_us cpu_us runq_us "
           "outliers")
WORKER = ("pid loader born_ns died_ns exit batches produce states affinity_cpus native_threads_max "
          "read_bytes major_faults cpu_user_us cpu_system_us")


def check_contract(tap, tool):
    """The fields that readers of the summary rely on."""
    summary, absent = tool.summary, []
    places = [("", summary, TOP), ("verdict", summary["verdict"], VERDICT)]
    for loader in summary["loaders"]:
        places += [("loader", loader, LOADER), ("getnext", loader["getnext"], GETNEXT)]
    for worker in summary["workers"]:
        places += [("worker", worker, WORKER)]
        if worker["states"] is not None:
            places += [("states", worker["states"], " ".join(s + "_us" for s in STATES))]
    for name, place, keys in places:
        absent += [f"{name}.{key}" for key in keys.split() if key not in place]
    tap.check(not absent and summary["schema"] == "dlprof.summary/1", "fields of the contract", absent)


# ---- which worker made which batch -----------------------------------------------------------
def worker_sends(tool, trainer):
    """{inode of a result pipe: {batch index: [(time, worker)]}}."""
    pipes = {}
    for e in tool.events():
        if e["kind"] == "MSG" and e["dir"] == "send" and e["type"] == "index" \
                and int(e["tgid"]) != trainer:
            batches = pipes.setdefault(int(e["inode"]), {})
            batches.setdefault(int(e["idx"]), []).append((int(e["ts"]), int(e["tgid"])))
    return pipes


def check_mapping(tap, tool, truth, trainer, since=None):
    """Who sent each batch that was delivered in the window; since: only batches made later."""
    start, end = window(tool)
    since = since or start
    iterators, pipes = truth.iterators(), worker_sends(tool, trainer)
    made = {}
    for f in truth.fetches:
        made.setdefault(f["pid"], []).append(f)
    wrong, missing, right = [], [], 0
    for e in truth.nexts:
        if e["pid"] is None or e["pid"] == trainer or not start <= e["s"] <= e["t"] <= end:
            continue
        workers = set(iterators[e["it"]]["workers"])
        sends = [send for batches in pipes.values()
                 for send in batches.get(e["idx"], ())
                 if since <= send[0] <= e["t"]
                 and workers & {pid for others in batches.values() for _, pid in others}]
        if not sends:
            # made before anybody watched?
            fetches = [f for f in made.get(e["pid"], ()) if f["t"] < e["t"]]
            if fetches and any(f["t"] < since + EDGE_NS for f in fetches[-8:]):
                continue
            missing.append(e)
            continue
        if max(sends)[1] == e["pid"]:
            right += 1
        else:
            wrong.append((e, sends))
    return tap.check(right and not wrong and not missing, "batch to worker exact (messages)",
                     f"{right} right, {len(wrong)} wrong, {len(missing)} missing", wrong[:2],
                     missing[:2])


def check_outliers(tap, tool, truth, trainer):
    """The summary's longest calls: time, batch and worker as truth says."""
    start, _ = window(tool)
    entries = [o for loader in tool.summary["loaders"] for o in loader["getnext"]["outliers"]]
    wrong, named = [], 0
    fetched = {}
    for f in truth.fetches:
        fetched.setdefault(f["pid"], []).append(f["t"])
    for o in entries:
        # how exact single calls are is another check's; a thread that gives the interpreter's lock
        # away within microseconds of a call's end may be taken to be in it still (1 in some 500)
        near = [e for e in truth.nexts if e["s"] - EARLY_NS <= o["start_ns"] <= e["t"] and
                e["t1"] <= o["end_ns"] <= e["t"] + 20e6]
        if not near:
            wrong.append((o, "no such call"))
            continue
        e = near[0]
        if e["pid"] in (None, trainer):
            # ended its epoch, failed, or was made by the training process itself
            if o["worker_pid"] is not None:
                wrong.append((o, e))
        elif o["worker_pid"] is None:
            # only a batch that was sent before the window may be of unknown origin
            if min(fetched[e["pid"]][-1], max([t for t in fetched[e["pid"]] if t < e["t"]],
                                              default=0)) > start + 1_000_000_000:
                wrong.append((o, e))
        else:
            named += 1
            if (o["worker_pid"], o["batch"]) != (e["pid"], e["idx"]):
                wrong.append((o, e))
    return tap.check(named and not wrong, "batch to worker exact (outliers)",
                     f"{named} of {len(entries)} named, {len(wrong)} wrong", wrong[:3])


def check_batches(tap, tool, truth, slack_ns=30_000_000):
    """workers[].batches = results that each sent in the window."""
    start, end = window(tool)
    wrong, seen = [], 0
    for w in tool.summary["workers"]:
        ends = [f["t"] for f in truth.fetches if f["pid"] == w["pid"] and not f["stop"]]
        if not ends:
            continue
        seen += 1
        # the feeder thread sends a moment after the batch is made; not in an iterator given up
        last = min(end, w["died_ns"] or end) - slack_ns
        least = sum(start + slack_ns <= t <= last for t in ends)
        most = sum(start - slack_ns <= t <= end for t in ends)
        if w["batches"] is None or not least <= w["batches"] <= most:
            wrong.append(f"worker {w['pid']}: {w['batches']}, truth {least} to {most}")
    expected = {f["pid"] for f in truth.fetches if start + slack_ns <= f["t"] <= end - slack_ns}
    absent = expected - {w["pid"] for w in tool.summary["workers"]}
    tap.check(seen and not wrong, "batches of each worker", *wrong[:5])
    tap.check(not absent, "every worker is listed", absent)


def check_produce(tap, tool, truth):
    """Production time of a batch, against the time of the fetch (pickling comes on top)."""
    start, end = window(tool)
    wrong, seen = [], 0
    for w in tool.summary["workers"]:
        times = [(f["t"] - f["s"]) / 1e3 for f in truth.fetches
                 if f["pid"] == w["pid"] and f["s"] >= start and f["t"] <= end]
        if len(times) < 10 or w["produce"]["median_us"] is None:
            continue
        seen += 1
        # the edges of the window cut off some: not the same sample exactly
        part = statistics.quantiles(times, n=20)
        if not 0.95 * part[6] - 500 <= w["produce"]["median_us"] <= 1.1 * part[12] + 1500:
            wrong.append(f"worker {w['pid']}: {w['produce']['median_us']} us, truth "
                         f"{part[6]:.0f} to {part[12]:.0f} us")
    tap.check(seen and not wrong, "production times", *wrong[:5])


# ---- clocks ----------------------------------------------------------------------------------
def states_of(worker):
    return {s: worker["states"][s + "_us"] * 1e3 for s in STATES} if worker["states"] else None


def lifetime(worker, start, end):
    return max(start, worker["born_ns"] or start), min(end, worker["died_ns"] or end)


def check_sums(tap, tool, truth):
    """For every worker the states add up to its lifetime in the window."""
    start, end = window(tool)
    wrong, seen = [], 0
    for w in tool.summary["workers"]:
        states = states_of(w)
        born, died = lifetime(w, start, end)
        if states is None:
            # born when the last reading was just being taken: unknown, not 0
            if died - born < 20e6:
                continue
            wrong.append(f"worker {w['pid']} has no states; born {(born - start) / 1e6:.1f} ms "
                         f"after the window's start, {(died - born) / 1e6:.1f} ms old, {w}")
            continue
        seen += 1
        # clocks are read some milliseconds before the window opens: as much as 1 % of half a second
        if abs(sum(states.values()) - (died - born)) > max(0.01 * (died - born), 5e6):
            wrong.append(f"worker {w['pid']}: {sum(states.values()) / 1e6:.1f} ms of "
                         f"{(died - born) / 1e6:.1f} ms")
    tap.check(seen and not wrong, "states add up to the lifetime within 1 %", *wrong[:5])


def check_run(tap, tool, truth):
    """run = CPU time of the worker's main thread."""
    start, end = window(tool)
    wrong, seen = [], 0
    for w in tool.summary["workers"]:
        born, died = lifetime(w, start, end)
        bounds = cpu_in(truth, w["pid"], born, died)
        if bounds is None or not w["states"]:
            continue
        low, high = bounds
        run = w["states"]["run_us"] * 1e3
        # the kernel takes what the hypervisor stole out of a thread's CPU time
        slack = max(0.02 * high, 5e6) + tool.stolen_ns
        # births and deaths in the window leave wide bounds: they prove nothing
        if high - low > 0.5 * max(high, 1):
            continue
        seen += 1
        if not low - slack <= run <= high + slack:
            wrong.append(f"worker {w['pid']}: run {run / 1e6:.1f} ms, truth {low / 1e6:.1f} to "
                         f"{high / 1e6:.1f} ms; cpu_us {w.get('cpu_us')}")
    tap.check(seen and not wrong, "run is the thread's CPU time within 2 % or 5 ms", *wrong[:5])


def check_other(tap, tool):
    start, end = window(tool)
    wrong = []
    for w in tool.summary["workers"]:
        states = states_of(w)
        if states and states["other"] > 0.05 * sum(states.values()):
            wrong.append(f"worker {w['pid']}: other is "
                         f"{states['other'] / sum(states.values()):.1%}")
    tap.check(tool.summary["workers"] and not wrong, "other below 5 %", *wrong[:5])


def check_clocks(tap, tool, truth):
    check_sums(tap, tool, truth)
    check_run(tap, tool, truth)
    check_other(tap, tool)


def check_complete(tap, tool):
    tap.same((tool.summary["loss"]["complete"], tool.summary["loss"]["events_lost"]), (True, 0),
             "nothing lost", tool.summary["loss"])


# ---- iterators and workers, when the window holds all of them --------------------------------
def check_iterators(tap, tool, truth):
    """Every iterator object with its workers and its number of calls; window over all of them."""
    wanted = []
    for it, facts in truth.iterators().items():
        count = sum(e["it"] == it for e in truth.nexts)
        wanted.append((sorted(facts["workers"]), count))
    got = [(sorted(i["workers"]), i["getnext_count"]) for loader in tool.summary["loaders"]
           for i in loader["iterators"]]
    tap.same(sorted(got), sorted(wanted), "iterators, their workers and their calls")


def check_births(tap, tool, truth, spawned=False):
    """Workers born in iter(), dead before the next one or the end; normal exits."""
    start, end = window(tool)
    births = {pid: facts for facts in truth.iterators().values() for pid in facts["workers"]}
    wrong = []
    for w in tool.summary["workers"]:
        facts = births.pop(w["pid"], None)
        if facts is None:
            wrong.append(f"{w['pid']} is no worker")
        elif not w["born_ns"] or not facts["s"] <= w["born_ns"] <= facts["t"]:
            wrong.append(f"{w['pid']} born {w['born_ns']}, iter() {facts['s']} to {facts['t']}")
        elif not w["died_ns"] or w["exit"] != "exit 0":
            wrong.append(f"{w['pid']} died {w['died_ns']}, {w['exit']}")
        elif w["died_ns"] < max([f["t"] for f in truth.fetches if f["pid"] == w["pid"]],
                                default=0):
            wrong.append(f"{w['pid']} died before its last batch")
    tap.check(not wrong and not births, "births and deaths of the workers", *wrong[:5],
              f"not listed: {sorted(births)}")
