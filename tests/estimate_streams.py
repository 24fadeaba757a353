"""Streams with known means, and the exact test that judges how often a bound missed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from tensorplan.records import BoolArray, FloatArray

ERROR_RATE = 1e-3
"""Of each statistical check: a right formula fails it so often, over seeds."""

Sampler = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def bernoulli(truth: float) -> Sampler:
    return lambda rng, shape: (rng.random(shape) < truth).astype(np.float64)


def three_point(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return rng.choice([0.0, 0.4, 1.0], shape, p=[0.2, 0.7, 0.1])


STREAMS: dict[str, tuple[Sampler, float]] = {
    **{f"bernoulli {truth}": (bernoulli(truth), truth) for truth in (0.5, 0.1, 0.01)},
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "three-point": (three_point, 0.38),
}


def exceeds(missed: BoolArray, level: float) -> bool:
    """Whether runs missed more often than the level allows, by an exact binomial test."""
    found = stats.binomtest(int(missed.sum()), missed.size, level, alternative="greater")
    return float(found.pvalue) < ERROR_RATE
