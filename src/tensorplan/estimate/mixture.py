"""A lower limit for a mean by a mixture of bets, valid at any time (Waudby-Smith and Ramdas).

:class:`~tensorplan.estimate.BettingSequence` adapts one bet to the values it has seen. A mixture
over fixed bets needs no upper end of the range, no plan and no tuning, and is what the certificate
of rollouts uses. (Measured at level .005, distance of the limit from the mean after 10,000 values:
.020 against .046 for fair coins, .012 against .026 for coins of .9, .0114 against .0171 for uniform
values; about equal where the variance is a hundredth of the squared range. A sequence that is told
the number of values beforehand is a quarter closer than the mixture.)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.estimate import checks
from tensorplan.records import SLACK, FloatArray

_BETS: Final = 0.98 * 0.5 ** np.arange(0.0, 12.0, 0.5)
"""l: shares of the bet that could lose everything."""

_HALVINGS: Final = 50


def betting_lower(values: FloatArray, low: float, level: float) -> float:
    """Lower bound on the mean of draws that are at least ``low``, valid at any stopping time.

    The capital of a bettor against "the mean is m" is an average of products of
    1 + l (x_t - m) / (m - low) over fixed l in (0, 1): a nonnegative martingale if the mean is m,
    a supermartingale if conditional means are at most m (F4), and falling in m. The bound is the
    least m that is not rejected; at the mean of the values the capital is at most 1.

    Args:
        values: [n], in an order that was fixed before they were drawn.
        low: least possible value.
        level: error rate.
    """
    goal = -float(np.log(checks.level(level)))
    if not len(values):
        return low
    least, rounding = float(values.min()), SLACK * max(1.0, abs(low))
    if not least >= low - rounding:
        raise SettingError(
            f"value {least}",
            f"no value is below {low}, by which the bets are limited",
            "Pass the least value that a return can have (F10.7).",
        )
    # A value that rounding has put below the least one could lose more than everything.
    values = np.maximum(values, low)
    left, right = low, float(values.mean())
    if not right > left:
        return low
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        if not left < middle < right:
            break
        wins = (values - middle) / (middle - low)
        logs = np.log1p(_BETS[:, None] * wins).sum(axis=1)
        capital = logs.max() + np.log(np.exp(logs - logs.max()).mean())
        left, right = (middle, right) if capital >= goal else (left, middle)
    return left
