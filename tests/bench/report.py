# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of bench.py: figures, targets, and whether they are met."""
import math
import statistics

SHARE_TARGET = {"W1": 0.5, "W2": 0.2, "W3": 1.0, "W4": 0.7}     # % of the job's CPU time
DAEMON_CPU_TARGET = 1.0         # % of one core
DAEMON_MB_TARGET = 25
ATTACH_S_TARGET = 0.5
PAUSE_MS_TARGET = 30
QUIET_CORES = 0.1               # others using more make the direct measurement too high
TRAP_NS = 200                   # less is noise: os.write() is not probed


def slope(phases, key):
    """How log(key) follows log(spin) from phase to phase: least squares, 0 without enough data."""
    points = [(math.log(y["spin"] / x["spin"]), math.log(y[key] / x[key]))
              for x, y in zip(phases, phases[1:]) if x["spin"] and y["spin"]]
    squares = sum(x * x for x, _ in points)
    return sum(x * y for x, y in points) / squares if len(points) >= 4 and squares else 0.0


def corrected(result, kind, key):
    """The ratios of the phases of a kind, as if the host's speed had not changed."""
    follows = slope(result["A"], key)
    return [p["ratio_" + key] / p.get("ratio_spin", 1.0) ** follows for p in result[kind]]


def verdict(good):
    return " PASS" if good else " **over**"


def span(values, form):
    return "%s [%s..%s]" % tuple(
        form % v for v in (statistics.median(values), min(values), max(values)))


def column(phases, key):
    return [p[key] for p in phases if p.get(key) is not None]


def direct_cells(name, r):
    """{row: cell} of a direct measurement."""
    target, cells = SHARE_TARGET[name], {}
    cells["job, steps/s (cores, switches/s)"] = "%.1f (%.2f, %.0f)" % (
        r["steps"], r["cores"], r["switches"])
    cells["**BPF programs, % of job CPU**"] = "**%.2f** of %.1f%s" % (
        r["share"], target, verdict(r["share"] <= target))
    if r["floor_ns"]:
        cells["of which the statistics, at most"] = "%.2f (%.0f ns a run)" % (
            r["floor_share"], r["floor_ns"])
    cells["traps of uprobes, not in it"] = "%.0f/s" % r["uprobes"] + (
        " x %.0f ns = %.2f" % (r["trap_ns"], r["trap_share"]) if r["trap_ns"] > TRAP_NS else "")
    cells["programs skipped by recursion"] = "%d" % r["missed"]
    cells["CPU of others meanwhile, cores"] = "%.2f%s" % (
        r["others"], " (**share too high**)" if r["others"] > QUIET_CORES else "")
    return cells


def paired_cells(r):
    """{row: cell} of the paired comparison and of the daemon."""
    cells = {}
    for key, row, sign in ("rate", "steps/s", 1), ("cpu_step", "CPU per step", -1):
        tool, none = corrected(r, "tool", key), corrected(r, "none", key)
        good = sign * statistics.median(tool) >= min(sign * v for v in none)
        cells[row + ", ratio, with the tool"] = span(tool, "%.3f") + verdict(good)
        cells[row + ", ratio, none"] = span(none, "%.3f")
    cpu, mb, attach, attach_cpu = (
        column(r["tool"], key) for key in ("tool_cpu", "mb", "attach_s", "attach_cpu_s"))
    cells["daemon CPU, % of a core"] = (
        span(cpu, "%.2f") + verdict(statistics.median(cpu) <= DAEMON_CPU_TARGET))
    cells["daemon peak memory, MB"] = "%.1f" % max(mb) + verdict(max(mb) <= DAEMON_MB_TARGET)
    cells["attached after, s"] = (
        span(attach, "%.2f") + verdict(statistics.median(attach) <= ATTACH_S_TARGET))
    cells["of which on a CPU, s"] = span(attach_cpu, "%.2f")
    cells["usual p99 between steps, ms"] = "%.0f" % statistics.median(column(r["A"], "p99_ms"))
    for key, row in ("attach", "attaching"), ("leave", "leaving"):
        tool, none = (column(r[kind], key + "_pause_ms") for kind in ("tool", "none"))
        good = max(tool) <= max([PAUSE_MS_TARGET] + none)
        cells["pause when %s, ms" % row] = span(tool, "%.0f") + verdict(good)
        cells["pause when %s, none" % row] = span(none, "%.0f")
    loss = [p["loss"] for p in r["tool"]]
    lost = column(loss, "events_lost")
    complete = sum(1 for v in loss if v.get("complete"))
    cells["events lost (summaries complete)"] = "%s (%d of %d)%s" % (
        sum(lost) if lost else "not told", complete, len(loss),
        verdict(lost and not sum(lost) and complete == len(loss)))
    others = column(r["A"], "others")
    cells["CPU of others, cores"] = span(others, "%.2f") + (
        " (**comparison useless**)" if statistics.median(others) > QUIET_CORES else "")
    return cells


def program_cells(r):
    return {p["name"]: "%.0f/s (%.1f) x %.0f ns = %.3f" % (
        p["rate"], p["per_step"], p["ns"], p["share"]) for p in r["programs"] if p["runs"]}


def table(first, columns, out):
    """columns: {head: {row: cell}}"""
    print("| %s |" % " | ".join([first] + list(columns)), file=out)
    print("|---" * (len(columns) + 1) + "|", file=out)
    for row in dict.fromkeys(row for cells in columns.values() for row in cells):
        cells = [column.get(row, "") for column in columns.values()]
        print("| %s |" % " | ".join([row] + cells), file=out)
    print(file=out)


def write(results, out):
    workloads = results["workloads"]
    direct = {name: r["direct"] for name, r in workloads.items() if "direct" in r}
    paired = {name: r for name, r in workloads.items() if r.get("none")}
    print("## What watching costs\n", file=out)
    for key, value in results["header"].items():
        print("- %s: %s" % (key, value), file=out)
    for found in sorted({r["found"] for r in direct.values()}):
        print("- attached with: %s" % found, file=out)
    print(file=out)
    if direct:
        table("", {name: dict(direct_cells(name, r),
                              **(paired_cells(paired[name]) if name in paired else {}))
                   for name, r in direct.items()}, out)
        print("Runs a second (per step) x ns a run = % of the job's CPU:\n", file=out)
        table("program", {name: program_cells(r) for name, r in direct.items()}, out)
    for name, r in paired.items():
        print("%s: %d pairs, corrected by spin^%.2f (steps/s) and spin^%.2f (CPU per step)" % (
            name, len(r["none"]), slope(r["A"], "rate"), slope(r["A"], "cpu_step")), file=out)
    for name, r in workloads.items():
        if "error" in r:
            print("%s FAILED: %s" % (name, r["error"]), file=out)
