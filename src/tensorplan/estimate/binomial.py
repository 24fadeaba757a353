"""Exact limits for a probability of which only successes and trials are known."""

from __future__ import annotations

import numpy as np

from tensorplan.estimate import checks
from tensorplan.estimate.checks import Numbers
from tensorplan.records import FloatArray


def binomial_upper(successes: Numbers, trials: Numbers, level: Numbers) -> FloatArray:
    """The upper limit of Clopper and Pearson: below the truth with probability at most level.

    The number of trials must be fixed in advance (B9); trials that a stopping rule ended need a
    bound that holds at any time.
    """
    from scipy.special import betainccinv

    hits, number = _checked(successes, trials)
    full = hits == number
    limit = betainccinv(hits + 1, np.where(full, 1.0, number - hits), checks.level(level))
    return np.where(full, 1.0, limit)


def binomial_lower(successes: Numbers, trials: Numbers, level: Numbers) -> FloatArray:
    """The lower limit of Clopper and Pearson: above the truth with probability at most level.

    The number of trials must be fixed in advance, as for :func:`binomial_upper`.
    """
    from scipy.special import betaincinv

    hits, number = _checked(successes, trials)
    none = hits == 0
    limit = betaincinv(np.where(none, 1.0, hits), number - hits + 1, checks.level(level))
    return np.where(none, 0.0, limit)


def _checked(successes: Numbers, trials: Numbers) -> tuple[FloatArray, FloatArray]:
    number, hits = checks.counts("trials", trials, 1), checks.counts("successes", successes, 0)
    return checks.checked("successes", hits, hits <= number, "at most the number of trials"), number
