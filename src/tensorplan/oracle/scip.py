"""The optimistic oracle by SCIP: exact up to tolerances, slow, and independent of our own search.

Both forms of the believable set are programs for SCIP, over y = theta / B in the unit ball and
with rows in normal form (``external``). With k factors g_a of a critical state, whose largest
values were m_a, and threshold kappa (eq. sol),

* the product form is |prod_a g_a| <= kappa / prod_a m_a, a polynomial constraint;
* the union of slabs (theory B2) is |g_a| m_a <= radius_a for some a, one binary choice per factor.

Range cuts and Bellman cuts (theory B4) are linear in both. The radii of a critical state matter
to slabs and to Bellman cuts only: the product has one threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorplan.errors import OracleError, SettingError
from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.external import (
    ACCEPTED,
    BOUND_SLACK,
    WAY_OUT,
    WIDENED,
    Factors,
    Form,
    UnitSet,
    bound_only,
    check_limits,
    load_package,
    nothing_left,
    unit_set,
)
from tensorplan.records import FloatArray

if TYPE_CHECKING:
    from types import ModuleType

    from pyscipopt import Expr, Model, Variable

TOLERANCE = 1e-7  # SCIP's, for feasibility and optimality
SPAN = 100.0
"""Half the range of SCIP's variables.

NOTE: SCIP's tolerances are absolute. On this span 1e-7 is as tight as 1e-9 on [-1, 1]; asked for
the latter, SoPlex keeps warning on stderr that it cannot go lower.
"""

STRETCHED_BOUND = 0.1
"""The bound on a product to which its factors are stretched, far above SCIP's tolerance."""

STRETCH = 1e3
"""Largest range of a stretched factor.

NOTE: steeper factors break SCIP's relaxations: at 1e5, 1 answer in 300 was wrong.
"""

Parameters = Mapping[str, bool | float | str]

_SAFEGUARDS: Parameters = {
    "numerics/feastol": TOLERANCE,
    "numerics/dualfeastol": TOLERANCE,
    "propagating/obbt/dualfeastol": TOLERANCE,
    "constraints/nonlinear/tightenlpfeastol": False,
}
_UNTIGHTENED: Parameters = {"propagating/maxrounds": 0, "propagating/maxroundsroot": 0}
"""For a second attempt: tightening bounds is where SCIP errs on thin sets, if it does."""


class Program:
    """SCIP's model: a ball and an objective, [d]; then the cuts and the critical states."""

    def __init__(self, pyscipopt: ModuleType, direction: FloatArray) -> None:
        self._sum, self._product = pyscipopt.quicksum, pyscipopt.quickprod
        self.model: Model = pyscipopt.Model()
        self.model.hideOutput()
        self._y = [self._variable(SPAN) for _ in direction]
        self.model.addCons(self._sum(y * y for y in self._y) <= (SPAN * (1 + WIDENED)) ** 2)
        self.model.setObjective(self._linear(direction), sense="maximize")

    def _variable(self, bound: float) -> Variable:
        return self.model.addVar(lb=-bound, ub=bound)

    def _linear(self, weights: FloatArray) -> Expr:
        terms = zip(weights, self._y, strict=True)
        return self._sum(float(weight) * y for weight, y in terms if weight)

    def _factor(self, row: FloatArray, span: float) -> Variable:
        """A variable that equals span * <row, (1, y)>."""
        factor = self._variable(span)
        self.model.addCons(factor == self._linear(span / SPAN * row[1:]) + span * float(row[0]))
        return factor

    def add_cut(self, row: FloatArray) -> None:
        """<row, (1, y)> is at most 0 (theory B4)."""
        self.model.addCons(self._linear(row[1:]) <= SPAN * (WIDENED - float(row[0])))

    def add_slabs(self, factors: Factors) -> None:
        """Some normalised factor is within its radius (theory B2)."""
        choices: list[Variable] = []
        for row, radius in zip(factors.rows, factors.radii + WIDENED, strict=True):
            room = SPAN * max(0.0, 1 - float(radius))
            factor = self._factor(row, SPAN)
            chosen = self.model.addVar(vtype="B")
            self.model.addCons(factor <= SPAN - room * chosen)
            self.model.addCons(factor >= room * chosen - SPAN)
            choices.append(chosen)
        self.model.addCons(self._sum(choices) >= 1)

    def add_product(self, factors: Factors) -> None:
        """The product of the normalised factors is at most root^k (eq. sol)."""
        count = sum(factors.powers)
        span = min(STRETCH, STRETCHED_BOUND ** (1 / count) / factors.root)
        bound = (span * (factors.root + WIDENED)) ** count
        repeated = zip(
            (self._factor(row, span) for row in factors.rows), factors.powers, strict=True
        )
        product = self._product(one for one, power in repeated for _ in range(power))
        self.model.addCons(product <= bound)
        self.model.addCons(product >= -bound)

    def solve(self, parameters: Parameters) -> bool:
        """Run SCIP; whether it came to an end without a numerical breakdown."""
        self.model.setParams(parameters)
        try:
            self.model.optimize()
        except Exception as error:  # PySCIPOpt raises nothing narrower
            if "LP solver" not in str(error):
                raise
            return False
        return True

    def solution(self) -> FloatArray | None:
        """SCIP's best y, [d], pulled back into the unit ball; None if it has none."""
        best = self.model.getBestSol()
        if best is None or not self.model.getNSols():
            return None
        y = np.array([self.model.getSolVal(best, variable) for variable in self._y]) / SPAN
        return y / max(1.0, float(np.linalg.norm(y)))


