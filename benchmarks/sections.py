"""The sections that iterate until a clean run: largest sizes, and how many iterations it takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from adapters import GAP, ours, require_cuts, warm_up
from families import COST, chain, cube, generic, grid, layered
from instances import Instance
from loop import Rules, Run, iterate
from results import Row, Section, Settings, Table

SECONDS = 10.0
"""What "solved within" means in the table of sizes."""

SLIGHT = 1e-6

EXPLORED = ((2, 20), (2, 25), (2, 30), (3, 15), (3, 20), (4, 12), (4, 16), (5, 8), (5, 12))
"""(A, d) of the table of sizes."""


def in_time(run: Run) -> bool:
    """Whether an iteration ended with a clean run within the seconds of the table."""
    return run.solved and run.seconds <= SECONDS


@dataclass(frozen=True)
class Sized:
    """A run of the table of sizes, with what was known when it began."""

    run: Run
    states: int
    queries: int


def explored(instance: Instance, seed: int, rollouts: int = 12) -> Sized:
    """Explore at random, store and cut at all that was seen, and iterate until clean."""
    seen = instance.explore(rollouts, seed=seed)
    beliefs = instance.beliefs(SLIGHT, seen.states, instance.around(seen.states))
    run = iterate(instance, ours(instance, SECONDS), beliefs, Rules(cuts=True, seconds=SECONDS))
    return Sized(run, len(seen.states), seen.queries)


def sizes(settings: Settings) -> Section:
    """What is solved within some seconds."""
    require_cuts(ours(layered(2, 2, 0)))
    warm_up()
    wanted = ((2, 5), (3, 4)) if settings.quick else EXPLORED
    runs: list[Row] = []
    rows: list[Row] = []
    for ranged, (actions, dim) in [
        *((False, size) for size in wanted),
        *((True, size) for size in wanted if size[0] <= 3),
    ]:
        family = "ranged" if ranged else "layered"
        drawn = [layered(dim, actions, seed, ranged=ranged) for seed in range(settings.seeds)]
        done = [explored(instance, seed) for seed, instance in enumerate(drawn)]
        runs += [_run_row(family, dim, actions, seed, one.run) for seed, one in enumerate(done)]
        rows.append(_size_row(family, actions, dim, done))
    grids, more = _grids(3 if settings.quick else 5)
    title = f"Layered with exploration: solved to {GAP:g} within {SECONDS:g} s"
    notes = (
        f"rho={SLIGHT:g}; 12 random rollouts of 12 steps come first: the states that they visit "
        "are critical states, and these and all their successors have range cuts. Times are those "
        "in the oracle, all questions of an instance together.",
    )
    tables = (Table(title, notes, tuple(rows)), Table("Grids", (_GRID_NOTE,), tuple(grids)))
    return Section("sizes", tables, (*runs, *more))


_GRID_NOTE = (
    "One-hot features without the goal, d = n^2 - 1, A = 4. The critical states come from "
    "rollouts; the cuts hold at every state from the start. Times are of all questions together."
)


def _run_row(family: str, dim: int, actions: int, seed: int, run: Run) -> Row:
    return {
        "family": family,
        "d": dim,
        "A": actions,
        "seed": seed,
        "outcome": run.outcome,
        "iterations": run.iterations,
        "nodes": run.nodes,
        "expansions": run.expansions,
        "seconds": run.seconds,
        "value": run.value,
        "upper": run.upper,
    }


def _size_row(family: str, actions: int, dim: int, done: Sequence[Sized]) -> Row:
    return {
        "family": family,
        "A": actions,
        "d": dim,
        "solved": f"{sum(in_time(one.run) for one in done)} of {len(done)}",
        "median s": statistics.median(one.run.seconds for one in done),
        "worst s": max(one.run.seconds for one in done),
        "worst nodes": max(one.run.nodes for one in done),
        "most iterations": max(one.run.iterations for one in done),
        "states, median": statistics.median(one.states for one in done),
        "queries, median": statistics.median(one.queries for one in done),
    }


def _grids(side: int) -> tuple[list[Row], list[Row]]:
    """The grid with its cuts and without: (summary, runs)."""
    rows: list[Row] = []
    runs: list[Row] = []
    for label, ceiling in ((f"v <= -{COST:g}", -COST), ("v <= 0", 0.0), ("none", math.inf)):
        for radius in (0.0, SLIGHT):
            instance = grid(side, ceiling=ceiling)
            beliefs = instance.beliefs(radius, cuts=range(instance.size))
            run = iterate(instance, ours(instance, SECONDS), beliefs, Rules(seconds=SECONDS))
            runs.append(_run_row(f"grid, {label}", instance.dim, 4, 0, run))
            rows.append(
                {
                    "grid": f"{side} x {side}",
                    "cut": label,
                    "rho": radius,
                    "solved": in_time(run),
                    "outcome": run.outcome,
                    "s": run.seconds,
                    "iterations": run.iterations,
                    "nodes": run.nodes,
                    "gap": run.upper - run.value,
                }
            )
    return rows, runs


Maker = Callable[[int], Instance]


def counted(settings: Settings) -> Iterator[tuple[str, Maker]]:
    """The noise-free families whose iterations are counted."""
    small = settings.quick
    for dim, actions in ((5, 2), (5, 3)) if small else ((10, 2), (10, 3), (8, 4), (5, 5)):
        yield "layered", lambda seed, d=dim, a=actions: layered(d, a, seed)
    for dim, actions in ((5, 3),) if small else ((10, 2), (10, 3), (8, 4), (15, 3)):
        yield "generic", lambda seed, d=dim, a=actions: generic(d, a, seed)
    for dim, actions in ((5, 3),) if small else ((10, 2), (10, 3), (20, 2)):
        yield "chain", lambda seed, d=dim, a=actions: chain(d, a, seed)
    for axes in (1, 2) if small else (1, 2, 3, 4):
        yield "cube", lambda seed, n=axes: cube(n, seed)


def iterations(settings: Settings) -> Section:
    """Questions until a clean run, and expansions, on exact data without cuts."""
    warm_up()
    runs: list[Row] = []
    rows: list[Row] = []
    for family, make in counted(settings):
        for found, adversarial in (("rollout", False), ("worst", True)):
            drawn = [make(seed) for seed in range(settings.seeds)]
            rules = Rules(adversarial=adversarial, seconds=settings.limit)
            done = [iterate(one, ours(one, settings.limit), one.beliefs(), rules) for one in drawn]
            shape = drawn[0].dim, drawn[0].actions
            runs += [
                _run_row(f"{family}, {found}", *shape, seed, run) for seed, run in enumerate(done)
            ]
            rows.append(_count_row(family, found, *shape, done))
    notes = (
        "Exact data (rho=0), no cuts. A counterexample is the first failing state of a rollout, or "
        "the worst of all states. Iterations count every question, the last one included; the "
        "bound on the expansions of a kept tree is theory B3. The cube grows faster.",
    )
    title = "Iterations against d + 2, expansions against the sum of A^k, k <= d"
    return Section("iterations", (Table(title, notes, tuple(rows)),), tuple(runs))


def _count_row(family: str, found: str, dim: int, actions: int, done: Sequence[Run]) -> Row:
    iterations_ = [run.iterations for run in done]
    most = max(run.expansions for run in done)
    bound = sum(actions**k for k in range(dim + 1))
    return {
        "family": family,
        "found by": found,
        "d": dim,
        "A": actions,
        "clean": f"{sum(run.solved for run in done)} of {len(done)}",
        "iterations, median": statistics.median(iterations_),
        "most": max(iterations_),
        "d + 2": dim + 2,
        "within d + 2": max(iterations_) <= dim + 2,
        "most expansions": most,
        "bound": bound,
        "within bound": most <= bound,
    }
