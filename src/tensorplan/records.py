"""The shared vocabulary: frozen records that every room of the house may read.

Shapes: ``n`` is a batch, ``A`` the number of actions, ``d`` the dimension of the features.
Stages run from 1 to ``H`` as in the paper; a discounted problem has stage 1 only.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorplan.errors import SettingError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
SLACK = 1e-9
"""Relative rounding that simulators are forgiven in norms and reward ranges."""

States = npt.NDArray[Any]
"""A batch of states: any array with a fixed dtype and the batch first."""

LEAST, LARGEST = math.ulp(0.0), sys.float_info.max
"""The positive and finite numbers lie between these."""


def whole(value: object, low: int = 0) -> int | None:
    """The whole number of ``low`` or more that a value is, NumPy's included; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value) if int(value) >= low else None


def real(value: object, low: float = -LARGEST, high: float = LARGEST) -> float | None:
    """The number from ``low`` to ``high`` that a value is, NumPy's included; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if low <= number <= high else None


def settle(record: object, name: str, plain: object, rule: str, *, optional: bool = False) -> None:
    """Give a field of a frozen record its plain value, or refuse it where there is none."""
    given = getattr(record, name)
    if plain is None and not (optional and given is None):
        rule = f"{rule}, or None" if optional else rule
        raise SettingError(
            f"{type(record).__name__}.{name}={given!r}",
            f"{name} must be {rule}",
            f"Pass {name} as {rule}.",
        )
    object.__setattr__(record, name, plain)


@dataclass(frozen=True)
class Spec:
    """What a simulator promises about its process.

    Attributes:
        actions: number of actions, A.
        dim: dimension of the features, d.
        horizon: number of stages H; None with ``discount`` below 1 is a discounted problem,
            None with ``discount`` 1 counts the total reward of an episode that need not end.
        discount: gamma in [0, 1].
        reward_range: lowest and highest reward that the simulator returns.
        bound: B, the largest 2-norm of a parameter that the planner competes with.
        deterministic: whether rewards and transitions are deterministic.
        misspecification: eta, how far values may be from linear.
        inaccuracy: lambda, how far mean rewards may be from the truth.
        may_terminate: whether an episode can end before the horizon.
    """

    actions: int
    dim: int
    horizon: int | None
    discount: float = 1.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    bound: float | None = None
    deterministic: bool = False
    misspecification: float = 0.0
    inaccuracy: float = 0.0
    may_terminate: bool = True

    def __post_init__(self) -> None:
        """Refuse what no process can have."""
        count, error = "a whole number, at least 1", "a number, at least 0"
        settle(self, "actions", whole(self.actions, 1), count)
        settle(self, "dim", whole(self.dim, 1), count)
        settle(self, "horizon", whole(self.horizon, 1), count, optional=True)
        settle(self, "discount", real(self.discount, 0, 1), "a number in [0, 1]")
        settle(self, "reward_range", _range(self.reward_range), "two numbers, finite and ordered")
        bound = real(self.bound, LEAST)
        settle(self, "bound", bound, "a number, positive and finite", optional=True)
        settle(self, "misspecification", real(self.misspecification, 0, math.inf), error)
        settle(self, "inaccuracy", real(self.inaccuracy, 0, math.inf), error)

    @property
    def discounted(self) -> bool:
        """Whether values are discounted sums over an endless episode."""
        return self.horizon is None and self.discount < 1

    def admits(self, rewards: FloatArray) -> BoolArray:
        """Which rewards are finite and in the promised range, up to rounding."""
        low, high = self.reward_range
        slack = SLACK * max(1.0, abs(low), abs(high))
        return (rewards >= low - slack) & (rewards <= high + slack)

    @property
    def reward_width(self) -> float:
        """Width of the rewards that a stage, or its absence after the end, can bring (F10)."""
        low, high = self.reward_range
        return max(high, 0.0) - min(low, 0.0)


def _range(pair: object) -> tuple[float, float] | None:
    """Two finite numbers in their order, or None."""
    if not isinstance(pair, tuple | list | np.ndarray):
        return None
    ends = [real(end) for end in cast("tuple[object, ...]", pair)]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
        return None
    return ends[0], ends[1]


@dataclass(frozen=True)
class Step:
    """What a simulator answers to a batch of n queries.

    Attributes:
        rewards: [n].
        states: [n, ...], the next states.
        terminated: [n], whether the episode ended with this step.
    """

    rewards: FloatArray
    states: States
    terminated: BoolArray


class Phase(Enum):
    """What a query is spent on.

    PLAY stands apart: it counts the steps of the environment while a plan is played in the
    simulator. They are not queries of the planner, and no total includes them.
    """

    TEST = "test"
    REFINE = "refine"
    FORWARD = "forward"
    ACT = "act"
    CHECK = "check"
    PLAY = "play"
    VERIFY = "verify"


@dataclass(frozen=True)
class Queries:
    """How many queries a run made.

    Attributes:
        total: all of them.
        by_phase: the same, by what they were spent on, and the steps played (not in the total).
        per_episode: the largest total of one episode (the paper's per-episode query-cost).
        per_call: the largest total of one call of GetAction (its per-state query-cost).
    """

    total: int
    by_phase: Mapping[str, int]
    per_episode: int
    per_call: int


class Status(Enum):
    """How a run ended. Each outcome knows what to try next."""

    CERTIFIED = "certified"
    ASSUMED = "assumed"
    CLEAN = "clean"
    BUDGET = "budget"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    ORACLE_GAP = "oracle-gap"

    @property
    def advice(self) -> str:
        """What the outcome means, and what to do about it."""
        return _ADVICE[self]


_ADVICE = {
    Status.CERTIFIED: "The gap between the bounds is at most delta.",
    Status.ASSUMED: "The gap would be at most delta if some policy fitted as well as assumed; that "
    "was chosen from the data, which can refute such a choice and never confirm it. Nothing is "
    "claimed about the best policy.",
    Status.CLEAN: "All rollouts of the last parameter passed their tests: the paper's own stop.",
    Status.BUDGET: "The queries, seconds or iterations ended first: allow more, ask for less (a "
    "larger delta), or find features that fit better.",
    Status.CANCELLED: "Stopped on request; what is known so far is reported.",
    Status.REJECTED: "No parameter is left: where a theorem covers the run, no deterministic "
    "policy is realizable by these features within the bound, the misspecification and the "
    "inaccuracy that were assumed. Try richer features, a larger bound, a positive "
    "misspecification, or larger sizes.",
    Status.ORACLE_GAP: "The optimistic oracle stopped at its limit before it closed its gap: the "
    "upper bound is valid but loose. Raise the oracle's node limit.",
}


@dataclass(frozen=True)
class Certificate:
    """What is known about a plan, and on what grounds.

    Attributes:
        lower: lower bound on the value of this very policy, or None where nothing covers one.
        upper: upper bound on the value of the best realizable policy, or None likewise.
        confidence: probability with which both hold, or None where no theorem covers the run.
        grounds: the theorem that covers the claim, or the words "no theorem covers ...".
        assumptions: what was taken for granted.
    """

    lower: float | None
    upper: float | None
    confidence: float | None
    grounds: str
    assumptions: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """Upper minus lower bound, where both exist."""
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower

    @property
    def sentence(self) -> str:
        """The claim in plain language."""
        if self.lower is not None and self.upper is None:
            return (
                f"This policy is worth at least {self.lower:.6g}; nothing is claimed about the "
                "best one."
            )
        if self.lower is None or self.upper is None:
            return "Nothing is claimed about the value of a policy."
        best = "the best policy that these features represent"
        if self.upper < self.lower:
            return (
                f"This policy is worth at least {self.lower:.6g}, and {best} at most "
                f"{self.upper:.6g}: this one is better."
            )
        return (
            f"This policy is worth at least {self.lower:.6g}, and {best} at most {self.upper:.6g}, "
            f"which is {self.upper - self.lower:.3g} more."
        )

    def __str__(self) -> str:
        """The claim, its grounds and its assumptions, in a few lines."""
        if self.confidence is None:
            return self.grounds
        lines = [f"value of this policy >= {self.lower:.6g}"] if self.lower is not None else []
        if self.upper is not None:
            lines.append(f"value of the best policy that the features express <= {self.upper:.6g}")
        lines.append(f"confidence {self.confidence:.6g}, by {self.grounds}")
        return "\n".join([*lines, *(f"assuming {each}" for each in self.assumptions)])


@dataclass(frozen=True)
class IterationEvent:
    """One iteration of a planner, for the trace.

    Attributes:
        iteration: tau, from 1.
        upper: the oracle's upper bound on the optimistic value.
        predicted: value that the optimistic parameter predicts at the start.
        theta: [d], the parameter, as plain numbers.
        failed: (rollout, stage) of the failed test, or of the answer, that excluded the
            parameter; None after a clean run.
        queries: all queries so far.
        nodes: nodes that the oracle expanded so far.
    """

    iteration: int
    upper: float
    predicted: float
    theta: tuple[float, ...] = field(repr=False)
    failed: tuple[int, int] | None
    queries: int
    nodes: int
