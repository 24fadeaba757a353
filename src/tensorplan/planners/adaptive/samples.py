"""All draws of one action at one critical state, as counts of answers or as moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.local import MOST_OUTCOMES, Measurement
from tensorplan.records import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Draws of (went on, reward, next features) of one action.

    Attributes:
        count: n.
        mean: [2 + d].
        values: [m, 2 + d], the distinct answers; None if they are many.
        counts: [m], of them.
        seconds: [1 + d, 1 + d], mean of the products of (reward, next features); None if they are
            not known.
    """

    count: int
    mean: FloatArray
    values: FloatArray | None = None
    counts: FloatArray | None = None
    seconds: FloatArray | None = None

    @property
    def live(self) -> float:
        """w, the fraction of draws after which the episode went on."""
        return float(self.mean[0])

    def row(self, features: FloatArray, discount: float) -> FloatArray:
        """The temporal-difference row (r, gamma phi' - phi): [1 + d]."""
        return np.concatenate([self.mean[1:2], discount * self.mean[2:] - features])

    def products(self) -> FloatArray | None:
        """Mean of the products of (reward, next features), where they are known."""
        if self.values is None or self.counts is None:
            return self.seconds
        own = self.values[:, 1:]
        return (own * (self.counts / self.count)[:, None]).T @ own

    def covariance(self, discount: float) -> FloatArray | None:
        """Empirical covariance of (R, gamma phi'): [1 + d, 1 + d], where it is known."""
        products = self.products()
        if products is None:
            return None
        weights = np.full(len(products), discount)
        weights[0] = 1.0
        centre = self.mean[1:]
        return (products - np.outer(centre, centre)) * np.outer(weights, weights)

    def joined(self, more: Sample) -> Sample:
        """These draws and more."""
        count = self.count + more.count
        mean = (self.count * self.mean + more.count * more.mean) / count
        merged = _merged(self, more)
        if merged is not None:
            return Sample(count, mean, *merged)
        first, second = self.products(), more.products()
        if first is None or second is None:
            return Sample(count, mean)
        return Sample(count, mean, seconds=(self.count * first + more.count * second) / count)


def _merged(first: Sample, second: Sample) -> tuple[FloatArray, FloatArray] | None:
    """Distinct answers of both, while they are few."""
    if first.values is None or second.values is None:
        return None
    assert first.counts is not None
    assert second.counts is not None
    values = np.concatenate([first.values, second.values])
    rows, where = np.unique(values, axis=0, return_inverse=True)
    if len(rows) > MOST_OUTCOMES:
        return None
    drawn = np.concatenate([first.counts, second.counts])
    counts = np.zeros(len(rows))
    np.add.at(counts, where.ravel(), drawn)
    return rows, counts


def samples_of(measurement: Measurement, state: int) -> dict[int, Sample]:
    """The draws of every measured action of one state.

    Args:
        measurement: with details.
        state: its number in the batch.
    """
    assert measurement.live is not None
    found: dict[int, Sample] = {}
    actions = measurement.measured.shape[1]
    for action in np.flatnonzero(measurement.measured[state]).tolist():
        mean = np.concatenate(
            [
                measurement.live[state, action : action + 1],
                measurement.rewards[state, action : action + 1],
                measurement.next_features[state, action],
            ]
        )
        values = counts = seconds = None
        if measurement.outcomes is not None:
            own: BoolArray = measurement.outcomes.pairs == state * actions + action
            live = measurement.outcomes.live[own].astype(np.float64)
            values = np.column_stack([live, measurement.outcomes.values[own]])
            counts = measurement.outcomes.counts[own].astype(np.float64)
        elif measurement.seconds is not None:
            seconds = measurement.seconds[state, action]
        found[action] = Sample(measurement.draws, mean, values, counts, seconds)
    return found
