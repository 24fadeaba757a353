"""The planner that looks one step ahead."""

from __future__ import annotations

import numpy as np

from tensorplan.local import Handle, LocalAccess
from tensorplan.records import FloatArray, IntArray, Phase


class Lookahead:
    """Tries actions and plays the one with the best mean reward among those it tried.

    The budget goes round the available actions in a random order, once only where the process is
    deterministic. Ties are broken at random. With a budget of 0 every action is a tie.

    Args:
        seed: of the order and of the ties.
        budget: largest number of queries in a call.
    """

    def __init__(self, seed: int, budget: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._budget = budget

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        """The best of the actions that were tried."""
        order = self._rng.permutation(np.flatnonzero(access.allowed(here)[0]))
        draws = min(self._budget, len(order)) if access.spec.deterministic else self._budget
        if draws == 0:
            return int(order[0])
        tried = np.resize(order, draws)
        rewards = self._rewards(access, here, tried, call)
        sums = np.bincount(tried, weights=rewards, minlength=access.spec.actions)
        counts = np.bincount(tried, minlength=access.spec.actions)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
        return int(self._rng.choice(np.flatnonzero(means == means.max())))

    def _rewards(self, access: LocalAccess, here: Handle, tried: IntArray, call: int) -> FloatArray:
        copies = access.take(here, np.zeros(len(tried), np.int64))
        return access.advance(copies, here.stage, tried, phase=Phase.ACT, key=(call,)).rewards
