"""How many rollouts a known policy needs at the very least before its value is certified.

Queries of a run are reported as multiples of these numbers times the steps of a rollout. They are
yardsticks for a return with a given spread, not bounds on any planner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.estimate import checks
from tensorplan.estimate.checks import Numbers
from tensorplan.estimate.concentration import LARGEST_BET
from tensorplan.records import BoolArray, FloatArray, IntArray

_LARGEST: Final = 2**53
_HALVINGS: Final = 60


def variance_floor(deviation: Numbers, gap: Numbers, level: Numbers) -> FloatArray:
    """F = 8 s^2 ln(2/level) / g^2: a normal return, whose range costs nothing."""
    spread = checks.at_least_zero("deviation", deviation)
    return 8 * (spread / checks.positive("gap", gap)) ** 2 * np.log(2 / checks.level(level))


def bernstein_floor(deviation: Numbers, width: Numbers, gap: Numbers, level: Numbers) -> IntArray:
    """F_EB: the least n at which the two-sided interval of Maurer and Pontil is at most g wide.

    2 (sqrt(2 s^2 L / n) + 7 R L / (3 (n - 1))) <= g with L = ln(4/level).
    """
    spread = checks.at_least_zero("deviation", deviation)
    wide, target = checks.at_least_zero("width", width), checks.positive("gap", gap)
    log = np.log(4 / checks.level(level))

    def narrow(draws: FloatArray) -> BoolArray:
        return (
            2 * (spread * np.sqrt(2 * log / draws) + 7 * wide * log / (3 * (draws - 1))) <= target
        )

    shape = np.broadcast_shapes(spread.shape, wide.shape, target.shape, log.shape)
    return _least(narrow, 2, shape)


def betting_floor(returns: FloatArray, low: float, high: float, gap: float, level: float) -> float:
    """F_bet: rollouts until the best fixed bet is expected to lift the lower limit to mean - gap.

    ln(1/level) / max over bets of E ln(1 + bet (X - m)), m = mean - gap, with X drawn from the
    returns of the known policy, scaled to [0, 1], and bets up to .95/m. One-sided.

    Args:
        returns: [k], a sample of returns large enough to stand for their distribution.
        low: smallest possible return.
        high: largest possible return.
        gap: how far below the mean the limit may be.
        level: probability of error.
    """
    checks.interval(low, high)
    checks.positive("gap", gap)
    unit = (np.asarray(returns, np.float64) - low) / (high - low)
    if not unit.size or not np.all((unit >= 0) & (unit <= 1)):
        raise SettingError(
            f"{unit.size} returns in [{low}, {high}]",
            "there must be some, and all must lie in their range",
            "Pass a sample of returns and the range that returns can have.",
        )
    excess = unit - (unit.mean() - gap / (high - low))
    reference = float(unit.mean() - excess.mean())
    if reference <= 0:
        return 0.0  # the smallest possible return is close enough
    log = -float(np.log(checks.level(level)))
    return log / float(np.log1p(_best_bet(excess, LARGEST_BET / reference) * excess).mean())


def _best_bet(excess: FloatArray, largest: float) -> float:
    """Maximise the concave mean of ln(1 + bet excess) over [0, largest]."""
    low, high = 0.0, largest
    if np.mean(excess / (1 + high * excess)) >= 0:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = np.mean(excess / (1 + middle * excess)) > 0
        low, high = (middle, high) if rising else (low, middle)
    return low


def _least(
    enough: Callable[[FloatArray], BoolArray], first: int, shape: tuple[int, ...]
) -> IntArray:
    """Smallest whole numbers from ``first`` that are enough, for a rule that stays true."""
    low, high = np.full(shape, first - 1, np.int64), np.full(shape, _LARGEST, np.int64)
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, first)
        good = enough(middle.astype(np.float64))
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return high
