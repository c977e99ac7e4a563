# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a scenario's summary must say, and how it compares with the job's own record."""
import collections
import re

from harness import INTERVAL
from rules import production, texts, values
from truth import cpu_in, overlap

SEVERITIES = ["none", "low", "moderate", "high"]
SEVERITY_FROM = (0.05, 0.1, 0.2)
CONFIDENCES = ("high", "medium")
WORD = re.compile(r"[a-z_]+")
LINE_NS = 60_000_000  # a line tells its end to a tenth of a second


def facts(truth, start, end):
    """What the job's record says about a window: the calls within it (batches: those that gave one),
    and the training thread's share of time in GetNext (inner: the loader's own part of it, which on a
    CPU that is not its own can be much less) and in iter()."""
    tids = collections.Counter(e["tid"] for e in truth.nexts)
    main = tids.most_common(1)[0][0] if tids else None
    inside = [e for e in truth.nexts if e["s"] >= start and e["t"] <= end]
    wall = end - start
    return {"calls": inside, "batches": [e for e in inside if not e["stop"]],
            "exposed": overlap([e for e in truth.nexts if e["tid"] == main], start, end) / wall,
            "inner": overlap([{"s": e["s1"], "t": e["t1"]} for e in truth.nexts
                              if e["tid"] == main], start, end) / wall,
            "startup": overlap([e for e in truth.iters if e["tid"] == main], start, end) / wall}


def window(summary):
    return summary["window"]["start_ns"], summary["window"]["end_ns"]


# ---- what it says ----------------------------------------------------------------------------
def named(scenario, verdict):
    """What is wrong with the bottleneck and the cause."""
    bottleneck, cause = verdict["bottleneck"], verdict["cause"]
    if bottleneck in scenario.bottlenecks and cause in scenario.causes:
        return None
    if bottleneck == "data_loading" and cause in scenario.forbidden:
        return "a cause that is ruled out here"
    return "not what was expected"


def check_verdict(tap, scenario, summary):
    verdict, wrong = summary["verdict"], []
    wanted = f"{' or '.join(scenario.bottlenecks)}: {' or '.join(scenario.causes)}"
    if bad := named(scenario, verdict):
        wrong.append(f"{verdict['bottleneck']}: {verdict['cause']}, {bad}: {wanted}")
    if verdict["confidence"] not in CONFIDENCES:
        wrong.append(f"confidence {verdict['confidence']}")
    if not re.search(r"\d", verdict["text"] or ""):
        wrong.append(f"no number in {verdict['text']!r}")
    if not verdict["evidence"]:
        wrong.append("no evidence")
    if verdict["cause"] == "none" and summary["workers"] and not any(
            re.search(r"\bidle\b|\bto do\b", text) and re.search(r"\d.*%", text)
            for text in texts(summary, "text", "evidence")):
        wrong.append("the workers' idle share is not named")
    tap.check(not wrong, f"verdict ({wanted})", *wrong, verdict["text"], states(summary))


def states(summary):
    """For a person: where the workers' production time went."""
    total = production(summary)
    sum_us = sum(total.values()) or 1
    return "production: " + ", ".join(f"{state} {us / sum_us:.0%}" for state, us in
                                      sorted(total.items(), key=lambda x: -x[1]) if us > 0.005 * sum_us)


def check_candidates(tap, summary):
    verdict = summary["verdict"]
    candidates = verdict["candidates"]
    shares, wrong = [c["share"] for c in candidates], []
    known = [s for s in shares if s is not None]
    if sum(known) > 1.0001 or any(s < 0 for s in known):
        wrong.append("shares are no parts of one whole")
    if known != sorted(known, reverse=True):
        wrong.append("not in order")
    if verdict["bottleneck"] == "data_loading" and not candidates:
        wrong.append("none")
    if verdict["bottleneck"] in ("data_loading", "stalled") and candidates and \
            candidates[0]["cause"] != verdict["cause"]:
        wrong.append(f"the first is not the verdict's cause, {verdict['cause']}")
    tap.check(not wrong, "candidates", *wrong, candidates)


def check_rules(tap, scenario, summary):
    if scenario.rules:
        wrong = [said for said in (rule(summary) for rule in scenario.rules) if said]
        tap.check(not wrong, "figures", *wrong)


# ---- what it measured ------------------------------------------------------------------------
def check_job(tap, scenario, truth, summary):
    """Is the trouble there at all? By the job's own record, so not the tool's doing."""
    if scenario.exposed is None:
        return
    found = facts(truth, *window(summary))
    least, most = scenario.exposed
    tap.check(least <= found["exposed"] + found["startup"] <= most, "the job is as intended",
              f"in GetNext {found['exposed']:.3f}, in iter() {found['startup']:.3f} of the time, "
              f"wanted {least} to {most}")


