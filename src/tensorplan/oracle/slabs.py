"""The optimistic parameter over a union of slabs, by best-first search (theory B2, B3).

A node fixes, for some critical states, which action is consistent there; its subproblem is
convex. The node with the largest bound is expanded at the critical state that its optimum
violates most; when it violates none, its bound is the answer. Children cover the disjunction of
their state, so the largest bound among open nodes is valid at any time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.hypotheses import CriticalState, Hypotheses, rounding_slack
from tensorplan.oracle.affine import solve_flat
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.kernels import INFEASIBLE, Kernel, compiled_kernel, solve_node
from tensorplan.records import FloatArray

_SATISFIED = 1e-9
_HELD = 1e-6
_VOID = 1e-12
_COMPILE_AFTER = 3_000_000
"""Rows times squared dimension, summed over nodes: about two seconds of the plain kernel."""

Choice = tuple[int, int]
"""(critical state, action), both by position."""


@dataclass(frozen=True)
class Disjunction:
    """A critical state, ready for the search.

    Attributes:
        normals: [k, d], unit rows.
        levels: [k]: action a is consistent if |<normal_a, theta> - level_a| <= width_a.
        widths: [k].
        flat: whether the widths are those of rounding only.
    """

    normals: FloatArray
    levels: FloatArray
    widths: FloatArray
    flat: bool

    def violation(self, theta: FloatArray) -> float:
        """How far theta is from the nearest slab; at most 0 inside, inf if there is none."""
        distance = np.abs(self.normals @ theta - self.levels) - self.widths
        return float(distance.min(initial=math.inf))


def prepare(state: CriticalState, radius: float, norm: float) -> Disjunction | None:
    """Scale the rows of a critical state to unit normals, without duplicates.

    Returns:
        None where some action is consistent with every parameter, so that nothing is excluded.
        Actions that are consistent with none are left out.
    """
    scales = np.linalg.norm(state.rows[:, 1:], axis=1)
    constant = scales <= _VOID
    reach = max(radius, rounding_slack(norm))
    if np.any(constant & (np.abs(state.rows[:, 0]) <= reach)):
        return None
    rows = np.unique(state.rows[~constant], axis=0)
    scales = np.linalg.norm(rows[:, 1:], axis=1)
    return Disjunction(
        rows[:, 1:] / scales[:, None], -rows[:, 0] / scales, reach / scales, radius == 0
    )


class SlabOracle:
    """Best-first search over the union of slabs.

    Args:
        node_limit: subproblems after which the search stops with what it has.
    """

    def __init__(self, node_limit: int = 500_000) -> None:
        self.node_limit = node_limit
        self._work = 0
        self._last: tuple[FloatArray, Hypotheses, Optimum] | None = None

    @property
    def name(self) -> str:
        """How it is chosen."""
        return "slabs"

    @property
    def form(self) -> str:
        """Which set it searches."""
        return "union of slabs"

    @property
    def proved(self) -> bool:
        """Bounds and emptiness are by weak duality at explicit multipliers."""
        return True

    def maximise(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum:
        """Maximise <objective, theta> over the union of slabs."""
        optimum = self._still_best(objective, beliefs)
        if optimum is None:
            prepared = (prepare(s, beliefs.half_width, beliefs.norm) for s in beliefs.states)
            disjunctions = [item for item in prepared if item is not None]
            optimum = _Search(self, objective, beliefs.norm, disjunctions).run()
        self._last = (objective, beliefs, optimum)
        return optimum

    def _still_best(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum | None:
        """The last answer, if the set has only shrunk since and still holds its parameter."""
        if self._last is None:
            return None
        earlier, known, optimum = self._last
        same = replace(known, states=()) == replace(beliefs, states=())
        grown = beliefs.states[: len(known.states)] == known.states
        if not (same and grown and np.array_equal(objective, earlier)):
            return None
        if optimum.status is not OracleStatus.OPTIMAL:
            return None
        for state in beliefs.states[len(known.states) :]:
            disjunction = prepare(state, beliefs.half_width, beliefs.norm)
            if disjunction is not None and disjunction.violation(optimum.theta) > 0:
                return None
        return replace(optimum, nodes=0)

    def kernel(self, rows: int, dim: int) -> Kernel:
        """The node kernel: plain at first, compiled once the work done makes it worth it.

        The switch is by the work of this object, not by time: a run with an oracle of its own is
        the same on every machine.
        """
        self._work += (rows + 1) * dim**2
        return compiled_kernel() if self._work > _COMPILE_AFTER else solve_node


class _Search:
    """One search: an open list of nodes, each a path of choices."""

    def __init__(
        self,
        oracle: SlabOracle,
        objective: FloatArray,
        norm: float,
        disjunctions: list[Disjunction],
    ) -> None:
        self._oracle = oracle
        self._objective, self._norm = objective, norm
        self._disjunctions = disjunctions
        self._flat = all(disjunction.flat for disjunction in disjunctions)
        self._order = itertools.count()
        self._open: list[tuple[float, int, int, tuple[Choice, ...], FloatArray]] = []
        self._nodes = 0

    def run(self) -> Optimum:
        self._push((), math.inf)
        while self._open:
            negative_bound, _, _, path, theta = heapq.heappop(self._open)
            upper = float(-negative_bound)
            branch = self._most_violated(theta, path)
            if branch is None or self._nodes >= self._oracle.node_limit:
                # An undecided node can carry a parameter that its own slabs exclude.
                held = branch is None and self._held(theta)
                status = OracleStatus.OPTIMAL if held else OracleStatus.LIMIT
                value = float(self._objective @ theta)
                return Optimum(status, theta, value, max(upper, value), self._nodes)
            for action in range(len(self._disjunctions[branch].levels)):
                self._push((*path, (branch, action)), upper)
        nothing = np.zeros_like(self._objective)
        return Optimum(OracleStatus.EMPTY, nothing, -math.inf, -math.inf, self._nodes)

    def _most_violated(self, theta: FloatArray, path: tuple[Choice, ...]) -> int | None:
        """The undecided critical state that theta violates most; each is decided once a path."""
        decided = {state for state, _ in path}
        worst, found = _SATISFIED * (1 + self._norm), None
        for index, disjunction in enumerate(self._disjunctions):
            if index in decided:
                continue
            violation = disjunction.violation(theta)
            if violation > worst:
                worst, found = violation, index
        return found

    def _held(self, theta: FloatArray) -> bool:
        slack = _HELD * (1 + self._norm)
        return all(each.violation(theta) <= slack for each in self._disjunctions)

    def _push(self, path: tuple[Choice, ...], parent_bound: float) -> None:
        """Solve a node and open it, unless it is empty."""
        self._nodes += 1
        status, theta, bound = self._solve(path)
        if status != INFEASIBLE:
            # The order breaks ties by depth; the bound itself is never touched.
            key = (-min(bound, parent_bound), -len(path), next(self._order))
            heapq.heappush(self._open, (*key, path, theta))

    def _solve(self, path: tuple[Choice, ...]) -> tuple[int, FloatArray, float]:
        normals, levels, widths = self._rows(path)
        if not np.any(self._objective):
            direction = np.eye(1, len(self._objective))[0]
            status, theta, _ = self._solve_convex(direction, normals, levels, widths)
            return status, theta, 0.0
        return self._solve_convex(self._objective, normals, levels, widths)

    def _solve_convex(
        self, objective: FloatArray, normals: FloatArray, levels: FloatArray, widths: FloatArray
    ) -> tuple[int, FloatArray, float]:
        if self._flat:
            return solve_flat(objective, self._norm, normals, levels, widths)
        sides = np.concatenate([normals, -normals])
        offsets = np.concatenate([levels - widths, -levels - widths])
        kernel = self._oracle.kernel(*sides.shape)
        status, theta, bound, _ = kernel(objective, self._norm, sides, offsets)
        return status, theta, bound

    def _rows(self, path: tuple[Choice, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
        dim = len(self._objective)
        if not path:
            return np.zeros((0, dim)), np.zeros(0), np.zeros(0)
        normals, levels, widths = zip(*self._pick(path), strict=True)
        return np.array(normals), np.array(levels), np.array(widths)

    def _pick(self, path: tuple[Choice, ...]) -> Iterator[tuple[FloatArray, float, float]]:
        for state, action in path:
            chosen = self._disjunctions[state]
            yield chosen.normals[action], chosen.levels[action], chosen.widths[action]
