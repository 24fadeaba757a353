"""What a run of the adaptive planner is asked to do, and what follows from that.

:class:`AdaptiveSettings` is the request, :class:`Resolved` the request with every number filled in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from tensorplan.errors import SettingError
from tensorplan.hypotheses import rounding_slack
from tensorplan.ranges import ValueRanges
from tensorplan.records import LEAST, Spec, real, settle, whole

Rival = Literal["realizable", "optimal"]
"""Whom the plan competes with: every policy that the features express, or an optimal one if they
express it."""

FITTED: Final = "fitted"
"""In place of eta: as small as the data allow."""

NORM_PER_VALUE = 4.0
"""B by default, as a multiple of the largest size of a value."""


@dataclass(frozen=True)
class AdaptiveSettings:
    """What to run.

    Attributes:
        delta: largest gap between the bounds at which the plan is called certified.
        norm: B; by default the simulator's own bound, or a multiple of the largest value.
        misspecification: eta; by default the simulator's own. "fitted" raises it from 0 as far as
            the data ask for; what holds at such an eta is assumed, not certified (F6).
        compete: whom the upper bound speaks of. "optimal" uses that no action is better than
            v* says (B4), which holds for v* alone.
        confidence: probability with which both bounds hold, at all times at once.
        explore: random rollouts that come first; their states are cuts and constraints.
        iteration_limit: stop after so many optimistic choices.
    """

    delta: float
    norm: float | None = None
    misspecification: float | Literal["fitted"] | None = None
    compete: Rival = "realizable"
    confidence: float = 0.95
    explore: int = 0
    iteration_limit: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        settle(self, "delta", real(self.delta, LEAST), "a number, positive and finite")
        settle(self, "norm", real(self.norm, LEAST), "a number, positive and finite", optional=True)
        eta = FITTED if self.misspecification == FITTED else real(self.misspecification, 0)
        settle(self, "misspecification", eta, "a number of 0 or more, or 'fitted'", optional=True)
        rival = next((known for known in get_args(Rival) if known == self.compete), None)
        settle(self, "compete", rival, "'realizable' or 'optimal'")
        settle(self, "confidence", real(self.confidence, LEAST, 1 - 2e-16), "a number in (0, 1)")
        settle(self, "explore", whole(self.explore), "a whole number of 0 or more")
        limit = whole(self.iteration_limit, 1)
        settle(self, "iteration_limit", limit, "a whole number of 1 or more", optional=True)


@dataclass(frozen=True)
class Resolved:
    """The same with every number filled in.

    Attributes:
        settings: the request.
        spec: what the simulator promises.
        ranges: of values.
        norm: B.
        norm_given: whether anybody gave B; otherwise it is a default.
        eta: how far values may be from linear, rounding included (F5).
        eta_given: the part of eta that is not rounding.
        inaccuracy: lambda.
        fitted: whether eta was raised because the data asked for it.
    """

    settings: AdaptiveSettings
    spec: Spec
    ranges: ValueRanges
    norm: float
    norm_given: bool
    eta: float
    eta_given: float
    inaccuracy: float
    fitted: bool = False

    def with_eta(self, eta: float, *, fitted: bool = False) -> Resolved:
        """The same for another eta, rounding apart."""
        whole = eta + rounding_slack(self.norm)
        return replace(self, eta=whole, eta_given=eta, fitted=fitted)

    @property
    def delta(self) -> float:
        """Largest gap of a certified plan."""
        return self.settings.delta

    @property
    def bellman(self) -> bool:
        """Whether the plan competes with v* alone."""
        return self.settings.compete == "optimal"

    def slack(self, left: float = 1.0) -> float:
        """lambda + (1 + gamma w) eta: how far the truth at theta° may be from 0 (F10.2).

        Args:
            left: w, the fraction of next states at which the episode goes on.
        """
        return self.inaccuracy + (1 + self.spec.discount * left) * self.eta

    @property
    def level(self) -> float:
        """What confidence leaves for both bounds together."""
        return 1 - self.settings.confidence


def resolve(settings: AdaptiveSettings, spec: Spec) -> Resolved:
    """Fill in every number that the request leaves open."""
    if spec.horizon is None and not spec.discounted:
        raise SettingError(
            "horizon=None with discount=1",
            "total reward without end needs exponentially many queries (Theorem lb)",
            "Give the process a horizon, or a discount below 1.",
        )
    ranges = ValueRanges.of(spec)
    norm = settings.norm if settings.norm is not None else spec.bound
    given = norm is not None
    if norm is None:
        largest = max(abs(ranges.low(1)), abs(ranges.high(1)))
        norm = NORM_PER_VALUE * largest * math.sqrt(spec.dim) or 1.0
    asked = settings.misspecification
    eta = 0.0 if isinstance(asked, str) else spec.misspecification if asked is None else asked
    return Resolved(
        settings=settings,
        spec=spec,
        ranges=ranges,
        norm=norm,
        norm_given=given,
        eta=eta + rounding_slack(norm),
        eta_given=eta,
        inaccuracy=spec.inaccuracy,
    )
