"""What a planner is compared with: the best realizable policy, and the claim of soundness."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tensorplan.errors import SettingError
from tensorplan.exact.fit import ROUNDING
from tensorplan.exact.misspecified import near_policies
from tensorplan.exact.realizable import LocalEquations, best_exact_policy, exact_policies
from tensorplan.exact.realized import RealizablePolicy, realized
from tensorplan.exact.values import evaluate, solve, start_value
from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray, IntArray


@dataclass(frozen=True)
class Soundness:
    """How a policy compares with the best realizable one (definition of a sound planner).

    Attributes:
        value: v^pi_1(s_0) of the policy that was played.
        best_realizable: v°_{B,eta}(s_0); -inf when no policy is realizable.
        slack: value - (best_realizable - delta).
        holds: whether the slack is not negative, up to rounding.
    """

    value: float
    best_realizable: float
    slack: float
    holds: bool


def realizable_policies(
    process: FiniteProcess, bound: float, eta: float = 0.0, *, limit: int = 10_000
) -> tuple[RealizablePolicy, ...]:
    """All deterministic memoryless policies that are (B, eta)-realizable.

    Realizable means on the states reachable alive from the start under any actions, and
    policies that differ only elsewhere count once.

    Args:
        process: the process and its features.
        bound: B; ``math.inf`` for none.
        eta: misspecification. Above 0 the search is exhaustive: for small processes only.
        limit: policies to list; above eta = 0, partial policies to examine.
    """
    found: list[RealizablePolicy] = []
    for policy in _search(process, bound, eta, limit):
        if len(found) == limit:
            raise SettingError(
                f"more than limit={limit} realizable policies",
                "the list of realizable policies stops at its limit",
                "Raise the limit, or ask for best_realizable, which need not list them.",
            )
        found.append(policy)
    return tuple(found)


def best_realizable(
    process: FiniteProcess, bound: float, eta: float = 0.0, *, limit: int = 100_000
) -> RealizablePolicy | None:
    """A (B, eta)-realizable policy of highest value, or None if there is no realizable one.

    Args:
        process: the process and its features.
        bound: B; ``math.inf`` for none.
        eta: misspecification.
        limit: partial policies to examine; only used above eta = 0.
    """
    _check(bound, eta)
    # NOTE: one check where v* is realizable, however large the process is.
    optimal = realized(process, solve(process).policy, bound, eta)
    if optimal is not None:
        return optimal
    equations = LocalEquations.of(process, bound)
    if eta == 0:
        return best_exact_policy(equations)
    policies = near_policies(equations, eta, limit, merge=True)
    return max(policies, key=lambda policy: policy.value, default=None)


def best_realizable_value(
    process: FiniteProcess, bound: float, eta: float = 0.0, *, limit: int = 100_000
) -> float:
    """v°_{B,eta}(s_0) (eq. phi-compatible-value); -inf if no policy is realizable."""
    best = best_realizable(process, bound, eta, limit=limit)
    return -math.inf if best is None else best.value


def soundness(
    process: FiniteProcess,
    achieved: float | IntArray | FloatArray,
    delta: float,
    bound: float,
    eta: float = 0.0,
) -> Soundness:
    """Whether v^pi_1(s_0) >= v°_{B,eta}(s_0) - delta.

    Args:
        process: the process and its features.
        achieved: the value of the policy, or the policy itself ([H, S] or [H, S, A]).
        delta: the suboptimality that is allowed.
        bound: B.
        eta: misspecification.
    """
    if isinstance(achieved, (int, float)):
        value = float(achieved)
    else:
        value = start_value(process, evaluate(process, achieved).values)
    best = best_realizable_value(process, bound, eta)
    slack = value - (best - delta)
    rounding = ROUNDING * (1.0 + abs(value))
    return Soundness(value, best, slack, slack >= -rounding)


def _search(
    process: FiniteProcess, bound: float, eta: float, limit: int
) -> Iterator[RealizablePolicy]:
    _check(bound, eta)
    equations = LocalEquations.of(process, bound)
    return exact_policies(equations) if eta == 0 else near_policies(equations, eta, limit)


def _check(bound: float, eta: float) -> None:
    if not bound > 0:
        raise SettingError(
            f"bound={bound}", "the bound on norms must be positive", "Use math.inf for none."
        )
    if not 0 <= eta < math.inf:
        raise SettingError(
            f"eta={eta}", "the misspecification must be finite and at least 0", "Use 0 for none."
        )
