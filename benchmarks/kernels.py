"""The sections on node solves: how many a search does in a second, and what one costs when cold.

A node is: maximise <c, theta> over |theta| <= B and low <= G theta <= high, with unit rows G.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters import WaitingError, ours, require_cuts, warm_up
from families import ROOM, layered, unit_vectors
from loop import ask
from results import Cell, Row, Section, Settings, Table
from tensorplan.records import FloatArray

SHAPES = ((5, 5), (5, 20), (10, 10), (10, 40), (20, 20), (20, 100))
"""(d, rows) of the cold nodes."""

NODES = 40
"""Cold nodes of each shape."""

WARM = ((10, 8, 12), (20, 3, 24), (20, 3, 120))
"""(d, A, critical states) of the searches that are timed: those that are long."""

SECONDS = 3.0
"""After which such a search is stopped: only its rate matters."""

CUTS = 120
THIN, WIDE = 1e-3, 0.5
"""Half-widths of the rows of a cold node: chosen slabs, and the widest range cut."""

CALLS = 5
"""Calls of each solver for a cold node, of which the fastest counts."""


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


# ------------------------------------------------------------------------------------ the adapter


def cold_solve(
    objective: FloatArray, norm: float, normals: FloatArray, low: FloatArray, high: FloatArray
) -> Solved:
    """Solve a node with our kernel, from nothing: the adapter to wire when the kernel changes."""
    return cold_solver(Node(objective, norm, normals, low, high))()


def cold_solver(node: Node) -> Solver:
    """Our kernel with a node in the form that it takes; what is returned is what is timed."""
    module: Any = importlib.import_module("tensorplan.oracle.kernels")
    if not hasattr(module, "solve_node"):
        raise WaitingError("there is no kernel for single nodes: wire kernels.cold_solver")
    solve = module.compiled_kernel()
    sides = np.concatenate([node.normals, -node.normals])
    offsets = np.concatenate([node.low, -node.high])

    def run() -> Solved:
        _, theta, upper, _ = solve(node.objective, node.norm, sides, offsets)
        return Solved(theta, upper)

    return run


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


def daqp_solver(node: Node, radius: float) -> Solver:
    """One projection of radius * c onto the rows of a node by daqp: a step of what a node needs."""
    daqp: Any = importlib.import_module("daqp")
    dim = len(node.objective)
    hessian, linear = np.eye(dim), -radius * node.objective
    sense = np.zeros(len(node.low), np.int32)

    def run() -> Solved:
        x, *_ = daqp.solve(hessian, linear, node.normals, node.high, node.low, sense)
        return Solved(np.array(x), float("nan"))

    return run


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


def cold_rows(settings: Settings) -> tuple[list[Row], list[Row]]:
    """Cold solves of every shape: (summary, runs)."""
    rows: list[Row] = []
    runs: list[Row] = []
    for dim, count in SHAPES[:2] if settings.quick else SHAPES:
        fastest(lambda d=dim, m=count: cold_solver(draw_node(d, m, 0)))
        done = [cold_run(draw_node(dim, count, seed)) for seed in range(NODES)]
        runs += done
        middle = {
            name: statistics.median(float(str(run[name])) for run in done) for name in done[0]
        }
        rows.append(
            {
                "d": dim,
                "rows": count,
                "ours us": middle["ours"],
                "Clarabel us": middle["Clarabel"],
                "daqp, one projection, us": middle["daqp"],
                "Clarabel / ours": middle["Clarabel"] / middle["ours"],
                "daqp / ours": middle["daqp"] / middle["ours"],
                "largest difference": max(float(str(run["difference"])) for run in done),
            }
        )
    return rows, runs


def cold_run(node: Node) -> dict[str, Cell]:
    """One cold node: microseconds of each solver, and how far the bounds are apart."""
    own, solved = fastest(lambda: cold_solver(node))
    theirs, reference = fastest(lambda: clarabel_solver(node))
    projection, _ = fastest(lambda: daqp_solver(node, node.norm))
    return {
        "ours": 1e6 * own,
        "Clarabel": 1e6 * theirs,
        "daqp": 1e6 * projection,
        "difference": abs(solved.upper - reference.upper),
    }


def warm_rows(settings: Settings) -> list[Row]:
    """Node solves of whole searches per second."""
    shapes = ((5, 3, 15),) if settings.quick else WARM
    return [warm_row(dim, actions, states, settings.seeds) for dim, actions, states in shapes]


def warm_row(dim: int, actions: int, states: int, seeds: int) -> Row:
    """The rate over all seeds: of whole questions, and of what they take beyond the first node."""
    nodes, seconds, first_nodes, first_seconds = 0, 0.0, 0, 0.0
    for seed in range(seeds):
        instance = layered(dim, actions, seed, ranged=True)
        beliefs = instance.one_shot(states, CUTS, radius=1e-6, seed=seed)
        first = ask(ours(instance, nodes=1), instance.objective, beliefs)
        whole = ask(ours(instance, SECONDS), instance.objective, beliefs)
        nodes, seconds = nodes + whole.optimum.nodes, seconds + whole.seconds
        first_nodes += first.optimum.nodes
        first_seconds += first.seconds
    return {
        "d": dim,
        "A": actions,
        "cuts": CUTS,
        "critical states": states,
        "nodes, all questions": nodes,
        "nodes/s, whole questions": nodes / seconds,
        "ms for the first node": 1e3 * first_seconds / seeds,
        "nodes/s beyond it": (nodes - first_nodes) / max(seconds - first_seconds, 1e-9),
    }


def warm(settings: Settings) -> Section:
    """Node solves of whole searches."""
    require_cuts(ours(layered(2, 2, 0)))
    warm_up()
    rows = tuple(warm_rows(settings))
    notes = (
        "One-shot searches (ranged, rho=1e-6), the choice of splits and the heap included. "
        "What a question takes before its first node is solved, such as the table of rows, is "
        "measured by the same question with a limit of one node, and taken off in the last column.",
    )
    return Section("warm", (Table("Node solves in a search", notes, rows),), rows)


def cold(settings: Settings) -> Section:
    """Single nodes, against Clarabel and daqp."""
    rows, runs = cold_rows(settings)
    notes = (
        f"Medians of {NODES} random nodes; a node counts with the fastest of {CALLS} calls. "
        "Clarabel is timed from `solve()` on, without its setup; daqp solves one projection, of "
        "which a node needs several. The difference is between the upper bounds.",
    )
    return Section("cold", (Table("Cold node solves", notes, tuple(rows)),), tuple(runs))
