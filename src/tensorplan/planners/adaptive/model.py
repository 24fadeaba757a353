"""The empirical model of tabular critical states: visits, values and the best policy in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.records import FloatArray, IntArray

_ROUNDS = 100
_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class Model:
    """The empirical model of the K critical states, and of m unopened ones behind them.

    Attributes:
        rewards: [K, A], mean; -inf where there is no action.
        moves: [K, A, K + m], probabilities of the next state, features' lengths and discount
            included.
        ends: [K + m, 2], range of the value of each.
        width: [K, A], radii of the slabs.
        counts: [K, A], draws.
        start: the critical state that the episode starts from.
    """

    rewards: FloatArray
    moves: FloatArray
    ends: FloatArray
    width: FloatArray
    counts: FloatArray
    start: int

    def visits(self, actions: IntArray) -> FloatArray:
        """Discounted visits from the start, of a choice of actions: [K + m]."""
        count = len(self.rewards)
        moves = self.moves[np.arange(count), actions]
        first = np.zeros(count)
        first[self.start] = 1.0
        inside = _solved(moves[:, :count].T, first)
        return np.concatenate([inside, moves[:, count:].T @ inside])

    def values(self, actions: IntArray, unseen: FloatArray) -> FloatArray:
        """Values in the model of a choice of actions, with given values of unopened states: [K]."""
        rows = np.arange(len(self.rewards))
        moves = self.moves[rows, actions]
        count = len(rows)
        sure = self.rewards[rows, actions] + moves[:, count:] @ unseen
        return _solved(moves[:, :count], sure)

    def best(self, unseen: FloatArray) -> IntArray:
        """The best actions in the model, by policy iteration: [K]."""
        rows = np.arange(len(self.rewards))
        actions: IntArray = self.rewards.argmax(axis=1)
        for _ in range(_ROUNDS):
            values = np.concatenate([self.values(actions, unseen), unseen])
            worth = self.rewards + self.moves @ values
            better: IntArray = worth.argmax(axis=1)
            gains = worth[rows, better] > worth[rows, actions] + _GAIN
            if not gains.any():
                break
            actions = np.where(gains, better, actions)
        return actions

    def optimistic(self) -> IntArray:
        """The actions that the upper ends of the ranges prefer: [K]."""
        return (self.rewards + self.width + self.moves @ self.ends[:, 1]).argmax(axis=1)


def _solved(moves: FloatArray, right: FloatArray) -> FloatArray:
    """x with x = right + moves x."""
    return np.asarray(np.linalg.solve(np.eye(len(right)) - moves, right), np.float64)
