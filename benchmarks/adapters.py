"""Everything that the benchmarks know about our oracle and about its rivals, in one place."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from families import layered
from instances import Instance
from tensorplan.hypotheses import Cuts, Hypotheses
from tensorplan.oracle import compiled
from tensorplan.oracle.arrays import (
    ACTIONS,
    CUTS,
    HEAP,
    LOOKS,
    SOLVES,
    STAMP,
    Face,
    Int32Array,
    Problem,
)
from tensorplan.oracle.base import Optimum, Oracle
from tensorplan.oracle.growth import Growth
from tensorplan.oracle.highs import HighsOracle
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.node import MANY, SOLVED, Solve, make_face, make_solve, solve_slabs
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray, IntArray

GAP = 1e-6
"""Largest accepted difference of bound and value, for every solver."""

HERE = Path(__file__).resolve().parent

ENDLESS = 1_000_000_000
"""More node solves than any search does."""


class WaitingError(RuntimeError):
    """A section was asked for that needs a part of the oracle or of the machine that is missing."""


def ours(instance: Instance, seconds: float | None = None) -> Oracle:
    """A fresh oracle of ours, compiled, with a limit for each question."""
    return SlabOracle(ENDLESS, gap=_gap(instance), time_limit=seconds, kernels="compiled")


def _gap(instance: Instance) -> float:
    """The accepted gap in the units of our oracle."""
    return GAP / (instance.norm * float(np.linalg.norm(instance.objective)))


def rivals(seconds: float) -> dict[str, Oracle]:
    """General solvers on the union of slabs, with a time limit for each attempt."""
    return {
        "SCIP": ScipOracle("slabs", gap=GAP, time_limit=seconds),
        "HiGHS": HighsOracle(gap=GAP, time_limit=seconds),
    }


def warm_up() -> float:
    """Compile whatever the searches run on, or load it from the cache; seconds."""
    started = time.perf_counter()
    instance = layered(3, 2, 0)
    for radius, cuts in ((0.0, 0), (1e-3, 0), (1e-3, 10)):
        beliefs = instance.one_shot(10, cuts, radius=radius)
        ours(instance).maximise(instance.objective, beliefs)
    return time.perf_counter() - started


def compile_seconds() -> float:
    """Seconds of :func:`warm_up` in a new process whose cache is empty."""
    with tempfile.TemporaryDirectory() as cache:
        ran = subprocess.run(
            [sys.executable, "-c", "import adapters; print(adapters.warm_up())"],
            cwd=HERE,
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(ran.stdout.splitlines()[-1])


def require_cuts(oracle: Oracle) -> None:
    """Refuse to measure an oracle with cuts that it would ignore."""
    cut = Cuts(np.ones((1, 1)), np.array([-np.inf]), np.array([0.5]))
    answer = oracle.maximise(np.ones(1), Hypotheses(1, 1.0, 0.0).with_cuts(cut))
    if abs(answer.upper - 0.5) > 1e-4:
        raise WaitingError(f"the oracle {oracle.name!r} ignores range cuts")


def first_answer(mode: str, instance: Instance, beliefs: Hypotheses) -> Optimum:
    """The answer of a new oracle with its default settings, on kernels of a kind."""
    return SlabOracle(kernels=mode).maximise(instance.objective, beliefs)


# -------------------------------------------------------------------------------------- the proofs


def make_proof(oracle: Oracle) -> Mapping[str, object]:
    """The proof of the last answer, as the content of its file (docs/proof-format.md)."""
    if not isinstance(oracle, SlabOracle):
        raise WaitingError(f"the oracle {oracle.name!r} writes no proofs")
    return oracle.proof()


@dataclass(frozen=True)
class Verdict:
    """What the checker says: whether it accepts a proof, and its words."""

    accepted: bool
    words: str


def check_proof(path: Path) -> Verdict:
    """Have a proof file decided by the checker, in a process of its own."""
    command = [sys.executable, "-m", "tensorplan.checker", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return Verdict(ran.returncode == 0, (ran.stdout + ran.stderr).strip())


# ------------------------------------------------------------------------------------ single nodes


@dataclass(frozen=True, eq=False)
class Nodes:
    """Convex subproblems of the same shape, in normal form, as our kernel takes them.

    Attributes:
        problems: the arrays of a problem, each with a leading axis over the nodes.
        scale: B |c| of each.
        norm: B of each.
    """

    problems: Problem
    scale: FloatArray
    norm: FloatArray


@dataclass(frozen=True, eq=False)
class Answers:
    """What our kernel says of each node: points, upper bounds, and whether it got to the end."""

    theta: FloatArray
    upper: FloatArray
    solved: bool


def pack_node(objective: FloatArray, norm: float, cuts: Cuts) -> tuple[Problem, float]:
    """A node in normal form, its rows as cuts in force; B |c|."""
    table = RowTable(Hypotheses(len(objective), norm, 0.0).with_cuts(cuts))
    if table.problem.sizes[CUTS] != len(cuts):
        raise ValueError("some row of the node says nothing")
    length = float(np.linalg.norm(objective))
    return table.problem._replace(objective=objective / length), norm * length


def pack_nodes(objectives: FloatArray, norm: float, cuts: Sequence[Cuts]) -> Nodes:
    """Nodes in normal form, all with the same number of rows."""
    packed = [pack_node(c, norm, one) for c, one in zip(objectives, cuts, strict=True)]
    arrays = zip(*(problem for problem, _ in packed), strict=True)
    problems = Problem(*(np.stack(parts) for parts in arrays))
    scale = np.array([scale for _, scale in packed])
    return Nodes(problems, scale, np.full(len(packed), norm))


def solve_nodes(nodes: Nodes, passes: int) -> tuple[float, Answers]:
    """Solve every node from nothing, so many times over; seconds for each node, and answers."""
    problems = nodes.problems
    count, dim = problems.objective.shape
    face = make_face(dim)
    work = make_solve(dim, problems.scan_low.shape[1], problems.low.shape[1])
    theta, upper = np.zeros((count, dim)), np.zeros(count)
    status = np.zeros(count, np.int64)
    solve = _cold_kernel()
    started = time.perf_counter()
    solve(problems, face, work, passes, theta, upper, status)
    seconds = (time.perf_counter() - started) / (passes * count)
    solved = bool(np.all(status == SOLVED))
    return seconds, Answers(theta * nodes.norm[:, None], upper * nodes.scale, solved)


@cache
def _cold_kernel() -> Callable[..., None]:
    """A loop over nodes, compiled, in which each is solved from nothing."""
    numba: Any = importlib.import_module("numba")
    compiled.prepare()

    def solve_all(
        problems: Problem,
        face: Face,
        work: Solve,
        passes: int,
        theta: FloatArray,
        upper: FloatArray,
        status: IntArray,
    ) -> None:
        path = work.near
        for _ in range(passes):
            for i in range(len(upper)):
                problem = Problem(
                    problems.objective[i],
                    problems.normals[i],
                    problems.low[i],
                    problems.high[i],
                    problems.position[i],
                    problems.scan_columns[i],
                    problems.scan_low[i],
                    problems.scan_high[i],
                    problems.scan_rows[i],
                    problems.current[i],
                    problems.owner[i],
                    problems.actions[i],
                    problems.sizes[i],
                )
                status[i], _ = solve_slabs(problem, path, 0, face, 0, 1.0, MANY, work)
                upper[i] = work.best[0]
                for j in range(len(work.theta)):
                    theta[i, j] = work.theta[j]

    return numba.njit(_nrt=False)(solve_all)


# ------------------------------------------------------------------------------- searches, in parts


@dataclass(frozen=True)
class Effort:
    """What a search has done.

    Attributes:
        solves: nodes that were solved to the end.
        looks: children that were given up after a few steps, with the bound they had by then.
        leaves: open ones.
        seconds: in the search, the table of rows not included.
        proved: whether the gap is closed.
    """

    solves: int
    looks: int
    leaves: int
    seconds: float
    proved: bool


@dataclass(frozen=True, eq=False)
class Leaf:
    """The convex subproblem of an open leaf in normal form, solved by projecting a point.

    Attributes:
        target: [d], what is projected.
        normals: [m, d], cuts and chosen slabs.
        low: [m].
        high: [m].
        theta: [d], the projection as our kernel found it.
    """

    target: FloatArray
    normals: FloatArray
    low: FloatArray
    high: FloatArray
    theta: FloatArray


class Inspected:
    """A compiled search of ours whose inside is looked at.

    Args:
        instance: whose objective.
        beliefs: the set.
        to_the_end: whether every child is solved to the end when it is made. The oracle itself
            only looks at children, by a step each, and solves those that come to the top.
    """

    def __init__(
        self, instance: Instance, beliefs: Hypotheses, *, to_the_end: bool = False
    ) -> None:
        direction = instance.objective / np.linalg.norm(instance.objective)
        self._gap = _gap(instance)
        self._table = RowTable(beliefs)
        self._growth = Growth(direction, self._table)
        self._kernels = Kernels("compiled")
        self._seconds = 0.0
        self._proved = False
        if to_the_end:
            self._growth.look_steps = MANY

    def run(self, seconds: float, solves: int = ENDLESS) -> Effort:
        """Go on until the gap is closed or a limit is reached; everything done so far."""
        started = time.perf_counter()
        outcome = self._growth.run(
            self._kernels, gap=self._gap, solves=solves, deadline=started + seconds
        )
        self._seconds += time.perf_counter() - started
        self._proved = outcome.proved
        counts = self._growth.tree.counts
        return Effort(
            int(counts[SOLVES]), int(counts[LOOKS]), int(counts[HEAP]), self._seconds, self._proved
        )

    @property
    def bytes(self) -> int:
        """What the arrays of the tree hold, the room they have left included."""
        return sum(array.nbytes for array in self._growth.tree)

    def leaves(self, most: int) -> list[Leaf]:
        """Open leaves that were solved, at most so many."""
        tree, problem = self._growth.tree, self._table.problem
        slots = tree.entry[: tree.counts[HEAP]]
        slots = slots[tree.stamp[slots] == problem.sizes[STAMP]]
        cuts = problem.scan_rows[: problem.sizes[CUTS]]
        found: list[Leaf] = []
        for slot in slots[:most].tolist():
            path = _path(problem, tree.parent, tree.choice, int(tree.node[slot]))
            rows = np.concatenate([cuts, path])
            found.append(
                Leaf(
                    tree.radius[slot] * self._growth.direction,
                    problem.normals[rows],
                    problem.low[rows],
                    problem.high[rows],
                    tree.theta[slot].copy(),
                )
            )
        return found


def _path(problem: Problem, parent: Int32Array, choice: Int32Array, node: int) -> IntArray:
    """Rows of the slabs that a node has chosen."""
    rows: list[int] = []
    while parent[node] >= 0:
        rows.append(int(problem.current[divmod(int(choice[node]), ACTIONS)]))
        node = int(parent[node])
    return np.array(rows, np.int64)
