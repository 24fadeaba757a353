"""What is still believable: the parameters that no failed test has excluded.

The paper's set Sol (eq. sol) keeps a parameter theta with ||theta|| <= B if, at every critical
state i, the product over actions of <Delta_ia, (1, theta)> is at most a threshold kappa in
absolute value. With rho = kappa^(1/A) the relaxation to a union of slabs keeps theta if some
single factor is at most rho: a larger set, so optimism and retention stay (theory B2). A state
with k < A available actions has the threshold rho^k, which retains theta° too: rewards scaled to
width 1, rho^k >= (H+x)^(k-1) x follows from rho^A >= (H+x)^(A-1) x.

Slabs may have radii of their own. Range cuts bound <g, theta> for every believable theta (B4), and
in the mode that competes with v* alone every action's temporal-difference error is at most its
radius (the Bellman cuts of B4).

The set only ever shrinks: states and cuts are added, and a state is refined when more draws have
made its rows sharper. A refined state replaces its rows, but what was concluded from the earlier
ones stays true, because theta° lies in the slabs of all epochs at once (F1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
        radii: [k], half-widths of the slabs; by default the common one of the set.
        features: [d], phi of the state itself, if propagation may tighten the range of its value.
        refines: the same state with fewer draws, if this one has replaced it.
    """

    stage: int
    rows: FloatArray
    radii: FloatArray | None = None
    features: FloatArray | None = None
    refines: CriticalState | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse radii that mean nothing."""
        if self.radii is None:
            return
        if self.radii.shape != self.rows.shape[:1] or not bool(np.all(self.radii >= 0)):
            raise SettingError(
                f"radii={self.radii}",
                f"there must be one of 0 or more for each of the {len(self.rows)} actions",
                "Give one radius per row, or None for the common one.",
            )

    def continues(self, earlier: CriticalState) -> bool:
        """Whether this is the same state, perhaps with more draws."""
        state: CriticalState | None = self
        while state is not None and state is not earlier:
            state = state.refines
        return state is earlier

    def errors(self, theta: FloatArray) -> FloatArray:
        """Temporal-difference errors <Delta_a, (1, theta)> of the k actions: [k]."""
        return self.rows[:, 0] + self.rows[:, 1:] @ theta


@dataclass(frozen=True, eq=False)
class Cuts:
    """Inequalities low <= <normal, theta> <= high that every believable parameter satisfies.

    Attributes:
        normals: [m, d].
        low: [m], -inf where there is no lower limit.
        high: [m], inf where there is no upper limit.
    """

    normals: FloatArray
    low: FloatArray
    high: FloatArray

    def __len__(self) -> int:
        return len(self.low)

    def joined(self, more: Cuts) -> Cuts:
        """These cuts and more."""
        if not len(self):
            return more
        return Cuts(
            np.concatenate([self.normals, more.normals]),
            np.concatenate([self.low, more.low]),
            np.concatenate([self.high, more.high]),
        )

    def begins_with(self, first: Cuts) -> bool:
        """Whether these are the first cuts and perhaps more."""
        count = len(first)
        if self is first or not count:
            return True
        return (
            len(self) >= count
            and np.array_equal(self.normals[:count], first.normals)
            and np.array_equal(self.low[:count], first.low)
            and np.array_equal(self.high[:count], first.high)
        )

    def excess(self, theta: FloatArray) -> float:
        """By how much theta breaks the cut that it breaks most; at most 0 if it breaks none."""
        if not len(self):
            return -np.inf
        values = self.normals @ theta
        return float(np.maximum(self.low - values, values - self.high).max(initial=-np.inf))


NO_CUTS = Cuts(np.zeros((0, 0)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Hypotheses:
    """The believable set: a ball with cuts, and one disjunction for each critical state.

    Attributes:
        dim: d.
        norm: B, radius of the ball.
        root: rho = kappa^(1/A), A-th root of what the product of A errors may reach. It is kept in
            place of kappa, which no float can hold when A is large.
        states: the critical states, in the order in which they were found.
        slab_width: half-width of the slabs; by default rho, which covers the product.
        cuts: range cuts.
        bellman: whether every action's error is at most its radius, which is true of v* only.
    """

    dim: int
    norm: float
    root: float
    states: tuple[CriticalState, ...] = ()
    slab_width: float | None = None
    cuts: Cuts = NO_CUTS
    bellman: bool = False

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

    def with_cuts(self, more: Cuts) -> Hypotheses:
        """The set after more cuts."""
        return replace(self, cuts=self.cuts.joined(more))

    def refined(self, index: int, state: CriticalState) -> Hypotheses:
        """The set after more draws at a critical state: new rows, as a rule with smaller radii."""
        if len(state.rows) != len(self.states[index].rows):
            raise SettingError(
                f"a refinement with {len(state.rows)} actions",
                f"the critical state has {len(self.states[index].rows)}",
                "Keep a row for every action, also for those that were not drawn again.",
            )
        sharper = replace(state, refines=self.states[index])
        return replace(self, states=(*self.states[:index], sharper, *self.states[index + 1 :]))

    def without_data(self) -> Hypotheses:
        """The ball alone, with the same settings."""
        return replace(self, states=(), cuts=NO_CUTS)

    def extends(self, earlier: Hypotheses) -> bool:
        """Whether this is a later stage of a set, so that what was concluded of that one holds."""
        if self.without_data() != earlier.without_data():
            return False
        if len(self.states) < len(earlier.states):
            return False
        pairs = zip(self.states, earlier.states, strict=False)
        return all(new.continues(old) for new, old in pairs) and self.cuts.begins_with(earlier.cuts)

    def radii(self, state: CriticalState) -> FloatArray:
        """Half-widths of the slabs of a critical state: [k]."""
        common = np.full(len(state.rows), self.half_width)
        return common if state.radii is None else state.radii

    @property
    def half_width(self) -> float:
        """Half-width of the slabs."""
        return self.root if self.slab_width is None else self.slab_width

    def contains(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the product form keeps theta (up to a relative slack on the products)."""
        if not self._in_cuts(theta, slack):
            return False
        unit = self.root or 1.0
        limit = 1.0 + slack if self.root else slack
        products = (abs(float(np.prod(state.errors(theta) / unit))) for state in self.states)
        return all(product <= limit for product in products)

    def in_slabs(self, theta: FloatArray, *, slack: float = 0.0) -> bool:
        """Whether the union of slabs keeps theta (up to an absolute slack on the errors)."""
        return self._in_cuts(theta, slack) and all(
            float((np.abs(state.errors(theta)) - self.radii(state)).min()) <= slack
            for state in self.states
        )

    def _in_cuts(self, theta: FloatArray, slack: float) -> bool:
        """Whether the ball, the range cuts and the Bellman cuts keep theta."""
        if float(np.linalg.norm(theta)) > self.norm + slack or self.cuts.excess(theta) > slack:
            return False
        return not self.bellman or all(
            bool(np.all(state.errors(theta) <= self.radii(state) + slack)) for state in self.states
        )
