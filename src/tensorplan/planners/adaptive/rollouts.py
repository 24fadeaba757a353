"""Batches of rollouts in lockstep, numbered in advance, each to its own end (F4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.ranges import ValueRanges
from tensorplan.records import FloatArray, IntArray, Phase


class RolloutPolicy(Protocol):
    """Plays states that it holds by handles; the same in rollouts and in execution."""

    def act(
        self, access: LocalAccess, handle: Handle, phase: Phase, key: Key
    ) -> tuple[IntArray, list[tuple[IntArray, Measurement]]]:
        """Actions for n states: [n], and what was measured of which of them."""
        ...


@dataclass(frozen=True, eq=False)
class Visits:
    """States that rollouts met at one stage, and what was drawn there.

    Attributes:
        handle: of the n states.
        features: [n, d].
        mean: [n, A, 2 + d], means of (went on, reward, next features).
        counts: [n, A], draws.
    """

    handle: Handle
    features: FloatArray
    mean: FloatArray
    counts: IntArray

    def errors(self, theta: FloatArray, discount: float) -> FloatArray:
        """Mean temporal differences: [n, A]; -inf where nothing was drawn."""
        ahead = self.mean[:, :, 1] + discount * (self.mean[:, :, 2:] @ theta)
        errors = ahead - (self.features @ theta)[:, None]
        return np.where(self.counts > 0, errors, -np.inf)


@dataclass(frozen=True, eq=False)
class Batch:
    """Finished rollouts.

    Attributes:
        returns: [n], in the order of their numbers, each at least its lower value (F10.7).
        visits: what was met at each stage, if it was kept.
    """

    returns: FloatArray
    visits: tuple[Visits, ...]


def rollout_length(ranges: ValueRanges, tail: float) -> int:
    """Stages of a rollout: the horizon, or so many that the rest is worth at most ``tail``."""
    if ranges.horizon is not None:
        return ranges.horizon
    width = ranges.high(1) - ranges.low(1)
    if ranges.discount == 0 or width <= tail:
        return 1
    return max(1, math.ceil(math.log(tail / width) / math.log(ranges.discount)))


def roll(
    access: LocalAccess,
    start: Handle,
    policy: RolloutPolicy,
    count: int,
    *,
    length: int,
    phase: Phase,
    key: Key,
    watch: Callable[[Visits], bool] | None = None,
) -> Batch:
    """Roll out a policy from one state.

    Args:
        access: local access.
        start: a handle of the one start state.
        policy: what to play.
        count: how many rollouts.
        length: most stages.
        phase: what tests are spent on; steps are spent on rolling forward.
        key: names the batch.
        watch: sees what was met and drawn at each stage, which is then kept; the batch is broken
            off when it returns False.
    """
    ranges = ValueRanges.of(access.spec)
    here = access.take(start, np.zeros(count, np.int64))
    alive = np.arange(count)
    returns = np.zeros(count)
    visits: list[Visits] = []
    weight = 1.0
    for step in range(length):
        actions, measured = policy.act(access, here, phase, (*key, step))
        if watch is not None:
            visits.append(_visits(access, here, measured))
            if not watch(visits[-1]):
                break
        moved = access.advance(here, here.stage, actions, phase=Phase.FORWARD, key=(*key, step))
        returns[alive] += weight * moved.rewards
        weight *= access.spec.discount
        on = np.flatnonzero(~moved.terminated)
        alive, here = alive[on], access.take(moved.states, on)
        if not len(on):
            break
    if len(alive):
        left = None if ranges.horizon is None else ranges.horizon - here.stage + 1
        returns[alive] += weight * ranges.least * ranges.summed(left)
    return Batch(returns, tuple(visits))


def _visits(
    access: LocalAccess, handle: Handle, measured: list[tuple[IntArray, Measurement]]
) -> Visits:
    """What was drawn at some states, the parts taken together."""
    spec = access.spec
    total = np.zeros((handle.size, spec.actions, 2 + spec.dim))
    counts = np.zeros((handle.size, spec.actions), np.int64)
    for rows, part in measured:
        assert part.live is not None
        mean = np.concatenate(
            [part.live[:, :, None], part.rewards[:, :, None], part.next_features], axis=2
        )
        total[rows] += np.where(part.measured[:, :, None], part.draws * mean, 0.0)
        counts[rows] += np.where(part.measured, part.draws, 0)
    mean = total / np.maximum(counts, 1)[:, :, None]
    return Visits(handle, access.features(handle), mean, counts)
