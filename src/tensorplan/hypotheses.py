"""What is still believable: the parameters that no failed test has excluded.

The paper's set Sol (eq. sol) keeps a parameter theta with ||theta|| <= B if, at every critical
state i, the product over actions of <Delta_ia, (1, theta)> is at most a threshold kappa in
absolute value. Its relaxation to a union of slabs keeps theta if some single factor is at most
kappa^(1/A): a larger set, so optimism and retention stay (theory B2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.records import FloatArray


@dataclass(frozen=True, eq=False)
class CriticalState:
    """Measured temporal-difference rows of a state at which a test failed.

    Attributes:
        stage: h.
        rows: [k, d + 1], a row (r, phi' - phi) for each of the k available actions.
    """

    stage: int
    rows: FloatArray

    def errors(self, theta: FloatArray) -> FloatArray:
        """Temporal-difference errors <Delta_a, (1, theta)> of the k actions: [k]."""
        return self.rows[:, 0] + self.rows[:, 1:] @ theta


@dataclass(frozen=True)
class Hypotheses:
    """The believable set: a ball, cut by one disjunction for each critical state.

    Attributes:
        dim: d.
        norm: B, radius of the ball.
        threshold: kappa, what the product of the errors at a critical state may reach.
        states: the critical states, in the order in which they were found.
        slab_width: half-width of the slabs; by default kappa^(1/k), which covers the product.
    """

    dim: int
    norm: float
    threshold: float
    states: tuple[CriticalState, ...] = ()
    slab_width: float | None = None

    def __post_init__(self) -> None:
        """Refuse sets that mean nothing."""
        if not self.threshold >= 0:
            raise SettingError(
                f"threshold={self.threshold}", "it must be at least 0", "Use 0 for exact data."
            )
        if not (self.norm > 0 and np.isfinite(self.norm)):
            raise SettingError(
                f"norm={self.norm}", "it must be positive and finite", "Give the bound B."
            )

    def with_state(self, state: CriticalState) -> Hypotheses:
        """The set after one more failed test."""
        return replace(self, states=(*self.states, state))

    def radius(self, state: CriticalState) -> float:
        """Half-width of the slabs at a state with k actions."""
        if self.slab_width is not None:
            return self.slab_width
        return self.threshold ** (1 / len(state.rows))

    def contains(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the product form keeps theta (up to an absolute slack on the products)."""
        if float(np.linalg.norm(theta)) > self.norm + slack:
            return False
        products = (abs(float(np.prod(state.errors(theta)))) for state in self.states)
        return all(product <= self.threshold + slack for product in products)

    def in_slabs(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the union of slabs keeps theta (up to an absolute slack on the errors)."""
        if float(np.linalg.norm(theta)) > self.norm + slack:
            return False
        return all(
            float(np.abs(state.errors(theta)).min()) <= self.radius(state) + slack
            for state in self.states
        )
