"""Ranges of linear functions over the relaxation of a set: the ball, the cuts and the claims."""

from __future__ import annotations

import numpy as np

from tensorplan.oracle.arrays import Problem
from tensorplan.oracle.growth import make_tree, scratch_for
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.node import EMPTY
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.tree import ALONE, Search
from tensorplan.records import FloatArray

_EPS = float(np.finfo(np.float64).eps)


class Spans:
    """Bounds linear functions over what holds for every parameter of a table.

    Args:
        table: the rows.
    """

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._tree = make_tree(table.beliefs.dim, 1)
        self._search: Search | None = None
        self._extra: list[int] = []

    def also(self, normal: FloatArray, low: float, high: float) -> None:
        """Ask only about parameters with low <= <normal, theta> <= high, from now on."""
        row = self.table.add_unenforced(normal, low, high)
        self._extra = [row]

    def find(self, kernels: Kernels, directions: FloatArray) -> FloatArray:
        """Lowest and highest value of <g, theta> for each of m directions g: [m, 2]."""
        found = np.zeros((len(directions), 2))
        lengths = np.linalg.norm(directions, axis=1)
        for k in np.flatnonzero(lengths > 0).tolist():
            size = float(lengths[k])
            for side in (1, -1):
                problem = self.table.problem._replace(objective=side * directions[k] / size)
                high = self._highest(kernels, problem) * size * self.table.beliefs.norm
                found[k, (side + 1) // 2] = side * (high + 8 * _EPS * abs(high))
        return found

    def _highest(self, kernels: Kernels, problem: Problem) -> float:
        """Bound on the objective in normal form; that of the ball where the set seems empty."""
        search = self._search = scratch_for(problem, self._search)
        search.path[: len(self._extra)] = self._extra
        search.limits[ALONE] = len(self._extra)
        if kernels.run(problem, self._tree, search) == EMPTY:
            return 1.0
        return min(1.0, float(search.work.best[0]))
