"""The sections on node solves: how many a search does in a second, and what one costs when cold.

A node is: maximise <c, theta> over |theta| <= B and low <= G theta <= high, with unit rows G.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters import Effort, Inspected, Leaf, ours, pack_nodes, require_cuts, solve_nodes, warm_up
from families import ROOM, layered, unit_vectors
from results import Row, Section, Settings, Table
from tensorplan.hypotheses import Cuts
from tensorplan.records import FloatArray

SHAPES = ((5, 5), (5, 20), (10, 10), (10, 40), (20, 20), (20, 100), (50, 50))
"""(d, rows) of the cold nodes."""

NODES = 40
"""Cold nodes of each shape."""

PASSES = 20
"""How often our kernel goes through all nodes of a shape in one call."""

WARM = ((10, 12), (10, 24), (10, 50), (20, 22), (20, 44), (20, 88))
"""(d, critical states) of the searches that are timed."""

SECONDS = 2.0
"""After which such a search is stopped: only its rate matters."""

CUTS = 120
THIN, WIDE = 1e-3, 0.5
"""Half-widths of the rows of a cold node: chosen slabs, and the widest range cut."""

CALLS = 5
"""Calls of each solver for a node, of which the fastest counts."""

REPEATS = 3
"""Fresh searches for one instance, of which the fastest counts."""


@dataclass(frozen=True, eq=False)
class Node:
    """A convex subproblem: objective [d], normals [m, d], low [m] and high [m]."""

    objective: FloatArray
    norm: float
    normals: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Solved:
    """The optimum [d] of a node, and its upper bound."""

    theta: FloatArray
    upper: float


Solver = Callable[[], Solved]
"""A solver that has been handed its node."""


def draw_node(dim: int, rows: int, seed: int) -> Node:
    """A node that holds a hidden theta of norm 1: half of its rows, at most d / 2, are slabs.

    The rest are range cuts, at a random distance from theta on either side.
    """
    rng = np.random.default_rng([seed, dim, rows])
    theta, objective = unit_vectors(rng, 2, dim)
    normals = unit_vectors(rng, rows, dim)
    slabs = min(rows, dim) // 2
    most = np.where(np.arange(rows) < slabs, THIN, WIDE)
    below, above = rng.random((2, rows)) * most
    values = normals @ theta
    return Node(objective, ROOM, normals, values - below, values + above)


def cold_solve(nodes: list[Node], passes: int = 1) -> tuple[float, list[Solved]]:
    """Solve nodes of one shape by our kernel, each from nothing; seconds for each, and answers."""
    cuts = [Cuts(node.normals, node.low, node.high) for node in nodes]
    packed = pack_nodes(np.array([node.objective for node in nodes]), nodes[0].norm, cuts)
    timed = [solve_nodes(packed, passes) for _ in range(CALLS)]
    answers = timed[0][1]
    if not answers.solved:
        raise ArithmeticError("a node was given up")
    found = zip(answers.theta, answers.upper.tolist(), strict=True)
    return min(seconds for seconds, _ in timed), [Solved(theta, upper) for theta, upper in found]


# ------------------------------------------------------------------------------------- the rivals


def clarabel_solver(node: Node) -> Solver:
    """Clarabel's conic program for a node, set up; only ``solve()`` is timed."""
    clarabel: Any = importlib.import_module("clarabel")
    sparse: Any = importlib.import_module("scipy.sparse")
    dim, rows = len(node.objective), len(node.low)
    matrix = np.concatenate([node.normals, -node.normals, np.zeros((1, dim)), -np.eye(dim)])
    right = np.concatenate([node.high, -node.low, [node.norm], np.zeros(dim)])
    cones = [clarabel.NonnegativeConeT(2 * rows), clarabel.SecondOrderConeT(dim + 1)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((dim, dim)),
        -node.objective,
        sparse.csc_matrix(matrix),
        right,
        cones,
        options,
    )

    def run() -> Solved:
        solution = solver.solve()
        return Solved(np.array(solution.x), -float(solution.obj_val_dual))

    return run


def daqp_solver(
    target: FloatArray, normals: FloatArray, low: FloatArray, high: FloatArray
) -> Solver:
    """One projection of a point onto the rows of a node by daqp: a step of what a node needs."""
    daqp: Any = importlib.import_module("daqp")
    hessian = np.eye(len(target))
    sense = np.zeros(len(low), np.int32)
    linear, normals = -target, np.ascontiguousarray(normals)

    def run() -> Solved:
        x, *_ = daqp.solve(hessian, linear, normals, high, low, sense)
        return Solved(np.array(x), float("nan"))

    return run


def project_node(node: Node) -> Solver:
    """What daqp is timed at for a cold node: the projection of B c."""
    return daqp_solver(node.norm * node.objective, node.normals, node.low, node.high)


def project_leaf(leaf: Leaf) -> Solver:
    """What daqp is timed at for a node of a search: the very projection that is its optimum."""
    return daqp_solver(leaf.target, leaf.normals, leaf.low, leaf.high)


# ------------------------------------------------------------------------------------ the sections


def fastest(make: Callable[[], Solver]) -> tuple[float, Solved]:
    """Seconds of the fastest of some calls, each of a solver set up afresh, and its answer."""
    calls: list[tuple[float, Solved]] = []
    for _ in range(CALLS):
        solver = make()
        started = time.perf_counter()
        solved = solver()
        calls.append((time.perf_counter() - started, solved))
    return min(calls, key=lambda call: call[0])


