"""Hull propagation: ranges of phi . theta at stored states, tightened over their actions (B4).

The range of phi . theta over the believable set lies in the hull of its ranges over the slabs of
the state's actions, each a convex problem under all cuts and claims so far. What one state gains
sharpens the others, so states are taken from the last stage to the first, and rounds are repeated
while they pay. For features along the axes, :mod:`tensorplan.oracle.propagation` does the same at a
fraction of the price.
"""

from __future__ import annotations

import math

import numpy as np

from tensorplan.oracle.arrays import Problem
from tensorplan.oracle.claims import Case, Claim
from tensorplan.oracle.growth import make_tree, scratch_for
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.node import EMPTY
from tensorplan.oracle.propagation import ROOM, WORTH
from tensorplan.oracle.rows import CLAIM, RowTable
from tensorplan.oracle.tree import ALONE, SIZE, Search
from tensorplan.records import FloatArray

_EPS = float(np.finfo(np.float64).eps)


class Hull:
    """Ranges of phi . theta at the states of a table, and the claims that prove them.

    Attributes:
        ranges: state -> (low, high) of <phi / |phi|, theta / B>, as far as it was claimed.
    """

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self.ranges: dict[int, tuple[float, float]] = {}
        self._tree = make_tree(table.beliefs.dim, 1)
        self._search: Search | None = None

    def tighten(self, kernels: Kernels, rounds: int) -> bool:
        """Go through all states, at most so many times; whether anything was gained."""
        states = [
            index
            for index, known in enumerate(self.table.states)
            if known.live and known.epochs[-1].features is not None
        ]
        states.sort(key=lambda index: -self.table.states[index].epochs[-1].stage)
        gained = False
        for _ in range(rounds):
            news = [
                self._tighten_state(kernels, index, side) for index in states for side in (1, -1)
            ]
            gained = gained or any(news)
            if not any(news):
                break
        return gained

    def _tighten_state(self, kernels: Kernels, index: int, side: int) -> bool:
        """Claim a better limit at a state, if there is one that is worth it."""
        known = self.table.states[index]
        features = known.epochs[-1].features
        assert features is not None
        length = float(np.linalg.norm(features))
        if length == 0.0:
            return False
        problem = self.table.problem._replace(objective=side * features / length)
        search = self._search = scratch_for(problem, self._search)
        cases: list[Case] = []
        limit = -math.inf
        for action in range(len(known.epochs[-1].rows)):
            if action in known.same:
                cases.append(Case(same=known.same[action]))
            elif action in known.dead:
                row = known.dead[action]
                turned = 1.0 if problem.high[row] < 0 else -1.0
                cases.append(Case((row,), (turned,), empty=True))
            else:
                row = int(problem.current[index, action])
                bound, case = self._solve(kernels, problem, search, row)
                limit = max(limit, bound)
                cases.append(case)
        low, high = self.ranges.get(index, (-1.0, 1.0))
        current = high if side > 0 else -low
        if limit == -math.inf or current - limit <= WORTH * (high - low):
            return False
        self.ranges[index] = (low, limit) if side > 0 else (-limit, high)
        self._claim(features, side, limit * length, index, cases)
        return True

    def _solve(
        self, kernels: Kernels, problem: Problem, search: Search, row: int
    ) -> tuple[float, Case]:
        """The bound on the objective over one slab, and why."""
        search.path[0], search.limits[ALONE] = row, 1
        status = kernels.run(problem, self._tree, search)
        size, work = int(search.limits[SIZE]), search.work
        rows, values = work.rows[:size].tolist(), work.multipliers[:size].tolist()
        if status == EMPTY:
            return -math.inf, Case(tuple(rows), tuple(values), empty=True)
        return float(work.best[0]), Case(tuple(rows), tuple(values))

    def _claim(
        self, features: FloatArray, side: int, limit: float, index: int, cases: list[Case]
    ) -> None:
        table = self.table
        value = table.beliefs.norm * limit
        value += 16 * _EPS * (abs(value) + table.beliefs.norm * float(np.abs(features).sum()))
        value += ROOM * table.beliefs.norm * float(np.linalg.norm(features))
        first = sum(len(block) for block in table.blocks)
        normal = side * features
        table.add_bounds(CLAIM, first, normal[None], np.array([-np.inf]), np.array([value]))
        table.blocks.append((Claim(features, side, value, index, tuple(cases)),))
