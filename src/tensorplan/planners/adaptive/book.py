"""The critical states of a run: their draws, their levels, and their slabs (B2, F1, F10).

Each state spends its level when it is opened, whatever becomes of its draws (F1.1): state i of the
run has 6 zeta / (pi^2 i^2). Later draws of the same actions go on with the same sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.estimate import interval_variance, sampling_radius
from tensorplan.hypotheses import CriticalState, Cuts
from tensorplan.local import Handle, Measurement
from tensorplan.planners.adaptive.samples import Sample, samples_of
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import FloatArray, IntArray

LATE = 0.01
"""Part of the level that is kept for states beyond those that share it evenly, where no more can be
opened: an interrupted run has spent levels on draws that it lost (F1.1)."""


@dataclass(frozen=True, eq=False)
class Spreads:
    """What is believed of the spread of each action's answers at theta°: [k] each.

    Attributes:
        variance: at least the empirical variance of R + gamma v(S').
        reach: at least the largest distance of one of its values from their mean.
    """

    variance: FloatArray
    reach: FloatArray


@dataclass(frozen=True, eq=False)
class Slab:
    """A critical state and its draws.

    Attributes:
        index: i, from 1 in the order in which states were opened.
        handle: of the one state.
        stage: h.
        features: [d].
        actions: [k], those that are available.
        samples: [k].
        radii: [k], half-widths of the slabs.
        following: handles of next states, with their features: [m, d] each.
    """

    index: int
    handle: Handle
    stage: int
    features: FloatArray
    actions: IntArray
    samples: tuple[Sample, ...]
    radii: FloatArray
    following: tuple[tuple[Handle, FloatArray], ...] = ()

    @property
    def counts(self) -> FloatArray:
        """Draws of each action: [k]."""
        return np.array([float(sample.count) for sample in self.samples])

    def rows(self, discount: float) -> FloatArray:
        """Temporal-difference rows: [k, 1 + d]."""
        return np.array([sample.row(self.features, discount) for sample in self.samples])

    def state(self, discount: float) -> CriticalState:
        """The slabs."""
        return CriticalState(self.stage, self.rows(discount), self.radii, self.features)

    def with_draws(self, measurement: Measurement) -> Slab:
        """The state after more draws of some actions."""
        more = samples_of(measurement, 0)
        samples = tuple(
            sample.joined(more[action]) if action in more else sample
            for action, sample in zip(self.actions.tolist(), self.samples, strict=True)
        )
        return replace(
            self,
            samples=samples,
            following=(*self.following, *_following(measurement)),
        )


def open_slab(index: int, handle: Handle, measurement: Measurement) -> Slab:
    """A critical state from its first draws; its radii are still to be found."""
    found = samples_of(measurement, 0)
    return Slab(
        index=index,
        handle=handle,
        stage=handle.stage,
        features=measurement.features[0],
        actions=np.array(sorted(found), np.int64),
        samples=tuple(found[action] for action in sorted(found)),
        radii=np.full(len(found), math.inf),
        following=_following(measurement),
    )


def _following(measurement: Measurement) -> tuple[tuple[Handle, FloatArray], ...]:
    """Handles of the next states, where they are few."""
    outcomes = measurement.outcomes
    if outcomes is None:
        return ()
    return ((outcomes.states, outcomes.values[:, 1:]),)


@dataclass(frozen=True)
class Book:
    """Levels and radii of one run.

    Attributes:
        resolved: what is run.
        level: zeta_1, of all slabs together.
        even: how many states share half of the level evenly, the others the rest; nearly all of
            it, if ``closed``.
        closed: whether no more states than that can be opened.
    """

    resolved: Resolved
    level: float
    even: int = 0
    closed: bool = False

    def level_of(self, index: int) -> float:
        """Level of state i; over all states they add up to zeta_1 at most."""
        late = 1.0 if not self.even else LATE if self.closed else 0.5
        if index <= self.even:
            share = (1 - late) * self.level / self.even
        else:
            share = 6 * late * self.level / (math.pi**2 * (index - self.even) ** 2)
        # In the mode of v*, every action's error counts, so every action gets its part (B4).
        return share / self.resolved.spec.actions if self.resolved.bellman else share

    def bound(self, stage: int) -> float:
        """b: how far R + gamma v(S'; theta°) can be from its mean at a stage (F1.6).

        Features have norm 1 at most, so values at theta° lie in [-B, B], too.
        """
        resolved, norm = self.resolved, self.resolved.norm
        ranges, after = resolved.ranges, resolved.ranges.after(stage)
        low, high = max(ranges.low(after), -norm), min(ranges.high(after), norm)
        if ranges.may_terminate or resolved.spec.horizon == stage:
            low, high = min(low, 0.0), max(high, 0.0)
        high = max(low, high)  # Where B is too small for the least value, no parameter is left.
        width = ranges.reward_high - ranges.reward_low + ranges.discount * (high - low)
        return min(width, ranges.width(stage)) + 2 * ranges.discount * resolved.eta

    def with_radii(self, slab: Slab, spreads: Spreads) -> Slab:
        """The state with the radii that its draws and their spread justify."""
        radius = sampling_radius(
            slab.counts,
            spreads.variance,
            self.bound(slab.stage),
            self.level_of(slab.index),
            spreads.reach,
        )
        # The radius is about R + gamma v(S'; theta°), so the rest is an expectation: it takes the
        # chance that the episode goes on, not the fraction of draws after which it did (F10.2).
        last = slab.stage == self.resolved.spec.horizon
        return replace(slab, radii=radius + self.resolved.slack(0.0 if last else 1.0))

    @property
    def leans_on_norm(self) -> bool:
        """Whether some radius is smaller because of the norm bound B."""
        ranges, norm = self.resolved.ranges, self.resolved.norm
        return norm < max(ranges.high(1), -ranges.low(1))

    def widest(self, slab: Slab) -> Spreads:
        """What ranges of values alone say of the spread."""
        width = self.bound(slab.stage)
        full = np.full(len(slab.samples), width)
        return Spreads(full**2 / 4, full)

    def next_values(self, slab: Slab) -> tuple[float, float]:
        """Range of v at the states that follow."""
        ranges, eta = self.resolved.ranges, self.resolved.eta
        after = ranges.after(slab.stage)
        return ranges.low(after) - eta, ranges.high(after) + eta

    def cuts(self, slab: Slab) -> Cuts:
        """Range cuts of the state itself and of what followed (F10.3); they spend no level."""
        ranges, eta = self.resolved.ranges, self.resolved.eta
        low, high = self.next_values(slab)
        normals = [slab.features]
        lows, highs = [ranges.low(slab.stage) - eta], [ranges.high(slab.stage) + eta]
        for sample in slab.samples:
            if sample.values is None:
                normals.append(sample.mean[2:])
                lows.append(sample.live * low)
                highs.append(sample.live * high)
                continue
            for value in sample.values[sample.values[:, 0] > 0]:
                normals.append(value[2:])
                lows.append(low)
                highs.append(high)
        return Cuts(np.array(normals), np.array(lows), np.array(highs))


def box_spread(
    slab: Slab, discount: float, box: FloatArray, low: float, high: float
) -> Spreads | None:
    """The spread that ranges of theta's entries allow; None if features are not along the axes.

    Args:
        slab: the state.
        discount: gamma.
        box: [d, 2].
        low: least value of a next state.
        high: largest value of a next state.
    """
    most = max(0 if s.values is None else len(s.values) for s in slab.samples)
    weights = np.zeros((len(slab.samples), most))
    ends = np.zeros((*weights.shape, 2))
    for place, sample in enumerate(slab.samples):
        if sample.values is None or sample.counts is None:
            return None
        live, rewards, after = sample.values[:, 0] > 0, sample.values[:, 1], sample.values[:, 2:]
        axes = after.argmax(axis=1)
        lengths = after[np.arange(len(axes)), axes]
        if np.any(after.sum(axis=1) != lengths) or np.any(after < 0):
            return None
        own = np.clip(lengths[:, None] * box[axes], low, high)
        own = rewards[:, None] + discount * np.where(live[:, None], own, 0.0)
        ends[place, : len(own)], ends[place, len(own) :] = own, own[:1]
        weights[place, : len(own)] = sample.counts / sample.count
    reach = ends[:, :, 1].max(axis=1) - ends[:, :, 0].min(axis=1)
    return Spreads(interval_variance(ends, weights), reach)
