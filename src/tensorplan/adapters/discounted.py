"""A discounted process cut after H stages, as in the proof of thm:discounted."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from tensorplan.adapters.conditions import (
    Condition,
    at_most,
    common_conditions,
    setting_for,
)
from tensorplan.adapters.levelled import Levels
from tensorplan.errors import SettingError
from tensorplan.problem import Simulator
from tensorplan.records import FloatArray, IntArray, Spec
from tensorplan.theory import (
    CORRECTED,
    Errata,
    HorizonRule,
    direct_horizon,
    effective_horizon,
    misspecified_constants,
)


def truncation_horizon(
    spec: Spec, delta: float, rule: HorizonRule = "scan", *, norm: float | None = None
) -> int:
    """Number of stages after which a discounted process may be cut (A12).

    Args:
        spec: of the discounted process.
        delta: accuracy that is asked for.
        rule: "printed", with its spurious factor 1/(1-gamma); "scan", the smallest that the
            proof allows; "direct", which thm:discounted does not cover.
        norm: B, where the Spec has none or another is wanted.
    """
    _require_discounted(spec)
    setting = setting_for(spec, None, delta, norm)
    if rule == "direct":
        lowest = spec.reward_range[0]
        return direct_horizon(setting.norm, delta, spec.discount, lowest_reward=lowest)
    return effective_horizon(setting, spec.discount, replace(CORRECTED, horizon=rule))


class Truncated(Levels):
    """M' and Sim^{gamma,delta} of thm:discounted.

    Rewards gamma^(h-1) R, features gamma^(h-1) phi(s), H levels, and the step from level H gives
    gamma^(H-1) R, then the end (A22). For every policy |v'_h((s,h)) - gamma^(h-1) v(s)| is at
    most the :attr:`truncation`, so a policy of misspecification eta has at most eta plus the
    truncation here; the theorem allows eta for each of the two.

    Args:
        simulator: a discounted process; it is asked at stage 1 always.
        horizon: H, given or from :func:`truncation_horizon`.
    """

    def __init__(self, simulator: Simulator, horizon: int) -> None:
        inner = simulator.spec
        _require_discounted(inner)
        low, high = inner.reward_range
        last = inner.discount ** (max(horizon, 1) - 1)
        spec = replace(
            inner,
            horizon=horizon,
            discount=1.0,
            reward_range=(min(low, last * low), max(high, last * high)),
            misspecification=inner.misspecification + float(_truncation(inner, horizon)),
        )
        super().__init__(simulator, spec)
        self._discount = inner.discount

    @property
    def truncation(self) -> Decimal:
        """What the cut can change in a value: gamma^H/(1-gamma) times the largest |reward|."""
        return _truncation(self._simulator.spec, self._horizon)

    def inner_stage(self, stage: int) -> int:
        """Stage 1: a discounted process has no other."""
        return 1

    def reward_weights(self, levels: IntArray) -> FloatArray:
        """gamma^(h-1) for each level h: [n]."""
        return np.float_power(self._discount, levels - 1)

    def feature_weight(self, stage: int) -> float:
        """gamma^(h-1) for the stage h."""
        return self._discount ** (stage - 1)

    def conditions(
        self, delta: float, *, norm: float | None = None, errata: Errata = CORRECTED
    ) -> tuple[Condition, ...]:
        """Conditions of thm:discounted on the inner simulator, at this horizon.

        gamma^H/(1-gamma) and eta at most epsilon/(24 sqrt E_d), lambda at most
        epsilon/(12 sqrt E_d), at delta' = .98 delta.
        """
        inner = self._simulator.spec
        setting = setting_for(inner, self._horizon, delta, norm)
        common = common_conditions(inner, self._horizon, delta)
        if setting.trivial:
            return common
        limits = misspecified_constants(setting, errata)
        half = limits.misspecification / 2
        return (
            *common,
            at_most("truncation", self.truncation, half),
            at_most("misspecification", inner.misspecification, half),
            at_most("inaccuracy", inner.inaccuracy, limits.accuracy),
        )


def _truncation(spec: Spec, horizon: int) -> Decimal:
    largest = max(abs(reward) for reward in spec.reward_range)
    gamma = Decimal(str(spec.discount))
    return gamma**horizon / (1 - gamma) * Decimal(str(largest))


def _require_discounted(spec: Spec) -> None:
    if not spec.discounted:
        raise SettingError(
            f"a process with horizon {spec.horizon} and discount {spec.discount:g}",
            "only a discounted process can be truncated: no horizon, and a discount below 1",
            "Plan a finite horizon as it is; the total reward of an endless episode has no bound.",
        )
