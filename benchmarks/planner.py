"""Benchmarks of the adaptive planner: queries until a certificate, beside the exact value.

    python benchmarks/planner.py [--only NAME] [--seeds N] [--out FILE]
    python benchmarks/planner.py --table FILE

The first form measures, prints the tables and writes all numbers to FILE as JSON; the second
writes docs/benchmarks-planner.md from such a file.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tensorplan as tp
from results import (
    Cell,
    Row,
    Section,
    Settings,
    Table,
    make_results,
    render,
    write_json,
    write_page,
)
from tensorplan.estimate import bernstein_floor
from tensorplan.exact import solve
from tensorplan.problems.asset_selling import AssetSelling
from tensorplan.problems.base import LinearTable
from tensorplan.problems.hidden_linear import HiddenLinear
from tensorplan.problems.registry import reference
from tensorplan.records import FloatArray, IntArray, States

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-planner.md"
FLOOR_ROLLOUTS = 4000
LEVEL = 0.05

Act = Callable[[States, int], IntArray]


@dataclass(frozen=True)
class Task:
    """A problem, what is asked for, and how many queries it is meant to take.

    Attributes:
        problem: its name.
        settings: its settings, the seed apart.
        gap: delta.
        goal: queries that it is meant to take at most.
        compete: whom the upper bound speaks of.
        varies: whether the seed also draws the problem.
    """

    problem: str
    settings: dict[str, Any]
    gap: float
    goal: float | None
    compete: str = "realizable"
    varies: bool = False
    label: str = field(default="")


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        seed: of the planner.
        status: how it ended.
        queries: before the check.
        lower: lower bound.
        upper: upper bound.
        seconds: of the whole run.
    """

    seed: int
    status: str
    queries: int
    lower: float
    upper: float
    seconds: float


def run(task: Task, seed: int) -> Run:
    """Plan once."""
    settings = task.settings | ({"seed": seed} if task.varies else {})
    simulator = tp.problems.make(task.problem, **settings)
    started = time.perf_counter()
    plan = tp.plan(simulator, delta=task.gap, seed=seed, compete=task.compete)
    seconds = time.perf_counter() - started
    queries, bounds = plan.queries, plan.certificate
    assert bounds.lower is not None
    assert bounds.upper is not None
    spent = queries.total - queries.by_phase["check"]
    return Run(seed, plan.status.value, spent, bounds.lower, bounds.upper, seconds)


def good_policy(simulator: tp.Simulator) -> Act | None:
    """The policy that a floor certifies: an optimal one, or the best threshold."""
    if isinstance(simulator, HiddenLinear):
        return simulator.best_actions
    if isinstance(simulator, AssetSelling):
        threshold, _ = simulator.best_threshold()
        return lambda states, stage: (states >= threshold).astype(np.int64)
    if isinstance(simulator, LinearTable):
        best = np.atleast_2d(solve(simulator.process).policy)
        return lambda states, stage: best[min(stage, len(best)) - 1, states]
    return None


def length_of(spec: tp.Spec, gap: float) -> int:
    """Steps of a rollout: the horizon, or so many that the rest is worth a hundredth of the gap."""
    if spec.horizon is not None:
        return spec.horizon
    low, high = spec.reward_range
    room = 0.01 * gap * (1 - spec.discount) / (high - low)
    return math.ceil(math.log(room) / math.log(spec.discount))


def returns_of(
    simulator: tp.Simulator, act: Act, count: int, length: int
) -> tuple[FloatArray, float]:
    """Returns of some rollouts, and how many steps one takes on average."""
    rng, spec = np.random.default_rng(0), simulator.spec
    states = np.repeat(simulator.start(rng), count, axis=0)
    alive, returns, steps, weight = np.arange(count), np.zeros(count), 0, 1.0
    for step in range(length):
        stage = 1 if spec.horizon is None else step + 1
        steps += len(alive)
        after = simulator.step(states, stage, act(states, stage), rng)
        returns[alive] += weight * after.rewards
        weight *= spec.discount
        on = ~after.terminated
        alive, states = alive[on], after.states[on]
        if not len(alive):
            break
    return returns, steps / count


def floor(task: Task) -> float | None:
    """Queries that certifying a known good policy takes, by two-sided empirical Bernstein."""
    settings = task.settings | ({"seed": 0} if task.varies else {})
    simulator = tp.problems.make(task.problem, **settings)
    act = good_policy(simulator)
    if act is None or simulator.spec.deterministic:
        return None
    length = length_of(simulator.spec, task.gap)
    returns, steps = returns_of(simulator, act, FLOOR_ROLLOUTS, length)
    low, high = simulator.spec.reward_range
    stages = simulator.spec.horizon or 1 / (1 - simulator.spec.discount)
    rollouts = bernstein_floor(float(returns.std()), stages * (high - low), task.gap, LEVEL)
    return float(rollouts) * steps


def deterministic() -> Iterator[Task]:
    """Deterministic problems; the goal is the yardstick H(A+1)/2 + A(d+1)."""
    for actions, dim, horizon in (
        (2, 4, 20),
        (2, 8, 20),
        (3, 8, 20),
        (3, 8, 50),
        (4, 6, 20),
        (2, 12, 30),
    ):
        settings = {"dim": dim, "actions": actions, "horizon": horizon}
        goal = horizon * (actions + 1) / 2 + actions * (dim + 1)
        label = f"hidden-linear A={actions} d={dim} H={horizon}"
        yield Task("hidden-linear", settings, 1e-6 * horizon, goal, varies=True, label=label)
    yield Task("deep-sea", {"size": 100}, 1e-4, 320, label="deep-sea N=100")
    one_hot = {"size": 10, "features": "one-hot"}
    yield Task("deep-sea", one_hot, 1e-5, None, label="deep-sea N=10, one-hot")


