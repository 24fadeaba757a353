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
from tensorplan.records import BoolArray, FloatArray, IntArray, States

_PROJECTION_SEED = 20210815


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
        # NOTE: equal answers have equal projections, so sorting by one number brings them together.
        self._direction = np.random.default_rng(_PROJECTION_SEED).normal(size=2 + dim)
        self._pairs = pairs
        self._found: Distinct | None = None
        self._few = True
        wide = dim > MOST_MOMENTS
        self._products = None if wide else np.zeros((pairs, 1 + dim, 1 + dim))

    def add(self, pairs: IntArray, values: FloatArray, states: States) -> None:
        """Take in a chunk of draws, sorted by their pairs."""
        if self._few:
            chunk = self._group(pairs, values, np.ones(len(pairs), np.int64), states)
            self._few = len(chunk.pairs) <= MOST_OUTCOMES * len(np.unique(pairs))
            if self._few:
                self._found = chunk if self._found is None else self._joined(self._found, chunk)
                return
            self._give_up()
        if self._products is not None:
            self._add_products(pairs, values, np.ones(len(pairs)))

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
        order = np.lexsort((values @ self._direction, pairs))
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
