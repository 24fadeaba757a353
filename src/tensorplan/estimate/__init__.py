"""Statistics: how far means can be from the truth, and how a level is spent; no simulators.

One idea per module: radii for means, confidence sequences, exact binomial limits, spending of
levels, the sequential one-sided test, and floors to measure queries by. Everything works on whole
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
    slab_radius,
    vector_radius,
)
from tensorplan.estimate.floors import bernstein_floor, betting_floor, variance_floor
from tensorplan.estimate.moments import Moments
from tensorplan.estimate.sequences import BernsteinSequence, BettingSequence
from tensorplan.estimate.sequential_test import (
    PassRule,
    Screening,
    SequentialTest,
    Verdict,
    screen,
)
from tensorplan.estimate.spending import EpochRule, Grid, Ledger, epoch_share, index_level

__all__ = [
    "BernsteinSequence",
    "BettingSequence",
    "EpochRule",
    "Grid",
    "Ledger",
    "Moments",
    "PassRule",
    "Screening",
    "SequentialTest",
    "Verdict",
    "anytime_radius",
    "bernstein_floor",
    "bernstein_radius",
    "betting_floor",
    "binomial_lower",
    "binomial_upper",
    "epoch_radius",
    "epoch_share",
    "hoeffding_draws",
    "hoeffding_radius",
    "index_level",
    "screen",
    "slab_radius",
    "variance_floor",
    "vector_radius",
]
