# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The table of scenarios: what each needs, and what must be said about it."""
import copy

# Causes with a physical trace that a job either has or has not: to name one that it has not is the
# worst of all answers.
DEFINITE = ("disk_read page_fault_read filesystem_wait network_wait cpu_affinity cpu_quota "
            "cpu_contention cpu_oversubscription").split()
HEALTHY = 0.05  # of the time in GetNext and iter(): from here on data loading is the bottleneck
SCENARIOS = {}


class Form:
    """How long a scenario is run: seconds of training before the tool comes, seconds it watches."""

    def __init__(self, warm=3.0, seconds=12.0, **knobs):
        self.warm, self.seconds, self.knobs = warm, seconds, knobs


class Scenario:
    """causes, bottlenecks: the accepted ones; forbidden: causes that must not be named; rules: what
    else the summary must say (rules.py); around: the surroundings (surroundings.py); exposed: (least,
    most) share of time in GetNext and iter() by the job's own record, None where it is of no
    interest; timeline: [(cause, from, to)], what the interval lines between two marks must name;
    mode: "attach" or "launch"; full, short, recorded: its forms, short being None outside `make
    test`, recorded where another one is needed for a recording that is kept (record.py)."""

    def __init__(self, function, name, about, **spec):
        self.function, self.name, self.about = function, name, about
        self.__dict__.update(spec)

    def forms(self, short):
        return self.short if short else self.full

    def knobs_for(self, given):
        """The job's knobs; text from a command line takes the type of the default."""
        made = dict(self.knobs)
        for key, value in given.items():
            made[key] = type(self.knobs[key])(value) if key in self.knobs else value
        return made


def scenario(causes, bottleneck="data_loading", forbid="", rules=(), around=None, mode="attach",
             exposed=(0.1, 1.1), timeline=(), full=None, short=None, recorded=None, **knobs):
    """Registers a job; its docstring tells what it is. Knobs are what its argument holds."""
    causes = causes.split()
    spec = {"causes": causes, "bottlenecks": bottleneck.split(),
            "forbidden": [c for c in DEFINITE + forbid.split() if c not in causes],
            "rules": list(rules), "around": around or {}, "mode": mode, "exposed": exposed,
            "timeline": list(timeline), "full": full or Form(), "short": short,
            "recorded": recorded, "knobs": knobs}

    def register(function):
        add(Scenario(function, function.__name__, " ".join(function.__doc__.split()), **spec))
        return function
    return register


def healthy(forbid="", causes="none", exposed=(0, HEALTHY), **spec):
    """Nothing is wrong with the loader."""
    return scenario(causes, bottleneck="not_data_loading", forbid=forbid, exposed=exposed, **spec)


def variant(of, name, about, **changes):
    """The same job once more; changes: of its description, else of its knobs."""
    made = copy.copy(SCENARIOS[of])
    made.name, made.about, made.short = name, about, None
    made.knobs = dict(made.knobs)
    for key, value in changes.items():
        if key in made.knobs:
            made.knobs[key] = value
        elif hasattr(made, key):
            setattr(made, key, value)
        else:
            raise KeyError(f"{of} has no {key}")
    add(made)


def add(made):
    if made.name in SCENARIOS:
        raise KeyError(f"two scenarios are called {made.name}")
    SCENARIOS[made.name] = made
