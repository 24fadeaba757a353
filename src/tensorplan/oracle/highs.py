"""The optimistic oracle by HiGHS: mixed-integer linear programs over an outer polyhedron.

The union of slabs (theory B2) is linear with one binary choice per factor, over y = theta / B and
with rows in normal form (``external``): a factor g_a in [-1, 1] that is not chosen is free, so
that |g_a| <= 1 - (1 - radius_a) z_a is the tightest big-M. Range and Bellman cuts (B4) are linear.

The ball is not. It is w_i >= y_i^2 with sum w_i <= 1, each parabola replaced by tangents at
points of the sphere: d tangents for such a point a include sum a_i y_i <= 1, the ball's own
tangent, and those of several points combine. Rounds of the master problem choose actions; the
convex problem of that choice alone is then solved by linear programs, with tangents at the scaled
optimum of each until it is in the ball. All tangents go to the master problem, whose bounds stay
valid for the set, because every polyhedron contains the ball.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.external import (
    ACCEPTED,
    BOUND_SLACK,
    WIDENED,
    UnitSet,
    bound_only,
    check_limits,
    load_package,
    nothing_left,
    unit_set,
)
from tensorplan.oracle.highs_model import TOLERANCE, Outcome, Program
from tensorplan.records import FloatArray

if TYPE_CHECKING:
    from types import ModuleType

OUTSIDE = 2 * WIDENED
"""How far outside the ball a point may be before it is cut off; what is kept is pulled back."""

TANGENTS = 500
"""Linear programs for one choice of actions before the master problem chooses again."""


@dataclass
class _Search:
    """One search: rounds of the master problem, each followed by the problem of its choice.

    Attributes:
        highs: the package.
        direction: [d], the objective in normal form, of norm 1 or 0.
        within: the set in normal form.
        gap: largest accepted difference of the bounds, in units of the objective's norm.
        node_limit: largest number of nodes.
        deadline: when to stop, by the clock of ``time.perf_counter``.
        seed: of HiGHS's tie-breaking.
        upper: upper bound on the objective.
        best: [d], the best parameter found, and its value.
        nodes: nodes so far.
        points: where tangents have been added.
    """

    highs: ModuleType
    direction: FloatArray
    within: UnitSet
    gap: float
    node_limit: float
    deadline: float
    seed: int
    upper: float = 1.0
    best: FloatArray | None = None
    value: float = -math.inf
    nodes: int = 0
    points: list[FloatArray] = field(default_factory=list[FloatArray])

    def run(self) -> OracleStatus:
        """Search until the bounds meet, or a limit is reached."""
        master = self._master()
        while True:
            outcome = self._choose(master)
            if outcome.finished and outcome.y is None:
                if self.best is None and self._is_empty(master):
                    return OracleStatus.EMPTY
                return OracleStatus.LIMIT if self.best is None else OracleStatus.OPTIMAL
            self.upper = min(self.upper, outcome.bound)
            known = len(self.points)
            if outcome.y is not None:
                self._solve_choice(outcome.chosen)
            if self.upper - self.value <= self.gap + BOUND_SLACK / 2:
                return OracleStatus.OPTIMAL
            if not outcome.finished or len(self.points) == known or self._left() <= 0:
                return OracleStatus.LIMIT
            for point in self.points[known:]:
                master.add_tangents(point)

    def _left(self) -> float:
        return self.deadline - time.perf_counter()

    def _program(self) -> Program:
        program = Program(self.highs, self.direction, self.within.cuts)
        program.option("random_seed", self.seed)
        length = float(np.linalg.norm(self.direction))
        for point in [self.direction] * (length > 0) + self.points:
            program.add_tangents(point)
        return program

    def _master(self) -> Program:
        master = self._program()
        master.option("mip_abs_gap", self.gap / 2)
        for factors in self.within.states:
            master.add_disjunction(factors)
        return master

    def _choose(self, master: Program) -> Outcome:
        """The master problem's choice of actions, within what is left of the limits."""
        nodes = min(self.node_limit - self.nodes, 2**31 - 1)
        if nodes <= 0:
            return Outcome(math.inf, False, None, (), 0)
        master.option("mip_max_nodes", int(nodes))
        outcome = master.solve(self._left())
        self.nodes += max(1, outcome.nodes)
        return outcome

    def _is_empty(self, master: Program) -> bool:
        """Whether the master problem is infeasible also without presolve."""
        master.option("presolve", "off")
        outcome = self._choose(master)
        return outcome.finished and outcome.y is None

    def _solve_choice(self, chosen: tuple[bool, ...]) -> None:
        """Maximise over the convex set of one choice; its tangents cut it off where it is worse."""
        program = self._program()
        slabs = (zip(each.rows, each.radii, strict=True) for each in self.within.states)
        for (row, radius), one in zip(itertools.chain(*slabs), chosen, strict=True):
            if one:
                program.add_slab(row, float(radius) + WIDENED + 2 * TOLERANCE)
        for _ in range(TANGENTS):
            outcome = program.solve(self._left())
            if outcome.y is None or outcome.bound <= self.value:
                return
            length = float(np.linalg.norm(outcome.y))
            if length <= 1 + OUTSIDE:
                self._keep(outcome.y / max(1.0, length))
                return
            self.points.append(outcome.y / length)
            program.add_tangents(self.points[-1])

    def _keep(self, y: FloatArray) -> None:
        value = float(self.direction @ y)
        if value > self.value and self.within.excess(y) <= ACCEPTED:
            self.best, self.value = y, value


@dataclass(frozen=True)
class HighsOracle:
    """Maximises <c, theta> over the union of slabs with HiGHS, on one thread.

    Nothing that HiGHS says is proved in exact arithmetic: use it to check, and to compare with.
    OPTIMAL means that upper - value is at most ``gap``, but for the tolerances (twice
    ``BOUND_SLACK`` B ||c||). After LIMIT without a parameter, theta is the shortest one that
    predicts the upper bound, and need not lie in the set.

    Attributes:
        gap: largest accepted difference of the bounds on <c, theta>.
        node_limit: largest number of branch-and-bound nodes of all rounds together, or None.
        time_limit: seconds, or None.
        seed: of HiGHS's tie-breaking.
    """

    gap: float = 1e-6
    node_limit: int | None = None
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        check_limits(self)

    @property
    def name(self) -> str:
        """How it is chosen."""
        return "highs"

    @property
    def form(self) -> str:
        """Which set it searches."""
        return "union of slabs"

    @property
    def proved(self) -> bool:
        """HiGHS's answers hold within its tolerances; it proves nothing."""
        return False

    def maximise(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum:
        """Maximise <objective, theta> over the union of slabs (theory B2).

        Raises:
            OracleError: highspy is missing, or HiGHS broke down.
        """
        within = unit_set(beliefs, "slabs")
        if within is None:
            return nothing_left(beliefs.dim, 0)
        length = float(np.linalg.norm(objective))
        scale = beliefs.norm * length
        search = _Search(
            load_package("highspy", "highs"),
            objective / (length or 1.0),
            within,
            self.gap / scale if scale else 0.0,
            math.inf if self.node_limit is None else self.node_limit,
            time.perf_counter() + (math.inf if self.time_limit is None else self.time_limit),
            self.seed,
        )
        status = search.run()
        if status is OracleStatus.EMPTY:
            return nothing_left(beliefs.dim, search.nodes)
        upper = scale * min(1.0, search.upper + BOUND_SLACK)
        if search.best is None:
            return bound_only(objective, upper, search.nodes)
        theta = beliefs.norm * search.best
        value = float(objective @ theta)
        return Optimum(status, theta, value, max(value, upper), search.nodes)
