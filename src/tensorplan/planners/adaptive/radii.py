"""How far a mean temporal difference can be from the truth at theta°, at any time (B2, B5, F1).

At theta° the errors x_t = Y_t - m of a critical state's consistent action have conditional mean 0
and |x_t| <= b, so for 0 < l < 1 / b the product of exp(l x_t - k(l b') l^2 x_t^2) with
k(y) = (-ln(1 - y) - y) / y^2 is a supermartingale (Fan, Grama and Liu; theory B5 iii), and

    |mean x| <= ln(2 J / zeta) / (l n) + k(l b') l (mean of x^2)

for J values of l, both signs and all n at once, with probability 1 - zeta. The mean of x^2 is the
empirical variance plus the square of the mean of x, which the bound itself limits. The draws
enter through their own spread at theta°, of which an upper bound over what is still believable is
enough; b' bounds the |x_t| that were drawn. Sizes need no grid: the bound holds at any n.
"""

from __future__ import annotations

import numpy as np

from tensorplan.records import FloatArray

BETS = 12
"""J, number of values of l: .95 2^-j / b for j < J."""

_LARGEST = 0.95
_ROUNDS = 4
_SEARCH = 24
_SMALL = 1e-3
"""Where k is taken from above its series, 1/2 + y/3 + y^2/4 + ..."""


def sampling_radius(
    count: FloatArray, variance: FloatArray, bound: float, level: float, reach: FloatArray
) -> FloatArray:
    """Bounds on |mean x| for some actions, each at the same level: [k].

    Args:
        count: [k], n.
        variance: [k], at least the empirical variance of the draws at theta°.
        bound: b, known before the draws.
        level: zeta.
        reach: [k], at least the largest distance of a drawn Y_t from the mean of all, at theta°.
    """
    bets = np.asarray(_LARGEST * 0.5 ** np.arange(BETS) / bound, np.float64)  # [J]
    price = np.log(2 * BETS / level) / (bets * count[:, None])  # [k, J]
    radius = np.full(len(count), bound)
    for _ in range(_ROUNDS):
        most = np.minimum(reach + radius, bound)  # x_t = (Y_t - mean Y) + mean x
        square = np.minimum(variance + radius**2, most**2)
        cost = _curvature(bets * most[:, None]) * bets * square[:, None]
        radius = np.minimum(radius, (price + cost).min(axis=1))
    return radius


def _curvature(y: FloatArray) -> FloatArray:
    """k(y) = (-ln(1 - y) - y) / y^2, which increases from 1/2 at 0."""
    small = y < _SMALL
    safe = np.where(small, 0.5, y)
    return np.where(small, 0.5 + y / 3 + y * y, (-np.log1p(-safe) - safe) / (safe * safe))


def interval_variance(ends: FloatArray, weights: FloatArray) -> FloatArray:
    """Largest variance of a value that lies in the j-th range with a given weight: [k].

    A variance is at most the mean square distance from any centre; over centres that is convex.

    Args:
        ends: [k, m, 2], ranges of k actions' answers.
        weights: [k, m], that add up to 1 for each action.
    """
    left: FloatArray = ends[:, :, 0].min(axis=1)
    right: FloatArray = ends[:, :, 1].max(axis=1)
    for _ in range(_SEARCH):
        third: FloatArray = (right - left) / 3
        nearer = _distance(ends, weights, left + third) < _distance(ends, weights, right - third)
        left = np.where(nearer, left, left + third)
        right = np.where(nearer, right - third, right)
    return _distance(ends, weights, 0.5 * (left + right))


def _distance(ends: FloatArray, weights: FloatArray, centre: FloatArray) -> FloatArray:
    """Mean of the largest square distances from a centre: [k]."""
    far = np.abs(ends - centre[:, None, None]).max(axis=2)
    return (weights * far**2).sum(axis=1)
