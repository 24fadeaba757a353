"""How the answers of a measurement spread: counts of distinct answers, or second moments.

A simulator with few successors answers in few ways, and counts of them say everything about its
draws. Where answers are many, as with continuous noise, the moments of up to
:data:`~tensorplan.local.MOST_MOMENTS` features are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tensorplan.local import MOST_MOMENTS, MOST_OUTCOMES
from tensorplan.records import BoolArray, FloatArray, IntArray, States, Step

_PROJECTION_SEED = 20210815
_REWARD, _END = 1.2345678912345, 0.7384625161


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct answers of some pairs.

    Attributes:
        pairs: [m], increasing.
        values: [m, 2 + d], whether the episode went on, the reward, the next features.
        counts: [m].
        states: [m, ...], the next state of one draw of each.
    """

    pairs: IntArray
    values: FloatArray
    counts: IntArray
    states: States


class Spread:
    """Gathers the draws of one measurement, in chunks.

    Args:
        dim: d.
        pairs: number of pairs of a state and an action.
    """

    def __init__(self, dim: int, pairs: int) -> None:
        # NOTE: equal answers have equal projections, so sorting by one number brings them together;
        # different ones that agree in two random projections do not occur.
        self._directions = np.random.default_rng(_PROJECTION_SEED).normal(size=(dim, 2))
        self._pairs = pairs
        self._found: Distinct | None = None
        self._few = True
        wide = dim > MOST_MOMENTS
        self._products = None if wide else np.zeros((pairs, 1 + dim, 1 + dim))

    def add(self, pairs: IntArray, ended: BoolArray, step: Step, following: FloatArray) -> None:
        """Take in a chunk of draws, sorted by their pairs.

        Args:
            pairs: [n].
            ended: [n].
            step: the answers.
            following: [n, d], features of the next states.
        """
        if self._few:
            chunk = self._grouped(pairs, ended, step, following)
            count = 1 + np.count_nonzero(np.diff(pairs))
            self._few = len(chunk.pairs) <= MOST_OUTCOMES * count
            if self._few:
                self._found = chunk if self._found is None else self._joined(self._found, chunk)
                return
            self._give_up()
        if self._products is not None:
            values = _as_rows(ended, step.rewards, following)
            self._add_products(pairs, values, np.ones(len(pairs)))

    def _grouped(
        self, pairs: IntArray, ended: BoolArray, step: Step, following: FloatArray
    ) -> Distinct:
        """The distinct answers of a chunk."""
        keys = following @ self._directions
        keys[:, 0] += step.rewards * _REWARD
        keys[:, 1] += ended * _END - step.rewards
        order = np.lexsort((keys[:, 1], keys[:, 0], pairs))
        pairs, keys = pairs[order], keys[order]
        begins = np.flatnonzero(
            np.r_[True, (np.diff(pairs) > 0) | np.diff(keys, axis=0).any(axis=1)]
        )
        rows = order[begins]
        values = _as_rows(ended[rows], step.rewards[rows], following[rows])
        counts = np.diff(np.r_[begins, len(order)])
        return Distinct(pairs[begins], values, counts, step.states[rows].copy())

    def distinct(self) -> Distinct | None:
        """The distinct answers, if they are few."""
        return self._found

    def seconds(self, measured: BoolArray, draws: int) -> FloatArray | None:
        """Means of products, if answers are many and features few: [n, A, 1 + d, 1 + d].

        Args:
            measured: [n, A], which pairs were drawn.
            draws: of each.
        """
        if self._few or self._products is None:
            return None
        means = np.zeros((*measured.shape, *self._products.shape[1:]))
        means[measured] = self._products / draws
        return means

    def _give_up(self) -> None:
        """Go over to moments."""
        if self._found is not None and self._products is not None:
            self._add_products(
                self._found.pairs, self._found.values, self._found.counts.astype(np.float64)
            )
        self._found = None

    def _add_products(self, pairs: IntArray, values: FloatArray, weights: FloatArray) -> None:
        assert self._products is not None
        bounds = np.flatnonzero(np.r_[True, np.diff(pairs) > 0, True])
        for first, last in pairwise(bounds.tolist()):
            own = values[first:last, 1:]
            self._products[pairs[first]] += (own * weights[first:last, None]).T @ own

    def _group(
        self, pairs: IntArray, values: FloatArray, counts: IntArray, states: States
    ) -> Distinct:
        """Equal answers of equal pairs, taken together."""
        keys = values[:, 2:] @ self._directions[:, 0] + values[:, 1] * _REWARD
        order = np.lexsort((values[:, 0], keys, pairs))
        pairs, values = pairs[order], values[order]
        differs = (np.diff(pairs) > 0) | (values[1:] != values[:-1]).any(axis=1)
        begins = np.flatnonzero(np.r_[True, differs])
        return Distinct(
            pairs[begins],
            values[begins],
            np.add.reduceat(counts[order], begins),
            states[order[begins]].copy(),
        )

    def _joined(self, first: Distinct, second: Distinct) -> Distinct:
        return self._group(
            np.concatenate([first.pairs, second.pairs]),
            np.concatenate([first.values, second.values]),
            np.concatenate([first.counts, second.counts]),
            np.concatenate([first.states, second.states]),
        )


def _as_rows(ended: BoolArray, rewards: FloatArray, following: FloatArray) -> FloatArray:
    """Rows of (went on, reward, next features): [n, 2 + d]."""
    live = (~ended).astype(np.float64)
    return np.concatenate([live[:, None], rewards[:, None], following], axis=1)