@dataclass(frozen=True)
class ScipOracle:
    """Maximises <c, theta> over either form of the believable set with SCIP.

    Nothing that SCIP says is proved in exact arithmetic: use it on small problems, and to check.
    OPTIMAL means that upper - value is at most ``gap``, but for the tolerances (``BOUND_SLACK``
    B ||c||). After LIMIT without a parameter, theta is the shortest one that predicts the upper
    bound, and need not lie in the set.

    Attributes:
        form: "product" for eq. (sol), "slabs" for its relaxation to unions of slabs.
        gap: largest accepted difference of the bounds on <c, theta>.
        node_limit: largest number of nodes, or None.
        time_limit: seconds for each attempt (emptiness takes two), or None.
        seed: of SCIP's tie-breaking.
    """

    form: Form = "slabs"
    gap: float = 1e-6
    node_limit: int | None = None
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if self.form not in ("product", "slabs"):
            value = f"ScipOracle.form={self.form!r}"
            raise SettingError(value, 'it must be "product" or "slabs"', "Set it so.")
        check_limits(self)

    @property
    def name(self) -> str:
        """How it is chosen."""
        return "product" if self.form == "product" else "scip-slabs"

    @property
    def proved(self) -> bool:
        """SCIP's answers hold within its tolerances; it proves nothing."""
        return False

    def maximise(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum:
        """Maximise <objective, theta> over the set (eq. sol, or theory B2).

        Raises:
            OracleError: PySCIPOpt is missing, SCIP broke down, or its parameter is not in the set.
        """
        within = unit_set(beliefs, self.form)
        if within is None:
            return nothing_left(beliefs.dim, 0)
        limits = self._limits(beliefs.norm * float(np.linalg.norm(objective)))
        empty: list[Optimum] = []
        for extra in (_SAFEGUARDS, {**_SAFEGUARDS, **_UNTIGHTENED}):
            program = self._program(objective, within)
            if program.solve({**extra, **limits}):
                answer = self._answer(program, objective, beliefs.norm, within)
                if answer.status is not OracleStatus.EMPTY:
                    return answer
                empty.append(answer)
        # A set is called empty only if it is so twice: a thin one can slip through once.
        if len(empty) == 2:
            return empty[-1]
        raise OracleError("SCIP's LP solver", "it broke down numerically on this set", WAY_OUT)

    def _program(self, objective: FloatArray, within: UnitSet) -> Program:
        direction = objective / (float(np.linalg.norm(objective)) or 1.0)
        program = Program(load_package("pyscipopt", "scip"), direction)
        for row in within.cuts:
            program.add_cut(row)
        for factors in within.states:
            # One factor, or a product that must vanish: there both forms are the same set.
            same = len(factors.rows) == 1 or factors.root == 0
            add = program.add_slabs if same or self.form == "slabs" else program.add_product
            add(factors)
        return program

    def _limits(self, scale: float) -> Parameters:
        return {
            "limits/absgap": SPAN * self.gap / scale if scale else 0.0,
            "limits/totalnodes": -1 if self.node_limit is None else self.node_limit,
            "limits/time": 1e20 if self.time_limit is None else self.time_limit,
            "randomization/randomseedshift": self.seed,
        }

    def _answer(
        self, program: Program, objective: FloatArray, norm: float, within: UnitSet
    ) -> Optimum:
        status = program.model.getStatus()
        nodes = int(program.model.getNTotalNodes())
        if status == "userinterrupt":
            raise KeyboardInterrupt
        if status in ("infeasible", "inforunbd"):
            return nothing_left(len(objective), nodes)
        scale = norm * float(np.linalg.norm(objective))
        upper = min(scale, scale * (program.model.getDualbound() / SPAN + BOUND_SLACK))
        y = program.solution()
        if y is None:
            return bound_only(objective, upper, nodes)
        excess = within.excess(y)
        if excess > ACCEPTED:
            found = f"SCIP's parameter, off by {excess:.1e} at a critical state or cut"
            raise OracleError(found, f"it may be off by {ACCEPTED:.0e}", WAY_OUT)
        theta = norm * y
        value = float(objective @ theta)
        done = OracleStatus.OPTIMAL if status in ("optimal", "gaplimit") else OracleStatus.LIMIT
        return Optimum(done, theta, value, max(value, upper), nodes)
