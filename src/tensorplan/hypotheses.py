"""What is still believable: the parameters that no failed test has excluded.

The paper's set Sol (eq. sol) keeps a parameter theta with ||theta|| <= B if, at every critical
state i, the product over actions of <Delta_ia, (1, theta)> is at most a threshold kappa in
absolute value. With rho = kappa^(1/A) the relaxation to a union of slabs keeps theta if some
single factor is at most rho: a larger set, so optimism and retention stay (theory B2). A state
with k < A available actions has the threshold rho^k, which retains theta° too: rewards scaled to
width 1, rho^k >= (H+x)^(k-1) x follows from rho^A >= (H+x)^(A-1) x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.records import FloatArray


def rounding_slack(norm: float) -> float:
    """How far floats put an exactly realizable parameter from exact data (theory F5)."""
    return 1e-9 * (1 + norm)


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
        root: rho = kappa^(1/A), A-th root of what the product of A errors may reach. It is kept in
            place of kappa, which no float can hold when A is large.
        states: the critical states, in the order in which they were found.
        slab_width: half-width of the slabs; by default rho, which covers the product.
    """

    dim: int
    norm: float
    root: float
    states: tuple[CriticalState, ...] = ()
    slab_width: float | None = None

    def __post_init__(self) -> None:
        """Refuse sets that mean nothing."""
        if not self.root >= 0:
            raise SettingError(f"root={self.root}", "it must be at least 0", "Use 0 if exact.")
        if not (self.norm > 0 and np.isfinite(self.norm)):
            raise SettingError(
                f"norm={self.norm}", "it must be positive and finite", "Give the bound B."
            )

    def with_state(self, state: CriticalState) -> Hypotheses:
        """The set after one more failed test."""
        return replace(self, states=(*self.states, state))

    @property
    def half_width(self) -> float:
        """Half-width of the slabs."""
        return self.root if self.slab_width is None else self.slab_width

    def contains(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the product form keeps theta (up to a relative slack on the products)."""
        if float(np.linalg.norm(theta)) > self.norm + slack:
            return False
        unit = self.root or 1.0
        limit = 1.0 + slack if self.root else slack
        products = (abs(float(np.prod(state.errors(theta) / unit))) for state in self.states)
        return all(product <= limit for product in products)

    def in_slabs(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the union of slabs keeps theta (up to an absolute slack on the errors)."""
        if float(np.linalg.norm(theta)) > self.norm + slack:
            return False
        return all(
            float(np.abs(state.errors(theta)).min()) <= self.half_width + slack
            for state in self.states
        )
