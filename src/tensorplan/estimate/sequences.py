"""Confidence sequences: limits for a mean that hold at all times at once, wherever one stops.

Streams have values in [low, high] and, given the past, means equal to the truth. A *lower* limit
stays valid where the conditional means are at most the truth, as for rollouts that were cut short
and count a lower value (F4); an upper one then does not. Values must be appended in an order that
was fixed before they were drawn. The level is part of the state: it tunes the bets, and a level
that is chosen after the data were seen is covered by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.estimate import checks
from tensorplan.estimate.concentration import LARGEST_BET
from tensorplan.records import SLACK, BoolArray, FloatArray, settle, whole

_EB_BET: Final = 0.5  # cap of the bets of the empirical Bernstein sequence (B5 iii)
_HALVINGS: Final = 48  # bisections of the unit interval
_LOG_SLACK: Final = 1e-12  # relative rounding error that a sum of logarithms is granted


class _Prediction(NamedTuple):
    """Mean and variance as they were predicted before each value: two arrays [..., t]."""

    means: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class _PlugIn:
    """mu_t = (1/2 + sum x) / (t + 1), sigma_t^2 = (1/4 + sum (x_i - mu_i)^2) / (t + 1)."""

    count: int
    total: FloatArray
    squares: FloatArray

    def advanced(self, values: FloatArray) -> tuple[_PlugIn, _Prediction]:
        """After values [..., t] in [0, 1], and what was predicted before each of them."""
        times = _times(self.count, values) + 1
        totals = self.total[..., None] + np.cumsum(values, axis=-1)
        means = (0.5 + totals) / times
        squares = self.squares[..., None] + np.cumsum(np.square(values - means), axis=-1)
        variances = (0.25 + squares) / times
        now = (0.5 + self.total) / (self.count + 1), (0.25 + self.squares) / (self.count + 1)
        before = _Prediction(_delayed(now[0], means), _delayed(now[1], variances))
        count = self.count + values.shape[-1]
        return _PlugIn(count, totals[..., -1], squares[..., -1]), before


def _times(count: int, values: FloatArray) -> FloatArray:
    """The times count + 1, count + 2, ... of further values [..., t]."""
    return count + np.arange(1, values.shape[-1] + 1, dtype=np.float64)


def _delayed(first: FloatArray, values: FloatArray) -> FloatArray:
    return np.concatenate([first[..., None], values[..., :-1]], axis=-1)


@dataclass(frozen=True, eq=False)
class _Stream:
    """What every confidence sequence knows: range, level, and the running predictions."""

    low: float
    high: float
    level: float
    plug_in: _PlugIn

    @property
    def count(self) -> int:
        """How many values each stream has had."""
        return self.plug_in.count

    def unit(self, values: FloatArray) -> FloatArray:
        """Values [..., t] scaled to [0, 1], if they are in the range up to rounding."""
        shape = self.plug_in.total.shape
        if values.shape[:-1] != shape or not values.ndim:
            raise SettingError(
                f"values of shape {values.shape}",
                f"streams of shape {shape} take values of shape {(*shape, 't')}",
                "Put time on the last axis.",
            )
        scaled = (values - self.low) / (self.high - self.low)
        inside = (scaled >= -SLACK) & (scaled <= 1 + SLACK)
        if not np.all(inside):
            raise SettingError(
                f"value {values[~inside][0]}",
                f"values lie in [{self.low}, {self.high}], the range that the bound is made for",
                "Start the sequence with the range that the returns can have (F10.7).",
            )
        return np.clip(scaled, 0.0, 1.0)

    def scaled_back(self, values: FloatArray) -> FloatArray:
        """From [0, 1] to the range of the values."""
        return self.low + (self.high - self.low) * values


def _begin(low: float, high: float, level: float, shape: tuple[int, ...]) -> _PlugIn:
    checks.interval(low, high)
    checks.level(level)
    return _PlugIn(0, np.zeros(shape), np.zeros(shape))


@dataclass(frozen=True, eq=False)
class BernsteinSequence(_Stream):
    """The predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas (B5 iii).

    With bets l_t = min(1/2, sqrt(2 ln(2/level) / (sigma_{t-1}^2 t ln(1+t)))), the interval at t is
    sum(l x) / sum(l) -+ (ln(2/level) + sum (x - mu_{t-1})^2 (-ln(1-l) - l)) / sum(l), and all of
    them are intersected. It is two-sided at the level, and each side alone holds at half of it.

    Attributes:
        low: smallest possible value.
        high: largest possible value.
        level: probability that the truth ever lies outside.
        weights: sum of the bets.
        weighted: sum of bets times values.
        penalty: sum of (x - mu)^2 (-ln(1-l) - l).
        limits: the intersection so far, in [0, 1].
    """

    weights: FloatArray
    weighted: FloatArray
    penalty: FloatArray
    limits: tuple[FloatArray, FloatArray]

    @classmethod
    def start(
        cls, low: float, high: float, level: float, shape: tuple[int, ...] = ()
    ) -> BernsteinSequence:
        """Sequences without values, one for each entry of a shape."""
        plug_in, zero = _begin(low, high, level, shape), np.zeros(shape)
        return cls(low, high, level, plug_in, zero, zero, zero, (zero, np.ones(shape)))

    def update(self, values: FloatArray) -> BernsteinSequence:
        """After more values: [..., t]."""
        unit = self.unit(values)
        if not unit.shape[-1]:
            return self
        plug_in, before = self.plug_in.advanced(unit)
        log = np.log(2 / self.level)
        bets = np.minimum(_EB_BET, _bets(log, before.variances, self.count))
        losses = np.square(unit - before.means) * (-np.log1p(-bets) - bets)
        weights = self.weights[..., None] + np.cumsum(bets, axis=-1)
        weighted = self.weighted[..., None] + np.cumsum(bets * unit, axis=-1)
        penalty = self.penalty[..., None] + np.cumsum(losses, axis=-1)
        centre, radius = weighted / weights, (log + penalty) / weights
        lower = np.maximum(self.limits[0], (centre - radius).max(axis=-1))
        upper = np.minimum(self.limits[1], (centre + radius).min(axis=-1))
        sums = weights[..., -1], weighted[..., -1], penalty[..., -1]
        ends = (lower, upper)
        return BernsteinSequence(self.low, self.high, self.level, plug_in, *sums, ends)

    @property
    def lower(self) -> FloatArray:
        """Lower limits: the shape of the streams."""
        return self.scaled_back(self.limits[0])

    @property
    def upper(self) -> FloatArray:
        """Upper limits; below the lower one with probability at most the level."""
        return self.scaled_back(self.limits[1])


def _bets(log: float, variances: FloatArray, count: int, planned: int | None = None) -> FloatArray:
    """sqrt(2 log / (sigma_{t-1}^2 t ln(1+t))) for t = count + 1, ...; decided before x_t."""
    times = _times(count, variances)
    clock = times * np.log1p(times)
    if planned is not None:
        clock = np.where(times <= planned, float(planned), clock)
    return np.sqrt(2 * log / (variances * clock))


@dataclass(frozen=True, eq=False)
class BettingSequence(_Stream):
    """A lower limit for a mean by betting that it is larger than each candidate m.

    Values scaled to [0, 1], bets l_t >= 0 as above with ln(1/level), which see the past only, and
    the capital K_t(m) = prod (1 + min(l_i, c/m) (x_i - m)) with c = .95.

    *Valid.* The factors are at least 1 - c > 0 and, given the past, have mean at most 1 at m = the
    truth or above, so Pr(some K_t(truth) >= 1/level) <= level (Ville).
    *Monotone.* min(l, c/m)(x - m) is l(x - m) for m <= c/l and c x/m - c beyond: continuous, and
    it never increases with m. Hence neither do K_t(m) and max_t K_t(m), the m that some K_t has
    rejected are all those up to a point, and bisection finds it.

    For an upper limit bet on the negated values. Memory and time grow linearly with the values.

    Attributes:
        low: smallest possible value.
        high: largest possible value.
        level: probability that the truth is ever below the limit.
        planned: how many values are planned, if known in advance: the bets are then tuned to it.
            Valid whatever comes; sharper near the plan, blunter far before it.
    """

    planned: int | None = None
    _values: tuple[FloatArray, ...] = field(default=(), repr=False)
    _stakes: tuple[FloatArray, ...] = field(default=(), repr=False)

    @classmethod
    def start(
        cls,
        low: float,
        high: float,
        level: float,
        shape: tuple[int, ...] = (),
        *,
        planned: int | None = None,
    ) -> BettingSequence:
        """Sequences without values, one for each entry of a shape."""
        state = cls(low, high, level, _begin(low, high, level, shape), planned)
        rule = "a whole number, at least 1"
        settle(state, "planned", whole(planned, 1), rule, optional=True)
        return state

    def update(self, values: FloatArray) -> BettingSequence:
        """After more values: [..., t]."""
        unit = self.unit(values)
        if not unit.shape[-1]:
            return self
        plug_in, before = self.plug_in.advanced(unit)
        stakes = _bets(-np.log(self.level), before.variances, self.count, self.planned)
        kept, staked = (*self._values, unit), (*self._stakes, stakes)
        return replace(self, plug_in=plug_in, _values=kept, _stakes=staked)

    @property
    def lower(self) -> FloatArray:
        """Lower limits: the shape of the streams."""
        shape = self.plug_in.total.shape
        low, high = np.zeros(shape), np.ones(shape)
        if not self._values:
            return self.scaled_back(low)
        values = np.concatenate(self._values, axis=-1)
        stakes = np.concatenate(self._stakes, axis=-1)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            rejected = self._rejects(middle, values, stakes)
            low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
        return self.scaled_back(low)

    def _rejects(self, mean: FloatArray, values: FloatArray, stakes: FloatArray) -> BoolArray:
        """Whether the capital against each mean was ever 1/level or more."""
        bets = np.minimum(stakes, (LARGEST_BET / mean)[..., None])
        capital = np.cumsum(np.log1p(bets * (values - mean[..., None])), axis=-1)
        needed = -np.log(self.level)
        return np.any(capital >= needed + _LOG_SLACK * (needed + _times(0, values)), axis=-1)