def cold_row(dim: int, count: int) -> Row:
    """Cold nodes of a shape: mean times of each solver, and how far their answers are apart."""
    nodes = [draw_node(dim, count, seed) for seed in range(NODES)]
    own, answers = cold_solve(nodes, PASSES)
    theirs = [fastest(lambda node=node: clarabel_solver(node)) for node in nodes]
    projections = [fastest(lambda node=node: project_node(node))[0] for node in nodes]
    clarabel, daqp = (
        statistics.fmean(seconds) for seconds in ([one for one, _ in theirs], projections)
    )
    triples = list(zip(nodes, answers, (solved for _, solved in theirs), strict=True))
    return {
        "d": dim,
        "rows": count,
        "ours us": 1e6 * own,
        "Clarabel us": 1e6 * clarabel,
        "daqp, one projection, us": 1e6 * daqp,
        "Clarabel / ours": clarabel / own,
        "daqp / ours": daqp / own,
        "largest difference": max(abs(mine.upper - other.upper) for _, mine, other in triples),
        "largest gap of ours": max(
            mine.upper - float(node.objective @ mine.theta) for node, mine, _ in triples
        ),
    }


def cold(settings: Settings) -> Section:
    """Single nodes, against Clarabel and daqp."""
    cold_solve([draw_node(2, 2, 0)])
    rows = tuple(cold_row(*shape) for shape in (SHAPES[:2] if settings.quick else SHAPES))
    notes = (
        f"Means over {NODES} random nodes. Ours are solved in a compiled loop over the nodes, as a "
        f"search does, each from nothing; the fastest of {CALLS} rounds of {PASSES} passes counts. "
        f"Clarabel (tolerances 1e-10) counts with the fastest of {CALLS} calls of `solve()`, "
        "without its setup; daqp with the fastest of as many calls, each of one projection, of "
        "which a node needs several. The difference is between the upper bounds; the gap is the "
        "upper bound of ours less the value of its point.",
    )
    return Section("cold", (Table("Cold node solves", notes, rows),), rows)


def best_effort(seed: int, dim: int, states: int, *, to_the_end: bool) -> tuple[Effort, Inspected]:
    """The fastest of some fresh searches for an instance."""
    instance = layered(dim, 3, seed)
    beliefs = instance.one_shot(states, CUTS, radius=1e-6, seed=seed)
    done: list[tuple[Effort, Inspected]] = []
    for _ in range(REPEATS):
        search = Inspected(instance, beliefs, to_the_end=to_the_end)
        done.append((search.run(SECONDS), search))
    return min(done, key=lambda one: one[0].seconds)


def warm_runs(dim: int, states: int, seeds: int) -> Iterator[Row]:
    """For each seed: a search that solves every child to the end, and one as the oracle does it."""
    for seed in range(seeds):
        ends, search = best_effort(seed, dim, states, to_the_end=True)
        looks, _ = best_effort(seed, dim, states, to_the_end=False)
        leaves = search.leaves(NODES)
        daqp = statistics.fmean(fastest(lambda leaf=leaf: project_leaf(leaf))[0] for leaf in leaves)
        yield {
            "d": dim,
            "critical states": states,
            "seed": seed,
            "solves": ends.solves,
            "seconds": ends.seconds,
            "proved": ends.proved,
            "solves with looks": looks.solves,
            "looks": looks.looks,
            "seconds with looks": looks.seconds,
            "proved with looks": looks.proved,
            "daqp": daqp,
        }


def warm_row(runs: list[Row]) -> Row:
    """The rates over all seeds."""

    def total(name: str) -> float:
        return sum(float(str(run[name])) for run in runs)

    rate = total("solves") / total("seconds")
    daqp = total("daqp") / len(runs)
    return {
        "d": runs[0]["d"],
        "critical states": runs[0]["critical states"],
        "solves": int(total("solves")),
        "solves/s": rate,
        "us each": 1e6 / rate,
        "daqp, one projection, us": 1e6 * daqp,
        "daqp / ours": daqp * rate,
        "as it runs: solves": int(total("solves with looks")),
        "looks": int(total("looks")),
        "both/s": (total("solves with looks") + total("looks")) / total("seconds with looks"),
        "time saved by looks": total("seconds") / total("seconds with looks"),
    }


def warm(settings: Settings) -> Section:
    """Node solves of whole searches."""
    require_cuts(ours(layered(2, 2, 0)))
    warm_up()
    shapes = ((5, 15),) if settings.quick else WARM
    each = [list(warm_runs(dim, states, settings.seeds)) for dim, states in shapes]
    rows = tuple(warm_row(runs) for runs in each)
    notes = (
        f"One-shot searches (layered, A=3, {CUTS} cuts, rho=1e-6), the choice of splits and the "
        f"heap included, the table of rows not; the fastest of {REPEATS} searches for each of the "
        f"seeds counts, stopped after {SECONDS:g} s. In the first figures every child is solved to "
        "the end, from the active rows of its parent. The oracle itself looks at a child by one "
        "step of the dual method, which gives a valid bound, and solves it to the end only if it "
        "comes to the top. daqp is handed the projection whose answer is the optimum of a leaf, "
        f"for at most {NODES} leaves of a search; a node needs one such for each t that it tries.",
    )
    runs = tuple(run for one in each for run in one)
    return Section("warm", (Table("Node solves in a search", notes, rows),), runs)
