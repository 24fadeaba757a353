"""Statistics: how far means can be from the truth, and how a level is spent; no simulators.

One idea per module: radii for means, radii by what is believed of the spread, confidence sequences,
a lower limit by a mixture of bets, exact binomial limits, spending of levels, the sequential
one-sided test, and floors to measure queries by. Everything works on whole
batches. Each docstring says when its bound holds: at one size fixed in advance, at the sizes of a
grid, or at any time.
"""

from tensorplan.estimate.binomial import binomial_lower, binomial_upper
from tensorplan.estimate.concentration import (
    anytime_radius,
    bernstein_radius,
    epoch_radius,
    hoeffding_draws,
    hoeffding_radius,
    vector_radius,
)
from tensorplan.estimate.floors import bernstein_floor, betting_floor, variance_floor
from tensorplan.estimate.mixture import betting_lower
from tensorplan.estimate.moments import Moments
from tensorplan.estimate.sequences import BernsteinSequence, BettingSequence
from tensorplan.estimate.sequential_test import (
    PassRule,
    SequentialTest,
    Verdict,
)
from tensorplan.estimate.spending import EpochRule, Grid, Ledger, epoch_share, index_level
from tensorplan.estimate.spreads import interval_variance, sampling_radius

__all__ = [
    "BernsteinSequence",
    "BettingSequence",
    "EpochRule",
    "Grid",
    "Ledger",
    "Moments",
    "PassRule",
    "SequentialTest",
    "Verdict",
    "anytime_radius",
    "bernstein_floor",
    "bernstein_radius",
    "betting_floor",
    "betting_lower",
    "binomial_lower",
    "binomial_upper",
    "epoch_radius",
    "epoch_share",
    "hoeffding_draws",
    "hoeffding_radius",
    "index_level",
    "interval_variance",
    "sampling_radius",
    "variance_floor",
    "vector_radius",
]
