"""The policy that follows a parameter by testing: its rollouts, and how it is executed (B0, F4).

At each state every available action is drawn a few times, and the one with the largest mean
temporal difference is played. Actions that are clearly behind after a quarter of the draws are not
drawn again. Rollouts that certify the policy and its execution are the same procedure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase

_MARGIN = 2.0
"""Standard errors of a difference by which an action is clearly behind."""

_FIRST = 4
"""The part of the draws that comes first: one in so many."""


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """Plays the action with the largest mean temporal difference at theta.

    Attributes:
        theta: [d].
        draws: m, of each action at each state.
        scale: standard deviation of a draw, as a guess; it decides which actions are drawn again.
    """

    theta: FloatArray
    draws: int
    scale: float

    def act(
        self, access: LocalAccess, handle: Handle, phase: Phase, key: Key
    ) -> tuple[IntArray, list[tuple[IntArray, Measurement]]]:
        """Actions for n states: [n], and what was measured of which of them."""
        first = max(2, self.draws // _FIRST)
        everyone = np.arange(handle.size)
        if first >= self.draws:
            whole = access.measure(handle, handle.stage, self.draws, phase=phase, key=(*key, 0))
            return self._errors(whole).argmax(axis=1), [(everyone, whole)]
        begun = access.measure(handle, handle.stage, first, phase=phase, key=(*key, 0))
        errors = self._errors(begun)
        margin = _MARGIN * self.scale * np.sqrt(2 / first)
        close: BoolArray = errors >= errors.max(axis=1, keepdims=True) - margin
        open_ = np.flatnonzero(close.sum(axis=1) > 1)
        measured = [(everyone, begun)]
        if len(open_):
            rest = access.measure(
                access.take(handle, open_),
                handle.stage,
                self.draws - first,
                phase=phase,
                key=(*key, 1),
                actions=close[open_],
            )
            both = first * errors[open_] + (self.draws - first) * self._errors(rest)
            errors[open_] = np.where(close[open_], both / self.draws, -np.inf)
            measured.append((open_, rest))
        return errors.argmax(axis=1), measured

    def _errors(self, measurement: Measurement) -> FloatArray:
        """Mean temporal differences at theta: [n, A]; -inf where nothing was drawn."""
        rows = measurement.rows
        errors = rows[:, :, 0] + rows[:, :, 1:] @ self.theta
        return np.where(measurement.measured, errors, -np.inf)
