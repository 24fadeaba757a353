"""How far a mean of independent draws can be from what it estimates.

Each function gives a radius r such that |mean - truth| <= r with probability 1 - level. Which
sizes it covers differs, and is what matters: :func:`hoeffding_radius`, :func:`bernstein_radius`
and :func:`vector_radius` hold for one number of draws that was fixed before drawing (read at
several sizes, each needs its own share of the level: ``Grid.level``); :func:`anytime_radius`
holds for all numbers of draws at once, hence also where a rule stopped that looked at the data.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tensorplan.estimate import checks
from tensorplan.estimate.checks import Numbers
from tensorplan.estimate.spending import Grid
from tensorplan.records import FloatArray, IntArray

LARGEST_BET: Final = 0.95
"""Largest bet, as a share of the one that could lose everything."""

_SCALES: Final = 28  # bets halve so often: enough for 2^53 draws


def vector_radius(
    draws: Numbers, level: Numbers, *, reward_width: float, discount: float, norm: float
) -> FloatArray:
    """beta_n: how far <row, (1, theta)> can be from its mean for *all* ||theta|| <= norm at once.

    sqrt(1 + B^2) (sqrt(w^2/4 + gamma^2) + sqrt((w^2 + 4 gamma^2) ln(1/level) / 2)) / sqrt(n) for
    rows (R, gamma phi'): B5 i in the form of F10.4. One fixed n; no dimension enters.
    """
    number, alpha = checks.counts("draws", draws, 1), checks.level(level)
    width, gamma = checks.at_least_zero("reward_width", reward_width), float(discount)
    checks.checked("discount", gamma, np.asarray(0 <= gamma <= 1), "between 0 and 1")
    mean = np.sqrt(width**2 / 4 + gamma**2)
    deviation = np.sqrt((width**2 + 4 * gamma**2) * -np.log(alpha) / 2)
    scale = np.sqrt(1 + checks.at_least_zero("norm", norm) ** 2)
    return scale * (mean + deviation) / np.sqrt(number)


def hoeffding_radius(
    draws: Numbers, width: Numbers, level: Numbers, *, sides: int = 2
) -> FloatArray:
    """W sqrt(ln(sides/level) / (2 n)) for outcomes in an interval of this width; one fixed n."""
    number, alpha = checks.counts("draws", draws, 1), checks.level(level)
    log = np.log(checks.sides(sides) / alpha)
    return checks.at_least_zero("width", width) * np.sqrt(log / (2 * number))


def hoeffding_draws(radius: Numbers, width: Numbers, level: Numbers, *, sides: int = 2) -> IntArray:
    """How many draws make Hoeffding's radius at most this."""
    log = np.log(checks.sides(sides) / checks.level(level))
    ratio = checks.at_least_zero("width", width) / checks.positive("radius", radius)
    needed = np.maximum(np.ceil(ratio**2 * log / 2), 1)
    return checks.counts("draws", needed, 1).astype(np.int64)


def bernstein_radius(
    draws: Numbers, variance: Numbers, width: Numbers, level: Numbers, *, sides: int = 2
) -> FloatArray:
    """The empirical Bernstein radius of Maurer and Pontil, for one fixed n.

    sqrt(2 V L / n) + 7 W L / (3 (n - 1)) with L = ln(2 sides / level), and never more than W.

    Args:
        draws: n.
        variance: V, the empirical variance with divisor n - 1, or an upper bound on it.
        width: W, of an interval in which all outcomes lie.
        level: probability of error.
        sides: 2 for |mean - truth|, 1 if one side is enough.
    """
    number, alpha = checks.counts("draws", draws, 1), checks.level(level)
    wide, spread = checks.at_least_zero("width", width), checks.at_least_zero("variance", variance)
    log = np.log(2 * checks.sides(sides) / alpha)
    with np.errstate(divide="ignore"):
        radius = np.sqrt(2 * spread * log / number) + 7 * wide * log / (3 * (number - 1))
    return np.where(number < 2, wide, np.minimum(radius, wide))


def epoch_radius(
    draws: Numbers, variance: Numbers, width: Numbers, level: Numbers, grid: Grid
) -> FloatArray:
    """:func:`bernstein_radius` at every size of a grid at once (B5 iii with F8).

    Valid at whichever epoch a rule stops that looked at the data; sizes off the grid are refused.
    """
    return bernstein_radius(draws, variance, width, grid.level(level, draws))


def anytime_radius(
    draws: Numbers, variance: Numbers, width: Numbers, level: Numbers, *, sides: int = 2
) -> FloatArray:
    """An empirical Bernstein radius for all n at once, from count, mean and variance alone.

    Let x be the outcomes minus their mean, |x| <= W, and bet_j = .95 2^-j / W with the share
    w_j = 1/((j+1)(j+2)) of the level. prod (1 +- bet_j x) are martingales, so with probability
    1 - level none ever exceeds sides / (w_j level) (Ville). As ln(1 + y) >= y - kap y^2 for
    y >= -c, with kap = (-ln(1-c) - c)/c^2, d = |mean - truth| satisfies, for all n and j,

        bet_j d <= ln(sides / (w_j level)) / n + kap_j bet_j^2 (V + d^2),    V with divisor n,

    so d is at most the smaller root of this quadratic or at least the larger. Small bets go
    first: each radius rules out the larger root of the next bet. A larger V gives a larger radius,
    so an upper bound will do. Without draws the radius is W. Where it is also known how far the
    drawn values are from their mean, :func:`~tensorplan.estimate.sampling_radius` is narrower.

    Args:
        draws: n, from 0.
        variance: V, the empirical variance (divisor n or n - 1), or an upper bound on it.
        width: W, of an interval in which all outcomes lie.
        level: probability of error, for all n together.
        sides: 2 for |mean - truth|, 1 if one side is enough.
    """
    number, alpha = checks.counts("draws", draws, 0), checks.level(level)
    wide = checks.at_least_zero("width", width)
    unit = np.where(wide > 0, wide, 1.0)
    spread = checks.at_least_zero("variance", variance) / unit**2
    log = np.log(checks.sides(sides) / alpha)
    radius = np.ones(np.broadcast_shapes(number.shape, alpha.shape, wide.shape, spread.shape))
    with np.errstate(divide="ignore"):
        inverse = 1 / number
    for scale in reversed(range(_SCALES)):
        bet = LARGEST_BET * 2.0**-scale
        loss = (-math.log1p(-bet) - bet) / bet
        cost = (log + math.log((scale + 1) * (scale + 2))) * inverse / bet + loss * spread
        square = 1 - 4 * loss * cost
        root = np.sqrt(np.maximum(square, 0))
        helps = (square > 0) & ((1 + root) / (2 * loss) > radius)
        radius = np.where(helps, np.minimum(radius, 2 * cost / (1 + root)), radius)
    return wide * radius
