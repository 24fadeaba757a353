"""What a plan's policy is worth, by fresh rollouts of nothing but that policy (B9, F10.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.estimate import BettingSequence
from tensorplan.local import Handle, Key
from tensorplan.ranges import ValueRanges
from tensorplan.records import LEAST, FloatArray, IntArray, Phase, real, whole

Chooser = Callable[[Handle, int, Key], IntArray]
"""Actions of n states at a step of their episodes, counted from 0; the key names the call."""

WIDEST = 4096
"""Rollouts that walk together."""

_EVALUATION = 1 << 30
"""Sets the names of these queries apart from those of planning."""


@dataclass(frozen=True)
class Evaluation:
    """What fresh rollouts of a policy say of its value.

    Attributes:
        rollouts: all so far, those of earlier calls included.
        mean: of their returns.
        standard_error: of the mean; None after a single one.
        lower: at most the value, with ``confidence``. It holds at whatever number one stops.
        confidence: of ``lower``; it has nothing to do with that of the certificate.
        queries: what this call spent.
    """

    rollouts: int
    mean: float
    standard_error: float | None
    lower: float
    confidence: float
    queries: int

    def __str__(self) -> str:
        """The figures in a line."""
        error = "" if self.standard_error is None else f" +- {self.standard_error:.3g}"
        return (
            f"mean return {self.mean:.6g}{error} of {self.rollouts} rollouts; value >= "
            f"{self.lower:.6g} with confidence {self.confidence:g}"
        )


def fresh_returns(
    access: Access, start: Handle, choose: Chooser, count: int, *, steps: int | None, call: int
) -> FloatArray:
    """Returns of so many rollouts, each to its own end: [n].

    Args:
        access: the door to the simulator.
        start: a handle of the one start state.
        choose: the policy.
        count: how many.
        steps: most steps; None for as many as the episode has. What comes after them counts as
            the least that it can bring.
        call: names this evaluation.
    """
    ranges, returns = ValueRanges.of(access.spec), np.zeros(count)
    for first in range(0, count, WIDEST):
        alive = np.arange(first, min(first + WIDEST, count))
        here, weight, step = access.take(start, np.zeros(len(alive), np.int64)), 1.0, 0
        while len(alive) and (steps is None or step < steps):
            key = (_EVALUATION, call, first, step)
            actions = choose(here, step, (*key, 0))
            moved = access.advance(here, here.stage, actions, phase=Phase.VERIFY, key=(*key, 1))
            returns[alive] += weight * moved.rewards
            weight, step = weight * access.spec.discount, step + 1
            on = np.flatnonzero(~moved.terminated)
            alive, here = alive[on], access.take(moved.states, on)
        if len(alive) and ranges.horizon is None:
            returns[alive] += weight * ranges.least * ranges.summed(None)
    return returns


def judged(access: Access, returns: FloatArray, confidence: float, queries: int) -> Evaluation:
    """What returns say, all of one policy and in the order of their numbers.

    Args:
        access: knows the ranges and the inaccuracy.
        returns: [n].
        confidence: of the lower bound.
        queries: that the last of them took.
    """
    ranges, count = ValueRanges.of(access.spec), len(returns)
    whole_length = ranges.summed(ranges.horizon)
    low, high = ranges.rest_low, whole_length * ranges.most
    lower = low
    if high > low:
        start = BettingSequence.start(low, high, 1 - confidence)
        lower = float(start.update(np.clip(returns, low, high)).lower)
    return Evaluation(
        rollouts=count,
        mean=float(returns.mean()),
        standard_error=float(returns.std(ddof=1)) / count**0.5 if count > 1 else None,
        lower=lower - access.spec.inaccuracy * whole_length,
        confidence=confidence,
        queries=queries,
    )


def check_request(rollouts: object, confidence: object) -> None:
    """Refuse an evaluation that means nothing."""
    if whole(rollouts, 1) is None:
        raise SettingError(
            f"rollouts={rollouts!r}", "there is a whole number of 1 or more", "Ask for 1000."
        )
    if real(confidence, LEAST, 1 - 2e-16) is None:
        raise SettingError(f"confidence={confidence!r}", "it lies between 0 and 1", "Use 0.95.")
