"""A lower confidence bound on a mean by betting, at any time (Waudby-Smith and Ramdas)."""

from __future__ import annotations

import numpy as np

from tensorplan.records import FloatArray

_BETS = 0.5 ** np.arange(0.0, 12.0, 0.5)
_MOST = 0.98
_HALVINGS = 50


def betting_lower(values: FloatArray, low: float, level: float) -> float:
    """Lower bound on the mean of draws that are at least ``low``, valid at any stopping time.

    The capital of a bettor against "the mean is m" is an average of products of
    1 + l (x_t - m) / (m - low) over fixed l in (0, 1): a nonnegative martingale if the mean is m,
    and falling in m. The bound is the least m that is not rejected.

    Args:
        values: [n].
        low: least possible value.
        level: error rate.
    """
    if not len(values):
        return low
    left, right = low, float(values.mean())
    if not right > left:
        return low
    goal = np.log(1 / level)
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        wins = (values - middle) / (middle - low)
        logs = np.log1p(_MOST * _BETS[:, None] * wins).sum(axis=1)
        capital = logs.max() + np.log(np.exp(logs - logs.max()).mean())
        left, right = (middle, right) if capital >= goal else (left, middle)
    return left
