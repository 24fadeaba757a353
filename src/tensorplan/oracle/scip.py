"""The optimistic oracle by SCIP: exact up to tolerances, slow, and independent of our own search.

Both forms of the believable set are programs for SCIP. Every factor <row_a, (1, theta)> of a
critical state is divided by its largest absolute value m_a over the ball, to g_a in [-1, 1], and
theta by B, to y. Then, with k factors and threshold kappa (eq. sol),

* the product form is |prod_a g_a| <= kappa / prod_a m_a, a polynomial constraint;
* the union of slabs (theory B2) is min_a |g_a| m_a <= kappa^(1/k), one binary choice per factor.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensorplan.errors import OracleError, SettingError
from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
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

WIDENED = 1e-8
"""By how much SCIP's sets are widened, in units of a normalised factor and of the ball.

NOTE: without it, sets with no interior (noise-free equalities, a ball that touches a slab) are
called empty when the last bits of their data disagree.
"""

BOUND_SLACK = 1e-7
"""What is added to SCIP's upper bound for its tolerances, as a fraction of B ||c||."""

ACCEPTED = 2e-7
"""How far each normalised factor of SCIP's answer may be from where the set wants it."""

STRETCHED_BOUND = 0.1
"""The bound on a product to which its factors are stretched, far above SCIP's tolerance."""

STRETCH = 1e3
"""Largest range of a stretched factor.

NOTE: steeper factors break SCIP's relaxations: at 1e5, 1 answer in 300 was wrong.
"""

Parameters = Mapping[str, bool | float | str]
Form = Literal["product", "slabs"]

_WAY_OUT = "Use the oracle 'slabs', or a larger threshold."
_SAFEGUARDS: Parameters = {
    "numerics/feastol": TOLERANCE,
    "numerics/dualfeastol": TOLERANCE,
    "propagating/obbt/dualfeastol": TOLERANCE,
    "constraints/nonlinear/tightenlpfeastol": False,
}
_UNTIGHTENED: Parameters = {"propagating/maxrounds": 0, "propagating/maxroundsroot": 0}
"""For a second attempt: tightening bounds is where SCIP errs on thin sets, if it does."""


@dataclass(frozen=True)
class Factors:
    """A critical state in normal form, over y = theta / B in the unit ball.

    Attributes:
        rows: [m, d + 1], distinct rows, each with |<row, (1, y)>| <= 1 on the ball.
        powers: [m], how often each row occurs; they sum to k.
        radii: [m], half-widths of the slabs over m_a.
        root: the k-th root of the bound on the product of the normalised factors.
    """

    rows: FloatArray
    powers: tuple[int, ...]
    radii: FloatArray
    root: float

    def excess(self, y: FloatArray, form: Form) -> float:
        """How far each factor must at least come down for y to be in the set (0 inside)."""
        values = np.abs(self.rows[:, 0] + self.rows[:, 1:] @ y)
        if form == "slabs" or self.root == 0:
            return max(0.0, float((values - self.radii).min()))
        logs = np.log(np.maximum(values - ACCEPTED, 1e-300))
        mean = float(np.dot(self.powers, logs)) / sum(self.powers)
        return 0.0 if mean <= math.log(self.root) + ACCEPTED else math.exp(mean) - self.root


def normalise(state: CriticalState, beliefs: Hypotheses, form: Form) -> Factors | None:
    """Normal form of a critical state, or None if it excludes nothing (as with a zero row)."""
    rows, counts = np.unique(state.rows + 0.0, axis=0, return_counts=True)
    largest = np.abs(rows[:, 0]) + beliefs.norm * np.linalg.norm(rows[:, 1:], axis=1)
    radius = beliefs.half_width if form == "slabs" else beliefs.root
    if not largest.all():
        return None
    root = radius / math.exp(float(np.dot(counts, np.log(largest))) / len(state.rows))
    if (radius >= largest.min()) if form == "slabs" else (root >= 1):
        return None
    unit = rows / largest[:, None]
    unit[:, 1:] *= beliefs.norm
    return Factors(unit, tuple(int(count) for count in counts), radius / largest, root)


class Program:
    """SCIP's model: a ball and an objective, [d]; then a disjunction for each critical state."""

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


def _load() -> ModuleType:
    try:
        return importlib.import_module("pyscipopt")
    except ImportError as error:
        raise OracleError(
            "oracle 'scip'",
            "it needs the package pyscipopt, which cannot be imported here",
            "Run `pip install 'tensorplan[scip]'`, or choose the oracle 'slabs'.",
        ) from error


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
        rules = (
            ("form", self.form in ("product", "slabs"), '"product" or "slabs"'),
            ("gap", self.gap >= 0, "at least 0"),
            ("node_limit", self.node_limit is None or self.node_limit >= 1, "at least 1, or None"),
            ("time_limit", self.time_limit is None or self.time_limit >= 0, "at least 0, or None"),
            ("seed", 0 <= self.seed < 2**31, "from 0 to 2^31 - 1"),
        )
        for name, holds, rule in rules:
            if not holds:
                value = f"ScipOracle.{name}={getattr(self, name)!r}"
                raise SettingError(value, f"it must be {rule}", "Set it so.")

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
        normal = [normalise(state, beliefs, self.form) for state in beliefs.states]
        states = [factors for factors in normal if factors is not None]
        limits = self._limits(beliefs.norm * float(np.linalg.norm(objective)))
        empty: list[Optimum] = []
        for extra in (_SAFEGUARDS, {**_SAFEGUARDS, **_UNTIGHTENED}):
            program = self._program(objective, states)
            if program.solve({**extra, **limits}):
                answer = self._answer(program, objective, beliefs, states)
                if answer.status is not OracleStatus.EMPTY:
                    return answer
                empty.append(answer)
        # A set is called empty only if it is so twice: a thin one can slip through once.
        if len(empty) == 2:
            return empty[-1]
        raise OracleError("SCIP's LP solver", "it broke down numerically on this set", _WAY_OUT)

    def _program(self, objective: FloatArray, states: list[Factors]) -> Program:
        program = Program(_load(), objective / (float(np.linalg.norm(objective)) or 1.0))
        for factors in states:
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
        self, program: Program, objective: FloatArray, beliefs: Hypotheses, states: list[Factors]
    ) -> Optimum:
        status = program.model.getStatus()
        nodes = int(program.model.getNTotalNodes())
        if status == "userinterrupt":
            raise KeyboardInterrupt
        if status in ("infeasible", "inforunbd"):
            empty = np.zeros(beliefs.dim)
            return Optimum(OracleStatus.EMPTY, empty, -math.inf, -math.inf, nodes)
        square = float(objective @ objective)
        scale = beliefs.norm * math.sqrt(square)
        upper = min(scale, scale * (program.model.getDualbound() / SPAN + BOUND_SLACK))
        y = program.solution()
        if y is None:
            theta = objective * (upper / square) if square else np.zeros(beliefs.dim)
            return Optimum(OracleStatus.LIMIT, theta, float(objective @ theta), upper, nodes)
        excess = max((factors.excess(y, self.form) for factors in states), default=0.0)
        if excess > ACCEPTED:
            found = f"SCIP's parameter, off by {excess:.1e} at a critical state"
            raise OracleError(found, f"it may be off by {ACCEPTED:.0e}", _WAY_OUT)
        theta = beliefs.norm * y
        value = float(objective @ theta)
        done = OracleStatus.OPTIMAL if status in ("optimal", "gaplimit") else OracleStatus.LIMIT
        return Optimum(done, theta, value, max(value, upper), nodes)
