"""HiGHS's model of the union of slabs over an outer polyhedron of the ball (see ``highs``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorplan.errors import OracleError
from tensorplan.oracle.external import WAY_OUT, WIDENED, Factors
from tensorplan.records import FloatArray

if TYPE_CHECKING:
    from types import ModuleType

    import highspy

TOLERANCE = 1e-9
"""HiGHS's, for feasibility, integrality and optimality."""

LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Where the parabolas have tangents from the start."""


@dataclass(frozen=True)
class Outcome:
    """How one program ended.

    Attributes:
        bound: upper bound on the objective, inf if there is none; -inf if infeasible.
        finished: whether it ran to its end.
        y: [d], the best point, if there is one.
        chosen: the binary choices there.
        nodes: branch-and-bound nodes.
    """

    bound: float
    finished: bool
    y: FloatArray | None
    chosen: tuple[bool, ...]
    nodes: int


class Program:
    """HiGHS's model: columns y, [d], and w, [d], over cuts and tangents; then choices."""

    def __init__(self, highs: ModuleType, direction: FloatArray, cuts: FloatArray) -> None:
        self._types = highs.HighsVarType
        self._statuses = highs.HighsModelStatus
        self._dim = len(direction)
        self._choices = 0
        self.solver: highspy.Highs = highs.Highs()
        self._set_options()
        reach = 1 + WIDENED
        for cost in direction:
            self.solver.addCol(float(cost), -reach, reach, 0, np.zeros(0, np.int32), np.zeros(0))
        for _ in direction:
            self.solver.addVar(0.0, reach**2)
        self.solver.changeObjectiveSense(highs.ObjSense.kMaximize)
        self._row(np.ones(self._dim), -math.inf, reach**2, start=self._dim)
        for row in cuts:
            self._row(row[1:], -math.inf, WIDENED - float(row[0]))
        for level in LEVELS:
            self.add_tangents(np.full(self._dim, level))

    def _set_options(self) -> None:
        options: dict[str, bool | float | str] = {
            "output_flag": False,
            "threads": 1,
            "parallel": "off",
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
            "mip_feasibility_tolerance": TOLERANCE,
            "mip_rel_gap": 0.0,
            "small_matrix_value": 1e-12,
        }
        for name, value in options.items():
            self.option(name, value)

    def option(self, name: str, value: bool | float | str) -> None:
        """Set one of HiGHS's options."""
        self.solver.setOptionValue(name, value)

    def _row(
        self,
        weights: FloatArray,
        low: float,
        high: float,
        *,
        start: int = 0,
        more: tuple[tuple[int, float], ...] = (),
    ) -> None:
        """Low <= <weights, columns from start on> + more <= high."""
        (kept,) = np.nonzero(weights)
        columns = np.concatenate([kept + start, [column for column, _ in more]]).astype(np.int32)
        values = np.concatenate([weights[kept], [weight for _, weight in more]])
        self.solver.addRow(low, high, len(columns), columns, values)

    def add_tangents(self, point: FloatArray) -> None:
        """w_i is at least the tangent of y_i^2 at point_i."""
        for i, at in enumerate(point):
            self._row(
                np.array([-2 * float(at)]),
                -(float(at) ** 2),
                math.inf,
                start=i,
                more=((self._dim + i, 1.0),),
            )

    def add_slab(self, row: FloatArray, radius: float) -> None:
        """|<row, (1, y)>| is at most the radius."""
        self._row(row[1:], -radius - float(row[0]), radius - float(row[0]))

    def add_disjunction(self, factors: Factors) -> None:
        """Some normalised factor is within its radius (theory B2)."""
        first = 2 * self._dim + self._choices
        for row, radius in zip(factors.rows, factors.radii + WIDENED, strict=True):
            column, room = 2 * self._dim + self._choices, max(0.0, 1 - float(radius))
            self.solver.addVar(0.0, 1.0)
            self.solver.changeColIntegrality(column, self._types.kInteger)
            self._row(row[1:], -math.inf, 1 - float(row[0]), more=((column, room),))
            self._row(row[1:], -1 - float(row[0]), math.inf, more=((column, -room),))
            self._choices += 1
        self._row(np.ones(len(factors.rows)), 1.0, math.inf, start=first)

    def solve(self, seconds: float) -> Outcome:
        """Run HiGHS for at most that long."""
        # HiGHS counts from the first run of a model.
        self.option("time_limit", min(self.solver.getRunTime() + max(0.0, seconds), 1e20))
        self.solver.run()
        status, info = self.solver.getModelStatus(), self.solver.getInfo()
        nodes = max(0, int(info.mip_node_count)) if self._choices else 0
        if status == self._statuses.kInfeasible:
            return Outcome(-math.inf, True, None, (), nodes)
        finished = status == self._statuses.kOptimal
        limits = (self._statuses.kTimeLimit, self._statuses.kSolutionLimit)
        if not finished and status not in limits:
            said = self.solver.modelStatusToString(status)
            raise OracleError("HiGHS", f"it broke down on this set ({said})", WAY_OUT)
        bound = math.inf
        if self._choices:
            bound = float(info.mip_dual_bound)
        elif finished:
            bound = float(info.objective_function_value)
        solution = self.solver.getSolution()
        if not solution.value_valid or not math.isfinite(info.objective_function_value):
            return Outcome(bound, finished, None, (), nodes)
        values = np.array(solution.col_value, dtype=np.float64)
        chosen = tuple(bool(value > 0.5) for value in values[2 * self._dim :])
        return Outcome(bound, finished, values[: self._dim], chosen, nodes)
