# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rules on a summary: each maker returns a function of the summary that returns what is wrong, or
None."""
import operator
import re

COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
           "==": operator.eq, "~": lambda a, b: abs(a - b) <= 0.1 * b}
FOLD = {"max": max, "min": min, "sum": sum}


def values(doc, path):
    """All values at a dotted path, nulls left out; NAME[] stands for each member of a list."""
    found = [doc]
    for part in path.split("."):
        each = part.endswith("[]")
        found = [d[part.removesuffix("[]")] for d in found
                 if isinstance(d, dict) and d.get(part.removesuffix("[]")) is not None]
        if each:
            found = [member for members in found for member in members]
    return found


def production(summary):
    """{state: microseconds} over all workers, idle left out."""
    total = {}
    for worker in summary["workers"]:
        for key, value in (worker.get("states") or {}).items():
            state = key.removesuffix("_us")
            if state != "idle" and value is not None:
                total[state] = total.get(state, 0) + value
    return total


def texts(summary, *parts):
    paths = {"text": "verdict.text", "evidence": "verdict.evidence[].text",
             "advice": "verdict.advice[].text"}
    return [str(t) for part in parts for t in values(summary, paths[part])]


def compared(what, number, op, bound):
    return None if COMPARE[op](number, bound) else f"{what} is {number:.4g}, wanted {op} {bound:g}"


def figure(fold, path, op, bound):
    """The max, min or sum of what is at a path."""
    def rule(summary):
        found = values(summary, path)
        if not found:
            return f"{path} is missing"
        return compared(f"{fold} of {path}", FOLD[fold](found), op, bound)
    return rule


def candidate(cause, op, bound):
    """The share that a cause has among the candidates."""
    def rule(summary):
        found = [c["share"] for c in summary["verdict"]["candidates"] if c["cause"] == cause]
        return compared(f"candidate {cause}", found[0] if found else 0, op, bound)
    return rule


def count(path, op, bound):
    return lambda summary: compared(f"number of {path}", len(values(summary, path)), op, bound)


def share(state, op, bound):
    """A state's part of the workers' production time."""
    def rule(summary):
        total = production(summary)
        if not sum(total.values()):
            return "no worker has states"
        return compared(f"production time in {state}",
                        total.get(state, 0) / sum(total.values()), op, bound)
    return rule


def candidate(cause, op, bound):
    """A cause's share among the candidates; 0 where it does not stand there."""
    def rule(summary):
        shares = [c["share"] or 0 for c in values(summary, "verdict.candidates[]")
                  if c["cause"] == cause]
        return compared(f"share of candidate {cause}", max(shares, default=0), op, bound)
    return rule


def says(pattern):
    """Somewhere in the sentence, the evidence or the advice."""
    def rule(summary):
        said = " ".join(texts(summary, "text", "evidence", "advice"))
        return None if re.search(pattern, said, re.I) else f"nothing said about /{pattern}/"
    return rule


def no_advice(pattern):
    def rule(summary):
        bad = [t for t in texts(summary, "advice") if re.search(pattern, t, re.I)]
        return f"wrong advice: {bad[0]}" if bad else None
    return rule


def loader_verdict(num_workers, *causes):
    """The own verdict of the one loader that has so many workers."""
    def rule(summary):
        loaders = [x for x in summary["loaders"] if x.get("num_workers") == num_workers]
        if len(loaders) != 1:
            return f"{len(loaders)} loaders with {num_workers} workers"
        verdict = loaders[0].get("verdict")
        if not isinstance(verdict, dict):
            return f"the loader with {num_workers} workers has no verdict"
        if verdict.get("cause") not in causes:
            return (f"the loader with {num_workers} workers: {verdict.get('cause')}, "
                    f"wanted {' or '.join(causes)}")
        if not re.search(r"\d", verdict.get("text") or ""):
            return f"no number in that loader's sentence {verdict.get('text')!r}"
        return None
    return rule
