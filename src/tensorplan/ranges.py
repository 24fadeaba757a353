"""Ranges that values keep to, whatever the policy: rewards of any sign, discount, early ends (F10).

With m and M the least and the largest reward of a stage that may not take place, a value at stage
h with k_h stages left after it lies in [lo + gamma G(k_h) m, hi + gamma G(k_h) M], where
G(k) = 1 + gamma + ... + gamma^(k - 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorplan.records import Spec


@dataclass(frozen=True)
class ValueRanges:
    """Ranges of values for one process.

    Attributes:
        reward_low: lo, least reward.
        reward_high: hi, largest reward.
        discount: gamma.
        horizon: H, or None for an endless discounted process, whose only stage is 1.
        may_terminate: whether an episode can end before the horizon.
    """

    reward_low: float
    reward_high: float
    discount: float
    horizon: int | None
    may_terminate: bool = True

    @classmethod
    def of(cls, spec: Spec) -> ValueRanges:
        """The ranges of what a simulator promises."""
        low, high = spec.reward_range
        return cls(low, high, spec.discount, spec.horizon, spec.may_terminate)

    def summed(self, stages: int | None) -> float:
        """G: what a reward of 1 in each of so many stages adds up to; None for endless ones."""
        if stages is None:
            return 1 / (1 - self.discount)
        if self.discount in (0, 1) or stages == 0:
            return float(stages if self.discount else min(stages, 1))
        return -math.expm1(stages * math.log(self.discount)) / (1 - self.discount)

    @property
    def least(self) -> float:
        """m: least reward of a stage that may be left out by an early end."""
        return min(self.reward_low, 0.0) if self.may_terminate else self.reward_low

    @property
    def most(self) -> float:
        """M: largest reward of a stage that may be left out by an early end."""
        return max(self.reward_high, 0.0) if self.may_terminate else self.reward_high

    def left(self, stage: int) -> int | None:
        """k_h: stages after this one; None for endless ones."""
        return None if self.horizon is None else self.horizon - stage

    def low(self, stage: int) -> float:
        """l_h: least value at a state of this stage; 0 after the last."""
        return self._value(self.reward_low, self.least, stage)

    def high(self, stage: int) -> float:
        """u_h: largest value at a state of this stage; 0 after the last."""
        return self._value(self.reward_high, self.most, stage)

    def width(self, stage: int) -> float:
        """W_h = u_h - l_h."""
        return self.high(stage) - self.low(stage)

    def after(self, stage: int) -> int:
        """The stage that follows: h + 1, or 1 in an endless process."""
        return 1 if self.horizon is None else stage + 1

    @property
    def rest_low(self) -> float:
        """G(H) min(lo, 0) or G(H) lo: the least that a whole episode can bring."""
        return self.summed(self.horizon) * self.least

    def _value(self, first: float, others: float, stage: int) -> float:
        left = self.left(stage)
        if left is not None and left < 0:
            return 0.0
        return first + self.discount * self.summed(left) * others
