"""Count, mean and scatter of batches of draws, which is all that the sequential test needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.records import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Draws of many quantities, each with its own count; all arrays have one shape.

    Attributes:
        counts: how many draws.
        means: their mean; 0 without draws.
        scatter: sum of squared deviations from the mean.
    """

    counts: IntArray
    means: FloatArray
    scatter: FloatArray

    def __post_init__(self) -> None:
        """Refuse what no draws can give."""
        shapes = self.counts.shape, self.means.shape, self.scatter.shape
        if len(set(shapes)) > 1:
            raise SettingError(
                f"shapes {shapes}",
                "counts, means and scatter must have one shape",
                "Pass arrays with an entry for each quantity.",
            )
        good = (self.counts >= 0) & np.isfinite(self.means) & (self.scatter >= 0)
        if not np.all(good & np.isfinite(self.scatter)):
            raise SettingError(
                f"counts {self.counts[~good][:1]}, means {self.means[~good][:1]}, "
                f"scatter {self.scatter[~good][:1]}",
                "counts and scatter must be at least 0, and means finite",
                "Pass the moments of the draws; without draws all three are 0.",
            )

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Moments:
        """No draws yet."""
        return cls(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))

    @classmethod
    def of(cls, draws: FloatArray) -> Moments:
        """Of draws along the last axis: [..., m] gives shape [...]."""
        count = np.full(draws.shape[:-1], draws.shape[-1], np.int64)
        if not draws.shape[-1]:
            return cls.none(draws.shape[:-1])
        means = draws.mean(axis=-1)
        return cls(count, means, np.square(draws - means[..., None]).sum(axis=-1))

    @classmethod
    def along(
        cls, counts: IntArray, rows: FloatArray, covariances: FloatArray, direction: FloatArray
    ) -> Moments:
        """Of <row, u> for rows of which only mean and covariance were kept.

        Args:
            counts: [n, A], draws.
            rows: [n, A, D], mean rows (r, gamma phi' - phi).
            covariances: [n, A, D, D], empirical covariances of the rows with divisor n.
            direction: [D], u = (1, theta).
        """
        variances = np.einsum("...ij,i,j->...", covariances, direction, direction)
        means = np.where(counts > 0, rows @ direction, 0.0)
        return cls(counts, means, counts * np.maximum(variances, 0.0))

    def joined(self, more: Moments) -> Moments:
        """Of these draws and more (the update of Chan, Golub and LeVeque)."""
        counts = self.counts + more.counts
        share = more.counts / np.maximum(counts, 1)
        step = more.means - self.means
        means = self.means + step * share
        scatter = self.scatter + more.scatter + np.square(step) * share * self.counts
        return Moments(counts, means, scatter)

    @property
    def variances(self) -> FloatArray:
        """Empirical variances with divisor n - 1; infinite for fewer than two draws."""
        below = self.counts < 2
        return np.where(below, np.inf, self.scatter / np.maximum(self.counts - 1, 1))

    @property
    def spread(self) -> FloatArray:
        """Empirical variances with divisor n; 0 without draws."""
        return self.scatter / np.maximum(self.counts, 1)

    @property
    def errors(self) -> FloatArray:
        """Standard errors of the means; infinite for fewer than two draws."""
        return np.sqrt(self.variances / np.maximum(self.counts, 1))