def middle(calls):
    """(least, most) us that the median may be: by Python's time around the call and by that of the
    loader's own part, and with one call more or less at the edges of the window."""
    inner, outer = (sorted((e[t] - e[s]) / 1e3 for e in calls) for s, t in (("s1", "t1"), ("s", "t")))
    low, high = max(0, (len(calls) - 1) // 2 - 1), min(len(calls) - 1, len(calls) // 2 + 1)
    return inner[low], outer[high]


def median_wrong(medians, found):
    """One loader: within 3 % or 100 us. Several: the calls of all lie between theirs."""
    ranges = [middle(found[k]) for k in ("calls", "batches") if len(found[k]) >= 3]
    for least, most in ranges:
        if any(min(0.97 * least, least - 100) <= m <= max(1.03 * most, most + 100) for m in medians):
            return None
        if len(medians) > 1 and min(medians) <= most and least <= max(medians):
            return None
    if not ranges:
        return None
    least, most = ranges[-1]
    return f"GetNext median {medians} us, truth {least:.0f} to {most:.0f} us"


def exposed_wrong(verdict, found):
    """What is wrong with the exposed wait or the severity."""
    ratio, least, most = verdict["exposed_wait_ratio"], found["inner"], found["exposed"]
    if ratio is None or not any(least + more - 0.03 <= ratio <= most + more + 0.03
                                for more in (0, found["startup"])):
        return (f"exposed wait {ratio}, truth {least:.3f} to {most:.3f}, and {found['startup']:.3f} "
                "in iter()")
    # start-up may make it worse
    least = sum(ratio >= bound for bound in SEVERITY_FROM)
    if verdict["severity"] not in SEVERITIES[least:]:
        return f"severity {verdict['severity']} with an exposed wait of {ratio:.3f}"
    return None


def check_accuracy(tap, summary, truth):
    start, end = window(summary)
    found, wrong = facts(truth, start, end), []
    count = sum(values(summary, "loaders[].getnext.count"))
    if not len(found["batches"]) - 1 <= count <= len(found["calls"]) + 1:
        wrong.append(f"GetNext count {count}, truth {len(found['batches'])} batches in "
                     f"{len(found['calls'])} calls")
    wrong += filter(None, (median_wrong(values(summary, "loaders[].getnext.median_us"), found),
                           exposed_wrong(summary["verdict"], found)))
    tap.check(not wrong, "accuracy of GetNext", *wrong)


def check_workers(tap, summary, truth):
    """CPU time of each worker's main thread, and the sum of its states."""
    start, end = window(summary)
    listed, wrong = {w["pid"]: w for w in summary["workers"]}, []
    fetched = {}
    for e in truth.fetches:
        fetched.setdefault(e["pid"], []).extend((e["s"], e["t"]))
    makers = {e["pid"] for e in truth.fetches} - {summary["target"]["pid"]}
    for pid in makers:
        times = fetched[pid]
        if min(max(times), end) - max(min(times), start) < 1e9:
            continue
        low, high = (ns / 1e3 for ns in cpu_in(truth, pid, start, min(end, max(times))))
        # after its last batch the record only bounds it
        high += max(0, end - max(times)) / 1e3
        run = ((listed.get(pid) or {}).get("states") or {}).get("run_us")
        slack = max(0.05 * high, 20_000)
        if run is None or not low - slack <= run <= high + slack:
            wrong.append(f"worker {pid}: run {run} us, truth {low:.0f} to {high:.0f}")
    for w in summary["workers"]:
        lived_ns = min(w["died_ns"] or end, end) - max(w["born_ns"] or start, start)
        if w["states"]:
            total_ns = sum(v or 0 for v in w["states"].values()) * 1e3
            if abs(total_ns - lived_ns) > 0.01 * lived_ns + 2e6:
                wrong.append(f"worker {w['pid']}: states sum to {total_ns / 1e9:.3f} s of "
                             f"{lived_ns / 1e9:.3f} s")
    tap.check(not wrong, "accuracy of the workers", *wrong[:6])


def check_other(tap, summary):
    total = production(summary)
    other, sum_us = total.get("other", 0), sum(total.values())
    tap.check(other <= 0.05 * sum_us, "other below 5 %", states(summary))


# ---- the lines per interval ------------------------------------------------------------------
def interval_lines(observation):
    """[(start, end, text)] in ns."""
    lines, last = [], observation.marks["attached"]
    for text in observation.lines:
        if INTERVAL.match(text):
            end = observation.marks["attached"] + int(float(text.split()[0]) * 1e9)
            lines.append((last, end, text))
            last = end
    return lines


def check_timeline(tap, scenario, observation):
    """Each interval that lies within a stretch names the stretch's cause and no other's."""
    causes, marks = {cause for cause, _, _ in scenario.timeline}, observation.marks
    for cause, start, end in scenario.timeline:
        inside = [text for s, e, text in interval_lines(observation)
                  if s >= marks[start] - LINE_NS and e <= marks[end] + LINE_NS]
        wrong = [text for text in inside if causes & set(WORD.findall(text)) != {cause}]
        tap.check(inside and not wrong, f"lines say {cause} from {start} to {end}",
                  f"{len(wrong)} of {len(inside)} do not", *wrong)


def check(tap, scenario, observation):
    summary, truth = observation.summary, observation.truth
    check_job(tap, scenario, truth, summary)
    check_verdict(tap, scenario, summary)
    check_candidates(tap, summary)
    check_rules(tap, scenario, summary)
    check_accuracy(tap, summary, truth)
    check_workers(tap, summary, truth)
    check_other(tap, summary)
    check_timeline(tap, scenario, observation)
