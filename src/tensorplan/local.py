"""The vocabulary of local access: what planners hold, ask and get (the paper's Section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensorplan.records import BoolArray, FloatArray, IntArray, Phase, Queries, Spec

Key = tuple[int, ...]
"""Names a query among those of one episode: iteration or draw index, batch, epoch, ..."""


class Handle:
    """A batch of states at one stage, known to a planner by this object alone."""

    __slots__ = ("__weakref__", "_size", "_stage")

    def __init__(self, size: int, stage: int) -> None:
        self._size, self._stage = size, stage

    @property
    def size(self) -> int:
        """Number of states."""
        return self._size

    @property
    def stage(self) -> int:
        """Stage at which they were reached."""
        return self._stage

    def __len__(self) -> int:
        return self._size


MOST_OUTCOMES = 32
"""Distinct answers of one action up to which draws are kept as counts of answers."""

MOST_MOMENTS = 64
"""Dimension of the features up to which second moments of draws are kept."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The m distinct answers among the draws of a measurement.

    Attributes:
        pairs: [m], the pair of a state i and an action a as the number i A + a, increasing.
        values: [m, 1 + d], the reward and the features of the next state.
        counts: [m], how often each was drawn.
        live: [m], whether the episode went on.
        states: a handle of the m next states.
    """

    pairs: IntArray
    values: FloatArray
    counts: IntArray
    live: BoolArray
    states: Handle


@dataclass(frozen=True)
class Measurement:
    """Means of fresh draws: Algorithm 2 of the paper for a batch of n states.

    Attributes:
        rewards: [n, A] mean reward; 0 where nothing was drawn.
        next_features: [n, A, d] mean features of the next state, zeros for ended episodes.
        features: [n, d] of the states themselves.
        measured: [n, A], which pairs were drawn.
        draws: draws per pair.
        discount: weight of the next state.
        live: [n, A], fraction of the draws after which the episode went on.
        outcomes: the distinct answers, if they were asked for and are few.
        seconds: [n, A, 1 + d, 1 + d], means of the products of (reward, next features) with
            themselves, if details were asked for and the answers are many.
    """

    rewards: FloatArray
    next_features: FloatArray
    features: FloatArray
    measured: BoolArray
    draws: int
    discount: float
    live: FloatArray | None = None
    outcomes: Outcomes | None = None
    seconds: FloatArray | None = None

    @property
    def rows(self) -> FloatArray:
        """Temporal-difference rows (r, gamma phi' - phi): [n, A, d + 1]; zeros if not drawn."""
        difference = self.discount * self.next_features - self.features[:, None, :]
        rows = np.concatenate([self.rewards[:, :, None], difference], axis=2)
        return np.where(self.measured[:, :, None], rows, 0.0)


@dataclass(frozen=True)
class Transition:
    """One fresh draw for each of n states.

    Attributes:
        rewards: [n].
        states: handle of the n next states, one stage on.
        terminated: [n], whether the episode ended: by the simulator, or after stage H.
    """

    rewards: FloatArray
    states: Handle
    terminated: BoolArray


class LocalAccess(Protocol):
    """What a planner may do: ask about handles. It cannot make or open one."""

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        ...

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        ...

    def take(self, handle: Handle, rows: IntArray | Sequence[int]) -> Handle:
        """A handle for some of the states of another."""
        ...

    def features(self, handle: Handle) -> FloatArray:
        """Features of the states: [n, d]; zeros where the episode has ended."""
        ...

    def allowed(self, handle: Handle) -> BoolArray:
        """Which actions are available: [n, A]."""
        ...

    def measure(
        self,
        handle: Handle,
        stage: int,
        draws: int,
        *,
        phase: Phase,
        key: Key,
        actions: BoolArray | None = None,
        detail: bool = False,
    ) -> Measurement:
        """Mean of fresh draws for every available action of every state (Algorithm 2)."""
        ...

    def advance(
        self,
        handle: Handle,
        stage: int,
        actions: IntArray | Sequence[int],
        *,
        phase: Phase,
        key: Key,
    ) -> Transition:
        """One fresh draw for each state; the planner gets a handle of the next states."""
        ...