def stochastic() -> Iterator[Task]:
    """Hidden-linear problems with four successors."""
    for actions, dim, horizon, goal in (
        (2, 2, 5, 3e4),
        (2, 4, 5, 5e4),
        (2, 4, 20, 1.6e5),
        (3, 4, 10, 1.4e5),
        (2, 8, 10, 1.6e5),
    ):
        settings = {"dim": dim, "actions": actions, "horizon": horizon, "successors": 4}
        label = f"hidden-linear A={actions} d={dim} H={horizon}"
        yield Task("hidden-linear", settings, 0.1 * horizon, goal, varies=True, label=label)


def tabular() -> Iterator[Task]:
    """Problems with a feature for each state."""
    lake, river = "frozen-lake", "river-swim"
    yield Task(lake, {"discount": 0.9}, 0.05, 6e5, "optimal", label=f"{lake} .9")
    yield Task(lake, {"discount": 0.9}, 0.05, 1e6, label=f"{lake} .9")
    yield Task(lake, {"discount": 0.95}, 0.05, 1e6, "optimal", label=f"{lake} .95")
    yield Task(river, {"discount": 0.95}, 1.0, 5e5, "optimal", label=f"{river} .95")
    yield Task(river, {"horizon": 20}, 1.0, 3.5e6, "optimal", label=f"{river} H=20, d=120")
    yield Task("gambler", {}, 0.05, None, "optimal", label="gambler")


def selling() -> Iterator[Task]:
    """Asset selling with threshold policies."""
    for thresholds, goal in ((2, 2e5), (3, 5e5), (5, 1.5e6)):
        label = f"asset-selling, {thresholds} thresholds"
        yield Task("asset-selling", {"thresholds": thresholds}, 0.05, goal, label=label)


SECTIONS: dict[str, tuple[Callable[[], Iterator[Task]], int]] = {
    "deterministic": (deterministic, 20),
    "stochastic": (stochastic, 10),
    "tabular": (tabular, 3),
    "selling": (selling, 5),
}
"""Tasks, and how many seeds each is run with."""


def summary(task: Task, runs: list[Run]) -> dict[str, Cell]:
    """A row of the table."""
    queries = sorted(one.queries for one in runs)
    median = statistics.median(queries)
    least = floor(task)
    settings = task.settings | ({"seed": runs[0].seed} if task.varies else {})
    return {
        "problem": task.label,
        "competes with": "v*" if task.compete == "optimal" else "v°",
        "gap": task.gap,
        "certified": f"{sum(one.status == 'certified' for one in runs)} of {len(runs)}",
        "queries, median": median,
        "90%": float(np.quantile(queries, 0.9)),
        "largest": queries[-1],
        "goal": task.goal,
        "median / floor": None if not least else median / least,
        "v*": reference(task.problem, **settings),
        "lower, median": statistics.median(one.lower for one in runs),
        "upper, median": statistics.median(one.upper for one in runs),
        "s, median": statistics.median(one.seconds for one in runs),
    }


def measure(name: str, seeds: int | None) -> Section:
    """Run a section."""
    make, usual = SECTIONS[name]
    rows: list[Row] = []
    every: list[Row] = []
    for task in make():
        runs = [run(task, seed) for seed in range(usual if seeds is None else seeds)]
        rows.append(summary(task, runs))
        every += [{"problem": task.label, "compete": task.compete, **vars(one)} for one in runs]
        print(rows[-1], file=sys.stderr, flush=True)
    notes = (
        "Queries do not count the check of a deterministic run. The floor is what certifying the "
        "known best policy to the same gap takes by two-sided empirical Bernstein intervals "
        f"(level {LEVEL}). Seconds are of whole runs, the simulator included.",
    )
    return Section(
        name, (Table(f"Queries until a certificate: {name}", notes, tuple(rows)),), tuple(every)
    )


@dataclass
class Arguments(argparse.Namespace):
    """The command line."""

    only: str | None = None
    seeds: int | None = None
    out: Path | None = None
    table: Path | None = None


def main(arguments: list[str] | None = None) -> int:
    """Measure, or write the page."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description="Benchmarks of the adaptive planner.")
    parser.add_argument("--only", choices=list(SECTIONS), help="one section")
    parser.add_argument("--seeds", type=int, help="runs of each kind")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the page of such a file")
    given = parser.parse_args(words, Arguments())
    if given.table is not None:
        write_page(PAGE, json.loads(given.table.read_text(encoding="utf-8")), given.table.name)
        return 0
    names = list(SECTIONS) if given.only is None else [given.only]
    sections = [measure(name, given.seeds) for name in names]
    when = dt.datetime.now(dt.UTC).isoformat(timespec="minutes")
    command = shlex.join(["python", "benchmarks/planner.py", *words])
    results = make_results(command, when, Settings(given.seeds or 0), sections, about="planner")
    if given.out is not None:
        write_json(given.out, results)
    print(render(results, given.out.name if given.out else "FILE"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
