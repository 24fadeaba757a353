"""What the reductions share: conditions of theorems, reported as values.

A theorem covers a run where all its conditions hold. The limits are decimals: they can be smaller
than any float.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tensorplan.errors import SettingError
from tensorplan.records import Spec
from tensorplan.theory import Setting


@dataclass(frozen=True)
class Condition:
    """One condition of a theorem.

    Attributes:
        name: what is limited.
        value: what the simulator has.
        limit: what the theorem allows.
        holds: whether the value is within the limit.
    """

    name: str
    value: Decimal
    limit: Decimal
    holds: bool


def at_most(name: str, value: float | Decimal, limit: float | Decimal) -> Condition:
    """The condition ``value <= limit``; floats count as the decimals that they are written as."""
    exact_value, exact_limit = _decimal(value), _decimal(limit)
    return Condition(name, exact_value, exact_limit, exact_value <= exact_limit)


def require_horizon(spec: Spec) -> int:
    """The horizon H of a process that must have one."""
    if spec.horizon is None:
        raise SettingError(
            f"Spec.horizon=None with discount {spec.discount:g}",
            "a reduction with levels needs a finite horizon",
            "Wrap a discounted simulator in Truncated, or give the Spec a horizon.",
        )
    return spec.horizon


def setting_for(spec: Spec, horizon: int | None, delta: float, norm: float | None) -> Setting:
    """What the constants of a theorem depend on.

    Args:
        spec: gives the dimension, the actions and, without ``norm``, the bound B.
        horizon: number of stages, or None while it is to be found.
        delta: accuracy that is asked for.
        norm: B, where the Spec has none or another is wanted.
    """
    bound = spec.bound if norm is None else norm
    if bound is None:
        raise SettingError(
            "Spec.bound=None",
            "every constant depends on the bound B on the norm of the parameters",
            "Give the Spec a bound, or pass norm=.",
        )
    return Setting(spec.dim, spec.actions, horizon, bound, delta)


def common_conditions(spec: Spec, horizon: int, delta: float) -> tuple[Condition, ...]:
    """What every theorem asks: rewards in [0, 1], and delta < H (A8)."""
    low, high = spec.reward_range
    exact, stages = _decimal(delta), Decimal(horizon)
    return (
        at_most("rewards below 0", max(0.0, -low), 0.0),
        at_most("rewards", high, 1.0),
        Condition("delta, below the horizon", exact, stages, exact < stages),
    )


def finite_conditions(spec: Spec, horizon: int, delta: float) -> tuple[Condition, ...]:
    """The same for the theorems of a finite horizon, which count every stage in full."""
    return (
        *common_conditions(spec, horizon, delta),
        at_most("discounting, 1 - gamma", 1 - spec.discount, 0.0),
    )


def _decimal(value: float | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(float(value)))
